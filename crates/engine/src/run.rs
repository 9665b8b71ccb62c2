//! Running an admitted call to its one end: the loop question, the tool, an edited reply, the terminal event.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use toolgate_fs::Workspace;
use toolgate_model::redact::Redactor;
use toolgate_model::{
    Ask, CallEvent, CallId, CallRecord, CallState, EndReason, EventKind, InputEdit, Outcome, OutputText, Timestamp,
    ToolOutput, json_map,
};
use toolgate_permission::Refusal;
use toolgate_permission::Rights;
use toolgate_tool::registry::{Entry, Registry};
use toolgate_tool::{CallContext, CallPort as _, ToolError, invalid_arguments};
use tracing::Instrument as _;

use super::live::{LiveCall, Recorded, lock};
use super::lossy::{self};
use super::port::Port;
use super::truncate::{self};
use super::turns::Turn;
use super::writer::{self, Command, LogWriter};
use super::{Engine, WorkspaceRuntime, child, edit, input, measure};
use crate::prompts::broker::{DOOM_LOOP, Opened};

/// Running a call to its end, for the task that admitted it.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One run of one call.
pub(super) struct Run {
    pub(super) engine: Arc<Engine>,
    pub(super) workspace: Arc<Workspace>,
    pub(super) truncation: truncate::Limits,
    pub(super) live: Arc<LiveCall>,
    pub(super) record: CallRecord,
    /// The tools and hooks that the call was admitted with.
    pub(super) registry: Arc<Registry>,
    entry: Entry,
    pub(super) rights: Rights,
    /// Kept until the tool is done.
    turn: Option<Turn>,
    /// The input with its keys in the order in which they were written, which is known until a restart: some tools show
    /// it as they get it.
    written: Option<Value>,
}

/// As much output is stored by the task that reads it.
const LITTLE_OUTPUT: u64 = 256 * 1024;

/// What is done when the log of a call has its end.
async fn written(engine: &Arc<Engine>, id: &CallId, live: Arc<LiveCall>) {
    engine.forget(id);
    // Its recent events need not wait for what comes later.
    let afterwards = live.take_afterwards();
    drop(live);
    if let Some(patches) = afterwards {
        engine.listen_afterwards(id, patches).await;
    }
}

/// How a tool came back.
pub(super) enum Returned {
    Output(ToolOutput),
    Error(ToolError),
    /// It refused to go on with a third identical call.
    DoomLoop(Refusal),
    Panicked,
    /// It was stopped before its turn came.
    NotStarted,
    /// It did not come back in the grace after it was asked to stop.
    Dropped,
    /// It was dropped at its question, which the next run of the service asks again.
    Left,
}

impl Run {
    pub(super) fn new(
        engine: &Arc<Engine>,
        place: &WorkspaceRuntime,
        live: Arc<LiveCall>,
        record: CallRecord,
        (registry, entry): (Arc<Registry>, Entry),
        rights: Rights,
    ) -> Self {
        Self {
            engine: engine.clone(),
            workspace: place.workspace.clone(),
            truncation: place.now().truncation,
            live,
            record,
            registry,
            entry,
            rights,
            turn: None,
            written: None,
        }
    }

    /// Lets the call run when its turn comes, and keeps that until it is done.
    pub(super) fn in_turn(mut self, turn: Option<Turn>) -> Self {
        self.turn = turn;
        self
    }

    /// Gives the input as it was written to the tool, in the place of its canonical form.
    pub(super) fn with_input(mut self, written: Value) -> Self {
        self.written = Some(written);
        self
    }

