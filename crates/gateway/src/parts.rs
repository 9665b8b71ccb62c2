//! What the answers to all requests share.
//!
//! *Invariant:* a leaf for those who answer: it uses none of them.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::task::TaskTracker;
use tonic::Status;
use toolgate_config::Config;
use toolgate_model::InstanceId;
use toolgate_server::app::store_front::StoreFront;
use toolgate_server::grpc::Closing;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::limits::{Traffic, TrafficLimits};
use toolgate_server::grpc::status;
use toolgate_telemetry::Metrics;

use crate::created::Created;
use crate::directory::Directory;
use crate::pool::Pool;
use crate::registry::Registry;
use crate::shared::Shared;
use crate::tenants::Tenants;
use crate::worker::Worker;

/// What each request needs.
pub(crate) struct Parts {
    /// What is answered from a store, if the gateway has one.
    pub(crate) store: Option<StoreFront>,
    /// Workers that wait for a workspace, at a gateway with a store.
    pub(crate) pool: Option<Arc<Pool>>,
    /// Workspaces that clients create, at a gateway that has them made.
    pub(crate) created: Option<Arc<Created>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) directory: Directory,
    pub(crate) facts: Facts,
    pub(crate) tenants: Tenants,
    /// Ends the streams that have no end of their own.
    pub(crate) closing: Closing,
    /// Whether SDKs of agent-sandbox are served.
    pub(crate) agent_sandbox: bool,
    /// Bytes of the largest message.
    pub(crate) limit: usize,
    /// How much may come.
    pub(crate) traffic: Arc<Traffic>,
    /// Connections that go through for as long as both sides like.
    pub(crate) tunnels: TaskTracker,
    /// Calls that several clients watch.
    pub(crate) shared: Shared,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Makes of secrets what may be written down: nobody else has its keys.
    pub(crate) hasher: RandomState,
}

impl Parts {
    /// Returns a worker that answers a caller for all that nobody has.
    pub(crate) fn any(&self, caller: &OnBehalf) -> Result<Arc<Worker>, Status> {
        let workers = self.registry.workers_for(caller);
        let is_usable = |worker: &&Arc<Worker>| {
            let facts = worker.facts.read();
            facts.is_there && facts.refused.is_none()
        };
        // One that has registered itself may be in the hands of anybody: it is not told what is meant for others.
        let listed = workers.iter().filter(|worker| worker.is_listed()).find(is_usable);
        let there = listed
            .or_else(|| workers.iter().find(is_usable))
            .or(workers.first())
            .cloned();
        there.ok_or_else(|| {
            status::worker_gone(match self.registry.workers().is_empty() {
                true => "no worker has registered at this gateway",
                false => "no worker that may have your workspaces has registered at this gateway",
            })
        })
    }
}

/// What the gateway says of itself.
pub(crate) struct Facts {
    pub(crate) instance: String,
    pub(crate) started: SystemTime,
    pub(crate) console: bool,
    pub(crate) takes_jwt: bool,
    /// What a person should know of its own configuration.
    pub(crate) warnings: Vec<String>,
    pub(crate) limits: TrafficLimits,
    pub(crate) max_message_bytes: u64,
}

impl Facts {
    pub(crate) fn new(config: &Config, limits: TrafficLimits, instance: &InstanceId) -> Self {
        Self {
            instance: instance.to_string(),
            started: SystemTime::now(),
            console: config.console,
            takes_jwt: config.auth.jwt.is_some(),
            warnings: config.warnings.clone(),
            limits,
            max_message_bytes: config.limits.max_message_bytes,
        }
    }
}
