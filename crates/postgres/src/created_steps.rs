//! What gateways do for created workspaces that they have claimed, and which of these rest or wake up by themselves.
//!
//! *Invariant:* the row of `workspaces` is locked before that of `created_workspaces`. A workspace is taken from its holder in the
//! transaction that decides that it rests, or behind the one in which somebody wants that: a call is admitted before, and seen, or not at
//! all.

use std::time::Duration;

use tokio_postgres::Row;
use toolgate_model::{CallId, CallRecord, ServiceEvent, ServiceEventKind, Timestamp, WorkspaceChange};
use toolgate_store::audit::Fact;
use toolgate_store::codec::{decode, encode, signed};
use toolgate_store::created::{CreatedWorkspace, Stage, Step};
use toolgate_store::outbox::{Entry, Outbox};
use toolgate_store::{StoreError, lost};

use crate::connection::{Session, retrying};
use crate::created::{AFRESH, COLUMNS, notify, read_known};
use crate::query::within_bytes;
use crate::sequencer::entries;
use crate::store::Shared;
use crate::text::{escaped, key, plain};
use crate::values::values;
use crate::{calls, lost_output, settling};

/// Workspaces that are suspended at a time because they are idle.
const IDLE_AT_ONCE: i64 = 64;

/// Calls that are ended in one transaction.
const CALLS_PER_BATCH: i64 = 64;

/// How long nothing is done for a workspace that this release cannot read. Others may be able to.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(10);

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 1_000)
}

/// Claims some of those for which something is to be done now.
pub(crate) async fn claim(shared: &Shared, term: Duration, most: usize) -> Result<Vec<CreatedWorkspace>, StoreError> {
    let sql = format!(
        "UPDATE created_workspaces SET claimant = $1, claimed_until = clock_timestamp() + $2 * interval '1 millisecond'
         WHERE name IN (SELECT name FROM created_workspaces WHERE due <= clock_timestamp()
                 AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
             ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING {COLUMNS}"
    );
    let rows = shared
        .db
        .rows(
            "claim created workspaces",
            &sql,
            values![shared.instances.id, millis(term), signed(most as u64)],
        )
        .await?;
    let (known, others) = read_known(shared, &rows);
    if !others.is_empty() {
        let sql = "UPDATE created_workspaces SET due = clock_timestamp() + $3 * interval '1 millisecond',
                       claimant = NULL, claimed_until = NULL WHERE name = ANY ($1) AND claimant = $2";
        let what = "leave created workspaces to others";
        let time = millis(LEFT_TO_OTHERS);
        shared
            .db
            .rows(what, sql, values![others, shared.instances.id, time])
            .await?;
    }
    Ok(known)
}

/// Whether a row is at the stage that `$2` and `$3` tell of, for the run `$4`: not once more there after it was at another one.
const IS_MINE: &str =
    "name = $1 AND stage = $2 AND (extract(epoch FROM since) * 1000000)::bigint = $3 AND claimant = $4";

/// Keeps a claim for another term.
pub(crate) async fn keep(shared: &Shared, workspace: &CreatedWorkspace, term: Duration) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE created_workspaces SET claimed_until = clock_timestamp() + $5 * interval '1 millisecond' WHERE {IS_MINE} RETURNING TRUE"
    );
    let (name, stage) = (key(&workspace.name), workspace.stage.as_str());
    let row = shared
        .db
        .row(
            "keep a claim",
            &sql,
            values![name, stage, workspace.since, shared.instances.id, millis(term)],
        )
        .await?;
    Ok(row.is_some())
}

/// Says whether this process has claimed a workspace at the stage that it knows; until the transaction ends that stays so.
async fn is_mine(
    shared: &Shared,
    session: &mut Session,
    workspace: &CreatedWorkspace,
) -> Result<Option<Row>, StoreError> {
    let sql = format!("SELECT was_ready FROM created_workspaces WHERE {IS_MINE} FOR UPDATE");
    let (name, stage) = (key(&workspace.name), workspace.stage.as_str());
    session
        .row(&sql, values![name, stage, workspace.since, shared.instances.id])
        .await
}

/// Writes down what came of an attempt.
pub(crate) async fn step(shared: &Shared, workspace: &CreatedWorkspace, step: &Step) -> Result<bool, StoreError> {
    let stepped = retrying(|| async {
        let mut session = shared.db.begin("bring a created workspace further").await?;
        let stepped = async {
            let Some(row) = is_mine(shared, &mut session, workspace).await? else {
                return Ok(false);
            };
            step_in(&mut session, workspace, row.get(0), step).await?;
            Ok(true)
        }
        .await;
        session.end(stepped).await
    })
    .await?;
    shared.told();
    Ok(stepped)
}

