//! Sessions, as the calls that are stored tell of them.
//!
//! *Invariant:* the table `sessions` is kept by triggers, whoever writes to `calls`. A cursor is the number of the latest call of
//! the last session that was listed. The agents of a session and its last activity are those of all its calls, also of those that
//! were deleted.

use rusqlite::{Connection, Row};
use serde_json::Value;
use toolgate_model::{SessionId, SessionKey, Timestamp};

use super::error::{decode, unsigned};
use super::query::{Query, have_few};
use crate::overlay::Overlay;
use crate::{ENDED, Page, PageRequest, SessionFilter, SessionSummary, StoreError};

const COLUMNS: &str = "
    SELECT number, workspace, session, agents, first, newest, active, calls, unfinished,
        (SELECT count(*) FROM calls AS open INDEXED BY calls_unfinished WHERE open.ended IS NULL AND open.state = 'waiting'
            AND open.workspace = sessions.workspace AND open.session = sessions.session) AS waiting,
        (SELECT value FROM facts WHERE facts.workspace = sessions.workspace AND facts.session = sessions.session
            AND key = 'ended') AS stopped";

/// The sessions from the one with the latest call on, of whichever workspaces.
const BY_LATEST: &str = "sessions INDEXED BY sessions_by_latest";

/// The same for each workspace.
const BY_WORKSPACE: &str = "sessions INDEXED BY sessions_by_workspace";

struct Listed {
    session: SessionKey,
    agents: String,
    first: i64,
    newest: i64,
    active: i64,
    calls: i64,
    unfinished: i64,
    waiting: i64,
    stopped: Option<String>,
}

impl Listed {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let workspace: String = row.get(1)?;
        Ok(Self {
            session: SessionKey::new(&workspace, &SessionId::new(row.get::<_, String>(2)?)),
            agents: row.get(3)?,
            first: row.get(4)?,
            newest: row.get(5)?,
            active: row.get(6)?,
            calls: row.get(7)?,
            unfinished: row.get(8)?,
            waiting: row.get(9)?,
            stopped: row.get(10)?,
        })
    }

    fn summary(self, overlay: &Overlay) -> Result<SessionSummary, StoreError> {
        let stored = self.stopped.map(|json| decode::<Value>("a fact", &json)).transpose()?;
        let stopped = overlay.get(&self.session, ENDED).or(stored);
        let is_ended = stopped.and_then(|at| at.as_i64()).is_some_and(|at| at >= self.newest);
        Ok(SessionSummary {
            session: self.session,
            agents: decode("the agents of a session", &self.agents)?,
            first: Timestamp(self.first),
            active: Timestamp(self.active),
            calls: unsigned(self.calls),
            unfinished: unsigned(self.unfinished),
            waiting: unsigned(self.waiting),
            ended: is_ended,
        })
    }
}

fn select(db: &Connection, filter: &SessionFilter) -> Result<Query, StoreError> {
    let of = &filter.workspaces;
    let is_by_workspace = !of.is_all() && (of.single().is_some() || have_few(db, BY_WORKSPACE, of)?);
    let sessions = if is_by_workspace { BY_WORKSPACE } else { BY_LATEST };
    let query = Query::new(&format!("{COLUMNS} FROM {sessions} WHERE TRUE"))
        .within("workspace", of)
        .compare("active >= ?", filter.from)
        .compare("first < ?", filter.until);
    Ok(if is_by_workspace { query } else { query.along_numbers() })
}

/// Lists sessions, the one with the latest call first.
pub(super) fn list(
    db: &Connection,
    overlay: &Overlay,
    filter: &SessionFilter,
    page: &PageRequest,
) -> Result<Page<SessionSummary>, StoreError> {
    select(db, filter)?.page(db, page, Listed::read, |listed| listed.summary(overlay))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use toolgate_model::{Durability, WorkspaceSet};

    use super::super::schema;
    use super::*;

    /// A database with 25,000 calls of workspaces below `many`, the last one the newest: their sessions have one or five calls. An
    /// older one is of the workspace `one`.
    fn filled(calls_of_each: u32) -> (TempDir, Connection) {
        let folder = TempDir::new().unwrap();
        let db = schema::open_writer(&folder.path().join("toolgate.db"), Durability::Process).unwrap();
        db.execute(
            "WITH RECURSIVE series (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM series WHERE i < 25000)
             INSERT INTO calls (id, owner, workspace, session, tool, state, created, ended, last_sequence, record)
             SELECT 'call-' || i, 'o', iif(i, 'many/' || (i % 5), 'one'), 'session-' || (i % (25000 / ?)), 't', 'completed', i, i, 1,
                 '{}' FROM series",
            [calls_of_each],
        )
        .unwrap();
        (folder, db)
    }

    fn of(workspaces: &[&str]) -> SessionFilter {
        SessionFilter {
            workspaces: WorkspaceSet::parse(workspaces.iter().copied()).unwrap(),
            ..SessionFilter::default()
        }
    }

    #[test]
    fn sessions_of_some_workspaces_are_found_among_many() {
        let (_folder, db) = filled(1);
        let cases: [(SessionFilter, usize); 6] = [
            (of(&["one"]), 1),
            (of(&["one", "none/*"]), 1),
            (of(&["none", "nobody"]), 0),
            (of(&["many/3"]), 5_000),
            (of(&["many/3", "one"]), 5_001),
            (of(&["many/*", "one"]), 25_001),
        ];
        for (filter, expected) in cases {
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let page = PageRequest { size: 1_000, after };
                if !(10..=25_000).contains(&expected) {
                    let query = select(&db, &filter).unwrap().behind(&page).unwrap();
                    let steps = query.steps(&db, " ORDER BY number DESC LIMIT 51");
                    assert!(steps < 5_000, "{filter:?}: {steps} steps behind {}", listed.len());
                }
                let page = list(&db, &Overlay::default(), &filter, &page).unwrap();
                listed.extend(page.items.into_iter().map(|session| session.first));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert!(
                listed.is_sorted_by(|newer, older| newer > older) && listed.len() == expected,
                "{filter:?}"
            );
        }
    }

    #[test]
    fn a_call_goes_without_a_look_at_those_of_other_sessions() {
        let (_folder, db) = filled(5);
        for number in [2, 25_001] {
            let steps = Query::new(&format!("DELETE FROM calls WHERE number = {number}")).steps(&db, "");
            assert!(steps < 1_000, "{steps} steps for call {number}");
        }
    }

    #[test]
    fn the_latest_call_is_the_one_that_was_admitted_last_also_when_the_clock_was_put_back() {
        let (_folder, db) = filled(25_000);
        for (id, created) in [("a", 500), ("b", 100), ("c", 90)] {
            let call =
                "INSERT INTO calls (id, owner, workspace, session, tool, state, created, ended, last_sequence, record)
                        VALUES (?, 'o', 'w', 's', 't', 'completed', ?2, ?2, 1, '{}')";
            db.execute(call, rusqlite::params![id, created]).unwrap();
        }
        let latest = || -> String {
            let sql = "SELECT id FROM sessions JOIN calls USING (number) WHERE sessions.workspace = 'w'";
            db.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        for (gone, left) in [("", "a"), ("c", "a"), ("a", "b")] {
            db.execute("DELETE FROM calls WHERE id = ?", [gone]).unwrap();
            assert_eq!(latest(), left);
        }
    }
}