    /// Returns what is to be done for the call: its log writer, beside what runs the tool and feeds it. They take turns
    /// in one task, since each step of one waits for a step of the other, and waking another thread for it costs more
    /// than the step; but more output is read while what was read before is stored. `asks_first` puts the loop question
    /// before the tool; `earlier` are the prompts that the call had before the service died.
    pub(super) fn work(self, asks_first: bool, earlier: Vec<Opened>) -> Work {
        let span = tracing::info_span!(
            "call",
            id = %self.record.id,
            tool = %self.record.tool,
            trace = tracing::field::Empty,
        );
        let trace = self.engine.trace(&self.record, self.entry.source);
        if let Some(id) = trace.id() {
            span.record("trace", id);
        }
        let trace = self.live.trace.get_or_init(|| trace).clone();
        let engine = self.engine.clone();
        let (log, mut commands) = mpsc::channel(writer::QUEUE);
        let mut log_writer = LogWriter::new(
            engine.store.clone(),
            self.live.clone(),
            self.record.clone(),
            engine.limits.max_output_bytes,
            engine.closing.clone(),
            engine.redactor.clone(),
            engine.telemetry.metrics.clone(),
        );
        let id = self.record.id.clone();
        let live = self.live.clone();
        let writing = async move {
            if log_writer.run(&mut commands, LITTLE_OUTPUT).await {
                return written(&engine, &id, live).await;
            }
            let owner = engine.clone();
            let rest = async move {
                log_writer.run(&mut commands, u64::MAX).await;
                written(&owner, &id, live).await;
            };
            engine.tasks.spawn(rest.instrument(tracing::Span::current()));
        };
        // A fault of ours takes the way to the writer with it, and then the writer ends the call.
        let running = AssertUnwindSafe(self.execute(log, asks_first, earlier)).catch_unwind();
        let running = trace.around(running);
        let work = async move {
            // The panic was reported by its hook.
            let (_, _) = tokio::join!(writing, running);
        };
        Box::pin(work.instrument(span))
    }

    async fn execute(mut self, log: mpsc::Sender<Command>, asks_first: bool, earlier: Vec<Opened>) {
        let record = Arc::new(self.record.clone());
        let port = Arc::new(Port {
            engine: self.engine.clone(),
            store: self.engine.store.clone(),
            broker: self.engine.broker.clone(),
            call: self.live.clone(),
            record: record.clone(),
            rights: self.rights.clone(),
            registry: self.registry.clone(),
            instance: self.engine.instance.clone(),
            log: log.clone(),
            earlier: Mutex::new(earlier),
            max_undo_bytes: self.engine.limits.max_undo_bytes,
            editable: self.entry.tool.properties().editable && self.record.original.is_none(),
            edit: Mutex::default(),
        });
        let mut turn = self.turn.take();
        let mut returned = match self.wait_for_turn(turn.as_mut(), &port, asks_first).await {
            Ok(()) => self.supervise(&port, asks_first).await,
            Err(stopped) => stopped,
        };
        if !self.live.stand.go_on() {
            returned = Returned::Left;
        }
        if matches!(returned, Returned::Left) {
            let _ = log.send(Command::Leave).await;
            return;
        }
        if self.record.runs_subagent() {
            self.engine.stop_below(&self.live).await;
        }
        if let Returned::Output(output) = &mut returned {
            // Before it is measured and stored: what is shown and what is kept is the same text.
            self.redact(output);
        }
        let (done, finished) = oneshot::channel();
        // The writer outlives its feeders; should it be gone, there is nobody to tell the end either.
        let _ = log.send(Command::Finish { done }).await;
        let finished = finished.await.unwrap_or_default();
        port.withdraw_earlier("the call has ended").await;
        // A tool that was dropped while it asked did not withdraw its question.
        for prompt in &self.engine.broker.waiting_on(&self.record.id).await {
            if let Err(error) = self.engine.broker.withdraw(prompt, "the call has ended").await {
                tracing::error!(%prompt, error = &error as &dyn std::error::Error, "a prompt could not be withdrawn");
            }
        }
        let ending = self.ending(returned, finished).await;
        if let (Some(label), Some(path)) = (ending.metadata.get(lossy::KEY), &ending.truncation.path) {
            port.warn(lossy::KEY, lossy::warning(&label["replaced"], path)).await;
        }
        let ending = self.after_hooks(ending).await;
        let mut ending = edit::tell(ending, &self.live.record());
        if let Outcome::Failed { error, .. } = &mut ending.outcome {
            self.engine.redactor.string(error);
        }
        // Who sees the end may count on the room.
        drop(turn);
        let _ = log
            .send(Command::End {
                ending: Box::new(ending),
            })
            .await;
    }

