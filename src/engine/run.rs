//! Running an admitted call to its one end: the loop question, the tool, truncation, the terminal event.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument as _;

use super::live::{LiveCall, Recorded, lock};
use super::lossy::{self, Decoded};
use super::port::Port;
use super::registry::Entry;
use super::truncate::{self, Direction, Totals};
use super::writer::{self, Command, Finished, LogWriter};
use super::{Engine, Place, STOP_GRACE, edit, input};
use crate::call::{
    Ask, CallEvent, CallRecord, CallState, EndReason, Ending, EventKind, InputEdit, JsonMap, Outcome, OutputText,
    Timestamp, Timing, ToolOutput, Truncation, json_map,
};
use crate::permission::Refusal;
use crate::permission::agents;
use crate::permission::broker::{DOOM_LOOP, Opened, Rights};
use crate::store::{OutputInfo, OutputOwner, StoreError};
use crate::tool::{CallContext, CallPort as _, ToolError, invalid_arguments};
use crate::workspace::Workspace;

/// What an ended call tells the model when somebody stopped it.
const ABORTED: &str = "Tool execution aborted";

/// Which end of a long output the model sees.
const DIRECTION: Direction = Direction::Head;

/// One run of one call.
pub(super) struct Run {
    engine: Arc<Engine>,
    workspace: Arc<Workspace>,
    truncation: truncate::Limits,
    live: Arc<LiveCall>,
    record: CallRecord,
    entry: Entry,
    rights: Rights,
}

/// How a tool came back.
enum Returned {
    Output(ToolOutput),
    Error(ToolError),
    /// It refused to go on with a third identical call.
    DoomLoop(Refusal),
    Panicked,
    /// It did not come back in the grace after it was asked to stop.
    Dropped,
}

impl Run {
    pub(super) fn new(
        engine: &Arc<Engine>,
        place: &Place,
        live: Arc<LiveCall>,
        record: CallRecord,
        entry: Entry,
        rights: Rights,
    ) -> Self {
        Self {
            engine: engine.clone(),
            workspace: place.workspace.clone(),
            truncation: place.truncation,
            live,
            record,
            entry,
            rights,
        }
    }

    /// Starts the call's tasks: its log writer, and the one that runs the tool. `asks_first` puts the loop question
    /// before the tool; `earlier` are the prompts that the call had before the service died.
    pub(super) fn spawn(self, asks_first: bool, earlier: Vec<Opened>) {
        let span = tracing::info_span!("call", id = %self.record.id, tool = %self.record.tool);
        let engine = self.engine.clone();
        let (log, commands) = mpsc::channel(writer::QUEUE);
        let log_writer = LogWriter::new(
            engine.store.clone(),
            self.live.clone(),
            self.record.clone(),
            engine.limits.max_output_bytes,
            engine.closing.clone(),
        );
        let id = self.record.id.clone();
        let owner = engine.clone();
        let writing = async move {
            log_writer.run(commands).await;
            lock(&owner.live).remove(&id);
        };
        engine.tasks.spawn(writing.instrument(span.clone()));
        engine
            .tasks
            .spawn(self.execute(log, asks_first, earlier).instrument(span));
    }

