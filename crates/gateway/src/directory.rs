//! Ids and their workers. An id does not say where it belongs: what has passed is remembered, and of the rest all workers are asked.
//!
//! *Invariant:* bounded, in what is remembered, in how many questions are under way, and in how long one takes. An id counts only
//! for those who may see its workspace, and one that two workers have is never guessed.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::codegen::http::HeaderValue;
use tonic::{Code, Status};
use toolgate_contract::{
    GetCallRequest, GetCallResponse, GetOutputRequest, GetOutputResponse, GetPromptRequest, GetPromptResponse,
};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;
use toolgate_telemetry::Metrics;

use crate::registry::{ASK_TIMEOUT, Registry};
use crate::wire::gone;
use crate::worker::Worker;

/// Ids of each of two generations; the older one goes when the younger is full.
const GENERATION: usize = 50_000;

/// Lookups under way, and those of one principal; more wait.
const MAX_LOOKUPS: usize = 256;
const MAX_LOOKUPS_PER_PRINCIPAL: usize = 16;

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A call.
    Call,
    /// A prompt.
    Prompt,
    /// A stored output.
    Output,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Prompt => "prompt",
            Self::Output => "output",
        }
    }
}

/// Where an id belongs.
#[derive(Clone)]
struct Home {
    /// The worker's name and the workspace; none if several have it.
    place: Option<(Arc<str>, Arc<str>)>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<(Kind, Box<str>), Home>,
    old: HashMap<(Kind, Box<str>), Home>,
}

/// What is known of ids.
pub(crate) struct Directory {
    known: Mutex<Generations>,
    lookups: Semaphore,
    /// Those of each principal that has some under way.
    of_principals: Mutex<HashMap<String, Arc<Semaphore>>>,
    metrics: Arc<Metrics>,
}

