//! What dead runs left in their workspaces, ended for them.
//!
//! *Invariant:* a dead run loses a workspace before anything in it is ended, in one transaction with the first of that, and to take
//! it waits for what the run is writing. So nothing of it comes after an end. A workspace is marked until the last of its calls is
//! ended, so that others go on where one stops half-way; its row is locked meanwhile, so that each call is ended once.
//!
//! What cannot be read or ended keeps nothing else from being ended, and its workspace stays marked: a later release may read it.
//!
//! What only waits for a person stays, with its prompts, for the next run that holds the workspace.

use tokio_postgres::Row;
use toolgate_model::{CallRecord, Timestamp};
use toolgate_store::StoreError;
use toolgate_store::codec::decode;
use toolgate_store::lost;

use crate::connection::{Session, retrying};
use crate::instances::is_dead;
use crate::query::within_bytes;
use crate::store::Shared;
use crate::text::plain;
use crate::values::values;
use crate::{calls, lost_output, settling};

/// So many calls are looked at in one transaction.
const CALLS_PER_BATCH: i64 = 64;

/// So many workspaces are taken in one transaction from runs in which nothing was going on.
const WORKSPACES_PER_BATCH: i64 = 500;

/// Ends what dead runs left; returns the calls.
pub(crate) async fn reap(shared: &Shared) -> Result<Vec<CallRecord>, StoreError> {
    shared.instances.serve();
    shared.instances.look(&shared.db).await?;
    let (mut rows, mut taken) = (left(shared).await?, 0);
    if rows.len() > 1 {
        taken = take_idle(shared).await?;
        rows = left(shared).await?;
    }
    let (mut ended, mut failure) = (Vec::new(), None);
    for row in &rows {
        let workspace: String = row.get(0);
        match reap_one(shared, &workspace, &mut ended).await {
            Ok(()) => {}
            // It is the same with all others.
            Err(error @ StoreError::Unavailable(_)) => {
                failure = Some(error);
                break;
            }
            Err(error) => {
                if shared.instances.is_to_be_told(&workspace) {
                    let workspace = plain(&workspace);
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        workspace,
                        "what a dead run left there cannot be ended; it is tried again"
                    );
                }
                failure.get_or_insert(error);
            }
        }
    }
    if !ended.is_empty() {
        shared.told();
    }
    if taken > 0 || !rows.is_empty() {
        shared.instances.forget_dead();
    }
    match failure.filter(|_| ended.is_empty()) {
        Some(error) => Err(error),
        None => Ok(ended),
    }
}

/// Returns the workspaces in which dead runs may have left something.
async fn left(shared: &Shared) -> Result<Vec<Row>, StoreError> {
    let sql = format!(
        "SELECT id FROM workspaces WHERE is_left OR owner IS NOT NULL AND {} ORDER BY id",
        is_dead("owner", "$1")
    );
    let what = "look for workspaces of dead runs";
    shared.db.rows(what, &sql, values![shared.instances.silent()]).await
}

/// Takes the workspaces of dead runs in which no call is to be ended, many at once: of ten thousand workers that do nothing, all are
/// dead in the same minute. Returns how many were taken.
async fn take_idle(shared: &Shared) -> Result<u64, StoreError> {
    let mut all = 0;
    loop {
        let taken = retrying(|| async {
            let mut session = shared.db.begin("take the workspaces of dead runs").await?;
            let taken = take_idle_in(shared, &mut session).await;
            session.end(taken).await
        })
        .await?;
        shared.instances.count_expired(taken);
        all += taken;
        if (taken as i64) < WORKSPACES_PER_BATCH {
            return Ok(all);
        }
    }
}

async fn take_idle_in(shared: &Shared, session: &mut Session) -> Result<u64, StoreError> {
    // Whoever writes holds the row: it is left to who waits for that.
    let sql = format!(
        "WITH idle AS (SELECT id FROM workspaces WHERE owner IS NOT NULL AND NOT is_left AND {}
             AND NOT EXISTS (SELECT FROM calls WHERE calls.workspace = workspaces.id AND ended IS NULL)
             LIMIT $2 FOR UPDATE SKIP LOCKED)
         UPDATE workspaces SET epoch = epoch + 1, owner = NULL, is_left = TRUE FROM idle WHERE workspaces.id = idle.id
         RETURNING workspaces.id",
        is_dead("owner", "$1")
    );
    let silent = shared.instances.silent();
    let rows = session.rows(&sql, values![silent, WORKSPACES_PER_BATCH]).await?;
    let taken: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    // Looked at once more: until a row was locked, a call may have been written there.
    let sql = "UPDATE workspaces SET is_left = FALSE WHERE id = ANY ($1)
                   AND NOT EXISTS (SELECT FROM calls WHERE calls.workspace = workspaces.id AND ended IS NULL)";
    session.run(sql, values![taken]).await?;
    Ok(rows.len() as u64)
}

