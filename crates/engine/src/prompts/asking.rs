//! What calls ask: judged by rules and grants, and put to people where those leave it open.
//!
//! *Invariant:* stored first, sent second. A prompt never waits for what a grant of the same moment already allows: the store
//! takes it only if there is no grant that it was not judged by.

mod attendance;
mod standing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, oneshot};
use toolgate_model::{
    Ask, CallId, Decision, GrantId, Origin, PartVerdict, Prompt, PromptId, PromptOutcome, PromptRequest, PromptState,
    Rule, Timestamp,
};
use toolgate_permission::Refusal;
use toolgate_permission::Rights;
use toolgate_store::StoreError;

use super::approvals::ApprovalPolicy;
use super::asker::Asker;
use super::board::Board;
pub use super::board::Opened;
use super::exchange::PromptPolicy;

/// How often a request is judged anew because another process granted something in the meantime.
const MAX_ROUNDS: usize = 16;

/// Asks for the calls of one run of the service.
pub struct Asking {
    board: Arc<Board>,
    policy: PromptPolicy,
    approvals: Arc<ApprovalPolicy>,
}

/// What a person must be asked, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The rule that asks first; none if no rule matched.
    pub rule: Option<Rule>,
    /// The verdict on each part of the request, in their order.
    pub verdicts: Vec<PartVerdict>,
}

/// What rules and grants say, with the uses of grants counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rules allow it, or these grants do.
    Allowed {
        /// The grants that it took.
        grants: Vec<GrantId>,
    },
    /// A person must be asked.
    Ask(Question),
}

/// What asking led to.
pub enum Asked {
    /// The rules allow it, or these grants do.
    Allowed {
        /// The grants that it took.
        grants: Vec<GrantId>,
    },
    /// A person must decide.
    Opened(Opened),
}

/// What became of storing a prompt.
enum Stored {
    Opened(Opened),
    /// There are grants that the request was not judged by; they are known now.
    Overtaken,
}

impl Asking {
    pub(super) fn new(board: Arc<Board>, policy: PromptPolicy, approvals: Arc<ApprovalPolicy>) -> Self {
        Self {
            board,
            policy,
            approvals,
        }
    }

    /// Returns on how many prompts calls wait here.
    pub fn open_prompts(&self) -> usize {
        self.board.state().waits()
    }

    /// Returns how many of them no connected approver is shown.
    pub fn unseen_prompts(&self) -> usize {
        let state = self.board.state();
        let unseen = state.waiting().filter(|prompt| state.presence.count(prompt) == 0);
        unseen.count()
    }

    /// Returns how prompts end when nobody answers.
    pub fn policy(&self) -> PromptPolicy {
        self.policy
    }

    /// Returns whose replies count.
    pub fn approvals(&self) -> &ApprovalPolicy {
        &self.approvals
    }

    /// Judges a request and, where a person must decide, stores and announces a prompt.
    ///
    /// `make` makes the prompt from what is asked and the time when it expires.
    ///
    /// # Errors
    /// A rule denies it, nobody is there and the policy refuses then, or the store failed.
    pub async fn ask(
        &self,
        ask: &Ask,
        origin: &Origin,
        rights: &Rights,
        make: impl Fn(PromptRequest, Option<Timestamp>) -> Prompt + Send,
    ) -> Result<Asked, Refusal> {
        // Most requests are allowed and must not queue behind those that are not.
        if let Verdict::Allowed { grants } = self.decide(ask, origin, rights).await? {
            return Ok(Asked::Allowed { grants });
        }
        self.find_approvers(origin).await;
        let gate = Arc::new(self.board.pass().await);
        for _ in 0..MAX_ROUNDS {
            let judged_by = self.board.state().grants.ids();
            let question = match self.decide(ask, origin, rights).await? {
                Verdict::Allowed { grants } => return Ok(Asked::Allowed { grants }),
                Verdict::Ask(question) => question,
            };
            let request = PromptRequest::Permission {
                ask: Box::new(ask.clone()),
                rule: question.rule,
                verdicts: question.verdicts,
            };
            let prompt = self.prepare(request, origin, &make)?;
            if let Stored::Opened(opened) = self.store(&gate, prompt, rights, Some(judged_by)).await? {
                return Ok(Asked::Opened(opened));
            }
        }
        tracing::error!(
            permission = ask.permission,
            "a prompt could not be stored: new grants keep coming"
        );
        Err(Refusal::Unavailable)
    }

    /// Stores and announces a prompt, whatever rules and grants say.
    ///
    /// # Errors
    /// Nobody is there and the policy refuses then, or the store failed.
    pub async fn open(
        &self,
        request: PromptRequest,
        origin: &Origin,
        rights: &Rights,
        make: impl Fn(PromptRequest, Option<Timestamp>) -> Prompt + Send,
    ) -> Result<Opened, Refusal> {
        self.find_approvers(origin).await;
        let gate = Arc::new(self.board.pass().await);
        let prompt = self.prepare(request, origin, &make)?;
        match self.store(&gate, prompt, rights, None).await? {
            Stored::Opened(opened) => Ok(opened),
            Stored::Overtaken => Err(Refusal::Unavailable),
        }
    }

