//! Connections that only read, lent to blocking threads.
//!
//! *Invariant:* in WAL mode a reader never waits for the writer, so nothing here holds a transaction open between two uses.
//! But a read keeps the log from being begun anew. When the log is full, reads that take long are interrupted, wait until
//! that is done, and begin again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, InterruptHandle};
use tokio::sync::Semaphore;

use super::error::failed;
use super::schema;
use crate::StoreError;

const CONNECTIONS: usize = 4;

/// So often a read begins anew.
const MAX_ATTEMPTS: u32 = 3;

/// Nobody holds reads back for longer; whoever does has failed.
const MAX_HOLD_BACK: Duration = Duration::from_secs(10);

/// A few connections, opened when they are first needed.
pub(super) struct Readers {
    path: PathBuf,
    /// The connections that nobody uses now.
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    under_way: Mutex<UnderWay>,
    free: Condvar,
}

/// The reads that are under way.
#[derive(Default)]
struct UnderWay {
    next: u64,
    reads: HashMap<u64, Read>,
    /// New ones have to wait.
    held_back: bool,
}

struct Read {
    handle: InterruptHandle,
    interrupted: bool,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            under_way: Mutex::default(),
            free: Condvar::new(),
        }
    }

    /// Holds new reads back until what it returns is dropped. Only one may at a time.
    pub(super) fn hold_back(&self) -> HeldBack<'_> {
        self.under_way.lock().held_back = true;
        HeldBack(self)
    }

    /// Notes that a read begins, as soon as none is held back.
    fn begin(&self, db: &Connection) -> u64 {
        let mut under_way = self.under_way.lock();
        self.free
            .wait_while_for(&mut under_way, |under_way| under_way.held_back, MAX_HOLD_BACK);
        under_way.next += 1;
        let number = under_way.next;
        let read = Read {
            handle: db.get_interrupt_handle(),
            interrupted: false,
        };
        under_way.reads.insert(number, read);
        number
    }

    /// Notes that a read has ended; says whether it was interrupted.
    fn end(&self, number: u64) -> bool {
        let read = self.under_way.lock().reads.remove(&number);
        read.is_some_and(|read| read.interrupted)
    }

    /// Runs `work`, more than once if it is interrupted.
    fn attempt<T>(
        &self,
        db: &Connection,
        work: impl Fn(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            let number = self.begin(db);
            let result = work(db);
            if !self.end(number) || result.is_ok() {
                return result;
            }
        }
        Err(failed(
            "read from the store",
            "it took too long while much was written: ask for less at a time",
        ))
    }

    /// Runs `work` with a connection, on a thread that may block.
    pub(super) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| failed("read from the store", "the store is closed"))?;
        let readers = Arc::clone(self);
        blocking(move || {
            let _permit = permit;
            let lent = readers.idle.lock().pop();
            let db = match lent {
                Some(db) => db,
                None => schema::open_reader(&readers.path)?,
            };
            let result = readers.attempt(&db, work);
            readers.idle.lock().push(db);
            result
        })
        .await
    }

    /// Refuses later reads and closes what is idle.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().clear();
    }
}

/// Lets reads begin again when it is dropped.
#[must_use]
pub(super) struct HeldBack<'a>(&'a Readers);

impl HeldBack<'_> {
    /// Interrupts the reads that are under way. One that is between two statements goes on.
    pub(super) fn interrupt(&self) {
        for read in self.0.under_way.lock().reads.values_mut() {
            read.interrupted = true;
            read.handle.interrupt();
        }
    }
}

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.0.under_way.lock().held_back = false;
        self.0.free.notify_all();
    }
}

/// Runs `work` on a thread that may block and waits for it.
pub(super) async fn blocking<T, F>(work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(failed("work for the store", error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_read_that_is_in_the_way_begins_again() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("toolgate.db");
        let _db = schema::open_writer(&path, toolgate_model::Durability::Process).expect("a database");
        let readers = Arc::new(Readers::new(path));
        let (begun, begins) = channel();
        let long = move |db: &Connection| {
            begun.send(()).expect("a listener");
            let sql =
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT count(*) FROM n";
            // Only the first time it never ends.
            static FIRST: std::sync::Once = std::sync::Once::new();
            let mut items = 10;
            FIRST.call_once(|| items = i64::MAX);
            let count = db.query_row(sql, [items], |row| row.get::<_, i64>(0));
            count.map_err(|error| failed("count", error))
        };
        let reading = readers.read(long);
        let holding = blocking({
            let readers = Arc::clone(&readers);
            move || {
                begins.recv().expect("it begins");
                let held = readers.hold_back();
                while !readers.under_way.lock().reads.is_empty() {
                    // It may not have come to its statement yet.
                    held.interrupt();
                    std::thread::yield_now();
                }
                assert!(begins.try_recv().is_err(), "it waits");
                drop(held);
                begins.recv().expect("it begins again");
                Ok(())
            }
        });
        let (read, held) = tokio::join!(reading, holding);
        held.expect("it was held back");
        assert_eq!(read.expect("a count"), 10);
    }
}