/// Ends what a dead run left in one workspace.
async fn reap_one(shared: &Shared, workspace: &str, ended: &mut Vec<CallRecord>) -> Result<(), StoreError> {
    let mut from = Some(Place::default());
    while let Some(place) = from {
        let (some, next) = retrying(|| batch(shared, workspace, place)).await?;
        ended.extend(some);
        from = next;
    }
    Ok(())
}

/// How far a workspace has been looked through.
#[derive(Clone, Copy, Default)]
struct Place {
    /// With which epoch, if it has been begun: once somebody else had it, there may be more to be found before.
    epoch: Option<i64>,
    /// Behind which call it goes on.
    after: i64,
    /// Something before it cannot be read.
    has_unreadable: bool,
}

/// What a batch has ended, and where it goes on.
type Batch = (Vec<CallRecord>, Option<Place>);

async fn batch(shared: &Shared, workspace: &str, from: Place) -> Result<Batch, StoreError> {
    let mut session = shared.db.begin("end what a dead run left").await?;
    let mut expired = 0;
    let ended = batch_in(shared, &mut session, (workspace, from), &mut expired).await;
    let ended = session.end(ended).await?;
    shared.instances.count_expired(expired);
    Ok(ended)
}

async fn batch_in(
    shared: &Shared,
    session: &mut Session,
    (workspace, from): (&str, Place),
    expired: &mut u64,
) -> Result<Batch, StoreError> {
    // It waits for what the run is writing, and for another one that is at it.
    session
        .rows("SELECT FROM workspaces WHERE id = $1 FOR UPDATE", values![workspace])
        .await?;
    let silent = shared.instances.silent();
    let sql = format!(
        "UPDATE workspaces SET epoch = epoch + 1, owner = NULL, is_left = TRUE WHERE id = $1 AND owner IS NOT NULL AND {}",
        is_dead("owner", "$2")
    );
    *expired = session.run(&sql, values![workspace, silent]).await?;
    let sql = "SELECT epoch FROM workspaces WHERE id = $1 AND is_left AND epoch = coalesce($2, epoch)";
    let Some(row) = session.row(sql, values![workspace, from.epoch]).await? else {
        // Somebody has it, or another one has done all.
        return Ok((Vec::new(), None));
    };
    let epoch: i64 = row.get(0);
    // A run without a database that still lives, because it has another workspace, has lost what it had here.
    let sql = format!(
        "SELECT number, record, day FROM calls c WHERE ended IS NULL AND workspace = $1 AND number > $2
             AND ({} OR EXISTS (SELECT FROM instances WHERE instances.id = c.owner AND is_bound))
         ORDER BY number LIMIT $4 FOR UPDATE OF c",
        is_dead("c.owner", "$3")
    );
    let rows = session
        .rows(
            &within_bytes(&sql),
            values![workspace, from.after, silent, CALLS_PER_BATCH],
        )
        .await?;
    let (mut lost, mut has_unreadable) = (Vec::new(), from.has_unreadable);
    for row in &rows {
        match decode::<CallRecord>("a call", row.get(1)) {
            Ok(record) => lost.push(((row.get::<_, i64>(2), row.get::<_, i64>(0)), record)),
            Err(error) => {
                has_unreadable = true;
                if shared.instances.is_to_be_told(workspace) {
                    let (workspace, number) = (plain(workspace), row.get::<_, i64>(0));
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        workspace,
                        number,
                        "a call of a dead run cannot be read, so it does not end; it is tried again"
                    );
                }
            }
        }
    }
    lost.retain(|(_, record)| !lost::only_waits(record));
    let (places, mut lost): (Vec<(i64, i64)>, Vec<CallRecord>) = lost.into_iter().unzip();
    let missing = lost_output::missing(session, &places).await?;
    if !lost.is_empty() {
        let name = lost
            .first()
            .map_or_else(|| plain(workspace), |call| call.origin.workspace.clone());
        settling::withdraw(session, &name, &lost, lost::WITHDRAWN).await?;
    }
    let now = Timestamp::now();
    for ((_, number), record) in places.iter().zip(&mut lost) {
        let missing = missing.get(number).copied().unwrap_or_default();
        let end = lost::end_without(record, now, missing);
        calls::end_in(session, record.clone(), end).await?;
    }
    let found = rows.first().map_or(0, |row| row.get::<_, i64>("found"));
    if found < CALLS_PER_BATCH && rows.len() as i64 == found {
        if !has_unreadable {
            let sql = "UPDATE workspaces SET is_left = FALSE WHERE id = $1";
            session.run(sql, values![workspace]).await?;
            shared.instances.is_well(workspace);
        }
        return Ok((lost, None));
    }
    let next = rows.last().map(|row| Place {
        epoch: Some(epoch),
        after: row.get(0),
        has_unreadable,
    });
    Ok((lost, next))
}
