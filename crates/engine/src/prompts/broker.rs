//! The prompts that wait for a person, and the grants that replies leave behind.
//!
//! *Invariant:* stored first, sent second. The store decides which reply wins; the maps here only say who must be woken.
//! Opening and settling pass one gate, so a prompt never waits for what a grant of the same moment already allows.
//! What the store has taken is told to everybody, even if the client or the call that asked for it is gone by then.

mod attendance;
mod second_approver;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedMutexGuard, broadcast, oneshot};
use tokio_util::task::TaskTracker;
use toolgate_model::{
    Ask, CallId, Decision, GrantId, InstanceId, Origin, PartVerdict, Prompt, PromptId, PromptOutcome, PromptRequest,
    PromptState, Reply, Rule, Timestamp,
};
use toolgate_permission::Refusal;
use toolgate_permission::Rights;
use toolgate_store::{PromptFilter, Settled, Settlement, Store, StoreError};
use tracing::Instrument as _;

pub use super::approvals::ApprovalPolicy;
use super::cascade::{self, Consequences};
use super::exchange::ReplyContext;
pub use super::exchange::{ApproverReply, Change, DOOM_LOOP, PromptPolicy, ReplyOutcome, Subscription, Unattended};
use super::grants::Grants;
use super::presence::Presence;
use second_approver::Approved;

/// How many changes a slow listener may be behind before it must open again.
const CHANGES_KEPT: usize = 4096;

struct Waiting {
    prompt: Arc<Prompt>,
    rights: Rights,
    wake: oneshot::Sender<Decision>,
}

pub(super) struct State {
    /// Every open prompt of this instance, in the order of their arrival: ids sort by time.
    waiting: BTreeMap<PromptId, Waiting>,
    pub(super) grants: Grants,
    presence: Presence,
}

/// Keeps the prompts of one run of the service.
pub struct Broker {
    pub(super) store: Arc<dyn Store>,
    instance: InstanceId,
    policy: PromptPolicy,
    approvals: ApprovalPolicy,
    /// Serializes opening and settling; the store is asked while it is held.
    gate: Arc<tokio::sync::Mutex<()>>,
    /// What is open, what is granted, who listens. Never held across an await.
    state: Mutex<State>,
    /// An approver came or left.
    visits: Notify,
    changes: broadcast::Sender<Change>,
    /// Changes under way; each is done to its end.
    tasks: TaskTracker,
}

/// A prompt that was opened, and the decision that will come.
pub struct Opened {
    /// The prompt.
    pub prompt: Arc<Prompt>,
    /// Gets the decision; closed only when the service ends.
    pub decision: oneshot::Receiver<Decision>,
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

/// Listens to prompts; dropping it stops.
pub struct Listener {
    /// The prompts that were open when the listener came.
    pub snapshot: Vec<Arc<Prompt>>,
    /// What changed since; filter it by [`Subscription::covers`].
    pub changes: broadcast::Receiver<Change>,
    visit: u64,
    broker: Arc<Broker>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.broker.state().presence.leave(self.visit, Instant::now());
        self.broker.visits.notify_waiters();
    }
}

impl Broker {
    /// Makes the broker of one run of the service.
    pub fn new(store: Arc<dyn Store>, instance: InstanceId, policy: PromptPolicy) -> Self {
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        Self {
            store,
            instance,
            policy,
            approvals: ApprovalPolicy::default(),
            gate: Arc::default(),
            state: Mutex::new(State {
                waiting: BTreeMap::new(),
                grants: Grants::default(),
                presence: Presence::new(Instant::now()),
            }),
            visits: Notify::new(),
            changes,
            tasks: TaskTracker::new(),
        }
    }

    /// Returns how many prompts are open.
    pub fn open_prompts(&self) -> usize {
        self.state().waiting.len()
    }

    /// Returns how prompts end when nobody answers.
    pub fn policy(&self) -> PromptPolicy {
        self.policy
    }

