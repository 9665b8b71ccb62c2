//! What is done by a call that an RPC makes and waits for: changes of files, the opening of ports, and readings of what MCP servers
//! have.
//!
//! *Invariant:* every such call has an id before it is sent, so that sending it again after a lost connection does nothing twice.

use std::time::Duration;

use toolgate_contract::{
    CallContext, CallStart, CreateFolderRequest, CreateFolderResponse, DeleteFileRequest, DeleteFileResponse,
    GetMcpPromptRequest, GetMcpPromptResponse, MoveFileRequest, MoveFileResponse, ReadMcpResourceRequest,
    ReadMcpResourceResponse, Unattended, WriteFileRequest, WriteFileResponse,
};

use crate::client::{Client, new_id};
use crate::context::context_setters;
use crate::error::Error;
use crate::request::completed;

/// Something that is done by a call, which may ask a person. It is sent by `run`, which returns when it is done. Dropping the
/// future of `run` cancels the call.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct CallRequest<R> {
    client: Client,
    pub(crate) context: CallContext,
    options: CallStart,
    pub(crate) request: R,
}

impl<R> CallRequest<R> {
    pub(crate) fn new(client: &Client, context: CallContext, request: R) -> Self {
        Self {
            client: client.clone(),
            context,
            options: CallStart::default(),
            request,
        }
    }

    context_setters!(context);

    /// Says all of that at once.
    pub fn context(mut self, context: CallContext) -> Self {
        self.context = context;
        self
    }

    /// Chooses the call's id: 1 to 128 letters, digits and `-_.:`. The same id with the same request attaches to the call that
    /// is there, so a program that keeps the id can be started again.
    pub fn call_id(mut self, id: impl Into<String>) -> Self {
        self.options.call_id = id.into();
        self
    }

    /// Lets each prompt of the call wait for somebody to answer it who is not there yet: as long as the service lets prompts
    /// wait, and not longer than `limit` if there is one. Without this, a prompt that nobody sees is refused at once.
    pub fn wait_for_approval(mut self, limit: Option<Duration>) -> Self {
        self.options.unattended = Unattended::Wait.into();
        // What is longer than the wire can say is no limit.
        self.options.wait_timeout = limit.and_then(|limit| limit.try_into().ok());
        self
    }

    /// Returns how the call is made, and what it is to do.
    pub(crate) fn into_parts(self) -> (Client, CallStart, R) {
        let mut options = self.options;
        options.context = Some(completed(self.context, &self.client));
        if options.call_id.is_empty() {
            options.call_id = new_id();
        }
        (self.client, options, self.request)
    }
}

/// Gives requests with a field `call` their `run`.
macro_rules! runs {
    ($($service:ident.$rpc:ident: $request:ident => $response:ident;)*) => {
        $(
            impl CallRequest<$request> {
                /// Does it, and returns when its call has ended. An error has the service's reason, and the `call_id` in
                /// its metadata once there is a call.
                pub async fn run(self) -> Result<$response, Error> {
                    let (client, call, request) = self.into_parts();
                    let request = $request { call: Some(call), ..request };
                    let rpc = |request| {
                        let mut service = client.$service();
                        async move { service.$rpc(request).await }
                    };
                    client.retry(request, None, rpc).await
                }
            }
        )*
    };
}

runs! {
    file_service.write_file: WriteFileRequest => WriteFileResponse;
    file_service.create_folder: CreateFolderRequest => CreateFolderResponse;
    file_service.move_file: MoveFileRequest => MoveFileResponse;
    file_service.delete_file: DeleteFileRequest => DeleteFileResponse;
    mcp_service.read_mcp_resource: ReadMcpResourceRequest => ReadMcpResourceResponse;
    mcp_service.get_mcp_prompt: GetMcpPromptRequest => GetMcpPromptResponse;
}

impl CallRequest<MoveFileRequest> {
    /// Moves only a file with this SHA-256: otherwise the reason is `CONTENT_DIFFERS`.
    pub fn if_sha256(mut self, digest: impl Into<String>) -> Self {
        self.request.if_sha256 = digest.into();
        self
    }
}

impl CallRequest<DeleteFileRequest> {
    /// Deletes a folder as well, with all that is in it.
    pub fn recursive(mut self) -> Self {
        self.request.recursive = true;
        self
    }

    /// Deletes only a file with this SHA-256: otherwise the reason is `CONTENT_DIFFERS`.
    pub fn if_sha256(mut self, digest: impl Into<String>) -> Self {
        self.request.if_sha256 = digest.into();
        self
    }
}
