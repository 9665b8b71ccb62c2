//! What clients ask of the service for workspaces, as far as the gateway answers it: creating, and what is about created ones.
//!
//! *Invariant:* as on one machine: the same words for what is refused, and what is asked for goes on though whoever asked is gone.

use std::time::Duration;

use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;
use toolgate_contract::*;
use toolgate_model::{Timestamp, workspace_name_problem};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::created::{Held, wait, workspace_source};
use toolgate_server::grpc::{CreatedError, status};
use toolgate_server::provision::problem_of;
use toolgate_store::created::{Asked, CreatedWorkspace, NewWorkspace, Stage};

use super::Created;
use super::shown::shown;
use crate::registry::ASK_TIMEOUT;
use crate::tenants::Tenants;
use crate::wire::{decode, unary};

/// How long anybody waits for a workspace.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// So often a suspension or a deletion fails before whoever waits for it is told.
const PATIENCE: u64 = 3;

/// The stages at which a workspace can be deleted.
const ANY: [Stage; 6] = [
    Stage::Creating,
    Stage::Ready,
    Stage::Suspending,
    Stage::Suspended,
    Stage::Resuming,
    Stage::Failed,
];

/// Says why nothing can be done with a workspace at its stage.
pub(super) fn held(workspace: &CreatedWorkspace) -> Status {
    let (name, problem) = (workspace.name.clone(), &workspace.problem);
    let not_yet = |what: &str| CreatedError::NotYet {
        name: name.clone(),
        why: format!("{what}, which does not succeed yet: {problem}"),
    };
    let held = |held: Held| CreatedError::Held {
        name: name.clone(),
        held,
    };
    status::created_workspace(match workspace.stage {
        Stage::Failed => held(Held::Failed(problem.clone())),
        Stage::Suspending if problem.is_empty() => CreatedError::NotYet {
            name,
            why: "is being suspended: try again in a moment".to_owned(),
        },
        Stage::Creating | Stage::Resuming | Stage::Ready if problem.is_empty() => held(Held::Creating),
        Stage::Suspended if problem.is_empty() => held(Held::Suspended { by_calls: true }),
        Stage::Deleting if problem.is_empty() => held(Held::Deleting),
        Stage::Creating => not_yet("is being created"),
        Stage::Resuming => not_yet("is being resumed"),
        Stage::Suspending => not_yet("is being suspended"),
        Stage::Deleting => not_yet("is being deleted"),
        Stage::Ready => CreatedError::NotYet {
            name,
            why: format!("is not ready yet: {problem}"),
        },
        Stage::Suspended => CreatedError::NotYet {
            name,
            why: format!("is suspended, and could not be resumed yet: {problem}"),
        },
    })
}

