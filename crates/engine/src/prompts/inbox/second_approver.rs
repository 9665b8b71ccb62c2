//! Approvals of which a prompt needs two.
//!
//! *Invariant:* one approval decides nothing where two are needed, and nobody gives both.

use std::sync::Arc;

use toolgate_model::{Approval, Prompt, Reply, Timestamp};
use toolgate_store::StoreError;

use super::super::approvals::ApprovalPolicy;
use super::super::exchange::{ApproverReply, ReplyOutcome};
use super::Inbox;

/// What an approval led to.
pub(super) enum Approved {
    /// The reply decides, as this.
    Enough(Arc<Prompt>, Reply),
    /// It does not decide.
    NotYet(ReplyOutcome),
}

impl Inbox {
    /// Records an approval where two are needed. `always` counts where both said so.
    pub(super) async fn approve(
        &self,
        prompt: Arc<Prompt>,
        given: &ApproverReply,
        approvals: &ApprovalPolicy,
    ) -> Result<Approved, StoreError> {
        let takes_two = prompt.ask().is_some_and(|ask| approvals.takes_two(&ask.permission));
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
            return Ok(agreed(prompt, approvals));
        }
        let approval = Approval {
            principal,
            by: given.by.clone(),
            always,
            time: Timestamp::now(),
            reply_id: given.reply_id.clone(),
        };
        let store = &self.board.store;
        let Some(prompt) = store.approve(&prompt.id, approval).await?.map(Arc::new) else {
            let stored = store.prompt(&prompt.id).await?;
            let replied = stored.map_or(ReplyOutcome::Unknown, |prompt| self.replied_before(prompt, given));
            return Ok(Approved::NotYet(replied));
        };
        if prompt.approvals.len() < 2 {
            self.board.approved(prompt.clone());
        }
        Ok(agreed(prompt, approvals))
    }
}

/// Says what those who approved agree on; one alone decides nothing. Two may be stored without a decision, if the service
/// died in between: then the next reply decides, whosever it is of them.
fn agreed(prompt: Arc<Prompt>, approvals: &ApprovalPolicy) -> Approved {
    // One may have been recorded where other rules held.
    let counts = |one: &&Approval| approvals.may_answer(&prompt, &one.principal);
    if prompt.approvals.iter().filter(counts).count() < 2 {
        return Approved::NotYet(ReplyOutcome::Recorded(prompt));
    }
    let mut all = prompt.approvals.iter().map(|one| &one.always);
    let agreed = all.next().cloned().flatten();
    let reply = agreed
        .filter(|always| all.all(|other| other.as_ref() == Some(always)))
        .map_or(Reply::Once, Reply::Always);
    Approved::Enough(prompt, reply)
}
