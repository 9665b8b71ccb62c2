//! Writing the log of the database back into it, and keeping the log short.
//!
//! *Invariant:* the log's file never takes more than [`MAX_LOG_BYTES`], whoever reads: what would pass that waits, and is refused
//! when waiting does not help.
//!
//! Writing back waits for the disk in a thread and on a connection of its own, so that others append to the log meanwhile.
//! But what they append keeps the log from being begun anew: under permanent load there is no moment at which all of it is
//! written back and nobody reads it. So when the log is long, they are held up for a moment, in which the rest is written
//! back and the file is emptied. How long it is, only its file says: SQLite tells of a log that is written back as it was
//! when that began.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use super::error::{Doing as _, failed, unsigned};
use super::schema::{self, BUSY_TIMEOUT};
use crate::StoreError;

/// What the file of the log may take.
pub(super) const MAX_LOG_BYTES: u64 = 64 << 20;

/// From so many bytes on the log is begun anew, whoever has to wait for it.
const LONG_LOG_BYTES: u64 = 16 << 20;

/// After so many transactions the log is written back. Pages are few in each, so this is some megabytes.
const CHECKPOINT_TRANSACTIONS: u32 = 256;

/// A long log is worth another attempt when it has grown by so much.
const RETRY_GROWTH_BYTES: u64 = 4 << 20;

/// What nobody who writes notices: how long readers are waited for while the log has room.
const READER_WAIT: Duration = Duration::from_millis(50);

/// The files of the database, and how much of them is in use.
pub(super) struct Files {
    database: PathBuf,
    log: PathBuf,
    /// Bytes of the database's file that what comes next will take.
    free: AtomicU64,
}

impl Files {
    pub(super) fn new(database: &Path) -> Self {
        let mut log = OsString::from(database);
        log.push("-wal");
        Self {
            database: database.to_owned(),
            log: log.into(),
            free: AtomicU64::new(0),
        }
    }

    /// Returns the bytes of the log.
    pub(super) fn log_bytes(&self) -> u64 {
        length(&self.log)
    }

    /// Returns the bytes that records take, in the database and in its log.
    pub(super) fn bytes(&self) -> u64 {
        let used = length(&self.database).saturating_sub(self.free.load(Ordering::Relaxed));
        used.saturating_add(self.log_bytes())
    }

