//! Running an admitted call to its one end: the loop question, the tool, an edited reply, the terminal event.

mod context;
pub(crate) mod edited;
mod result;
pub mod truncate;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use toolgate_fs::Workspace;
use toolgate_model::{
    Ask, CallId, CallRecord, EndReason, InputEdit, Outcome, OutputText, ToolOutput, WarningKind, json_map,
};
use toolgate_permission::Refusal;
use toolgate_permission::Rights;
use toolgate_tool::registry::{Entry, Registry};
use toolgate_tool::{OutputHandle as _, PermissionHandle as _, ToolError, invalid_arguments};
use tracing::Instrument as _;

use self::context::RunContext;
use crate::admission::started::Work;
use crate::catalogs::WorkspaceRuntime;
use crate::live::LiveCall;
use crate::log::appends::Creation;
use crate::log::writer::{self, Command};
use crate::parts::Parts;
use crate::prompts::asking::Opened;
use crate::prompts::exchange::DOOM_LOOP;
use crate::scheduler::Turn;
use crate::subagent::child::{self, ChildAdmission};
use crate::{input, lossy, metrics};

/// One run of one call.
pub(super) struct Run {
    parts: Arc<Parts>,
    children: Arc<dyn ChildAdmission>,
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
    /// What records the call, which runs before that.
    creation: Option<Creation>,
    /// What serves the call, once it runs.
    context: Option<Arc<RunContext>>,
}

/// So much output is stored by the task that reads it.
const INLINE_OUTPUT_BYTES: u64 = 256 * 1024;

