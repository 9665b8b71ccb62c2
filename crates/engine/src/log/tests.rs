//! The log writer over a store that holds its appends, or refuses them, while output comes.

mod cursor;
mod gated;
mod unrecorded;

use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use toolgate_model::{
    CallEvent, CallId, CallState, EndReason, Ending, EventKind, InstanceId, JsonMap, Model, OnDisconnect, Origin,
    OutputId, SessionId, Timestamp, WarningKind,
};
use toolgate_store::local::LocalStore;
use toolgate_store::{CallLog as _, Created, Outputs as _};

use super::appends::Creation;
use super::event::apply;
use super::writer::{Command, Finished, QUEUE};
use super::*;
use crate::live::LiveCall;
use gated::{Gate, GatedStore};

/// Much longer than any of it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// More than may be held in memory of an output.
const FLOOD: usize = 8 << 20;

const PIECE: usize = 100_000;

struct Writing {
    _folder: TempDir,
    store: Arc<GatedStore>,
    call: Arc<LiveCall>,
    commands: mpsc::Sender<Command>,
    task: JoinHandle<bool>,
    printed: Vec<u8>,
}

fn record(owner: &InstanceId) -> CallRecord {
    CallRecord {
        id: CallId::from("c"),
        owner: owner.clone(),
        origin: Origin {
            workspace: "w".to_owned(),
            session: SessionId::from("s"),
            directory: String::new(),
            message_id: String::new(),
            agent: "build".to_owned(),
            model: Model::default(),
            client: String::new(),
            client_name: String::new(),
            unanswered: None,
            parent: None,
            requester: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            extra: Default::default(),
            environment: Default::default(),
        },
        tool: "bash".to_owned(),
        requested_tool: "bash".to_owned(),
        directory: "/work".to_owned(),
        in_task: false,
        ancestors: Vec::new(),
        made_by_call: false,
        is_step: false,
        request_digest: String::new(),
        input_json: "{}".to_owned(),
        input_digest: String::new(),
        original: None,
        timeout: None,
        on_disconnect: OnDisconnect::Keep,
        state: CallState::Pending,
        created: Timestamp::now(),
        started: None,
        ended: None,
        last_sequence: 0,
        title: String::new(),
        summary: String::new(),
        waiting_on: None,
        ending: None,
    }
}

impl Writing {
    async fn begin() -> Self {
        Self::of(None).await
    }

    /// Begins a call that is recorded when it is written to; who admits it hears what became of that.
    async fn unrecorded(told: (Instant, oneshot::Sender<Result<Created, StoreError>>)) -> Self {
        Self::of(Some(told)).await
    }

    async fn of(told: Option<(Instant, oneshot::Sender<Result<Created, StoreError>>)>) -> Self {
        let folder = TempDir::new().expect("a folder");
        let owner = InstanceId::generate();
        let store = LocalStore::open(folder.path(), owner.clone()).expect("a store");
        let store = Arc::new(GatedStore::new(store));
        let mut record = record(&owner);
        let pending = EventKind::Pending {
            tool: "bash".to_owned(),
            requested_tool: "bash".to_owned(),
            title: String::new(),
            summary: String::new(),
            queued: None,
        };
        let events = apply(&mut record, vec![pending]);
        if told.is_none() {
            let created = store.store.create_call(record.clone(), events.clone()).await;
            created.expect("it is new");
        }
        let log = CallLog::new(store.clone(), Redactor::default(), Arc::default(), 1 << 30);
        let log = Arc::new(log);
        let call = LiveCall::new(record.clone(), 0, CancellationToken::new(), log.ring());
        let call = Arc::new(call);
        if told.is_none() {
            call.publish_stored(record.clone(), events.clone());
        }
        let (commands, mut received) = mpsc::channel(QUEUE);
        let mut writer = log.writer(call.clone(), record);
        if let Some((due, told)) = told {
            writer = writer.creates(Creation { events, due, told });
        }
        let task = tokio::spawn(async move { writer.run(&mut received, u64::MAX).await });
        Self {
            _folder: folder,
            store,
            call,
            commands,
            task,
            printed: Vec::new(),
        }
    }

