//! Whose each workspace is.
//!
//! *Invariant:* as of the registry, whose part this is. Where there are thousands of workers, sharing out has pauses, so that nothing else
//! waits for it; what is known meanwhile is what was known before, but for workspaces that were let go.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::task::yield_now;
use toolgate_model::InstanceId;

use crate::facts::Facts;
use crate::worker::Worker;

/// How long a worker that has registered itself, and is away, keeps a workspace that another one has.
const HANDOVER: Duration = Duration::from_secs(10);

/// So many workspaces are looked at without a pause: less than a millisecond's work.
const PORTION: usize = 128;

/// The workspaces that are not served of a worker, and why.
type NotServed = Vec<(String, String)>;

/// Which worker has which workspace.
#[derive(Default)]
pub(crate) struct Owners {
    /// The names of workers by those of workspaces. Replaced as a whole.
    known: RwLock<Arc<BTreeMap<String, String>>>,
    /// What was reported already, by the names of workers.
    reported: Mutex<HashMap<String, NotServed>>,
}

/// Lets others have their turn now and then.
#[derive(Default)]
pub(crate) struct Pauses(usize);

impl Pauses {
    /// Takes note that one more was looked at.
    pub(crate) async fn one_more(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(PORTION) {
            yield_now().await;
        }
    }
}

impl Owners {
    /// Returns the name of the worker that has a workspace.
    pub(crate) fn of(&self, workspace: &str) -> Option<String> {
        self.known.read().get(workspace).cloned()
    }

    /// Returns all that are known.
    pub(crate) fn all(&self) -> Arc<BTreeMap<String, String>> {
        self.known.read().clone()
    }

    /// Forgets who had a workspace.
    pub(crate) fn let_go(&self, workspace: &str) {
        let mut known = self.known.write();
        Arc::make_mut(&mut known).remove(workspace);
    }

    /// Says whose each workspace is, and of each worker which ones are not. Of some it is known which run holds them. One round at a time.
    pub(crate) async fn share_out(&self, workers: &[Arc<Worker>], holders: &HashMap<String, InstanceId>) {
        let mut pauses = Pauses::default();
        let facts: Vec<Facts> = workers.iter().map(|worker| worker.facts.read().clone()).collect();
        // One that the configuration lists does not say which run it is.
        let is_held_by_another = |worker: &Worker, name: &str| {
            let registration = worker.registration.read();
            let run = holders.get(name).zip(registration.as_ref());
            run.is_some_and(|(holder, one)| one.run != holder.as_str())
        };
        let places: HashMap<&str, usize> = workers.iter().map(|worker| worker.name.as_str()).zip(0..).collect();
        let mut claims: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, (worker, facts)) in workers.iter().zip(&facts).enumerate() {
            for name in facts.workspaces.iter().map(|one| one.name.as_str()) {
                pauses.one_more().await;
                if worker.may_have(name) && !is_held_by_another(worker, name) {
                    claims.entry(name).or_default().push(at);
                }
            }
        }
        let who_has = |name: &str| claims.get(name).map_or(&[][..], Vec::as_slice);
        let (before, mut owners) = (self.all(), BTreeMap::new());
        for (name, owner) in before.iter() {
            pauses.one_more().await;
            let Some(at) = places.get(owner.as_str()).copied() else {
                continue;
            };
            let is_wanted = || who_has(name).iter().any(|other| *other != at && facts[*other].is_there);
            let is_over = !workers[at].is_listed() && facts[at].is_away_for(HANDOVER);
            if who_has(name).contains(&at) && !(is_over && is_wanted()) {
                owners.insert(name.clone(), owner.clone());
            }
        }
        for (name, run) in holders {
            pauses.one_more().await;
            let holds = |worker: &Worker| {
                let registration = worker.registration.read();
                registration.as_ref().map(|one| one.run == run.as_str())
            };
            // One that the configuration lists does not say which run it is.
            let owner = owners.get(name).and_then(|owner: &String| places.get(owner.as_str()));
            if owner.is_some_and(|at| holds(&workers[*at]) != Some(false)) {
                continue;
            }
            let mut all = who_has(name).iter().map(|at| (&workers[*at], &facts[*at]));
            if let Some((holder, _)) = all.find(|(worker, facts)| facts.is_there && holds(worker) == Some(true)) {
                owners.insert(name.clone(), holder.name.clone());
            }
        }
        let mut of_all = Vec::with_capacity(workers.len());
        for (worker, facts) in workers.iter().zip(&facts) {
            let mut not_served = NotServed::new();
            let registration = worker.registration.read().clone();
            let said = registration.iter().flat_map(|one| one.said.iter());
            let mut names: BTreeSet<&String> = said.collect();
            let found: BTreeSet<&String> = facts.workspaces.iter().map(|one| &one.name).collect();
            names.extend(&found);
            for name in names {
                pauses.one_more().await;
                if let Some(one) = registration.as_ref().filter(|one| !one.may_have.contains(name)) {
                    let why = format!(
                        "the worker {} may not have it: the workspaces of {} at the gateway do not include it",
                        worker.name, one.principal
                    );
                    not_served.push((name.clone(), why));
                    continue;
                }
                if is_held_by_another(worker, name) {
                    let why = "another run of a worker holds it in the store, and nothing else is stored for it";
                    not_served.push((name.clone(), why.to_owned()));
                    continue;
                }
                // One that it is said to have and does not show is not given away.
                let owner = match found.contains(name) && facts.is_there {
                    true => Some(&*owners.entry(name.clone()).or_insert_with(|| worker.name.clone())),
                    false => owners.get(name),
                };
                if let Some(owner) = owner.filter(|owner| **owner != worker.name) {
                    let why = format!("the worker {owner} has a workspace of this name: give it another name");
                    not_served.push((name.clone(), why));
                }
            }
            of_all.push(not_served);
        }
        self.replace(&before, owners);
        self.reported
            .lock()
            .retain(|worker, _| places.contains_key(worker.as_str()));
        for (worker, not_served) in workers.iter().zip(of_all) {
            pauses.one_more().await;
            self.report(worker, &not_served);
            worker.are_not_served(not_served);
        }
    }

    /// Takes in what has become of what was known before, without what was let go meanwhile.
    pub(crate) fn replace(&self, before: &Arc<BTreeMap<String, String>>, mut owners: BTreeMap<String, String>) {
        let mut known = self.known.write();
        if !Arc::ptr_eq(&known, before) {
            owners.retain(|name, _| known.contains_key(name) || !before.contains_key(name));
        }
        *known = Arc::new(owners);
    }

    /// Reports what is not served of a worker, each time that it begins.
    fn report(&self, worker: &Worker, not_served: &NotServed) {
        let mut reported = self.reported.lock();
        let before = match not_served.is_empty() {
            true => reported.remove(&worker.name),
            false => reported.insert(worker.name.clone(), not_served.clone()),
        };
        let before = before.unwrap_or_default();
        for (workspace, why) in not_served.iter().filter(|one| !before.contains(one)) {
            tracing::error!(
                workspace,
                worker = worker.name,
                why,
                "a workspace of a worker is not served"
            );
        }
    }
}
