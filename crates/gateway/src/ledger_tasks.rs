//! What a gateway does for the ledger beside requests: it gathers renewals, tells of changed prompts, and ends what dead runs have left.
//!
//! *Invariant:* one statement renews all that have come within a moment. Nothing is asked of the store while nobody follows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::Stream;
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, oneshot};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use toolgate_contract::cluster::follow_response::Message as Told;
use toolgate_contract::cluster::{FollowChanged, FollowHeartbeat, FollowResponse};
use toolgate_ledger::wire::HEARTBEAT;
use toolgate_model::{InstanceId, PromptId, WorkspaceSet};
use toolgate_store::codec::again;
use toolgate_store::ledger::{Hold, Ledger};
use toolgate_store::{StoreError, outage};

/// How long renewals are gathered.
const GATHER: Duration = Duration::from_millis(5);

/// How often it is looked whether prompts have changed, should nobody say so.
const LOOK: Duration = Duration::from_millis(500);

/// How often it is looked what dead runs have left.
const REAP: Duration = Duration::from_millis(500);

/// How often it is looked how far audit and journal are behind.
const LAG: Duration = Duration::from_secs(5);

/// Changes that one follower may be behind; it is told that there were too many then.
const BEHIND: usize = 64;

/// The workspaces of prompts that have changed.
pub(crate) type Changed = Arc<BTreeSet<String>>;

/// Whether a run still has a lease, and what it named and has no more.
type Renewed = (bool, Vec<Hold>);

/// Who asks for a renewal, all that it names, and how it hears of it.
type Waiting = (InstanceId, Vec<Hold>, oneshot::Sender<Result<Renewed, StoreError>>);

/// Renewals that have come within a moment.
pub(crate) struct Renewals {
    ledger: Arc<dyn Ledger>,
    waiting: Mutex<Vec<Waiting>>,
    tasks: TaskTracker,
}

impl Renewals {
    pub(crate) fn new(ledger: Arc<dyn Ledger>) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            waiting: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Renews the lease of a run that has one of these, or that has anything if none is named.
    pub(crate) async fn renew(self: &Arc<Self>, run: InstanceId, holds: Vec<Hold>) -> Result<Renewed, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.lock();
            waiting.push((run, holds, sender));
            waiting.len() == 1
        };
        if is_first {
            // A task of its own: whoever came first may go away.
            let renewals = Arc::clone(self);
            self.tasks.spawn(async move {
                sleep(GATHER).await;
                renewals.send().await;
            });
        }
        let lost = |_| StoreError::Unavailable("the gateway stops".to_owned());
        receiver.await.map_err(lost)?
    }

    async fn send(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let unnamed = waiting.iter().filter(|(_, holds, _)| holds.is_empty());
        let runs: HashSet<InstanceId> = unnamed.map(|(run, ..)| run.clone()).collect();
        let runs: Vec<InstanceId> = runs.into_iter().collect();
        let holds: Vec<Hold> = waiting.iter().flat_map(|(_, holds, _)| holds.clone()).collect();
        let dead = async {
            match runs.is_empty() {
                true => Ok(Vec::new()),
                false => self.ledger.renew_leases(&runs).await,
            }
        };
        let gone = async {
            match holds.is_empty() {
                true => Ok(Vec::new()),
                false => self.ledger.renew_holds(&holds).await,
            }
        };
        let (dead, gone) = tokio::join!(dead, gone);
        for (run, named, waiter) in waiting {
            let renewed = match (named.is_empty(), &dead, &gone) {
                (true, Ok(dead), _) => Ok((!dead.contains(&run), Vec::new())),
                (false, _, Ok(gone)) => {
                    let lost: Vec<Hold> = named.iter().filter(|hold| gone.contains(hold)).cloned().collect();
                    Ok((lost.len() < named.len(), lost))
                }
                (true, Err(error), _) | (false, _, Err(error)) => Err(again(error)),
            };
            // One that has gone away does not want to know.
            let _ = waiter.send(renewed);
        }
    }
}

/// Tells followers in which workspaces prompts have changed.
pub(crate) struct Followers {
    told: broadcast::Sender<Changed>,
    /// It is to be looked at once.
    look: Notify,
}

impl Followers {
    pub(crate) fn new() -> Self {
        Self {
            told: broadcast::Sender::new(BEHIND),
            look: Notify::new(),
        }
    }

    /// Tells whoever follows these workspaces of changes, until `closing`.
    pub(crate) fn told(
        &self,
        reads: WorkspaceSet,
        closing: CancellationToken,
    ) -> impl Stream<Item = Result<FollowResponse, Status>> + Send + use<> {
        // The first word comes at once: so the worker knows that it is heard.
        let begin = (self.follow(), reads, closing, true);
        futures_util::stream::unfold(begin, |(mut changes, reads, closing, is_first)| async move {
            let concerns = |workspace: &str| reads.contains(workspace);
            let next = match is_first {
                true => Some(false),
                false => {
                    let next = next_change(&mut changes, concerns, HEARTBEAT);
                    closing.run_until_cancelled(next).await.flatten()
                }
            };
            let message = match next? {
                true => Told::Changed(FollowChanged {}),
                false => Told::Heartbeat(FollowHeartbeat {}),
            };
            let said = FollowResponse { message: Some(message) };
            Some((Ok(said), (changes, reads, closing, false)))
        })
    }

