//! Which run has which workspace: taken, kept, doubted, given up.
//!
//! *Invariant:* rows of workspaces are locked before those of runs, and either in the order of their ids. Whoever takes a workspace
//! from a run that is dead makes its epoch another one: should that run live after all, nothing of what it says is taken. What a worker
//! of a pool was bound to is its principal's alone.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use toolgate_model::InstanceId;
use toolgate_store::StoreError;
use toolgate_store::codec::{signed, unsigned};
use toolgate_store::ledger::{Bound, Hold};

use crate::connection::{Session, retrying};
use crate::instances::is_dead;
use crate::store::Shared;
use crate::text::{escaped, key, plain};
use crate::values::values;

/// How long a run that is doubted has to renew its lease.
const DOUBT: Duration = Duration::from_secs(1);

/// Workspaces of one principal that there may be: a row stays of each, until nothing is kept of what happened there.
const MAX_WORKSPACES: i64 = 100_000;

/// Gives workspaces to a run: all or none.
pub(crate) async fn bind(
    shared: &Shared,
    run: &InstanceId,
    principal: &str,
    address: &str,
    workspaces: &[String],
) -> Result<Bound, StoreError> {
    shared.instances.serve();
    let bound = try_bind(shared, run, principal, address, workspaces).await?;
    if let Bound::Now(_) = bound {
        return Ok(bound);
    }
    // Whoever has them may have died since it was last looked.
    shared.instances.look(&shared.db).await?;
    try_bind(shared, run, principal, address, workspaces).await
}

async fn try_bind(
    shared: &Shared,
    run: &InstanceId,
    principal: &str,
    address: &str,
    workspaces: &[String],
) -> Result<Bound, StoreError> {
    let keys: Vec<String> = workspaces.iter().map(|workspace| key(workspace)).collect();
    let bind = async || {
        let mut session = shared.db.begin("give workspaces to a run").await?;
        let bound = bind_in(shared, &mut session, (run, principal), address, &keys).await;
        session.end(bound).await
    };
    // Said again, it gives the run what it has got.
    let found = shared
        .db
        .certainly("give workspaces to a run", |_| retrying(&bind))
        .await?;
    let hold = |epochs: Vec<(String, u64)>| {
        let epoch_of = |key: &String| epochs.iter().find(|(id, _)| id == key).map(|(_, epoch)| *epoch);
        let holds = workspaces.iter().zip(&keys).filter_map(|(workspace, key)| {
            Some(Hold {
                workspace: workspace.clone(),
                run: run.clone(),
                principal: principal.to_owned(),
                epoch: epoch_of(key)?,
            })
        });
        holds.collect()
    };
    Ok(match found {
        Found::Free(epochs) => Bound::Now(hold(epochs)),
        Found::Held { id, by, retry } => Bound::Held {
            workspace: workspaces
                .iter()
                .zip(&keys)
                .find(|(_, key)| **key == id)
                .map_or_else(|| plain(&id), |(workspace, _)| workspace.clone()),
            by: InstanceId::new(plain(&by)),
            retry,
        },
    })
}

/// Waits for whoever is taking a workspace that has a row, and lets none take it until the transaction ends.
pub(crate) const HOLD_STILL: &str = "SELECT FROM workspaces WHERE id = $1 FOR SHARE";

/// What was found of workspaces that a run wants.
enum Found {
    /// It has them now, by these epochs.
    Free(Vec<(String, u64)>),
    /// Another one has this.
    Held { id: String, by: String, retry: Duration },
}

fn not_of_this(run: &InstanceId) -> StoreError {
    StoreError::Conflict(format!("the run {run} is not one of this worker"))
}

/// Refuses new workspaces of a principal that has too many, else makes their rows.
async fn make(session: &mut Session, principal: &str, workspaces: &[String]) -> Result<(), StoreError> {
    let sql = "SELECT count(*) FROM (SELECT DISTINCT id FROM unnest($1::text[]) AS id) AS one
               WHERE NOT EXISTS (SELECT FROM workspaces WHERE workspaces.id = one.id)";
    let row = session.row(sql, values![workspaces.to_vec()]).await?;
    let new: i64 = row.map_or(0, |row| row.get(0));
    if new == 0 {
        return Ok(());
    }
    let sql = "SELECT count(*) FROM (SELECT FROM workspaces WHERE principal = $1 LIMIT $2) AS few";
    let row = session.row(sql, values![principal, MAX_WORKSPACES]).await?;
    if row.map_or(0, |row| row.get::<_, i64>(0)) + new > MAX_WORKSPACES {
        return Err(StoreError::Full(format!(
            "{} would have more than {MAX_WORKSPACES} workspaces: use earlier ones again, give workers identities of their own, or \
             wait until what happened in some was deleted (retention)",
            plain(principal)
        )));
    }
    // Held, so that nothing is forgotten meanwhile.
    let row = session
        .row("SELECT epoch FROM forgotten_workspaces FOR SHARE", values![])
        .await?;
    let epoch: i64 = row.map_or(0, |row| row.get(0));
    let sql = "INSERT INTO workspaces (id, epoch) SELECT DISTINCT id, $2 FROM unnest($1::text[]) AS id ORDER BY id
               ON CONFLICT (id) DO NOTHING";
    session.run(sql, values![workspaces.to_vec(), epoch]).await.map(drop)
}

