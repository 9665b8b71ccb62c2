//! The calls that run in this process or wait for their turn: their ids, who may run, and whether new ones are taken.
//!
//! *Invariant:* a call is found by its id from the moment the id is taken until the call has its end. Whether new calls are
//! taken is looked at under the lock of the map, so a call is either there when a drain begins, or refused.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::{CallId, CallRecord, CallState, EndReason, InstanceId, SessionKey, TerminalSize};

use crate::admission::refusal::AdmitError;
use crate::catalogs::Gate;
use crate::drain_notice::DrainNotice;
use crate::handover::AtQuestion;
use crate::live::LiveCall;
use crate::log::ring::Ring;
use crate::scheduler::{Parent, RunLimits, Scheduler, Turn};
use crate::stdin::{InputState, Stdin};

/// The calls of one engine.
pub struct Calls {
    pub(crate) instance: InstanceId,
    limits: RunLimits,
    /// Calls that run in this process, or are about to.
    live: Mutex<HashMap<CallId, Arc<LiveCall>>>,
    /// Which of them may run.
    scheduler: Arc<Scheduler>,
    /// What is done for them; a drain waits for it.
    pub(crate) tasks: TaskTracker,
    /// Parent of every call's stop token.
    stop_all: CancellationToken,
    /// No new calls are taken.
    draining: CancellationToken,
    /// Nothing runs any more.
    over: CancellationToken,
    /// There is a next run of the service, which goes on with what this one leaves.
    has_successor: AtomicBool,
    /// Calls of runs that are dead, which this run has adopted and not looked after yet.
    pub(crate) adopted: Mutex<Vec<CallId>>,
    /// A call came to a question or went on from it, or does not run any more.
    changed: Notify,
}