impl Directory {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            known: Mutex::default(),
            lookups: Semaphore::new(MAX_LOOKUPS),
            of_principals: Mutex::default(),
        }
    }

    fn turns_of(&self, principal: &str) -> Arc<Semaphore> {
        let mut all = self.of_principals.lock();
        // Who has none under way any more is forgotten.
        all.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = all.entry(principal.to_owned());
        turns
            .or_insert_with(|| Arc::new(Semaphore::new(MAX_LOOKUPS_PER_PRINCIPAL)))
            .clone()
    }

    /// Takes note of a call that is made with an id of its client's: clients may choose the same one. What is known of another
    /// call of this id is then no answer any more; that it is the only one is not known either.
    pub(crate) fn used(&self, id: &str, worker: &Worker, workspace: &str) {
        let is_known = self.look_up(Kind::Call, id).is_some();
        if is_known {
            self.learn(Kind::Call, id, worker, workspace);
        }
    }

    fn look_up(&self, kind: Kind, id: &str) -> Option<Home> {
        let key = (kind, Box::from(id));
        let known = self.known.lock();
        known.young.get(&key).or_else(|| known.old.get(&key)).cloned()
    }

    /// Remembers where an id belongs.
    pub(crate) fn learn(&self, kind: Kind, id: &str, worker: &Worker, workspace: &str) {
        let key = (kind, Box::from(id));
        let mut known = self.known.lock();
        let before = known.young.get(&key).or_else(|| known.old.get(&key)).cloned();
        let is_same = |home: &Home| {
            let place = home.place.as_ref();
            place.is_some_and(|(name, place)| **name == *worker.name && **place == *workspace)
        };
        let place = (Arc::from(worker.name.as_str()), Arc::from(workspace));
        let home = Home {
            // Clients may choose the ids of calls, and choose the same ones.
            place: before.as_ref().is_none_or(is_same).then_some(place),
        };
        if known.young.len() >= GENERATION {
            known.old = std::mem::take(&mut known.young);
        }
        known.young.insert(key, home);
    }

    /// Returns where an id was, if its worker is known. Somebody else may have taken the name of one that was forgotten.
    fn recall(&self, registry: &Registry, caller: &OnBehalf, kind: Kind, id: &str) -> Option<Arc<Worker>> {
        let (name, workspace) = self.look_up(kind, id)?.place?;
        let worker = registry.named(&name).filter(|worker| worker.may_have(&workspace))?;
        caller.sees(&workspace).then_some(worker)
    }

    /// Finds the worker of an id.
    pub(crate) async fn find(
        &self,
        registry: &Registry,
        caller: &OnBehalf,
        kind: Kind,
        id: &str,
    ) -> Result<Arc<Worker>, Status> {
        if kind == Kind::Call
            && let Some((_, workspace)) = id.rsplit_once('~')
        {
            match registry.place(caller, workspace).await {
                // It may be closed, with its records still there.
                Err(missing) if missing.code() == Code::NotFound && caller.sees(workspace) => {}
                found => return found.map(|(worker, _)| worker),
            }
        }
        if let Some(worker) = self.recall(registry, caller, kind, id) {
            self.metrics.gateway_looked_up("remembered");
            return Ok(worker);
        }
        let workers = registry.workers();
        // One that has registered itself is not believed whatever it says.
        if let [only] = &workers[..]
            && only.is_listed()
        {
            return Ok(only.clone());
        }
        // Nobody takes all turns. They are never closed.
        let found = self.ask_all(registry, caller, kind, id).await;
        self.metrics.gateway_looked_up(match &found {
            Ok(_) => "found",
            Err(status) if status.code() == Code::NotFound => "missing",
            Err(status) if status.code() == Code::Unavailable => "worker_gone",
            Err(_) => "refused",
        });
        found
    }

    /// Asks all workers for an id.
    async fn ask_all(
        &self,
        registry: &Registry,
        caller: &OnBehalf,
        kind: Kind,
        id: &str,
    ) -> Result<Arc<Worker>, Status> {
        let own = self.turns_of(&caller.id());
        let _own_turn = own.acquire().await;
        let _turn = self.lookups.acquire().await;
        let entry = &caller.entry_to_look();
        let workers = registry.workers_for(caller);
        let asked = workers.iter().map(|worker| async move {
            let answer = timeout(ASK_TIMEOUT, workspace_of(worker, kind, id, entry)).await;
            (worker, answer.unwrap_or_else(|_| Err(gone(&worker.name))))
        });
        let (mut found, mut missing, mut away, mut refused) = (Vec::new(), None, None, None);
        for (worker, answer) in join_all(asked).await {
            match answer {
                Ok(workspace) if registry.counts(worker, &workspace) && caller.sees(&workspace) => {
                    found.push((worker, workspace));
                }
                Ok(workspace) => tracing::warn!(
                    worker = worker.name,
                    workspace,
                    "a worker answers for a workspace that is another one's: its answer does not count"
                ),
                Err(status) if status.code() == Code::NotFound => missing = Some(status),
                // What it says of the request itself, which all of them say.
                Err(status) if status.code() == Code::InvalidArgument => refused = Some(status),
                // That an id is ambiguous is believed of those only that the configuration lists.
                Err(status) if status.code() == Code::FailedPrecondition && worker.is_listed() => return Err(status),
                Err(status) => {
                    tracing::debug!(%status, worker = worker.name, "a worker does not say what it has");
                    away = Some(gone(&worker.name));
                }
            }
        }
        // A worker that has the workspace now is believed rather than one that says to have had it; and that one only if nobody is
        // away who may know better.
        if found.iter().any(|(worker, workspace)| registry.has(worker, workspace)) {
            found.retain(|(worker, workspace)| registry.has(worker, workspace));
        } else if away.is_some() {
            found.clear();
        }
        match (&found[..], away, missing.or(refused)) {
            ([(worker, workspace)], _, _) => {
                self.learn(kind, id, worker, workspace);
                Ok((*worker).clone())
            }
            ([_, _, ..], _, _) => Err(status::ambiguous_call(id)),
            ([], Some(status), _) | ([], None, Some(status)) => Err(status),
            // Nobody has what this caller sees.
            ([], None, None) => Err(status::not_found(kind.noun(), id)),
        }
    }
}

/// Asks a worker for the workspace of what an id names.
async fn workspace_of(worker: &Worker, kind: Kind, id: &str, entry: &HeaderValue) -> Result<String, Status> {
    let (id, entry) = (id.to_owned(), Some(entry));
    Ok(match kind {
        Kind::Call => {
            let question = GetCallRequest { call_id: id };
            let answer: GetCallResponse = worker.ask("/toolgate.v1.ToolService/GetCall", question, entry).await?;
            answer.call.and_then(|call| call.context).unwrap_or_default().workspace
        }
        Kind::Prompt => {
            let question = GetPromptRequest { prompt_id: id };
            let answer: GetPromptResponse = worker
                .ask("/toolgate.v1.PermissionService/GetPrompt", question, entry)
                .await?;
            answer.prompt.unwrap_or_default().workspace
        }
        Kind::Output => {
            let question = GetOutputRequest { output_id: id };
            let answer: GetOutputResponse = worker
                .ask("/toolgate.v1.OutputService/GetOutput", question, entry)
                .await?;
            answer.output.unwrap_or_default().workspace
        }
    })
}
