//! The workers and their workspaces: which worker has what a request names.
//!
//! *Invariant:* a workspace is one worker's. The first one that has it, in the order of their names, keeps it while it says so; what
//! another one says of a workspace of that name does not count and is reported. A worker that is away keeps its workspaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use toolgate_contract::{
    GetWorkspaceRequest, GetWorkspaceResponse, ListWorkspacesRequest, ListWorkspacesResponse, WorkspaceInfo,
};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;

use crate::wire::gone;
use crate::worker::{Facts, Worker};

/// How often workers are asked for their workspaces.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long a worker may take to answer what the gateway asks by itself.
pub(crate) const ASK_TIMEOUT: Duration = Duration::from_secs(2);

const GET_WORKSPACE: &str = "/toolgate.v1.WorkspaceService/GetWorkspace";
const LIST_WORKSPACES: &str = "/toolgate.v1.WorkspaceService/ListWorkspaces";

/// Workspaces on one page, as many as may be.
const PAGE: i32 = 500;

/// The workers.
pub(crate) struct Registry {
    /// In the order of their names.
    pub(crate) workers: Vec<Arc<Worker>>,
    /// Whose each workspace is.
    owners: RwLock<BTreeMap<String, usize>>,
    /// When the last round of questions to all workers began.
    asked: tokio::sync::Mutex<Option<Instant>>,
    /// What was reported already: workspaces that several have.
    contested: Mutex<BTreeSet<(String, String)>>,
}

impl Registry {
    pub(crate) fn new(workers: Vec<Worker>) -> Self {
        Self {
            workers: workers.into_iter().map(Arc::new).collect(),
            owners: RwLock::default(),
            asked: tokio::sync::Mutex::default(),
            contested: Mutex::default(),
        }
    }

