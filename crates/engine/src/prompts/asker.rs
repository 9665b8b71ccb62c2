//! What is stored with an open prompt of whoever asks, so that replies are judged, and their consequences worked out, without
//! the call that waits.
//!
//! *Invariant:* closed by default. What an earlier release has stored, or a field that is not known here, allows nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_model::Prompt;
use toolgate_permission::Rights;

use super::approvals::ApprovalPolicy;

/// Who asks: by what the call is judged, and whose replies count where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asker {
    /// None if they cannot be written as JSON.
    pub(super) rights: Option<Rights>,
    /// Whether principals may answer prompts of their own calls, as [`ApprovalPolicy::self_approval`] says it.
    self_approval: Option<bool>,
    /// Whether two must approve.
    takes_two: bool,
}

impl Asker {
    /// Describes who asks with a prompt.
    pub(super) fn new(prompt: &Prompt, rights: &Rights, approvals: &ApprovalPolicy) -> Self {
        // A folder may have a name that is no text.
        let can_be_stored = rights.worktree.to_str().is_some();
        Self {
            rights: can_be_stored.then(|| rights.clone()),
            self_approval: approvals.said_of_self(&prompt.workspace),
            takes_two: prompt.ask().is_some_and(|ask| approvals.takes_two(&ask.permission)),
        }
    }

    /// Returns what is stored.
    pub(super) fn to_json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }

    /// Reads what was stored.
    pub(super) fn read(stored: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(stored)
    }

    /// Returns the policy for replies to a prompt: the stricter of that of this process and that of the one that asks.
    pub(super) fn approvals(asker: Option<&Self>, prompt: &Prompt, here: &ApprovalPolicy) -> ApprovalPolicy {
        let mut both = here.clone();
        let Some(asker) = asker else { return both };
        // Not said: only those who need not say who they are.
        let rank = |said: Option<bool>| match said {
            Some(false) => 0,
            None => 1,
            Some(true) => 2,
        };
        let said = here.said_of_self(&prompt.workspace);
        if rank(asker.self_approval) < rank(said) {
            both.self_approval_in.remove(&prompt.workspace);
            both.self_approval = asker.self_approval;
        }
        if let Some(ask) = prompt.ask().filter(|_| asker.takes_two) {
            both.second_approver.push(ask.permission.clone());
        }
        both
    }
}
