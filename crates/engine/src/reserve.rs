//! Taking the id of a call, before anything is done for it that takes time.
//!
//! *Invariant:* from then on the call counts, and is found by its id: whoever starts it again waits for it, and whoever
//! stops it ends what is done for it. It exists once its record is durable; a reservation that is dropped before that leaves
//! nothing behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use toolgate_model::{CallId, CallRecord, Queued};

use super::admit::Started;
use super::live::{Attached, LiveCall, lock};
use super::turns::{Above, Turn};
use super::{AdmitError, Engine};

/// The id of a call that is about to be recorded.
pub(super) struct Reservation {
    engine: Arc<Engine>,
    live: Arc<LiveCall>,
    /// None once the call is there.
    turn: Option<Turn>,
    /// From the beginning, so that another client of the same call cannot be the last one that leaves.
    _attached: Attached,
}

/// What became of the wish to have an id.
pub(super) enum Claim {
    /// It is free.
    Reserved(Reservation),
    /// The same call has it already.
    Attached(Started),
}

impl Reservation {
    pub(super) fn live(&self) -> &Arc<LiveCall> {
        &self.live
    }

    /// Returns what the call waits for before it may run, if it must.
    pub(super) fn queued(&mut self) -> Option<Queued> {
        self.turn.as_mut().and_then(Turn::queued)
    }

    /// Notes that the call has come into being. What is returned with it is to be kept until its tool is done.
    pub(super) fn keep(mut self) -> (Attached, Option<Turn>) {
        (self.live.attach(), self.turn.take())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.turn.is_none() {
            return;
        }
        self.engine.forget(&self.live.id);
        // It may have been counted as a call of its session; the store knows better.
        lock(&self.engine.recent_calls).remove(&self.live.record().origin.session_key());
        // Wakes whoever attached to it meanwhile.
        self.live.abandon();
    }
}

impl Engine {
    /// Takes the id of a call that is described as far as it is known, or attaches to the same call.
    pub(super) async fn claim(
        self: &Arc<Self>,
        record: CallRecord,
        parent: Option<&CallRecord>,
        bytes: usize,
    ) -> Result<Claim, AdmitError> {
        loop {
            if let Some(started) = self.attach_live(&record.id, &record.request_digest).await? {
                return Ok(Claim::Attached(started));
            }
            if let Some((live, turn)) = self.reserve(&record, parent, bytes)? {
                return Ok(Claim::Reserved(Reservation {
                    engine: self.clone(),
                    turn: Some(turn),
                    _attached: live.attach(),
                    live,
                }));
            }
        }
    }

    /// Attaches to a call that runs here. One that is only being recorded is waited for, since it may turn out that the
    /// id belongs to an ended call.
    pub(super) async fn attach_live(&self, id: &CallId, digest: &str) -> Result<Option<Started>, AdmitError> {
        loop {
            let Some(call) = lock(&self.live).get(id).cloned() else {
                return Ok(None);
            };
            let attached = (call.request_digest == digest).then(|| call.attach());
            if !call.recorded().await {
                continue;
            }
            return match attached {
                Some(attached) => Ok(Some(Started {
                    id: id.clone(),
                    attached: Some(attached),
                })),
                None => Err(AdmitError::IdTaken(id.clone())),
            };
        }
    }

    /// Takes the id and a place for a call that is about to be recorded; `None` if another one came first.
    fn reserve(
        &self,
        record: &CallRecord,
        parent: Option<&CallRecord>,
        bytes: usize,
    ) -> Result<Option<(Arc<LiveCall>, Turn)>, AdmitError> {
        let mut calls = lock(&self.live);
        // Under the lock: a call is either here when the drain or the end of its task looks, or refused.
        if self.is_draining() {
            return Err(AdmitError::Draining);
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
        let above = parent.and_then(|parent| calls.get(&parent.id));
        let above = match above {
            Some(above) if record.made_by_call => Above::Made(above.ticket),
            Some(above) if above.awaits_clients.load(Ordering::Acquire) => Above::Waits(above.ticket),
            Some(_) | None => Above::Nobody,
        };
        let turn = self.turns.enter(&record.origin, bytes, above);
        let turn = turn.map_err(|full| AdmitError::too_many(full.limit, self.limits.running.most(full.limit)))?;
        let live = self.make_live(record, &turn);
        calls.insert(record.id.clone(), live.clone());
        Ok(Some((live, turn)))
    }

    /// Makes what is known of a call while it runs here.
    pub(super) fn make_live(&self, record: &CallRecord, turn: &Turn) -> Arc<LiveCall> {
        let stop = self.stop_all.child_token();
        let live = LiveCall::new(record.clone(), turn.ticket(), stop, self.recent.clone());
        Arc::new(live)
    }
}
