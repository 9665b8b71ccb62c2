//! The folders in which tools work: listed, and opened, created and closed while the service runs.
//!
//! *Invariant:* a list has all pages.

use toolgate_contract::{
    CloseWorkspaceRequest, CloseWorkspaceResponse, CreateWorkspaceRequest, CreateWorkspaceResponse,
    DeleteWorkspaceRequest, DeleteWorkspaceResponse, GetWorkspaceRequest, ListWorkspacesRequest,
    ListWorkspacesResponse, OpenWorkspaceRequest, OpenWorkspaceResponse, ResumeWorkspaceRequest,
    SuspendWorkspaceRequest, SuspendWorkspaceResponse, WorkspaceInfo,
};

use crate::client::{Client, unary};
use crate::error::Error;

impl Client {
    /// Opens a folder as a workspace; the same name with the same folder again returns what is open.
    pub async fn open_workspace(&self, request: OpenWorkspaceRequest) -> Result<OpenWorkspaceResponse, Error> {
        unary!(self, workspace_service.open_workspace, request).await
    }

    /// Closes a workspace that was opened while the service ran, and returns when its calls have ended. Its records stay.
    pub async fn close_workspace(&self, name: impl Into<String>) -> Result<CloseWorkspaceResponse, Error> {
        let request = CloseWorkspaceRequest { workspace: name.into() };
        // It takes as long as its calls take to end.
        self.retry(request, None, |request| {
            let mut service = self.workspace_service();
            async move { service.close_workspace(request).await }
        })
        .await
    }

    /// Creates a workspace; the same name with the same source again returns what is there. It waits for the workspace as long as
    /// the request says; its state says how far it is then.
    pub async fn create_workspace(&self, request: CreateWorkspaceRequest) -> Result<CreateWorkspaceResponse, Error> {
        // It takes as long as it waits.
        self.retry(request, None, |request| {
            let mut service = self.workspace_service();
            async move { service.create_workspace(request).await }
        })
        .await
    }

    /// Suspends a workspace that was created, and returns when nothing of it runs. Its files are kept.
    pub async fn suspend_workspace(&self, name: impl Into<String>) -> Result<SuspendWorkspaceResponse, Error> {
        let request = SuspendWorkspaceRequest { workspace: name.into() };
        // It takes as long as its calls take to end.
        self.retry(request, None, |request| {
            let mut service = self.workspace_service();
            async move { service.suspend_workspace(request).await }
        })
        .await
    }

    /// Resumes a workspace that was suspended, and waits for it as long as the request says.
    pub async fn resume_workspace(&self, request: ResumeWorkspaceRequest) -> Result<WorkspaceInfo, Error> {
        // It takes as long as it waits.
        let resumed = self.retry(request, None, |request| {
            let mut service = self.workspace_service();
            async move { service.resume_workspace(request).await }
        });
        resumed.await?.workspace.ok_or(Error::Protocol("workspace"))
    }

    /// Deletes a workspace that was created, with its files. Its records stay.
    pub async fn delete_workspace(&self, name: impl Into<String>) -> Result<DeleteWorkspaceResponse, Error> {
        let request = DeleteWorkspaceRequest { workspace: name.into() };
        // It takes as long as its calls take to end, and its files to go.
        self.retry(request, None, |request| {
            let mut service = self.workspace_service();
            async move { service.delete_workspace(request).await }
        })
        .await
    }

    /// Returns a workspace with its agents and the sources of its tools; an empty name stands for the default one.
    pub async fn get_workspace(&self, name: impl Into<String>) -> Result<WorkspaceInfo, Error> {
        let request = GetWorkspaceRequest { workspace: name.into() };
        let response = unary!(self, workspace_service.get_workspace, request).await?;
        response.workspace.ok_or(Error::Protocol("workspace"))
    }

    /// Lists the workspaces by name, all pages, and the folders below which others may be opened.
    pub async fn list_workspaces(&self) -> Result<ListWorkspacesResponse, Error> {
        let mut request = ListWorkspacesRequest::default();
        let mut workspaces = Vec::new();
        loop {
            let mut page = unary!(self, workspace_service.list_workspaces, request.clone()).await?;
            workspaces.append(&mut page.workspaces);
            if page.next_page_token.is_empty() {
                return Ok(ListWorkspacesResponse { workspaces, ..page });
            }
            request.page_token = page.next_page_token;
        }
    }
}