    async fn execute(self, log: mpsc::Sender<Command>, asks_first: bool, earlier: Vec<Opened>) {
        let record = Arc::new(self.record.clone());
        let port = Arc::new(Port {
            engine: self.engine.clone(),
            store: self.engine.store.clone(),
            broker: self.engine.broker.clone(),
            call: self.live.clone(),
            record: record.clone(),
            rights: self.rights.clone(),
            instance: self.engine.instance.clone(),
            log: log.clone(),
            earlier: Mutex::new(earlier),
            max_undo_bytes: self.engine.limits.max_undo_bytes,
            editable: self.entry.tool.is_editable() && self.record.original.is_none(),
            edit: Mutex::default(),
        });
        let returned = self.supervise(&port, asks_first).await;
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
        let ending = edit::tell(ending, &self.live.record());
        let _ = log
            .send(Command::End {
                ending: Box::new(ending),
            })
            .await;
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
            () = self.live.stopping().cancelled() => {}
            () = out_of_time => self.live.stop(EndReason::TimedOut),
        }
        match tokio::time::timeout(STOP_GRACE, tool).await {
            Ok(returned) => caught(returned),
            Err(_) => Returned::Dropped,
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
            | Returned::Panicked
            | Returned::Dropped => {
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
        let problem = match serde_json::from_str(&record.input_json) {
            Ok(value) => input::problems(&self.entry.validator, &value),
            Err(error) => Some(error.to_string()),
        };
        problem.map(|details| invalid_arguments(&record.tool, &details))
    }

    async fn attempt(&self, port: Arc<Port>, asks_first: bool) -> Returned {
        let input: Value = match serde_json::from_str(&port.record.input_json) {
            Ok(input) => input,
            Err(error) => return Returned::Error(ToolError::Internal(Box::new(error))),
        };
        if asks_first {
            if let Err(refusal) = port.ask(self.loop_question(&input)).await {
                return Returned::DoomLoop(refusal);
            }
            let _ = port.log.send(Command::Running { title: String::new() }).await;
        }
        let origin = Arc::new(self.record.origin.clone());
        let stopping = self.live.stopping().clone();
        let ctx = CallContext::new(self.record.id.clone(), origin, self.workspace.clone(), stopping, port);
        match self.entry.tool.call(input, &ctx).await {
            Ok(output) => Returned::Output(output),
            Err(error) => Returned::Error(error),
        }
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

    async fn ending(&self, returned: Returned, finished: Finished) -> Ending {
        let Finished {
            output: stored,
            output_lost,
            title,
            mut metadata,
            ..
        } = finished;
        let timing = self.timing();
        let failed = |outcome: Outcome, mut metadata: JsonMap| {
            if self.live.stop_reason().is_some() {
                metadata.insert("interrupted".to_owned(), json!(true));
            }
            let truncation = stored.as_ref().map_or_else(Truncation::default, describe);
            Ending {
                outcome,
                title: title.clone(),
                metadata,
                attachments: Vec::new(),
                truncation,
                timing,
            }
        };
        match returned {
            Returned::Output(output) if output_lost && output.output == OutputText::Stored => {
                failed(internal(), metadata)
            }
            Returned::Output(output) => {
                writer::merge(&mut metadata, output.metadata);
                let (text, truncation) = self.truncate(output.output, stored, &mut metadata).await;
                Ending {
                    outcome: Outcome::Completed { output: text },
                    title: output.title,
                    metadata,
                    attachments: output.attachments,
                    truncation,
                    timing,
                }
            }
            Returned::Error(ToolError::Quota(text)) if self.live.stop_reason().is_none() => {
                failed_by_quota(text, stored.as_ref(), failed, metadata)
            }
            Returned::Error(error) => failed(self.explain(error), metadata),
            Returned::DoomLoop(refusal) => failed(self.explain_loop(refusal), metadata),
            Returned::Dropped => failed(self.stopped(), metadata),
            Returned::Panicked => {
                tracing::error!("the tool panicked");
                failed(internal(), metadata)
            }
        }
    }

    fn timing(&self) -> Timing {
        let (ran, waited) = self.live.clock.read();
        let record = self.live.record();
        let queued = record
            .started
            .map_or(Duration::ZERO, |started| started.since(record.created));
        Timing { queued, waited, ran }
    }

    fn explain(&self, error: ToolError) -> Outcome {
        let failed = |reason, error: String| Outcome::Failed { reason, error };
        match error {
            ToolError::Refused(refusal) => self.explain_refusal(refusal),
            ToolError::Cancelled => self.stopped(),
            ToolError::Failed(_) | ToolError::Quota(_) | ToolError::Child { .. }
                if self.live.stop_reason().is_some() =>
            {
                self.stopped()
            }
            ToolError::Failed(text) => failed(EndReason::ToolError, text),
            ToolError::Quota(text) => failed(EndReason::Quota, text),
            ToolError::Child { reason, error } => failed(reason, error),
            ToolError::Internal(cause) => {
                tracing::error!(
                    error = &*cause as &dyn std::error::Error,
                    "the tool failed by a fault of the service"
                );
                internal()
            }
        }
    }

    fn explain_refusal(&self, refusal: Refusal) -> Outcome {
        let reason = match &refusal {
            Refusal::Denied { .. } => EndReason::Denied,
            Refusal::Rejected | Refusal::Corrected { .. } | Refusal::Dismissed { .. } => EndReason::Rejected,
            Refusal::Expired | Refusal::Unattended => EndReason::PromptExpired,
            Refusal::Withdrawn => return self.stopped(),
            Refusal::Unavailable | Refusal::Edited => EndReason::Internal,
        };
        Outcome::Failed {
            reason,
            error: refusal.to_string(),
        }
    }

    fn explain_loop(&self, refusal: Refusal) -> Outcome {
        match self.explain_refusal(refusal) {
            Outcome::Failed {
                reason: EndReason::Denied | EndReason::Rejected,
                error,
            } => Outcome::Failed {
                reason: EndReason::DoomLoop,
                error,
            },
            outcome @ (Outcome::Completed { .. } | Outcome::Failed { .. }) => outcome,
        }
    }

    /// The end of a call that somebody stopped.
    fn stopped(&self) -> Outcome {
        let reason = self.live.stop_reason().unwrap_or(EndReason::Cancelled);
        let error = match reason {
            EndReason::TimedOut => {
                let limit = self.record.timeout.unwrap_or_default();
                format!("{ABORTED}: it ran longer than the {limit:?} that it was given")
            }
            EndReason::Drained => format!("{ABORTED}: the service is stopping"),
            EndReason::Cancelled
            | EndReason::InvalidArguments
            | EndReason::Denied
            | EndReason::Rejected
            | EndReason::PromptExpired
            | EndReason::ToolError
            | EndReason::DoomLoop
            | EndReason::Quota
            | EndReason::Lost
            | EndReason::Internal => ABORTED.to_owned(),
        };
        Outcome::Failed { reason, error }
    }

    /// Cuts the text for the model, unless the tool pages its own, and stores the whole of what was cut.
    async fn truncate(
        &self,
        output: OutputText,
        stored: Option<OutputInfo>,
        metadata: &mut JsonMap,
    ) -> (String, Truncation) {
        let pages_itself = metadata.contains_key("truncated");
        let (text, cut) = match output {
            OutputText::Text(text) => {
                let totals = Totals::of(text.as_bytes());
                if pages_itself || totals.fit(&self.truncation) {
                    let truncation = Truncation {
                        bytes: totals.bytes,
                        lines: totals.lines,
                        ..stored.as_ref().map(describe).unwrap_or_default()
                    };
                    (text, truncation)
                } else {
                    let whole = self.store_whole(&text).await;
                    self.cut(&text, totals, whole)
                }
            }
            OutputText::Stored => match stored {
                None => (
                    String::new(),
                    Truncation {
                        lines: 1,
                        ..Truncation::default()
                    },
                ),
                Some(info) => self.cut_stored(info, metadata).await,
            },
        };
        if !pages_itself {
            metadata.insert("truncated".to_owned(), json!(cut.truncated));
            if let (true, Some(path)) = (cut.truncated, &cut.path) {
                metadata.insert("outputPath".to_owned(), json!(path));
            }
        }
        (text, cut)
    }

    async fn cut_stored(&self, info: OutputInfo, metadata: &mut JsonMap) -> (String, Truncation) {
        let totals = Totals {
            bytes: info.bytes,
            lines: info.lines,
        };
        let window = match self
            .engine
            .store
            .read(&info.id, 0, truncate::window_bytes(&self.truncation))
            .await
        {
            Ok(window) => window,
            Err(error) => {
                tracing::error!(output = %info.id, error = &error as &dyn std::error::Error, "an output could not be read back");
                let text = format!("The output could not be read back; it is kept in {}.", info.path);
                return (text, describe(&info));
            }
        };
        // What is not UTF-8 grows when it is replaced, so the text may be over the limit though the bytes are not.
        let decoded = Decoded::new(&window);
        let shown = Totals {
            bytes: totals.bytes.max(decoded.text.len() as u64),
            lines: totals.lines,
        };
        let fits = shown.fit(&self.truncation);
        let kept = if fits {
            decoded.text.len()
        } else {
            self.preview(&decoded.text, shown).kept.len()
        };
        let replaced = decoded.replaced_in(kept);
        if replaced > 0 {
            metadata.insert(lossy::KEY.to_owned(), lossy::label(replaced));
        }
        if fits {
            return (decoded.text, describe(&info));
        }
        self.cut(&decoded.text, shown, Ok(info))
    }

    fn preview<'a>(&self, window: &'a str, totals: Totals) -> truncate::Preview<'a> {
        truncate::preview(window.as_bytes(), totals, &self.truncation, DIRECTION)
    }