    /// Judges a request and, where a person must decide, stores and announces a prompt.
    ///
    /// `make` makes the prompt from what is asked and the time when it expires.
    ///
    /// # Errors
    /// A rule denies it, nobody is there and the policy refuses then, or the store failed.
    pub async fn ask(
        self: &Arc<Self>,
        ask: &Ask,
        origin: &Origin,
        rights: &Rights,
        make: impl FnOnce(PromptRequest, Option<Timestamp>) -> Prompt + Send,
    ) -> Result<Asked, Refusal> {
        // Most requests are allowed and must not queue behind those that are not.
        if let Verdict::Allowed { grants } = self.decide(ask, origin, rights).await? {
            return Ok(Asked::Allowed { grants });
        }
        let gate = self.gate.clone().lock_owned().await;
        let question = match self.decide(ask, origin, rights).await? {
            Verdict::Allowed { grants } => return Ok(Asked::Allowed { grants }),
            Verdict::Ask(question) => question,
        };
        let request = PromptRequest::Permission {
            ask: Box::new(ask.clone()),
            rule: question.rule,
            verdicts: question.verdicts,
        };
        let opened = self.open_within(gate, request, origin, rights, make).await;
        opened.map(Asked::Opened)
    }

    /// Stores and announces a prompt, whatever the rules say.
    ///
    /// # Errors
    /// Nobody is there and the policy refuses then, or the store failed.
    pub async fn open(
        self: &Arc<Self>,
        request: PromptRequest,
        origin: &Origin,
        rights: &Rights,
        make: impl FnOnce(PromptRequest, Option<Timestamp>) -> Prompt + Send,
    ) -> Result<Opened, Refusal> {
        let gate = self.gate.clone().lock_owned().await;
        self.open_within(gate, request, origin, rights, make).await
    }

    async fn open_within(
        self: &Arc<Self>,
        gate: OwnedMutexGuard<()>,
        request: PromptRequest,
        origin: &Origin,
        rights: &Rights,
        make: impl FnOnce(PromptRequest, Option<Timestamp>) -> Prompt + Send,
    ) -> Result<Opened, Refusal> {
        let policy = self.policy.for_call(origin.unanswered);
        let prompt = make(request, policy.timeout.map(|wait| Timestamp::now().after(wait)));
        self.check_attended(&prompt, policy.unattended)?;
        self.check_room(&prompt)?;
        let (broker, rights, id) = (self.clone(), rights.clone(), prompt.id.clone());
        let opening = async move {
            let _gate = gate;
            broker.store.open(prompt.clone()).await?;
            Ok(broker.announce(prompt, &rights))
        };
        let opened = self.to_its_end(opening).await;
        opened.map_err(|error| unavailable(&id, &error))
    }

    /// Refuses a prompt that would be too many. What an earlier run left open counts too. The gate is passed.
    fn check_room(&self, prompt: &Prompt) -> Result<(), Refusal> {
        let state = self.state();
        let limit = self.policy.max_open;
        if state.waiting.len() >= limit {
            let key = "limits.max_open_prompts";
            return Err(Refusal::TooManyPrompts { key, limit });
        }
        let Some(limit) = self.policy.max_open_per_session else {
            return Ok(());
        };
        let open = state.waiting.values().filter(|waiting| {
            let other = &waiting.prompt;
            other.session == prompt.session && other.workspace == prompt.workspace
        });
        if open.count() >= limit {
            let key = "limits.max_open_prompts_per_session";
            return Err(Refusal::TooManyPrompts { key, limit });
        }
        Ok(())
    }

    /// Passes the gate and does `change` to its end, even if the future that waits for it is dropped: a client may be
    /// lost, and a tool stopped, between the moment when the store has decided and the moment when all are told.
    pub(super) async fn change<T, F>(self: &Arc<Self>, change: impl FnOnce(Arc<Self>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let gate: OwnedMutexGuard<()> = self.gate.clone().lock_owned().await;
        let change = change(self.clone());
        self.to_its_end(async move {
            let _gate = gate;
            change.await
        })
        .await
    }

    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.tasks.spawn(change.in_current_span()).await {
            Ok(result) => result,
            Err(panicked) => Err(StoreError::Failed {
                context: "a change of a prompt did not come to its end".to_owned(),
                source: Box::new(panicked),
            }),
        }
    }

    /// Waits until the changes that are under way are done.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns the prompts on which a call waits.
    pub async fn waiting_on(&self, call: &CallId) -> Vec<PromptId> {
        // A prompt of the call may be on its way in.
        let _gate = self.gate.lock().await;
        let state = self.state();
        let of_call = state.waiting.values().filter(|waiting| waiting.prompt.call == *call);
        of_call.map(|waiting| waiting.prompt.id.clone()).collect()
    }

