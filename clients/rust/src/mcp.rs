//! What MCP servers of a workspace offer beside tools: resources and prompts.
//!
//! *Invariant:* a list has all pages, and says which servers are left out.

use toolgate_contract::{
    CallContext, CompleteMcpArgumentRequest, CompleteMcpArgumentResponse, GetMcpPromptRequest, ListMcpPromptsRequest,
    ListMcpPromptsResponse, ListMcpResourceTemplatesRequest, ListMcpResourceTemplatesResponse, ListMcpResourcesRequest,
    ListMcpResourcesResponse, ReadMcpResourceRequest,
};

use crate::call_request::CallRequest;
use crate::client::{Client, unary};
use crate::error::Error;
use crate::request::completed;

/// Returns the last page of a list with the entries of all pages.
macro_rules! whole {
    ($client:expr, $rpc:ident, $request:expr, $items:ident) => {{
        let (client, mut request) = ($client, $request);
        request.context = Some(completed(request.context.unwrap_or_default(), client));
        let mut items = Vec::new();
        loop {
            let mut page = unary!(client, mcp_service.$rpc, request.clone()).await?;
            items.append(&mut page.$items);
            if page.next_page_token.is_empty() {
                page.$items = items;
                break Ok(page);
            }
            request.page_token = page.next_page_token;
        }
    }};
}

impl Client {
    /// Lists the resources of the MCP servers of a workspace, or of one of them. What the request leaves out is taken from the
    /// client.
    pub async fn list_mcp_resources(
        &self,
        request: ListMcpResourcesRequest,
    ) -> Result<ListMcpResourcesResponse, Error> {
        whole!(self, list_mcp_resources, request, resources)
    }

    /// Lists the templates of addresses of resources, likewise.
    pub async fn list_mcp_resource_templates(
        &self,
        request: ListMcpResourceTemplatesRequest,
    ) -> Result<ListMcpResourceTemplatesResponse, Error> {
        whole!(self, list_mcp_resource_templates, request, templates)
    }

    /// Lists the prompts of the MCP servers, likewise.
    pub async fn list_mcp_prompts(&self, request: ListMcpPromptsRequest) -> Result<ListMcpPromptsResponse, Error> {
        whole!(self, list_mcp_prompts, request, prompts)
    }

    /// Prepares to read a resource of an MCP server, which asks for the permission `read`.
    pub fn read_mcp_resource(
        &self,
        server: impl Into<String>,
        uri: impl Into<String>,
    ) -> CallRequest<ReadMcpResourceRequest> {
        let request = ReadMcpResourceRequest {
            server: server.into(),
            uri: uri.into(),
            ..ReadMcpResourceRequest::default()
        };
        CallRequest::new(self, CallContext::default(), request)
    }

    /// Prepares to get a prompt of an MCP server, which asks for the permission `read`.
    pub fn get_mcp_prompt(
        &self,
        server: impl Into<String>,
        name: impl Into<String>,
    ) -> CallRequest<GetMcpPromptRequest> {
        let request = GetMcpPromptRequest {
            server: server.into(),
            name: name.into(),
            ..GetMcpPromptRequest::default()
        };
        CallRequest::new(self, CallContext::default(), request)
    }

    /// Suggests values for an argument of a prompt or of a template. What the request leaves out is taken from the client.
    pub async fn complete_mcp_argument(
        &self,
        mut request: CompleteMcpArgumentRequest,
    ) -> Result<CompleteMcpArgumentResponse, Error> {
        request.context = Some(completed(request.context.unwrap_or_default(), self));
        unary!(self, mcp_service.complete_mcp_argument, request).await
    }
}

impl CallRequest<GetMcpPromptRequest> {
    /// Adds an argument of the prompt.
    pub fn argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.arguments.insert(name.into(), value.into());
        self
    }
}
