//! What of a call's log is on its way to the store.
//!
//! *Invariant:* one append of a call is under way at most. It has all events that were there when it began; what comes meanwhile goes with
//! the next one. An event is shown when it is stored, and not before. What was tried is tried again unchanged and first: the store may
//! have it.
//!
//! *Invariant:* the first append of a call that runs before it is recorded creates it. If it cannot be created it has no log, and whoever
//! admits it says why.
//!
//! *Invariant:* what a call holds while the store is away does not grow with what it prints. Its events have no bytes: readers find them in
//! the stored output. Output that waits to be announced is one number for 64 KiB, and of metadata one patch waits. Other events are
//! few: beyond a bound the call gets no more output in.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use toolgate_model::{CallEvent, CallRecord, EventKind, Timestamp};
use toolgate_store::{Created, StoreError};

use super::CallLog;
use super::event::LoggedEvent;
use crate::live::LiveCall;

/// Once an append has taken so long, what it tells of is not fresh any more: readers can as well read the bytes back.
const LATE: Duration = Duration::from_millis(250);

/// How long after an append that failed the same is tried again, if nobody waits for it.
const RETRY: Duration = Duration::from_secs(1);

/// Events besides outputs that may wait for a log that cannot be written, before the call gets no more output in.
const MAX_UNSTORED: usize = 1024;

/// How often, and how far apart, storing the end of a call is tried.
const END_ATTEMPTS: usize = 10;
const END_RETRY: Duration = Duration::from_millis(200);

/// How long it is tried while the service stops.
const CLOSING_PATIENCE: Duration = Duration::from_secs(5);

/// How far apart the attempts are when the end has been shown all the same.
const LATER: Duration = Duration::from_secs(5);

type Answer = Pin<Box<dyn Future<Output = Result<Created, StoreError>> + Send>>;

/// A call that runs before it is recorded.
pub(crate) struct Creation {
    /// Its first events, which are shown when they are stored.
    pub(crate) events: Vec<CallEvent>,
    /// When it is recorded at the latest.
    pub(crate) due: Instant,
    /// Hears what became of it.
    pub(crate) told: oneshot::Sender<Result<Created, StoreError>>,
}

/// How the record of a call came into being, or is to.
enum Record {
    There,
    /// With the next append, at that moment at the latest.
    Due(Instant, oneshot::Sender<Result<Created, StoreError>>),
    /// It could not be made.
    None,
}

/// The events of one call that the store has not.
pub(super) struct Appends {
    log: Arc<CallLog>,
    call: Arc<LiveCall>,
    record: Record,
    /// In their order. The first ones are under way, or were tried.
    unstored: Vec<LoggedEvent>,
    /// How many of them are no output.
    others: usize,
    under_way: Option<UnderWay>,
    /// Who waits for what comes with the next append: each hears whether it is stored.
    waiting: Vec<oneshot::Sender<bool>>,
    /// When the last append failed.
    failed: Option<Instant>,
    is_late: bool,
}

struct UnderWay {
    answer: Answer,
    begun: Instant,
    /// The call, as it is when this is stored.
    record: CallRecord,
    /// How many of the unstored events.
    count: usize,
    waiting: Vec<oneshot::Sender<bool>>,
}

impl Appends {
    pub(super) fn new(log: Arc<CallLog>, call: Arc<LiveCall>) -> Self {
        Self {
            log,
            call,
            record: Record::There,
            unstored: Vec::new(),
            others: 0,
            under_way: None,
            waiting: Vec::new(),
            failed: None,
            is_late: false,
        }
    }

    /// Has the first append create the call.
    pub(super) fn create(&mut self, creation: Creation) {
        self.record = Record::Due(creation.due, creation.told);
        self.others = creation.events.len();
        let logged = creation.events.into_iter().map(|event| LoggedEvent {
            event: Arc::new(event),
            data: None,
        });
        self.unstored = logged.collect();
    }

    /// When the call is to be recorded, if it is not.
    pub(super) fn is_due(&self) -> Option<Instant> {
        match self.record {
            Record::Due(due, _) => Some(due),
            Record::There | Record::None => None,
        }
    }

    /// Says whether the call could not be recorded: then nothing of it is stored or shown.
    pub(super) fn has_no_call(&self) -> bool {
        matches!(self.record, Record::None)
    }

    /// Says whether the call is recorded, once that is known.
    pub(super) fn tell_recorded(&mut self, record: &CallRecord, stored: oneshot::Sender<bool>) {
        match (&self.record, &mut self.under_way) {
            (Record::There, _) => drop(stored.send(true)),
            (Record::None, _) => drop(stored.send(false)),
            (Record::Due(..), Some(under_way)) => under_way.waiting.push(stored),
            (Record::Due(..), None) => {
                self.waiting.push(stored);
                self.begin(record);
            }
        }
    }

    /// Numbers an event, which goes with the next append.
    pub(super) fn push(&mut self, record: &mut CallRecord, kind: EventKind, data: Option<Bytes>) {
        record.last_sequence += 1;
        self.others += usize::from(!is_output(&kind));
        let event = CallEvent {
            sequence: record.last_sequence,
            time: record.ended.unwrap_or_else(Timestamp::now),
            kind,
        };
        self.unstored.push(LoggedEvent {
            event: Arc::new(event),
            data: data.filter(|_| !self.is_late),
        });
    }

