//! What other processes add to the journal, seen while somebody listens.
//!
//! *Invariant:* while nobody listens, nothing is done here: the thread comes into being with the first listener, and sleeps
//! when the last one is gone. Numbers only grow.
//!
//! The database is asked, ten times a second, which takes some microseconds each time. To be told by the kernel of changes of
//! the log's file instead would cost more: it tells of every page that this process writes itself, what it takes for that is
//! limited for each user, and there would have to be a look now and then all the same, for when it is not to be had.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::watch;

use super::error::{Doing, failed, unsigned};
use super::schema;
use crate::StoreError;

/// How long what another process has stored may go unseen.
const INTERVAL: Duration = Duration::from_millis(100);

/// Keeps the number of the last event.
pub(super) struct Follower {
    database: PathBuf,
    last: watch::Sender<u64>,
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Follower {
    /// Begins with the number of the last event.
    pub(super) fn new(database: PathBuf, last: u64) -> Self {
        Self {
            database,
            last: watch::Sender::new(last),
            closed: AtomicBool::new(false),
            thread: Mutex::default(),
        }
    }

    /// Tells the listeners of an event that is stored.
    pub(super) fn reached(&self, number: u64) {
        self.last.send_if_modified(|last| {
            let is_more = number > *last;
            *last = number.max(*last);
            is_more
        });
    }

    /// Adds a listener.
    pub(super) fn listen(self: &Arc<Self>) -> Result<watch::Receiver<u64>, StoreError> {
        let receiver = self.last.subscribe();
        let mut thread = self.thread.lock();
        if self.closed.load(Ordering::Acquire) {
            return Err(failed("listen to the journal", "the store is closed"));
        }
        match &*thread {
            Some(thread) => thread.thread().unpark(),
            None => {
                let follower = Arc::clone(self);
                let started = thread::Builder::new()
                    .name("store-follower".to_owned())
                    .spawn(move || follower.follow())
                    .map_err(|error| failed("start the thread that listens to the journal", error))?;
                *thread = Some(started);
            }
        }
        Ok(receiver)
    }

    fn follow(&self) {
        let mut db = None;
        let mut has_failed = false;
        while !self.closed.load(Ordering::Acquire) {
            if self.last.receiver_count() == 0 {
                thread::park();
                continue;
            }
            match self.look(&mut db) {
                Ok(()) => has_failed = false,
                Err(error) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::warn!(%error, "what other processes add to the journal is not seen");
                    }
                    db = None;
                }
            }
            thread::park_timeout(INTERVAL);
        }
    }

    fn look(&self, db: &mut Option<Connection>) -> Result<(), StoreError> {
        let db = match db {
            Some(db) => db,
            none => none.insert(schema::open_reader(&self.database)?),
        };
        self.reached(end_of_journal(db)?);
        Ok(())
    }

    /// Asks the thread to end.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(thread) = &*self.thread.lock() {
            thread.thread().unpark();
        }
    }

    /// Waits for its end. Blocks.
    pub(super) fn join(&self) {
        let thread = self.thread.lock().take();
        // It has nothing to give back, and would have told of a panic itself.
        let _ = thread.map(JoinHandle::join);
    }
}

/// Returns the number of the last event that was ever stored.
pub(super) fn end_of_journal(db: &Connection) -> Result<u64, StoreError> {
    let number: Option<i64> = db
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'journal'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .doing(db, "read the end of the journal")?;
    Ok(number.map_or(0, unsigned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_only_grow_and_nobody_works_without_listeners() {
        let follower = Arc::new(Follower::new(PathBuf::from("/nowhere"), 3));
        follower.reached(5);
        follower.reached(4);
        assert_eq!(*follower.last.borrow(), 5);
        assert!(follower.thread.lock().is_none());
        let listener = follower.listen().unwrap();
        assert!(follower.thread.lock().is_some());
        follower.close();
        follower.join();
        assert_eq!(*listener.borrow(), 5);
        assert!(follower.listen().is_err());
    }
}