    fn cut(&self, window: &str, totals: Totals, whole: Result<OutputInfo, StoreError>) -> (String, Truncation) {
        let preview = self.preview(window, totals);
        let may_delegate = self.rights.layers().all(agents::may_use_task);
        match whole {
            Ok(info) => {
                let text = truncate::render(&preview, DIRECTION, &info.path, may_delegate);
                (
                    text,
                    Truncation {
                        truncated: true,
                        ..describe(&info)
                    },
                )
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a long output could not be stored"
                );
                let kept = String::from_utf8_lossy(preview.kept);
                let text =
                    format!("{kept}\n\nThe rest of the output is lost, because it could not be stored: {error}.");
                let lost = Truncation {
                    truncated: true,
                    bytes: totals.bytes,
                    lines: totals.lines,
                    ..Default::default()
                };
                (text, lost)
            }
        }
    }

    async fn store_whole(&self, text: &str) -> Result<OutputInfo, StoreError> {
        let owner = OutputOwner {
            call: self.record.id.clone(),
            session: self.record.origin.session.clone(),
            workspace: self.record.origin.workspace.clone(),
        };
        let mut writer = self.engine.store.create_output(owner).await?;
        writer.append(Bytes::copy_from_slice(text.as_bytes())).await?;
        writer.finish().await
    }
}

