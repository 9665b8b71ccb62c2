//! Watching a call: a cursor over its log, from any event on, by any number of readers.
//!
//! *Invariant:* a cursor only reads. However slow it is, or wherever it is dropped, the call does not notice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_model::{CallEvent, CallId, CallRecord, CallState, EventKind, OutputId, Timestamp};
use toolgate_store::{Store, StoreError};

use super::event::LoggedEvent;
use crate::drain_notice::DrainNotice;
use crate::live::{LiveCall, Progress};

/// Events that are read from the store at a time.
const BATCH: usize = 256;

/// Bytes that a reader of [`OutputMode::Tail`] may be behind.
const TAIL_BYTES: u64 = 64 * 1024;

/// How often the log of a call that another process runs is looked at.
const FOREIGN_POLL: Duration = Duration::from_millis(250);

/// How long a log is held up by output that is not there, until more of it comes.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of the running output a cursor delivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputMode {
    /// Every byte.
    #[default]
    Full,
    /// Only what is within the last 64 KiB when the cursor comes to it.
    Tail,
    /// None.
    None,
}

/// What a cursor delivers.
#[derive(Clone, Debug)]
pub enum Item {
    /// An event; with its bytes if it is output.
    Event(Arc<CallEvent>, Bytes),
    /// Events that are left out: first and last number, and their bytes of output.
    Gap {
        /// The first event left out.
        first: u64,
        /// The last event left out.
        last: u64,
        /// Bytes of output left out that are kept: what was lost with its run is told of by the end of the call.
        bytes: u64,
        /// When the last of them happened.
        time: Timestamp,
    },
    /// Nothing happened for a while, or the service begins to stop.
    Heartbeat {
        /// The number of the last event delivered or left out.
        last: u64,
        /// Where the call is.
        state: CallState,
        /// Since it was admitted.
        elapsed: Duration,
        /// The service is stopping: the stream may end without a terminal event.
        draining: bool,
    },
}

/// Why a cursor cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is no such call.
    #[error("there is no call {0}")]
    NotFound(CallId),
    /// The cursor would begin after the last event.
    #[error("the call has {last} events so far; events after {after} do not exist yet")]
    OutOfRange {
        /// Where it would begin.
        after: u64,
        /// The number of the last event.
        last: u64,
    },
    /// The store failed.
    #[error("the log could not be read")]
    Store(#[from] StoreError),
    /// The call could not be recorded, so there is nothing to watch.
    #[error("the call could not be recorded")]
    Abandoned,
    /// The service has stopped; the call has not ended.
    #[error("the service is stopping, and the call goes on when it is back")]
    Draining,
    /// The workspace of the call was suspended; the call has not ended.
    #[error("the workspace of the call is suspended, and the call goes on when it is resumed")]
    Suspended,
}

/// A reader of one call's log.
pub struct Cursor {
    store: Arc<dyn Store>,
    id: CallId,
    live: Option<(Arc<LiveCall>, watch::Receiver<Progress>)>,
    /// The record of a call that does not run here, as last seen.
    stored: Option<CallRecord>,
    batch: std::vec::IntoIter<CallEvent>,
    next: u64,
    mode: OutputMode,
    gap: Option<(u64, u64, u64, Timestamp)>,
    /// How long the output is that was last left out of the log of a call which has ended.
    kept: Option<(OutputId, u64)>,
    held: Option<LoggedEvent>,
    /// Until when output is waited for that is not there; none while all of it is.
    patience: Option<Instant>,
    heartbeat: Duration,
    ended: bool,
    draining: DrainNotice,
    over: CancellationToken,
}

/// How a log is watched.
pub(crate) struct WatchOptions {
    /// The last event that the reader has.
    pub(crate) after: u64,
    pub(crate) mode: OutputMode,
    /// The longest silence.
    pub(crate) heartbeat: Duration,
    /// Tells the reader that the service begins to stop.
    pub(crate) draining: DrainNotice,
    /// Ends the watching of calls of other processes.
    pub(crate) over: CancellationToken,
}

