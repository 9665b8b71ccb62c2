//! The workspaces that this run has, and for how long.
//!
//! *Invariant:* whoever hears that another run has taken a workspace over stops this run. The lease is renewed while there is something
//! that others would take for lost, and only then: an idle worker costs nothing. Time is measured by this machine alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use toolgate_contract::cluster::{BindRequest, BindResponse, ReleaseRequest, RenewLeaseRequest};
use toolgate_model::{CallId, CallRecord, InstanceId, WorkspaceSet};
use toolgate_store::StoreError;
use toolgate_store::ledger::Hold;

use crate::gateways::Gateways;
use crate::options::LedgerOptions;
use crate::rpc::Rpc;
use crate::wire;

/// The longest wait before a workspace is asked for again.
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// A connection to a gateway broke: so often, and for so long, it is shown that this run lives, as the gateway may think that it does
/// not. Either side may notice it some time after the other one.
const HURRY: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(10));

/// How long it may take to give everything up.
const RELEASE_PATIENCE: Duration = Duration::from_secs(2);

/// What this run has.
pub(crate) struct Holds {
    pub(crate) gateways: Gateways,
    pub(crate) run: InstanceId,
    address: String,
    /// How long this run goes on without a gateway, if it is not for a lease.
    own_lease: Option<Duration>,
    /// How long a lease lasts, in milliseconds, as the gateways say.
    lease: AtomicU64,
    /// How many notes of this run are stored, as it was told.
    noted: AtomicU64,
    held: Mutex<BTreeMap<String, Hold>>,
    /// Held while a workspace is asked for.
    binding: tokio::sync::Mutex<()>,
    /// The calls that have not ended, with their workspaces.
    busy: Mutex<HashMap<CallId, String>>,
    /// There is something to renew the lease for.
    work: Notify,
    /// Until when the lease is renewed often.
    hurry: Mutex<Option<Instant>>,
    /// A workspace was taken since the calls were last looked for that earlier runs have left.
    is_new: AtomicBool,
}

impl Holds {
    pub(crate) fn new(options: &LedgerOptions) -> Result<Self, StoreError> {
        Ok(Self {
            gateways: Gateways::new(options)?,
            run: options.run.clone(),
            address: options.address.clone(),
            own_lease: options.lease,
            lease: AtomicU64::default(),
            noted: AtomicU64::default(),
            held: Mutex::default(),
            binding: tokio::sync::Mutex::default(),
            busy: Mutex::default(),
            work: Notify::new(),
            hurry: Mutex::default(),
            is_new: AtomicBool::new(false),
        })
    }

