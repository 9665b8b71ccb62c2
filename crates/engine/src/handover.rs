//! Whether a call can be left to the next run of the service.
//!
//! *Invariant:* a call is left at its question, with nothing done. A call that is left does not go on here, whatever is
//! replied: the reply is stored, and the next run goes on with it. Nothing is added to its log.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Whether the next run of the service could go on with a call.
#[derive(Default)]
pub(crate) struct Handover {
    state: Mutex<State>,
    left: CancellationToken,
}

#[derive(Default)]
struct State {
    /// Questions that are waited for, or will be when they are stored.
    waits: usize,
    /// The run before left it at a question, and it has not asked that again yet.
    comes_again: bool,
    /// It has done something, or nobody could come back to it.
    stays_here: bool,
}

impl State {
    fn may_be_left(&self) -> bool {
        (self.waits > 0 || self.comes_again) && !self.stays_here
    }
}

/// A call is at a question while this lives.
pub(crate) struct AtQuestion<'a> {
    handover: &'a Handover,
    changed: &'a Notify,
}

impl Drop for AtQuestion<'_> {
    fn drop(&mut self) {
        self.handover.state.lock().waits -= 1;
        self.changed.notify_waiters();
    }
}

impl Handover {
    /// Notes that the next run could not go on with the call.
    pub(crate) fn keep_here(&self) {
        self.state.lock().stays_here = true;
    }

    /// Notes that the call was taken up at its question.
    pub(crate) fn take_up(&self) {
        self.state.lock().comes_again = true;
    }

    /// Notes that the call goes on from where it was taken up; false if it was left before.
    pub(crate) fn go_on(&self) -> bool {
        self.state.lock().comes_again = false;
        !self.is_left()
    }

    /// Notes that the call waits at a question. Before that is stored, since whoever sees it stored may stop the service,
    /// and it is left only when its record says that it waits. `changed` is notified at the end of the wait.
    pub(crate) fn at_question<'a>(&'a self, changed: &'a Notify) -> AtQuestion<'a> {
        {
            let mut state = self.state.lock();
            state.waits += 1;
            state.comes_again = false;
        }
        AtQuestion {
            handover: self,
            changed,
        }
    }

    /// Returns whether the call is left.
    pub(crate) fn is_left(&self) -> bool {
        self.left.is_cancelled()
    }

    /// Returns when it is.
    pub(crate) fn left(&self) -> WaitForCancellationFuture<'_> {
        self.left.cancelled()
    }

    /// Leaves the call if it is at a question. Whoever waits there sees that once it has dropped its [`AtQuestion`]: a reply
    /// of the same moment is either too late for this run, or has let the call go on.
    pub(crate) fn leave(&self) -> bool {
        let state = self.state.lock();
        let leaves = state.may_be_left();
        if leaves {
            self.left.cancel();
        }
        leaves
    }

    pub(crate) fn could_be_left(&self) -> bool {
        self.state.lock().may_be_left()
    }
}
