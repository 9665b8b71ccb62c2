//! How long a call has run, without the time in which it waits for people or for its turn.
//!
//! *Invariant:* knows nothing of calls.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Measures how long a call has run; stands still while a person is asked.
pub(crate) struct Clock {
    state: Mutex<ClockState>,
    changed: Notify,
}

struct ClockState {
    ran: Duration,
    waited: Duration,
    since: Instant,
    /// Questions that are open; the clock runs when there is none.
    asking: usize,
    /// The call waits for its turn: that is neither running nor waiting for people.
    held: bool,
}

impl Default for Clock {
    fn default() -> Self {
        let state = ClockState {
            ran: Duration::ZERO,
            waited: Duration::ZERO,
            since: Instant::now(),
            asking: 0,
            held: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }
}

impl ClockState {
    fn settle(&mut self) {
        let passed = self.since.elapsed();
        self.since += passed;
        if self.held {
            return;
        }
        if self.asking == 0 {
            self.ran += passed
        } else {
            self.waited += passed
        }
    }
}

impl Clock {
    /// Stands still until the returned guard is dropped.
    pub(crate) fn pause(&self) -> Pause<'_> {
        let mut state = self.state.lock();
        state.settle();
        state.asking += 1;
        drop(state);
        self.changed.notify_waiters();
        Pause { clock: self }
    }

    /// Stands still from now on, or goes on.
    pub(crate) fn hold(&self, held: bool) {
        let mut state = self.state.lock();
        state.settle();
        state.held = held;
    }

    /// Returns the times run and waited so far.
    pub(crate) fn read(&self) -> (Duration, Duration) {
        let mut state = self.state.lock();
        state.settle();
        (state.ran, state.waited)
    }

    /// Returns once the call has run for `limit`.
    pub(crate) async fn reached(&self, limit: Duration) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (ran, _) = self.read();
            let Some(left) = limit.checked_sub(ran).filter(|left| !left.is_zero()) else {
                return;
            };
            if self.state.lock().asking > 0 {
                changed.await;
            } else {
                // Either the time is over, or a question stops the clock first.
                let _ = tokio::time::timeout(left, changed).await;
            }
        }
    }
}

/// The clock stands still while this lives.
pub(crate) struct Pause<'a> {
    clock: &'a Clock,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = self.clock.state.lock();
        state.settle();
        state.asking -= 1;
        drop(state);
        self.clock.changed.notify_waiters();
    }
}
