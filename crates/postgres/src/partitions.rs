//! The days that calls and their events are kept by: a partition of either table for each day of admission.
//!
//! *Invariant:* partitions are made before they are needed, for the days ahead and when a call names another one, without
//! waiting for those who read or write.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use toolgate_model::{CallId, Timestamp};
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

use crate::connection::{Database, Session, retrying};
use crate::error::lacks_partition;
use crate::text::key;
use crate::values::values;

const MILLIS_PER_DAY: i64 = 86_400_000;

/// So many days ahead have their partitions.
const AHEAD: i64 = 2;

/// The tables that are partitioned.
pub(crate) const TABLES: [&str; 2] = ["calls", "events"];

/// Where a call is. It is asked for by itself: a statement that names the day has one partition to be planned with, and one
/// that finds it in a table has all.
const PLACE: &str = "SELECT day, number FROM call_days WHERE id = $1";

/// Returns the day of a moment, in days since 1970.
pub(crate) fn day_of(moment: Timestamp) -> i64 {
    moment.millis().div_euclid(MILLIS_PER_DAY)
}

/// Returns what the partition of a day is called.
pub(crate) fn name(table: &str, day: i64) -> String {
    let sign = if day < 0 { "m" } else { "" };
    format!("{table}_d{sign}{}", day.unsigned_abs())
}

/// Returns the day of a partition.
fn day_of_name(name: &str) -> Option<i64> {
    let digits = name.strip_prefix("calls_d")?;
    match digits.strip_prefix('m') {
        Some(digits) => digits.parse().ok().map(|day: i64| -day),
        None => digits.parse().ok(),
    }
}

/// The days that are known to have partitions.
#[derive(Default)]
pub(crate) struct Days(Mutex<BTreeSet<i64>>);

impl Days {
    /// Makes the partitions of today and of the days ahead.
    pub(crate) async fn make_ahead(&self, db: &Database) -> Result<(), StoreError> {
        let today = day_of(Timestamp::now());
        for day in today..=today + AHEAD {
            self.make(db, day).await?;
        }
        Ok(())
    }

    /// Says whether a day is known to have partitions.
    pub(crate) fn has(&self, day: i64) -> bool {
        self.0.lock().contains(&day)
    }

    /// Makes the partitions of a day, unless they are known to be there.
    pub(crate) async fn make(&self, db: &Database, day: i64) -> Result<(), StoreError> {
        if self.has(day) {
            return Ok(());
        }
        // Each day costs every listing something, and a day that is far off does not go before it has come.
        if day > day_of(Timestamp::now()) + AHEAD {
            return Err(failed(
                "make room for the calls of a day",
                "it is days ahead of this machine's clock",
            ));
        }
        retrying(|| make(db, day)).await?;
        self.0.lock().insert(day);
        Ok(())
    }

    /// Runs what stores a call of a day, once more if somebody has dropped its partitions meanwhile.
    pub(crate) async fn storing<T, W>(
        &self,
        db: &Database,
        day: i64,
        mut work: impl FnMut() -> W,
    ) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, StoreError>>,
    {
        self.make(db, day).await?;
        match work().await {
            Err(error) if lacks_partition(&error) => {
                self.forget(day);
                self.make(db, day).await?;
                work().await
            }
            other => other,
        }
    }

    /// Takes back that a day has partitions.
    pub(crate) fn forget(&self, day: i64) {
        self.0.lock().remove(&day);
    }
}

async fn make(db: &Database, day: i64) -> Result<(), StoreError> {
    let mut session = db.begin("make room for the calls of a day").await?;
    let made = make_in(&mut session, day).await;
    session.end(made).await
}

/// Makes the partitions of a day within a transaction, unless they are there.
pub(crate) async fn make_in(session: &mut Session, day: i64) -> Result<(), StoreError> {
    session.batch("SELECT pg_advisory_xact_lock(74, 2)").await?;
    let calls = name("calls", day);
    let row = session.row("SELECT to_regclass($1) IS NULL", values![calls]).await?;
    if !row.is_some_and(|row| row.get(0)) {
        return Ok(());
    }
    // `PARTITION OF` would lock the table for everybody; to attach one does not.
    for table in TABLES {
        let part = name(table, day);
        let sql = format!(
            "CREATE TABLE {part} (LIKE {table} INCLUDING ALL) WITH (fillfactor = 85);
             ALTER TABLE {table} ATTACH PARTITION {part} FOR VALUES IN ({day})"
        );
        session.batch(&sql).await?;
    }
    Ok(())
}

/// The day and the number of a call.
pub(crate) async fn place(db: &Database, id: &CallId) -> Result<Option<(i64, i64)>, StoreError> {
    let row = db.row("find a call", PLACE, values![key(id.as_str())]).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

/// As [`place`], within a transaction.
pub(crate) async fn place_in(session: &mut Session, id: &CallId) -> Result<Option<(i64, i64)>, StoreError> {
    let row = session.row(PLACE, values![key(id.as_str())]).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

/// Returns the days that have partitions, the oldest first.
pub(crate) async fn days(db: &Database) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT part.relname::text FROM pg_inherits JOIN pg_class part ON part.oid = inhrelid
               WHERE inhparent = 'calls'::regclass";
    let rows = db.rows("list the days with calls", sql, values![]).await?;
    let mut days: Vec<i64> = rows
        .iter()
        .filter_map(|row| day_of_name(&row.get::<_, String>(0)))
        .collect();
    days.sort_unstable();
    Ok(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_names() {
        for (millis, day, part) in [
            (0, 0, "calls_d0"),
            (MILLIS_PER_DAY - 1, 0, "calls_d0"),
            (MILLIS_PER_DAY, 1, "calls_d1"),
            (-1, -1, "calls_dm1"),
            (i64::MAX, 106_751_991_167, "calls_d106751991167"),
        ] {
            assert_eq!(day_of(Timestamp(millis)), day);
            assert_eq!(name("calls", day), part);
            assert_eq!(day_of_name(part), Some(day));
        }
        assert_eq!(day_of_name("calls_other"), None);
    }
}