impl Cursor {
    /// Watches the log of a call, which may run here.
    pub(crate) async fn open(
        store: &Arc<dyn Store>,
        id: &CallId,
        live: Option<Arc<LiveCall>>,
        options: WatchOptions,
    ) -> Result<Self, WatchError> {
        let WatchOptions {
            after,
            mode,
            heartbeat,
            draining,
            over,
        } = options;
        let stored = match &live {
            Some(_) => None,
            None => Some(store.get(id).await?.ok_or_else(|| WatchError::NotFound(id.clone()))?),
        };
        let (last, ended) = match (&live, &stored) {
            (Some(live), _) => {
                let progress = *live.watch().borrow();
                (progress.last, progress.ended && !progress.left)
            }
            (None, Some(record)) => (record.last_sequence, record.state.is_terminal()),
            (None, None) => (0, true),
        };
        if after > last {
            return Err(WatchError::OutOfRange { after, last });
        }
        Ok(Self {
            store: store.clone(),
            id: id.clone(),
            live: live.map(|call| (call.clone(), call.watch())),
            stored,
            batch: Vec::new().into_iter(),
            next: after + 1,
            mode,
            gap: None,
            kept: None,
            held: None,
            patience: None,
            heartbeat,
            // A reader that has the terminal event already is at the end.
            ended: ended && after == last,
            draining,
            over,
        })
    }

    /// Returns whether the call was not understood ([`CallRecord::is_invalid`]).
    pub fn is_invalid(&self) -> bool {
        match (&self.live, &self.stored) {
            (Some((live, _)), _) => live.record().is_invalid(),
            (None, stored) => stored.as_ref().is_some_and(CallRecord::is_invalid),
        }
    }

    /// Returns the next item, or `None` after the terminal event.
    ///
    /// # Errors
    /// The log could not be read. The cursor is at its end then; a new one may begin where it stopped.
    pub async fn next(&mut self) -> Result<Option<Item>, WatchError> {
        let deadline = Instant::now() + self.heartbeat;
        loop {
            if self.ended && self.held.is_none() {
                return Ok(None);
            }
            let recorded = match self.held.take() {
                Some(recorded) => recorded,
                None if self.must_be_told() => return Ok(self.take_gap().or_else(|| self.heartbeat())),
                None => match self.advance(deadline).await? {
                    Some(recorded) => recorded,
                    // What was left out so far comes first, so that a heartbeat never names an event that was not delivered.
                    None => return Ok(self.take_gap().or_else(|| self.heartbeat())),
                },
            };
            if self.leaves_out(&recorded).await? {
                // To the client, output that it does not get is silence too.
                if Instant::now() >= deadline {
                    return Ok(self.take_gap());
                }
                continue;
            }
            if let Some(gap) = self.take_gap() {
                self.held = Some(recorded);
                return Ok(Some(gap));
            }
            match self.bytes_of(&recorded).await? {
                Some(data) => {
                    if !data.is_empty() {
                        // Where output has come, more of it is waited for anew.
                        self.patience = None;
                    }
                    return Ok(Some(Item::Event(recorded.event, data)));
                }
                None if self.output_may_come(&recorded).await? => {
                    self.held = Some(recorded);
                    if self.must_be_told() || Instant::now() >= deadline {
                        return Ok(self.heartbeat());
                    }
                    self.look_again().await?;
                }
                None => self.leave_out(&recorded).await?,
            }
        }
    }

    /// Returns whether the reader is still to be told that the service is stopping: whoever reads a log that has its end
    /// already need not know.
    fn must_be_told(&self) -> bool {
        self.draining.is_due() && !self.is_over()
    }

    fn take_gap(&mut self) -> Option<Item> {
        let (first, last, bytes, time) = self.gap.take()?;
        Some(Item::Gap {
            first,
            last,
            bytes,
            time,
        })
    }

