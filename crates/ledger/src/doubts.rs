//! What nobody knows the outcome of: changes that the gateways were asked for and gave no answer about.
//!
//! *Invariant:* a doubt lasts until the same is done. Who says it again says that it is said again. A call or a prompt that its maker has
//! given up, and that may be there all the same, is ended: nobody would do anything for it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use toolgate_contract::cluster::{AppendEventsRequest, CreateCallRequest, EndPromptRequest, OpenPromptRequest};
use toolgate_model::{
    CallEvent, CallId, CallRecord, Decision, EndReason, Ending, EventKind, PromptId, PromptOutcome, PromptState,
    Timestamp,
};
use toolgate_store::{Settlement, StoreError};

use crate::gateways::Gateways;
use crate::rpc::Rpc as _;
use crate::wire;

/// How long to wait before a doubt is looked after again.
const PAUSE: Duration = Duration::from_millis(500);

/// What an end says of a call whose maker was told that it could not be stored.
const GIVEN_UP: &str =
    "This call was not started, because nobody could say whether it was stored. Nothing was done: it can be repeated.";

/// What a doubt is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Call(CallId),
    Prompt(PromptId),
}

/// Something that may be there.
#[derive(Clone)]
pub(crate) enum Doubtful {
    Call(CreateCallRequest, Box<CallRecord>),
    Prompt(OpenPromptRequest, PromptId),
}

impl Doubtful {
    fn key(&self) -> Key {
        match self {
            Self::Call(_, record) => Key::Call(record.id.clone()),
            Self::Prompt(_, id) => Key::Prompt(id.clone()),
        }
    }

    /// Makes certain what there is, and ends it.
    async fn end(self, gateways: &Gateways) -> Result<(), StoreError> {
        match self {
            Self::Call(mut creation, record) => {
                creation.say_again();
                let holding = creation.holding.clone();
                // One that another one of the same id came before is not ours to end.
                if !gateways.ask(creation).await?.taken.is_empty() || record.state.is_terminal() {
                    return Ok(());
                }
                let (record, event) = given_up(*record);
                let end = AppendEventsRequest {
                    holding,
                    record: wire::json("a call", &record)?,
                    events: wire::json("events", &[event])?,
                    again: true,
                    ..AppendEventsRequest::default()
                };
                gateways.ask(end).await.map(drop)
            }
            Self::Prompt(mut opening, prompt) => {
                opening.say_again();
                let holding = opening.holding.clone();
                gateways.ask(opening).await?;
                let settlement = Settlement {
                    prompt,
                    state: PromptState::Withdrawn,
                    decision: Decision::new(PromptOutcome::Withdrawn(GIVEN_UP.to_owned())),
                    uses: Vec::new(),
                };
                let end = EndPromptRequest {
                    holding,
                    settlement: wire::json("the end of a prompt", &settlement)?,
                };
                gateways.ask(end).await.map(drop)
            }
        }
    }
}

/// Ends a call that has done nothing.
fn given_up(mut record: CallRecord) -> (CallRecord, CallEvent) {
    let mut ending = Ending::failed(EndReason::Lost, GIVEN_UP);
    ending.title.clone_from(&record.title);
    let time = Timestamp::now();
    record.state = ending.state();
    record.ended = Some(time);
    record.waiting_on = None;
    record.ending = Some(ending.clone());
    record.last_sequence += 1;
    let event = CallEvent {
        sequence: record.last_sequence,
        time,
        kind: EventKind::Ended(Box::new(ending)),
    };
    (record, event)
}

/// All doubts of a run.
#[derive(Default)]
pub(crate) struct Doubts {
    /// Calls whose last append has no answer: also one that its caller does not wait for any more.
    appends: Mutex<HashSet<CallId>>,
    /// What was given up.
    left: Mutex<VecDeque<Doubtful>>,
    /// Held while one of these is looked after.
    working: tokio::sync::Mutex<()>,
    wake: Notify,
}

/// A change under way; if it is dropped without an answer, what it was to make is a doubt.
pub(crate) struct Doubt {
    doubts: Arc<Doubts>,
    what: Option<Doubtful>,
}

impl Doubt {
    /// Takes in what came of it.
    pub(crate) fn end<A>(mut self, answer: &Result<A, StoreError>) {
        if !matches!(answer, Err(StoreError::Unavailable(_))) {
            self.what = None;
        }
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        if let Some(what) = self.what.take() {
            self.doubts.left.lock().push_back(what);
            self.doubts.wake.notify_one();
        }
    }
}

impl Doubts {
    /// Says that an append begins, and whether what became of the last one is not known. It is not now, also if the caller goes away.
    pub(crate) fn begin_append(&self, id: &CallId) -> bool {
        !self.appends.lock().insert(id.clone())
    }

    /// Says what came of it.
    pub(crate) fn end_append<A>(&self, id: &CallId, was_doubtful: bool, answer: &Result<A, StoreError>) {
        let is_doubtful = match answer {
            Ok(_) => false,
            Err(StoreError::Unavailable(_)) => true,
            Err(_) => was_doubtful,
        };
        if !is_doubtful {
            self.appends.lock().remove(id);
        }
    }

    /// Says that something is to be made.
    pub(crate) fn begin(self: &Arc<Self>, what: Doubtful) -> Doubt {
        Doubt {
            doubts: Arc::clone(self),
            what: Some(what),
        }
    }

    /// Says whether something was given up, and may be there.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.left.lock().iter().any(|one| one.key() == *key)
    }

    /// Takes a doubt back, because its maker says the same again; false if there is none.
    pub(crate) async fn take(&self, key: &Key) -> bool {
        if !self.has(key) {
            return false;
        }
        // Whoever looks after it may just end it.
        let _working = self.working.lock().await;
        self.forget(key)
    }

    fn forget(&self, key: &Key) -> bool {
        let mut left = self.left.lock();
        let before = left.len();
        left.retain(|one| one.key() != *key);
        left.len() < before
    }

    /// Ends what was given up, for as long as it is polled.
    pub(crate) async fn look_after(&self, gateways: &Gateways) {
        loop {
            let working = self.working.lock().await;
            let next = self.left.lock().front().cloned();
            let Some(next) = next else {
                drop(working);
                self.wake.notified().await;
                continue;
            };
            let key = next.key();
            match next.end(gateways).await {
                Err(StoreError::Unavailable(_)) => {
                    drop(working);
                    sleep(PAUSE).await;
                    continue;
                }
                // Whoever has the workspace now ends it.
                Ok(()) | Err(StoreError::Fenced(_)) => {}
                Err(error) => tracing::error!(%error, ?key, "what was given up could not be ended"),
            }
            self.forget(&key);
        }
    }
}
