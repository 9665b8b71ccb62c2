//! The one task that writes a call's log.
//!
//! *Invariant:* every event passes here, is stored first and shown second, and exactly one of them is the end. The
//! writer knows nothing of tools; it is fed by a bounded channel, and whoever feeds it waits when it is full. Output is
//! taken as fast as it can be stored here, however long events take: see `appends.rs`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use toolgate_model::{
    CallId, CallRecord, CallState, Decision, Ending, EventKind, InputEdit, JsonMap, ListeningPort, Prompt, PromptId,
    PromptOutcome, Reply, Timestamp, WarningKind,
};
use toolgate_store::{OutputInfo, OutputOwner, OutputWriter, StoreError};

use super::CallLog;
use super::appends::{Appends, Creation};
use super::batch::{OUTPUT_BATCH, Output, whole_characters};
use super::event::{merge, running_event};
use crate::live::LiveCall;
use crate::{metrics, outcome};

/// Commands that may wait for the writer; a feeder beyond that waits itself.
pub(crate) const QUEUE: usize = 32;

/// Bytes of metadata that a call may show before its end.
const MAX_METADATA: usize = 1024 * 1024;

/// Metadata is announced at most this often.
const METADATA_EVERY: Duration = Duration::from_millis(100);

/// How long metadata waits for what else there is to announce: most calls that are quick have one append less by that.
const METADATA_SOON: Duration = Duration::from_millis(25);

/// When the store is full, pieces are made smaller down to this, so that the beginning is kept as far as there is room.
const SMALLEST_PIECE: usize = 4 * 1024;

/// What the other tasks of a call ask of its log writer.
pub(crate) enum Command {
    /// The tool starts; answered with whether that is durable: what is recorded as not started has done nothing.
    Running { stored: oneshot::Sender<bool> },
    /// Title or metadata changed.
    Metadata { title: Option<String>, patch: JsonMap },
    /// Output to store; answered once it is stored.
    Output {
        bytes: Bytes,
        stored: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Output is expected: answered with the path of what there is of it, or will be.
    OpenOutput {
        opened: oneshot::Sender<Result<String, StoreError>>,
    },
    /// The call made another one.
    Child { call: CallId, tool: String },
    /// The call waits; answered with whether that is durable.
    Waiting {
        prompt: Box<Prompt>,
        stored: oneshot::Sender<bool>,
    },
    /// The call goes on; answered with whether that is durable: nothing may act on a reply that is not recorded.
    Resumed {
        prompt: PromptId,
        decision: Box<Decision>,
        stored: oneshot::Sender<bool>,
    },
    /// A program of the call began or ceased to listen on a port.
    Listening { ports: Vec<ListeningPort> },
    /// Something is to be stored that belongs to the call; answered with whether the call itself is.
    Recorded { stored: oneshot::Sender<bool> },
    /// Something a person should know.
    Warning { kind: WarningKind, text: String },
    /// No more output comes: answered with the output, if there was any, and all metadata so far.
    Finish { done: oneshot::Sender<Finished> },
    /// The end; the writer stops.
    End { ending: Box<Ending> },
    /// The next run of the service goes on from what is stored; the writer stops.
    Leave,
}

/// What the writer gathered by the time the tool is done.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// The stored output, if there is one.
    pub(crate) output: Option<OutputInfo>,
    /// There is one, and it could not be finished.
    pub(crate) output_lost: bool,
    pub(crate) title: String,
    pub(crate) metadata: JsonMap,
}

/// Metadata that waits to be announced.
struct PendingPatch {
    title: Option<String>,
    patch: JsonMap,
    since: Instant,
}

/// Writes the log of one call.
pub(crate) struct LogWriter {
    log: Arc<CallLog>,
    call: Arc<LiveCall>,
    record: CallRecord,
    output: Output,
    metadata: JsonMap,
    /// At most so many bytes the metadata has.
    metadata_bytes: usize,
    metadata_is_full: bool,
    pending_patch: Option<PendingPatch>,
    last_metadata: Option<Instant>,
    open_prompts: Vec<PromptId>,
    appends: Appends,
}

