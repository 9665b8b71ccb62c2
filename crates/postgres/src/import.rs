//! The history of a data directory, brought into an empty database: who outgrows one machine takes it along.
//!
//! *Invariant:* one transaction. Either all is there, counted and the chain of the audit verified, or the database is as empty as it was.
//! No gateway has the database meanwhile, and none comes in between.
//!
//! Calls that had not ended belong to a run that is gone. They end here as the next run would have ended them: lost, but for
//! those that only wait for a person, who wait on for the next holder of their workspace. What that tells is chained behind what was
//! brought.

use std::time::Duration;

use serde::Serialize;
use tokio_postgres::Row;
use toolgate_model::audit_key::Key;
use toolgate_model::{CallRecord, Timestamp};
use toolgate_store::audit::Head;
use toolgate_store::codec::{decode, failed};
use toolgate_store::local::export::{Counts, Export};
use toolgate_store::{StoreError, lost};

use crate::connection::{Database, Session};
use crate::import_rows::Outputs;
use crate::options::PostgresOptions;
use crate::schema::{self, SchemaState};
use crate::sequencer::Sequencer;
use crate::values::values;
use crate::{calls, import_check, import_rows, settling};

/// How long all of it may take.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 3_600);

/// What keeps others out, and how long it is waited for. Whoever brings the history reads between two statements, and is not
/// waited for longer than for a minute when its machine is gone.
const ALONE: &str = "SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '60s';
    LOCK TABLE instances, ends, call_days IN SHARE ROW EXCLUSIVE MODE; SET LOCAL lock_timeout = 0";

/// Unfinished calls that are looked at at once.
const CALLS_PER_BATCH: i64 = 64;

/// What was brought, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// What there was.
    #[serde(flatten)]
    pub counts: Counts,
    /// Bytes of outputs.
    pub output_bytes: u64,
    /// Outputs that had no file any more, and were left out.
    pub outputs_without_file: u64,
    /// Calls that had not ended, and ended as lost.
    pub lost: u64,
    /// Calls that wait for a person, and go on waiting.
    pub waiting: u64,
    /// The end of the audit as it was in the data directory; none before it was looked at.
    pub head: Option<Head>,
}

/// Says what would be brought, and makes sure that it can be. Changes nothing.
///
/// # Errors
/// As [`import`], as far as that can be told before.
pub async fn look(options: &PostgresOptions, export: &mut Export) -> Result<Imported, StoreError> {
    let db = Database::new(options)?;
    can_go_on(options, export)?;
    has_tables(&db).await?;
    let mut session = db.session("look whether the database is empty").await?;
    import_check::expect_empty(&mut session).await?;
    import_check::expect_room(&mut session, export.days()?).await?;
    let mut imported = expected(export)?;
    let mut last = 0;
    loop {
        let outputs = export.outputs(last)?;
        let Some(output) = outputs.last() else { break };
        last = output.number;
        for output in &outputs {
            match output.bytes {
                Some(bytes) => imported.output_bytes += bytes,
                None => imported.outputs_without_file += 1,
            }
        }
    }
    imported.counts.outputs -= imported.outputs_without_file;
    Ok(imported)
}

/// Brings all that a data directory has into an empty database. `keys` are earlier keys of the audit, to verify its chain with beside the
/// present one.
///
/// # Errors
/// The database is not empty, or a gateway uses it; its tables are not up to date; the audit is kept with another key than is configured
/// here, or its chain is not as it was written; or something cannot be read or stored. The database is as it was then.
pub async fn import(options: &PostgresOptions, export: &mut Export, keys: Vec<Key>) -> Result<Imported, StoreError> {
    can_go_on(options, export)?;
    let db = Database::new(options)?.patient(TIME_LIMIT);
    has_tables(&db).await?;
    let mut session = db.begin("bring the history of a data directory").await?;
    let imported = import_in(&mut session, options, export, keys).await;
    session.end(imported).await
}

