//! What a service that stops leaves to its next run: the calls that only wait for a person.
//!
//! *Invariant:* a call is left at its question, with nothing done, and only if the next run would take it up: the same
//! look decides here and there. A call that is left does not go on here, whatever is replied: the reply is stored, and the
//! next run goes on with it. Nothing is added to its log.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use toolgate_model::{CallId, CallRecord, CallState, EndReason};
use toolgate_permission::Rights;
use toolgate_tool::registry::{Entry, Registry};

use super::admit::offer;
use super::live::{LiveCall, lock};
use super::{Engine, WorkspaceRuntime, lineage};

/// How a call stands for the next run of the service.
#[derive(Default)]
pub(super) struct Stand {
    state: Mutex<State>,
    left: CancellationToken,
}

#[derive(Default)]
struct State {
    /// Questions that are waited for, or will be when they are stored.
    waits: usize,
    /// It was taken up at a question of the run before, and has not come to it again.
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
pub(super) struct AtQuestion<'a> {
    stand: &'a Stand,
    changed: &'a Notify,
}

impl Drop for AtQuestion<'_> {
    fn drop(&mut self) {
        lock(&self.stand.state).waits -= 1;
        self.changed.notify_waiters();
    }
}

impl Stand {
    /// Notes that the next run could not go on with the call.
    pub(super) fn keep_here(&self) {
        lock(&self.state).stays_here = true;
    }

    /// Notes that the call was taken up at its question.
    pub(super) fn take_up(&self) {
        lock(&self.state).comes_again = true;
    }

    /// Notes that the call goes on from where it was taken up; false if it was left before.
    pub(super) fn go_on(&self) -> bool {
        lock(&self.state).comes_again = false;
        !self.is_left()
    }

    /// Says whether the call is left.
    pub(super) fn is_left(&self) -> bool {
        self.left.is_cancelled()
    }

    /// Returns when it is.
    pub(super) fn left(&self) -> WaitForCancellationFuture<'_> {
        self.left.cancelled()
    }

    /// Leaves the call if it is at a question. Whoever waits there sees that once it has dropped its [`AtQuestion`]: a reply
    /// of the same moment is either too late for this run, or has let the call go on.
    fn leave(&self) -> bool {
        let state = lock(&self.state);
        let leaves = state.may_be_left();
        if leaves {
            self.left.cancel();
        }
        leaves
    }

    fn could_be_left(&self) -> bool {
        lock(&self.state).may_be_left()
    }
}

/// What a call is run again with.
pub(super) struct Again<'e> {
    pub(super) place: &'e WorkspaceRuntime,
    pub(super) rights: Rights,
    pub(super) registry: Arc<Registry>,
    pub(super) entry: Entry,
}

/// Says whether all that a call does is to wait for a person. Of one that another call or a subagent made, whoever made it
/// is lost with the service, so nobody would know what it does now.
pub(super) fn only_waits(record: &CallRecord) -> bool {
    record.state == CallState::Waiting && !record.made_by_call && !record.in_task
}

impl Engine {
    /// Returns what a call that waits for a person could be run again with; none if it could not.
    pub(super) fn again(&self, record: &CallRecord) -> Option<Again<'_>> {
        let place = self.place(&record.origin.workspace)?;
        place.agent(&record.origin.agent)?;
        let rights = self.rights_of(place, &lineage::own(record), &record.ancestors);
        let rights = rights.of_requesters(&record.origin);
        let registry = place.tools.current();
        let entry = registry.resolve(&record.tool, &offer(place, &record.origin), &rights)?;
        // A workspace of the same name may be another folder by now.
        let same_place = record.directory == place.workspace.directory().to_string_lossy();
        let entry = (same_place && entry.tool.properties().resumable).then(|| entry.clone())?;
        Some(Again {
            place,
            rights,
            registry,
            entry,
        })
    }

    /// Notes that a call waits at a question. Before that is stored, since whoever sees it stored may stop the service, and
    /// it is left only when its record says that it waits.
    pub(super) fn at_question<'a>(&'a self, call: &'a LiveCall) -> AtQuestion<'a> {
        {
            let mut state = lock(&call.stand.state);
            state.waits += 1;
            state.comes_again = false;
        }
        AtQuestion {
            stand: &call.stand,
            changed: &self.changed,
        }
    }

    /// Takes a call that does not run here any more from those that do.
    pub(super) fn forget(&self, id: &CallId) {
        lock(&self.live).remove(id);
        self.look_again();
    }

    /// Lets a service that stops look again which calls it may leave.
    pub(super) fn look_again(&self) {
        self.changed.notify_waiters();
    }

    fn may_be_left(&self, call: &LiveCall) -> bool {
        if !self.stays.load(Ordering::Acquire) || call.stop_reason().is_some() || !call.stand.could_be_left() {
            return false;
        }
        let record = call.record();
        only_waits(&record) && self.again(&record).is_some()
    }

    /// Returns how many calls were left when none does anything but wait, or what is left of them after `grace`; the others
    /// are asked to stop.
    pub(super) async fn let_go(&self, grace: Duration) -> usize {
        let mut left = 0;
        let others_have_ended = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let calls = self.live_calls();
                // Most of the time one runs, and the others need not be looked at.
                if calls.iter().all(|call| call.stand.is_left() || self.may_be_left(call)) {
                    left += self.leave(&calls);
                    if calls.iter().all(|call| call.stand.is_left()) {
                        return;
                    }
                }
                changed.await;
            }
        };
        // Over or not, the rest is the same.
        let _ = tokio::time::timeout(grace, others_have_ended).await;
        left + self.stop_running()
    }

    /// Asks the calls that wait for their turn to stop, because the service does. What calls that run have made goes on
    /// with them.
    pub(super) fn stop_queued(&self) {
        let calls = self.live_calls();
        let waits = |record: &CallRecord| record.state == CallState::Pending && !record.made_by_call;
        for call in calls.iter().filter(|call| waits(&call.record())) {
            if self.turns.is_waiting(call.ticket) {
                call.stop(EndReason::Drained);
            }
        }
    }

    /// Asks every call to stop, because the service does; those that the next run takes up are left to it. Returns how many
    /// these are.
    pub fn stop_running(&self) -> usize {
        self.closing.cancel();
        let calls = self.live_calls();
        let left = self.leave(&calls);
        for call in calls.iter().filter(|call| !call.stand.is_left()) {
            call.stop(EndReason::Drained);
        }
        left
    }

    fn leave(&self, calls: &[Arc<LiveCall>]) -> usize {
        let leaves = |call: &&Arc<LiveCall>| !call.stand.is_left() && self.may_be_left(call) && call.stand.leave();
        calls.iter().filter(leaves).count()
    }

    pub(super) fn live_calls(&self) -> Vec<Arc<LiveCall>> {
        lock(&self.live).values().cloned().collect()
    }
}
