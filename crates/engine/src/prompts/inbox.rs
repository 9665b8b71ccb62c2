//! Replies to prompts: which count, what they decide, what follows from them for other prompts and from now on.
//!
//! *Invariant:* needs no call that waits: what it decides by is in the store, so a prompt can be answered while its call waits
//! in another process, or in none after its service died. The store decides which reply wins.

mod second_approver;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use toolgate_model::{
    Decision, Grant, GrantId, GrantReach, InstanceId, Prompt, PromptId, PromptOutcome, PromptState, Reply, SessionKey,
    Timestamp,
};
use toolgate_store::{AskedPrompt, PromptFilter, Settled, Settlement, StoreError};

use super::approvals::ApprovalPolicy;
use super::asker::Asker;
use super::board::{Board, Listener};
use super::cascade::{self, Consequences, Other};
use super::exchange::{ApproverReply, ReplyContext, ReplyOutcome, Subscription};
use super::grants::Grants;
use second_approver::Approved;

/// How often what follows from a reply is worked out anew because another process opened a prompt in the meantime.
const MAX_ROUNDS: usize = 16;

/// Takes the replies to prompts.
pub struct Inbox {
    board: Arc<Board>,
    approvals: Arc<ApprovalPolicy>,
}

impl Inbox {
    pub(super) fn new(board: Arc<Board>, approvals: Arc<ApprovalPolicy>) -> Self {
        Self { board, approvals }
    }

    /// Returns whose replies count.
    pub fn approvals(&self) -> &ApprovalPolicy {
        &self.approvals
    }

    /// Returns the run of the service that this is a part of.
    pub fn instance(&self) -> &InstanceId {
        self.board.instance()
    }

    /// Replies to a prompt. The first valid reply wins; what follows from it for other prompts of the session is
    /// decided in the same transaction (`docs/spec/permission.md` §7, §13).
    ///
    /// # Errors
    /// The store failed; nothing is decided.
    pub async fn reply(self: &Arc<Self>, given: ApproverReply) -> Result<ReplyOutcome, StoreError> {
        let inbox = self.clone();
        self.board.change(async move { inbox.settle_reply(given).await }).await
    }

    async fn settle_reply(&self, given: ApproverReply) -> Result<ReplyOutcome, StoreError> {
        let Some(AskedPrompt { prompt, asker, age, .. }) = self.board.store.asked(&given.prompt).await? else {
            return Ok(ReplyOutcome::Unknown);
        };
        if prompt.state != PromptState::Open {
            return Ok(self.replied_before(prompt, &given));
        }
        if prompt.patience().is_some_and(|patience| patience <= age) {
            return self.too_late(prompt, &given).await;
        }
        let asker = asker.map(Asker::read).transpose().map_err(|error| StoreError::Failed {
            context: format!("read who asks with prompt {}", prompt.id),
            source: Box::new(error),
        })?;
        let approvals = Asker::approvals(asker.as_ref(), &prompt, &self.approvals);
        let prompt = Arc::new(prompt);
        if given.input_digest != prompt.input_digest {
            return Ok(ReplyOutcome::DigestMismatch(prompt));
        }
        if !prompt.takes(&given.reply) {
            return Ok(ReplyOutcome::WrongKind(prompt));
        }
        if let Some(problem) = wrong_grant(&prompt, &given.reply) {
            return Ok(ReplyOutcome::BadGrant { prompt, problem });
        }
        if !approvals.may_answer(&prompt, &given.principal.id()) {
            return Ok(ReplyOutcome::NotAllowed(prompt));
        }
        let rights = asker.and_then(|asker| asker.rights);
        let worktree = rights
            .as_ref()
            .and_then(|rights| rights.worktree.to_str())
            .unwrap_or_default();
        match self.approve(prompt, &given, &approvals).await? {
            Approved::Enough(prompt, reply) => self.decide(&prompt, reply, &given, worktree).await,
            Approved::NotYet(replied) => Ok(replied),
        }
    }

