//! What becomes of calls of a created workspace that is not ready, and of those that make one.
//!
//! *Invariant:* a call waits for a bounded time, and is refused then with what is to be tried again, or is wrong. Nobody makes a workspace
//! that it does not see, that a tenant has no room for, or that anybody has had.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::Status;
use toolgate_model::{Timestamp, WorkspaceSource, workspace_name_problem};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::doors::MCP_PATH;
use toolgate_server::grpc::status;
use toolgate_store::created::{Asked, NewWorkspace, Stage};

use super::Created;
use super::requests::held;
use crate::table::makes_call;
use crate::tenants::Tenants;
use crate::worker::Worker;

/// How long a call waits for its workspace, and how often it is looked whether its worker is here.
const CALL_WAIT: Duration = Duration::from_secs(10);
const ARRIVAL: Duration = Duration::from_millis(25);

/// Says whether a request resumes a workspace that is suspended: what makes a call, or needs the tools that only its worker knows. What
/// looks at calls, files and outputs does not, which clients may do again and again.
fn resumes(path: &str) -> bool {
    let others = [
        "HostService/Host",
        "HostService/ServeTools",
        "ToolService/CancelCall",
        "ToolService/EvaluateCall",
        "ToolService/ListTools",
    ];
    let rpc = path.strip_prefix("/toolgate.v1.");
    path == MCP_PATH || makes_call(path) || rpc.is_some_and(|rpc| others.contains(&rpc))
}

impl Created {
    /// Returns the worker of a created workspace, once it is there; none of a workspace that was not created. One that is suspended is
    /// resumed for it.
    pub(crate) async fn for_call(
        &self,
        caller: &OnBehalf,
        (name, path): (&str, &str),
    ) -> Result<Option<Arc<Worker>>, Status> {
        if name.is_empty() || !caller.sees(name) {
            return Ok(None);
        }
        let owner = self.registry.owner(name).filter(|worker| worker.facts.read().is_there);
        if let Some(worker) = owner.filter(|_| !self.held.read().contains(name)) {
            if makes_call(path) {
                self.is_called(name);
            }
            return Ok(Some(worker));
        }
        self.once_ready(name, resumes(path)).await
    }

    /// Notes that something is called in a workspace.
    fn is_called(&self, name: &str) {
        if self.idle_suspend.is_some() && !self.called.lock().contains(name) {
            self.called.lock().insert(name.to_owned());
        }
    }

    async fn once_ready(&self, name: &str, resumes: bool) -> Result<Option<Arc<Worker>>, Status> {
        let begun = Instant::now();
        let mut is_looked_at = false;
        loop {
            let left = CALL_WAIT.saturating_sub(begun.elapsed());
            let is_at_rest = |stage: Stage| !stage.is_under_way() || stage == Stage::Deleting;
            let settled = self.wait_for(name, left, |one| is_at_rest(one.stage)).await;
            let Some(found) = settled.map_err(status::store)? else {
                self.let_go_of(name).await.map_err(status::store)?;
                return Ok(None);
            };
            let is_over = left.is_zero() || self.closing.is_cancelled();
            match found.stage {
                Stage::Suspended if !resumes => return Err(held(&found)),
                Stage::Suspended => {
                    let wanted = self
                        .store
                        .want_stage(name, &[Stage::Suspended], Stage::Resuming, "")
                        .await;
                    wanted.map_err(status::store)?;
                    self.told();
                    if is_over {
                        return Err(held(&found));
                    }
                }
                Stage::Ready => {
                    if resumes {
                        self.is_called(name);
                    }
                    let owner = self.registry.owner(name);
                    if let Some(worker) = owner.as_ref().filter(|worker| worker.facts.read().is_there) {
                        return Ok(Some(worker.clone()));
                    }
                    if is_over {
                        let problem = match found.problem.is_empty() {
                            true => format!("the worker of the workspace {name} is not there"),
                            false => format!("the worker of the workspace {name} is not there: {}", found.problem),
                        };
                        return Err(status::worker_gone(&problem));
                    }
                    if !std::mem::replace(&mut is_looked_at, true) {
                        // It may be gone for good.
                        self.store.look_at(name).await.map_err(status::store)?;
                        self.told();
                        if let Some(worker) = owner {
                            worker.is_news();
                        }
                        self.registry.refresh().await;
                    }
                    sleep(ARRIVAL).await;
                }
                Stage::Creating | Stage::Resuming | Stage::Suspending if !is_over => {}
                Stage::Creating | Stage::Resuming | Stage::Suspending | Stage::Deleting | Stage::Failed => {
                    return Err(held(&found));
                }
            }
        }
    }

    /// Makes a workspace for its first call, and returns its worker; none if none is made.
    pub(crate) async fn for_first_call(
        &self,
        tenants: &Tenants,
        caller: &OnBehalf,
        name: &str,
    ) -> Result<Option<Arc<Worker>>, Status> {
        if !self.on_first_call || !caller.sees(name) || workspace_name_problem(name).is_some() {
            return Ok(None);
        }
        let new = NewWorkspace {
            name: name.to_owned(),
            source: WorkspaceSource::Empty,
            by: caller.id(),
            time: Timestamp::now(),
            request: uuid::Uuid::now_v7().to_string(),
        };
        match self.want(tenants, new).await? {
            // Whatever it was created from.
            Asked::Now(_) | Asked::Before(_) | Asked::Otherwise => self.once_ready(name, true).await,
            Asked::Foreign => Ok(None),
            Asked::Full { quota, open } => Err(tenants.are_too_many(name, quota, open)),
        }
    }
}