    /// Says whether the next append stores what was pushed.
    pub(super) fn tell(&mut self, stored: oneshot::Sender<bool>) {
        self.waiting.push(stored);
    }

    /// Begins to store all events that there are, unless an append is under way.
    pub(super) fn begin(&mut self, record: &CallRecord) {
        if self.under_way.is_some() || self.unstored.is_empty() || self.has_no_call() {
            return;
        }
        let log = self.log.clone();
        let (stored, events) = (record.clone(), self.events());
        let is_new = self.is_due().is_some();
        self.under_way = Some(UnderWay {
            answer: Box::pin(async move {
                match is_new {
                    true => log.store.create_call(stored, events).await,
                    false => log.store.append(stored, events).await.map(|()| Created::New),
                }
            }),
            begun: Instant::now(),
            record: record.clone(),
            count: self.unstored.len(),
            waiting: std::mem::take(&mut self.waiting),
        });
    }

    fn events(&self) -> Vec<CallEvent> {
        self.unstored.iter().map(|logged| (*logged.event).clone()).collect()
    }

    /// Waits for the append under way, shows what it has stored, and returns whether that went well; never returns if there is none.
    /// Whoever is dropped here has missed nothing.
    pub(super) async fn stored(&mut self) -> bool {
        let Some(under_way) = &mut self.under_way else {
            return std::future::pending().await;
        };
        let answer = (&mut under_way.answer).await;
        let Some(done) = self.under_way.take() else {
            return false;
        };
        let is_stored = matches!(answer, Ok(Created::New));
        if is_stored {
            let events: Vec<LoggedEvent> = self.unstored.drain(..done.count).collect();
            self.others = self.unstored.iter().filter(|one| !is_output(&one.event.kind)).count();
            self.call.publish(done.record, events);
            (self.failed, self.is_late) = (None, false);
        }
        if let Record::Due(_, told) = std::mem::replace(&mut self.record, Record::There) {
            if !is_stored {
                self.record = Record::None;
            }
            // Whoever admits the call says what is wrong.
            let _ = told.send(answer);
        } else if let Err(error) = answer {
            self.complain("the log of a call could not be written", &error);
            self.failed = Some(Instant::now());
            self.let_go();
        }
        for waiting in done.waiting {
            // A tool that was dropped does not want to know.
            let _ = waiting.send(is_stored);
        }
        is_stored
    }

    /// As [`Self::stored`], for a moment at most: what comes while the store is quick is gathered in memory, and that is bounded.
    pub(super) async fn stored_soon(&mut self) {
        if let Some(under_way) = &self.under_way
            && !self.is_late
        {
            let soon = under_way.begun + LATE;
            let _ = timeout_at(soon, self.stored()).await;
        }
    }

    /// Says whether an append is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Says whether somebody waits for events that are not under way.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When what failed is tried again; none if nothing failed.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.failed.map(|failed| failed + RETRY)
    }

    /// Says whether the log takes no more output in.
    pub(super) fn are_too_many(&self) -> bool {
        self.others > MAX_UNSTORED
    }

    /// Says whether the store takes its time, so that no bytes are to be held for readers. Those of the events are let go then.
    pub(super) fn is_late(&mut self) -> bool {
        let takes_long = |under_way: &UnderWay| under_way.begun.elapsed() >= LATE;
        if !self.is_late && self.under_way.as_ref().is_some_and(takes_long) {
            self.let_go();
        }
        self.is_late
    }

    fn let_go(&mut self) {
        self.is_late = true;
        self.unstored.iter_mut().for_each(|logged| logged.data = None);
    }

    /// Stores all events of a call with its end; false if they are not stored. That is tried again.
    pub(super) async fn end(&mut self, record: &CallRecord) -> bool {
        let (closing, begun) = (self.log.closing.clone(), Instant::now());
        for attempt in 1..=END_ATTEMPTS {
            if self.has_no_call() {
                return false;
            }
            self.begin(record);
            if self.stored().await {
                return true;
            }
            if closing.is_cancelled() && begun.elapsed() >= CLOSING_PATIENCE {
                break;
            }
            if attempt < END_ATTEMPTS && !self.has_no_call() {
                sleep(END_RETRY).await;
            }
        }
        self.end_later(record).await
    }

    /// Goes on trying to store an end that the store does not take until the service stops. It is shown all the same, because a client
    /// waits for it; not where others may say how the call ended, though: what a client was told must stay so.
    async fn end_later(&mut self, record: &CallRecord) -> bool {
        let is_shown = !self.log.store.tells_others();
        if is_shown {
            self.call.publish(record.clone(), self.unstored.clone());
        }
        let closing = self.log.closing.clone();
        while closing.run_until_cancelled(sleep(LATER)).await.is_some() {
            match self.log.store.append(record.clone(), self.events()).await {
                Ok(()) => {
                    if !is_shown {
                        self.call.publish(record.clone(), std::mem::take(&mut self.unstored));
                    }
                    return true;
                }
                // Another run has the workspace, and has ended the call.
                Err(StoreError::Fenced(_)) => return false,
                Err(error) => self.complain("the end of a call could still not be written", &error),
            }
        }
        false
    }

    fn complain(&self, what: &str, error: &StoreError) {
        tracing::error!(call = %self.call.id, error = error as &dyn std::error::Error, "{what}");
    }
}

fn is_output(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Output { .. })
}