/// Forgets the workspaces that nobody has and of which nothing is kept.
pub(crate) async fn sweep(shared: &Shared) -> Result<(), StoreError> {
    // What nobody has, nobody writes for.
    let sql = "WITH gone AS (DELETE FROM workspaces WHERE id IN (SELECT id FROM workspaces
                       WHERE owner IS NULL AND NOT is_left
                           AND NOT EXISTS (SELECT FROM calls WHERE calls.workspace = workspaces.id)
                           AND NOT EXISTS (SELECT FROM outputs WHERE outputs.workspace = workspaces.id)
                       ORDER BY id FOR UPDATE SKIP LOCKED) RETURNING epoch)
               UPDATE forgotten_workspaces SET epoch = greatest(epoch, (SELECT max(epoch) FROM gone))";
    retrying(|| async {
        let mut session = shared.db.begin("forget workspaces that nobody has").await?;
        let swept = async {
            // Waits for who makes a new one: it would begin below.
            let lock = "SELECT FROM forgotten_workspaces FOR UPDATE";
            session.rows(lock, values![]).await?;
            session.run(sql, values![]).await.map(drop)
        }
        .await;
        session.end(swept).await
    })
    .await
}

async fn bind_in(
    shared: &Shared,
    session: &mut Session,
    (name, principal): (&InstanceId, &str),
    address: &str,
    workspaces: &[String],
) -> Result<Found, StoreError> {
    let (run, lease) = (key(name.as_str()), shared.instances.lease_millis());
    let principal = escaped(principal);
    // The row of a run goes a day after it was forgotten, and what it left may still be there: whose that is its workspaces say.
    let sql = "SELECT WHERE NOT EXISTS (SELECT FROM instances WHERE id = $1)
               AND (EXISTS (SELECT FROM workspaces WHERE owner = $1 AND principal IS DISTINCT FROM $2)
                   OR EXISTS (SELECT FROM calls JOIN workspaces ON workspaces.id = calls.workspace
                       WHERE calls.owner = $1 AND ended IS NULL AND principal IS DISTINCT FROM $2))";
    if session.row(sql, values![run, principal]).await?.is_some() {
        return Err(not_of_this(name));
    }
    make(session, &principal, workspaces).await?;
    // Waits for those that write.
    let sql = "SELECT owner FROM workspaces WHERE id = ANY ($1) ORDER BY id FOR UPDATE";
    let there = session.rows(sql, values![workspaces.to_vec()]).await?;
    if there.len() < workspaces.iter().collect::<HashSet<_>>().len() {
        // One of them was just swept: it is made again the next time.
        return Err(StoreError::Unavailable("a workspace was just forgotten".to_owned()));
    }
    // Statements of their own, so that they see what those have done, and those that bind workers.
    let sql =
        "SELECT workspace FROM bindings WHERE workspace = ANY ($1) AND principal <> $2 ORDER BY workspace LIMIT 1";
    if let Some(row) = session.row(sql, values![workspaces.to_vec(), principal]).await? {
        return Err(StoreError::Conflict(format!(
            "the workspace {} is for good that of a worker of a pool, which was bound to it: take another name",
            plain(row.get(0))
        )));
    }
    let sql = format!(
        "SELECT id, owner, greatest(0, (extract(epoch FROM (SELECT lease_until FROM instances WHERE instances.id = owner)
                    - clock_timestamp()) * 1000)::bigint)
         FROM workspaces WHERE id = ANY ($1) AND owner <> $2 AND NOT {} ORDER BY id LIMIT 1",
        is_dead("workspaces.owner", "$3")
    );
    let owners: HashSet<String> = there.iter().filter_map(|row| row.get(0)).collect();
    let silent = shared.instances.silent_of(&owners);
    if let Some(row) = session.row(&sql, values![workspaces.to_vec(), run, silent]).await? {
        let left = Duration::from_millis(unsigned(row.get(2)));
        return Ok(Found::Held {
            id: row.get(0),
            by: row.get(1),
            // One whose lease is over is dead when it has been looked at for long enough.
            retry: left.clamp(DOUBT.min(shared.instances.lease()), shared.instances.lease()),
        });
    }
    // Those that rest, or are about to, and those that have failed nobody gets, whoever starts there meanwhile.
    let sql = "SELECT name FROM created_workspaces WHERE name = ANY ($1)
                   AND stage IN ('suspending', 'suspended', 'deleting', 'failed') ORDER BY name LIMIT 1";
    if let Some(row) = session.row(sql, values![workspaces.to_vec()]).await? {
        return Ok(Found::Held {
            id: row.get(0),
            by: "none".to_owned(),
            retry: DOUBT.min(shared.instances.lease()),
        });
    }
    let sql = "UPDATE workspaces SET owner = $2, address = $3, is_left = FALSE, principal = $4,
                   epoch = epoch + CASE WHEN owner = $2 AND principal = $4 THEN 0 ELSE 1 END
               WHERE id = ANY ($1) RETURNING id, epoch";
    let rows = session
        .rows(sql, values![workspaces.to_vec(), run, escaped(address), principal])
        .await?;
    let sql = "INSERT INTO instances AS own (id, lease_until, is_bound, noted, principal)
               VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond', TRUE, 0, $3)
               ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, is_bound = TRUE, doubted = FALSE,
                   forgotten = NULL
               WHERE own.principal = excluded.principal RETURNING TRUE";
    if session.row(sql, values![run, lease, principal]).await?.is_none() {
        // What has been done goes with the error.
        return Err(not_of_this(name));
    }
    let epochs = rows.iter().map(|row| (row.get(0), unsigned(row.get(1))));
    Ok(Found::Free(epochs.collect()))
}

