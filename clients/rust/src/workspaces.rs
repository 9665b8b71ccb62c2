//! The folders in which tools work: listed, and opened and closed while the service runs.
//!
//! *Invariant:* a list has all pages.

use toolgate_contract::{
    CloseWorkspaceRequest, CloseWorkspaceResponse, GetWorkspaceRequest, ListWorkspacesRequest, ListWorkspacesResponse,
    OpenWorkspaceRequest, OpenWorkspaceResponse, WorkspaceInfo,
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
