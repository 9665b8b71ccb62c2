//! A call that runs in this process: what its log writer, its tool, its watchers and its clients share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_model::{CallEvent, CallId, CallRecord, EndReason, JsonMap, OnDisconnect, Resources};
use toolgate_telemetry::{CallTrace, Span};
use toolgate_tool::LateMetadata;

use crate::clock::Clock;
use crate::handover::Handover;
use crate::log::event::LoggedEvent;
use crate::log::ring::Ring;
use crate::program::Program;
use crate::scheduler::Ticket;
use crate::stdin::Stdin;

/// How often it is looked whether a client has come back.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a call that was asked to stop may take before its tool is dropped.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(2);

/// How far a call's log has come. Everything up to `last` is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) last: u64,
    /// The tool has said that what it starts is under way.
    pub(crate) launched: bool,
    /// Nothing more comes from here.
    pub(crate) ended: bool,
    /// The call has no end: it is left to the next run of the service.
    pub(crate) left: bool,
}

/// A call that runs in this process.
pub(crate) struct LiveCall {
    pub(crate) id: CallId,
    pub(crate) request_digest: String,
    pub(crate) on_disconnect: OnDisconnect,
    /// Its place among the calls that run or wait for their turn.
    pub(crate) ticket: Ticket,
    /// Calls that clients make in its name are ones that it may wait for.
    pub(crate) awaits_clients: AtomicBool,
    pub(crate) clock: Clock,
    /// The trace, from when the call is run.
    pub(crate) trace: OnceLock<CallTrace>,
    /// What clients send to the call, once it is known that its tool reads that.
    pub(crate) stdin: OnceLock<Stdin>,
    /// The program that its tool runs for clients.
    pub(crate) program: Program,
    /// What the tool said when what it starts was under way.
    pub(crate) launched: Mutex<Option<JsonMap>>,
    /// What its programs have used; none if it has started none.
    pub(crate) resources: Mutex<Option<Resources>>,
    /// What the tool has told the session while the call is not recorded; none once it is, and where it was recorded first.
    told_early: Mutex<Option<Vec<(String, Value)>>>,
    /// What the tool left to be listened to after the end.
    afterwards: Mutex<Option<LateMetadata>>,
    stop: CancellationToken,
    /// The first reason to stop; later ones do not replace it.
    stop_reason: Mutex<Option<EndReason>>,
    record: Mutex<Arc<CallRecord>>,
    /// Its recent log.
    pub(crate) ring: Ring,
    progress: watch::Sender<Progress>,
    /// How it stands for the next run of the service.
    pub(crate) handover: Handover,
    /// No calls may be made on behalf of this one any more.
    childless: AtomicBool,
    /// Calls that it made, has stopped, and waits for.
    pub(crate) stopping_below: watch::Sender<usize>,
    /// Streams of ExecuteTool and RunTool that are attached.
    owners: AtomicUsize,
    /// Those of them whose clients are gone and may come back.
    lingering: AtomicUsize,
}

impl LiveCall {
    pub(crate) fn new(record: CallRecord, ticket: Ticket, stop: CancellationToken, ring: Ring) -> Self {
        let (progress, _) = watch::channel(Progress::default());
        Self {
            id: record.id.clone(),
            request_digest: record.request_digest.clone(),
            on_disconnect: record.on_disconnect,
            ticket,
            awaits_clients: AtomicBool::new(false),
            clock: Clock::default(),
            trace: OnceLock::new(),
            stdin: OnceLock::new(),
            program: Program::default(),
            launched: Mutex::default(),
            resources: Mutex::default(),
            told_early: Mutex::default(),
            afterwards: Mutex::default(),
            stop,
            stop_reason: Mutex::default(),
            record: Mutex::new(Arc::new(record)),
            ring,
            progress,
            handover: Handover::default(),
            childless: AtomicBool::new(false),
            stopping_below: watch::Sender::new(0),
            owners: AtomicUsize::new(0),
            lingering: AtomicUsize::new(0),
        }
    }

    /// Begins a part of the call's trace, until what is returned is dropped.
    pub(crate) fn part(&self, name: &'static str) -> Option<Span> {
        self.trace.get().map(|trace| trace.part(name))
    }

    /// Lets clients send input to the call.
    pub(crate) fn take_input(&self) {
        self.stdin.get_or_init(Stdin::default);
    }

    /// Asks the call to stop. The first reason stands.
    pub(crate) fn stop(&self, reason: EndReason) {
        self.stop_reason.lock().get_or_insert(reason);
        self.stop.cancel();
    }

    /// Refuses calls on behalf of this one from now on.
    pub(crate) fn make_childless(&self) {
        self.childless.store(true, Ordering::Release);
    }

    pub(crate) fn is_childless(&self) -> bool {
        self.childless.load(Ordering::Acquire)
    }

