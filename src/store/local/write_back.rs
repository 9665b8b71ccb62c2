//! Writing the log of the database back into it.
//!
//! *Invariant:* it waits for the disk on a connection of its own, so that others append to the log meanwhile. What they
//! append keeps the log from being begun anew; only when it has become long are they held up for that.

use rusqlite::Connection;

use super::error::{Doing as _, failed};
use super::schema;
use crate::store::StoreError;

/// After so many transactions the log is written back. Pages are few in each, so this is some megabytes.
pub(super) const TRANSACTIONS: u32 = 256;

/// Pages of a long log: 64 MiB.
const LONG: i64 = 16 * 1024;

/// The connection.
pub(super) struct WriteBack(Connection);

impl WriteBack {
    /// Opens another connection to a database.
    pub(super) fn beside(db: &Connection) -> Result<Self, StoreError> {
        let path = db
            .path()
            .ok_or_else(|| failed("open the database again", "it has no path"))?;
        schema::open_beside(path.as_ref()).map(Self)
    }

    /// Writes the log back. Returns whether it is long all the same.
    pub(super) fn leaves_much(&self) -> bool {
        pages_left(&self.0) > LONG
    }
}

/// Writes the log back, as far as no reader still needs it. Returns how many pages it has then; none if the next one who
/// writes begins it anew.
pub(super) fn pages_left(db: &Connection) -> i64 {
    let pages = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    match db
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], pages)
        .doing(db, "write the log back")
    {
        Ok((all, written)) if all == written => 0,
        Ok((all, _)) => all,
        Err(error) => {
            tracing::warn!(%error, "the log of the database grows");
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_begins_anew_when_nobody_needs_it() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("toolgate.db");
        let db = schema::open_writer(&path).expect("a database");
        let beside = WriteBack::beside(&db).expect("another connection");
        let reader = schema::open_reader(&path).expect("a reader");
        let write = |number: i64| {
            let sql = "INSERT INTO facts (session, key, value) VALUES ('s', ?, '0')";
            db.execute(sql, [number.to_string()]).expect("a fact");
        };
        let read = || {
            let count = reader.query_row("SELECT count(*) FROM facts", [], |row| row.get::<_, i64>(0));
            count.expect("a count")
        };
        write(1);
        reader.execute_batch("BEGIN").expect("a transaction");
        assert_eq!(read(), 1);
        write(2);
        assert!(pages_left(&beside.0) > 0, "the reader needs what was before");
        assert!(!beside.leaves_much());
        assert_eq!(read(), 1);
        reader.execute_batch("COMMIT").expect("its end");
        assert_eq!((pages_left(&beside.0), read()), (0, 2));
        let length = || std::fs::metadata(path.with_extension("db-wal")).expect("a log").len();
        let before = length();
        for number in 3..20 {
            write(number);
            assert_eq!(pages_left(&beside.0), 0);
        }
        assert_eq!(length(), before, "it has begun anew every time");
    }
}
