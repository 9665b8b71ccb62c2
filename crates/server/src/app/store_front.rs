//! What a gateway answers from a store that it shares with others: the services of the contract over an engine that runs no call.
//!
//! *Invariant:* no workspace, no program, no tool, no data folder. Callers, scopes and approvals are judged by the same code as
//! where calls run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::service::Routes;
use toolgate_config::Config;
use toolgate_config::service::{LogFormat, SandboxMode, SandboxNetwork};
pub use toolgate_engine::Elsewhere;
use toolgate_engine::prompts::broker::Broker;
use toolgate_engine::{Engine, EngineDeps, Rested, WorkspaceRuntime};
use toolgate_extensions::hosted::Hosts;
use toolgate_fs::uploads::Uploads;
use toolgate_model::{InstanceId, OutputId, PromptId, Timestamp};
use toolgate_store::{Store, StoreError};
use toolgate_tools::ports::OpenPorts;
use tower::Service as _;

use super::entrance::Entrance;
use super::store_watch::{CHECK_TIMEOUT, StoreWatch};
use super::upkeep::{flush_refusals, log_head, sweep};
use super::{settings, telemetry};
use crate::grpc::auth::OnBehalf;
use crate::grpc::{
    CloseError, Closing, CreatedError, HEARTBEAT, LanguageServerFacts, Languages, OpenError, SandboxFacts, ServeError,
    Shared, StoreHealth, WantedCreation, WantedWorkspace, Watches, Workspaces, convert, status, stored_routes,
};

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// A call.
    Call(&'a str),
    /// A prompt.
    Prompt(&'a str),
    /// A stored output.
    Output(&'a str),
}

/// Where something is that has an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its workspace.
    pub workspace: String,
    /// The whole id of a call; of anything else what was asked for.
    pub id: String,
    /// Whether it is a call that has not ended.
    pub goes_on: bool,
    /// The run that has it, if it is a call.
    pub run: Option<InstanceId>,
}

/// The services over a store.
#[derive(Clone)]
pub struct StoreFront {
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    shared: Arc<Shared>,
    routes: Routes,
    watch: StoreWatch,
}

impl StoreFront {
    /// Makes the services. `closing` ends the streams that have no end of their own.
    ///
    /// # Errors
    /// The store failed.
    pub async fn open(
        config: &Config,
        (store, instance): (Arc<dyn Store>, InstanceId),
        elsewhere: Arc<dyn Elsewhere>,
        (entrance, tunnels): (&Entrance, TaskTracker),
        closing: Closing,
    ) -> anyhow::Result<Self> {
        // People look for where it listens first, and their terminals keep nothing.
        if config.log.format == LogFormat::Json {
            log_head(&*store, "audit resumed").await;
        }
        let (policy, approvals) = (settings::prompts(config), settings::approvals(config));
        let broker = Broker::open(store.clone(), instance.clone(), policy, approvals).await;
        let broker = broker.context("cannot read the standing approvals")?;
        let telemetry = entrance.telemetry.clone();
        let beside = EngineDeps {
            programs: None,
            elsewhere: Some(elsewhere),
            redactor: config.redact.0.clone(),
            telemetry: telemetry.clone(),
        };
        let limits = settings::limits(config);
        let engine = Engine::new(store.clone(), broker, instance, Vec::new(), limits, beside);
        let shared = Arc::new(Shared {
            engine: engine.clone(),
            workspaces: Arc::new(NoWorkspaces),
            outputs: store.clone(),
            // Contents are sent to workers: no service that would take them is among the routes.
            uploads: Uploads::new(PathBuf::new(), u64::MAX),
            ports: OpenPorts::default(),
            tunnels,
            watches: Watches::default(),
            journal: store.clone(),
            audit: store.clone(),
            #[cfg(feature = "mcp")]
            servers: None,
            hosts: Arc::new(Hosts::default()),
            heartbeat: HEARTBEAT,
            max_message_bytes: settings::bytes(config.limits.max_message_bytes),
            traffic: entrance.traffic.clone(),
            origins: config.listen.origins.clone().into(),
            console: config.console,
            agent_sandbox: false,
            authenticator: entrance.authenticator.clone(),
            output_retention: config.retention.outputs,
            call_retention: config.retention.calls,
            takes_replies: true,
            started: Timestamp::now(),
            caller_variables: Vec::new(),
            warnings: config.warnings.clone(),
            sandbox: nothing_confined(),
            languages: Arc::new(NoLanguages),
            closing,
            telemetry,
        });
        Ok(Self {
            store,
            engine,
            routes: stored_routes(shared.clone()),
            shared,
            watch: StoreWatch::default(),
        })
    }

    /// Answers a request that has passed the gate.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        // It is always ready, and its errors are answers.
        let Ok(answer) = self.routes.clone().call(request).await;
        answer
    }

    /// Finds what an id names, for the caller of a request; what that one may not see is not there.
    ///
    /// # Errors
    /// There is no such thing, or several, or the store failed.
    pub async fn find(&self, caller: &OnBehalf, named: Named<'_>) -> Result<Found, Status> {
        let caller = caller.caller();
        let found = match named {
            Named::Call(id) => {
                let id = convert::known_call_id("call_id", id)?;
                let id = self.shared.call(caller, &id).await?;
                let record = self.store.get(&id).await.map_err(status::store)?;
                record.map(|record| Found {
                    goes_on: !record.state.is_terminal(),
                    id: id.to_string(),
                    run: Some(record.owner),
                    workspace: record.origin.workspace,
                })
            }
            Named::Prompt(id) => {
                let prompt = self.store.prompt(&PromptId::new(id)).await.map_err(status::store)?;
                prompt.map(|prompt| Found::settled(id, prompt.workspace))
            }
            Named::Output(id) => {
                let info = self.store.look(&OutputId::new(id)).await.map_err(status::store)?;
                info.map(|info| Found::settled(id, info.owner.workspace))
            }
        };
        let (kind, id) = match named {
            Named::Call(id) => ("call", id),
            Named::Prompt(id) => ("prompt", id),
            Named::Output(id) => ("output", id),
        };
        let found = found.filter(|found| caller.sees(&found.workspace));
        found.ok_or_else(|| status::not_found(kind, id))
    }

    /// Answers a request that this process makes on behalf of a caller.
    pub async fn answer_for(&self, caller: &OnBehalf, mut request: Request<Body>) -> Response<Body> {
        request.extensions_mut().insert(caller.caller().clone());
        self.answer(request).await
    }

    /// Takes the standing approvals of a workspace back, in the name of a principal if one is known.
    ///
    /// # Errors
    /// The store failed; some may stand.
    pub async fn end_workspace(&self, workspace: &str, by: &str) -> Result<(), StoreError> {
        self.engine.inbox().end_workspace(workspace, by).await
    }

    /// Says whether the gateway is about to stop.
    pub fn is_draining(&self) -> bool {
        self.engine.calls().is_draining()
    }

    /// Starts what is done now and then, until `stop`. `health` is told whether the store is there.
    pub fn keep(
        &self,
        config: &Config,
        health: StoreHealth,
        servers: &mut JoinSet<Result<(), ServeError>>,
        stop: &CancellationToken,
    ) {
        servers.spawn(sweep(self.store.clone(), settings::retention(config), stop.clone()));
        servers.spawn(flush_refusals(self.engine.clone(), stop.clone()));
        let watch = Arc::new(telemetry::Watch {
            engine: self.engine.clone(),
            store: self.store.clone(),
        });
        let metrics = self.shared.telemetry.metrics.clone();
        let told = (health, metrics.clone());
        servers.spawn(self.watch.clone().work(self.store.clone(), told, stop.clone()));
        servers.spawn(telemetry::observe(metrics, watch, stop.clone()));
    }

    /// Says how many prompts are open, and how many of them no connected approver is shown. Both are 0 while the store is away.
    pub async fn prompts(&self) -> (usize, usize) {
        self.engine.inbox().open_and_unseen().await.unwrap_or_default()
    }

    /// Says how much of what was to be told was set aside; none while the store is away.
    pub async fn untold(&self) -> Option<u64> {
        tokio::time::timeout(CHECK_TIMEOUT, self.store.untold())
            .await
            .ok()?
            .ok()
    }

    /// Says whether the store is there.
    ///
    /// # Errors
    /// It is not; the text says so.
    pub fn store(&self) -> Result<(), String> {
        self.watch.problem().map_or(Ok(()), Err)
    }

    /// Says whether something can be stored, as far as that is known.
    ///
    /// # Errors
    /// The store is away.
    pub async fn takes_changes(&self) -> Result<(), Status> {
        let away = |problem| Err(status::store(StoreError::Unavailable(problem)));
        self.watch.problem_now(&*self.store).await.map_or(Ok(()), away)
    }

    /// Tells streams that the gateway is about to stop.
    pub async fn drain(&self) {
        self.engine.drain(Duration::ZERO).await;
    }

    /// Gives the store up, once nobody asks any more.
    pub async fn close(&self) {
        log_head(&*self.store, "audit closed").await;
        if let Err(error) = self.store.close().await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the store could not be closed"
            );
        }
    }
}