    pub(crate) fn stop_reason(&self) -> Option<EndReason> {
        *self.stop_reason.lock()
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    pub(crate) fn record(&self) -> Arc<CallRecord> {
        self.record.lock().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Returns whether the log has a reader besides those that only wait for a client to come back.
    fn is_watched(&self) -> bool {
        self.progress.receiver_count() > self.lingering.load(Ordering::Acquire)
    }

    /// Makes durable events visible. Called by the log writer only.
    pub(crate) fn publish(&self, record: CallRecord, events: Vec<LoggedEvent>) {
        let ended = record.state.is_terminal();
        let last = record.last_sequence;
        *self.record.lock() = Arc::new(record);
        self.ring.push(events, self.progress.receiver_count() > 0);
        self.progress
            .send_modify(|progress| (progress.last, progress.ended) = (last, ended));
    }

    /// Makes events visible that were stored with the record.
    pub(crate) fn publish_stored(&self, record: CallRecord, events: Vec<CallEvent>) {
        let logged = events.into_iter().map(|event| LoggedEvent {
            event: Arc::new(event),
            data: None,
        });
        self.publish(record, logged.collect());
    }

    /// Wakes those who wait for what the call starts to be under way.
    pub(crate) fn launch(&self, facts: JsonMap) {
        self.launched.lock().get_or_insert(facts);
        self.progress.send_modify(|progress| progress.launched = true);
    }

    /// Notes that the call runs before it is recorded: what it tells its session meanwhile is kept, and lost if there will be no such
    /// call.
    pub(crate) fn run_unrecorded(&self) {
        *self.told_early.lock() = Some(Vec::new());
    }

    /// Says whether the call runs and is not recorded.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.told_early.lock().is_some()
    }

    /// Keeps a fact of the session until the call is recorded; false if it is.
    pub(crate) fn keep_fact(&self, key: &str, value: &Value) -> bool {
        let mut told = self.told_early.lock();
        let Some(facts) = told.as_mut() else { return false };
        facts.push((key.to_owned(), value.clone()));
        true
    }

    /// Returns a fact that is kept.
    pub(crate) fn kept_fact(&self, key: &str) -> Option<Value> {
        let told = self.told_early.lock();
        let mut facts = told.as_ref()?.iter().rev();
        facts.find(|(kept, _)| kept == key).map(|(_, value)| value.clone())
    }

    /// Notes that the call is recorded, and gives out the facts that were kept.
    pub(crate) fn note_recorded(&self, remember: impl FnMut((String, Value))) {
        let mut told = self.told_early.lock();
        told.take().into_iter().flatten().for_each(remember);
    }

    /// Keeps what is to be listened to after the end; what was left before is dropped.
    pub(crate) fn leave(&self, patches: LateMetadata) {
        *self.afterwards.lock() = Some(patches);
    }

    pub(crate) fn take_afterwards(&self) -> Option<LateMetadata> {
        self.afterwards.lock().take()
    }

    /// Waits until the call is recorded; false if it did not come into being.
    pub(crate) async fn recorded(&self) -> bool {
        let mut progress = self.watch();
        let known = progress.wait_for(|progress| progress.last > 0 || progress.ended).await;
        known.is_ok_and(|progress| progress.last > 0)
    }

    /// Lets a reader that keeps up go on doing so, for a moment.
    pub(crate) async fn let_readers_follow(&self) {
        if self.progress.receiver_count() > 0 {
            self.ring.let_readers_follow().await;
        }
    }

    /// Gives watchers up: the call could not be recorded.
    pub(crate) fn abandon(&self) {
        self.progress.send_modify(|progress| progress.ended = true);
    }

    /// Tells watchers that the call goes on in the next run of the service. Called by the log writer only.
    pub(crate) fn hand_over(&self) {
        self.progress
            .send_modify(|progress| (progress.ended, progress.left) = (true, true));
    }

    /// Attaches a stream whose loss means what the call's policy says.
    pub(crate) fn attach(self: &Arc<Self>) -> Attached {
        self.owners.fetch_add(1, Ordering::AcqRel);
        Attached {
            call: self.clone(),
            is_released: false,
        }
    }
}

/// Kept by a response stream of ExecuteTool or RunTool, or for a client that may come back. When the last one of a call is dropped
/// before the call's end, the call is stopped, unless its policy is to keep it.
pub struct Attached {
    call: Arc<LiveCall>,
    is_released: bool,
}

impl Attached {
    pub(crate) fn call(&self) -> &Arc<LiveCall> {
        &self.call
    }

    /// Says whether the call has ended.
    pub fn is_over(&self) -> bool {
        self.call.record().state.is_terminal()
    }

    /// Lets the call go on without this client, whatever its policy is.
    pub fn release(mut self) {
        self.is_released = true;
    }

    /// Gives this client time to come back, or to watch the call instead: as long as somebody watches, it goes on, also if its policy
    /// is to end with its client.
    pub async fn linger(self, grace: Duration) {
        let call = self.call.clone();
        let _one = Lingering::at(&call);
        let mut progress = call.watch();
        let mut seen = Instant::now();
        loop {
            let ended = progress.wait_for(|progress| progress.ended);
            if tokio::time::timeout(LOOK_INTERVAL, ended).await.is_ok() {
                return;
            }
            // Somebody is there whose leaving counts at once.
            if call.owners.load(Ordering::Acquire) > call.lingering.load(Ordering::Acquire) {
                return;
            }
            if call.is_watched() {
                seen = Instant::now();
            } else if seen.elapsed() >= grace {
                return;
            }
        }
    }

    /// Notes that this client cannot come back to the call when the service is another one.
    pub fn cannot_come_back(&self) {
        self.call.handover.keep_here();
    }
}

/// One whose client is gone and may come back.
struct Lingering(Arc<LiveCall>);

impl Lingering {
    fn at(call: &Arc<LiveCall>) -> Self {
        call.lingering.fetch_add(1, Ordering::AcqRel);
        Self(call.clone())
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.lingering.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let was_last = self.call.owners.fetch_sub(1, Ordering::AcqRel) == 1;
        if was_last && !self.is_released && !self.is_over() && self.call.on_disconnect == OnDisconnect::Cancel {
            self.call.stop(EndReason::Cancelled);
        }
    }
}