    /// Returns the next event of the log, or nothing when `deadline` comes first.
    async fn advance(&mut self, deadline: Instant) -> Result<Option<LoggedEvent>, WatchError> {
        loop {
            if let Some(recorded) = self.at_hand() {
                self.next = recorded.event.sequence + 1;
                self.tell_progress(&recorded);
                self.ended = matches!(recorded.event.kind, EventKind::Ended(_)) || self.is_last_of_all(&recorded);
                return Ok(Some(recorded));
            }
            if self.stored_further() {
                let mut events = self.store.events(&self.id, self.next - 1, BATCH).await?;
                if let Some((_, progress)) = &self.live {
                    // What is stored but not yet published would show an end that the call's record does not have.
                    let last = progress.borrow().last;
                    events.retain(|event| event.sequence <= last);
                }
                if events.is_empty() && self.is_over() {
                    // A log that ends without its terminal event: the store lost it.
                    return Err(WatchError::Abandoned);
                }
                self.batch = events.into_iter();
                if self.batch.len() > 0 {
                    continue;
                }
            }
            if !self.wait(deadline).await? {
                return Ok(None);
            }
        }
    }

    fn tell_progress(&self, recorded: &LoggedEvent) {
        if let (Some((call, _)), EventKind::Output { offset, length, .. }) = (&self.live, &recorded.event.kind) {
            call.ring.took(offset + length);
        }
    }

    fn at_hand(&mut self) -> Option<LoggedEvent> {
        if let Some(event) = self.batch.next() {
            return Some(LoggedEvent {
                event: Arc::new(event),
                data: None,
            });
        }
        self.live.as_ref().and_then(|(call, _)| call.ring.after(self.next - 1))
    }

    fn stored_further(&self) -> bool {
        match (&self.live, &self.stored) {
            (Some((_, progress)), _) => progress.borrow().last >= self.next,
            (None, Some(record)) => record.last_sequence >= self.next,
            (None, None) => false,
        }
    }

    fn is_over(&self) -> bool {
        match (&self.live, &self.stored) {
            (Some((_, progress)), _) => {
                let progress = progress.borrow();
                progress.ended && !progress.left
            }
            (None, Some(record)) => record.state.is_terminal(),
            (None, None) => true,
        }
    }

    /// Returns whether this is the last of what an ended call has heard of after its end.
    fn is_last_of_all(&self, recorded: &LoggedEvent) -> bool {
        let is_metadata = matches!(recorded.event.kind, EventKind::Metadata { .. });
        is_metadata && self.is_over() && !self.stored_further()
    }

    /// Waits for more events; false when `deadline` comes first, or the service begins to stop.
    async fn wait(&mut self, deadline: Instant) -> Result<bool, WatchError> {
        let notice_is_due = self.draining.due();
        tokio::select! {
            biased;
            more = self.wait_for_more(deadline) => more,
            () = notice_is_due => Ok(false),
        }
    }

    async fn wait_for_more(&mut self, deadline: Instant) -> Result<bool, WatchError> {
        let Some((_, progress)) = &mut self.live else {
            return self.wait_for_foreign(deadline).await;
        };
        let next = self.next;
        let more = progress.wait_for(|progress| progress.last >= next || progress.ended);
        match tokio::time::timeout_at(deadline, more).await {
            Ok(Ok(progress)) if progress.last >= next => Ok(true),
            Ok(Ok(progress)) if progress.left && self.draining.is_stopping() => Err(WatchError::Draining),
            Ok(Ok(progress)) if progress.left => Err(WatchError::Suspended),
            Ok(_) => Err(WatchError::Abandoned),
            Err(_) => Ok(false),
        }
    }

    async fn wait_for_foreign(&mut self, deadline: Instant) -> Result<bool, WatchError> {
        if self.is_over() {
            return Err(WatchError::Abandoned);
        }
        while Instant::now() < deadline {
            self.look_again().await?;
            if self.stored_further() {
                return Ok(true);
            }
            if self.is_over() {
                return Err(WatchError::Abandoned);
            }
        }
        Ok(false)
    }

    /// Looks after a moment where a call is that another process runs.
    async fn look_again(&mut self) -> Result<(), WatchError> {
        if self.over.is_cancelled() {
            return Err(WatchError::Draining);
        }
        tokio::time::sleep(FOREIGN_POLL).await;
        self.stored = self.store.get(&self.id).await?;
        Ok(())
    }

