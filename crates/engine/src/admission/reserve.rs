//! Taking the id of a call, before anything is done for it that takes time.
//!
//! *Invariant:* from then on the call counts, and is found by its id: whoever starts it again waits for it, and whoever
//! stops it ends what is done for it. It exists once its record is durable; a reservation that is dropped before that leaves
//! nothing behind.

use std::sync::Arc;

use toolgate_model::{CallId, CallRecord, Queued};

use super::refusal::AdmitError;
use super::started::Started;
use crate::calls::Calls;
use crate::catalogs::Gate;
use crate::live::{Attached, LiveCall};
use crate::parts::Parts;
use crate::scheduler::Turn;

/// The id of a call that is about to be recorded.
pub(crate) struct Reservation {
    parts: Arc<Parts>,
    live: Arc<LiveCall>,
    /// None once it was taken.
    turn: Option<Turn>,
    is_kept: bool,
    /// From the beginning, so that another client of the same call cannot be the last one that leaves.
    _attached: Attached,
}

/// What became of the wish to have an id.
pub(crate) enum Claim {
    /// It is free.
    Reserved(Reservation),
    /// The same call has it already.
    Attached(Started),
}

impl Reservation {
    pub(crate) fn live(&self) -> &Arc<LiveCall> {
        &self.live
    }

    /// Returns what the call waits for before it may run, if it must.
    pub(crate) fn queued(&mut self) -> Option<Queued> {
        self.turn.as_mut().and_then(Turn::queued)
    }

    /// Takes what is to be kept until the tool of the call is done.
    pub(crate) fn take_turn(&mut self) -> Option<Turn> {
        self.turn.take()
    }

    /// Notes that the call has come into being.
    pub(crate) fn keep(mut self) -> Attached {
        self.is_kept = true;
        self.live.attach()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        self.parts.calls.forget(&self.live.id);
        // It may have been counted as a call of its session; the store knows better.
        let session = self.live.record().origin.session_key();
        self.parts.loop_guard.forget(&session);
        // Wakes whoever attached to it meanwhile.
        self.live.abandon();
    }
}

/// Takes the id of a call that is described as far as it is known, or attaches to the same call.
pub(crate) async fn claim(
    parts: &Arc<Parts>,
    record: CallRecord,
    gate: &Gate,
    parent: Option<&CallRecord>,
    bytes: usize,
) -> Result<Claim, AdmitError> {
    loop {
        if let Some(started) = attach_live(&parts.calls, &record.id, &record.request_digest).await? {
            return Ok(Claim::Attached(started));
        }
        if let Some((live, turn)) = parts.calls.reserve(&record, gate, parent, bytes, parts.log.ring())? {
            return Ok(Claim::Reserved(Reservation {
                parts: parts.clone(),
                turn: Some(turn),
                is_kept: false,
                _attached: live.attach(),
                live,
            }));
        }
    }
}

/// Attaches to a call that runs here. One that is only being recorded is waited for, since it may turn out that the
/// id belongs to an ended call.
pub(crate) async fn attach_live(calls: &Calls, id: &CallId, digest: &str) -> Result<Option<Started>, AdmitError> {
    loop {
        let Some(call) = calls.find(id) else {
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
