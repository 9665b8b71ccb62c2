//! The one connection that writes to the database, its queue, its thread, and group commit.
//!
//! *Invariant:* operations run in the order in which they were queued, each in a savepoint, many in one transaction; nobody
//! is answered before the commit. An operation that fails undoes itself alone. Whoever holds the connection takes from the
//! queue, and nobody else does.
//!
//! Who waits for a change while the connection is free makes it on the spot, with what little is queued before it: a
//! commit is an append to the log that is not synchronised, and takes less time than waking a thread for it and being
//! woken by it. What may take long is the thread's alone: large batches, waiting for another process, and everything after
//! a failure. Writing the log back into the database waits for the disk, and is another thread's (`checkpoint`). But a
//! batch for which the log has no room waits until it was begun anew: first for those who read, then those of this process
//! are interrupted, at last the batch is refused.
//!
//! The queue (`queue`) is one deque with two ways in. Who waits for an answer first takes a permit, so that at most 1,024 of
//! them are queued and the rest wait outside. Facts and journal entries are queued without a permit, because their callers
//! cannot wait: they are few for each awaited change, and every call soon waits for one. One deque is what keeps their
//! order towards the changes that follow. When a commit fails (a full disk) they stay at the head and are tried again, and
//! who waits behind them is told at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use toolgate_telemetry::Metrics;

use super::checkpoint::{Checkpointer, Files, MAX_LOG_BYTES, truncate_log};
use super::error::{Doing, again, failed};
pub(super) use super::queue::Operation;
use super::queue::{BATCH_BYTES, Batch, CloseAtEnd, Queue, log_bytes};
use super::readers::Readers;
use super::schema::BUSY_TIMEOUT;
use super::sequencer::{Gathering, Sequencer};
use crate::StoreError;
use crate::outbox::Outbox;

/// How long reads may stand in the way of a full log before they are interrupted.
const READ_GRACE: Duration = Duration::from_millis(500);

/// How long one attempt to truncate a full log takes.
const CHECKPOINT_ATTEMPT: Duration = Duration::from_millis(100);

/// How often the reads of this process are interrupted before they may go on, because another process is in the way.
const MAX_INTERRUPTIONS: u32 = 10;

/// Hands changes to whoever holds the connection.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The queue, and the connection for whoever works it off.
struct Shared {
    queue: Queue,
    /// None when the store is closed. Taken before the queue's lock, never the other way round. Of `std`, since a panic must
    /// be seen: nobody runs an operation inline on a connection that was left in the middle of a transaction.
    db: Mutex<Option<Connection>>,
    log: Checkpointer,
    files: Arc<Files>,
    readers: Arc<Readers>,
    sequencer: Sequencer,
    metrics: OnceLock<Arc<Metrics>>,
}

impl Writer {
    /// Starts the thread. It keeps `held` until its last write is done. `readers` read what it writes.
    pub(super) fn start(
        db: Connection,
        files: Arc<Files>,
        readers: Arc<Readers>,
        sequencer: Sequencer,
        held: impl Send + 'static,
    ) -> Result<Self, StoreError> {
        db.pragma_update(None, "wal_autocheckpoint", 0)
            .doing(&db, "keep the log from being written back at any time")?;
        files.count_free(&db);
        let (log, write_back) = Checkpointer::new(&db, files.clone())?;
        let shared = Arc::new(Shared {
            queue: Queue::default(),
            db: Mutex::new(Some(db)),
            log,
            files,
            readers,
            sequencer,
            metrics: OnceLock::new(),
        });
        let held_up = Arc::clone(&shared);
        let write_back = write_back.start(move |work| held_up.db().as_ref().into_iter().for_each(work))?;
        let shared_by_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                let held = held;
                shared_by_thread.serve(write_back);
                drop(held);
            })
            .map_err(|error| failed("start the thread that writes to the database", error))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Times the transactions from now on.
    pub(super) fn measure(&self, metrics: &Arc<Metrics>) {
        let _ = self.shared.metrics.set(metrics.clone());
    }

    /// Queues a change, waits until it is committed, and returns its result.
    ///
    /// A caller that goes away leaves its change in the queue.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.tell(move |db, _| work(db)).await
    }

    /// As [`Self::write`], for a change that is told of in the audit or in the journal.
    pub(super) async fn tell<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &mut Outbox) -> Result<T, StoreError> + Send + 'static,
    {
        self.tell_sized(0, work).await
    }

    /// As [`Self::tell`], for a change that writes so many bytes.
    pub(super) async fn tell_sized<T, F>(&self, bytes: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &mut Outbox) -> Result<T, StoreError> + Send + 'static,
    {
        let room = Arc::clone(&self.shared.queue.room)
            .acquire_owned()
            .await
            .map_err(|_| closed())?;
        let (answer, answered) = oneshot::channel();
        let write = Write {
            work: Some(work),
            bytes: bytes as u64,
            result: None,
            answer,
            _room: room,
        };
        if self.shared.queue.push(Box::new(write)).is_err() {
            return Err(closed());
        }
        if !self.shared.run_inline() {
            self.shared.queue.filled.notify_one();
        }
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Queues a change that nobody waits for. Never blocks.
    pub(super) fn enqueue(&self, operation: impl Operation + 'static) {
        if let Err(refused) = self.try_enqueue(operation) {
            refused.end();
        }
    }

    /// As [`Self::enqueue`], but hands back what a closed store refuses, for callers that hold a lock that its end needs.
    pub(super) fn try_enqueue(&self, operation: impl Operation + 'static) -> Result<(), Refused> {
        let is_asleep = self.shared.queue.push(Box::new(operation)).map_err(Refused)?;
        if is_asleep {
            self.shared.queue.filled.notify_one();
        }
        Ok(())
    }

    /// Refuses what comes from now on; what is queued is still written.
    pub(super) fn close(&self) {
        self.shared.queue.close();
    }

    /// Waits until everything is written. Blocks.
    pub(super) fn join(&self) -> Result<(), StoreError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        match thread.map(JoinHandle::join) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(failed(
                "close the store",
                "the thread that writes to the database panicked",
            )),
        }
    }
}

