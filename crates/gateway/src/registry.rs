//! The workers and their workspaces: which worker has what a request names.
//!
//! *Invariant:* a workspace is one worker's. The first one that has it, in the order of their names, keeps it while it says so; what
//! another one says of a workspace of that name does not count and is reported. A worker that is away keeps its workspaces; but one
//! that has registered itself keeps them for `HANDOVER` (`owners.rs`) only, if another one has them. Where there is a store, one that has
//! registered itself has what no other run holds there, and gives way at once to who does. What a worker may not have does not count.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use toolgate_model::InstanceId;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;
use toolgate_store::ledger::Ledger;

use crate::learn::learn;
use crate::owners::{Owners, Pauses};
use crate::wire::gone;
use crate::worker::Worker;

/// Workspaces that a worker says to have.
pub(crate) const MAX_WORKSPACES: usize = 10_000;

/// How often workers are asked for their workspaces, and how long one may take to answer what the gateway asks by itself.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
pub(crate) const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// So many workers at most are asked in a round although they have not said that anything is new: where there are more, each has its turn
/// less often.
const ASKED_AGAIN: usize = 500;

/// Where there are more, so many of those are asked in a round that are registered: what they have is known from what they say, and so is
/// that they go. Whoever wants something of one that cannot be reached finds that out, too. To ask takes a connection.
const REGISTERED_ASKED_AGAIN: usize = 50;

/// So many are asked at once.
const ASKED_AT_ONCE: usize = 512;

/// How long a connection to a worker is kept that nobody uses: once to twice this time.
const IDLE: Duration = Duration::from_secs(6);

/// How long a worker that has registered itself is remembered when it is away.
pub(crate) const MEMORY: Duration = Duration::from_secs(300);

/// The workers.
pub(crate) struct Registry {
    /// In the order of their names. Replaced as a whole.
    workers: watch::Sender<Arc<[Arc<Worker>]>>,
    /// Whose each workspace is.
    owners: Owners,
    /// When the last round of questions to all workers began.
    asked: tokio::sync::Mutex<Option<Instant>>,
    /// Knows which runs hold workspaces, if there is a store.
    ledger: Option<Arc<dyn Ledger>>,
}

impl Registry {
    pub(crate) fn new(mut workers: Vec<Worker>, ledger: Option<Arc<dyn Ledger>>) -> Self {
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        Self {
            workers: watch::Sender::new(workers.into_iter().map(Arc::new).collect()),
            owners: Owners::default(),
            asked: tokio::sync::Mutex::default(),
            ledger,
        }
    }

    /// Returns the workers that are known now, in the order of their names.
    pub(crate) fn workers(&self) -> Arc<[Arc<Worker>]> {
        self.workers.borrow().clone()
    }

    /// Returns those that may have a workspace which a caller sees, in the order of their names. The others are not asked on its
    /// behalf: they learn nothing of the caller, and do not hold it up.
    pub(crate) fn workers_for(&self, caller: &OnBehalf) -> Vec<Arc<Worker>> {
        let workers = self.workers.borrow();
        workers
            .iter()
            .filter(|worker| worker.may_serve(caller))
            .cloned()
            .collect()
    }