    /// Has a command that is answered taken, and returns the answer.
    async fn tell<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> T {
        let (sender, answer) = oneshot::channel();
        self.send(command(sender)).await;
        let answer = timeout(LIMIT, answer).await.expect("it is answered in time");
        answer.expect("it is answered")
    }

    async fn send(&self, command: Command) {
        let sent = timeout(LIMIT, self.commands.send(command)).await;
        assert!(sent.is_ok_and(|sent| sent.is_ok()), "the writer takes no commands");
    }

    async fn print(&mut self, bytes: usize) {
        while self.printed.len() < bytes {
            let text = format!("{}\n", self.printed.len()).repeat(PIECE / 8);
            self.printed.extend_from_slice(text.as_bytes());
            let bytes = Bytes::from(text);
            let stored = self.tell(|stored| Command::Output { bytes, stored }).await;
            stored.expect("there is room");
        }
    }

    /// Waits until an append is begun that has such an event.
    async fn is_begun(&self, such: impl Fn(&EventKind) -> bool) {
        let is_there = || {
            let begun = self.store.begun.lock();
            begun.iter().flatten().any(|event| such(&event.kind))
        };
        until("an append is begun", is_there).await;
    }

    fn shown(&self) -> u64 {
        self.call.watch().borrow().last
    }

    async fn is_shown(&self, such: impl Fn(u64) -> bool) {
        let mut progress = self.call.watch();
        let shown = timeout(LIMIT, progress.wait_for(|progress| such(progress.last)));
        shown.await.expect("it is shown in time").expect("the call is there");
    }

    async fn finish(&self) -> Finished {
        self.tell(|done| Command::Finish { done }).await
    }

    /// Ends the call, and looks whether its log is whole: numbers without gaps, one end, every byte of its output once.
    async fn end(self) -> Vec<CallEvent> {
        let ending = Box::new(Ending::failed(EndReason::ToolError, "done"));
        self.send(Command::End { ending }).await;
        assert!(
            timeout(LIMIT, self.task)
                .await
                .expect("it ends in time")
                .expect("it ends")
        );
        let events = self.store.events(&self.call.id, 0, usize::MAX >> 1).await;
        let events = events.expect("the log");
        assert!(events.iter().map(|event| event.sequence).eq(1..=events.len() as u64));
        let is_end = |event: &CallEvent| matches!(event.kind, EventKind::Ended(_));
        assert_eq!(events.iter().position(is_end), Some(events.len() - 1));
        let mut told = 0;
        let mut id: Option<OutputId> = None;
        for event in &events {
            if let EventKind::Output { output, offset, length } = &event.kind {
                assert_eq!(*offset, told);
                assert!((1..=64 << 10).contains(length), "{length}");
                told += length;
                id = Some(output.clone());
            }
        }
        assert_eq!(told, self.printed.len() as u64);
        if let Some(id) = id {
            let mut read = Vec::new();
            while read.len() < self.printed.len() {
                let more = self.store.read(&id, read.len() as u64, 1 << 20).await;
                read.extend_from_slice(&more.expect("it is kept"));
            }
            assert!(read == self.printed);
        }
        let last = self.call.record();
        assert_eq!(last.last_sequence, events.len() as u64);
        assert!(last.state.is_terminal());
        events
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(timeout(LIMIT, looking).await.is_ok(), "{what}");
}

fn is_output(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Output { .. })
}

