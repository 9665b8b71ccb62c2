//! Lists of calls: the index that leads through them, and how far a page looks.
//!
//! *Invariant:* calls are listed by the moment of their admission, the newest first, and by their numbers where that is the same. A
//! page takes a bounded time, however many calls there are and however few of them are wanted: then it has fewer calls than were
//! asked for, perhaps none, and a token of where the next page goes on. The calls of a session, those of a parent and those that
//! run are listed without that bound.

use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use toolgate_model::{CallRecord, CallState, Timestamp};

use super::error::{Doing, decode, limit};
use super::packed::{self, JSON, Json};
use super::query::{Query, have_few};
use crate::codec::{MAX_PAGE, MAX_PAGE_BYTES, bad_token};
use crate::{CallFilter, Page, PageRequest, StoreError};

/// After this time a page does not look at more calls.
const LOOKING: Duration = Duration::from_millis(40);

/// Calls that are looked at first. Then it depends on how long they took.
const FIRST_LOOK: u32 = 1_000;

/// How long one look is to take, and at how many calls at most.
const LOOK: Duration = Duration::from_millis(10);
const MAX_LOOK: u32 = 100_000;

/// A place in the list: behind all that is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    created: i64,
    number: i64,
}

impl Place {
    const START: Self = Self {
        created: i64::MAX,
        number: i64::MAX,
    };
    const END: Self = Self {
        created: i64::MIN,
        number: i64::MIN,
    };

    /// Before all calls that were admitted at this moment or later.
    fn moment(created: i64) -> Self {
        Self {
            created,
            number: i64::MIN,
        }
    }

    fn token(self) -> String {
        format!("c{:016x}{:016x}", self.created, self.number)
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        let number = |digits: Option<&str>| u64::from_str_radix(digits?, 16).ok().map(u64::cast_signed);
        let digits = text.strip_prefix('c').filter(|digits| digits.len() == 32);
        let created = number(digits.and_then(|digits| digits.get(..16)));
        let number = number(digits.and_then(|digits| digits.get(16..)));
        created
            .zip(number)
            .map(|(created, number)| Self { created, number })
            // Made again: signs and capitals parse as well, but were never given out.
            .filter(|place| place.token() == text)
            .ok_or_else(bad_token)
    }
}

/// What leads through the calls.
struct Way {
    index: &'static str,
    /// Whether the index has calls in the order of the list.
    is_ordered: bool,
    /// What the index is asked for.
    workspace: Option<String>,
    /// Whether a page ends when it has looked at many calls.
    is_bounded: bool,
}

impl Way {
    fn of(db: &Connection, filter: &CallFilter) -> Result<Self, StoreError> {
        let way = |index, is_ordered, is_bounded| Self {
            index,
            is_ordered,
            workspace: None,
            is_bounded,
        };
        if is_unfinished(filter) {
            return Ok(way("calls_unfinished", false, false));
        }
        if filter.session.is_some() {
            return Ok(match filter.workspaces.single() {
                Some(_) => way("calls_of_sessions", true, false),
                None => way("calls_by_session", true, false),
            });
        }
        if filter.parent.is_some() {
            return Ok(way("calls_of_parents", false, false));
        }
        // Without a filter each call that is looked at is one of the page.
        let is_narrow = !(filter.states.is_empty() && filter.tools.is_empty() && filter.reasons.is_empty())
            || filter.agent.is_some()
            || filter.requester.is_some()
            || filter.text.is_some();
        if filter.workspaces.is_all() {
            return Ok(way("calls_by_time", true, is_narrow));
        }
        if let Some(name) = filter.workspaces.single() {
            return Ok(Self {
                workspace: Some(name.to_owned()),
                ..way("calls_by_workspace", true, is_narrow)
            });
        }
        let are_few = have_few(db, "calls INDEXED BY calls_by_workspace", &filter.workspaces)?;
        Ok(if are_few {
            way("calls_by_workspace", false, false)
        } else {
            way("calls_by_time", true, true)
        })
    }

