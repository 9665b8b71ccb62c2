//! The service in front of the workers: follows the table of RPCs.
//!
//! *Invariant:* nothing passes without the caller that the gate has let in. What no worker has is answered by a worker, in its words.

use std::convert::Infallible;
use std::future::Future;
use std::hash::RandomState;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use prost::Message;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use toolgate_config::Config;
use toolgate_contract::{
    ErrorReason, ExecuteToolRequest, ReportInvocationRequest, ReportInvocationResponse, RevokeGrantRequest,
    RevokeGrantResponse,
};
use toolgate_model::InstanceId;
use toolgate_server::app::store_front::StoreFront;
use toolgate_server::grpc::Closing;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::doors::{MCP_PATH, PORTS_PATH, is_agent_sandbox};
use toolgate_server::grpc::limits::Traffic;
use toolgate_server::grpc::status;
use toolgate_telemetry::Metrics;
use tower::Service;

use crate::created::Created;
use crate::directory::Directory;
use crate::parts::{Facts, Parts};
use crate::pool::Pool;
use crate::reattach;
use crate::registry::{ASK_TIMEOUT, Registry};
use crate::shared::Shared;
use crate::stored::Asked;
use crate::table::{Aim, Merge, Own, Try, Way, is_of_running, makes_call, stored, way};
use crate::tenants::Tenants;
use crate::wire::{Messages, decode, gone, unary};
use crate::worker::Worker;
use crate::{doors, events, lists, own, streams};

/// Says whether what a request names stands for several workspaces: all, or those below a prefix.
fn is_several(named: &str) -> bool {
    named == "-" || named.contains('*')
}

/// The service.
#[derive(Clone)]
pub(crate) struct Front(Arc<Parts>);

impl Front {
    pub(crate) fn new(
        config: &Config,
        registry: Arc<Registry>,
        (traffic, tunnels, metrics): (Arc<Traffic>, TaskTracker, Arc<Metrics>),
        instance: &InstanceId,
        (store, closing): (Option<StoreFront>, Closing),
        (pool, created): (Option<Arc<Pool>>, Option<Arc<Created>>),
    ) -> Self {
        Self(Arc::new(Parts {
            store,
            pool,
            created,
            registry,
            directory: Directory::new(metrics.clone()),
            facts: Facts::new(config, traffic.limits(), instance),
            tenants: Tenants::new(config.tenants.clone()),
            closing,
            agent_sandbox: config.listen.agent_sandbox,
            limit: usize::try_from(config.limits.max_message_bytes).unwrap_or(usize::MAX),
            traffic,
            shared: Shared::new(tunnels.clone()),
            tunnels,
            metrics,
            hasher: RandomState::new(),
        }))
    }
}

impl Service<Request<Body>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let parts = self.0.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                MCP_PATH => doors::mcp(&parts, request).await,
                path if path.starts_with(PORTS_PATH) => doors::ports(&parts, request).await,
                path if parts.agent_sandbox && is_agent_sandbox(path) => doors::agent_sandbox(&parts, request).await,
                _ => parts.answer(request).await.unwrap_or_else(Status::into_http),
            })
        })
    }
}

