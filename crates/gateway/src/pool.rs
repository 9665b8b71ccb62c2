//! Workers that wait for a workspace, and get one when a call names one that nobody has had.
//!
//! *Invariant:* a worker is bound only to what the rule says that names it, and only once; whose a workspace is the store decides, so two
//! gateways that want the same at the same time get the same. A caller gets no workspace that it does not see. What is bound is told
//! also if nobody waits for it any more, and once more where it was not.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use tonic::Status;
use toolgate_config::service::PoolUse;
use toolgate_model::workspace_name_problem;
use toolgate_server::grpc::auth::{Authenticator, OnBehalf};
use toolgate_server::grpc::status;
use toolgate_store::ledger::Binding;

use crate::bindings::Bindings;
use crate::registry::Registry;
use crate::tenants::Tenants;
use crate::worker::Worker;

/// How long a call waits for the worker that was bound for it, and how often it is looked whether it is there.
const ARRIVAL: (Duration, Duration) = (Duration::from_secs(15), Duration::from_millis(10));

/// The pool of a gateway.
pub(crate) struct Pool {
    registry: Arc<Registry>,
    bindings: Arc<Bindings>,
    authenticator: Arc<Authenticator>,
    uses: PoolUse,
    tasks: TaskTracker,
}

impl Pool {
    pub(crate) fn new(
        registry: Arc<Registry>,
        bindings: Arc<Bindings>,
        authenticator: Arc<Authenticator>,
        uses: PoolUse,
    ) -> Self {
        Self {
            registry,
            bindings,
            authenticator,
            uses,
            tasks: TaskTracker::new(),
        }
    }

    /// Returns the worker that is bound to a workspace for a call that names it, if one can be; nothing where the workspace is not one
    /// of the pool.
    pub(crate) async fn for_call(
        &self,
        caller: &OnBehalf,
        tenants: &Tenants,
        workspace: &str,
    ) -> Result<Option<Arc<Worker>>, Status> {
        match self.uses {
            PoolUse::Off => return Ok(None),
            PoolUse::FirstCall => {}
        }
        if !caller.sees(workspace) || workspace_name_problem(workspace).is_some() {
            return Ok(None);
        }
        let fits = |worker: &Arc<Worker>| worker.may_be_bound_to(workspace);
        // There may be none at the moment, of a pool that is to have some.
        if !self.registry.workers().iter().any(fits) && !self.authenticator.has_pool_for(workspace) {
            return Ok(None);
        }
        let _opening = tenants.open(&self.registry, workspace)?;
        let waiting: Vec<Arc<Worker>> = self
            .registry
            .workers()
            .iter()
            .filter(|worker| worker.waits())
            .cloned()
            .collect();
        for worker in waiting.iter().filter(|worker| fits(worker)) {
            match self.bind(worker, workspace).await? {
                Binding::Now | Binding::OfAnother { .. } => return self.arrival(workspace).await.map(Some),
                // Another gateway was faster.
                Binding::Elsewhere => {}
                Binding::Held => return Ok(None),
            }
        }
        // One that was bound before, and is on its way here, or away.
        if self
            .registry
            .workers()
            .iter()
            .any(|worker| worker.is_bound_to(workspace))
        {
            return self.arrival(workspace).await.map(Some);
        }
        let none = format!("no worker waits for the workspace {workspace}: more are needed in the pool");
        Err(status::worker_gone(&none))
    }

    /// Binds a worker that waits to a workspace, for good, and has it told.
    pub(crate) async fn bind(&self, worker: &Arc<Worker>, workspace: &str) -> Result<Binding, Status> {
        let Some(known) = worker.bound_as().filter(|_| worker.may_be_bound_to(workspace)) else {
            return Ok(Binding::Elsewhere);
        };
        let (registry, bindings) = (Arc::clone(&self.registry), Arc::clone(&self.bindings));
        let (worker, workspace) = (Arc::clone(worker), workspace.to_owned());
        // Whoever called may go away meanwhile.
        let binding = self.tasks.spawn(async move {
            let bound = bindings.bind(&known.0, &known.1, &workspace).await?;
            match &bound {
                Binding::Now => {
                    tracing::info!(worker = worker.name, workspace, "a worker is bound to a workspace");
                    worker.is_now_bound(Some(workspace));
                }
                Binding::Elsewhere => worker.is_now_bound(bindings.of(&known.0, &known.1).await?),
                // Whoever has bound it may have died before it told.
                Binding::OfAnother { principal, worker } => {
                    let known = (principal.clone(), worker.clone());
                    for worker in registry.workers().iter() {
                        if worker.bound_as().as_ref() == Some(&known) && !worker.is_bound_to(&workspace) {
                            worker.is_now_bound(Some(workspace.clone()));
                        }
                    }
                }
                Binding::Held => {}
            }
            Ok(bound)
        });
        let bound = binding.await;
        let bound = bound.map_err(|error| status::internal("a worker is not bound to a workspace", &error))?;
        bound.map_err(status::store)
    }

    /// Waits until a worker has a workspace that it was bound to.
    async fn arrival(&self, workspace: &str) -> Result<Arc<Worker>, Status> {
        let begun = Instant::now();
        while begun.elapsed() < ARRIVAL.0 {
            if let Some(worker) = self.registry.owner(workspace) {
                return Ok(worker);
            }
            sleep(ARRIVAL.1).await;
        }
        let late = format!("the worker that is bound to the workspace {workspace} is not there");
        Err(status::worker_gone(&late))
    }
}