impl Calls {
    pub(crate) fn new(instance: InstanceId, limits: RunLimits) -> Self {
        Self {
            instance,
            limits,
            live: Mutex::default(),
            scheduler: Scheduler::new(limits),
            tasks: TaskTracker::new(),
            stop_all: CancellationToken::new(),
            draining: CancellationToken::new(),
            over: CancellationToken::new(),
            has_successor: AtomicBool::new(false),
            adopted: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Finds a call that runs here, or is about to.
    pub(crate) fn find(&self, id: &CallId) -> Option<Arc<LiveCall>> {
        self.live.lock().get(id).cloned()
    }

    /// Finds a call that runs here, once its record is durable.
    pub(crate) async fn find_recorded(&self, id: &CallId) -> Option<Arc<LiveCall>> {
        let call = self.find(id)?;
        call.recorded().await.then_some(call)
    }

    /// Returns those of these ids that calls have here.
    pub(crate) fn present(&self, ids: impl Iterator<Item = CallId>) -> Vec<CallId> {
        let live = self.live.lock();
        ids.filter(|id| live.contains_key(id)).collect()
    }

    /// Returns all calls.
    pub(crate) fn all(&self) -> Vec<Arc<LiveCall>> {
        self.live.lock().values().cloned().collect()
    }

    /// Returns the calls of a session.
    pub(crate) fn in_session(&self, session: &SessionKey) -> Vec<Arc<LiveCall>> {
        let live = self.live.lock();
        let of_session = live.values().filter(|call| call.record().origin.is_of(session));
        of_session.cloned().collect()
    }

    /// Closes a workspace for new calls, and returns those that it has.
    pub(crate) fn close(&self, workspace: &str, gate: &Gate) -> Vec<Arc<LiveCall>> {
        let live = self.live.lock();
        // Under the lock: a call is either here now, or refused.
        gate.close();
        let of_workspace = live.values().filter(|call| call.record().origin.workspace == workspace);
        of_workspace.cloned().collect()
    }

    /// Says whether there are calls of runs that are dead which this run has adopted and could not look after yet.
    pub fn has_adopted(&self) -> bool {
        !self.adopted.lock().is_empty()
    }

    /// Returns this run of the service.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Returns how far the input of a call has come; none if it does not run here or reads none.
    pub fn input_state(&self, id: &CallId) -> Option<InputState> {
        self.find(id).and_then(|call| call.stdin.get().map(Stdin::state))
    }

    /// Returns the size of the terminal of a call; none if it does not run here or has none.
    pub fn terminal_size(&self, id: &CallId) -> Option<TerminalSize> {
        self.find(id).and_then(|call| call.program.terminal_size())
    }

    /// Returns how many calls run or wait.
    pub fn count(&self) -> usize {
        self.live.lock().len()
    }

    /// Returns how many of them wait for their turn.
    pub fn queued(&self) -> usize {
        self.scheduler.waiting()
    }

    /// Returns how many calls have started and not ended, and how many are admitted and have not started.
    pub fn load(&self) -> (usize, usize) {
        let calls = self.all();
        let open = calls
            .iter()
            .map(|call| match call.is_unrecorded() {
                true => CallState::Running,
                false => call.record().state,
            })
            .filter(|state| !state.is_terminal());
        let (queued, running): (Vec<_>, Vec<_>) = open.partition(|state| *state == CallState::Pending);
        (running.len(), queued.len())
    }

    /// Takes the id and a place for a call that is about to be recorded; `None` if another one came first.
    pub(crate) fn reserve(
        &self,
        record: &CallRecord,
        gate: &Gate,
        parent: Option<&CallRecord>,
        bytes: usize,
        ring: Ring,
    ) -> Result<Option<(Arc<LiveCall>, Turn)>, AdmitError> {
        let mut calls = self.live.lock();
        // Under the lock: a call is either here when the drain or the end of its task looks, or refused.
        if self.is_draining() {
            return Err(AdmitError::Draining);
        }
        if gate.is_closed() {
            return Err(AdmitError::ClosedWorkspace(record.origin.workspace.clone()));
        }
        if calls.contains_key(&record.id) {
            return Ok(None);
        }
        if let Some(parent) = parent {
            let has_ended = match calls.get(&parent.id) {
                Some(live) => live.is_childless(),
                None => parent.runs_subagent() && parent.owner == self.instance,
            };
            if has_ended {
                return Err(AdmitError::TaskEnded(parent.id.clone()));
            }
        }
        let parent = parent.and_then(|parent| calls.get(&parent.id));
        let parent = parent.and_then(|parent| {
            let is_parent = record.made_by_call || parent.awaits_clients.load(Ordering::Acquire);
            is_parent.then_some(Parent {
                ticket: parent.ticket,
                is_maker: record.made_by_call,
            })
        });
        let turn = self.scheduler.enter(&record.origin, bytes, parent);
        let turn = turn.map_err(|full| AdmitError::too_many(full.limit, self.limits.value(full.limit)))?;
        let live = self.make_live(record, &turn, ring);
        calls.insert(record.id.clone(), live.clone());
        Ok(Some((live, turn)))
    }

    /// Makes a call that is taken up after a restart: it counts, and runs. It is found once it is [inserted](Self::insert).
    pub(crate) fn take_up(&self, record: &CallRecord, ring: Ring) -> (Arc<LiveCall>, Turn) {
        let turn = self.scheduler.enter_anyway(record);
        (self.make_live(record, &turn, ring), turn)
    }

    /// Lets a call be found.
    pub(crate) fn insert(&self, call: Arc<LiveCall>) {
        self.live.lock().insert(call.id.clone(), call);
    }

    fn make_live(&self, record: &CallRecord, turn: &Turn, ring: Ring) -> Arc<LiveCall> {
        let stop = self.stop_all.child_token();
        Arc::new(LiveCall::new(record.clone(), turn.ticket(), stop, ring))
    }

    /// Takes a call that does not run here any more from those that do.
    pub(crate) fn forget(&self, id: &CallId) {
        self.live.lock().remove(id);
        self.look_again();
    }

    /// Stops the calls that were made on behalf of one that has come to its end, and waits until they have ended.
    pub(crate) async fn stop_below(&self, parent: &LiveCall) {
        let below: Vec<Arc<LiveCall>> = {
            let calls = self.live.lock();
            // Under the lock: a call is either here now, or refused.
            parent.make_childless();
            calls
                .values()
                .filter(|call| call.record().origin.parent.as_ref() == Some(&parent.id))
                .cloned()
                .collect()
        };
        let reason = match parent.stop_reason() {
            Some(EndReason::Drained) => EndReason::Drained,
            Some(_) | None => EndReason::Cancelled,
        };
        stop_and_wait(&below, reason).await;
    }

    /// Asks the calls that wait for their turn to stop, because the service does. What calls that run have made goes on
    /// with them.
    pub(crate) fn stop_queued(&self) {
        let waits = |record: &CallRecord| record.state == CallState::Pending && !record.made_by_call;
        for call in self.all().iter().filter(|call| waits(&call.record())) {
            if self.scheduler.is_waiting(call.ticket) {
                call.stop(EndReason::Drained);
            }
        }
    }

    /// Notes that a call waits at a question.
    pub(crate) fn at_question<'a>(&'a self, call: &'a LiveCall) -> AtQuestion<'a> {
        call.handover.at_question(&self.changed)
    }

    /// Lets a service that stops look again which calls it may leave.
    pub(crate) fn look_again(&self) {
        self.changed.notify_waiters();
    }

    /// Returns when it is to look again.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Notes that there is a next run of the service, which goes on with what this one leaves.
    pub(crate) fn expect_successor(&self) {
        self.has_successor.store(true, Ordering::Release);
    }

    pub(crate) fn has_successor(&self) -> bool {
        self.has_successor.load(Ordering::Acquire)
    }

    /// Refuses new calls from now on.
    pub(crate) fn begin_drain(&self) {
        // A call that passed the check before this is in the map now.
        let _calls = self.live.lock();
        self.draining.cancel();
    }

    /// Notes that nothing runs any more.
    pub(crate) fn end_drain(&self) {
        self.over.cancel();
        self.stop_all.cancel();
    }

    /// Returns whether new calls are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Returns what tells a new reader of a stream that new calls are refused.
    pub fn drain_notice(&self) -> DrainNotice {
        DrainNotice::new(&self.draining)
    }

    /// Returns what is cancelled when nothing runs any more.
    pub(crate) fn over(&self) -> &CancellationToken {
        &self.over
    }
}

/// Asks calls to stop and waits until all have ended.
pub(crate) async fn stop_and_wait(calls: &[Arc<LiveCall>], reason: EndReason) {
    for call in calls {
        call.stop(reason);
    }
    for call in calls {
        let _ = call.watch().wait_for(|progress| progress.ended).await;
    }
}