    /// Takes up a stored prompt of a call that goes on after a restart, so that it is seen and answered even before the
    /// call asks again. One that has its decision keeps it.
    pub async fn restore(&self, prompt: Prompt, rights: &Rights) -> Opened {
        let _gate = self.gate.lock().await;
        let Some(known) = prompt.decision.clone() else {
            return self.announce(prompt, rights);
        };
        let (wake, decision) = oneshot::channel();
        // The receiver is at hand.
        let _ = wake.send(known);
        Opened {
            prompt: Arc::new(prompt),
            decision,
        }
    }

    fn announce(&self, prompt: Prompt, rights: &Rights) -> Opened {
        let prompt = Arc::new(prompt);
        let (wake, decision) = oneshot::channel();
        let waiting = Waiting {
            prompt: prompt.clone(),
            rights: rights.clone(),
            wake,
        };
        self.state().waiting.insert(prompt.id.clone(), waiting);
        // No listener is no fault: the prompt is stored.
        let _ = self.changes.send(Change::Added(prompt.clone()));
        Opened { prompt, decision }
    }

    /// Replies to a prompt. The first valid reply wins; what follows from it for other prompts of the session is
    /// decided in the same transaction (`docs/spec/permission.md` §7, §13).
    ///
    /// # Errors
    /// The store failed; nothing is decided.
    pub async fn reply(self: &Arc<Self>, given: ApproverReply) -> Result<ReplyOutcome, StoreError> {
        self.change(|broker| async move { broker.settle_reply(given).await })
            .await
    }

    async fn settle_reply(&self, given: ApproverReply) -> Result<ReplyOutcome, StoreError> {
        let open = self
            .state()
            .waiting
            .get(&given.prompt)
            .map(|waiting| waiting.prompt.clone());
        let Some(prompt) = open else {
            let stored = self.store.prompt(&given.prompt).await?;
            return Ok(match stored {
                None => ReplyOutcome::Unknown,
                Some(prompt) if prompt.state == PromptState::Open => ReplyOutcome::Elsewhere(Arc::new(prompt)),
                Some(prompt) => self.replied_before(prompt, &given),
            });
        };
        if given.input_digest != prompt.input_digest {
            return Ok(ReplyOutcome::DigestMismatch(prompt));
        }
        if !prompt.takes(&given.reply) {
            return Ok(ReplyOutcome::WrongKind(prompt));
        }
        if let Some(problem) = wrong_grant(&prompt, &given.reply) {
            return Ok(ReplyOutcome::BadGrant { prompt, problem });
        }
        if !self.approvals.may_answer(&prompt, &given.principal.id()) {
            return Ok(ReplyOutcome::NotAllowed(prompt));
        }
        let (prompt, reply) = match self.approve(prompt, &given).await? {
            Approved::Enough(prompt, reply) => (prompt, reply),
            Approved::NotYet(replied) => return Ok(replied),
        };
        let Consequences { also, grants } = self.consequences(&prompt, &reply, &given);
        let uses: Vec<(PromptId, Vec<GrantId>)> = also
            .iter()
            .map(|settlement| (settlement.prompt.clone(), settlement.uses.clone()))
            .collect();
        let decision = Decision {
            reply_id: given.reply_id.clone(),
            by: given.by.clone(),
            principal: given.principal.id(),
            ..Decision::new(PromptOutcome::Replied(reply))
        };
        let first = Settlement {
            prompt: prompt.id.clone(),
            state: PromptState::Resolved,
            decision,
            uses: Vec::new(),
        };
        match self.store.settle(first, also, grants.clone()).await? {
            Settled::Now { prompts } => {
                let mut state = self.state();
                state.grants.add(grants);
                for (_, used) in uses
                    .iter()
                    .filter(|(id, _)| prompts.iter().any(|prompt| prompt.id == *id))
                {
                    state.grants.count(used, Timestamp::now());
                }
                drop(state);
                let settled = self.wake(prompts);
                Ok(settled.map_or(ReplyOutcome::Unknown, ReplyOutcome::Accepted))
            }
            Settled::Before(prompt) => {
                let prompt = *prompt;
                self.wake(vec![prompt.clone()]);
                Ok(self.replied_before(prompt, &given))
            }
            Settled::Unknown => Ok(ReplyOutcome::Unknown),
        }
    }

    fn replied_before(&self, prompt: Prompt, given: &ApproverReply) -> ReplyOutcome {
        match &prompt.decision {
            Some(decision) if !given.reply_id.is_empty() && decision.reply_id == given.reply_id => {
                ReplyOutcome::Accepted(Arc::new(prompt))
            }
            Some(_) | None => ReplyOutcome::Before(Arc::new(prompt)),
        }
    }