    /// Takes workspaces, and waits for so long while another run has one of them.
    pub(crate) async fn bind(&self, workspaces: &[String], patience: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            let question = BindRequest {
                run: self.run.to_string(),
                address: self.address.clone(),
                workspaces: workspaces.to_vec(),
                noted: self.noted.load(Ordering::Relaxed),
            };
            let BindResponse {
                holdings,
                held,
                lease_millis,
            } = self.gateways.ask(question).await?;
            self.lease.store(lease_millis.max(1), Ordering::Relaxed);
            let Some(held) = held else {
                let mut all = self.held.lock();
                for holding in holdings {
                    let hold = wire::of_holding(holding, String::new());
                    all.insert(hold.workspace.clone(), hold);
                }
                return Ok(());
            };
            let retry = Duration::from_millis(held.retry_millis).clamp(Duration::from_millis(10), LONGEST_RETRY);
            if begun.elapsed() + retry > patience {
                return Err(StoreError::Conflict(format!(
                    "another run has the workspace {}: end it, or wait until its lease is over",
                    held.workspace
                )));
            }
            if !told {
                tracing::warn!(
                    workspace = held.workspace,
                    "another run has a workspace; waiting for it"
                );
                told = true;
            }
            sleep(retry).await;
        }
    }

    /// Returns that this run has a workspace, which it takes if it is free.
    pub(crate) async fn of(&self, workspace: &str) -> Result<Hold, StoreError> {
        let known = || self.held.lock().get(workspace).cloned();
        if let Some(hold) = known() {
            return Ok(hold);
        }
        let _binding = self.binding.lock().await;
        if let Some(hold) = known() {
            return Ok(hold);
        }
        self.bind(&[workspace.to_owned()], Duration::ZERO).await?;
        self.is_new.store(true, Ordering::Relaxed);
        known().ok_or_else(|| StoreError::Conflict(format!("the gateway does not give the workspace {workspace}")))
    }

    /// Says whether this run has a workspace.
    pub(crate) fn has(&self, workspace: &str) -> bool {
        self.held.lock().contains_key(workspace)
    }

    /// Takes note that so many notes are stored.
    pub(crate) fn has_noted(&self, count: u64) {
        self.noted.store(count, Ordering::Relaxed);
    }

    /// Returns one of what this run has.
    pub(crate) fn any(&self) -> Option<Hold> {
        self.held.lock().values().next().cloned()
    }

    /// Returns all that this run has.
    pub(crate) fn all(&self) -> Vec<Hold> {
        self.held.lock().values().cloned().collect()
    }

    /// Returns the names of the workspaces among these that this run has.
    pub(crate) fn among(&self, wanted: &WorkspaceSet) -> Vec<String> {
        let held = self.held.lock();
        held.keys().filter(|name| wanted.contains(name)).cloned().collect()
    }

    /// Returns the names of all workspaces that this run has.
    pub(crate) fn names(&self) -> Vec<String> {
        self.among(&WorkspaceSet::ALL)
    }

    /// Sends a change, and stops this run if it has lost the workspace.
    pub(crate) async fn change<Q: Rpc>(&self, question: Q) -> Result<Q::Answer, StoreError> {
        self.heed(self.gateways.ask(question).await)
    }

    /// Stops this run if it has lost its workspace.
    pub(crate) fn heed<A>(&self, answer: Result<A, StoreError>) -> Result<A, StoreError> {
        if let Err(StoreError::Fenced(why)) = &answer {
            self.gateways.stop(why);
        }
        answer
    }

    /// Takes a workspace again that another run may have had meanwhile. Only a run that does nothing may: it has lost nothing.
    pub(crate) async fn bind_again(&self, workspace: &str) -> Result<Option<Hold>, StoreError> {
        if !self.busy.lock().is_empty() {
            return Ok(None);
        }
        let names = [workspace.to_owned()];
        match self.bind(&names, Duration::ZERO).await {
            Ok(()) => Ok(self.held.lock().get(workspace).cloned()),
            Err(StoreError::Conflict(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes note of a call as it is now.
    pub(crate) fn note(&self, record: &CallRecord) {
        let mut busy = self.busy.lock();
        if record.state.is_terminal() {
            busy.remove(&record.id);
            return;
        }
        if busy.is_empty() {
            // Nobody had to be reached before.
            self.gateways.begin_to_listen();
        }
        busy.insert(record.id.clone(), record.origin.workspace.clone());
        drop(busy);
        self.work.notify_one();
    }

    /// Returns the workspace of a call that has not ended.
    pub(crate) fn workspace_of(&self, call: &CallId) -> Option<String> {
        self.busy.lock().get(call).cloned()
    }

    /// Says whether a workspace was taken whose earlier calls nobody has looked after.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    /// Takes note that the earlier calls of all workspaces have been looked after.
    pub(crate) fn looked_after(&self) {
        self.is_new.store(false, Ordering::Relaxed);
    }

    /// Takes note that a connection to a gateway broke, which may take this run for dead.
    pub(crate) fn hurry(&self) {
        *self.hurry.lock() = Some(Instant::now() + HURRY.1);
        self.work.notify_one();
    }

    fn lease(&self) -> Duration {
        self.own_lease
            .unwrap_or_else(|| Duration::from_millis(self.lease.load(Ordering::Relaxed)))
    }

    /// Returns how often the lease is renewed.
    fn step(&self) -> Duration {
        let step = self.lease() / 3;
        match *self.hurry.lock() {
            Some(until) if Instant::now() < until => step.min(HURRY.0),
            Some(_) | None => step,
        }
    }

    /// Renews the lease while something goes on, and stops this run when no gateway was reached for a whole lease.
    pub(crate) async fn keep(&self) {
        let mut renewed = Instant::now();
        loop {
            let step = self.step();
            if self.busy.lock().is_empty() {
                self.work.notified().await;
                continue;
            }
            let silence = self.gateways.silence();
            if silence >= self.lease() {
                self.gateways
                    .stop("no gateway was reached for a whole lease, so others may have its workspaces");
                return;
            }
            let until_renewal = step.saturating_sub(renewed.elapsed());
            if !until_renewal.is_zero() {
                // Woken when there is a reason to hurry.
                let _ = timeout(
                    until_renewal.min(self.lease().saturating_sub(silence)),
                    self.work.notified(),
                )
                .await;
                continue;
            }
            renewed = Instant::now();
            let Some(hold) = self.any() else { continue };
            let question = RenewLeaseRequest {
                holding: Some(wire::holding(&hold)),
                holdings: Vec::new(),
            };
            // No longer than until it is time to stop.
            let patience = self.lease().saturating_sub(self.gateways.silence()).min(step);
            match self.heed(self.gateways.ask_for(patience, question).await) {
                Ok(answer) if !answer.renewed => {
                    self.gateways
                        .stop("the lease of this run is over, so others may have its workspaces");
                    return;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the lease could not be renewed; it is tried again"),
            }
        }
    }

    /// Gives up everything.
    pub(crate) async fn release(&self) -> Result<(), StoreError> {
        let Some(hold) = self.any() else { return Ok(()) };
        let question = ReleaseRequest {
            holding: Some(wire::holding(&hold)),
        };
        match self.gateways.ask_for(RELEASE_PATIENCE, question).await {
            // Somebody else has it: there is nothing to give up.
            Ok(_) | Err(StoreError::Fenced(_)) => {}
            Err(error) => return Err(error),
        }
        self.held.lock().clear();
        Ok(())
    }
}
