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

use crate::registry::{ASK_TIMEOUT, Registry};
use crate::wire::gone;
use crate::worker::Worker;

/// Ids of each of two generations; the older one goes when the younger is full.
const GENERATION: usize = 50_000;

/// Lookups under way; more wait.
const MAX_LOOKUPS: usize = 256;

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
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            known: Mutex::default(),
            lookups: Semaphore::new(MAX_LOOKUPS),
        }
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

    fn recall(&self, kind: Kind, id: &str, caller: &OnBehalf) -> Option<Arc<str>> {
        let key = (kind, Box::from(id));
        let known = self.known.lock();
        let home = known.young.get(&key).or_else(|| known.old.get(&key))?;
        let (worker, workspace) = home.place.as_ref()?;
        caller.sees(workspace).then(|| worker.clone())
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
            return registry.place(caller, workspace).await.map(|(worker, _)| worker);
        }
        let remembered = self.recall(kind, id, caller);
        if let Some(worker) = remembered.and_then(|name| registry.workers.iter().find(|worker| *worker.name == *name)) {
            return Ok(worker.clone());
        }
        if let [only] = &registry.workers[..] {
            return Ok(only.clone());
        }
        // It is never closed.
        let _turn = self.lookups.acquire().await;
        let entry = &caller.entry_to_look();
        let asked = registry.workers.iter().map(|worker| async move {
            let answer = timeout(ASK_TIMEOUT, workspace_of(worker, kind, id, entry)).await;
            (worker, answer.unwrap_or_else(|_| Err(gone(&worker.name))))
        });
        let (mut found, mut missing, mut away) = (Vec::new(), None, None);
        for (worker, answer) in join_all(asked).await {
            match answer {
                Ok(workspace) if registry.counts(worker, &workspace) => found.push((worker, workspace)),
                Ok(workspace) => tracing::warn!(
                    worker = worker.name,
                    workspace,
                    "a worker answers for a workspace that is another one's: its answer does not count"
                ),
                Err(status) if status.code() == Code::NotFound => missing = Some(status),
                // What it says of the request itself.
                Err(status) if [Code::InvalidArgument, Code::FailedPrecondition].contains(&status.code()) => {
                    return Err(status);
                }
                Err(status) => {
                    tracing::debug!(%status, worker = worker.name, "a worker does not say what it has");
                    away = Some(gone(&worker.name));
                }
            }
        }
        match (&found[..], away, missing) {
            ([(worker, workspace)], _, _) => {
                self.learn(kind, id, worker, workspace);
                Ok((*worker).clone())
            }
            ([_, _, ..], _, _) => Err(status::ambiguous_call(id)),
            ([], Some(status), _) | ([], None, Some(status)) => Err(status),
            ([], None, None) => Err(status::draining()),
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
