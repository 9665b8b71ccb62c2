//! What a gateway does for the ledger beside requests: it gathers renewals, and ends what dead runs have left.
//!
//! *Invariant:* one statement renews all that have come within a moment.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::InstanceId;
use toolgate_store::codec::again;
use toolgate_store::ledger::{Hold, Ledger};
use toolgate_store::{StoreError, outage};

use crate::followers::Followers;

/// How long renewals are gathered.
const GATHER: Duration = Duration::from_millis(5);

/// How often it is looked what dead runs have left.
const REAP: Duration = Duration::from_millis(500);

/// How often it is looked how far audit and journal are behind.
const LAG: Duration = Duration::from_secs(5);

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

/// What operators are told of the store and of the dead.
#[derive(Default)]
pub(crate) struct Seen {
    /// Calls that have ended as lost here.
    pub(crate) lost: AtomicU64,
    /// How long the oldest waits that audit and journal do not have yet, in milliseconds.
    pub(crate) lag_millis: AtomicU64,
}

/// Does what is to be done until `stop`; whoever follows then is told of changes until its stream ends.
pub(crate) async fn run(ledger: Arc<dyn Ledger>, followers: Arc<Followers>, seen: Arc<Seen>, stop: CancellationToken) {
    let reaping = stop.run_until_cancelled(reap(&*ledger, &seen));
    let watching = followers.watch(&*ledger, &stop);
    tokio::join!(reaping, watching);
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