impl LogWriter {
    pub(crate) fn new(log: Arc<CallLog>, call: Arc<LiveCall>, record: CallRecord) -> Self {
        Self {
            output: Output::without_secrets(log.redactor.stream()),
            appends: Appends::new(log.clone(), call.clone()),
            log,
            call,
            record,
            metadata: JsonMap::new(),
            metadata_bytes: 0,
            metadata_is_full: false,
            pending_patch: None,
            last_metadata: None,
            open_prompts: Vec::new(),
        }
    }

    /// Has the call recorded with what is written first.
    pub(crate) fn creates(mut self, creation: Creation) -> Self {
        self.appends.create(creation);
        self
    }

    /// Says whether there is no such call, because it could not be recorded.
    pub(crate) fn has_no_call(&self) -> bool {
        self.appends.has_no_call()
    }

    /// Writes until the end, or until more than `most` bytes of output are stored; true after the end, or if there is no such call. If
    /// the feeders go away without one, a fault of the service is the end.
    pub(crate) async fn run(&mut self, commands: &mut mpsc::Receiver<Command>, most: u64) -> bool {
        while self.output.stored <= most {
            if self.has_no_call() {
                return true;
            }
            let deadline = self.next_deadline();
            let command = tokio::select! {
                biased;
                _ = self.appends.stored() => {
                    self.go_on();
                    continue;
                }
                command = commands.recv() => command,
                () = until(deadline) => {
                    self.flush_due();
                    continue;
                }
            };
            let Some(command) = command else {
                // A runtime that ends drops its tasks one after another. Then this one comes no further, and the call is
                // one that was lost, not one that failed.
                tokio::task::yield_now().await;
                tracing::error!(call = %self.record.id, "the task that ran a call is gone without an end");
                self.end(Box::new(outcome::internal_ending())).await;
                return true;
            };
            if self.handle(command).await {
                return true;
            }
        }
        false
    }

    /// Handles a command; true after the end.
    async fn handle(&mut self, command: Command) -> bool {
        match command {
            Command::Running { stored } => {
                self.record.started = Some(Timestamp::now());
                self.record.state = CallState::Running;
                let running = running_event(&self.record, &self.log.redactor);
                self.append_for(running, stored);
            }
            Command::Metadata { title, patch } => self.metadata(title, patch),
            Command::Output { bytes, stored } => {
                let result = self.store_output(bytes).await;
                // The tool may be gone; its bytes are stored all the same.
                let _ = stored.send(result);
                self.flush_due();
                if self.output.batch.len() >= OUTPUT_BATCH {
                    self.appends.stored_soon().await;
                    self.go_on();
                }
                self.let_readers_follow().await;
            }
            Command::OpenOutput { opened } => {
                let result = self.output_writer().await.map(|writer| writer.path().to_owned());
                let _ = opened.send(result);
            }
            Command::Child { call, tool } => {
                self.append(EventKind::Child { call, tool });
            }
            Command::Listening { mut ports } => {
                self.log.redact_ports(&mut ports);
                self.append(EventKind::Listening { ports });
            }
            Command::Waiting { prompt, stored } => {
                self.flush();
                self.open_prompts.push(prompt.id.clone());
                self.record.state = CallState::Waiting;
                self.record.waiting_on = Some(prompt.id.clone());
                self.append_for(EventKind::Waiting { prompt }, stored);
            }
            Command::Resumed {
                prompt,
                decision,
                stored,
            } => {
                self.open_prompts.retain(|open| *open != prompt);
                self.record.waiting_on = self.open_prompts.last().cloned();
                let running = if self.record.started.is_some() {
                    CallState::Running
                } else {
                    CallState::Pending
                };
                self.record.state = if self.open_prompts.is_empty() {
                    running
                } else {
                    CallState::Waiting
                };
                if let PromptOutcome::Replied(Reply::Instead(edit)) = &decision.outcome {
                    self.replace_input(edit.clone());
                }
                self.append_for(EventKind::Resumed { prompt, decision }, stored);
            }
            Command::Recorded { stored } => self.appends.tell_recorded(&self.record, stored),
            Command::Warning { kind, mut text } => {
                self.log.redactor.string(&mut text);
                self.append(EventKind::Warning { kind, text });
            }
            Command::Finish { done } => {
                // What waits to be announced goes with the end, if that comes soon.
                self.store_held_back().await;
                let finished = self.finish().await;
                let _ = done.send(finished);
            }
            Command::End { ending } => {
                self.end(ending).await;
                return true;
            }
            Command::Leave => {
                self.settle().await;
                self.call.hand_over();
                return true;
            }
        }
        false
    }

