//! Calls of a run that is dead, taken over by one that lives, with their open prompts.
//!
//! *Invariant:* each goes to one run only, also if several are at it. What a workspace that runs without a database had goes to the
//! next one that holds it, not to a run that has a database.

use parking_lot::Mutex;
use tokio_postgres::Row;
use toolgate_model::{CallRecord, InstanceId};
use toolgate_store::StoreError;
use toolgate_store::codec::{decode, encode};
use toolgate_store::ledger::Hold;

use crate::connection::{Database, Session, retrying};
use crate::fence::Fence;
use crate::instances::is_dead;
use crate::prompts;
use crate::query::within_bytes;
use crate::store::PostgresStore;
use crate::text::key;
use crate::values::values;

/// So many calls are taken over in one transaction.
const CALLS_PER_ADOPTION: i64 = 64;

/// Takes over the calls of dead runs; returns them.
pub(crate) async fn adopt_orphans(
    store: &PostgresStore,
    new_owner: &InstanceId,
) -> Result<Vec<CallRecord>, StoreError> {
    let db = &store.shared.db;
    let mut taken = db.turn("take over calls", &store.shared.unsure.adopted).await?;
    loop {
        // Kept also if nobody waits for this any more.
        let taken = Mutex::new(&mut *taken);
        if !retrying(|| adopt(store, new_owner, &taken)).await? {
            break;
        }
    }
    let adopted = match taken.is_empty() {
        true => Vec::new(),
        false => owned(db, new_owner, &taken).await?,
    };
    taken.clear();
    Ok(adopted)
}

/// Takes over some calls; false when there are no more. Calls that another one is taking over are left to it. Where they are
/// is added to `taken` before it is certain: they belong to a run that lives then, and nobody would find them again.
async fn adopt(
    store: &PostgresStore,
    new_owner: &InstanceId,
    taken: &Mutex<&mut Vec<(i64, i64)>>,
) -> Result<bool, StoreError> {
    let shared = &store.shared;
    let mut session = shared.db.begin("take over calls of a dead instance").await?;
    let adopted = async {
        let sql = format!(
            "SELECT day, number, record FROM calls c WHERE ended IS NULL AND owner <> $1 AND {}
                 AND NOT EXISTS (SELECT FROM workspaces WHERE workspaces.id = c.workspace)
             ORDER BY number LIMIT $3 FOR UPDATE OF c SKIP LOCKED",
            is_dead("c.owner", "$2")
        );
        let silent = shared.instances.silent();
        let owner = key(new_owner.as_str());
        let values = values![owner, silent, CALLS_PER_ADOPTION];
        let rows = session.rows(&within_bytes(&sql), values).await?;
        let places = give(&mut session, rows, new_owner, |places| taken.lock().extend(places)).await?;
        Ok(places > 0)
    }
    .await;
    session.end(adopted).await
}

/// Gives calls that are held, and their open prompts, to a new owner; returns how many. `before` is told where they are.
async fn give(
    session: &mut Session,
    rows: Vec<Row>,
    new_owner: &InstanceId,
    before: impl FnOnce(Vec<(i64, i64)>),
) -> Result<usize, StoreError> {
    let (mut days, mut numbers, mut jsons, mut adopted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let mut record: CallRecord = decode("a call", row.get(2))?;
        record.owner = new_owner.clone();
        days.push(row.get::<_, i64>(0));
        numbers.push(row.get::<_, i64>(1));
        jsons.push(encode("a call", &record)?);
        adopted.push(record);
    }
    before(days.iter().copied().zip(numbers.iter().copied()).collect());
    let sql = "UPDATE calls SET owner = $1, record = one.record
               FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS one (day, number, record)
               WHERE calls.day = one.day AND calls.number = one.number";
    session
        .run(sql, values![key(new_owner.as_str()), days, numbers, jsons])
        .await?;
    prompts::adopt(session, &adopted, new_owner).await?;
    Ok(adopted.len())
}

/// Returns those of some calls that belong to a run and are unfinished.
async fn owned(db: &Database, owner: &InstanceId, places: &[(i64, i64)]) -> Result<Vec<CallRecord>, StoreError> {
    let (days, numbers): (Vec<i64>, Vec<i64>) = places.iter().copied().unzip();
    let sql = "SELECT record FROM calls WHERE day = ANY ($1) AND number = ANY ($2) AND owner = $3 AND ended IS NULL
               ORDER BY number";
    let rows = db
        .rows(
            "read calls that were taken over",
            sql,
            values![days, numbers, key(owner.as_str())],
        )
        .await?;
    rows.iter().map(|row| decode("a call", row.get(0))).collect()
}

/// Bytes of calls that a run takes over at once: what is more stays where it is for the next time, and no answer becomes too long.
const MAX_ADOPTED_BYTES: usize = 24 << 20;

/// Takes over what earlier holders of a workspace left; returns what its holder has not ended.
pub(crate) async fn adopt_for(store: &PostgresStore, hold: &Hold) -> Result<Vec<CallRecord>, StoreError> {
    let (db, fence, what) = (&store.shared.db, Fence::new(hold), "take over the calls of a workspace");
    let some = async || {
        let mut session = db.begin(what).await?;
        let adopted = async {
            fence.hold(&mut session).await?;
            let sql = "SELECT day, number, record FROM calls WHERE ended IS NULL AND workspace = $1 AND owner <> $2
                       ORDER BY number LIMIT $3 FOR UPDATE";
            let values = values![fence.workspace, fence.run, CALLS_PER_ADOPTION];
            let rows = session.rows(&within_bytes(sql), values).await?;
            let bytes: usize = rows.iter().map(|row| row.get::<_, &str>(2).len()).sum();
            let count = give(&mut session, rows, &hold.run, drop).await?;
            Ok((count, bytes))
        }
        .await;
        session.end(adopted).await
    };
    let mut taken = 0;
    while taken < MAX_ADOPTED_BYTES {
        match retrying(&some).await? {
            (0, _) => break,
            (_, bytes) => taken += bytes,
        }
    }
    // By the index over the few calls of a run that have not ended.
    let sql = format!(
        "SELECT record FROM (SELECT number, record, sum(octet_length(record)) OVER (ORDER BY number) - octet_length(record) AS before
             FROM calls WHERE ended IS NULL AND owner = $1 AND workspace = $2) AS own
         WHERE before < {} ORDER BY number",
        2 * MAX_ADOPTED_BYTES
    );
    let rows = db.rows(what, &sql, values![fence.run, fence.workspace]).await?;
    rows.iter().map(|row| decode("a call", row.get(0))).collect()
}