impl Parts {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, Status> {
        let way = way(request.uri().path()).ok_or_else(|| Status::unimplemented("there is no such RPC"))?;
        let arrived = Instant::now();
        let caller = OnBehalf::of(request.extensions())?;
        let (head, body) = request.into_parts();
        let mut messages = Messages::new(body, self.limit);
        let first = messages.next().await?;
        let path = head.uri.path().to_owned();
        if let Some(store) = &self.store
            && let Some(stored) = stored(&path)
        {
            let rest = messages;
            return self
                .answer_from(store, (stored, way), caller, Asked { head, first, rest })
                .await;
        }
        if let Some(store) = self.store.as_ref().filter(|_| makes_call(&path)) {
            // Soon: a worker would try for long to store it.
            store.takes_changes().await?;
        }
        let has_message = first.is_some();
        let first = first.unwrap_or_default();
        if let Some(created) = &self.created
            && let Some(answer) = created.answer(&self.tenants, &caller, (&path, &first)).await
        {
            return answer;
        }
        let about = (path.as_str(), &first[..], arrived);
        let whole = |messages: Messages, added: &[u8]| {
            let body = match has_message {
                true => messages.behind(&first, added),
                // A request without a message is refused by the worker.
                false => Body::empty(),
            };
            Request::from_parts(head, body)
        };
        let (read, name, merge) = match way {
            Way::Passed(read, name) => (read, name, None),
            Way::PassedOrMerged(read, name, merge) => (read, name, Some(merge)),
            Way::Tried(what) => return self.try_all(&caller, what, &first).await,
            Way::OfOne => return self.of_one(caller, whole(messages, &[]), about).await,
            Way::Own(Own::Info) => return own::info(&self, &caller).await,
            Way::Own(Own::Workspaces) => return own::workspaces(&self, &caller, decode(&first)?).await,
            Way::Own(own @ (Own::OpenWorkspace | Own::CreateWorkspace)) => {
                let wanted = match own {
                    Own::CreateWorkspace => own::NewWorkspace::created(decode(&first)?),
                    Own::OpenWorkspace | Own::Info | Own::Workspaces => own::NewWorkspace::opened(decode(&first)?),
                };
                // Others learn nothing of a tenant: the worker refuses them.
                let _opening = match caller.sees(&wanted.workspace) {
                    true => Some(self.tenants.open(&self.registry, &wanted.workspace)?),
                    false => None,
                };
                let worker = own::opener(&self, &caller, wanted).await?;
                let answer = self.pass(worker.clone(), caller, whole(messages, &[]), about).await;
                worker.is_news();
                self.registry.refresh().await;
                return answer;
            }
        };
        match (read(&first)?, merge) {
            (Aim::Nothing, _) => self.pass(self.any(&caller)?, caller, whole(messages, &[]), about).await,
            (Aim::Workspace(named), Some(Merge::Nothing)) if is_several(&named) => {
                self.pass(self.any(&caller)?, caller, whole(messages, &[]), about).await
            }
            (Aim::Workspace(named), Some(merge)) if is_several(&named) => {
                self.merge(&caller, merge, first.clone(), messages).await
            }
            (Aim::Workspace(named), merge) => {
                let (worker, workspace) = match self.place(&caller, &named, &path).await {
                    Ok(found) => found,
                    // It may be closed, with its records still there.
                    Err(missing) if missing.code() == Code::NotFound && !named.is_empty() => {
                        return match merge {
                            Some(merge) if merge.is_of_records() => {
                                self.merge(&caller, merge, first.clone(), messages).await
                            }
                            Some(_) | None => Err(missing),
                        };
                    }
                    Err(error) => return Err(error),
                };
                let added = if named.is_empty() {
                    name(workspace.clone())
                } else {
                    Vec::new()
                };
                if path == reattach::EXECUTE {
                    let ExecuteToolRequest { call_id, .. } = decode(&first)?;
                    if !call_id.is_empty() {
                        self.directory.used(&call_id, &worker, &workspace);
                    }
                }
                let counted = self.tenants.run(&path, &workspace)?;
                let name = worker.name.clone();
                let answer = self.pass(worker, caller, whole(messages, &added), about).await;
                answer.map(|answer| counted.until_the_end_of(answer, &name))
            }
            (Aim::Id(kind, id), _) => {
                if let Some(store) = &self.store
                    && is_of_running(&path)
                    && self.is_over(store, &caller, (kind, &id)).await
                {
                    return Ok(store.answer(whole(messages, &[])).await);
                }
                let found = match &self.store {
                    Some(store) => self.worker_by(store, &caller, (kind, &id), &path).await,
                    None => self.directory.find(&self.registry, &caller, kind, &id).await,
                };
                let worker = match found {
                    Ok(worker) => worker,
                    // What the store does not have nobody has.
                    Err(missing)
                        if self.store.is_none()
                            && [Code::NotFound, Code::InvalidArgument].contains(&missing.code()) =>
                    {
                        self.any(&caller)?
                    }
                    Err(error) => return Err(error),
                };
                self.pass(worker, caller, whole(messages, &[]), about).await
            }
        }
    }

    /// Finds the worker of a workspace; a call may get one for it.
    pub(crate) async fn place(
        &self,
        caller: &OnBehalf,
        named: &str,
        path: &str,
    ) -> Result<(Arc<Worker>, String), Status> {
        if let Some(created) = &self.created
            && let Some(worker) = created.for_call(caller, (named, path)).await?
        {
            return Ok((worker, named.to_owned()));
        }
        let missing = match self.registry.place(caller, named).await {
            Ok(found) => return Ok(found),
            Err(missing) => missing,
        };
        let may_get_one = !named.is_empty() && makes_call(path);
        if let Some(created) = self.created.as_ref().filter(|_| may_get_one)
            && missing.code() == Code::NotFound
            && let Some(worker) = created.for_first_call(&self.tenants, caller, named).await?
        {
            return Ok((worker, named.to_owned()));
        }
        let pool = self.pool.as_ref().filter(|_| may_get_one);
        match pool {
            Some(pool) => match pool.for_call(caller, &self.tenants, named).await? {
                Some(worker) => Ok((worker, named.to_owned())),
                None => Err(missing),
            },
            None => Err(missing),
        }
    }

