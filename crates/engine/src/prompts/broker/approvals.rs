//! Whose reply counts: nobody approves what is done in their own name, and some things take two.
//!
//! *Invariant:* principals are compared by id, never by a name that a client gives itself. What a principal may not
//! answer, no grant of its own and no reply of its own to another prompt settles for it either.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_model::{Approval, Grant, Prompt, Reply, Timestamp};
use toolgate_store::StoreError;

use super::{ApproverReply, Broker, Change, ReplyOutcome, Rights};

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

/// What an approval led to.
pub(super) enum Approved {
    /// The reply decides, as this.
    Enough(Arc<Prompt>, Reply),
    /// It does not decide.
    NotYet(ReplyOutcome),
}

impl ApprovalPolicy {
    /// Says whether a principal may approve what it asks for itself.
    pub fn allows_self(&self, workspace: &str, principal: &str) -> bool {
        let trusted = principal.is_empty() || principal.starts_with("unix:");
        let said = self.self_approval_in.get(workspace).copied().or(self.self_approval);
        said.unwrap_or(trusted)
    }

    /// Says whether the reply of a principal counts for a prompt.
    pub fn may_answer(&self, prompt: &Prompt, principal: &str) -> bool {
        !prompt.is_requested_by(principal) || self.allows_self(&prompt.workspace, principal)
    }

    /// Says whether a permission takes two approvals.
    pub fn takes_two(&self, permission: &str) -> bool {
        let mut names = self.second_approver.iter();
        names.any(|name| name == "*" || name == permission)
    }

    /// Says whether a grant holds for a call: not if somebody gave it to themselves.
    pub fn holds_for(&self, grant: &Grant, rights: &Rights) -> bool {
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

impl Broker {
    /// Sets whose replies count.
    #[must_use]
    pub fn with_approvals(self, approvals: ApprovalPolicy) -> Self {
        Self { approvals, ..self }
    }

    /// Returns whose replies count.
    pub fn approvals(&self) -> &ApprovalPolicy {
        &self.approvals
    }

    /// Records an approval where two are needed. `always` counts where both said so.
    pub(super) async fn approve(&self, prompt: Arc<Prompt>, given: &ApproverReply) -> Result<Approved, StoreError> {
        let takes_two = prompt
            .ask()
            .is_some_and(|ask| self.approvals.takes_two(&ask.permission));
        let always = match &given.reply {
            _ if !takes_two => return Ok(Approved::Enough(prompt, given.reply.clone())),
            Reply::Once => None,
            Reply::Always(always) => Some(always.clone()),
            // The second one would approve what the first one has not seen.
            Reply::Instead(_) => return Ok(Approved::NotYet(ReplyOutcome::WrongKind(prompt))),
            Reply::Reject { .. } | Reply::Answers(_) => return Ok(Approved::Enough(prompt, given.reply.clone())),
        };
        let principal = given.principal.id();
        if prompt.approvals.iter().any(|earlier| earlier.principal == principal) {
            return Ok(Approved::NotYet(ReplyOutcome::Recorded(prompt)));
        }
        let approval = Approval {
            principal,
            by: given.by.clone(),
            always,
            time: Timestamp::now(),
            reply_id: given.reply_id.clone(),
        };
        let Some(prompt) = self.store.approve(&prompt.id, approval).await?.map(Arc::new) else {
            let stored = self.store.prompt(&prompt.id).await?;
            let replied = stored.map_or(ReplyOutcome::Unknown, |prompt| self.replied_before(prompt, given));
            return Ok(Approved::NotYet(replied));
        };
        if let Some(waiting) = self.state().waiting.get_mut(&prompt.id) {
            waiting.prompt = prompt.clone();
        }
        if prompt.approvals.len() < 2 {
            let _ = self.changes.send(Change::Approved(prompt.clone()));
            return Ok(Approved::NotYet(ReplyOutcome::Recorded(prompt)));
        }
        let mut all = prompt.approvals.iter().map(|one| &one.always);
        let agreed = all.next().cloned().flatten();
        let reply = agreed
            .filter(|always| all.all(|other| other.as_ref() == Some(always)))
            .map_or(Reply::Once, Reply::Always);
        Ok(Approved::Enough(prompt, reply))
    }
}

#[cfg(test)]
mod tests;
