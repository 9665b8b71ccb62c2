//! What the audit gets that is no change of anything stored: decisions without a prompt, refusals at the door.
//!
//! *Invariant:* nothing here decides; it tells what was decided, and by which rules and grants.

use super::{AdmitError, Engine};
use crate::audit::Fact;
use crate::call::{Action, Ask, CallRecord, GrantId, Prompt, Rule, Timestamp};
use crate::permission::Refusal;
use crate::permission::broker::{Broker, Rights};
use crate::permission::judgement;

impl Engine {
    /// Records a refusal at the door; of a flood only some, and the number of the others.
    pub fn record_refusal(&self, fact: Fact) {
        for fact in self.door.refuse(Timestamp::now(), fact) {
            self.record_fact(fact);
        }
    }

    /// Records a reply to a prompt that was not taken.
    pub fn record_reply_not_taken(&self, prompt: &Prompt, by: &str, reason: &'static str) {
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
        AdmitError::UnknownAgent { .. } => "unknown_agent",
        AdmitError::UnknownParent(_) => "unknown_parent",
        AdmitError::IdTaken(_) => "id_taken",
        AdmitError::InputTooLarge { .. } => "input_too_large",
        AdmitError::TooManyCalls { .. } => "too_many_calls",
        AdmitError::Store(_) => "store",
    }
}

/// Tells of a request that rules and grants allowed.
pub(super) fn allowed(broker: &Broker, rights: &Rights, record: &CallRecord, ask: &Ask) -> Fact {
    let (rules, grants) = deciding(broker, rights, record, ask);
    Fact::allowed(record, ask, rules, grants)
}

/// Tells of a request that was refused without a prompt.
pub(super) fn refused(broker: &Broker, rights: &Rights, record: &CallRecord, ask: &Ask, why: &Refusal) -> Option<Fact> {
    let reason = match why {
        Refusal::Denied { .. } => "rule",
        Refusal::Unattended => "unattended",
        Refusal::Unavailable => "unavailable",
        Refusal::Rejected | Refusal::Corrected { .. } | Refusal::Expired | Refusal::Withdrawn => return None,
    };
    let (rules, _) = deciding(broker, rights, record, ask);
    Some(Fact::denied(record, ask, rules, reason))
}

fn deciding(broker: &Broker, rights: &Rights, record: &CallRecord, ask: &Ask) -> (Vec<Rule>, Vec<GrantId>) {
    let workspace = &record.origin.workspace;
    let standing = broker.grants(Some(workspace));
    let as_rules: Vec<Rule> = standing
        .iter()
        .map(|grant| Rule {
            permission: grant.permission.clone(),
            pattern: grant.pattern.clone(),
            action: Action::Allow,
        })
        .collect();
    let deciding = judgement::deciding(ask, rights, &as_rules);
    let mut grants = Vec::new();
    for pattern in &deciding.granted {
        let grant = broker.grant_for(workspace, rights, &ask.permission, pattern);
        grants.extend(grant.map(|grant| grant.id).filter(|id| !grants.contains(id)));
    }
    (deciding.rules, grants)
}
