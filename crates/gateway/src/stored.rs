//! What a gateway with a store answers from it: what is kept, and what goes on after its worker has died.
//!
//! *Invariant:* what touches programs or files is never answered here, and no reply to a prompt ever leaves here for a worker.

use std::sync::Arc;

use bytes::Bytes;
use tonic::body::Body;
use tonic::codegen::http::request::Parts as Head;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use toolgate_model::InstanceId;
use toolgate_server::app::store_front::{Elsewhere, Found, Named, StoreFront};
use toolgate_server::grpc::auth::OnBehalf;

use crate::directory::Kind;
use crate::parts::Parts;
use crate::reattach;
use crate::reattach::Call;
use crate::registry::Registry;
use crate::table::{Aim, Stored, Way};
use crate::wire::{Messages, gone};
use crate::worker::Worker;

impl Elsewhere for Registry {
    fn is_open(&self, workspace: &str) -> bool {
        self.owner(workspace).is_some()
    }

    fn runs(&self) -> Vec<InstanceId> {
        let workers = self.workers();
        let runs = workers
            .iter()
            .filter_map(|worker| Some(worker.registration.read().as_ref()?.run.clone()));
        runs.map(InstanceId::new).collect()
    }
}

/// A request of which the first message was read.
pub(crate) struct Asked {
    pub(crate) head: Head,
    pub(crate) first: Option<Bytes>,
    pub(crate) rest: Messages,
}

impl Asked {
    fn first(&self) -> &[u8] {
        self.first.as_deref().unwrap_or_default()
    }

    /// Makes it whole again, with something added to the first message.
    fn whole(self, added: &[u8]) -> Request<Body> {
        let body = match &self.first {
            Some(first) => self.rest.behind(first, added),
            None => Body::empty(),
        };
        Request::from_parts(self.head, body)
    }
}

/// Finds where something is that has an id.
pub(crate) async fn find(store: &StoreFront, caller: &OnBehalf, kind: Kind, id: &str) -> Result<Found, Status> {
    let named = match kind {
        Kind::Call => Named::Call(id),
        Kind::Prompt => Named::Prompt(id),
        Kind::Output => Named::Output(id),
    };
    store.find(caller, named).await
}

impl Parts {
    /// Answers a request from the store.
    pub(crate) async fn answer_from(
        self: &Arc<Self>,
        store: &StoreFront,
        (stored, way): (Stored, Way),
        caller: OnBehalf,
        asked: Asked,
    ) -> Result<Response<Body>, Status> {
        if stored == Stored::OnceEnded {
            return self.unless_it_goes_on(store, way, caller, asked).await;
        }
        let (Way::Passed(read, name) | Way::PassedOrMerged(read, name, _)) = way else {
            return Ok(store.answer(asked.whole(&[])).await);
        };
        let added = match read(asked.first())? {
            // The workspace that is meant is that of a worker.
            Aim::Workspace(named) if named.is_empty() && asked.first.is_some() => {
                name(self.registry.place(&caller, "").await?.1)
            }
            Aim::Workspace(_) | Aim::Id(..) | Aim::Nothing => Vec::new(),
        };
        Ok(store.answer(asked.whole(&added)).await)
    }

    /// Answers what is asked about a call: at its worker while it goes on there, else from the store.
    async fn unless_it_goes_on(
        &self,
        store: &StoreFront,
        way: Way,
        caller: OnBehalf,
        asked: Asked,
    ) -> Result<Response<Body>, Status> {
        let path = asked.head.uri.path().to_owned();
        let worker = match way {
            Way::Passed(read, _) => self.worker_of(store, &caller, read(asked.first())?).await,
            Way::PassedOrMerged(..) | Way::Tried(_) | Way::OfOne | Way::Own(_) => None,
        };
        let Some(worker) = worker else {
            return Ok(store.answer(asked.whole(&[])).await);
        };
        // It has one message, so that it can be asked twice.
        let first = asked.first.clone().unwrap_or_default();
        let mut again = Request::new(Body::new(http_body_util::Full::new(crate::wire::frame_of(&first))));
        *again.uri_mut() = asked.head.uri.clone();
        *again.method_mut() = asked.head.method.clone();
        *again.headers_mut() = asked.head.headers.clone();
        match worker.pass(again, &caller.entry()).await {
            Ok(answer) if !is_away(&answer) => {
                let call = Call::of(&path, &first);
                reattach::kept(
                    answer,
                    call,
                    (worker, caller),
                    (&self.metrics, Some(store)),
                    (&path, &self.shared, &self.closing),
                )
            }
            Ok(_) | Err(_) => Ok(store.answer(asked.whole(&[])).await),
        }
    }

    /// Returns the worker at which a call goes on, if that one is there.
    async fn worker_of(&self, store: &StoreFront, caller: &OnBehalf, aim: Aim) -> Option<Arc<Worker>> {
        let Aim::Id(kind, id) = aim else { return None };
        // What is wrong with the id, or with the store, is said by the store's own answer.
        let found = find(store, caller, kind, &id)
            .await
            .ok()
            .filter(|found| found.goes_on)?;
        let worker = self.registry.owner(&found.workspace)?;
        let is_there = worker.facts.read().is_there;
        is_there.then_some(worker)
    }

    /// Says whether a call has ended in a run that is over, so that nothing of it runs any more: no worker need be asked.
    pub(crate) async fn is_over(&self, store: &StoreFront, caller: &OnBehalf, (kind, id): (Kind, &str)) -> bool {
        let found = find(store, caller, kind, id).await;
        let Ok(Found {
            workspace,
            run: Some(run),
            goes_on: false,
            ..
        }) = found
        else {
            return false;
        };
        self.registry.is_over(&run, &workspace).await
    }

    /// Finds the worker of what has an id, by where the store has it.
    pub(crate) async fn worker_by(
        &self,
        store: &StoreFront,
        caller: &OnBehalf,
        (kind, id): (Kind, &str),
        path: &str,
    ) -> Result<Arc<Worker>, Status> {
        let Found { workspace, .. } = find(store, caller, kind, id).await?;
        if let Some(created) = &self.created
            && let Some(worker) = created.for_call(caller, (&workspace, path)).await?
        {
            return Ok(worker);
        }
        match self.registry.place(caller, &workspace).await {
            Ok((worker, _)) => Ok(worker),
            // It is there, and its worker is not.
            Err(missing) if missing.code() == Code::NotFound => Err(gone(&format!("of the workspace {workspace}"))),
            Err(error) => Err(error),
        }
    }
}

/// Says whether the worker did not answer by itself, or only that it stops.
fn is_away(answer: &Response<Body>) -> bool {
    let status = Status::from_header_map(answer.headers());
    status.is_some_and(|status| reattach::is_passing(&status))
}
