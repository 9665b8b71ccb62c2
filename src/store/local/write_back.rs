//! Writing the log of the database back into it.
//!
//! *Invariant:* it waits for the disk in a thread and on a connection of its own, so that others append to the log
//! meanwhile. What they append keeps the log from being begun anew; only when it has become long are they held up for that.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::error::{Doing as _, failed};
use super::schema;
use crate::store::StoreError;

/// After so many transactions the log is written back. Pages are few in each, so this is some megabytes.
const TRANSACTIONS: u32 = 256;

/// Pages of a long log: 64 MiB.
const LONG: i64 = 16 * 1024;

/// Counts what is appended to the log, and has it written back in time.
pub(super) struct LogLength {
    transactions: AtomicU32,
    wanted: SyncSender<Wanted>,
}

/// What the thread is told.
enum Wanted {
    WriteBack,
    End,
}

/// The thread that is to be started.
pub(super) struct WriteBack {
    db: Connection,
    wanted: Receiver<Wanted>,
    /// A log of more pages is begun anew.
    long: i64,
}

impl LogLength {
    /// Prepares for the log of a database.
    pub(super) fn of(db: &Connection) -> Result<(Self, WriteBack), StoreError> {
        let path = db
            .path()
            .ok_or_else(|| failed("open the database again", "it has no path"))?;
        let db = schema::open_beside(path.as_ref())?;
        // One that waits is for everything up to the time when it is taken up.
        let (wants, wanted) = sync_channel(1);
        let length = Self {
            transactions: AtomicU32::new(0),
            wanted: wants,
        };
        let write_back = WriteBack { db, wanted, long: LONG };
        Ok((length, write_back))
    }

    /// Notes that a transaction was appended. Never waits.
    pub(super) fn grow(&self) {
        if self.transactions.fetch_add(1, Ordering::Relaxed) + 1 >= TRANSACTIONS {
            self.transactions.store(0, Ordering::Relaxed);
            // Full: it is about to be done.
            let _ = self.wanted.try_send(Wanted::WriteBack);
        }
    }

    /// Ends the thread when it has done what it was told.
    pub(super) fn end(&self) {
        // Fails when it has ended.
        let _ = self.wanted.send(Wanted::End);
    }
}

impl WriteBack {
    /// Starts the thread. `hold_up` does something while nobody appends to the log, on the connection that does it.
    pub(super) fn start(
        self,
        hold_up: impl Fn(&dyn Fn(&Connection)) + Send + 'static,
    ) -> Result<JoinHandle<()>, StoreError> {
        let work = move || {
            while let Ok(Wanted::WriteBack) = self.wanted.recv() {
                if pages_left(&self.db) > self.long {
                    hold_up(&|db| {
                        pages_left(db);
                    });
                }
            }
        };
        thread::Builder::new()
            .name("store-log".to_owned())
            .spawn(work)
            .map_err(|error| failed("start the thread that writes the log of the database back", error))
    }
}

/// Writes the log back, as far as no reader still needs it. Returns how many pages it has then; none if the next one who
/// writes begins it anew.
fn pages_left(db: &Connection) -> i64 {
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
        let (_, WriteBack { db: beside, .. }) = LogLength::of(&db).expect("another connection");
        let reader = schema::open_reader(&path).expect("a reader");
        let write = |number: i64| {
            let sql = "INSERT INTO facts (workspace, session, key, value) VALUES ('w', 's', ?, '0')";
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
        assert!(pages_left(&beside) > 0, "the reader needs what was before");
        assert_eq!(read(), 1);
        reader.execute_batch("COMMIT").expect("its end");
        assert_eq!((pages_left(&beside), read()), (0, 2));
        let length = || std::fs::metadata(path.with_extension("db-wal")).expect("a log").len();
        let before = length();
        for number in 3..20 {
            write(number);
            assert_eq!(pages_left(&beside), 0);
        }
        assert_eq!(length(), before, "it has begun anew every time");
    }

    #[test]
    fn others_are_held_up_for_a_long_log_only() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("toolgate.db");
        let db = schema::open_writer(&path).expect("a database");
        let reader = schema::open_reader(&path).expect("a reader");
        let check = |long: i64| {
            let (length, write_back) = LogLength::of(&db).expect("another connection");
            let (held_up, seen) = std::sync::mpsc::channel();
            let thread = WriteBack { long, ..write_back }.start(move |_| held_up.send(()).expect("a listener"));
            // Its snapshot keeps the log.
            reader
                .execute_batch("BEGIN; SELECT count(*) FROM facts;")
                .expect("a snapshot");
            for number in 0..TRANSACTIONS {
                // Writing what is there already would append nothing.
                let sql = "REPLACE INTO facts (workspace, session, key, value) VALUES ('w', 's', 'k', ?)";
                db.execute(sql, [number.to_string()]).expect("a fact");
                length.grow();
            }
            length.end();
            thread.expect("a thread").join().expect("its end");
            reader.execute_batch("COMMIT").expect("the end of the snapshot");
            seen.iter().count()
        };
        assert_eq!((check(LONG), check(0)), (0, 1));
    }
}