    /// Passes a request on that arrived at this moment; its path and first message say what is to be done about the answer.
    async fn pass(
        &self,
        worker: Arc<Worker>,
        caller: OnBehalf,
        request: Request<Body>,
        (path, first, arrived): (&str, &[u8], Instant),
    ) -> Result<Response<Body>, Status> {
        let routing = arrived.elapsed();
        let call = reattach::Call::of(path, first);
        let answer = worker.pass(request, &caller.entry()).await;
        let outcome = doors::outcome(&answer);
        self.metrics
            .gateway_passed(path.trim_start_matches('/'), outcome, routing);
        let known = (&self.metrics, self.store.as_ref());
        if reattach::has_lost_run(path, &answer)
            && let Some(went_on) = reattach::run_on(first, (&worker, &caller), known).await
        {
            return went_on;
        }
        if path == doors::OPEN_PORT {
            return doors::opened(answer?, &worker.name_in_paths(), self.limit).await;
        }
        let streams = (path, &self.shared, &self.closing);
        reattach::kept(answer?, call, (worker, caller), known, streams)
    }

    async fn merge(
        self: &Arc<Self>,
        caller: &OnBehalf,
        merge: Merge,
        first: Bytes,
        messages: Messages,
    ) -> Result<Response<Body>, Status> {
        match merge {
            Merge::Calls => lists::merged::<lists::Calls>(self, caller, &first).await,
            Merge::Prompts => lists::merged::<lists::Prompts>(self, caller, &first).await,
            Merge::Grants => lists::merged::<lists::Grants>(self, caller, &first).await,
            Merge::Sessions => lists::merged::<lists::Sessions>(self, caller, &first).await,
            Merge::Outputs => lists::merged::<lists::Outputs>(self, caller, &first).await,
            Merge::Session => own::session(self, caller, decode(&first)?).await,
            Merge::WatchedPrompts => Ok(streams::prompts(self.clone(), caller.clone(), decode(&first)?)),
            Merge::Channel => streams::channel(self.clone(), caller.clone(), decode(&first)?, messages),
            Merge::Events => events::watch(self.clone(), caller.clone(), decode(&first)?).await,
            Merge::Nothing => Err(status::bad_field("workspace", "name one workspace")),
        }
    }

    /// Asks all workers for what only one of them knows.
    async fn try_all(&self, caller: &OnBehalf, what: Try, first: &[u8]) -> Result<Response<Body>, Status> {
        match what {
            Try::Grant => {
                let path = "/toolgate.v1.PermissionService/RevokeGrant";
                self.first_that_knows::<RevokeGrantRequest, RevokeGrantResponse>(path, caller, first)
                    .await
            }
            Try::Host => {
                let path = "/toolgate.v1.HostService/ReportInvocation";
                self.first_that_knows::<ReportInvocationRequest, ReportInvocationResponse>(path, caller, first)
                    .await
            }
        }
    }

    async fn first_that_knows<Q, A>(
        &self,
        path: &'static str,
        caller: &OnBehalf,
        first: &[u8],
    ) -> Result<Response<Body>, Status>
    where
        Q: Message + Default + Clone + 'static,
        A: Message + Default + 'static,
    {
        let (question, entry): (Q, _) = (decode(first)?, caller.entry());
        let workers = self.registry.workers_for(caller);
        if workers.is_empty() {
            self.any(caller)?;
        }
        let asked = workers.iter().map(|worker| {
            let asked = timeout(ASK_TIMEOUT, worker.ask::<Q, A>(path, question.clone(), Some(&entry)));
            async { asked.await.unwrap_or_else(|_| Err(gone(&worker.name))) }
        });
        let mut answers: FuturesUnordered<_> = asked.collect();
        let (mut known, mut missing, mut away, mut refused) = (None, None, None, None);
        // All of them: a worker that says yes too soon does not keep the request from the one that it is for.
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(answer) => known = Some(answer),
                Err(status) if status.code() == Code::NotFound => missing = Some(status),
                Err(status) if status.code() == Code::Unavailable => away = Some(status),
                Err(status) => refused = Some(status),
            }
        }
        if let Some(answer) = known {
            return Ok(unary(&answer));
        }
        let told = refused.or(away).or(missing);
        Err(told.unwrap_or_else(|| gone("of this request")))
    }

    /// Passes on what is about a whole service.
    async fn of_one(
        &self,
        caller: OnBehalf,
        request: Request<Body>,
        about: (&str, &[u8], Instant),
    ) -> Result<Response<Body>, Status> {
        let workers = self.registry.workers();
        let [only] = &workers[..] else {
            let problem = "each worker has an audit of its own, whose chain cannot be mixed with others: ask each worker at its own \
                           address, for instance with `toolgate --server ADDRESS audit export`";
            return Err(status::precondition(ErrorReason::SeveralWorkers, "audit", problem));
        };
        self.pass(only.clone(), caller, request, about).await
    }
}

impl Merge {
    /// Says whether it is about records, which may be there when the workspace is not open any more.
    fn is_of_records(self) -> bool {
        match self {
            Self::Calls | Self::Prompts | Self::Grants | Self::Sessions | Self::Outputs | Self::Session => true,
            Self::WatchedPrompts | Self::Channel | Self::Events | Self::Nothing => false,
        }
    }
}