/// Makes sure that the chain of the audit can be gone on with.
fn can_go_on(options: &PostgresOptions, export: &Export) -> Result<(), StoreError> {
    let (head, own) = (&export.audit_end().head, options.recorder.key.as_ref());
    if head.key.is_empty() || own.is_some_and(|key| key.id() == head.key) {
        return Ok(());
    }
    let has = if own.is_none() { "no key" } else { "another one" };
    let problem = format!(
        "the audit of the data directory is kept with the key {}, and the gateway has {has}: set audit.key_file to the key of that service, \
         so that the chain goes on",
        head.key
    );
    Err(StoreError::Conflict(problem))
}

async fn has_tables(db: &Database) -> Result<(), StoreError> {
    match schema::state(db).await? {
        SchemaState::Older { .. } => {
            let problem = "its tables are not those of this release: run `toolgate store migrate`";
            Err(failed("use the database", problem))
        }
        SchemaState::Equal | SchemaState::Newer { .. } => Ok(()),
    }
}

/// What can be told of a data directory before its outputs are looked at.
fn expected(export: &Export) -> Result<Imported, StoreError> {
    let unfinished = export.unfinished()?;
    let waiting = unfinished.iter().filter(|call| lost::only_waits(call)).count() as u64;
    Ok(Imported {
        counts: export.counts()?,
        lost: unfinished.len() as u64 - waiting,
        waiting,
        head: Some(export.audit_end().head.clone()),
        ..Imported::default()
    })
}

async fn import_in(
    session: &mut Session,
    options: &PostgresOptions,
    export: &mut Export,
    keys: Vec<Key>,
) -> Result<Imported, StoreError> {
    session.batch(ALONE).await?;
    import_check::expect_empty(session).await?;
    import_check::expect_room(session, export.days()?).await?;
    let mut imported = expected(export)?;
    import_rows::calls(session, export).await?;
    import_rows::events(session, export).await?;
    import_rows::changes(session, export).await?;
    import_rows::prompts(session, export).await?;
    import_rows::grants(session, export).await?;
    import_rows::facts(session, export).await?;
    let Outputs { bytes, without_file } = import_rows::outputs(session, export).await?;
    (imported.output_bytes, imported.outputs_without_file) = (bytes, without_file);
    imported.counts.outputs -= without_file;
    import_rows::journal(session, export).await?;
    import_rows::audit(session, export).await?;
    import_check::expect_all(session, &imported).await?;
    let ended = end_lost(session).await?;
    if ended != imported.lost {
        let problem = format!("{ended} calls were ended as lost, not {}", imported.lost);
        return Err(failed("end what had not ended", problem));
    }
    // They are for the next holder of the workspace, not for the first run that comes.
    let sql = "INSERT INTO workspaces (id) SELECT DISTINCT workspace FROM calls WHERE ended IS NULL ON CONFLICT (id) DO NOTHING";
    session.run(sql, values![]).await?;
    Sequencer::of(options.recorder.clone()).drain(session).await?;
    let keys = options.recorder.key.iter().cloned().chain(keys).collect();
    import_check::expect_chain(session, keys).await?;
    Ok(imported)
}

/// Ends what had not ended and does not only wait; returns how many calls.
async fn end_lost(session: &mut Session) -> Result<u64, StoreError> {
    let sql = "SELECT number, record FROM calls WHERE ended IS NULL AND number > $1 ORDER BY number LIMIT $2";
    let (mut last, mut ended, now) = (0, 0, Timestamp::now());
    loop {
        let rows = session.rows(sql, values![last, CALLS_PER_BATCH]).await?;
        let Some(row) = rows.last() else { return Ok(ended) };
        last = row.get(0);
        let read = |row: &Row| decode::<CallRecord>("a call", row.get(1));
        for mut record in rows.iter().map(read).collect::<Result<Vec<_>, _>>()? {
            if lost::only_waits(&record) {
                continue;
            }
            let workspace = record.origin.workspace.clone();
            settling::withdraw(session, &workspace, std::slice::from_ref(&record), lost::WITHDRAWN).await?;
            let end = lost::end(&mut record, now);
            calls::end_in(session, record, end).await?;
            ended += 1;
        }
    }
}
