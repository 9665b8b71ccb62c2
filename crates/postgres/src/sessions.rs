//! Sessions, as the calls that are stored tell of them.
//!
//! *Invariant:* nothing is stored for this but the moment at which a session was ended. A call waits for a person as long as one of its
//! prompts is open: once it is answered the call only waits for its worker. A page goes on behind the number of the
//! latest call of the last session that was listed.

use serde_json::Value;
use tokio_postgres::Row;
use toolgate_model::{SessionId, SessionKey, Timestamp};
use toolgate_store::codec::{decode, unsigned};
use toolgate_store::overlay::Overlay;
use toolgate_store::{ENDED, Page, PageRequest, SessionFilter, SessionSummary, StoreError};

use crate::connection::Database;
use crate::query::Query;
use crate::text::plain;

const CALLS: &str = "
    SELECT max(number) AS number, workspace, session, min(coalesce(full_workspace, workspace)) AS whole_workspace,
        min(coalesce(full_session, session)) AS whole_session, array_agg(DISTINCT agent ORDER BY agent) AS agents,
        min(created) AS first, max(created) AS newest, greatest(max(created), coalesce(max(ended), 0)) AS active,
        count(*) AS calls, count(*) FILTER (WHERE ended IS NULL) AS unfinished,
        count(*) FILTER (WHERE ended IS NULL AND state = 'waiting' AND EXISTS (SELECT FROM prompts
            WHERE prompts.call = calls.id AND prompts.state = 'open')) AS waiting
    FROM calls WHERE TRUE";

/// The sessions as one table, whose `number` is that of their latest call.
fn select(filter: &SessionFilter) -> Query {
    Query::new(CALLS)
        .within("workspace", &filter.workspaces)
        .within_statement(
            "SELECT all_of.*, (SELECT value FROM facts WHERE facts.workspace = all_of.workspace
                 AND facts.session = all_of.session AND name = 'ended') AS stopped FROM (",
            " GROUP BY workspace, session) all_of WHERE TRUE",
        )
        .moment("active >= ", filter.from)
        .moment("first < ", filter.until)
}

fn summary(row: &Row, overlay: &Overlay) -> Result<SessionSummary, StoreError> {
    let text = |column: &str| plain(row.get(column));
    let number = |column: &str| row.get::<_, i64>(column);
    let session = SessionKey::new(&text("whole_workspace"), &SessionId::new(text("whole_session")));
    let stored: Option<&str> = row.get("stopped");
    let stored: Option<Value> = stored.map(|json| decode("a fact", json)).transpose()?;
    let stopped = overlay.get(&session, ENDED).or(stored);
    let agents: Vec<&str> = row.get("agents");
    Ok(SessionSummary {
        agents: agents.into_iter().map(plain).collect(),
        first: Timestamp(number("first")),
        active: Timestamp(number("active")),
        calls: unsigned(number("calls")),
        unfinished: unsigned(number("unfinished")),
        waiting: unsigned(number("waiting")),
        ended: stopped
            .and_then(|at| at.as_i64())
            .is_some_and(|at| at >= number("newest")),
        session,
    })
}

/// Lists sessions, the one with the latest call first.
pub(crate) async fn list(
    db: &Database,
    overlay: &Overlay,
    filter: &SessionFilter,
    page: &PageRequest,
) -> Result<Page<SessionSummary>, StoreError> {
    select(filter)
        .page(db, "list sessions", page, "0", |row| summary(row, overlay))
        .await
}
