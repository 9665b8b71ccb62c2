//! How old calls go: days as a whole where that is worth it, else one by one; and what belonged to them.
//!
//! *Invariant:* a day goes only as a whole if all calls of it may go, which is looked at once more while nobody else can write
//! to it. Nobody is kept waiting for long: what cannot be locked at once is left to the next time.
//!
//! To delete rows costs about as much as it cost to write them, to drop a table costs nothing. So on the day that the limit
//! falls into, and on the day before, more than [`ROWS_WORTH_WAITING`] calls that may go stay until the whole day may: they are
//! kept for up to two days longer.

use toolgate_model::Timestamp;
use toolgate_store::StoreError;
use toolgate_store::codec::unsigned;

use crate::connection::{Database, Session, retrying};
use crate::error::was_locked;
use crate::partitions::{self, TABLES, day_of, name};
use crate::store::Shared;
use crate::values::values;
use crate::{changes, grants};

/// So many calls of a recent day are worth waiting until the day goes as a whole.
const ROWS_WORTH_WAITING: u64 = 10_000;

/// So many calls are deleted in one transaction.
const CALLS_PER_DELETE: i64 = 500;

/// How many calls of a day may go, and how many stay.
async fn count(session: &mut Session, day: i64, before: Timestamp) -> Result<(u64, u64), StoreError> {
    let sql = "SELECT count(*) FILTER (WHERE ended < $2), count(*) FROM calls WHERE day = $1";
    let row = session.row(sql, values![day, before.millis()]).await?;
    let (old, all) = row.map_or((0, 0), |row| (unsigned(row.get(0)), unsigned(row.get(1))));
    Ok((old, all.saturating_sub(old)))
}

/// Deletes finished calls that ended before a moment, and what belonged to them. Returns how many went.
pub(crate) async fn sweep(shared: &Shared, before: Timestamp) -> Result<usize, StoreError> {
    let (db, limit) = (&shared.db, day_of(before));
    let mut gone = 0;
    for day in partitions::days(db).await?.into_iter().filter(|day| *day <= limit) {
        let (old, young) = count(&mut db.session("look for old calls").await?, day, before).await?;
        let is_recent = day >= limit - 1;
        if old == 0 && (young > 0 || is_recent) {
            continue;
        }
        if young == 0 {
            gone += drop_day(shared, day, old, before).await?;
        } else if !is_recent || old <= ROWS_WORTH_WAITING {
            gone += delete_calls(db, day, before).await?;
        }
    }
    let sql = "DELETE FROM facts WHERE NOT EXISTS (SELECT FROM calls WHERE calls.session = facts.session)";
    db.rows("delete facts of old sessions", sql, values![]).await?;
    grants::sweep(db, shared.instances.trusts_leases()).await?;
    changes::sweep(db).await?;
    Ok(gone)
}

/// Drops the partitions of a day. Returns how many calls went; none if the day is in use.
async fn drop_day(shared: &Shared, day: i64, old: u64, before: Timestamp) -> Result<usize, StoreError> {
    let what = "delete what belonged to the calls of a day";
    // First, and not while the tables are locked: should this end half-way, the day is found again.
    for sql in [
        "DELETE FROM prompts WHERE call IN (SELECT id FROM call_days WHERE day = $1)",
        "DELETE FROM changes WHERE day = $1",
        "DELETE FROM call_days WHERE day = $1",
    ] {
        shared.db.rows(what, sql, values![day]).await?;
    }
    let dropped = retrying(|| async {
        let mut session = shared.db.begin("drop the calls of a day").await?;
        let dropped = drop_in(&mut session, day, before).await;
        session.end(dropped).await
    });
    match dropped.await {
        Ok(false) => Ok(0),
        Ok(true) => {
            shared.days.forget(day);
            Ok(usize::try_from(old).unwrap_or(usize::MAX))
        }
        Err(error) if was_locked(&error) => {
            tracing::info!(day, "the calls of a day stay for now: they are in use");
            Ok(0)
        }
        Err(error) => Err(error),
    }
}

async fn drop_in(session: &mut Session, day: i64, before: Timestamp) -> Result<bool, StoreError> {
    session
        .batch("SET LOCAL lock_timeout = '500ms'; LOCK TABLE ONLY calls, ONLY events")
        .await?;
    let sql = "SELECT FROM calls WHERE day = $1 AND (ended IS NULL OR ended >= $2) LIMIT 1";
    if session.row(sql, values![day, before.millis()]).await?.is_some() {
        return Ok(false);
    }
    for table in TABLES {
        session.batch(&format!("DROP TABLE {}", name(table, day))).await?;
    }
    Ok(true)
}

/// Deletes the old calls of a day one by one, some in each transaction.
async fn delete_calls(db: &Database, day: i64, before: Timestamp) -> Result<usize, StoreError> {
    let sql =
        "WITH old AS (SELECT number, id FROM calls WHERE day = $1 AND ended < $2 ORDER BY ended LIMIT $3 FOR UPDATE),
                   logs AS (DELETE FROM events USING old WHERE day = $1 AND call = old.number),
                   asked AS (DELETE FROM prompts USING old WHERE call = old.id),
                   changed AS (DELETE FROM changes USING old WHERE call = old.number),
                   places AS (DELETE FROM call_days USING old WHERE call_days.id = old.id),
                   gone AS (DELETE FROM calls USING old WHERE day = $1 AND calls.number = old.number RETURNING TRUE)
               SELECT count(*) FROM gone";
    let mut gone = 0;
    loop {
        let row = db
            .row("delete old calls", sql, values![day, before.millis(), CALLS_PER_DELETE])
            .await?;
        match row.map_or(0, |row| row.get::<_, i64>(0)) {
            0 => return Ok(gone),
            some => gone += usize::try_from(some).unwrap_or(0),
        }
    }
}
