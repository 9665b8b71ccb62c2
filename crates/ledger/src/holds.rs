//! The workspaces that this run has, and for how long.
//!
//! *Invariant:* whoever hears that another run has taken a workspace over stops this run, unless nothing of that workspace goes on here:
//! then nothing is lost, and it is taken again. The lease is renewed while there is something that others would take for lost, and only
//! then: an idle worker costs nothing. Time is measured by this machine alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use toolgate_contract::cluster::{BindRequest, BindResponse, ReleaseRequest, RenewLeaseRequest};
use toolgate_model::{CallId, CallRecord, InstanceId, OutputId, WorkspaceSet};
use toolgate_store::StoreError;
use toolgate_store::ledger::Hold;
use toolgate_store::outage::Outage;

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

/// What goes on in the workspaces of this run.
#[derive(Default)]
struct Work {
    /// The calls that have not ended, with their workspaces.
    calls: HashMap<CallId, String>,
    /// Calls that are being created: how often at once. Each may be stored already.
    created: HashMap<CallId, usize>,
    /// The outputs that are on their way, with their workspaces, and whether a gateway has some of them.
    outputs: HashMap<OutputId, (String, bool)>,
}

impl Work {
    /// Says whether there is nothing to renew the lease for.
    fn is_over(&self) -> bool {
        self.calls.is_empty() && self.outputs.is_empty()
    }

    /// Says whether something would be lost if another run had had the workspace meanwhile.
    fn is_at_stake(&self, workspace: &str) -> bool {
        let begun = |(of, has_begun): &(String, bool)| *has_begun && of == workspace;
        self.calls.values().any(|of| of == workspace) || self.outputs.values().any(begun)
    }

    /// Returns the workspaces in which something goes on.
    fn places(&self) -> BTreeSet<String> {
        let outputs = self.outputs.values().map(|(of, _)| of);
        self.calls.values().chain(outputs).cloned().collect()
    }
}

/// A call that is being created, for as long as this is there.
pub(crate) struct BeingCreated<'a> {
    holds: &'a Holds,
    id: CallId,
}

impl Drop for BeingCreated<'_> {
    fn drop(&mut self) {
        let mut work = self.holds.doing.lock();
        if let Some(count) = work.created.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                work.created.remove(&self.id);
            }
        }
    }
}

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
    /// What goes on.
    doing: Mutex<Work>,
    /// There is something to renew the lease for.
    work: Notify,
    /// Until when the lease is renewed often.
    hurry: Mutex<Option<Instant>>,
    /// The workspaces whose calls of earlier runs were taken over, and by which epoch of the hold.
    adopted: Mutex<HashMap<String, u64>>,
}