    fn order(&self) -> &'static str {
        // With the sign SQLite sorts, instead of looking for an index that has this order.
        if self.is_ordered {
            "created DESC, number DESC"
        } else {
            "+created DESC, +number DESC"
        }
    }

    /// Returns the place of the call that is so many behind a place, if there is one before another place.
    fn boundary(&self, db: &Connection, from: Place, until: Place, calls: u32) -> Result<Option<Place>, StoreError> {
        let sql = format!("SELECT created, number FROM calls INDEXED BY {} WHERE TRUE", self.index);
        let query = Query::new(&sql).is("workspace", self.workspace.as_deref());
        let (sql, mut values) = between(query, from, until).into_parts();
        values.push(Value::Integer(calls.into()));
        db.prepare_cached(&format!("{sql} ORDER BY created DESC, number DESC LIMIT 1 OFFSET ?"))
            .and_then(|mut statement| {
                let place = |row: &rusqlite::Row<'_>| {
                    Ok(Place {
                        created: row.get(0)?,
                        number: row.get(1)?,
                    })
                };
                statement.query_row(params_from_iter(values), place).optional()
            })
            .doing(db, "list calls")
    }

    fn select(&self, filter: &CallFilter) -> Query {
        let sql = format!(
            "SELECT created, number, {JSON} FROM calls INDEXED BY {} WHERE TRUE",
            self.index
        );
        let query = Query::new(&sql)
            .within("workspace", &filter.workspaces)
            .is("session", filter.session.as_ref().map(|session| session.as_str()))
            .one_of("state", filter.states.iter().map(|state| state.as_str()))
            .one_of("tool", filter.tools.iter().map(String::as_str))
            .one_of("reason", filter.reasons.iter().map(|reason| reason.as_str()))
            .is("parent", filter.parent.as_ref().map(|parent| parent.as_str()))
            .is("agent", filter.agent.as_deref())
            .is("requester", filter.requester.as_deref())
            .contains("words", filter.text.as_ref().map(|text| text.to_lowercase()).as_deref());
        // Says the same once more, in the words of the index over the few calls that still run.
        if is_unfinished(filter) {
            query.also("ended IS NULL")
        } else {
            query
        }
    }
}

fn is_unfinished(filter: &CallFilter) -> bool {
    !filter.states.is_empty() && !filter.states.iter().copied().any(CallState::is_terminal)
}

/// Asks for what is behind one place, and not behind another.
fn between(query: Query, from: Place, until: Place) -> Query {
    let integers = |values: &[i64]| values.iter().copied().map(Value::Integer).collect::<Vec<_>>();
    let query = match from {
        Place::START => query,
        from => query.also_with(
            "created <= ? AND (created < ? OR number < ?)",
            integers(&[from.created, from.created, from.number]),
        ),
    };
    match until {
        Place::END => query,
        until => query.also_with(
            "created >= ? AND (created > ? OR number >= ?)",
            integers(&[until.created, until.created, until.number]),
        ),
    }
}

/// A page that is being filled.
struct Filling {
    size: usize,
    found: Vec<(Place, Json)>,
    bytes: usize,
}

impl Filling {
    /// Adds what is between two places; says whether there is more than the page takes.
    fn add(&mut self, db: &Connection, query: Query, order: &str) -> rusqlite::Result<bool> {
        let (sql, mut values) = query.into_parts();
        values.push(Value::Integer(limit(self.size - self.found.len() + 1)));
        let mut statement = db.prepare_cached(&format!("{sql} ORDER BY {order} LIMIT ?"))?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            self.bytes += packed::length(row.get_ref(2)?);
            if self.found.len() == self.size || (self.bytes > MAX_PAGE_BYTES && !self.found.is_empty()) {
                return Ok(true);
            }
            let place = Place {
                created: row.get(0)?,
                number: row.get(1)?,
            };
            self.found.push((place, row.get(2)?));
        }
        Ok(false)
    }
}