    async fn decide(
        &self,
        prompt: &Prompt,
        reply: Reply,
        given: &ApproverReply,
        worktree: &str,
    ) -> Result<ReplyOutcome, StoreError> {
        let decision = Decision {
            reply_id: given.reply_id.clone(),
            by: given.by.clone(),
            principal: given.principal.id(),
            ..Decision::new(PromptOutcome::Replied(reply.clone()))
        };
        for _ in 0..MAX_ROUNDS {
            let (Consequences { also, grants }, beside) = self.consequences(prompt, &reply, given, worktree).await?;
            let uses: Vec<(PromptId, Vec<GrantId>)> = also
                .iter()
                .map(|settlement| (settlement.prompt.clone(), settlement.uses.clone()))
                .collect();
            let first = Settlement {
                prompt: prompt.id.clone(),
                state: PromptState::Resolved,
                decision: decision.clone(),
                uses: Vec::new(),
            };
            match self.board.store.settle(first, also, grants.clone(), beside).await? {
                Settled::Now { prompts } => {
                    self.board.granted(grants);
                    for (_, used) in uses
                        .iter()
                        .filter(|(id, _)| prompts.iter().any(|prompt| prompt.id == *id))
                    {
                        self.board.state().grants.count(used, Timestamp::now());
                    }
                    let settled = self.board.settled(prompts);
                    return Ok(settled.map_or(ReplyOutcome::Unknown, ReplyOutcome::Accepted));
                }
                Settled::Before(prompt) => return Ok(self.replied_before(*prompt, given)),
                Settled::Unknown => return Ok(ReplyOutcome::Unknown),
                Settled::Overtaken => {}
            }
        }
        Err(StoreError::Conflict(format!(
            "new prompts keep coming in the session of prompt {}: send the reply again",
            prompt.id
        )))
    }

    fn replied_before(&self, prompt: Prompt, given: &ApproverReply) -> ReplyOutcome {
        // It may be another process that has settled it, a moment ago.
        let prompt = self.board.ended(prompt);
        match &prompt.decision {
            Some(decision) if !given.reply_id.is_empty() && decision.reply_id == given.reply_id => {
                ReplyOutcome::Accepted(prompt)
            }
            Some(_) | None => ReplyOutcome::Before(prompt),
        }
    }

    /// Ends a prompt whose time is over, and whose call is not there to do it.
    async fn too_late(&self, prompt: Prompt, given: &ApproverReply) -> Result<ReplyOutcome, StoreError> {
        let ended = self.board.end(&prompt.id, PromptState::Expired, PromptOutcome::Expired);
        Ok(match ended.await? {
            Some(prompt) => self.replied_before((*prompt).clone(), given),
            None => ReplyOutcome::Unknown,
        })
    }

    /// Works out what a reply means for the other prompts of the session, and the grants it makes; and says which prompts it
    /// has looked at for that, if it depends on them.
    async fn consequences(
        &self,
        prompt: &Prompt,
        reply: &Reply,
        given: &ApproverReply,
        worktree: &str,
    ) -> Result<(Consequences, Option<BTreeSet<PromptId>>), StoreError> {
        // Questions neither settle permission prompts nor are settled with them.
        let (Some(ask), Reply::Always(_) | Reply::Reject { .. }) = (prompt.ask(), reply) else {
            return Ok(Default::default());
        };
        let session = SessionKey::new(&prompt.workspace, &prompt.session);
        let mut asked = self.board.store.asked_in(&session).await?;
        asked.retain(|other| other.prompt.id != prompt.id);
        let beside = asked.iter().map(|other| other.prompt.id.clone()).collect();
        let others: Vec<Other> = asked.into_iter().map(|other| self.other(other)).collect();
        let known = self.grants_of(prompt, &others).await?;
        let from = ReplyContext {
            prompt,
            ask,
            by: &given.by,
            worktree,
            approvers: self.approvals.approvers(prompt, given),
        };
        let consequences = cascade::consequences(&from, reply, &others, &known);
        // Whoever asks after a rejection is not rejected with the others.
        let beside = matches!(reply, Reply::Always(_)).then_some(beside);
        Ok((consequences, beside))
    }

    fn other(&self, other: AskedPrompt) -> Other {
        let AskedPrompt { prompt, asker, .. } = other;
        let asker = asker.and_then(|asker| match Asker::read(asker) {
            Ok(asker) => Some(asker),
            Err(error) => {
                tracing::warn!(prompt = %prompt.id, %error, "nothing follows for a prompt, because who asks cannot be read");
                None
            }
        });
        Other {
            approvals: Asker::approvals(asker.as_ref(), &prompt, &self.approvals),
            rights: asker.and_then(|asker| asker.rights),
            prompt,
        }
    }

    /// Returns the grants that hold for the runs in which any of these prompts waits.
    async fn grants_of(&self, prompt: &Prompt, others: &[Other]) -> Result<Grants, StoreError> {
        let owners = others.iter().map(|other| &other.prompt.owner);
        let owners: BTreeSet<&InstanceId> = owners.chain([&prompt.owner]).collect();
        let mut known = Grants::default();
        for owner in owners {
            known.add(self.board.store.grants(owner).await?);
        }
        Ok(known)
    }