    /// Says whether output that is not there may still come: a process elsewhere sends output and log to the store on ways of their own,
    /// and the log may be first. What is behind it is not held back for long: the store may have refused the output.
    async fn output_may_come(&mut self, recorded: &LoggedEvent) -> Result<bool, WatchError> {
        let EventKind::Output { output, .. } = &recorded.event.kind else {
            return Ok(false);
        };
        let now = Instant::now();
        if self.live.is_some() || self.is_over() || *self.patience.get_or_insert(now + PATIENCE) <= now {
            return Ok(false);
        }
        let found = self.store.look(output).await?;
        Ok(found.is_none_or(|found| !found.complete))
    }

    /// Returns whether the mode leaves this event out, and notes it in the gap then.
    async fn leaves_out(&mut self, recorded: &LoggedEvent) -> Result<bool, WatchError> {
        let EventKind::Output { offset, length, .. } = recorded.event.kind else {
            return Ok(false);
        };
        let skip = match self.mode {
            OutputMode::Full => false,
            OutputMode::None => true,
            OutputMode::Tail => self
                .written()
                .is_some_and(|total| offset + length + TAIL_BYTES <= total),
        };
        if skip {
            self.leave_out(recorded).await?;
        }
        Ok(skip)
    }

    /// Adds an event to the gap that is delivered before the next event.
    async fn leave_out(&mut self, recorded: &LoggedEvent) -> Result<(), WatchError> {
        let length = self.kept_of(recorded).await?;
        let sequence = recorded.event.sequence;
        let (_, last, bytes, time) = self.gap.get_or_insert((sequence, sequence, 0, recorded.event.time));
        (*last, *bytes, *time) = (sequence, *bytes + length, recorded.event.time);
        Ok(())
    }

    /// Returns how much is kept of the output that an event tells of. While its call goes on, all of it is, or will be.
    async fn kept_of(&mut self, recorded: &LoggedEvent) -> Result<u64, WatchError> {
        let EventKind::Output { output, offset, length } = &recorded.event.kind else {
            return Ok(0);
        };
        if self.live.is_some() || !self.is_over() {
            return Ok(*length);
        }
        let known = self.kept.take().filter(|(of, _)| of == output);
        let (of, bytes) = match known {
            Some(known) => known,
            None => {
                let found = self.store.look(output).await?;
                (output.clone(), found.map_or(0, |found| found.bytes))
            }
        };
        self.kept = Some((of, bytes));
        Ok(bytes.saturating_sub(*offset).min(*length))
    }

    /// Returns how much output the log has announced by now, where that is known without reading it all.
    fn written(&self) -> Option<u64> {
        match (&self.live, &self.stored) {
            (Some((call, _)), _) => Some(call.ring.announced()),
            (None, Some(record)) => {
                let truncation = &record.ending.as_ref()?.truncation;
                truncation.output.as_ref().map(|_| truncation.bytes)
            }
            (None, None) => None,
        }
    }

    /// Returns the bytes of an output event; none if the output is no longer kept.
    async fn bytes_of(&self, recorded: &LoggedEvent) -> Result<Option<Bytes>, WatchError> {
        let EventKind::Output { output, offset, length } = &recorded.event.kind else {
            return Ok(Some(Bytes::new()));
        };
        match &recorded.data {
            Some(data) => Ok(Some(data.clone())),
            None => Ok(self.read(output, *offset, *length).await?),
        }
    }

    async fn read(&self, output: &OutputId, offset: u64, length: u64) -> Result<Option<Bytes>, StoreError> {
        match self
            .store
            .read(output, offset, usize::try_from(length).unwrap_or(usize::MAX))
            .await
        {
            Ok(bytes) if bytes.len() as u64 == length => Ok(Some(bytes)),
            Ok(_) | Err(StoreError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn heartbeat(&mut self) -> Option<Item> {
        let record = match (&self.live, &self.stored) {
            (Some((call, _)), _) => call.record(),
            (None, Some(record)) => Arc::new(record.clone()),
            (None, None) => return None,
        };
        let elapsed = Timestamp::now().since(record.created);
        let next = self.held.as_ref().map_or(self.next, |held| held.event.sequence);
        Some(Item::Heartbeat {
            last: next - 1,
            state: record.state,
            elapsed,
            draining: self.draining.tell(),
        })
    }
}