/// Renews the leases of runs that have a workspace; returns the others.
pub(crate) async fn renew(shared: &Shared, runs: &[InstanceId]) -> Result<Vec<InstanceId>, StoreError> {
    shared.instances.serve();
    let keys: Vec<String> = runs.iter().map(|run| key(run.as_str())).collect();
    let lease = shared.instances.lease_millis();
    let sql = "WITH mine AS (SELECT id FROM instances WHERE id = ANY ($1)
                       AND EXISTS (SELECT FROM workspaces WHERE owner = instances.id) ORDER BY id FOR NO KEY UPDATE)
               UPDATE instances SET lease_until = clock_timestamp() + $2 * interval '1 millisecond', doubted = FALSE,
                   forgotten = NULL
               FROM mine WHERE instances.id = mine.id RETURNING instances.id, lease_until::text";
    let rows = shared
        .db
        .rows("renew the leases of runs", sql, values![keys, lease])
        .await?;
    let mut renewed = std::collections::HashSet::new();
    for row in rows {
        renewed.insert(row.get::<_, String>(0));
        shared.instances.renewed(row.get(0), row.get(1));
    }
    let gone = runs.iter().zip(&keys).filter(|(_, key)| !renewed.contains(*key));
    Ok(gone.map(|(run, _)| run.clone()).collect())
}

/// Says whether a run is there that is this principal's.
pub(crate) async fn is_run_of(shared: &Shared, run: &InstanceId, principal: &str) -> Result<bool, StoreError> {
    let sql = "SELECT FROM instances WHERE id = $1 AND principal = $2";
    let (run, principal) = (key(run.as_str()), escaped(principal));
    let row = shared
        .db
        .row("look whose a run is", sql, values![run, principal])
        .await?;
    Ok(row.is_some())
}

/// As [`renew`], of runs that say what they have; returns what they do not have.
pub(crate) async fn renew_holds(shared: &Shared, holds: &[Hold]) -> Result<Vec<Hold>, StoreError> {
    shared.instances.serve();
    let workspaces: Vec<String> = holds.iter().map(|hold| key(&hold.workspace)).collect();
    let runs: Vec<String> = holds.iter().map(|hold| key(hold.run.as_str())).collect();
    let principals: Vec<String> = holds.iter().map(|hold| escaped(&hold.principal)).collect();
    let epochs: Vec<i64> = holds.iter().map(|hold| signed(hold.epoch)).collect();
    let lease = shared.instances.lease_millis();
    let sql = "WITH held AS (SELECT one.place, one.run FROM unnest($1::text[], $2::text[], $3::bigint[], $5::text[])
                       WITH ORDINALITY AS one (workspace, run, epoch, principal, place)
                   JOIN workspaces ON workspaces.id = one.workspace AND owner = one.run AND workspaces.epoch = one.epoch
                       AND workspaces.principal = one.principal),
               mine AS (SELECT id FROM instances WHERE id IN (SELECT run FROM held) ORDER BY id FOR NO KEY UPDATE),
               renewed AS (UPDATE instances SET lease_until = clock_timestamp() + $4 * interval '1 millisecond',
                       doubted = FALSE, forgotten = NULL
                   FROM mine WHERE instances.id = mine.id RETURNING instances.id, lease_until::text)
               SELECT held.place, renewed.id, renewed.lease_until FROM held JOIN renewed ON renewed.id = held.run";
    let rows = shared
        .db
        .rows(
            "renew the leases of runs",
            sql,
            values![workspaces, runs, epochs, lease, principals],
        )
        .await?;
    let mut held = std::collections::HashSet::new();
    for row in rows {
        held.insert(unsigned(row.get(0)));
        shared.instances.renewed(row.get(1), row.get(2));
    }
    let gone = (1..).zip(holds).filter(|(place, _)| !held.contains(place));
    Ok(gone.map(|(_, hold)| hold.clone()).collect())
}

