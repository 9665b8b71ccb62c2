//! What becomes of calls of a created workspace that is not ready, and of those that make one.
//!
//! *Invariant:* a call waits for a bounded time, and is refused then with what is to be tried again, or is wrong. Nobody makes a workspace
//! that it does not see, that a tenant has no room for, or that anybody has had. However many calls wait for one worker, it is looked for
//! as if one did; what each does by itself is to look what is known here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tonic::Status;
use toolgate_model::{Timestamp, WorkspaceSource, workspace_name_problem};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::doors::MCP_PATH;
use toolgate_server::grpc::status;
use toolgate_store::created::{Asked, NewWorkspace, Stage};

use super::requests::held;
use super::{Created, LOOK};
use crate::table::makes_call;
use crate::tenants::Tenants;
use crate::worker::Worker;

/// How long a call waits for its workspace, and how often it is looked whether its worker is known here.
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
        if let Some(worker) = self.here(name).filter(|_| !self.held.read().contains(name)) {
            if makes_call(path) {
                self.is_called(name);
            }
            return Ok(Some(worker));
        }
        self.once_ready(name, resumes(path)).await
    }

    /// Returns the worker of a workspace if it is known to be there.
    fn here(&self, name: &str) -> Option<Arc<Worker>> {
        self.registry.owner(name).filter(|worker| worker.facts.read().is_there)
    }

    /// Waits for the worker of a workspace that is ready, until it is time to look again whether the workspace still is.
    async fn wait_for_worker(
        &self,
        name: &str,
        changed: &mut watch::Receiver<()>,
        time: Duration,
    ) -> Option<Arc<Worker>> {
        let coming = async {
            loop {
                if let Some(worker) = self.here(name) {
                    return worker;
                }
                sleep(ARRIVAL).await;
            }
        };
        tokio::select! {
            biased;
            worker = coming => Some(worker),
            // The sender is kept here.
            _ = changed.changed() => None,
            () = sleep(LOOK.min(time)) => None,
            () = self.closing.cancelled() => None,
        }
    }

    /// Has it looked what has become of the worker of a workspace that is ready: it may be gone for good.
    async fn look_for_worker(&self, name: &str) -> Result<(), Status> {
        self.store.look_at(name).await.map_err(status::store)?;
        self.news.notify_one();
        if let Some(worker) = self.registry.owner(name) {
            worker.is_news();
        }
        self.registry.refresh().await;
        Ok(())
    }

    /// Notes that something is called in a workspace.
    fn is_called(&self, name: &str) {
        if self.idle_suspend.is_some() && !self.called.lock().contains(name) {
            self.called.lock().insert(name.to_owned());
        }
    }

    async fn once_ready(&self, name: &str, resumes: bool) -> Result<Option<Arc<Worker>>, Status> {
        let begun = Instant::now();
        let mut changed = self.changed.subscribe();
        loop {
            // What is told from here on may not be in what is read now.
            changed.mark_unchanged();
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
                    let mut worker = self.here(name);
                    if worker.is_none() && !is_over {
                        if self.looks.is_due(name) {
                            self.look_for_worker(name).await?;
                        }
                        worker = self.wait_for_worker(name, &mut changed, left).await;
                    }
                    if worker.is_some() {
                        self.looks.are_over(name);
                        return Ok(worker);
                    }
                    if is_over {
                        let problem = match found.problem.is_empty() {
                            true => format!("the worker of the workspace {name} is not there"),
                            false => format!("the worker of the workspace {name} is not there: {}", found.problem),
                        };
                        return Err(status::worker_gone(&problem));
                    }
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