    fn redact(&self, output: &mut ToolOutput) {
        let redactor = &self.engine.redactor;
        redactor.string(&mut output.title);
        redactor.map(&mut output.metadata);
        if let OutputText::Text(text) = &mut output.output {
            redactor.string(text);
        }
        output
            .attachments
            .iter_mut()
            .for_each(|attachment| redactor.attachment(attachment));
    }

    /// Waits until the call may run; from then on it counts as running, and its time runs.
    async fn wait_for_turn(&self, turn: Option<&mut Turn>, port: &Port, asks_first: bool) -> Result<(), Returned> {
        let _part = measure::waits_for_turn(&self.live, &self.record);
        if let Some(turn) = turn
            && turn.queued().is_some()
        {
            tokio::select! {
                biased;
                () = self.live.stopping().cancelled() => return Err(Returned::NotStarted),
                () = turn.comes() => {}
            }
        }
        self.live.clock.hold(false);
        if asks_first || self.record.started.is_some() {
            return Ok(());
        }
        record_start(port).await
    }

    /// Runs the tool until it returns, or until it was asked to stop and a grace has passed.
    async fn supervise(&self, port: &Arc<Port>, asks_first: bool) -> Returned {
        let tool = AssertUnwindSafe(self.call_tool(port.clone(), asks_first)).catch_unwind();
        tokio::pin!(tool);
        let caught = |result: Result<Returned, Box<dyn Any + Send>>| result.unwrap_or(Returned::Panicked);
        let limit = self.record.timeout;
        let out_of_time = async {
            match limit {
                Some(limit) => self.live.clock.reached(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            returned = &mut tool => return caught(returned),
            () = self.live.stand.left() => return Returned::Left,
            () = self.live.stopping().cancelled() => {}
            () = out_of_time => self.live.stop(EndReason::TimedOut),
        }
        tokio::select! {
            biased;
            returned = tool => caught(returned),
            () = child::grace_is_over(&self.live) => Returned::Dropped,
        }
    }

    /// Runs the tool, and runs it anew where a person put another input in the place of the call's.
    async fn call_tool(&self, port: Arc<Port>, asks_first: bool) -> Returned {
        let returned = self.attempt(port.clone(), asks_first).await;
        let Some(edit) = lock(&port.edit).take() else {
            return returned;
        };
        let asks_first = match returned {
            Returned::DoomLoop(Refusal::Edited) => true,
            Returned::Error(ToolError::Refused(Refusal::Edited)) => false,
            Returned::Output(_)
            | Returned::Error(_)
            | Returned::DoomLoop(_)
            | Returned::NotStarted
            | Returned::Panicked
            | Returned::Dropped
            | Returned::Left => {
                let fault = "the tool went on though its input was replaced";
                return Returned::Error(ToolError::Internal(fault.into()));
            }
        };
        port.withdraw_earlier("the input of the call was replaced").await;
        let record = CallRecord {
            input_json: edit.input_json,
            input_digest: edit.input_digest,
            original: Some(InputEdit {
                input_json: self.record.input_json.clone(),
                input_digest: self.record.input_digest.clone(),
            }),
            ..self.record.clone()
        };
        if let Some(problem) = self.misfit(&record) {
            return Returned::Error(ToolError::Failed(problem));
        }
        let port = Arc::new(Port {
            engine: port.engine.clone(),
            store: port.store.clone(),
            broker: port.broker.clone(),
            call: port.call.clone(),
            record: Arc::new(record),
            rights: port.rights.clone(),
            registry: port.registry.clone(),
            instance: port.instance.clone(),
            log: port.log.clone(),
            earlier: Mutex::default(),
            max_undo_bytes: port.max_undo_bytes,
            editable: false,
            edit: Mutex::default(),
        });
        self.attempt(port, asks_first).await
    }

    /// Says what is wrong with an input that was stored with a reply: the tool may be another one since then.
    fn misfit(&self, record: &CallRecord) -> Option<String> {
        if input::sha256_hex(record.input_json.as_bytes()) != record.input_digest {
            return Some(invalid_arguments(
                &record.tool,
                "the digest of the input is not the one that was approved",
            ));
        }
        match serde_json::from_str(&record.input_json) {
            Ok(value) => {
                let problems = input::problems(&self.entry.validator, &value);
                (!problems.is_empty()).then(|| self.entry.tool.misfit(&problems))
            }
            Err(error) => Some(invalid_arguments(&record.tool, &error.to_string())),
        }
    }

    async fn attempt(&self, port: Arc<Port>, asks_first: bool) -> Returned {
        let is_edited = port.record.input_digest != self.record.input_digest;
        let input: Value = match self
            .written
            .clone()
            .filter(|_| !is_edited)
            .map_or_else(|| serde_json::from_str(&port.record.input_json), Ok)
        {
            Ok(input) => input,
            Err(error) => return Returned::Error(ToolError::Internal(Box::new(error))),
        };
        if asks_first {
            if let Err(refusal) = port.ask(self.loop_question(&input)).await {
                return Returned::DoomLoop(refusal);
            }
            if let Err(returned) = record_start(&port).await {
                return returned;
            }
        }
        let origin = Arc::new(self.record.origin.clone());
        let stopping = self.live.stopping().clone();
        let ctx = CallContext::new(self.record.id.clone(), origin, self.workspace.clone(), stopping, port);
        let _part = self.live.part("run");
        match self.entry.tool.call(input, &ctx).await {
            Ok(output) => Returned::Output(output),
            Err(error) => Returned::Error(error),
        }
    }

    /// Says whether the tool has handed its result to the hooks itself.
    pub(super) fn hooks_are_done(&self) -> bool {
        self.entry.tool.properties().runs_after_hooks
    }

    fn loop_question(&self, input: &Value) -> Ask {
        Ask {
            permission: DOOM_LOOP.to_owned(),
            patterns: vec![self.record.tool.clone()],
            always: vec![self.record.tool.clone()],
            title: format!(
                "{} is called for the third time in a row with the same input",
                self.record.tool
            ),
            metadata: json_map([("tool", json!(self.record.tool)), ("input", input.clone())]),
            ..Ask::default()
        }
    }
}

/// Records that the tool starts. Without that a call that has done something would be taken for one that has not.
async fn record_start(port: &Port) -> Result<(), Returned> {
    match port.tell(|stored| Command::Running { stored }).await {
        Some(true) => Ok(()),
        Some(false) | None => Err(Returned::Error(ToolError::Internal(
            "it could not be recorded that the call starts".into(),
        ))),
    }
}

/// Makes the event that the tool of a call starts.
pub(super) fn running(record: &CallRecord, title: String, redactor: &Redactor) -> EventKind {
    EventKind::Running {
        input_json: redactor.text(&record.input_json).into_owned(),
        input_digest: record.input_digest.clone(),
        title,
    }
}

/// Numbers events and brings the record to where they leave it.
pub(super) fn apply(record: &mut CallRecord, kinds: Vec<EventKind>) -> Vec<CallEvent> {
    let time = Timestamp::now();
    let mut events = Vec::with_capacity(kinds.len());
    for kind in kinds {
        record.last_sequence += 1;
        match &kind {
            EventKind::Running { title, .. } => {
                record.state = CallState::Running;
                record.started = Some(time);
                record.title.clone_from(title);
            }
            EventKind::Ended(ending) => {
                record.state = ending.state();
                record.ended = Some(time);
                record.waiting_on = None;
                record.ending = Some((**ending).clone());
            }
            EventKind::Pending { .. }
            | EventKind::Metadata { .. }
            | EventKind::Output { .. }
            | EventKind::Waiting { .. }
            | EventKind::Resumed { .. }
            | EventKind::Child { .. }
            | EventKind::Warning { .. } => {}
        }
        events.push(CallEvent {
            sequence: record.last_sequence,
            time,
            kind,
        });
    }
    events
}

/// Shows events that were stored with the record.
pub(super) fn publish(live: &LiveCall, record: CallRecord, events: Vec<CallEvent>) {
    let recorded = events
        .into_iter()
        .map(|event| Recorded {
            event: Arc::new(event),
            data: None,
        })
        .collect();
    live.publish(record, recorded);
}