/// What is done when the log of a call has its end.
async fn written(parts: &Parts, id: &CallId, live: Arc<LiveCall>) {
    parts.calls.forget(id);
    // Its recent events need not wait for what comes later.
    let afterwards = live.take_afterwards();
    drop(live);
    if let Some(patches) = afterwards {
        parts.log.late.listen(id, patches).await;
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
        parts: &Arc<Parts>,
        children: Arc<dyn ChildAdmission>,
        (place, workspace): (&WorkspaceRuntime, Arc<Workspace>),
        live: Arc<LiveCall>,
        record: CallRecord,
        (registry, entry): (Arc<Registry>, Entry),
        rights: Rights,
    ) -> Self {
        Self {
            parts: parts.clone(),
            children,
            workspace,
            truncation: place.now().truncation,
            live,
            record,
            registry,
            entry,
            rights,
            turn: None,
            written: None,
            creation: None,
            context: None,
        }
    }

    /// Has the call recorded while it runs.
    pub(super) fn recorded_with(mut self, creation: Creation) -> Self {
        self.creation = Some(creation);
        self
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
    pub(super) fn work(mut self, asks_first: bool, earlier: Vec<Opened>) -> Work {
        let span = tracing::info_span!(
            "call",
            id = %self.record.id,
            tool = %self.record.tool,
            trace = tracing::field::Empty,
        );
        let trace = metrics::trace(&self.parts.telemetry, &self.record, self.entry.source);
        if let Some(id) = trace.id() {
            span.record("trace", id);
        }
        let trace = self.live.trace.get_or_init(|| trace).clone();
        let parts = self.parts.clone();
        let (log, mut commands) = mpsc::channel(writer::QUEUE);
        let mut log_writer = parts.log.writer(self.live.clone(), self.record.clone());
        let creation = self.creation.take();
        let may_be_unrecorded = creation.is_some();
        if let Some(creation) = creation {
            log_writer = log_writer.creates(creation);
        }
        let id = self.record.id.clone();
        let live = self.live.clone();
        let writing = async move {
            if log_writer.run(&mut commands, INLINE_OUTPUT_BYTES).await {
                if !log_writer.has_no_call() {
                    written(&parts, &id, live).await;
                }
                return;
            }
            let owner = parts.clone();
            let rest = async move {
                log_writer.run(&mut commands, u64::MAX).await;
                written(&owner, &id, live).await;
            };
            parts.calls.tasks.spawn(rest.instrument(tracing::Span::current()));
        };
        // If this panics, the sender of commands is dropped, and then the writer ends the call.
        let running = AssertUnwindSafe(self.execute(log, asks_first, earlier, may_be_unrecorded)).catch_unwind();
        let running = trace.around(running);
        let work = async move {
            // The panic was reported by its hook.
            let (_, _) = tokio::join!(writing, running);
        };
        Box::pin(work.instrument(span))
    }

    async fn execute(
        mut self,
        log: mpsc::Sender<Command>,
        asks_first: bool,
        earlier: Vec<Opened>,
        may_be_unrecorded: bool,
    ) {
        let record = Arc::new(self.record.clone());
        let context = Arc::new(RunContext {
            parts: self.parts.clone(),
            children: self.children.clone(),
            call: self.live.clone(),
            record: record.clone(),
            rights: self.rights.clone(),
            registry: self.registry.clone(),
            log: log.clone(),
            earlier: Mutex::new(earlier),
            editable: self.entry.tool.properties().editable && self.record.original.is_none(),
            edit: Mutex::default(),
            may_be_unrecorded,
        });
        self.context = Some(context.clone());
        let mut turn = self.turn.take();
        let mut returned = match self.wait_for_turn(turn.as_mut(), &context, asks_first).await {
            Ok(()) => self.supervise(&context, asks_first).await,
            Err(stopped) => stopped,
        };
        if !self.live.handover.go_on() {
            returned = Returned::Left;
        }
        if matches!(returned, Returned::Left) {
            let _ = log.send(Command::Leave).await;
            return;
        }
        if self.record.runs_subagent() {
            self.parts.calls.stop_below(&self.live).await;
        }
        if let Returned::Output(output) = &mut returned {
            // Before it is measured and stored: what is shown and what is kept is the same text.
            self.redact(output);
        }
        let (done, finished) = oneshot::channel();
        // The writer outlives those who send to it. If it is gone all the same, nothing can be recorded any more.
        let _ = log.send(Command::Finish { done }).await;
        let finished = finished.await.unwrap_or_default();
        context.withdraw_earlier("the call has ended").await;
        // A tool that was dropped while it asked did not withdraw its question.
        for prompt in &self.parts.prompts.waiting_on(&self.record.id).await {
            if let Err(error) = self.parts.prompts.withdraw(prompt, "the call has ended").await {
                tracing::error!(%prompt, error = &error as &dyn std::error::Error, "a prompt could not be withdrawn");
            }
        }
        let ending = self.ending(returned, finished).await;
        if let (Some(label), Some(path)) = (ending.metadata.get(lossy::KEY), &ending.truncation.path) {
            context
                .warn(WarningKind::Lossy, lossy::warning(&label["replaced"], path))
                .await;
        }
        let ending = self.after_hooks(ending).await;
        let mut ending = edited::mention(ending, &self.live.record());
        if let Outcome::Failed { error, .. } = &mut ending.outcome {
            self.parts.redactor.string(error);
        }
        // Whoever sees the end of the call finds its slot free.
        drop(turn);
        let _ = log
            .send(Command::End {
                ending: Box::new(ending),
            })
            .await;
    }

    fn redact(&self, output: &mut ToolOutput) {
        let redactor = &self.parts.redactor;
        redactor.string(&mut output.title);
        redactor.map(&mut output.metadata);
        if let Some(result) = &mut output.result {
            result.texts(|text| redactor.string(text));
        }
        if let OutputText::Text(text) = &mut output.output {
            redactor.string(text);
        }
        output
            .attachments
            .iter_mut()
            .for_each(|attachment| redactor.attachment(attachment));
    }

    /// Waits until the call may run; from then on it counts as running, and its time runs.
    async fn wait_for_turn(
        &self,
        turn: Option<&mut Turn>,
        context: &RunContext,
        asks_first: bool,
    ) -> Result<(), Returned> {
        let _part = metrics::waits_for_turn(&self.live, &self.record);
        if let Some(turn) = turn
            && turn.queued().is_some()
        {
            tokio::select! {
                biased;
                () = self.live.stopping().cancelled() => return Err(Returned::NotStarted),
                () = turn.wait() => {}
            }
        }
        self.live.clock.hold(false);
        if asks_first || self.record.started.is_some() {
            return Ok(());
        }
        record_start(context).await
    }

    /// Runs the tool until it returns, or until it was asked to stop and a grace has passed.
    async fn supervise(&self, context: &Arc<RunContext>, asks_first: bool) -> Returned {
        let tool = AssertUnwindSafe(self.call_tool(context.clone(), asks_first)).catch_unwind();
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
            () = self.live.handover.left() => return Returned::Left,
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
    async fn call_tool(&self, context: Arc<RunContext>, asks_first: bool) -> Returned {
        let returned = self.attempt(context.clone(), asks_first).await;
        let Some(edit) = context.edit.lock().take() else {
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
        context.withdraw_earlier("the input of the call was replaced").await;
        let record = CallRecord {
            input_json: edit.input_json,
            input_digest: edit.input_digest,
            original: Some(InputEdit {
                input_json: self.record.input_json.clone(),
                input_digest: self.record.input_digest.clone(),
                title: self.record.title.clone(),
                summary: self.record.summary.clone(),
            }),
            title: edit.title,
            summary: edit.summary,
            ..self.record.clone()
        };
        if let Some(problem) = self.misfit(&record) {
            return Returned::Error(ToolError::Failed(problem));
        }
        self.attempt(Arc::new(context.with_edit(record)), asks_first).await
    }

    /// Says what is wrong with an input that was stored with a reply: the tool may be another one since then.
    fn misfit(&self, record: &CallRecord) -> Option<String> {
        if input::digest_with(&record.input_json, &record.origin) != record.input_digest {
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

    async fn attempt(&self, context: Arc<RunContext>, asks_first: bool) -> Returned {
        let is_edited = context.record.input_digest != self.record.input_digest;
        let input: Value = match self
            .written
            .clone()
            .filter(|_| !is_edited)
            .map_or_else(|| serde_json::from_str(&context.record.input_json), Ok)
        {
            Ok(input) => input,
            Err(error) => return Returned::Error(ToolError::Internal(Box::new(error))),
        };
        if asks_first {
            if let Err(refusal) = context.ask(self.loop_question(&input)).await {
                return Returned::DoomLoop(refusal);
            }
            if let Err(returned) = record_start(&context).await {
                return returned;
            }
        }
        let ctx = context.tool_context(self.workspace.clone(), self.live.stopping().clone());
        let _part = self.live.part("run");
        match self.entry.tool.call(input, &ctx).await {
            Ok(output) => Returned::Output(output),
            Err(error) => Returned::Error(error),
        }
    }

    /// Returns whether the tool has handed its result to the hooks itself.
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
async fn record_start(context: &RunContext) -> Result<(), Returned> {
    match context.tell(|stored| Command::Running { stored }).await {
        Some(true) => Ok(()),
        Some(false) | None => Err(Returned::Error(ToolError::Internal(
            "it could not be recorded that the call starts".into(),
        ))),
    }
}