async fn step_in(
    session: &mut Session,
    workspace: &CreatedWorkspace,
    was_ready: bool,
    step: &Step,
) -> Result<(), StoreError> {
    let name = key(&workspace.name);
    let (to, problem, due) = match step {
        Step::Later {
            after,
            problem,
            is_begun,
            attempts,
        } => {
            let sql = "UPDATE created_workspaces SET problem = $2, is_begun = $3, attempts = $4,
                           due = clock_timestamp() + $5 * interval '1 millisecond', claimant = NULL, claimed_until = NULL
                       WHERE name = $1";
            return session
                .run(
                    sql,
                    values![name, escaped(problem), *is_begun, signed(*attempts), millis(*after)],
                )
                .await
                .map(drop);
        }
        Step::Reached(stage, after) if *stage == workspace.stage => {
            let sql = "UPDATE created_workspaces SET problem = '', attempts = 0,
                           due = clock_timestamp() + $2 * interval '1 millisecond', claimant = NULL, claimed_until = NULL
                       WHERE name = $1";
            return session.run(sql, values![name, millis(*after)]).await.map(drop);
        }
        Step::Reached(stage, after) => (*stage, "", Some(millis(*after))),
        Step::Failed(problem) => (Stage::Failed, problem.as_str(), None),
    };
    // Nothing is got from there any more, or whoever tries again says it again.
    let source = match to {
        Stage::Ready | Stage::Failed => workspace.source.shown(),
        Stage::Creating | Stage::Suspending | Stage::Suspended | Stage::Resuming | Stage::Deleting => {
            workspace.source.clone()
        }
    };
    let source = encode("the source of a workspace", &source)?;
    let sql = "UPDATE created_workspaces SET stage = $2, since = clock_timestamp(), problem = $3, source = $4,
                   is_begun = FALSE, attempts = 0, claimant = NULL, claimed_until = NULL, asked_by = '',
                   due = clock_timestamp() + $5 * interval '1 millisecond', was_ready = was_ready OR $2 = 'ready',
                   called = CASE WHEN $2 = 'ready' THEN clock_timestamp() ELSE called END
               WHERE name = $1";
    session
        .run(sql, values![name, to.as_str(), escaped(problem), source, due])
        .await?;
    tell(session, workspace, (to, was_ready)).await?;
    notify(session).await
}

/// Tells the audit and the journal that a workspace has come to a stage.
async fn tell(
    session: &mut Session,
    workspace: &CreatedWorkspace,
    (to, was_ready): (Stage, bool),
) -> Result<(), StoreError> {
    let (name, by) = (&workspace.name, &workspace.asked_by);
    let fact = match to {
        Stage::Ready if !was_ready => Some(Fact::workspace_opened(name, "", &workspace.by)),
        Stage::Ready if workspace.stage != Stage::Ready => Some(Fact::workspace_resumed(name, by)),
        Stage::Suspended => Some(Fact::workspace_suspended(name, by)),
        Stage::Ready | Stage::Creating | Stage::Suspending | Stage::Resuming | Stage::Deleting | Stage::Failed => None,
    };
    let change = match to {
        Stage::Ready if !was_ready => WorkspaceChange::Opened,
        Stage::Ready
        | Stage::Creating
        | Stage::Suspending
        | Stage::Suspended
        | Stage::Resuming
        | Stage::Deleting
        | Stage::Failed => WorkspaceChange::Changed,
    };
    put(session, name, fact, change).await
}

async fn put(
    session: &mut Session,
    workspace: &str,
    fact: Option<Fact>,
    change: WorkspaceChange,
) -> Result<(), StoreError> {
    let mut outbox = Outbox::default();
    if let Some(fact) = fact {
        outbox.tell(fact);
    }
    outbox.tell(Entry::try_from(&ServiceEvent {
        workspace: workspace.to_owned(),
        session: None,
        time: Timestamp::now(),
        kind: ServiceEventKind::WorkspaceChanged { change },
    })?);
    if let Some(told) = entries(outbox.take())? {
        let sql = "INSERT INTO outbox (entries) VALUES ($1)";
        session.run(sql, values![told]).await?;
    }
    Ok(())
}

/// Waits for those that write for a workspace, and lets none begin until the transaction ends.
async fn hold(session: &mut Session, name: &str) -> Result<(), StoreError> {
    let sql = "SELECT FROM workspaces WHERE id = $1 FOR UPDATE";
    session.rows(sql, values![name]).await.map(drop)
}