    /// Counts the pages that were freed.
    pub(super) fn count_free(&self, db: &Connection) {
        let pragma = |sql: &str| {
            db.prepare_cached(sql)
                .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        };
        // What cannot be told is counted as used.
        let bytes = pragma("PRAGMA freelist_count").and_then(|count| Ok(count * pragma("PRAGMA page_size")?));
        self.free.store(unsigned(bytes.unwrap_or(0)), Ordering::Relaxed);
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Follows how long the log grows, and has it written back in time.
pub(super) struct Checkpointer {
    files: Arc<Files>,
    transactions: AtomicU32,
    /// How long the log was when it was last asked for.
    asked: AtomicU64,
    requests: SyncSender<Request>,
}

/// What the thread is asked for.
enum Request {
    Checkpoint,
    End,
}

/// The thread that is to be started.
pub(super) struct CheckpointThread {
    db: Connection,
    requests: Receiver<Request>,
    files: Arc<Files>,
}

impl Checkpointer {
    /// Prepares for the log of a database.
    pub(super) fn new(db: &Connection, files: Arc<Files>) -> Result<(Self, CheckpointThread), StoreError> {
        let path = db
            .path()
            .ok_or_else(|| failed("open the database again", "it has no path"))?;
        let db = schema::open_beside(path.as_ref())?;
        // One that waits is for everything up to the time when it is taken up.
        let (sender, requests) = sync_channel(1);
        let checkpointer = Self {
            files: files.clone(),
            transactions: AtomicU32::new(0),
            asked: AtomicU64::new(0),
            requests: sender,
        };
        Ok((checkpointer, CheckpointThread { db, requests, files }))
    }

    /// Notes that a transaction was appended; says whether that was the last of some. Never waits.
    pub(super) fn grow(&self) -> bool {
        let many = self.transactions.fetch_add(1, Ordering::Relaxed) + 1 >= CHECKPOINT_TRANSACTIONS;
        let bytes = self.files.log_bytes();
        let asked = self.asked.load(Ordering::Relaxed).min(bytes);
        let much = bytes >= LONG_LOG_BYTES && bytes >= asked.saturating_add(RETRY_GROWTH_BYTES);
        self.asked.store(if much { bytes } else { asked }, Ordering::Relaxed);
        if many || much {
            self.transactions.store(0, Ordering::Relaxed);
            // Full: it is about to be done.
            let _ = self.requests.try_send(Request::Checkpoint);
        }
        many || much
    }

    /// Says whether so many bytes may be appended. A log that is empty takes whatever comes: it cannot become shorter.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let log = self.files.log_bytes();
        log == 0 || log.saturating_add(bytes) <= MAX_LOG_BYTES
    }

    /// Ends the thread when it has done what it was told.
    pub(super) fn end(&self) {
        // Fails when it has ended.
        let _ = self.requests.send(Request::End);
    }
}

impl CheckpointThread {
    /// Starts the thread. `hold_up` does something while nobody appends to the log, on the connection that does it.
    pub(super) fn start(
        self,
        hold_up: impl Fn(&dyn Fn(&Connection)) + Send + 'static,
    ) -> Result<JoinHandle<()>, StoreError> {
        let work = move || {
            while let Ok(Request::Checkpoint) = self.requests.recv() {
                write_back(&self.db);
                if self.files.log_bytes() >= LONG_LOG_BYTES {
                    // Less has come since then, so that less is left to do while others wait.
                    write_back(&self.db);
                    hold_up(&|db| {
                        truncate_log(db, READER_WAIT);
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

/// Writes the log back, as far as no reader still needs it. Who writes next begins it anew if that was all, and nobody
/// reads it.
fn write_back(db: &Connection) {
    checkpoint(db, "PRAGMA wal_checkpoint(PASSIVE)");
}

/// Writes the whole log back and empties its file; false if somebody still read from it when the patience was at its end,
/// or writes it back at this moment.
pub(super) fn truncate_log(db: &Connection, patience: Duration) -> bool {
    let _ = db.busy_timeout(patience);
    let done = checkpoint(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    let _ = db.busy_timeout(BUSY_TIMEOUT);
    done
}

fn checkpoint(db: &Connection, sql: &str) -> bool {
    match db
        .query_row(sql, [], |row| row.get::<_, i64>(0))
        .doing(db, "write the log back")
    {
        Ok(busy) => busy == 0,
        Err(error) => {
            tracing::warn!(%error, "the log of the database grows");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> (tempfile::TempDir, PathBuf, Connection) {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("toolgate.db");
        let db = schema::open_writer(&path, toolgate_model::Durability::Process).expect("a database");
        db.pragma_update(None, "wal_autocheckpoint", 0).expect("a setting");
        (folder, path, db)
    }

    fn write(db: &Connection, key: u64, bytes: usize) {
        let sql = "REPLACE INTO facts (workspace, session, key, value) VALUES ('w', 's', ?, ?)";
        db.execute(sql, (key.to_string(), "x".repeat(bytes))).expect("a fact");
    }

    #[test]
    fn the_log_begins_anew_when_nobody_needs_it() {
        let (_folder, path, db) = database();
        let files = Arc::new(Files::new(&path));
        let (_, CheckpointThread { db: beside, .. }) =
            Checkpointer::new(&db, files.clone()).expect("another connection");
        let reader = schema::open_reader(&path).expect("a reader");
        let read = || {
            let count = reader.query_row("SELECT count(*) FROM facts", [], |row| row.get::<_, i64>(0));
            count.expect("a count")
        };
        write(&db, 1, 1);
        reader.execute_batch("BEGIN").expect("a transaction");
        assert_eq!(read(), 1);
        write(&db, 2, 1);
        assert!(!truncate_log(&db, Duration::ZERO), "the reader needs what was before");
        assert_eq!(read(), 1);
        reader.execute_batch("COMMIT").expect("its end");
        write_back(&beside);
        assert_eq!(read(), 2);
        let before = files.log_bytes();
        for key in 3..20 {
            write(&db, key, 1);
            write_back(&beside);
        }
        assert_eq!(files.log_bytes(), before, "it has begun anew every time");
        assert!(truncate_log(&db, Duration::ZERO));
        assert_eq!(files.log_bytes(), 0);
    }

    #[test]
    fn others_are_held_up_for_a_long_log_only() {
        let (_folder, path, db) = database();
        let reader = schema::open_reader(&path).expect("a reader");
        let check = |bytes: usize| {
            assert!(truncate_log(&db, Duration::ZERO), "nobody reads");
            let files = Arc::new(Files::new(&path));
            let (checkpointer, write_back) = Checkpointer::new(&db, files).expect("another connection");
            let (held_up, seen) = std::sync::mpsc::channel();
            let thread = write_back.start(move |_| held_up.send(()).expect("a listener"));
            // Its snapshot keeps the log.
            reader
                .execute_batch("BEGIN; SELECT count(*) FROM facts;")
                .expect("a snapshot");
            for number in 0..u64::from(CHECKPOINT_TRANSACTIONS) {
                write(&db, number, bytes);
                checkpointer.grow();
            }
            checkpointer.end();
            thread.expect("a thread").join().expect("its end");
            reader.execute_batch("COMMIT").expect("the end of the snapshot");
            seen.iter().count()
        };
        assert_eq!(check(1), 0);
        assert!(check(100_000) > 0);
    }

    #[test]
    fn what_was_deleted_is_not_counted() {
        let (_folder, path, db) = database();
        let files = Files::new(&path);
        let empty = files.bytes();
        write(&db, 1, 10_000_000);
        files.count_free(&db);
        assert!(files.bytes() > empty + 10_000_000);
        db.execute("DELETE FROM facts", []).expect("it is deleted");
        assert!(truncate_log(&db, Duration::ZERO));
        files.count_free(&db);
        assert!(files.bytes() < empty + 1_000_000, "{}", files.bytes());
    }
}