    /// Asks the workers now and then until `stop`.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        loop {
            self.refresh().await;
            let waited = stop.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await;
            if waited.is_none() {
                return;
            }
            let workers = self.workers.clone();
            let read = tokio::task::spawn_blocking(move || {
                for worker in workers {
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
        join_all(self.workers.iter().map(|worker| learn(worker))).await;
        self.share_out();
        *asked = Some(began);
    }

    /// Says whose each workspace is.
    fn share_out(&self) {
        let facts: Vec<Facts> = self.workers.iter().map(|worker| worker.facts.read().clone()).collect();
        let has = |at: usize, name: &str| facts[at].workspaces.iter().any(|one| one.name == name);
        let mut owners = self.owners.write();
        owners.retain(|name, &mut at| has(at, name));
        for (at, facts) in facts.iter().enumerate() {
            for workspace in facts.workspaces.iter() {
                let owner = *owners.entry(workspace.name.clone()).or_insert(at);
                if owner != at {
                    self.contest(&workspace.name, owner, at);
                }
            }
        }
    }

    fn contest(&self, workspace: &str, owner: usize, other: usize) {
        let (owner, other) = (&self.workers[owner].name, &self.workers[other].name);
        if self.contested.lock().insert((workspace.to_owned(), other.clone())) {
            tracing::error!(
                workspace,
                worker = other.as_str(),
                owner = owner.as_str(),
                "two workers have a workspace of one name: requests go to the owner, what the other one has is not served; give \
                 it another name"
            );
        }
    }

    /// Returns whose a workspace is.
    pub(crate) fn owner(&self, workspace: &str) -> Option<&Arc<Worker>> {
        let at = *self.owners.read().get(workspace)?;
        self.workers.get(at)
    }

    /// Says whether a worker has a workspace now, and nobody else counts for it.
    pub(crate) fn has(&self, worker: &Worker, workspace: &str) -> bool {
        self.owner(workspace).is_some_and(|owner| owner.name == worker.name)
    }

    /// Says whether what a worker has of a workspace counts; of one that is closed everywhere, what any of them has.
    pub(crate) fn counts(&self, worker: &Worker, workspace: &str) -> bool {
        self.owner(workspace).is_none_or(|owner| owner.name == worker.name)
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
        self.all_are_there()?;
        Err(missing)
    }

    fn known(&self, caller: &OnBehalf, named: &str) -> Option<(Arc<Worker>, String)> {
        if !named.is_empty() {
            let worker = self.owner(named).filter(|_| caller.sees(named))?;
            return Some((worker.clone(), named.to_owned()));
        }
        self.workers.iter().find_map(|worker| {
            let workspaces = worker.facts.read().workspaces.clone();
            let first = workspaces
                .iter()
                .find(|one| caller.sees(&one.name) && self.counts(worker, &one.name))?;
            Some((worker.clone(), first.name.clone()))
        })
    }

    /// Says so if a worker is away, which may have what is not found elsewhere.
    pub(crate) fn all_are_there(&self) -> Result<(), Status> {
        let away = self.workers.iter().find(|worker| !worker.facts.read().is_there);
        away.map_or(Ok(()), |worker| Err(gone(&worker.name)))
    }
}

/// Asks a worker for its workspaces.
async fn learn(worker: &Worker) {
    let answer = timeout(ASK_TIMEOUT, workspaces(worker)).await;
    let mut facts = worker.facts.write();
    match answer {
        Ok(Ok((workspaces, roots))) => {
            if !facts.is_there {
                tracing::info!(worker = worker.name, workspaces = workspaces.len(), "a worker is there");
            }
            *facts = Facts {
                is_there: true,
                was_told: false,
                workspaces: workspaces.into(),
                roots: roots.into(),
            };
        }
        Ok(Err(status)) if status.code() == Code::Unauthenticated => {
            let why = format!(
                "it does not know the gateway, by the `token_file` or `certificate` of cluster.workers.{}: {}",
                worker.name,
                status.message()
            );
            away(&mut facts, worker, &why);
        }
        // It is there, and has too much to do.
        Ok(Err(status)) if status.code() == Code::ResourceExhausted && facts.is_there => {}
        Ok(Err(status)) => {
            let lost = worker.why_lost().filter(|_| status.code() == Code::Unavailable);
            let why = lost.unwrap_or_else(|| status.message().to_owned());
            away(&mut facts, worker, &why);
        }
        Err(_) => away(&mut facts, worker, "it does not answer"),
    }
}

/// Returns the workspaces of a worker, its default one first, and the folders below which it opens others.
async fn workspaces(worker: &Worker) -> Result<(Vec<WorkspaceInfo>, Vec<String>), Status> {
    let (mut workspaces, mut page_token) = (Vec::new(), String::new());
    // So that a worker that does not take it for a gateway is found out here, and not by those who call.
    let entry = &OnBehalf::entry_of_gateway();
    let roots = loop {
        let question = ListWorkspacesRequest {
            page_size: PAGE,
            page_token,
        };
        let page: ListWorkspacesResponse = worker.ask(LIST_WORKSPACES, question, Some(entry)).await?;
        workspaces.extend(page.workspaces);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break page.roots;
        }
    };
    let known = worker.facts.read().workspaces.clone();
    let is_one = |name: &str, list: &[WorkspaceInfo]| list.iter().any(|one| one.name == name);
    let are_known = workspaces.len() == known.len() && known.iter().all(|one| is_one(&one.name, &workspaces));
    let default = match known.first().filter(|_| are_known) {
        Some(first) => first.name.clone(),
        // The list has them by name, and does not say which one is meant by an empty name.
        None if workspaces.len() > 1 => {
            let asked = worker
                .ask(GET_WORKSPACE, GetWorkspaceRequest::default(), Some(entry))
                .await;
            let GetWorkspaceResponse { workspace } = asked?;
            workspace.unwrap_or_default().name
        }
        None => String::new(),
    };
    workspaces.sort_by_key(|one| one.name != default);
    Ok((workspaces, roots))
}

fn away(facts: &mut Facts, worker: &Worker, why: &str) {
    if facts.is_there || !facts.was_told {
        tracing::warn!(
            worker = worker.name,
            address = worker.address(),
            why,
            "a worker cannot be used"
        );
    }
    facts.is_there = false;
    facts.was_told = true;
}
