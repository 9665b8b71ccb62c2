//! `WorkspaceService`: shows workspaces, and opens, creates and closes them while the service runs.

use std::path::PathBuf;
use std::sync::Arc;

use tonic::{Request, Response, Status};
use toolgate_contract::workspace_service_server::WorkspaceService;
use toolgate_contract::*;
use toolgate_engine::WorkspaceRuntime;

use super::auth::Caller;
use super::convert::{duration, int, int32, page_size, wait, workspace_source};
use super::info_service::{language_server, workspace};
use super::workspaces::{CreatedError, OpenError, WantedCreation, WantedWorkspace};
use super::{Shared, status};

/// The service.
pub(crate) struct OpenWorkspaces(pub(crate) Arc<Shared>);

const MAX_WORKSPACES: usize = 500;

impl OpenWorkspaces {
    /// Returns all that is told of a workspace.
    async fn whole(&self, place: &WorkspaceRuntime) -> Result<WorkspaceInfo, Status> {
        let mut info = workspace(place);
        let (languages, name) = (self.0.languages.clone(), info.name.clone());
        let found = tokio::task::spawn_blocking(move || languages.servers(&name)).await;
        let found = found.map_err(|error| status::internal("looking for language servers", &error))?;
        info.language_servers = found.into_iter().map(language_server).collect();
        Ok(info)
    }
}

/// Refuses a caller who may not see a workspace, whether there is one of that name or not.
fn check_sight(caller: &Caller, name: &str) -> Result<(), Status> {
    match caller.sees(name) {
        true => Ok(()),
        false => Err(status::limited(&format!(
            "the workspace {name:?} is none of the caller's"
        ))),
    }
}

#[tonic::async_trait]
impl WorkspaceService for OpenWorkspaces {
    async fn open_workspace(
        &self,
        request: Request<OpenWorkspaceRequest>,
    ) -> Result<Response<OpenWorkspaceResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        check_sight(&caller, &request.workspace)?;
        let wanted = WantedWorkspace {
            name: request.workspace,
            directory: PathBuf::from(request.directory),
            create: request.create,
            by: caller.principal().id(),
        };
        let outcome = self.0.workspaces.open(wanted).await;
        if let Err(OpenError::TooMany(_)) = &outcome {
            self.0.telemetry.metrics.refused("limits.max_workspaces");
        }
        let (place, opened) = outcome.map_err(status::open_workspace)?;
        Ok(Response::new(OpenWorkspaceResponse {
            workspace: Some(self.whole(&place).await?),
            opened,
        }))
    }

    async fn close_workspace(
        &self,
        request: Request<CloseWorkspaceRequest>,
    ) -> Result<Response<CloseWorkspaceResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        check_sight(&caller, &request.workspace)?;
        let by = caller.principal().id();
        let closed = self.0.workspaces.close(&request.workspace, &by).await;
        let cancelled = closed.map_err(status::close_workspace)?;
        Ok(Response::new(CloseWorkspaceResponse {
            cancelled_calls: int32(cancelled),
        }))
    }

    async fn create_workspace(
        &self,
        request: Request<CreateWorkspaceRequest>,
    ) -> Result<Response<CreateWorkspaceResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        check_sight(&caller, &request.workspace)?;
        let wanted = WantedCreation {
            name: request.workspace,
            source: workspace_source(request.source),
            by: caller.principal().id(),
            wait: wait(request.wait.as_ref())?,
        };
        let outcome = self.0.workspaces.create(wanted).await;
        if let Err(CreatedError::TooMany(_)) = &outcome {
            self.0.telemetry.metrics.refused("limits.max_workspaces");
        }
        let (place, created) = outcome.map_err(status::created_workspace)?;
        Ok(Response::new(CreateWorkspaceResponse {
            workspace: Some(self.whole(&place).await?),
            created,
        }))
    }

    async fn suspend_workspace(
        &self,
        request: Request<SuspendWorkspaceRequest>,
    ) -> Result<Response<SuspendWorkspaceResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        check_sight(&caller, &request.workspace)?;
        let suspended = self.0.workspaces.suspend(&request.workspace).await;
        let (place, rested) = suspended.map_err(status::created_workspace)?;
        Ok(Response::new(SuspendWorkspaceResponse {
            workspace: Some(self.whole(&place).await?),
            cancelled_calls: int32(rested.cancelled),
            waiting_calls: int32(rested.waiting),
        }))
    }

    async fn resume_workspace(
        &self,
        request: Request<ResumeWorkspaceRequest>,
    ) -> Result<Response<ResumeWorkspaceResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        check_sight(&caller, &request.workspace)?;
        let wait = wait(request.wait.as_ref())?;
        let resumed = self.0.workspaces.resume(&request.workspace, wait).await;
        let place = resumed.map_err(status::created_workspace)?;
        Ok(Response::new(ResumeWorkspaceResponse {
            workspace: Some(self.whole(&place).await?),
        }))
    }

    async fn delete_workspace(
        &self,
        request: Request<DeleteWorkspaceRequest>,
    ) -> Result<Response<DeleteWorkspaceResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        check_sight(&caller, &request.workspace)?;
        let by = caller.principal().id();
        let deleted = self.0.workspaces.delete(&request.workspace, &by).await;
        let cancelled = deleted.map_err(status::created_workspace)?;
        Ok(Response::new(DeleteWorkspaceResponse {
            cancelled_calls: int32(cancelled),
        }))
    }

    async fn get_workspace(
        &self,
        request: Request<GetWorkspaceRequest>,
    ) -> Result<Response<GetWorkspaceResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let place = caller.place(&self.0.engine, &request.workspace)?;
        let used = self.0.engine.usage(place.workspace.name()).await;
        let (running_calls, used) = used.map_err(status::store)?;
        let workspace = WorkspaceInfo {
            usage: Some(WorkspaceUsage {
                running_calls: int32(running_calls),
                processes: int32(used.processes),
                memory_bytes: int(used.memory_bytes),
                user_time: Some(duration(used.user)),
                system_time: Some(duration(used.system)),
            }),
            ..self.whole(&place).await?
        };
        Ok(Response::new(GetWorkspaceResponse {
            workspace: Some(workspace),
        }))
    }

    async fn list_workspaces(
        &self,
        request: Request<ListWorkspacesRequest>,
    ) -> Result<Response<ListWorkspacesResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let size = page_size(request.page_size, 50, MAX_WORKSPACES)?;
        let all = self.0.engine.catalogs().all();
        let mut places: Vec<_> = all
            .iter()
            .filter(|place| caller.sees(place.workspace.name()))
            .filter(|place| *place.workspace.name() > *request.page_token)
            .collect();
        places.sort_by_key(|place| place.workspace.name());
        let has_more = places.len() > size;
        places.truncate(size);
        let last = places.last().filter(|_| has_more);
        let next_page_token = last.map(|place| place.workspace.name().to_owned()).unwrap_or_default();
        let workspaces = self.0.workspaces.clone();
        let templates = tokio::task::spawn_blocking(move || workspaces.templates()).await;
        let templates = templates.map_err(|error| status::internal("looking for templates", &error))?;
        let short = |place: &&Arc<WorkspaceRuntime>| WorkspaceInfo {
            agents: Vec::new(),
            tool_sources: Vec::new(),
            ..workspace(place)
        };
        Ok(Response::new(ListWorkspacesResponse {
            workspaces: places.iter().map(short).collect(),
            next_page_token,
            roots: self.0.workspaces.roots(),
            templates,
        }))
    }
}
