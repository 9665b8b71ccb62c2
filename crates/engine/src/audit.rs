//! What the audit records besides changes in the store: decisions without a prompt, and refused requests.
//!
//! *Invariant:* nothing here decides; it tells what was decided, and by which rules and grants.

use std::sync::Arc;

use toolgate_model::{Ask, CallRecord, InstanceId, Timestamp};
use toolgate_permission::Rights;
use toolgate_permission::{Refusal, judgement};
use toolgate_store::Store;
use toolgate_store::audit::{Fact, RefusalSampler};

use crate::admission::refusal::AdmitError;
use crate::outcome::Decided;
use crate::prompts::exchange::ReplyOutcome;

/// The record of refusals, which stays small however many there are.
pub struct Refusals {
    store: Arc<dyn Store>,
    instance: InstanceId,
    sampler: RefusalSampler,
}

impl Refusals {
    pub(crate) fn new(store: Arc<dyn Store>, instance: InstanceId) -> Self {
        Self {
            store,
            instance,
            sampler: RefusalSampler::default(),
        }
    }

    /// Records a refusal; of a flood only some, and the number of the others.
    pub fn record(&self, fact: Fact) {
        for fact in self.sampler.refuse(Timestamp::now(), fact) {
            self.store_fact(fact);
        }
    }

    /// Records a call that was not admitted; `refused` says all but why.
    pub(crate) fn record_admission(&self, refused: Fact, error: &AdmitError) {
        let reason = refusal_word(error).to_owned();
        self.record(Fact { reason, ..refused });
    }

    /// Records a reply that was refused; `by` is who replied, as principal and as it calls itself.
    pub(crate) fn record_reply(&self, replied: &ReplyOutcome, by: (&str, &str)) {
        let (prompt, reason) = match replied {
            ReplyOutcome::DigestMismatch(prompt) => (prompt, "digest_mismatch"),
            ReplyOutcome::NotAllowed(prompt) => (prompt, "self_approval"),
            ReplyOutcome::Accepted(_)
            | ReplyOutcome::Recorded(_)
            | ReplyOutcome::Before(_)
            | ReplyOutcome::Unknown
            | ReplyOutcome::WrongKind(_)
            | ReplyOutcome::BadGrant { .. }
            | ReplyOutcome::BadEdit { .. } => return,
        };
        self.record(Fact::not_taken(prompt, by, reason));
    }

    /// Records how many refusals were only counted so far; to be called now and then, and when the service stops.
    pub fn flush(&self, stops: bool) {
        for fact in self.sampler.flush(Timestamp::now(), stops) {
            self.store_fact(fact);
        }
    }

    fn store_fact(&self, fact: Fact) {
        let instance = Some(self.instance.clone());
        self.store.audit(Fact { instance, ..fact });
    }
}

/// Returns the word for why a call was not admitted.
fn refusal_word(error: &AdmitError) -> &'static str {
    match error {
        AdmitError::Draining => "draining",
        AdmitError::BadDirectory(_) => "bad_directory",
        AdmitError::UnknownWorkspace { .. } | AdmitError::ClosedWorkspace(_) => "unknown_workspace",
        AdmitError::HeldWorkspace { .. } => "held_workspace",
        AdmitError::BrokenWorkspace { .. } => "broken_workspace",
        AdmitError::UnknownAgent { .. } => "unknown_agent",
        AdmitError::UnknownParent(_) => "unknown_parent",
        AdmitError::TaskEnded(_) => "task_ended",
        AdmitError::IdTaken(_) => "id_taken",
        AdmitError::InputTooLarge { .. } => "input_too_large",
        AdmitError::TooManyCalls { .. } => "too_many_calls",
        AdmitError::Store(_) => "store",
    }
}

/// Tells what became of a request without a prompt; what a person decides is recorded with the prompt.
pub(crate) fn decision_fact(
    decided: &Result<Decided, Refusal>,
    record: &CallRecord,
    rights: &Rights,
    ask: &Ask,
) -> Option<Fact> {
    // Of what it would have asked one after the other, the one that a rule denies.
    let ask = match decided {
        Err(Refusal::Denied { .. }) => judgement::denied(ask, rights),
        Ok(_) | Err(_) => ask,
    };
    let rules = || judgement::deciding(ask, rights);
    let denied = |reason| Some(Fact::denied(record, ask, rules(), reason));
    match decided {
        Ok(Decided::Allowed { grants }) => Some(Fact::allowed(record, ask, rules(), grants.clone())),
        Ok(Decided::Edited) => Some(Fact {
            reason: "edited".to_owned(),
            ..Fact::allowed(record, ask, rules(), Vec::new())
        }),
        Ok(Decided::Hooked(hook)) => Some(Fact {
            by: hook.clone(),
            reason: "hook".to_owned(),
            ..Fact::allowed(record, ask, rules(), Vec::new())
        }),
        Ok(Decided::Replied(_)) => None,
        Err(Refusal::Denied { .. }) => denied("rule"),
        Err(Refusal::Unattended { .. }) => denied("unattended"),
        Err(Refusal::Unavailable) => denied("unavailable"),
        Err(Refusal::TooManyPrompts { .. }) => denied("too_many_prompts"),
        Err(
            Refusal::Rejected
            | Refusal::Corrected { .. }
            | Refusal::Dismissed { .. }
            | Refusal::Edited
            | Refusal::Expired { .. }
            | Refusal::Withdrawn,
        ) => None,
    }
}
