//! What the audit gets that is no change of anything stored: decisions without a prompt, refusals at the door.
//!
//! *Invariant:* nothing here decides; it tells what was decided, and by which rules and grants.

use toolgate_model::{Ask, CallRecord, Timestamp};
use toolgate_permission::Rights;
use toolgate_permission::{Refusal, judgement};
use toolgate_store::audit::Fact;

use super::decided::Decided;
use super::{AdmitError, Engine};
use crate::prompts::broker::ReplyOutcome;

impl Engine {
    /// Records a refusal at the door; of a flood only some, and the number of the others.
    pub fn record_refusal(&self, fact: Fact) {
        for fact in self.door.refuse(Timestamp::now(), fact) {
            self.record_fact(fact);
        }
    }

    /// Records a reply that was refused; `by` is who replied, as principal and in its own words.
    pub(super) fn record_reply(&self, replied: &ReplyOutcome, by: (&str, &str)) {
        let (prompt, reason) = match replied {
            ReplyOutcome::DigestMismatch(prompt) => (prompt, "digest_mismatch"),
            ReplyOutcome::NotAllowed(prompt) => (prompt, "self_approval"),
            ReplyOutcome::Accepted(_)
            | ReplyOutcome::Recorded(_)
            | ReplyOutcome::Before(_)
            | ReplyOutcome::Unknown
            | ReplyOutcome::Elsewhere(_)
            | ReplyOutcome::WrongKind(_)
            | ReplyOutcome::Unlisted { .. }
            | ReplyOutcome::BadEdit { .. } => return,
        };
        self.record_refusal(Fact::not_taken(prompt, by, reason));
    }

    /// Records how many refusals were only counted so far; to be called now and then, and when the service stops.
    pub fn flush_refusals(&self, stops: bool) {
        for fact in self.door.flush(Timestamp::now(), stops) {
            self.record_fact(fact);
        }
    }

    fn record_fact(&self, fact: Fact) {
        let instance = Some(self.instance.clone());
        self.store.audit(Fact { instance, ..fact });
    }
}

/// Returns the word for why a call was not admitted.
pub(super) fn refusal_word(error: &AdmitError) -> &'static str {
    match error {
        AdmitError::Draining => "draining",
        AdmitError::UnknownWorkspace { .. } => "unknown_workspace",
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
pub(super) fn of(decided: &Result<Decided, Refusal>, record: &CallRecord, rights: &Rights, ask: &Ask) -> Option<Fact> {
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
        Err(Refusal::Unattended) => denied("unattended"),
        Err(Refusal::Unavailable) => denied("unavailable"),
        Err(Refusal::TooManyPrompts { .. }) => denied("too_many_prompts"),
        Err(
            Refusal::Rejected
            | Refusal::Corrected { .. }
            | Refusal::Dismissed { .. }
            | Refusal::Edited
            | Refusal::Expired
            | Refusal::Withdrawn,
        ) => None,
    }
}