    /// Listens to prompts: those that are open now, and every change from now on.
    ///
    /// # Errors
    /// The store failed.
    pub async fn listen(&self, interest: Subscription) -> Result<Listener, StoreError> {
        self.board.listen(interest).await
    }

    /// Returns how many prompts are open in all processes that share the store, and how many of them no connected approver is shown.
    ///
    /// # Errors
    /// The store failed.
    pub async fn open_and_unseen(&self) -> Result<(usize, usize), StoreError> {
        let filter = PromptFilter {
            states: vec![PromptState::Open],
            ..PromptFilter::default()
        };
        let open = self.board.store.prompts(&filter, usize::MAX).await?;
        self.board.look_for_approvers().await;
        let state = self.board.state();
        let unseen = open.iter().filter(|prompt| state.presence.count(prompt) == 0);
        Ok((open.len(), unseen.count()))
    }

    /// Returns how many connected approvers see this prompt.
    pub fn approvers_for(&self, prompt: &Prompt) -> usize {
        self.board.state().presence.count(prompt)
    }

    /// Notes that whoever was shown a prompt as a form dismissed it without an answer: it stays open for others, or ends
    /// by the policy for prompts that nobody sees.
    pub fn dismiss(&self, prompt: &PromptId) {
        let mut state = self.board.state();
        if state.is_open(prompt) {
            state.presence.dismiss(prompt, Instant::now());
            self.board.visits.notify_waiters();
        }
    }

    /// Lists stored prompts in the order of their arrival.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        self.board.store.prompts(filter, limit).await
    }

    /// Returns a stored prompt.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        self.board.store.prompt(id).await
    }

    /// Returns the standing approvals of a workspace, or of all, oldest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn grants(&self, workspace: Option<&str>) -> Result<Vec<Grant>, StoreError> {
        let now = Timestamp::now();
        let mut grants = self.board.store.grants(self.instance()).await?;
        grants.retain(|grant| workspace.is_none_or(|name| grant.workspace == name) && !grant.is_over(now));
        Ok(grants)
    }

    /// Returns a standing approval, also one for another run of the service.
    ///
    /// # Errors
    /// The store failed.
    pub async fn grant(&self, id: &GrantId) -> Result<Option<Grant>, StoreError> {
        self.board.store.grant(id).await
    }

    /// Takes a standing approval back, in the name of a principal if one is known.
    ///
    /// # Errors
    /// The store failed; the approval stands.
    pub async fn revoke(&self, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
        let (board, id, by) = (self.board.clone(), id.clone(), by.to_owned());
        self.board
            .change(async move {
                let revoked = board.store.revoke(&id, &by).await?;
                let known = board.state().grants.remove(&id);
                Ok(revoked.or(known))
            })
            .await
    }

    /// Takes back every standing approval of a workspace: the next one of its name may be another folder.
    ///
    /// # Errors
    /// The store failed; some approvals may stand.
    pub async fn end_workspace(&self, workspace: &str, by: &str) -> Result<(), StoreError> {
        for grant in self.grants(Some(workspace)).await? {
            self.revoke(&grant.id, by).await?;
        }
        Ok(())
    }

    /// Takes back what was granted to a session only, because the session has ended.
    ///
    /// # Errors
    /// The store failed; some approvals may stand.
    pub async fn end_session(&self, session: &SessionKey) -> Result<(), StoreError> {
        for grant in self.grants(Some(&session.workspace)).await? {
            if grant.scope.reach == GrantReach::Session && grant.session == session.session {
                self.revoke(&grant.id, "").await?;
            }
        }
        Ok(())
    }
}

/// Says what is wrong with what a reply would grant. Nothing is granted that it does not name.
fn wrong_grant(prompt: &Prompt, reply: &Reply) -> Option<String> {
    let Reply::Always(always) = reply else { return None };
    let listed = prompt.ask().map(|ask| ask.always.as_slice()).unwrap_or_default();
    if always.patterns.is_empty() && !listed.is_empty() {
        return Some(
            "always_patterns: name what to allow from now on, of what the prompt lists under `always`".to_owned(),
        );
    }
    let unlisted = always.patterns.iter().find(|pattern| !listed.contains(pattern))?;
    Some(format!(
        "the prompt does not list {unlisted:?} among what ALWAYS would allow"
    ))
}
