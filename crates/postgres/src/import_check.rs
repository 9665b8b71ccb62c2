//! What must hold before and after a history is brought: the database is empty, everything has come, the chain of the audit is whole.
//!
//! *Invariant:* nothing is changed here.

use toolgate_model::audit_key::Key;
use toolgate_store::StoreError;
use toolgate_store::audit::{Finding, Verifier};
use toolgate_store::codec::{failed, unsigned};
use toolgate_store::local::export::Counts;

use crate::connection::Session;
use crate::import::Imported;
use crate::sequencer::hold_end;
use crate::values::values;

/// Records that are read at once to verify them.
const RECORDS_PER_BATCH: i64 = 1_000;

/// What is locked of one day: its two tables, and what belongs to them.
const LOCKS_PER_DAY: u64 = 14;

/// What an empty database has nothing of, and how it is called. An audit that only has its beginning is empty: to look at the
/// database as a gateway does begins it.
const TABLES: [(&str, &str); 14] = [
    ("call_days", "calls"),
    ("prompts", "prompts"),
    ("grants", "grants"),
    ("facts", "facts of sessions"),
    ("outputs", "outputs"),
    ("objects", "objects in a bucket"),
    ("changes", "changes of files"),
    ("blobs", "contents of files"),
    ("journal", "events of the journal"),
    ("outbox", "things to be told"),
    ("workspaces", "workspaces of workers"),
    ("opened_workspaces", "opened workspaces"),
    ("created_workspaces", "created workspaces"),
    ("audit WHERE sequence > 1", "records of the audit"),
];

/// Refuses a database that has anything, or that a gateway uses.
pub(crate) async fn expect_empty(session: &mut Session) -> Result<(), StoreError> {
    let sql = "SELECT count(*) FROM instances WHERE lease_until > clock_timestamp()";
    if count(session, sql).await? > 0 {
        let problem = "a gateway uses the database, or did until a moment ago: stop all gateways, wait for as long as cluster.lease says, \
                       and import again";
        return Err(StoreError::Conflict(problem.to_owned()));
    }
    let mut found = Vec::new();
    for (table, name) in TABLES {
        match count(session, &format!("SELECT count(*) FROM {table}")).await? {
            0 => {}
            some => found.push(format!("{some} {name}")),
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(StoreError::Conflict(format!(
        "the database is not empty, it has {}: a history can be brought only into a new one, before the first gateway uses it. Make another \
         database, name it in cluster.store, run `toolgate store migrate`, and import again",
        found.join(", ")
    )))
}

/// Refuses a history of more days than the server can lock the tables of at once: to bring it takes all of them, and each list of calls
/// does, too.
pub(crate) async fn expect_room(session: &mut Session, days: u64) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('max_locks_per_transaction')::bigint,
                   current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint";
    let row = session.row(sql, values![]).await?;
    let (each, connections) = row.map_or((0, 0), |row| (unsigned(row.get(0)), unsigned(row.get(1))));
    let needed = days.saturating_mul(LOCKS_PER_DAY);
    if needed <= each * connections {
        return Ok(());
    }
    let enough = needed.div_ceil(connections.max(1));
    Err(StoreError::Conflict(format!(
        "the history has calls of {days} days, and the server can lock the tables of {} at once: set max_locks_per_transaction of the server to \
         {enough} or more, start it again, and import again; or let retention.calls of the service that kept them delete old calls before",
        each * connections / LOCKS_PER_DAY
    )))
}

async fn count(session: &mut Session, sql: &str) -> Result<u64, StoreError> {
    let row = session.row(sql, values![]).await?;
    Ok(row.map_or(0, |row| unsigned(row.get(0))))
}

/// Makes sure that everything has come, before anything is added.
pub(crate) async fn expect_all(session: &mut Session, imported: &Imported) -> Result<(), StoreError> {
    let mut counted = async |sql: &str| count(session, sql).await;
    let counts = Counts {
        calls: counted("SELECT count(*) FROM calls JOIN call_days USING (day, number)").await?,
        events: counted("SELECT coalesce(sum(last - first + 1), 0)::bigint FROM events").await?,
        changes: counted("SELECT count(*) FROM changes").await?,
        prompts: counted("SELECT count(*) FROM prompts").await?,
        grants: counted("SELECT count(*) FROM grants").await?,
        facts: counted("SELECT count(*) FROM facts").await?,
        outputs: counted("SELECT count(*) FROM outputs WHERE complete").await?,
        journal: counted("SELECT count(*) FROM journal").await?,
        audit: counted("SELECT count(*) FROM audit").await?,
    };
    let bytes = counted(
        "SELECT (SELECT coalesce(sum(octet_length(head)), 0) FROM outputs)::bigint
             + (SELECT coalesce(sum(octet_length(content)), 0) FROM output_parts)::bigint",
    )
    .await?;
    if counts == imported.counts && bytes == imported.output_bytes {
        return Ok(());
    }
    let problem = format!(
        "it has {counts:?} and {bytes} bytes of outputs, not {:?} and {}",
        imported.counts, imported.output_bytes
    );
    Err(failed("count what was brought", problem))
}

/// Verifies the chain of the audit as an export of it would be.
pub(crate) async fn expect_chain(session: &mut Session, keys: Vec<Key>) -> Result<(), StoreError> {
    let mut verifier = Verifier::new(keys);
    let head = hold_end(session).await?.audit.head;
    let broken = |finding: Finding| {
        StoreError::Conflict(format!(
            "the audit is not as it was written, and so nothing was brought: {finding}. `toolgate audit verify --data-dir` tells the same; \
             if the chain was begun with another key, name that one with --key-file"
        ))
    };
    let sql = "SELECT sequence, record FROM audit WHERE sequence > $1 ORDER BY sequence LIMIT $2";
    let (mut last, mut count) = (0, 0);
    loop {
        let rows = session.rows(sql, values![last, RECORDS_PER_BATCH]).await?;
        let Some(row) = rows.last() else { break };
        last = row.get(0);
        for row in &rows {
            verifier.line(row.get::<_, &str>(1).as_bytes()).map_err(broken)?;
            count += 1;
        }
    }
    verifier.line(head.line(count).as_bytes()).map_err(broken)?;
    verifier.finish().map(drop).map_err(broken)
}