/// Refuses a caller who may not see a workspace, whether there is one of that name or not.
fn check_sight(caller: &OnBehalf, name: &str) -> Result<(), Status> {
    match caller.sees(name) {
        true => Ok(()),
        false => Err(status::limited(&format!(
            "the workspace {name:?} is none of the caller's"
        ))),
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn unknown(name: &str) -> Status {
    status::created_workspace(CreatedError::Unknown(name.to_owned()))
}

impl Created {
    /// Answers a request about workspaces; none if it is about one that was not created here.
    pub(crate) async fn answer(
        &self,
        tenants: &Tenants,
        caller: &OnBehalf,
        (path, first): (&str, &[u8]),
    ) -> Option<Result<Response<Body>, Status>> {
        let rpc = path.strip_prefix("/toolgate.v1.WorkspaceService/")?;
        let answered = match rpc {
            "CreateWorkspace" => self.create(tenants, caller, first).await.map(Some),
            "SuspendWorkspace" => self.suspend_for(caller, first).await,
            "ResumeWorkspace" => self.resume_for(caller, first).await,
            "DeleteWorkspace" => self.delete_for(caller, first).await,
            "CloseWorkspace" => self.refuse_to_close(caller, first).await,
            "GetWorkspace" => self.get(caller, first).await,
            _ => return None,
        };
        answered.transpose()
    }

    async fn find(&self, name: &str) -> Result<Option<CreatedWorkspace>, Status> {
        if name.is_empty() {
            return Ok(None);
        }
        let found = self.store.created(name).await.map_err(status::store)?;
        if found.is_none() {
            self.let_go_of(name).await.map_err(status::store)?;
        }
        Ok(found)
    }

    async fn create(&self, tenants: &Tenants, caller: &OnBehalf, first: &[u8]) -> Result<Response<Body>, Status> {
        let request: CreateWorkspaceRequest = decode(first)?;
        let name = request.workspace;
        check_sight(caller, &name)?;
        let wait = wait(request.wait.as_ref())?;
        let source = workspace_source(request.source);
        if let Some(problem) = workspace_name_problem(&name) {
            return Err(status::created_workspace(CreatedError::BadName(problem)));
        }
        if let Some((field, problem)) = problem_of(&source) {
            return Err(status::created_workspace(CreatedError::BadSource { field, problem }));
        }
        let new = NewWorkspace {
            name: name.clone(),
            source,
            by: caller.id(),
            time: Timestamp::now(),
            request: uuid::Uuid::now_v7().to_string(),
        };
        let taken = |why| {
            Err(status::created_workspace(CreatedError::NameTaken {
                name: name.clone(),
                why,
            }))
        };
        let (found, created) = match self.want(tenants, new).await? {
            Asked::Now(found) => (found, true),
            Asked::Before(found) if found.stage == Stage::Deleting => return Err(held(&found)),
            Asked::Before(found) => (found, false),
            Asked::Otherwise => return taken("was created from something else"),
            Asked::Foreign => return taken("is there already, or was, and was not created"),
            Asked::Full { quota, open } => return Err(tenants.are_too_many(&name, quota, open)),
        };
        let waits = self.waits.begin(&caller.id());
        let time = waits.of(wait.min(MAX_WAIT));
        let settled = self.wait_for(&name, time, |one| !is_coming(one)).await;
        let found = settled.map_err(status::store)?.unwrap_or(found);
        Ok(unary(&CreateWorkspaceResponse {
            workspace: Some(self.whole(&found).await),
            created,
        }))
    }

    /// Notes that a workspace is wanted.
    pub(super) async fn want(&self, tenants: &Tenants, new: NewWorkspace) -> Result<Asked, Status> {
        self.let_go_of(&new.name).await.map_err(status::store)?;
        let quotas = tenants.quotas(&new.name);
        let asked = self.store.want_workspace(new, &quotas, &self.registry.served()).await;
        let asked = asked.map_err(status::store)?;
        if let Asked::Now(_) = &asked {
            self.told();
        }
        Ok(asked)
    }

    async fn suspend_for(&self, caller: &OnBehalf, first: &[u8]) -> Result<Option<Response<Body>>, Status> {
        let SuspendWorkspaceRequest { workspace: name } = decode(first)?;
        check_sight(caller, &name)?;
        let Some(found) = self.find(&name).await? else {
            return Ok(None);
        };
        let wanted = self
            .store
            .want_stage(&name, &[Stage::Ready], Stage::Suspending, &caller.id())
            .await;
        let is_now = wanted.map_err(status::store)?.is_some();
        self.told();
        if !is_now && !matches!(found.stage, Stage::Suspending | Stage::Suspended) {
            let found = self.find(&name).await?.ok_or_else(|| unknown(&name))?;
            return Err(held(&found));
        }
        let waits = self.waits.begin(&caller.id());
        let settled = self
            .wait_for(&name, waits.of(MAX_WAIT), |one| {
                one.stage != Stage::Suspending || one.attempts >= PATIENCE
            })
            .await;
        let found = settled.map_err(status::store)?.ok_or_else(|| unknown(&name))?;
        match found.stage {
            Stage::Suspended => {}
            Stage::Ready | Stage::Resuming if is_now => {
                let problem = "it was taken up again, by a call or a reply, or since whoever makes its place does not suspend it (the log \
                               of the gateway says so)";
                return Err(held(&CreatedWorkspace {
                    stage: Stage::Failed,
                    problem: problem.to_owned(),
                    ..found
                }));
            }
            Stage::Ready | Stage::Resuming | Stage::Creating | Stage::Suspending | Stage::Deleting | Stage::Failed => {
                return Err(held(&found));
            }
        }
        let calls = self.store.unfinished_calls(&name).await.map_err(status::store)?;
        let cancelled = usize::try_from(found.cancelled).unwrap_or(usize::MAX);
        Ok(Some(unary(&SuspendWorkspaceResponse {
            workspace: Some(self.whole(&found).await),
            cancelled_calls: if is_now { count(cancelled) } else { 0 },
            waiting_calls: count(calls.len()),
        })))
    }

    async fn resume_for(&self, caller: &OnBehalf, first: &[u8]) -> Result<Option<Response<Body>>, Status> {
        let request: ResumeWorkspaceRequest = decode(first)?;
        let name = request.workspace;
        check_sight(caller, &name)?;
        let wait = wait(request.wait.as_ref())?;
        let Some(found) = self.find(&name).await? else {
            return Ok(None);
        };
        let from: &[Stage] = match found.stage {
            // It was there before: it may come again.
            Stage::Failed if found.was_ready => &[Stage::Suspended, Stage::Suspending, Stage::Failed],
            Stage::Failed | Stage::Deleting => return Err(held(&found)),
            Stage::Creating | Stage::Ready | Stage::Suspending | Stage::Suspended | Stage::Resuming => {
                &[Stage::Suspended, Stage::Suspending]
            }
        };
        let wanted = self.store.want_stage(&name, from, Stage::Resuming, &caller.id()).await;
        let found = wanted.map_err(status::store)?.unwrap_or(found);
        self.told();
        let waits = self.waits.begin(&caller.id());
        let time = waits.of(wait.min(MAX_WAIT));
        let settled = self.wait_for(&name, time, |one| !is_coming(one)).await;
        let found = settled.map_err(status::store)?.unwrap_or(found);
        Ok(Some(unary(&ResumeWorkspaceResponse {
            workspace: Some(self.whole(&found).await),
        })))
    }

    async fn delete_for(&self, caller: &OnBehalf, first: &[u8]) -> Result<Option<Response<Body>>, Status> {
        let DeleteWorkspaceRequest { workspace: name } = decode(first)?;
        check_sight(caller, &name)?;
        let Some(found) = self.find(&name).await? else {
            return Ok(None);
        };
        let calls = self.store.unfinished_calls(&name).await.map_err(status::store)?;
        let wanted = self.store.want_stage(&name, &ANY, Stage::Deleting, &caller.id()).await;
        wanted.map_err(status::store)?;
        self.told();
        let is_another = |one: &CreatedWorkspace| one.request != found.request;
        let is_over = |one: &CreatedWorkspace| is_another(one) || one.attempts >= PATIENCE;
        let waits = self.waits.begin(&caller.id());
        let settled = self.wait_for(&name, waits.of(MAX_WAIT), is_over).await;
        let settled = settled.map_err(status::store)?;
        match settled.filter(|one| !is_another(one)) {
            None => Ok(Some(unary(&DeleteWorkspaceResponse {
                cancelled_calls: count(calls.len()),
            }))),
            Some(found) => Err(held(&found)),
        }
    }

    async fn refuse_to_close(&self, caller: &OnBehalf, first: &[u8]) -> Result<Option<Response<Body>>, Status> {
        let CloseWorkspaceRequest { workspace: name } = decode(first)?;
        check_sight(caller, &name)?;
        match self.find(&name).await? {
            None => Ok(None),
            Some(_) => {
                let message =
                    format!("the workspace {name:?} was created by CreateWorkspace: delete it, or suspend it");
                Err(status::precondition(ErrorReason::WorkspaceCreated, &name, message))
            }
        }
    }

    async fn get(&self, caller: &OnBehalf, first: &[u8]) -> Result<Option<Response<Body>>, Status> {
        let request: GetWorkspaceRequest = decode(first)?;
        let found = self.find(&request.workspace).await?;
        let Some(found) = found.filter(|one| caller.sees(&one.name)) else {
            return Ok(None);
        };
        let of_worker = self.told_by_worker(&found, Some(caller)).await;
        Ok(Some(unary(&GetWorkspaceResponse {
            workspace: Some(shown(&found, of_worker)),
        })))
    }

    /// Returns all that is told of a workspace.
    async fn whole(&self, workspace: &CreatedWorkspace) -> WorkspaceInfo {
        shown(workspace, self.told_by_worker(workspace, None).await)
    }

    /// Returns what the worker of a workspace that is ready tells of it, if it is here.
    async fn told_by_worker(&self, workspace: &CreatedWorkspace, caller: Option<&OnBehalf>) -> WorkspaceInfo {
        let worker = self
            .registry
            .owner(&workspace.name)
            .filter(|_| workspace.stage == Stage::Ready);
        let Some(worker) = worker.filter(|worker| worker.facts.read().is_there) else {
            return WorkspaceInfo::default();
        };
        let entry = caller.map_or_else(OnBehalf::entry_of_gateway, OnBehalf::entry);
        let question = GetWorkspaceRequest {
            workspace: workspace.name.clone(),
        };
        let path = "/toolgate.v1.WorkspaceService/GetWorkspace";
        let asked = worker.ask::<_, GetWorkspaceResponse>(path, question, Some(&entry));
        match timeout(ASK_TIMEOUT, asked).await {
            Ok(Ok(answer)) => answer.workspace.unwrap_or_default(),
            Ok(Err(_)) | Err(_) => WorkspaceInfo::default(),
        }
    }
}

/// Says whether a workspace will be ready, or have failed.
fn is_coming(workspace: &CreatedWorkspace) -> bool {
    matches!(workspace.stage, Stage::Creating | Stage::Resuming)
}

#[cfg(test)]
mod tests {
    use toolgate_model::WorkspaceSource;

    use super::*;

    #[test]
    fn what_is_in_the_way_is_said() {
        let said = |stage, problem: &str| {
            let workspace = CreatedWorkspace {
                name: "a".to_owned(),
                source: WorkspaceSource::Empty,
                stage,
                problem: problem.to_owned(),
                by: "token:anna".to_owned(),
                time: Timestamp::now(),
                request: "r-1".to_owned(),
                asked_by: String::new(),
                lasts: Duration::ZERO,
                since: 0,
                is_begun: true,
                attempts: 1,
                cancelled: 0,
                was_ready: true,
            };
            held(&workspace).message().to_owned()
        };
        for stage in Stage::ALL {
            let (plain, with) = (said(stage, ""), said(stage, "no disk"));
            assert!(with.ends_with(": no disk"), "{with}");
            assert!(stage == Stage::Failed || !plain.ends_with(": "), "{plain}");
        }
        assert_eq!(
            said(Stage::Suspending, "no disk"),
            "the workspace \"a\" is being suspended, which does not succeed yet: no disk"
        );
    }
}