fn warning(text: &str) -> Command {
    Command::Warning {
        kind: WarningKind::Lossy,
        text: text.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_taken_while_an_append_is_under_way() {
    let mut writing = Writing::begin().await;
    writing.print(1).await;
    writing.is_shown(|last| last > 1).await;
    writing.store.set(Gate::Held);
    let shown = writing.shown();
    writing.print(FLOOD).await;
    let patch: JsonMap = [("at".to_owned(), 1.into())].into_iter().collect();
    writing.send(Command::Metadata { title: None, patch }).await;
    writing.send(warning("one")).await;
    writing.print(2 * FLOOD).await;
    // All of it is in the stored output, and none of it in the log: nobody is shown what is not stored.
    assert_eq!(writing.shown(), shown);
    assert_eq!(writing.store.begun.lock().len(), 2);
    writing.store.set(Gate::Open);
    writing.is_shown(|last| last > shown).await;
    let finished = writing.finish().await;
    let bytes = writing.printed.len() as u64;
    assert_eq!(finished.output.expect("there is one").bytes, bytes);
    let events = writing.end().await;
    // What came meanwhile is in its place.
    let is_warning = |event: &CallEvent| matches!(event.kind, EventKind::Warning { .. });
    let place = events.iter().position(is_warning).expect("it is there");
    assert!(
        events[..place]
            .iter()
            .any(|event| matches!(event.kind, EventKind::Metadata { .. }))
    );
    assert!(events[place..].iter().any(|event| is_output(&event.kind)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_tried_is_tried_again_unchanged() {
    let mut writing = Writing::begin().await;
    writing.store.set(Gate::Away);
    writing.print(FLOOD).await;
    writing.send(warning("one")).await;
    writing.send(warning("two")).await;
    writing.print(2 * FLOOD).await;
    // It is tried again without anything new.
    let tried = writing.store.begun.lock().len();
    until("it is tried again", || writing.store.begun.lock().len() > tried + 1).await;
    assert_eq!(writing.shown(), 1);
    writing.store.set(Gate::Open);
    writing.is_shown(|last| last > 1).await;
    writing.finish().await;
    let store = writing.store.clone();
    let events = writing.end().await;
    for tried in store.begun.lock().iter() {
        let from = tried[0].sequence as usize - 1;
        assert_eq!(tried[..], events[from..from + tried.len()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_an_event_hears_when_it_is_stored() {
    let mut writing = Writing::begin().await;
    writing.store.set(Gate::Held);
    writing.print(1).await;
    writing.is_begun(is_output).await;
    let (stored, mut answer) = oneshot::channel();
    writing.send(Command::Running { stored }).await;
    // The writer has taken it, since it takes commands in their order.
    writing.print(FLOOD).await;
    assert!(answer.try_recv().is_err());
    writing.store.set(Gate::Open);
    assert!(timeout(LIMIT, &mut answer).await.expect("in time").expect("an answer"));
    assert_eq!(writing.call.record().state, CallState::Running);

    writing.store.set(Gate::Away);
    assert!(!writing.tell(|stored| Command::Running { stored }).await);
    writing.store.set(Gate::Open);
    writing.finish().await;
    writing.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_waits_for_what_is_before_it() {
    let mut writing = Writing::begin().await;
    writing.store.set(Gate::Held);
    writing.print(1).await;
    writing.is_begun(is_output).await;
    writing.print(FLOOD).await;
    let (done, finished) = oneshot::channel();
    writing.send(Command::Finish { done }).await;
    let (store, call) = (writing.store.clone(), writing.call.clone());
    let ended = tokio::spawn(writing.end());
    assert_eq!(call.watch().borrow().last, 1);
    store.set(Gate::Away);
    assert!(timeout(LIMIT, finished).await.expect("in time").is_ok());
    assert_eq!(
        call.watch().borrow().last,
        1,
        "the end is not shown before it is stored"
    );
    store.set(Gate::Open);
    ended.await.expect("the log is whole");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_is_bounded() {
    let mut writing = Writing::begin().await;
    writing.store.set(Gate::Held);
    for number in 0..=1025 {
        writing.send(warning(&number.to_string())).await;
    }
    let bytes = Bytes::from_static(b"more");
    let refused = writing.tell(|stored| Command::Output { bytes, stored }).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    writing.store.set(Gate::Open);
    writing.is_shown(|last| last > 1025).await;
    writing.print(1).await;
    writing.finish().await;
    writing.end().await;
}