/// Takes in how many of its notes a run knows to be stored: its row may be a new one, or of a database that was restored.
pub(crate) async fn has_noted(shared: &Shared, run: &InstanceId, noted: u64) -> Result<(), StoreError> {
    let (run, noted) = (key(run.as_str()), signed(noted));
    let sql = "UPDATE instances SET noted = $2 WHERE id = $1 AND noted < $2";
    let what = "look which notes are stored";
    shared.db.rows(what, sql, values![run, noted]).await.map(drop)
}

/// Returns which runs have workspaces.
pub(crate) async fn holders(shared: &Shared, workspaces: &[String]) -> Result<HashMap<String, InstanceId>, StoreError> {
    let keys: Vec<String> = workspaces.iter().map(|workspace| key(workspace)).collect();
    let sql = "SELECT one.place, owner FROM unnest($1::text[]) WITH ORDINALITY AS one (id, place)
               JOIN workspaces ON workspaces.id = one.id WHERE owner IS NOT NULL";
    let rows = shared.db.rows("look who has workspaces", sql, values![keys]).await?;
    let holder = |row: &tokio_postgres::Row| {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).ok()?;
        let name = workspaces.get(place)?.clone();
        Some((name, InstanceId::new(plain(row.get(1)))))
    };
    Ok(rows.iter().filter_map(holder).collect())
}

/// Says whether a run has ever had a workspace, since it was last deleted: its row stays.
pub(crate) async fn was_held(shared: &Shared, workspace: &str) -> Result<bool, StoreError> {
    let sql = "SELECT FROM workspaces WHERE id = $1 AND free_at IS DISTINCT FROM epoch";
    let row = shared
        .db
        .row("look for a workspace", sql, values![key(workspace)])
        .await?;
    Ok(row.is_some())
}

/// Leaves a run a moment to renew its lease, unless it has done so since it was last heard.
pub(crate) async fn doubt(
    shared: &Shared,
    run: &InstanceId,
    principal: &str,
    silence: Duration,
) -> Result<(), StoreError> {
    shared.instances.serve();
    // By how long its lease lasts it is known when it was renewed; if that is yet to come, the clock was put back.
    let sql = "UPDATE instances SET doubted = TRUE,
                   lease_until = least(lease_until, clock_timestamp() + $2 * interval '1 millisecond')
               WHERE id = $1 AND principal = $5 AND (lease_until <= clock_timestamp() + ($3 - $4) * interval '1 millisecond'
                    OR lease_until > clock_timestamp() + $3 * interval '1 millisecond')";
    let moment = DOUBT.as_millis() as i64;
    let (run, lease) = (key(run.as_str()), shared.instances.lease_millis());
    let silence = i64::try_from(silence.as_millis()).unwrap_or(lease).min(lease);
    let principal = escaped(principal);
    let values = values![run, moment, lease, silence, principal];
    shared.db.rows("doubt a run", sql, values).await.map(drop)
}

/// Gives up what a run has. Should it have left calls behind that do not wait, they are ended by who looks after the dead.
pub(crate) async fn release(shared: &Shared, run: &InstanceId) -> Result<(), StoreError> {
    let run = key(run.as_str());
    retrying(|| async {
        let mut session = shared.db.begin("give up the workspaces of a run").await?;
        let released = async {
            let sql = "SELECT FROM workspaces WHERE owner = $1 ORDER BY id FOR UPDATE";
            session.rows(sql, values![run]).await?;
            let sql = "UPDATE workspaces SET owner = NULL, is_left = TRUE WHERE owner = $1";
            session.run(sql, values![run]).await?;
            session
                .run("DELETE FROM instances WHERE id = $1", values![run])
                .await
                .map(drop)
        }
        .await;
        session.end(released).await
    })
    .await
}