    /// Makes a prompt, if one may be opened. The gate is passed.
    fn prepare(
        &self,
        request: PromptRequest,
        origin: &Origin,
        make: impl Fn(PromptRequest, Option<Timestamp>) -> Prompt,
    ) -> Result<Prompt, Refusal> {
        let policy = self.policy.for_call(origin.unanswered);
        let prompt = make(request, policy.timeout.map(|wait| Timestamp::now().after(wait)));
        self.check_attended(&prompt, policy.unattended)?;
        self.check_room(&prompt)?;
        Ok(prompt)
    }

    /// Stores a prompt, and shows it.
    async fn store(
        &self,
        gate: &Arc<OwnedMutexGuard<()>>,
        prompt: Prompt,
        rights: &Rights,
        judged_by: Option<BTreeSet<GrantId>>,
    ) -> Result<Stored, Refusal> {
        let (board, gate, id) = (self.board.clone(), gate.clone(), prompt.id.clone());
        let asker = self.asker(&prompt, rights);
        let storing = async move {
            let _gate = gate;
            let others = board.store.open(prompt.clone(), asker, judged_by).await?;
            if others.is_empty() {
                return Ok(Stored::Opened(board.wait_for(prompt, 0, Duration::ZERO)));
            }
            board.state().grants.add(others);
            Ok(Stored::Overtaken)
        };
        self.board.to_its_end(storing).await.map_err(|error| {
            tracing::error!(prompt = %id, error = &error as &dyn std::error::Error, "a prompt could not be stored");
            Refusal::Unavailable
        })
    }

    /// Describes who asks, for whoever takes the reply. Without that nothing follows for the prompt from other replies.
    fn asker(&self, prompt: &Prompt, rights: &Rights) -> Option<serde_json::Value> {
        match Asker::new(prompt, rights, &self.approvals).to_json() {
            Ok(asker) => Some(asker),
            Err(error) => {
                tracing::error!(prompt = %prompt.id, %error, "who asks could not be written as JSON");
                None
            }
        }
    }

    /// Refuses a prompt that would be too many. What an earlier run left open counts too. The gate is passed.
    fn check_room(&self, prompt: &Prompt) -> Result<(), Refusal> {
        let state = self.board.state();
        let limit = self.policy.max_open;
        if state.waits() >= limit {
            let key = "limits.max_open_prompts";
            return Err(Refusal::TooManyPrompts { key, limit });
        }
        let Some(limit) = self.policy.max_open_per_session else {
            return Ok(());
        };
        let open = state
            .waiting()
            .filter(|other| other.session == prompt.session && other.workspace == prompt.workspace);
        if open.count() >= limit {
            let key = "limits.max_open_prompts_per_session";
            return Err(Refusal::TooManyPrompts { key, limit });
        }
        Ok(())
    }

    /// Waits until the changes that are under way are done.
    pub async fn finish(&self) {
        self.board.finish().await;
    }

    /// Returns the prompts on which a call waits.
    pub async fn waiting_on(&self, call: &CallId) -> Vec<PromptId> {
        // A prompt of the call may be on its way in.
        let _gate = self.board.pass().await;
        let state = self.board.state();
        let of_call = state.waiting().filter(|prompt| prompt.call == *call);
        of_call.map(|prompt| prompt.id.clone()).collect()
    }

    /// Waits again for a stored prompt of a call that goes on after a restart. One that has its decision keeps it. From now
    /// on replies are judged by the rights that the call has here.
    ///
    /// # Errors
    /// The store failed.
    pub async fn restore(&self, mut prompt: Prompt, rights: &Rights) -> Result<Opened, StoreError> {
        let _gate = self.board.pass().await;
        let (mut revision, mut age) = (0, Duration::ZERO);
        // It may have been answered since it was read.
        if prompt.decision.is_none()
            && let Some(asked) = self.board.store.asked(&prompt.id).await?
        {
            (prompt, revision, age) = (asked.prompt, asked.revision, asked.age);
            let asker = self.asker(&prompt, rights);
            if prompt.decision.is_none() && asked.asker != asker {
                self.board.store.replace_asker(&prompt.id, asker).await?;
            }
        }
        let Some(known) = prompt.decision.clone() else {
            return Ok(self.board.wait_for(prompt, revision, age));
        };
        let (wake, decision) = oneshot::channel();
        // The receiver is at hand.
        let _ = wake.send(known);
        Ok(Opened {
            prompt: Arc::new(prompt),
            decision,
            left: None,
        })
    }

    /// Ends a prompt that nobody answered in time; a reply that won the race stands.
    ///
    /// # Errors
    /// The store failed.
    pub async fn expire(&self, id: &PromptId) -> Result<Option<Decision>, StoreError> {
        self.end(id, PromptState::Expired, PromptOutcome::Expired).await
    }

    /// Ends a prompt whose call is gone; a reply that won the race stands.
    ///
    /// # Errors
    /// The store failed.
    pub async fn withdraw(&self, id: &PromptId, why: &str) -> Result<Option<Decision>, StoreError> {
        self.end(id, PromptState::Withdrawn, PromptOutcome::Withdrawn(why.to_owned()))
            .await
    }

    async fn end(
        &self,
        id: &PromptId,
        state: PromptState,
        outcome: PromptOutcome,
    ) -> Result<Option<Decision>, StoreError> {
        let (board, id) = (self.board.clone(), id.clone());
        self.board
            .change(async move {
                let ended = board.end(&id, state, outcome).await?;
                Ok(ended.and_then(|prompt| prompt.decision.clone()))
            })
            .await
    }
}
