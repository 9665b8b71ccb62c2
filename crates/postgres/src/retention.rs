//! How old calls go: days as a whole where that is worth it, else one by one; and what belonged to them.
//!
//! *Invariant:* a day goes only as a whole if all calls of it may go, which is looked at once more while nobody else can write
//! to it. Nobody is kept waiting for long: what cannot be locked at once is left to the next time. What belonged to the calls of a
//! day goes after the day, by what is left without a call: it is found again should this end half-way.
//!
//! To delete rows costs about as much as it cost to write them, to drop a table costs nothing. So on the day that the limit
//! falls into, and on the day before, more than [`ROWS_WORTH_WAITING`] calls that may go stay until the whole day may: they are
//! kept for up to two days longer.

use toolgate_model::Timestamp;
use toolgate_store::StoreError;
use toolgate_store::codec::{signed, unsigned};

use crate::connection::{Database, Session, retrying};
use crate::error::was_locked;
use crate::partitions::{self, TABLES, day_of, name};
use crate::store::Shared;
use crate::values::{Values, values};
use crate::{changes, grants, holds};

/// So many calls of a recent day are worth waiting until the day goes as a whole.
const ROWS_WORTH_WAITING: u64 = 10_000;

/// So many calls are deleted in one transaction.
const CALLS_PER_DELETE: i64 = 500;

/// What there is of a day.
struct Day {
    /// How many calls may go: one more than are counted if there are more.
    old: u64,
    /// Whether there are calls that stay.
    is_young: bool,
}

/// Looks at a day, and no further than is needed: a day may have millions of calls.
async fn look(db: &Database, day: i64, before: Timestamp) -> Result<Day, StoreError> {
    let sql = "SELECT (SELECT count(*) FROM (SELECT FROM calls WHERE day = $1 AND ended < $2 LIMIT $3) AS few),
                   EXISTS (SELECT FROM calls WHERE day = $1 AND ended IS NULL)
                   OR EXISTS (SELECT FROM calls WHERE day = $1 AND ended >= $2)";
    let (before, most) = (before.millis(), signed(ROWS_WORTH_WAITING + 1));
    let row = db.row("look for old calls", sql, values![day, before, most]).await?;
    Ok(Day {
        old: row.as_ref().map_or(0, |row| unsigned(row.get(0))),
        is_young: row.is_some_and(|row| row.get(1)),
    })
}

/// Deletes finished calls that ended before a moment, and what belonged to them. Returns how many went.
pub(crate) async fn sweep(shared: &Shared, before: Timestamp) -> Result<usize, StoreError> {
    let (db, limit) = (&shared.db, day_of(before));
    let mut gone = 0;
    for day in partitions::days(db).await?.into_iter().filter(|day| *day <= limit) {
        let Day { old, is_young } = look(db, day, before).await?;
        let is_recent = day >= limit - 1;
        if old == 0 && (is_young || is_recent) {
            continue;
        }
        if !is_young {
            drop_day(shared, day, before).await?;
        } else if !is_recent || old <= ROWS_WORTH_WAITING {
            gone += delete_calls(db, day, before).await?;
        }
    }
    for day in days_of_places(db).await?.into_iter().filter(|day| *day <= limit) {
        gone += delete_remains(db, day).await?;
    }
    // A fact may come before the first call of its session. One that is stored anew meanwhile stays, too: this is asked again of
    // a row that was changed, what there is of calls is not.
    let sql = "DELETE FROM facts WHERE stored < clock_timestamp() - interval '1 hour'
                   AND NOT EXISTS (SELECT FROM calls WHERE calls.session = facts.session)";
    db.rows("delete facts of old sessions", sql, values![]).await?;
    grants::sweep(db, shared.instances.silent()).await?;
    changes::sweep(db).await?;
    holds::sweep(shared).await?;
    Ok(gone)
}

/// Drops the partitions of a day, unless it is in use. What belonged to its calls goes afterwards.
async fn drop_day(shared: &Shared, day: i64, before: Timestamp) -> Result<(), StoreError> {
    let dropped = retrying(|| async {
        let mut session = shared.db.begin("drop the calls of a day").await?;
        let dropped = drop_in(&mut session, day, before).await;
        session.end(dropped).await
    });
    match dropped.await {
        Ok(false) => Ok(()),
        Ok(true) => {
            shared.days.forget(day);
            Ok(())
        }
        Err(error) if was_locked(&error) => {
            tracing::info!(day, "the calls of a day stay for now: they are in use");
            Ok(())
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

/// Returns the days of all places of calls, the oldest first: the next one each time, as there are few of them in many rows.
async fn days_of_places(db: &Database) -> Result<Vec<i64>, StoreError> {
    let sql = "WITH RECURSIVE found AS (SELECT min(day) AS day FROM call_days
                   UNION ALL SELECT (SELECT min(day) FROM call_days WHERE day > found.day) FROM found WHERE day IS NOT NULL)
               SELECT day FROM found WHERE day IS NOT NULL";
    let rows = db.rows("list the days of calls", sql, values![]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Deletes what belonged to the calls of a day that have gone with it, some in each transaction. Returns how many calls they
/// were. A call that was admitted since has its own place, with itself, and keeps it.
async fn delete_remains(db: &Database, day: i64) -> Result<usize, StoreError> {
    let sql = "WITH old AS (SELECT id, number FROM call_days WHERE day = $1
                       AND NOT EXISTS (SELECT FROM calls WHERE calls.day = $1 AND calls.number = call_days.number)
                   LIMIT $2 FOR UPDATE),
                   asked AS (DELETE FROM prompts USING old WHERE call = old.id),
                   changed AS (DELETE FROM changes USING old WHERE call = old.number),
                   places AS (DELETE FROM call_days USING old
                       WHERE call_days.id = old.id AND call_days.number = old.number RETURNING TRUE)
               SELECT count(*) FROM places";
    let what = "delete what belonged to the calls of a day";
    delete_all(db, what, sql, values![day, CALLS_PER_DELETE]).await
}

/// Deletes the old calls of a day one by one, some in each transaction.
async fn delete_calls(db: &Database, day: i64, before: Timestamp) -> Result<usize, StoreError> {
    let sql =
        "WITH old AS (SELECT number, id FROM calls WHERE day = $1 AND ended < $2 ORDER BY ended LIMIT $3 FOR UPDATE),
                   logs AS (DELETE FROM events USING old WHERE day = $1 AND call = old.number),
                   asked AS (DELETE FROM prompts USING old WHERE call = old.id),
                   changed AS (DELETE FROM changes USING old WHERE call = old.number),
                   places AS (DELETE FROM call_days USING old
                       WHERE call_days.id = old.id AND call_days.number = old.number),
                   gone AS (DELETE FROM calls USING old WHERE day = $1 AND calls.number = old.number RETURNING TRUE)
               SELECT count(*) FROM gone";
    let before = before.millis();
    delete_all(db, "delete old calls", sql, values![day, before, CALLS_PER_DELETE]).await
}

/// Runs a statement that deletes some and says how many, until there are no more. Returns how many there were.
async fn delete_all(db: &Database, what: &'static str, sql: &str, values: Values<'_>) -> Result<usize, StoreError> {
    let mut gone = 0;
    loop {
        match db.row(what, sql, values).await?.map_or(0, |row| row.get::<_, i64>(0)) {
            0 => return Ok(gone),
            some => gone += usize::try_from(some).unwrap_or(0),
        }
    }
}
