//! Sessions, as the calls that are stored tell of them.
//!
//! *Invariant:* the table `sessions` is kept by triggers, whoever writes to `calls`. A cursor is the number of the latest call of
//! the last session that was listed.

use rusqlite::{Connection, Row};
use serde_json::Value;
use toolgate_model::{SessionId, SessionKey, Timestamp};

use super::error::{decode, unsigned};
use super::query::Query;
use crate::overlay::Overlay;
use crate::{ENDED, Page, PageRequest, SessionFilter, SessionSummary, StoreError};

/// The sessions, walked from the one with the latest call on, also for those of some workspaces.
const SESSIONS: &str = "
    SELECT number, workspace, session, agents, first, newest, active, calls, unfinished,
        (SELECT count(*) FROM calls AS open INDEXED BY calls_unfinished WHERE open.ended IS NULL AND open.state = 'waiting'
            AND open.workspace = sessions.workspace AND open.session = sessions.session) AS waiting,
        (SELECT value FROM facts WHERE facts.workspace = sessions.workspace AND facts.session = sessions.session
            AND key = 'ended') AS stopped
    FROM sessions INDEXED BY sessions_by_latest WHERE TRUE";

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

fn select(filter: &SessionFilter) -> Query {
    Query::new(SESSIONS)
        .within("workspace", &filter.workspaces)
        .compare("active >= ?", filter.from)
        .compare("first < ?", filter.until)
}

/// Lists sessions, the one with the latest call first.
pub(super) fn list(
    db: &Connection,
    overlay: &Overlay,
    filter: &SessionFilter,
    page: &PageRequest,
) -> Result<Page<SessionSummary>, StoreError> {
    select(filter).page(db, page, Listed::read, |listed| listed.summary(overlay))
}