    fn follow(&self) -> broadcast::Receiver<Changed> {
        let receiver = self.told.subscribe();
        self.look.notify_one();
        receiver
    }

    /// Has it looked at once whether prompts have changed.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    /// Looks for changes until it is no longer polled.
    async fn watch(&self, ledger: &dyn Ledger) {
        let elsewhere = ledger.changed_elsewhere();
        let mut known: HashMap<PromptId, (u64, String)> = HashMap::new();
        loop {
            let hint = async {
                match &elsewhere {
                    Some(elsewhere) => elsewhere.notified().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.look.notified() => {}
                () = hint => {}
                () = sleep(LOOK), if self.told.receiver_count() > 0 => {}
            }
            if self.told.receiver_count() == 0 {
                known.clear();
                continue;
            }
            match changes(ledger, &mut known).await {
                Ok(changed) if changed.is_empty() => {}
                // Nobody may listen any more.
                Ok(changed) => drop(self.told.send(Arc::new(changed))),
                Err(error) => tracing::debug!(%error, "it cannot be looked whether prompts have changed"),
            }
        }
    }
}

/// Finds the workspaces of the prompts that are other ones than those that are known.
async fn changes(
    ledger: &dyn Ledger,
    known: &mut HashMap<PromptId, (u64, String)>,
) -> Result<BTreeSet<String>, StoreError> {
    let open: HashMap<PromptId, u64> = ledger.open_prompts().await?.into_iter().collect();
    let mut changed = BTreeSet::new();
    known.retain(|id, (_, workspace)| {
        let stays = open.contains_key(id);
        if !stays {
            changed.insert(workspace.clone());
        }
        stays
    });
    for (id, revision) in open {
        match known.get_mut(&id) {
            Some((known, _)) if *known == revision => {}
            Some((known, workspace)) => {
                *known = revision;
                changed.insert(workspace.clone());
            }
            None => {
                let Some(prompt) = ledger.prompt(&id).await? else {
                    continue;
                };
                changed.insert(prompt.workspace.clone());
                known.insert(id, (revision, prompt.workspace));
            }
        }
    }
    Ok(changed)
}

/// What operators are told of the store and of the dead.
#[derive(Default)]
pub(crate) struct Seen {
    /// Calls that have ended as lost here.
    pub(crate) lost: AtomicU64,
    /// How long the oldest waits that audit and journal do not have yet, in milliseconds.
    pub(crate) lag_millis: AtomicU64,
}

/// Does what is to be done until `stop`.
pub(crate) async fn run(ledger: Arc<dyn Ledger>, followers: Arc<Followers>, seen: Arc<Seen>, stop: CancellationToken) {
    let reaping = reap(&*ledger, &seen);
    let watching = followers.watch(&*ledger);
    stop.run_until_cancelled(async { tokio::join!(reaping, watching) })
        .await;
}

async fn reap(ledger: &dyn Ledger, seen: &Seen) {
    let (mut is_away, mut looked) = (false, None);
    loop {
        sleep(REAP).await;
        if looked.is_none_or(|looked: Instant| looked.elapsed() > LAG) {
            looked = Some(Instant::now());
            if let Ok(lag) = ledger.lag().await {
                let millis = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
                seen.lag_millis.store(millis, Ordering::Relaxed);
            }
        }
        match ledger.reap().await {
            Ok(ended) => {
                is_away = false;
                seen.lost.fetch_add(ended.len() as u64, Ordering::Relaxed);
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for record in &ended {
                    *counts.entry(&record.origin.workspace).or_default() += 1;
                }
                for (workspace, count) in counts {
                    tracing::warn!(workspace, count, "a worker is dead: its calls have ended as lost");
                }
            }
            Err(error) if !is_away => {
                is_away = true;
                outage::tell(&error, "it cannot be looked what dead workers have left");
            }
            Err(_) => {}
        }
    }
}

/// Waits for the next change in one of these workspaces, or for so long; true if there was one.
async fn next_change(
    changes: &mut broadcast::Receiver<Changed>,
    concerns: impl Fn(&str) -> bool,
    patience: Duration,
) -> Option<bool> {
    let next = async {
        loop {
            match changes.recv().await {
                Ok(changed) if changed.iter().any(|workspace| concerns(workspace)) => return Some(true),
                Ok(_) => {}
                // It may have been among those.
                Err(broadcast::error::RecvError::Lagged(_)) => return Some(true),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    };
    timeout(patience, next).await.unwrap_or(Some(false))
}