    /// Works out what a reply means for the other prompts of the session, and the grants it makes.
    fn consequences(&self, prompt: &Prompt, reply: &Reply, given: &ApproverReply) -> Consequences {
        // Questions neither settle permission prompts nor are settled with them.
        let Some(ask) = prompt.ask() else {
            return Consequences::default();
        };
        let state = self.state();
        let others = state.waiting.values().filter_map(|other| {
            let is_other = other.prompt.session == prompt.session
                && other.prompt.workspace == prompt.workspace
                && other.prompt.id != prompt.id;
            let ask = other.prompt.ask().filter(|_| is_other)?;
            Some((&*other.prompt, ask, &other.rights))
        });
        let from = ReplyContext {
            prompt,
            ask,
            by: &given.by,
            approvers: self.approvals.approvers(prompt, given),
        };
        cascade::consequences(&from, reply, others, &state.grants, &self.approvals)
    }

    /// Ends a prompt that nobody answered in time; a reply that won the race stands.
    ///
    /// # Errors
    /// The store failed.
    pub async fn expire(self: &Arc<Self>, id: &PromptId) -> Result<Option<Decision>, StoreError> {
        self.end(id, PromptState::Expired, PromptOutcome::Expired).await
    }

    /// Ends a prompt whose call is gone; a reply that won the race stands.
    ///
    /// # Errors
    /// The store failed.
    pub async fn withdraw(self: &Arc<Self>, id: &PromptId, why: &str) -> Result<Option<Decision>, StoreError> {
        self.end(id, PromptState::Withdrawn, PromptOutcome::Withdrawn(why.to_owned()))
            .await
    }

    async fn end(
        self: &Arc<Self>,
        id: &PromptId,
        state: PromptState,
        outcome: PromptOutcome,
    ) -> Result<Option<Decision>, StoreError> {
        let first = Settlement {
            prompt: id.clone(),
            state,
            decision: Decision::new(outcome),
            uses: Vec::new(),
        };
        self.change(|broker| async move {
            match broker.store.settle(first, Vec::new(), Vec::new()).await? {
                Settled::Now { prompts } => Ok(broker.wake(prompts).and_then(|prompt| prompt.decision.clone())),
                Settled::Before(prompt) => {
                    let decision = prompt.decision.clone();
                    broker.wake(vec![*prompt]);
                    Ok(decision)
                }
                Settled::Unknown => Ok(None),
            }
        })
        .await
    }

    /// Tells the waiting calls and all listeners; returns the first prompt.
    fn wake(&self, prompts: Vec<Prompt>) -> Option<Arc<Prompt>> {
        let mut first = None;
        for prompt in prompts {
            let prompt = Arc::new(prompt);
            let Some(waiting) = self.state().waiting.remove(&prompt.id) else {
                // Everybody was told before.
                first.get_or_insert(prompt);
                continue;
            };
            self.state().presence.forget(&prompt.id);
            if let Some(decision) = prompt.decision.clone() {
                // The call may have stopped waiting; the decision is in the store.
                let _ = waiting.wake.send(decision);
            }
            let _ = self.changes.send(Change::Resolved(prompt.clone()));
            first.get_or_insert(prompt);
        }
        first
    }

    /// Listens to prompts: those that are open now, and every change from now on.
    pub async fn listen(self: &Arc<Self>, interest: Subscription) -> Listener {
        let _gate = self.gate.lock().await;
        let mut state = self.state();
        let snapshot = state
            .waiting
            .values()
            .map(|waiting| waiting.prompt.clone())
            .filter(|prompt| interest.covers(prompt))
            .collect();
        let visit = state.presence.enter(interest);
        self.visits.notify_waiters();
        Listener {
            snapshot,
            changes: self.changes.subscribe(),
            visit,
            broker: self.clone(),
        }
    }

    /// Lists stored prompts in the order of their arrival.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        self.store.prompts(filter, limit).await
    }

    /// Returns a stored prompt.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        self.store.prompt(id).await
    }

    /// Returns the run of the service that this broker belongs to.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; should it ever, the maps are still whole.
        self.state.lock()
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

fn unavailable(id: &PromptId, error: &StoreError) -> Refusal {
    tracing::error!(prompt = %id, error = error as &dyn std::error::Error, "a prompt could not be stored");
    Refusal::Unavailable
}