impl Found {
    fn settled(id: &str, workspace: String) -> Self {
        Self {
            workspace,
            id: id.to_owned(),
            goes_on: false,
            run: None,
        }
    }
}

fn nothing_confined() -> SandboxFacts {
    SandboxFacts {
        landlock: 0,
        seccomp: false,
        is_on: false,
        mode: SandboxMode::Off,
        network: SandboxNetwork::Deny,
        required: false,
        missing: Vec::new(),
    }
}

/// Nobody opens a workspace here.
struct NoWorkspaces;

#[async_trait]
impl Workspaces for NoWorkspaces {
    fn are_fixed(&self) -> bool {
        false
    }

    fn roots(&self) -> Vec<String> {
        Vec::new()
    }

    fn most(&self) -> usize {
        0
    }

    async fn open(&self, _: WantedWorkspace) -> Result<(Arc<WorkspaceRuntime>, bool), OpenError> {
        Err(OpenError::Fixed)
    }

    async fn close(&self, name: &str, _: &str) -> Result<usize, CloseError> {
        Err(CloseError::Unknown(name.to_owned()))
    }

    fn can_create(&self) -> bool {
        false
    }

    fn templates(&self) -> Vec<String> {
        Vec::new()
    }

    async fn create(&self, _: WantedCreation) -> Result<(Arc<WorkspaceRuntime>, bool), CreatedError> {
        Err(CreatedError::Fixed)
    }

    async fn suspend(&self, name: &str) -> Result<(Arc<WorkspaceRuntime>, Rested), CreatedError> {
        Err(CreatedError::Unknown(name.to_owned()))
    }

    async fn resume(&self, name: &str, _: Duration) -> Result<Arc<WorkspaceRuntime>, CreatedError> {
        Err(CreatedError::Unknown(name.to_owned()))
    }

    async fn delete(&self, name: &str, _: &str) -> Result<usize, CreatedError> {
        Err(CreatedError::Unknown(name.to_owned()))
    }
}

/// No language server runs here.
struct NoLanguages;

impl Languages for NoLanguages {
    fn servers(&self, _: &str) -> Vec<LanguageServerFacts> {
        Vec::new()
    }
}