/// What a page has, and where the next one goes on if there is one.
type Found = (Vec<(Place, Json)>, Option<Place>);

/// Lists one page.
pub(super) fn list(db: &Connection, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
    let (found, next) = find(db, filter, page, LOOKING)?;
    let items = found.into_iter().map(|(_, json)| decode("a call", &json.0));
    Ok(Page {
        items: items.collect::<Result<_, _>>()?,
        next: next.map(Place::token),
    })
}

fn find(db: &Connection, filter: &CallFilter, page: &PageRequest, looking: Duration) -> Result<Found, StoreError> {
    let after = page.after.as_deref().map(Place::parse).transpose()?;
    let moment = |moment: Option<Timestamp>| moment.map(|moment| Place::moment(moment.millis()));
    let after = after.unwrap_or(Place::START);
    let mut from = moment(filter.until).map_or(after, |until| until.min(after));
    let end = moment(filter.from).unwrap_or(Place::END);
    let way = Way::of(db, filter)?;
    let mut filling = Filling {
        size: page.size.clamp(1, MAX_PAGE),
        found: Vec::new(),
        bytes: 0,
    };
    let (begun, mut look) = (Instant::now(), FIRST_LOOK);
    loop {
        let looked = Instant::now();
        let boundary = if way.is_bounded {
            way.boundary(db, from, end, look)?
        } else {
            None
        };
        let query = between(way.select(filter), from, boundary.unwrap_or(end));
        let is_full = filling.add(db, query, way.order()).doing(db, "list calls")?;
        let last = filling.found.last().map(|(place, _)| *place);
        if is_full || boundary.is_none() {
            return Ok((filling.found, last.filter(|_| is_full)));
        }
        from = boundary.unwrap_or(end);
        if begun.elapsed() >= looking {
            return Ok((filling.found, boundary));
        }
        look = match looked.elapsed() {
            little if little < LOOK / 4 => look.saturating_mul(4).min(MAX_LOOK),
            much if much > LOOK => (look / 2).max(FIRST_LOOK),
            _ => look,
        };
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::params;
    use tempfile::TempDir;
    use toolgate_model::{Durability, SessionId, WorkspaceSet};

    use super::super::schema;
    use super::*;

    /// A database with calls, the last one the newest: three are admitted in each millisecond, one in a thousand is of the tool
    /// `rare`, and their records are their numbers.
    fn filled(calls: u32) -> (TempDir, Connection) {
        let folder = TempDir::new().unwrap();
        let db = schema::open_writer(&folder.path().join("toolgate.db"), Durability::Process).unwrap();
        db.execute(
            "WITH RECURSIVE series (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM series WHERE i < ?)
             INSERT INTO calls (number, id, owner, workspace, session, tool, state, created, ended, last_sequence, record, words)
             SELECT i, 'call-' || i, 'owner', 'space/' || (i % 7), 'session-' || (i / 100),
                 iif(i % 1000 = 0, 'rare', 'read'), 'completed', i / 3, i / 3 + 1, 1, i, 'call-' || i FROM series",
            [calls],
        )
        .unwrap();
        (folder, db)
    }

    /// Lists all pages; returns the numbers of the calls, and how many pages there were.
    fn all(db: &Connection, filter: &CallFilter, size: usize, looking: Duration) -> (Vec<u32>, usize) {
        let (mut numbers, mut pages, mut after) = (Vec::new(), 0, None);
        loop {
            let page = PageRequest { size, after };
            let (found, next) = find(db, filter, &page, looking).unwrap();
            assert!(found.len() <= size);
            numbers.extend(found.iter().map(|(_, json)| json.0.parse::<u32>().unwrap()));
            pages += 1;
            after = next.map(Place::token);
            if after.is_none() {
                return (numbers, pages);
            }
        }
    }

    fn of_tool(tool: &str) -> CallFilter {
        CallFilter {
            tools: vec![tool.to_owned()],
            ..CallFilter::default()
        }
    }

    #[test]
    fn a_page_ends_when_it_has_looked_long_enough_and_the_next_goes_on() {
        let (_folder, db) = filled(30_000);
        let rare: Vec<u32> = (1..=30).rev().map(|number| number * 1_000).collect();
        let (found, pages) = all(&db, &of_tool("rare"), 50, Duration::ZERO);
        assert_eq!((&found, pages), (&rare, 30), "each page looks at some, and has one");
        let (found, pages) = all(&db, &of_tool("rare"), 50, Duration::from_secs(60));
        assert_eq!((&found, pages), (&rare, 1));
        let (found, pages) = all(&db, &of_tool("rare"), 7, Duration::from_secs(60));
        assert_eq!((&found, pages), (&rare, 5));
        let (found, pages) = all(&db, &of_tool("none"), 50, Duration::ZERO);
        assert_eq!((found.len(), pages), (0, 30));
        let text = CallFilter {
            text: Some("L-2999".to_owned()),
            ..CallFilter::default()
        };
        let (found, _) = all(&db, &text, 3, Duration::ZERO);
        assert_eq!(found, (29_990..=29_999).rev().chain([2_999]).collect::<Vec<_>>());
    }

    #[test]
    fn every_way_leads_through_the_same_calls() {
        let (_folder, db) = filled(30_000);
        db.execute_batch("UPDATE calls SET parent = 'call-1' WHERE number % 500 = 0; UPDATE calls SET ended = NULL, state = 'running' WHERE number % 3000 = 0")
            .unwrap();
        let spaces = |entries: &[&str]| WorkspaceSet::parse(entries.iter().copied()).unwrap();
        let base = CallFilter::default;
        let moment = |millis| Some(toolgate_model::Timestamp(millis));
        type Wanted = fn(u32) -> bool;
        let cases: [(CallFilter, Wanted); 9] = [
            (base(), |_| true),
            (
                CallFilter {
                    session: Some(SessionId::from("session-7")),
                    ..base()
                },
                |number| number / 100 == 7,
            ),
            (
                CallFilter {
                    parent: Some("call-1".into()),
                    ..base()
                },
                |number| number % 500 == 0,
            ),
            (
                CallFilter {
                    states: vec![CallState::Running],
                    ..base()
                },
                |number| number % 3000 == 0,
            ),
            (
                CallFilter {
                    workspaces: spaces(&["space/3"]),
                    ..base()
                },
                |number| number % 7 == 3,
            ),
            (
                CallFilter {
                    workspaces: spaces(&["space/3"]),
                    ..of_tool("rare")
                },
                |number| number % 7 == 3 && number % 1000 == 0,
            ),
            (
                CallFilter {
                    workspaces: spaces(&["space/3", "space/4", "other/*"]),
                    ..base()
                },
                |number| matches!(number % 7, 3 | 4),
            ),
            (
                CallFilter {
                    workspaces: spaces(&["space/*"]),
                    ..base()
                },
                |_| true,
            ),
            (
                CallFilter {
                    workspaces: spaces(&["other/*"]),
                    ..base()
                },
                |_| false,
            ),
        ];
        for (filter, wanted) in cases {
            let expected = |from: u32, until: u32| -> Vec<u32> {
                (1..=30_000)
                    .rev()
                    .filter(|&number| (from..until).contains(&(number / 3)) && wanted(number))
                    .collect()
            };
            let (found, _) = all(&db, &filter, 700, Duration::ZERO);
            assert!(found == expected(0, u32::MAX), "{filter:?}");
            let within = CallFilter {
                from: moment(2_000),
                until: moment(3_000),
                ..filter
            };
            let (found, _) = all(&db, &within, 300, Duration::ZERO);
            assert!(found == expected(2_000, 3_000), "{within:?}");
        }
    }

    #[test]
    fn the_calls_of_a_session_are_found_whatever_has_the_same_name() {
        let (_folder, db) = filled(20_000);
        db.execute_batch("UPDATE calls SET session = 'main'").unwrap();
        let running = vec![CallState::Running];
        for (workspace, states) in [("space/9", vec![]), ("space/3", vec![]), ("space/3", running)] {
            let filter = CallFilter {
                workspaces: WorkspaceSet::one(workspace),
                session: Some(SessionId::from("main")),
                states,
                ..CallFilter::default()
            };
            let way = Way::of(&db, &filter).unwrap();
            let query = between(way.select(&filter), Place::moment(6_000), Place::END);
            let steps = query.steps(&db, &format!(" ORDER BY {} LIMIT 2", way.order()));
            assert!(steps < 1_000, "{steps} steps for {filter:?}");
        }
    }

    #[test]
    fn what_sessions_sum_up_to_follows_their_calls() {
        let (_folder, db) = filled(2_000);
        db.execute_batch(
            "INSERT INTO calls (id, owner, workspace, session, tool, state, created, last_sequence, record)
             SELECT id || '-again', owner, workspace, session, tool, 'running', created, 1, '{}' FROM calls WHERE number % 3 = 0;
             UPDATE calls SET ended = 9000 WHERE number % 2 = 0;
             DELETE FROM calls WHERE number % 4 = 0 OR number < 250 OR number > 2500",
        )
        .unwrap();
        let sums = |from: &str| -> Vec<(String, String, [i64; 5])> {
            let mut statement = db.prepare(&format!("{from} ORDER BY 1, 2")).unwrap();
            let row = |row: &rusqlite::Row<'_>| {
                let number = |column| row.get::<_, i64>(column);
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    [number(2)?, number(3)?, number(4)?, number(5)?, number(6)?],
                ))
            };
            statement
                .query_map([], row)
                .unwrap()
                .collect::<rusqlite::Result<_>>()
                .unwrap()
        };
        let kept = sums(
            "SELECT workspace, session, EXISTS (SELECT 1 FROM calls WHERE calls.number = sessions.number
                 AND calls.session = sessions.session AND calls.workspace = sessions.workspace),
                 first, newest, calls, unfinished FROM sessions",
        );
        let counted = sums(
            "SELECT workspace, session, 1, min(created), max(created), count(*), count(*) - count(ended)
             FROM calls GROUP BY workspace, session",
        );
        assert!(!kept.is_empty() && kept == counted);
        let agents: Vec<String> = (0..3).map(|number| format!("agent-{}", number % 2)).collect();
        for (number, agent) in agents.iter().enumerate() {
            let call = "INSERT INTO calls (id, owner, workspace, session, tool, state, created, ended, last_sequence, record, agent)
                        VALUES (?, 'o', 'w', 's', 't', 'completed', 5, 8, 1, '{}', ?)";
            db.execute(call, params![format!("new-{number}"), agent]).unwrap();
        }
        let (agents, active): (String, i64) = db
            .query_row("SELECT agents, active FROM sessions WHERE workspace = 'w'", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!((&*agents, active), (r#"["agent-0","agent-1"]"#, 8));
    }

    #[test]
    fn tokens() {
        for place in [
            Place::START,
            Place::END,
            Place::moment(7),
            Place { created: 1, number: 2 },
        ] {
            assert_eq!(Place::parse(&place.token()).unwrap(), place);
        }
        let own = Place {
            created: 10,
            number: 11,
        }
        .token();
        for bad in [
            "",
            "c",
            "p0000000000000001",
            &own.to_uppercase(),
            &own[..32],
            &format!("{own}0"),
            &own.replace("00a", "+0a"),
        ] {
            assert!(matches!(Place::parse(bad), Err(StoreError::BadPage(_))), "{bad:?}");
        }
    }
}