async fn take(session: &mut Session, name: &str) -> Result<(), StoreError> {
    let sql =
        "UPDATE workspaces SET epoch = epoch + 1, owner = NULL, is_left = FALSE WHERE id = $1 AND owner IS NOT NULL";
    session.run(sql, values![name]).await.map(drop)
}

/// Takes a claimed workspace from whoever holds it.
pub(crate) async fn take_from_holder(shared: &Shared, workspace: &CreatedWorkspace) -> Result<(), StoreError> {
    let name = key(&workspace.name);
    retrying(|| async {
        let mut session = shared.db.begin("take a workspace from a run").await?;
        let taken = async {
            hold(&mut session, &name).await?;
            match is_mine(shared, &mut session, workspace).await? {
                Some(_) => take(&mut session, &name).await,
                None => Ok(()),
            }
        }
        .await;
        session.end(taken).await
    })
    .await
}

/// Reads the unfinished calls of a workspace.
async fn records(session: &mut Session, name: &str, after: i64, most: i64) -> Result<Vec<Row>, StoreError> {
    let sql = "SELECT number, record, day FROM calls WHERE ended IS NULL AND workspace = $1 AND number > $2
               ORDER BY number LIMIT $3 FOR UPDATE";
    session.rows(&within_bytes(sql), values![name, after, most]).await
}

/// Returns the calls of a workspace that have not ended; each with whether it only waits.
pub(crate) async fn unfinished(shared: &Shared, name: &str) -> Result<Vec<(CallId, bool)>, StoreError> {
    let sql = "SELECT record FROM calls WHERE ended IS NULL AND workspace = $1 ORDER BY number";
    let what = "look what runs in a workspace";
    let rows = shared.db.rows(what, sql, values![key(name)]).await?;
    rows.iter()
        .map(|row| {
            let record: CallRecord = decode("a call", row.get(0))?;
            Ok((record.id.clone(), lost::only_waits(&record)))
        })
        .collect()
}

/// Suspends those that are idle.
pub(crate) async fn suspend_idle(shared: &Shared, idle: Duration) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT name FROM created_workspaces WHERE stage = 'ready'
                   AND called < clock_timestamp() - $1 * interval '1 millisecond' ORDER BY called LIMIT $2";
    let what = "look for idle workspaces";
    let rows = shared.db.rows(what, sql, values![millis(idle), IDLE_AT_ONCE]).await?;
    let mut suspended = Vec::new();
    for row in rows {
        let name: String = row.get(0);
        let is_idle = retrying(|| async {
            let mut session = shared.db.begin("suspend an idle workspace").await?;
            let suspended = suspend_if_idle(&mut session, &name, millis(idle)).await;
            session.end(suspended).await
        });
        match is_idle.await {
            Ok(true) => suspended.push(plain(&name)),
            Ok(false) => {}
            // It is the same with all others.
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error) => {
                let workspace = plain(&name);
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    workspace,
                    "an idle workspace cannot be suspended; it is tried again"
                );
            }
        }
    }
    Ok(suspended)
}

async fn suspend_if_idle(session: &mut Session, name: &str, idle: i64) -> Result<bool, StoreError> {
    hold(session, name).await?;
    // A statement of its own, behind the lock: it sees what those have done that held it.
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM created_workspaces
               WHERE name = $1 AND stage = 'ready' AND called < clock_timestamp() - $2 * interval '1 millisecond' FOR UPDATE";
    let Some(row) = session.row(sql, values![name, idle]).await? else {
        return Ok(false);
    };
    let since = row.get::<_, i64>(0) - idle;
    let sql = "SELECT record FROM calls WHERE ended IS NULL AND workspace = $1";
    let mut is_used = false;
    for row in session.rows(sql, values![name]).await? {
        // What cannot be read may do anything.
        let record: Result<CallRecord, StoreError> = decode("a call", row.get(0));
        is_used |= !record.is_ok_and(|record| lost::only_waits(&record));
    }
    if !is_used {
        // What came by another gateway may not have been noted yet, and what has just ended may have run for days: of no day in
        // particular. Few have ended since, and there is an index on when.
        let sql = "SELECT FROM calls WHERE workspace = $1 AND ended > $2 LIMIT 1";
        is_used = session.row(sql, values![name, since]).await?.is_some();
    }
    if is_used {
        let sql = "UPDATE created_workspaces SET called = clock_timestamp() WHERE name = $1";
        session.run(sql, values![name]).await?;
        return Ok(false);
    }
    take(session, name).await?;
    let sql = format!(
        "UPDATE created_workspaces SET stage = 'suspending', asked_by = '', cancelled = 0, {AFRESH} WHERE name = $1"
    );
    session.run(&sql, values![name]).await?;
    notify(session).await?;
    Ok(true)
}

