//! Whose reply counts: nobody approves what is done in their own name, and some things take two.
//!
//! *Invariant:* principals are compared by id, never by a name that a client gives itself. What a principal may not
//! answer, no grant of its own and no reply of its own to another prompt settles for it either.

use std::collections::BTreeMap;

use toolgate_model::{Grant, Prompt};
use toolgate_permission::Rights;

use super::exchange::ApproverReply;

/// Whose replies count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// Whether a principal may answer prompts of its own calls. None: only where nobody is asked who they are, and the
    /// owner on the Unix socket.
    pub self_approval: Option<bool>,
    /// The same for single workspaces, stronger than the above.
    pub self_approval_in: BTreeMap<String, bool>,
    /// The permissions for which two principals must approve; `*` stands for all.
    pub second_approver: Vec<String>,
}

impl ApprovalPolicy {
    /// Returns whether a principal may approve what it asks for itself.
    pub fn allows_self(&self, workspace: &str, principal: &str) -> bool {
        let trusted = principal.is_empty() || principal.starts_with("unix:");
        self.said_of_self(workspace).unwrap_or(trusted)
    }

    /// Returns what is said of self-approval in a workspace, if anything is.
    pub(super) fn said_of_self(&self, workspace: &str) -> Option<bool> {
        self.self_approval_in.get(workspace).copied().or(self.self_approval)
    }

    /// Returns whether the reply of a principal counts for a prompt.
    pub fn may_answer(&self, prompt: &Prompt, principal: &str) -> bool {
        !prompt.is_requested_by(principal) || self.allows_self(&prompt.workspace, principal)
    }

    /// Returns whether a permission takes two approvals.
    pub fn takes_two(&self, permission: &str) -> bool {
        let mut names = self.second_approver.iter();
        names.any(|name| name == "*" || name == permission)
    }

    /// Returns whether a grant holds for a call: not if somebody gave it to themselves, or alone where it takes two.
    pub fn holds_for(&self, grant: &Grant, rights: &Rights) -> bool {
        if self.takes_two(&grant.permission) && grant.approvers.len() < 2 {
            return false;
        }
        let own = |approver: &&String| rights.requesters.contains(approver);
        let mut own = grant.approvers.iter().filter(own);
        own.all(|approver| self.allows_self(&grant.workspace, approver))
    }

    /// Returns everybody who approved a prompt that this reply decides.
    pub(super) fn approvers(&self, prompt: &Prompt, given: &ApproverReply) -> Vec<String> {
        let mut ids: Vec<String> = prompt.approvals.iter().map(|one| one.principal.clone()).collect();
        let id = given.principal.id();
        if !ids.contains(&id) {
            ids.push(id);
        }
        ids
    }
}

#[cfg(test)]
mod tests;