    /// Puts the input that a person wrote in the place of the call's, and keeps that.
    fn replace_input(&mut self, edit: InputEdit) {
        let admitted = InputEdit {
            input_json: std::mem::replace(&mut self.record.input_json, edit.input_json),
            input_digest: std::mem::replace(&mut self.record.input_digest, edit.input_digest),
            title: std::mem::replace(&mut self.record.title, edit.title),
            summary: std::mem::replace(&mut self.record.summary, edit.summary),
        };
        self.record.original.get_or_insert(admitted);
    }

    fn metadata(&mut self, mut title: Option<String>, mut patch: JsonMap) {
        self.log.redactor.map(&mut patch);
        if let Some(title) = &mut title {
            self.log.redactor.string(title);
        }
        if !self.take_metadata(&patch) {
            patch.clear();
            self.tell_metadata_is_full();
        }
        if let Some(title) = &title {
            self.record.title.clone_from(title);
        }
        let pending = self.pending_patch.get_or_insert_with(|| PendingPatch {
            title: None,
            patch: JsonMap::new(),
            since: Instant::now(),
        });
        if title.is_some() {
            pending.title = title;
        }
        // A null in the patch must reach the readers, so this does not clear.
        pending.patch.extend(patch);
        self.flush_due();
    }

    /// Merges a patch into what the call has shown; false if that would be too much.
    fn take_metadata(&mut self, patch: &JsonMap) -> bool {
        self.metadata_bytes += size_of(patch);
        if self.metadata_bytes > MAX_METADATA {
            // Most patches replace what is there.
            let mut merged = self.metadata.clone();
            merge(&mut merged, patch.clone());
            let size = size_of(&merged);
            if size > MAX_METADATA {
                self.metadata_bytes = size_of(&self.metadata);
                return false;
            }
            (self.metadata, self.metadata_bytes) = (merged, size);
        } else {
            merge(&mut self.metadata, patch.clone());
        }
        true
    }

    fn tell_metadata_is_full(&mut self) {
        if !std::mem::replace(&mut self.metadata_is_full, true) {
            let kind = WarningKind::MetadataLeftOut;
            let text = format!("What would make the metadata larger than {MAX_METADATA} bytes is left out.");
            self.appends
                .push(&mut self.record, EventKind::Warning { kind, text }, None);
            self.appends.begin(&self.record);
        }
    }

    /// Stores output without its secrets.
    async fn store_output(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let shown = match &mut self.output.redaction {
            None => bytes,
            Some(redaction) => redaction.push(&bytes).into(),
        };
        self.store_redacted(shown).await
    }

    /// Stores what was held back because it could have become a secret, at the end of the output.
    async fn store_held_back(&mut self) {
        let Some(redaction) = &mut self.output.redaction else {
            return;
        };
        let rest = redaction.finish().into();
        if let Err(error) = self.store_redacted(rest).await {
            self.complain("the last of an output could not be stored", &error);
        }
    }

