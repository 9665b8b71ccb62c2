//! What one process knows of the open prompts and of the standing approvals, and whom it tells of changes: the calls that
//! wait here, and those who listen here.
//!
//! *Invariant:* a copy, which decides nothing; the store is right. Each change that this process makes is shown here once the
//! store has it, even if the client or the call that asked for it is gone by then. Changes of other processes are found by
//! looking at the store (`board/looking`). Both pass one gate, so that what was read is never older than what is shown.

mod looking;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedMutexGuard, broadcast, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::{Decision, Grant, InstanceId, Prompt, PromptId, PromptOutcome, PromptState};
use toolgate_store::{Interest, Settled, Settlement, Store, StoreError};
use tracing::Instrument as _;

use super::exchange::{Change, Subscription};
use super::grants::Grants;
use super::presence::Presence;

/// How many changes a slow listener may be behind before it must open again.
const CHANGES_KEPT: usize = 4096;

/// Others are told of each approver who comes, but of many who come at once together.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// A prompt as it was last seen.
struct Shown {
    prompt: Arc<Prompt>,
    /// The number of the store for this state of it.
    revision: u64,
}

pub(super) struct State {
    /// The open prompts that are known here, in the order of their arrival: ids sort by time.
    open: BTreeMap<PromptId, Shown>,
    /// Those on which calls of this process wait.
    waiting: BTreeMap<PromptId, oneshot::Sender<Decision>>,
    pub(super) grants: Grants,
    pub(super) presence: Presence,
    /// Whether somebody looks at the store now and then.
    is_looking: bool,
}

impl State {
    /// Returns the open prompts on which calls of this process wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Arc<Prompt>> {
        let known = self.waiting.keys().filter_map(|id| self.open.get(id));
        known.map(|shown| &shown.prompt)
    }

    /// Returns on how many prompts calls of this process wait.
    pub(super) fn waits(&self) -> usize {
        self.waiting.len()
    }

    /// Says whether a prompt is known to be open.
    pub(super) fn is_open(&self, id: &PromptId) -> bool {
        self.open.contains_key(id)
    }
}

/// Shows the prompts of one run of the service.
pub struct Board {
    pub(super) store: Arc<dyn Store>,
    instance: InstanceId,
    /// Serializes what changes prompts and grants here; the store is asked while it is held. Between processes the
    /// transactions of the store do the same.
    gate: Arc<tokio::sync::Mutex<()>>,
    /// What is open, what is granted, who is there. Never held across an await.
    state: Mutex<State>,
    /// An approver came or left.
    pub(super) visits: Notify,
    /// What other processes were last told of those who listen here, and when.
    told: tokio::sync::Mutex<Option<(Vec<Interest>, Instant)>>,
    changes: broadcast::Sender<Change>,
    /// Changes under way; each is done to its end.
    tasks: TaskTracker,
    /// Nobody looks at the store any more.
    over: CancellationToken,
    /// Since when the store cannot be asked.
    outages: looking::Outages,
}

/// A prompt that is open, and the decision that will come.
pub struct Opened {
    /// The prompt.
    pub prompt: Arc<Prompt>,
    /// Gets the decision; closed only when the service ends, or when the prompt is not stored any more.
    pub decision: oneshot::Receiver<Decision>,
    /// For how long it still waits; for ever if none.
    pub left: Option<Duration>,
}

/// Listens to prompts; dropping it stops.
pub struct Listener {
    /// The prompts that were open when the listener came.
    pub snapshot: Vec<Arc<Prompt>>,
    /// What changed since; filter it by [`Subscription::covers`].
    pub changes: broadcast::Receiver<Change>,
    visit: u64,
    board: Arc<Board>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.board.state().presence.leave(self.visit, Instant::now());
        self.board.visits.notify_waiters();
    }
}

impl Board {
    pub(super) fn new(store: Arc<dyn Store>, instance: InstanceId) -> Self {
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        Self {
            store,
            instance,
            gate: Arc::default(),
            state: Mutex::new(State {
                open: BTreeMap::new(),
                waiting: BTreeMap::new(),
                grants: Grants::default(),
                presence: Presence::new(Instant::now()),
                is_looking: false,
            }),
            visits: Notify::new(),
            told: tokio::sync::Mutex::default(),
            changes,
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
            outages: looking::Outages::default(),
        }
    }

    /// Returns the run of the service that this is a part of.
    pub(super) fn instance(&self) -> &InstanceId {
        &self.instance
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; should it ever, the maps are still whole.
        self.state.lock()
    }

    /// Takes up the grants that outlast a run of the service.
    pub(super) async fn load(&self) -> Result<(), StoreError> {
        let grants = self.store.grants(&self.instance).await?;
        self.state().grants.add(grants);
        Ok(())
    }