impl Holds {
    pub(crate) fn new(options: &LedgerOptions) -> Self {
        Self {
            gateways: Gateways::new(options),
            run: options.run.clone(),
            address: options.address.clone(),
            own_lease: options.lease,
            lease: AtomicU64::default(),
            noted: AtomicU64::default(),
            held: Mutex::default(),
            binding: tokio::sync::Mutex::default(),
            doing: Mutex::default(),
            work: Notify::new(),
            hurry: Mutex::default(),
            adopted: Mutex::default(),
        }
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

    /// Returns one of what this run has; one in which something goes on, if there is such.
    pub(crate) fn any(&self) -> Option<Hold> {
        self.by_need().0.into_iter().next()
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

    /// Sends a change. If this run has lost the workspace, it is taken again where nothing is lost by that; else this run stops.
    pub(crate) async fn change<Q: Rpc>(&self, mut question: Q) -> Result<Q::Answer, StoreError> {
        let refused = question
            .holding()
            .map(|holding| wire::of_holding(holding.clone(), String::new()));
        let answer = self.gateways.ask(question.clone()).await;
        let (Err(StoreError::Fenced(_)), Some(refused)) = (&answer, refused) else {
            return self.heed(answer);
        };
        let Some(hold) = self.bind_again(&refused).await? else {
            return self.heed(answer);
        };
        if let Some(holding) = question.holding() {
            *holding = wire::holding(&hold);
        }
        self.heed(self.gateways.ask(question).await)
    }

    /// Stops this run if it has lost its workspace.
    pub(crate) fn heed<A>(&self, answer: Result<A, StoreError>) -> Result<A, StoreError> {
        if let Err(StoreError::Fenced(why)) = &answer {
            self.gateways.stop(why);
        }
        answer
    }

    /// Takes a workspace again that another run may have had meanwhile, as a change was refused. Only where nothing goes on: there this
    /// run has lost nothing. Of several that are refused at once, the first one does it for all.
    async fn bind_again(&self, refused: &Hold) -> Result<Option<Hold>, StoreError> {
        let workspace = &refused.workspace;
        let known = || self.held.lock().get(workspace).cloned();
        let _binding = self.binding.lock().await;
        if let Some(hold) = known().filter(|hold| hold.epoch != refused.epoch) {
            return Ok(Some(hold));
        }
        if self.doing.lock().is_at_stake(workspace) {
            return Ok(None);
        }
        match self.bind(std::slice::from_ref(workspace), Duration::ZERO).await {
            Ok(()) => Ok(known()),
            Err(StoreError::Conflict(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes what goes on.
    fn go_on(&self, change: impl FnOnce(&mut Work)) {
        let mut work = self.doing.lock();
        let was_over = work.is_over();
        change(&mut work);
        if work.is_over() {
            return;
        }
        if was_over {
            // Nobody had to be reached before.
            self.gateways.begin_to_listen();
        }
        drop(work);
        self.work.notify_one();
    }

    /// Takes note of a call as it is now.
    pub(crate) fn note(&self, record: &CallRecord) {
        self.go_on(|work| {
            if record.state.is_terminal() {
                work.calls.remove(&record.id);
            } else {
                work.calls.insert(record.id.clone(), record.origin.workspace.clone());
            }
        });
    }

    /// Takes note that a call is being created: nobody takes it for one that an earlier run has left.
    pub(crate) fn creates(&self, id: &CallId) -> BeingCreated<'_> {
        *self.doing.lock().created.entry(id.clone()).or_default() += 1;
        BeingCreated {
            holds: self,
            id: id.clone(),
        }
    }

    /// Takes note that an output is to be sent, and whether a gateway has some of it.
    pub(crate) fn sends(&self, output: &OutputId, workspace: &str, has_begun: bool) {
        self.go_on(|work| {
            work.outputs.insert(output.clone(), (workspace.to_owned(), has_begun));
        });
    }

    /// Takes note that an output is sent no more.
    pub(crate) fn has_sent(&self, output: &OutputId) {
        self.doing.lock().outputs.remove(output);
    }

    /// Returns the workspace of a call that has not ended.
    pub(crate) fn workspace_of(&self, call: &CallId) -> Option<String> {
        self.doing.lock().calls.get(call).cloned()
    }

    /// Says whether this run makes a call, or has made it.
    pub(crate) fn is_own(&self, call: &CallId) -> bool {
        let work = self.doing.lock();
        work.calls.contains_key(call) || work.created.contains_key(call)
    }

    /// Returns what this run has whose calls of earlier runs nobody has taken over.
    pub(crate) fn not_adopted(&self) -> Vec<Hold> {
        let adopted = self.adopted.lock();
        let is_new = |hold: &Hold| adopted.get(&hold.workspace) != Some(&hold.epoch);
        self.all().into_iter().filter(is_new).collect()
    }

    /// Takes note that the calls which earlier runs left have been taken over.
    pub(crate) fn adopted(&self, holds: Vec<Hold>) {
        let epochs = holds.into_iter().map(|hold| (hold.workspace, hold.epoch));
        self.adopted.lock().extend(epochs);
    }

    /// Says whether something goes on in a workspace that this run has no more.
    fn is_lost(&self, gone: &Hold) -> bool {
        let held = self.held.lock().get(&gone.workspace).cloned();
        // It may have been taken again meanwhile.
        held.as_ref() == Some(gone) && self.doing.lock().is_at_stake(&gone.workspace)
    }

    /// Returns what this run has: first that in which something goes on, and how much of it that is.
    fn by_need(&self) -> (Vec<Hold>, usize) {
        let places = self.doing.lock().places();
        let (mut first, rest): (Vec<Hold>, Vec<Hold>) = self
            .all()
            .into_iter()
            .partition(|hold| places.contains(&hold.workspace));
        let count = first.len();
        first.extend(rest);
        (first, count)
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
        let (mut renewed, outage) = (Instant::now(), Outage::default());
        loop {
            let step = self.step();
            if self.doing.lock().is_over() {
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
            let (holds, at_work) = self.by_need();
            let Some(hold) = holds.first().filter(|_| at_work > 0) else {
                continue;
            };
            let question = RenewLeaseRequest {
                holding: Some(wire::holding(hold)),
                holdings: holds.iter().take(at_work).map(wire::holding).collect(),
            };
            // No longer than until it is time to stop; one gateway that does not answer must not use all of it up.
            let patience = self.lease().saturating_sub(self.gateways.silence());
            let times = (patience, self.lease() / 3);
            match self.heed(self.gateways.ask_everyone(times, question).await) {
                Ok(answer) if !answer.renewed => {
                    self.gateways
                        .stop("the lease of this run is over, so others may have its workspaces");
                    return;
                }
                Ok(answer) => {
                    let _ = outage.is_over();
                    let gone = answer
                        .gone
                        .into_iter()
                        .map(|holding| wire::of_holding(holding, String::new()));
                    if let Some(gone) = gone.into_iter().find(|gone| self.is_lost(gone)) {
                        let why = format!("another run may have the workspace {}", gone.workspace);
                        self.gateways.stop(&why);
                        return;
                    }
                }
                Err(error) => {
                    if outage.fails().is_some() {
                        tracing::warn!(%error, "the lease could not be renewed; it is tried again");
                    }
                }
            }
        }
    }

    /// Gives up everything.
    pub(crate) async fn release(&self) -> Result<(), StoreError> {
        // What the run still has speaks for all of it.
        for hold in self.by_need().0 {
            let question = ReleaseRequest {
                holding: Some(wire::holding(&hold)),
            };
            match self.gateways.ask_for(RELEASE_PATIENCE, question).await {
                Ok(_) => break,
                // Somebody else has it: there is nothing to give up.
                Err(StoreError::Fenced(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.held.lock().clear();
        Ok(())
    }
}