/// An operation that came too late.
#[must_use]
pub(super) struct Refused(Box<dyn Operation>);

impl Refused {
    /// Tells the operation.
    pub(super) fn end(self) {
        self.0.end(Err(closed()));
    }
}

fn closed() -> StoreError {
    failed("write to the store", "the store is closed")
}

struct Write<T, F> {
    work: Option<F>,
    bytes: u64,
    result: Option<T>,
    answer: oneshot::Sender<Result<T, StoreError>>,
    _room: OwnedSemaphorePermit,
}

impl<T, F> Operation for Write<T, F>
where
    T: Send,
    F: FnOnce(&Connection, &mut Outbox) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, db: &Connection, outbox: &mut Outbox) -> Result<(), StoreError> {
        if let Some(work) = self.work.take() {
            self.result = Some(work(db, outbox)?);
        }
        Ok(())
    }

    fn end(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { result, answer, .. } = *self;
        let reply = outcome.and_then(|()| result.ok_or_else(closed));
        // Whoever asked may be gone.
        let _ = answer.send(reply);
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Shared {
    /// What the thread does until the store is closed.
    fn serve(&self, write_back: JoinHandle<()>) {
        let _close = CloseAtEnd(&self.queue);
        while self.queue.wait() {
            let db = self.db();
            let Some(db) = db.as_ref() else { break };
            self.write_batch(db);
        }
        self.log.end();
        // What it was to do is done below.
        let _ = write_back.join();
        let Some(db) = self.db().take() else { return };
        let checkpoint = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = checkpoint
            .doing(&db, "write the log back")
            .and_then(|()| db.close().map_err(|(_, error)| failed("close the database", error)))
        {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }

    /// Works off some of the queue, however long it takes.
    fn write_batch(&self, db: &Connection) {
        let mut batch = self.queue.take(1);
        if batch.is_empty() {
            return;
        }
        let from = Instant::now();
        // What a small batch appends is known only about: each operation alone may change a dozen pages.
        let room = log_bytes(&batch).max(BATCH_BYTES);
        let worked = self.make_room(db, room).and_then(|()| self.run(db, &mut batch));
        match worked {
            Ok(()) => self.committed(db, from),
            Err(error) => {
                self.give_up(batch, &error);
                self.queue.pause();
            }
        }
    }

    /// Has the log begun anew until so many bytes have room.
    fn make_room(&self, db: &Connection, bytes: u64) -> Result<(), StoreError> {
        if self.log.has_room(bytes) {
            return Ok(());
        }
        let from = Instant::now();
        let mut held_back = None;
        let mut interruptions = 0;
        loop {
            truncate_log(db, CHECKPOINT_ATTEMPT);
            if self.log.has_room(bytes) {
                return Ok(());
            }
            if from.elapsed() > BUSY_TIMEOUT {
                return Err(StoreError::Full(format!(
                    "the log of the database may take {MAX_LOG_BYTES} bytes, and another program keeps it from being begun anew: \
                     end what has been reading {} for more than {} s",
                    db.path().unwrap_or("the database"),
                    BUSY_TIMEOUT.as_secs(),
                )));
            }
            if interruptions == MAX_INTERRUPTIONS {
                held_back = None;
            } else if from.elapsed() > READ_GRACE {
                interruptions += 1;
                held_back.get_or_insert_with(|| self.readers.hold_back()).interrupt();
            }
            // Who is writing back at this moment is not waited for by SQLite.
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Tells of a failure who waits; what nobody waits for is tried again.
    fn give_up(&self, batch: Batch, error: &StoreError) {
        tracing::error!(%error, "cannot write to the database");
        for operation in self.queue.requeue(batch) {
            operation.end(Err(again(error)));
        }
    }

    /// Works off the queue in the calling task, if that is done in no time; false if the thread has to.
    fn run_inline(&self) -> bool {
        let db = match self.db.try_lock() {
            Ok(db) => db,
            // Somebody is at it, and may have taken its last look at the queue.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return false,
        };
        let Some(db) = db.as_ref() else { return false };
        if !self.queue.fits_inline() || !self.log.has_room(BATCH_BYTES) {
            return false;
        }
        let from = Instant::now();
        // Another process may be writing: that is not waited for here.
        let _ = db.busy_timeout(Duration::ZERO);
        let begun = statement(db, "BEGIN IMMEDIATE");
        let _ = db.busy_timeout(BUSY_TIMEOUT);
        if begun.is_err() {
            return false;
        }
        // What was queued at this moment may be more than there is room for.
        let mut batch = self.queue.take(0);
        let nothing_fits = batch.is_empty();
        let worked = catch_unwind(AssertUnwindSafe(|| self.finish(db, &mut batch)));
        match worked {
            Ok(Ok(())) => {
                self.committed(db, from);
                !nothing_fits || self.queue.is_empty()
            }
            Ok(Err(error)) => {
                self.give_up(batch, &error);
                false
            }
            Err(_) => {
                tracing::error!("an operation of the store panicked");
                drop(batch);
                let _close = CloseAtEnd(&self.queue);
                true
            }
        }
    }

    /// Runs a batch in one transaction and answers it. On error nothing of it is stored and nobody is answered.
    fn run(&self, db: &Connection, batch: &mut Batch) -> Result<(), StoreError> {
        statement(db, "BEGIN IMMEDIATE")?;
        self.finish(db, batch)
    }

    /// As [`Self::run`], in a transaction that has begun.
    fn finish(&self, db: &Connection, batch: &mut Batch) -> Result<(), StoreError> {
        let mut told = self.sequencer.gather();
        let outcomes: Result<Vec<_>, StoreError> = batch
            .iter_mut()
            .map(|operation| step(db, operation.as_mut(), &mut told))
            .collect();
        let committed = outcomes.and_then(|outcomes| {
            told.store(db)?;
            statement(db, "COMMIT").map(|()| outcomes)
        });
        if committed.is_err() && !db.is_autocommit() {
            statement(db, "ROLLBACK")?;
        }
        let outcomes = committed?;
        told.wake();
        for (operation, outcome) in batch.drain(..).zip(outcomes) {
            operation.end(outcome);
        }
        Ok(())
    }

    fn committed(&self, db: &Connection, from: Instant) {
        self.metrics.get().inspect(|all| all.store_written(from.elapsed()));
        if self.log.grow() {
            self.files.count_free(db);
        }
    }

    fn db(&self) -> MutexGuard<'_, Option<Connection>> {
        // After a panic the queue is closed.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one operation. The outer error means that the transaction is gone.
fn step(
    db: &Connection,
    operation: &mut dyn Operation,
    told: &mut Gathering<'_>,
) -> Result<Result<(), StoreError>, StoreError> {
    statement(db, "SAVEPOINT operation")?;
    let outcome = told.change(db, |outbox| operation.run(db, outbox));
    if let Err(error) = outcome {
        if db.is_autocommit() {
            return Err(error);
        }
        statement(db, "ROLLBACK TO operation")?;
        statement(db, "RELEASE operation")?;
        return Ok(Err(error));
    }
    statement(db, "RELEASE operation")?;
    Ok(Ok(()))
}

fn statement(db: &Connection, sql: &str) -> Result<(), StoreError> {
    db.prepare_cached(sql)
        .and_then(|mut statement| statement.execute([]))
        .map(drop)
        .doing(db, sql)
}

#[cfg(test)]
mod tests {
    use toolgate_model::Durability;

    use super::super::follower::Follower;
    use super::super::schema;
    use super::*;
    use crate::audit::Recorder;

    /// What a note does to a table, and what became of it.
    struct Note(i64, std::sync::mpsc::Sender<(i64, bool)>);

    impl Operation for Note {
        fn run(&mut self, db: &Connection, _: &mut Outbox) -> Result<(), StoreError> {
            insert(db, self.0)
        }

        fn end(self: Box<Self>, outcome: Result<(), StoreError>) {
            let _ = self.1.send((self.0, outcome.is_ok()));
        }

        fn unattended(&self) -> bool {
            true
        }
    }

    fn insert(db: &Connection, number: i64) -> Result<(), StoreError> {
        db.execute("INSERT INTO notes VALUES (?)", [number])
            .map(drop)
            .doing(db, "insert")
    }

    fn start(path: &std::path::Path, db: Connection) -> Writer {
        let readers = Arc::new(Readers::new(path.to_owned()));
        let follower = Arc::new(Follower::new(path.to_owned(), 0));
        let sequencer = Sequencer::new(&db, Recorder::default(), follower, &"instance".into()).expect("an audit");
        Writer::start(db, Arc::new(Files::new(path)), readers, sequencer, ()).expect("a thread")
    }

    fn database() -> (tempfile::TempDir, std::path::PathBuf, Connection) {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("db");
        let db = schema::open_writer(&path, Durability::Process).expect("a database");
        db.execute_batch("CREATE TABLE notes (number INTEGER PRIMARY KEY)")
            .expect("a table");
        (folder, path, db)
    }

    #[tokio::test]
    async fn what_nobody_waits_for_outlives_a_failed_commit() {
        let (_folder, path, db) = database();
        db.busy_timeout(Duration::ZERO).expect("no waiting");
        let writer = start(&path, db);
        let blocker = Connection::open(&path).expect("a database");
        blocker.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        let (tx, rx) = std::sync::mpsc::channel();
        for number in 0..600 {
            writer.enqueue(Note(number, tx.clone()));
        }
        let refused = writer.write(|db| insert(db, 1_000)).await;
        assert!(matches!(refused, Err(StoreError::Failed { .. })), "{refused:?}");
        assert!(rx.try_recv().is_err(), "the notes wait");
        blocker.execute_batch("ROLLBACK").expect("the end of the lock");
        writer.write(|db| insert(db, 1_001)).await.expect("it works again");
        let ended: Vec<(i64, bool)> = rx.try_iter().collect();
        assert_eq!(ended, (0..600).map(|number| (number, true)).collect::<Vec<_>>());

        blocker.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        writer.enqueue(Note(2_000, tx));
        writer.close();
        writer.join().expect("it ends, also when it cannot write");
        assert_eq!(rx.try_iter().collect::<Vec<_>>(), [(2_000, false)]);
        let refused = writer.write(|db| insert(db, 1_002)).await;
        assert!(refused.is_err());
    }

    #[tokio::test]
    async fn whoever_does_the_work_the_thread_stays() {
        let (_folder, path, db) = database();
        let writer = start(&path, db);
        let (tx, rx) = std::sync::mpsc::channel();
        let ask = async |from: i64| {
            for number in from..from + 50 {
                writer.enqueue(Note(number * 2, tx.clone()));
                // More and less than what the thread lingers.
                tokio::time::sleep(Duration::from_millis(u64::try_from(number % 7).unwrap_or(0))).await;
                writer
                    .write(move |db| insert(db, number * 2 + 1))
                    .await
                    .expect("the store is open");
            }
        };
        tokio::join!(ask(0), ask(1_000));
        writer.close();
        writer.join().expect("it ends");
        assert_eq!(rx.try_iter().filter(|(_, stored)| *stored).count(), 100);
    }

    #[tokio::test]
    async fn one_failure_undoes_itself_alone() {
        let (_folder, path, db) = database();
        let writer = start(&path, db);
        let both = |db: &Connection| insert(db, 2).and_then(|()| insert(db, 1));
        let (first, failed, last) = tokio::join!(
            writer.write(|db| insert(db, 1)),
            writer.write(both),
            writer.write(|db| insert(db, 3))
        );
        assert!(first.is_ok() && failed.is_err() && last.is_ok());
        writer.close();
        writer.join().expect("it ends");
        let db = Connection::open(&path).expect("a database");
        let sum: i64 = db
            .query_row("SELECT sum(number) FROM notes", [], |row| row.get(0))
            .expect("a sum");
        assert_eq!(sum, 4);
    }

    #[tokio::test]
    async fn a_panic_leaves_nobody_waiting() {
        let (_folder, path, db) = database();
        let writer = start(&path, db);
        let result = writer.write::<(), _>(|_| panic!("a fault of an operation")).await;
        assert!(result.is_err());
        assert!(writer.write(|db| insert(db, 1)).await.is_err());
        writer.join().expect("the thread ends");
    }
}