    /// Passes the gate.
    pub(super) async fn pass(&self) -> OwnedMutexGuard<()> {
        self.gate.clone().lock_owned().await
    }

    /// Passes the gate and does `change` to its end, even if the future that waits for it is dropped: a client may be
    /// lost, and a tool stopped, between the moment when the store has decided and the moment when all are told.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let gate = self.pass().await;
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

    /// Waits until the changes that are under way are done, and looks at the store no more.
    pub(super) async fn finish(&self) {
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Shows a prompt on which a call of this process waits. The gate is passed, and the store has the prompt in this state.
    pub(super) fn wait_for(self: &Arc<Self>, prompt: Prompt, revision: u64, age: Duration) -> Opened {
        let prompt = Arc::new(prompt);
        let (wake, decision) = oneshot::channel();
        self.state().waiting.insert(prompt.id.clone(), wake);
        self.show(prompt.clone(), revision);
        self.keep_looking();
        let left = prompt.patience().map(|patience| patience.saturating_sub(age));
        Opened { prompt, decision, left }
    }

    /// Shows an open prompt, and tells listeners what is new about it.
    fn show(&self, prompt: Arc<Prompt>, revision: u64) {
        let shown = Shown {
            prompt: prompt.clone(),
            revision,
        };
        let change = match self.state().open.insert(prompt.id.clone(), shown) {
            None => Change::Added(prompt),
            Some(before) if before.prompt.approvals != prompt.approvals => Change::Approved(prompt),
            // Another run waits for it now.
            Some(_) => return,
        };
        // No listener is no fault: the prompt is stored.
        let _ = self.changes.send(change);
    }

    /// Shows another approval of a prompt. The gate is passed.
    pub(super) fn approved(&self, prompt: Arc<Prompt>) {
        let known = self.state().open.get(&prompt.id).map(|shown| shown.revision);
        if let Some(revision) = known {
            self.show(prompt, revision);
        }
    }

    /// Ends one prompt in the store, and tells of it. The gate is passed. Returns the prompt as it ended, now or before.
    pub(super) async fn end(
        &self,
        id: &PromptId,
        state: PromptState,
        outcome: PromptOutcome,
    ) -> Result<Option<Arc<Prompt>>, StoreError> {
        let only = Settlement {
            prompt: id.clone(),
            state,
            decision: Decision::new(outcome),
            uses: Vec::new(),
        };
        match self.store.settle(only, Vec::new(), Vec::new(), None).await? {
            Settled::Now { prompts } => Ok(self.settled(prompts)),
            Settled::Before(prompt) => Ok(Some(self.ended(*prompt))),
            Settled::Unknown | Settled::Overtaken => Ok(None),
        }
    }

    /// Tells of prompts that this process has settled; returns the first one. The gate is passed.
    pub(super) fn settled(&self, prompts: Vec<Prompt>) -> Option<Arc<Prompt>> {
        let mut first = None;
        for prompt in prompts {
            let prompt = self.ended(prompt);
            first.get_or_insert(prompt);
        }
        first
    }

    /// Wakes the call that waits for a prompt, and tells listeners, unless they were told before.
    pub(super) fn ended(&self, prompt: Prompt) -> Arc<Prompt> {
        let prompt = Arc::new(prompt);
        let (shown, waiting) = {
            let mut state = self.state();
            state.presence.forget(&prompt.id);
            (state.open.remove(&prompt.id), state.waiting.remove(&prompt.id))
        };
        if let (Some(wake), Some(decision)) = (waiting, prompt.decision.clone()) {
            // The call may have stopped waiting; the decision is in the store.
            let _ = wake.send(decision);
        }
        if shown.is_some() {
            let _ = self.changes.send(Change::Resolved(prompt.clone()));
        }
        prompt
    }

    /// Adds what a reply has granted, as far as it holds for this run.
    pub(super) fn granted(&self, grants: Vec<Grant>) {
        let here = |grant: &Grant| grant.scope.reach.outlasts_the_run() || grant.owner == self.instance;
        self.state().grants.add(grants.into_iter().filter(here));
    }

    /// Listens to prompts: those that are open now, and every change from now on.
    pub(super) async fn listen(self: &Arc<Self>, interest: Subscription) -> Result<Listener, StoreError> {
        let _gate = self.pass().await;
        self.look(true).await?;
        let listener = {
            let mut state = self.state();
            let open = state.open.values().map(|shown| shown.prompt.clone());
            Listener {
                snapshot: open.filter(|prompt| interest.covers(prompt)).collect(),
                changes: self.changes.subscribe(),
                visit: state.presence.enter(interest),
                board: self.clone(),
            }
        };
        self.visits.notify_waiters();
        self.tell_who_listens(LEAST_PAUSE).await;
        self.keep_looking();
        Ok(listener)
    }
}