/// Makes the end of a call whose output did not find room: what did is kept, and the model is told where.
fn failed_by_quota(
    mut error: String,
    stored: Option<&OutputInfo>,
    failed: impl FnOnce(Outcome, JsonMap) -> Ending,
    mut metadata: JsonMap,
) -> Ending {
    let kept = stored.map_or(0, |info| info.bytes);
    if let Some(info) = stored {
        error += &format!(
            " The first {kept} bytes are kept in {}: look there with Grep or Read before you run it again, with less \
             output.",
            info.path
        );
        metadata.insert("outputPath".to_owned(), json!(info.path));
    }
    metadata.insert("quota".to_owned(), json!({ "kept_bytes": kept }));
    let reason = EndReason::Quota;
    let mut ending = failed(Outcome::Failed { reason, error }, metadata);
    ending.truncation.truncated = true;
    ending
}

fn describe(info: &OutputInfo) -> Truncation {
    Truncation {
        truncated: false,
        output: Some(info.id.clone()),
        path: Some(info.path.clone()),
        bytes: info.bytes,
        lines: info.lines,
    }
}

fn internal() -> Outcome {
    Outcome::Failed {
        reason: EndReason::Internal,
        error: "internal error".to_owned(),
    }
}

/// Makes the end of a call that a fault of the service ended.
pub(super) fn internal_ending() -> Ending {
    Ending::failed(EndReason::Internal, "internal error")
}

/// Makes the event that the tool of a call starts.
pub(super) fn running(record: &CallRecord, title: String) -> EventKind {
    EventKind::Running {
        input_json: record.input_json.clone(),
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