    /// Stores output, as far as there is room: what fits is kept, and the error says why the rest is not.
    async fn store_redacted(&mut self, mut bytes: Bytes) -> Result<(), StoreError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.appends.are_too_many() {
            return Err(StoreError::Full("the log of the call cannot be written".to_owned()));
        }
        let room = usize::try_from(self.log.max_output_bytes - self.output.stored).unwrap_or(usize::MAX);
        let is_too_much = bytes.len() > room;
        bytes.truncate(whole_characters(&bytes, room));
        let mut size = bytes.len();
        while !bytes.is_empty() {
            let piece = bytes.slice(..whole_characters(&bytes, size));
            match self.store_piece(piece.clone()).await {
                Ok(()) => bytes.advance(piece.len()),
                Err(StoreError::Full(_)) if size > SMALLEST_PIECE => size /= 2,
                Err(error) => return Err(error),
            }
        }
        if is_too_much {
            self.log.metrics.refused("limits.max_output_bytes");
            return Err(StoreError::Full(format!(
                "one call may write {} bytes of output (limits.max_output_bytes)",
                self.log.max_output_bytes
            )));
        }
        Ok(())
    }

    async fn store_piece(&mut self, piece: Bytes) -> Result<(), StoreError> {
        self.output_writer().await?.append(piece.clone()).await?;
        self.output.stored += piece.len() as u64;
        let end = self.output.stored;
        self.call.program.draw(&piece, end, self.call.stopping()).await;
        self.log.metrics.output_stored(piece.len() as u64);
        self.output.batch.push(piece);
        if self.appends.is_late() {
            self.output.batch.let_go();
        }
        Ok(())
    }

    /// Returns the writer of the output, which comes into being with its first use.
    async fn output_writer(&mut self) -> Result<&mut Box<dyn OutputWriter>, StoreError> {
        if self.output.writer.is_none() {
            self.recorded().await?;
            let writer = self.log.store.create_output(OutputOwner::from(&self.record)).await?;
            self.output.id = Some(writer.id().clone());
            self.output.writer = Some(writer);
        }
        self.output
            .writer
            .as_mut()
            .ok_or_else(|| StoreError::Full("the output of the call cannot be opened".to_owned()))
    }

    /// Waits until the call is recorded.
    async fn recorded(&mut self) -> Result<(), StoreError> {
        while self.appends.is_due().is_some() {
            self.appends.begin(&self.record);
            self.appends.stored().await;
        }
        match self.has_no_call() {
            true => Err(StoreError::Unavailable("the call could not be recorded".to_owned())),
            false => Ok(()),
        }
    }

    /// When something that waits must be announced.
    fn next_deadline(&self) -> Option<Instant> {
        if self.appends.is_busy() {
            return None;
        }
        let now = Instant::now();
        if let Some(due) = self.appends.is_due() {
            return Some(due);
        }
        let output = (self.output.batch.len() > 0).then(|| self.output.due().unwrap_or(now));
        let metadata = self.metadata_due();
        // What comes behind what failed waits with it.
        self.appends
            .retry()
            .or_else(|| output.into_iter().chain(metadata).min())
    }

    /// When metadata is to be announced; none if none waits.
    fn metadata_due(&self) -> Option<Instant> {
        let soon = self.pending_patch.as_ref()?.since + METADATA_SOON;
        Some(self.last_metadata.map_or(soon, |last| soon.max(last + METADATA_EVERY)))
    }

    /// Begins to store what is due, unless an append is under way: then that comes with the next one.
    fn flush_due(&mut self) {
        let now = Instant::now();
        let is_early = |moment: Option<Instant>| moment.is_some_and(|moment| now < moment);
        if self.appends.is_busy() || is_early(self.appends.retry()) || is_early(self.appends.is_due()) {
            return;
        }
        let output_due = self.output.due().is_none_or(|due| now >= due) || self.output.batch.len() >= OUTPUT_BATCH;
        // The first metadata says what the output is of.
        let is_first = self.last_metadata.is_none() && output_due && self.output.batch.len() > 0;
        let metadata_due = is_first || self.metadata_due().is_some_and(|due| now >= due);
        self.flush_some(output_due, metadata_due);
        self.appends.begin(&self.record);
    }

    /// Goes on after an append.
    fn go_on(&mut self) {
        self.flush_due();
        if self.appends.is_awaited() {
            self.appends.begin(&self.record);
        }
    }

    /// Lets readers that keep up go on doing so, while what is under way is stored.
    async fn let_readers_follow(&mut self) {
        let call = self.call.clone();
        let mut follow = std::pin::pin!(call.let_readers_follow());
        loop {
            tokio::select! {
                biased;
                _ = self.appends.stored() => self.go_on(),
                () = &mut follow => return,
            }
        }
    }

    /// Makes events of all that waits to be announced.
    fn flush(&mut self) {
        self.flush_some(true, true);
        while self.output.batch.len() > 0 {
            self.flush_some(true, false);
        }
    }

    fn flush_some(&mut self, output: bool, metadata: bool) {
        if let Some(PendingPatch { title, patch, .. }) = self.pending_patch.take_if(|_| metadata) {
            self.appends
                .push(&mut self.record, EventKind::Metadata { title, patch }, None);
            self.last_metadata = Some(Instant::now());
        }
        let waits = output && self.output.batch.len() > 0;
        if let Some(output) = self.output.id.clone().filter(|_| waits) {
            let mut offset = self.output.stored - self.output.batch.len() as u64;
            for (length, data) in self.output.batch.take() {
                let (output, length) = (output.clone(), length as u64);
                let event = EventKind::Output { output, offset, length };
                self.appends.push(&mut self.record, event, data);
                offset += length;
            }
            self.output.announced();
        }
    }

    /// Waits until everything is stored that there is, or an attempt has failed. Nobody has anything to print any more.
    async fn settle(&mut self) {
        self.flush();
        self.appends.begin(&self.record);
        while self.appends.is_busy() && self.appends.stored().await {
            self.appends.begin(&self.record);
        }
    }

    async fn finish(&mut self) -> Finished {
        let mut output_lost = false;
        let output = match self.output.writer.take() {
            None => None,
            Some(writer) => match writer.finish().await {
                Ok(info) => Some(info),
                Err(error) => {
                    self.complain("the output of a call could not be finished", &error);
                    output_lost = true;
                    None
                }
            },
        };
        Finished {
            output,
            output_lost,
            title: self.record.title.clone(),
            metadata: self.metadata.clone(),
        }
    }

    async fn end(&mut self, ending: Box<Ending>) {
        if self.output.writer.is_some() {
            self.store_held_back().await;
        }
        self.flush();
        // What is under way has the call as it was.
        if self.appends.is_busy() {
            self.appends.stored().await;
        }
        // A tool that was dropped never came to `Finish`.
        self.output.writer = None;
        self.record.state = ending.state();
        self.record.ended = Some(Timestamp::now());
        self.record.waiting_on = None;
        self.record.title.clone_from(&ending.title);
        self.record.ending = Some((*ending).clone());
        // Before anybody sees the end.
        let failure = metrics::failure(&self.record.tool, &ending);
        // One that is not recorded counts if there will be such a call.
        let is_recorded = self.appends.is_due().is_none();
        if is_recorded {
            metrics::count_end(&self.log.metrics, &self.record.tool, &ending);
        }
        tracing::info!(
            workspace = %self.record.origin.workspace,
            outcome = failure.unwrap_or("completed"),
            ran = ?ending.timing.ran,
            waited = ?ending.timing.waited,
            "the call has ended"
        );
        if let Some(trace) = self.call.trace.get() {
            trace.end(failure);
        }
        self.appends.push(&mut self.record, EventKind::Ended(ending), None);
        let is_stored = self.appends.end(&self.record).await;
        if let Some(ending) = self.record.ending.as_ref().filter(|_| is_stored && !is_recorded) {
            metrics::count_end(&self.log.metrics, &self.record.tool, ending);
        }
    }

    /// Stores an event behind all that is waiting to be announced.
    fn append(&mut self, kind: EventKind) {
        self.flush();
        self.appends.push(&mut self.record, kind, None);
        self.appends.begin(&self.record);
    }

    /// Stores an event, and answers whether that is durable.
    fn append_for(&mut self, kind: EventKind, stored: oneshot::Sender<bool>) {
        self.appends.push(&mut self.record, kind, None);
        self.appends.tell(stored);
        self.appends.begin(&self.record);
    }

    fn complain(&self, what: &str, error: &StoreError) {
        tracing::error!(call = %self.record.id, error = error as &dyn std::error::Error, "{what}");
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn size_of(metadata: &JsonMap) -> usize {
    let sizes = metadata.iter().map(|(key, value)| key.len() + value.to_string().len());
    sizes.sum()
}
