//! What waits to be written, and in which portions it is taken.
//!
//! *Invariant:* what was queued first is taken first. A portion is as large as the log may grow at once, unless a single
//! operation is larger.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::StoreError;
use crate::outbox::Outbox;

const MAX_AWAITED_WRITES: usize = 1024;
const MAX_BATCH_OPERATIONS: usize = 256;

/// What one transaction appends to the log, about, unless one operation alone appends more.
pub(super) const BATCH_BYTES: u64 = 8 << 20;

/// What an operation appends besides what it says: pages of tables and indexes of which it changes a few bytes.
const PAGE_OVERHEAD_BYTES: u64 = 32 << 10;

/// More than this is not done on the spot.
const MAX_INLINE_OPERATIONS: usize = 16;

const RETRY_DELAY: Duration = Duration::from_millis(200);

/// How long what nobody waits for lets others join its transaction: a commit of its own would take the processor from
/// the call that made it.
const GROUP_COMMIT_DELAY: Duration = Duration::from_millis(4);

/// The thread looks at the queue by itself for so many times [`GROUP_COMMIT_DELAY`] after it last found something: waking it for
/// each note would cost more than the note.
const IDLE_POLLS: u32 = 50;

/// One change, run by the writer.
pub(super) trait Operation: Send {
    /// Makes the change, inside a savepoint, and puts what it has to tell into the outbox.
    fn run(&mut self, db: &Connection, outbox: &mut Outbox) -> Result<(), StoreError>;

    /// Hears what became of it, after the commit.
    fn end(self: Box<Self>, outcome: Result<(), StoreError>);

    /// Says whether nobody waits for it, so that it must be tried again when a commit fails.
    fn unattended(&self) -> bool {
        false
    }

    /// Returns how many bytes it writes, if they are many.
    fn bytes(&self) -> u64 {
        0
    }
}

/// Returns what operations append to the log, about.
pub(super) fn log_bytes<'a>(operations: impl IntoIterator<Item = &'a Box<dyn Operation>>) -> u64 {
    let all = operations.into_iter().map(|operation| log_bytes_of(operation.as_ref()));
    all.fold(0, u64::saturating_add)
}

fn log_bytes_of(operation: &dyn Operation) -> u64 {
    operation.bytes().saturating_mul(2).saturating_add(PAGE_OVERHEAD_BYTES)
}

pub(super) type Batch = Vec<Box<dyn Operation>>;

/// What waits to be written.
pub(super) struct Queue {
    state: Mutex<Waiting>,
    pub(super) filled: Condvar,
    pub(super) room: Arc<Semaphore>,
}

#[derive(Default)]
struct Waiting {
    operations: VecDeque<Box<dyn Operation>>,
    closed: bool,
    /// The thread does not look at the queue before it is woken.
    asleep: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            room: Arc::new(Semaphore::new(MAX_AWAITED_WRITES)),
        }
    }
}

impl Queue {
    /// Queues an operation; says whether the thread has to be woken to see it.
    pub(super) fn push(&self, operation: Box<dyn Operation>) -> Result<bool, Box<dyn Operation>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(operation);
        }
        state.operations.push_back(operation);
        Ok(state.asleep)
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.room.close();
        self.filled.notify_all();
    }

    /// Waits until there may be work; false when the queue is closed and empty.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        let mut idle_looks = 0;
        loop {
            if state.closed {
                return !state.operations.is_empty();
            }
            if !is_unattended(&state) {
                return true;
            }
            let had_some = !state.operations.is_empty();
            idle_looks = if had_some { 0 } else { idle_looks + 1 };
            if idle_looks > IDLE_POLLS {
                self.sleep(&mut state);
                idle_looks = 0;
                continue;
            }
            let looked = self.filled.wait_for(&mut state, GROUP_COMMIT_DELAY);
            // Somebody else may have done it all meanwhile.
            if had_some && looked.timed_out() && !state.operations.is_empty() {
                return true;
            }
        }
    }

    /// Waits until something is queued.
    fn sleep(&self, state: &mut MutexGuard<'_, Waiting>) {
        state.asleep = true;
        self.filled
            .wait_while(state, |state| state.operations.is_empty() && !state.closed);
        state.asleep = false;
    }

    /// Takes the next operations, for whoever holds the connection: at least so many, and no more than [`BATCH_BYTES`].
    pub(super) fn take(&self, at_least: usize) -> Batch {
        let mut state = self.state.lock();
        let mut bytes = 0_u64;
        let count = state
            .operations
            .iter()
            .take(MAX_BATCH_OPERATIONS)
            .take_while(|operation| {
                bytes = bytes.saturating_add(log_bytes_of(operation.as_ref()));
                bytes <= BATCH_BYTES
            })
            .count();
        let count = count.max(at_least).min(state.operations.len());
        state.operations.drain(..count).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().operations.is_empty()
    }

    /// Says whether all that is queued is so little that it is done in no time.
    pub(super) fn fits_inline(&self) -> bool {
        let state = self.state.lock();
        state.operations.len() <= MAX_INLINE_OPERATIONS && log_bytes(&state.operations) <= BATCH_BYTES
    }

    /// Keeps what nobody waits for, of a batch that failed and of what is queued behind it, in its order. Returns the rest,
    /// which must hear of the failure now: behind what is tried again and again it would wait for ever. When the queue is
    /// closed there is no later, and everything comes back.
    pub(super) fn requeue(&self, batch: Batch) -> Batch {
        let mut state = self.state.lock();
        let behind = std::mem::take(&mut state.operations);
        let all = batch.into_iter().chain(behind);
        if state.closed {
            return all.collect();
        }
        let (unattended, asked): (VecDeque<_>, VecDeque<_>) = all.partition(|operation| operation.unattended());
        state.operations = unattended;
        asked.into()
    }

    /// Lets some time pass before the next attempt, less if something new is queued.
    pub(super) fn pause(&self) {
        let mut state = self.state.lock();
        if !state.closed && !state.operations.is_empty() {
            self.filled.wait_for(&mut state, RETRY_DELAY);
        }
    }
}

/// Says whether nobody waits for anything that is queued. Once there is much, it is not worth waiting with.
fn is_unattended(state: &Waiting) -> bool {
    state.operations.len() < MAX_BATCH_OPERATIONS && state.operations.iter().all(|operation| operation.unattended())
}

/// However the thread ends, nobody may wait for it afterwards.
pub(super) struct CloseAtEnd<'a>(pub(super) &'a Queue);

impl Drop for CloseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.0.state.lock().operations.clear();
    }
}