    /// Returns the workers that are known now, and tells of others that come and go.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<[Arc<Worker>]>> {
        self.workers.subscribe()
    }

    /// Finds a worker by its name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Worker>> {
        let workers = self.workers.borrow();
        let at = workers.binary_search_by(|worker| worker.name.as_str().cmp(name)).ok()?;
        workers.get(at).cloned()
    }

    /// Returns how many workers of a principal have registered themselves, those that are away included.
    pub(crate) fn registered_by(&self, principal: &str) -> usize {
        let workers = self.workers.borrow();
        let is_of = |worker: &&Arc<Worker>| {
            let registration = worker.registration.read();
            registration.as_ref().is_some_and(|one| one.principal == principal)
        };
        workers.iter().filter(is_of).count()
    }

    /// Finds a worker by what names it in the path of an opened port.
    pub(crate) fn named_in_path(&self, named: &str) -> Option<Arc<Worker>> {
        let name = named.split_once('.').map_or(named, |(name, _)| name);
        self.named(name).filter(|worker| worker.name_in_paths() == named)
    }

    /// Takes in a worker that has registered itself.
    pub(crate) fn add(&self, worker: Arc<Worker>) {
        self.workers.send_modify(|workers| {
            let (before, behind) = workers.split_at(workers.partition_point(|one| one.name <= worker.name));
            *workers = before.iter().chain([&worker]).chain(behind).cloned().collect();
        });
    }

    /// Tells those who follow the workers that one of them may have other workspaces now.
    pub(crate) fn renewed(&self) {
        self.workers.send_modify(|_| ());
    }

    /// Forgets the workers that had registered themselves and have been away for long.
    fn forget(&self) {
        let is_gone = |worker: &Arc<Worker>| {
            let has_seat = worker.registration.read().as_ref().is_none_or(|one| one.seat.is_some());
            !has_seat && worker.facts.read().is_away_for(MEMORY)
        };
        self.workers.send_if_modified(|workers| {
            let is_some_gone = workers.iter().any(is_gone);
            if is_some_gone {
                for worker in workers.iter().filter(|worker| is_gone(worker)) {
                    tracing::info!(worker = worker.name, "a worker that was away for long is forgotten");
                }
                *workers = workers.iter().filter(|worker| !is_gone(worker)).cloned().collect();
            }
            is_some_gone
        });
    }

    /// Asks the workers now and then until `stop`, and closes the connections that nobody uses.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let mut hung_up = Instant::now();
        loop {
            self.refresh().await;
            if hung_up.elapsed() >= IDLE {
                hung_up = Instant::now();
                self.workers().iter().for_each(|worker| worker.lines.hang_up(false));
            }
            let waited = stop.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await;
            if waited.is_none() {
                return;
            }
            let workers = self.workers();
            let read = tokio::task::spawn_blocking(move || {
                for worker in workers.iter() {
                    if let Err(error) = worker.read_token() {
                        tracing::error!(%error, worker = worker.name, "the token for a worker cannot be read again");
                    }
                }
            });
            if let Err(error) = read.await {
                tracing::error!(%error, "the tokens for workers could not be read again");
            }
        }
    }

    /// Asks all workers for their workspaces. Those who want it while a round is under way share the next one, so that nobody
    /// floods the workers by asking for what is not there.
    pub(crate) async fn refresh(&self) {
        let wanted = Instant::now();
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|began| began > wanted) {
            return;
        }
        let began = Instant::now();
        let are_many = self.workers().len() > ASKED_AGAIN;
        stream::iter(self.due())
            .for_each_concurrent(ASKED_AT_ONCE, |worker| async move {
                let had_line = !worker.lines.is_empty();
                learn(&worker).await;
                // Of thousands that come at once, or one after the other, each would have one for a while.
                if are_many && !had_line {
                    worker.lines.hang_up(true);
                }
            })
            .await;
        self.forget();
        let holders = self.holders().await;
        self.share_out(&holders).await;
        *asked = Some(began);
    }

    /// Returns the workers that are asked in a round: those that have something new to say, and of the others so many as may be asked
    /// of them: those that were not asked for longest, of which no more than half are away, and few are registered.
    fn due(&self) -> Vec<Arc<Worker>> {
        let workers = self.workers();
        if workers.len() <= ASKED_AGAIN {
            return workers.to_vec();
        }
        // One that has ended is not asked; that it is away is to be known at once.
        let has_ended = |worker: &Worker| worker.has_left() && worker.facts.read().is_there;
        let is_urgent = |worker: &Arc<Worker>| worker.has_news.load(Ordering::Acquire) || has_ended(worker);
        let (mut due, others): (Vec<_>, Vec<_>) = workers.iter().cloned().partition(is_urgent);
        let (there, mut away): (Vec<_>, Vec<_>) = others.into_iter().partition(|one| one.facts.read().is_there);
        let (mut registered, mut there): (Vec<_>, Vec<_>) = there.into_iter().partition(|one| one.is_registered());
        for (some, most) in [
            (&mut away, ASKED_AGAIN / 2),
            (&mut there, ASKED_AGAIN / 2),
            (&mut registered, REGISTERED_ASKED_AGAIN),
        ] {
            some.sort_by_cached_key(|worker| worker.asked());
            some.truncate(most);
            due.append(some);
        }
        due
    }

    /// Returns which runs hold in the store what workers have. While it is away nothing is known.
    async fn holders(&self) -> HashMap<String, InstanceId> {
        let Some(ledger) = &self.ledger else {
            return HashMap::new();
        };
        let (mut names, mut pauses) = (Vec::new(), Pauses::default());
        for worker in self.workers().iter() {
            pauses.one_more().await;
            let workspaces = worker.facts.read().workspaces.clone();
            let its_own = workspaces.iter().filter(|one| worker.may_have(&one.name));
            names.extend(its_own.map(|one| one.name.clone()));
        }
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return HashMap::new();
        }
        match timeout(ASK_TIMEOUT, ledger.holders(&names)).await {
            Ok(Ok(holders)) => holders,
            Ok(Err(error)) => {
                tracing::debug!(%error, "it cannot be looked who holds workspaces");
                HashMap::new()
            }
            Err(_) => HashMap::new(),
        }
    }

    /// Says whose each workspace is. Of some it is known which run holds them.
    async fn share_out(&self, holders: &HashMap<String, InstanceId>) {
        self.owners.share_out(&self.workers(), holders).await;
    }

    /// Returns whose a workspace is.
    pub(crate) fn owner(&self, workspace: &str) -> Option<Arc<Worker>> {
        self.named(&self.owners.of(workspace)?)
    }

    /// Returns the names of all workspaces that are served.
    pub(crate) fn served(&self) -> Vec<String> {
        self.owners.all().keys().cloned().collect()
    }

    /// Forgets who had a workspace that was deleted.
    pub(crate) fn let_go(&self, workspace: &str) {
        self.owners.let_go(workspace);
        for worker in self.workers().iter() {
            worker.facts.write().lose(workspace);
        }
    }

    /// Says whether operators are told of a worker: of one that is away only if somebody misses it.
    pub(crate) fn tells_of(&self, worker: &Worker) -> bool {
        let facts = worker.facts.read().clone();
        if facts.is_there || worker.is_listed() {
            return true;
        }
        let owners = self.owners.all();
        let is_elsewhere = |name: String| owners.get(&name).is_some_and(|owner| *owner != worker.name);
        let is_replaced = !facts.workspaces.is_empty() && facts.names().all(is_elsewhere);
        !(facts.has_lost_all || facts.is_excused || is_replaced || worker.has_left_in_order())
    }

    /// Says whether a worker has a workspace now, and nobody else counts for it.
    pub(crate) fn has(&self, worker: &Worker, workspace: &str) -> bool {
        self.owners.all().get(workspace) == Some(&worker.name)
    }

    /// Says whether what a worker has of a workspace counts; of one that is closed everywhere, what any of them has that may have
    /// it.
    pub(crate) fn counts(&self, worker: &Worker, workspace: &str) -> bool {
        let owners = self.owners.all();
        let is_its_own = owners.get(workspace).is_none_or(|owner| *owner == worker.name);
        let is_refused = || worker.not_served.read().iter().any(|(name, _)| name == workspace);
        is_its_own && worker.may_have(workspace) && !is_refused()
    }

    /// Finds the worker of a workspace that a caller names, and the name of it: an empty one means the first that the caller may
    /// see, in the order of the workers and of theirs.
    pub(crate) async fn place(&self, caller: &OnBehalf, named: &str) -> Result<(Arc<Worker>, String), Status> {
        if let Some(found) = self.known(caller, named) {
            return Ok(found);
        }
        let missing = status::not_found("workspace", named);
        if !named.is_empty() && !caller.sees(named) {
            return Err(missing);
        }
        // It may have been opened a moment ago, at a worker or by a worker that has just come.
        self.refresh().await;
        if let Some(found) = self.known(caller, named) {
            return Ok(found);
        }
        if self.was_never_held(named).await {
            return Err(missing);
        }
        self.all_are_there(caller)?;
        Err(missing)
    }

    /// Says whether it is known that a run does not hold a workspace any more: nothing of what it had runs then.
    pub(crate) async fn is_over(&self, run: &InstanceId, workspace: &str) -> bool {
        let Some(ledger) = &self.ledger else { return false };
        match timeout(ASK_TIMEOUT, ledger.holders(&[workspace.to_owned()])).await {
            Ok(Ok(holders)) => holders.get(workspace) != Some(run),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Says whether it is known that no worker ever had a workspace, which one that is away could not have then.
    async fn was_never_held(&self, named: &str) -> bool {
        let Some(ledger) = self.ledger.as_ref().filter(|_| !named.is_empty()) else {
            return false;
        };
        // One that the configuration lists may have it without the store.
        if self.workers().iter().any(|worker| worker.is_listed()) {
            return false;
        }
        let looked = timeout(ASK_TIMEOUT, ledger.was_held(named)).await;
        matches!(looked, Ok(Ok(false)))
    }

    fn known(&self, caller: &OnBehalf, named: &str) -> Option<(Arc<Worker>, String)> {
        if !named.is_empty() {
            let worker = self.owner(named).filter(|_| caller.sees(named))?;
            return Some((worker, named.to_owned()));
        }
        self.workers().iter().find_map(|worker| {
            let workspaces = worker.facts.read().workspaces.clone();
            let first = workspaces
                .iter()
                .find(|one| caller.sees(&one.name) && self.counts(worker, &one.name))?;
            Some((worker.clone(), first.name.clone()))
        })
    }

    /// Says so if a worker is away, which may have what a caller does not find elsewhere.
    fn all_are_there(&self, caller: &OnBehalf) -> Result<(), Status> {
        let workers = self.workers_for(caller);
        let away = workers.iter().find(|worker| !worker.facts.read().is_there);
        away.map_or(Ok(()), |worker| Err(gone(&worker.name)))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_config::service::WorkerConfig;
    use toolgate_contract::WorkspaceInfo;
    use toolgate_model::WorkspaceSet;
    use toolgate_server::app::registration::GRACE;

    use super::*;
    use crate::facts::Facts;
    use crate::learn::Taken;
    use crate::worker::Registration;

    /// A worker that is there and has `main`.
    fn worker(name: &str, run: &str) -> Worker {
        let config = WorkerConfig {
            name: name.to_owned(),
            address: "http://127.0.0.1:1".to_owned(),
            token_file: None,
            certificate: None,
            key: None,
            ca: None,
        };
        let registration = Registration {
            principal: "token:worker".to_owned(),
            may_have: WorkspaceSet::ALL,
            run: run.to_owned(),
            said: Arc::new(["main".to_owned()]),
            seat: Some(1),
            left: None,
            draining: false,
            pool: None,
        };
        let token = "Bearer secret".parse().unwrap();
        let worker = Worker::registered(config, token, registration, 1 << 20).unwrap();
        let main = WorkspaceInfo {
            name: "main".to_owned(),
            ..WorkspaceInfo::default()
        };
        *worker.facts.write() = Facts {
            is_there: true,
            workspaces: Arc::new([main]),
            ..Facts::default()
        };
        worker
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_workers_those_with_news_are_asked_until_they_have_answered() {
        let name = |number: usize| format!("worker-{number:03}");
        let workers = (0..ASKED_AGAIN * 2).map(|number| worker(&name(number), "run"));
        let registry = Registry::new(workers.collect(), None);
        let one = registry.named(&name(0)).unwrap();
        let is_due = || registry.due().iter().any(|worker| Arc::ptr_eq(worker, &one));
        assert_eq!(registry.due().len(), ASKED_AGAIN * 2, "all are new");
        for worker in registry.workers().iter() {
            Taken::of(worker).are_known();
        }
        // It was asked last of all, so that it is not its turn.
        one.is_asked();
        assert_eq!((registry.due().len(), is_due()), (REGISTERED_ASKED_AGAIN, false));
        one.is_news();
        assert!(is_due() && is_due(), "to look is not to ask");
        drop(Taken::of(&one));
        assert!(is_due(), "whoever asked went away");
        Taken::of(&one).are_known();
        assert!(!is_due());
        let asked = Taken::of(&one);
        one.is_news();
        asked.are_known();
        assert!(is_due(), "what came meanwhile is new");
        Taken::of(&one).are_known();

        one.registration.write().as_mut().unwrap().left = Some(Instant::now());
        assert!(!is_due(), "it may come back");
        tokio::time::advance(GRACE + Duration::from_millis(1)).await;
        assert!(is_due(), "it has ended");
        learn(&one).await;
        assert!(!one.facts.read().is_there);
    }

    #[tokio::test]
    async fn who_holds_a_workspace_in_the_store_has_it() {
        let registry = Registry::new(vec![worker("a", "run-a"), worker("b", "run-b")], None);
        let owner = || registry.owner("main").map(|worker| worker.name.clone());
        let held_by = |run: &str| HashMap::from([("main".to_owned(), InstanceId::from(run))]);
        registry.share_out(&HashMap::new()).await;
        assert_eq!(owner().as_deref(), Some("a"), "the first one");
        for (holders, expected) in [
            (held_by("run-b"), Some("b")),
            // Nobody holds it any more, or it is not known who does.
            (HashMap::new(), Some("b")),
            // Who is not here: those who are have it no more, whatever they say.
            (held_by("run-of-nobody"), None),
            (held_by("run-a"), Some("a")),
        ] {
            registry.share_out(&holders).await;
            assert_eq!(owner().as_deref(), expected, "{holders:?}");
            let not_served = |name: &str| !registry.named(name).unwrap().not_served.read().is_empty();
            assert_eq!(
                (not_served("a"), not_served("b")),
                (expected != Some("a"), expected != Some("b"))
            );
        }
        // One that is not there takes nothing.
        registry.named("b").unwrap().facts.write().is_there = false;
        registry.share_out(&held_by("run-b")).await;
        assert_eq!(owner(), None, "and nobody else has it");
    }

    #[tokio::test]
    async fn others_have_their_turns_while_much_is_shared_out() {
        let name = |number: usize| format!("worker-{number:04}");
        let registry = Registry::new((0..2_000).map(|number| worker(&name(number), "run")).collect(), None);
        for (number, worker) in registry.workers().iter().enumerate() {
            let mut facts = worker.facts.write();
            facts.workspaces = Arc::new([WorkspaceInfo {
                name: name(number),
                ..WorkspaceInfo::default()
            }]);
        }
        let mut turns = 0;
        let others = async {
            loop {
                turns += 1;
                if turns == 5 {
                    registry.let_go(&name(7));
                }
                tokio::task::yield_now().await;
            }
        };
        let shared = async {
            registry.share_out(&HashMap::new()).await;
            registry.share_out(&HashMap::new()).await;
        };
        tokio::select! {
            biased;
            () = shared => {}
            () = others => {}
        }
        assert!(turns > 20, "{turns}");
        assert_eq!(registry.served().len(), 2_000);
    }

    #[tokio::test]
    async fn what_is_let_go_while_it_is_shared_out_does_not_come_back() {
        let registry = Registry::new(vec![worker("a", "run-a")], None);
        registry.share_out(&HashMap::new()).await;
        let before = registry.owners.all();
        registry.let_go("main");
        registry.owners.replace(&before, (*before).clone());
        assert!(registry.served().is_empty());
    }

    #[tokio::test]
    async fn operators_are_told_of_those_that_are_missed() {
        let registry = Registry::new(vec![worker("a", "run-a"), worker("b", "run-b")], None);
        registry.share_out(&HashMap::new()).await;
        let [a, b] = ["a", "b"].map(|name| registry.named(name).unwrap());
        for worker in [&a, &b] {
            worker.facts.write().is_there = false;
        }
        assert!(registry.tells_of(&a), "it has a workspace that is wanted");
        assert!(!registry.tells_of(&b), "another one has it");
        a.facts.write().excuse(|_| false);
        assert!(registry.tells_of(&a));
        a.registration.write().as_mut().unwrap().draining = true;
        assert!(registry.tells_of(&a), "it is still registered");
        a.registration.write().as_mut().unwrap().seat = None;
        assert!(!registry.tells_of(&a), "it said that it stops");
        a.registration.write().as_mut().unwrap().draining = false;
        assert!(registry.tells_of(&a));
        a.facts.write().excuse(|name| name == "main");
        assert!(!registry.tells_of(&a), "its workspace rests");
        a.facts.write().is_excused = false;
        registry.let_go("main");
        assert!(!registry.tells_of(&a), "its workspace was deleted");
    }
}