/// Wants those suspended workspaces to be resumed in which a call has nothing to wait for any more.
pub(crate) async fn resume_answered(shared: &Shared) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "UPDATE created_workspaces SET stage = 'resuming', asked_by = '', {AFRESH}
         WHERE stage = 'suspended' AND name IN (SELECT workspace FROM calls
             WHERE ended IS NULL AND state = 'waiting'
                 AND workspace IN (SELECT name FROM created_workspaces WHERE stage = 'suspended')
                 AND NOT EXISTS (SELECT FROM prompts WHERE prompts.call = calls.id AND prompts.state = 'open'))
         RETURNING name"
    );
    let rows = shared
        .db
        .rows("look for suspended workspaces that go on", &sql, values![])
        .await?;
    Ok(rows.iter().map(|row| plain(row.get(0))).collect())
}

/// Ends calls of a workspace that nobody holds as cancelled.
pub(crate) async fn end_calls(
    shared: &Shared,
    workspace: &CreatedWorkspace,
    all: bool,
    before: u64,
) -> Result<(), StoreError> {
    let (mut after, mut before) = (Some(0), before);
    while let Some(place) = after {
        after = retrying(|| async {
            let mut session = shared.db.begin("end the calls of a workspace").await?;
            let ended = end_some(shared, &mut session, workspace, (all, place, before)).await;
            session.end(ended).await
        })
        .await?;
        before = 0;
        shared.told();
    }
    Ok(())
}

async fn end_some(
    shared: &Shared,
    session: &mut Session,
    workspace: &CreatedWorkspace,
    (all, after, before): (bool, i64, u64),
) -> Result<Option<i64>, StoreError> {
    let name = key(&workspace.name);
    hold(session, &name).await?;
    let sql = "SELECT FROM workspaces WHERE id = $1 AND owner IS NOT NULL";
    let is_held = session.row(sql, values![name]).await?.is_some();
    if is_held || is_mine(shared, session, workspace).await?.is_none() {
        return Ok(None);
    }
    let rows = records(session, &name, after, CALLS_PER_BATCH).await?;
    let mut ending = Vec::new();
    for row in &rows {
        let record: CallRecord = decode("a call", row.get(1))?;
        if all || !lost::only_waits(&record) {
            ending.push(((row.get::<_, i64>(2), row.get::<_, i64>(0)), record));
        }
    }
    let (places, mut ending): (Vec<(i64, i64)>, Vec<CallRecord>) = ending.into_iter().unzip();
    let missing = lost_output::missing(session, &places).await?;
    if !ending.is_empty() {
        settling::withdraw(session, &workspace.name, &ending, lost::CANCELLED).await?;
    }
    let (now, count) = (Timestamp::now(), signed(ending.len() as u64 + before));
    for ((_, number), record) in places.iter().zip(&mut ending) {
        let missing = missing.get(number).copied().unwrap_or_default();
        let end = lost::cancel_without(record, now, missing);
        calls::end_in(session, record.clone(), end).await?;
    }
    let sql = "UPDATE created_workspaces SET cancelled = cancelled + $2 WHERE name = $1";
    session.run(sql, values![name, count]).await?;
    Ok(rows.last().map(|row| row.get(0)))
}

/// Forgets a workspace that is deleted.
pub(crate) async fn forget(shared: &Shared, workspace: &CreatedWorkspace) -> Result<(), StoreError> {
    let name = key(&workspace.name);
    retrying(|| async {
        let mut session = shared.db.begin("forget a created workspace").await?;
        let forgotten = async {
            hold(&mut session, &name).await?;
            if is_mine(shared, &mut session, workspace).await?.is_none() {
                return Ok(());
            }
            take(&mut session, &name).await?;
            for sql in [
                "UPDATE workspaces SET free_at = epoch WHERE id = $1",
                "DELETE FROM bindings WHERE workspace = $1",
                "DELETE FROM created_workspaces WHERE name = $1",
            ] {
                session.run(sql, values![name]).await?;
            }
            let fact = Fact::workspace_closed(&workspace.name, &workspace.asked_by);
            put(&mut session, &workspace.name, Some(fact), WorkspaceChange::Closed).await?;
            notify(&mut session).await
        }
        .await;
        session.end(forgotten).await
    })
    .await?;
    shared.told();
    Ok(())
}
