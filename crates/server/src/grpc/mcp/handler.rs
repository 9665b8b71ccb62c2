//! What the SDK asks of a server: who it is, its tools, a call, its resources.
//!
//! *Invariant:* one per session, and nothing of the session in it: whoever calls is read from each request.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, Extensions, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tonic::Status;
use tonic::codegen::http::request::Parts;
use toolgate_engine::digest_of;
use toolgate_model::{Definition, ITSELF, Source, introduction};

use super::context::{McpContext, Seen};
use super::sessions::Sessions;
use super::{SESSION, text_of};
use super::{call, content, resources};
use crate::grpc::Shared;
use crate::grpc::auth::Caller;

/// Tools on one page.
const PAGE_SIZE: usize = 100;

const INSTRUCTIONS: &str = "Tools that work in a folder of this machine. A call may wait until a person has allowed \
what it is about to do; a refusal is told as its result. Where a result shows only a part of the output, the whole can \
be read from the file that it names, or as a resource.";

/// One session's side of the SDK.
pub(super) struct Handler {
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
}

impl Handler {
    pub(super) fn new(shared: Arc<Shared>, sessions: Arc<Sessions>) -> Self {
        Self { shared, sessions }
    }

    async fn definitions(
        &self,
        seen: &Seen,
        client: Option<&ClientCapabilities>,
    ) -> Result<Vec<Definition>, ErrorData> {
        let place = seen.context.place(&seen.caller, &self.shared.engine).map_err(refused)?;
        let shows_forms = client.is_some_and(call::shows_forms);
        let asks = shows_forms && call::user_may_answer(&self.shared, seen, place.workspace.name());
        let mut definitions = seen.context.definitions(&place, asks).await;
        let experimental = client.and_then(|client| client.experimental.as_ref());
        if experimental.is_some_and(|known| known.contains_key(ITSELF)) {
            // Services that have each other as a server would hand the same tools round and round.
            definitions.retain(|definition| definition.source != Source::Mcp);
        }
        Ok(definitions)
    }
}

/// Reads what the request of HTTP came with.
fn read_seen(extensions: &Extensions) -> Result<Seen, ErrorData> {
    let missing = || ErrorData::invalid_request("the request did not come over HTTP", None);
    let parts = extensions.get::<Parts>().ok_or_else(missing)?;
    Ok(Seen {
        caller: Caller::from_extensions(&parts.extensions).map_err(refused)?,
        context: parts.extensions.get::<McpContext>().cloned().ok_or_else(missing)?,
        session: text_of(&parts.headers, &SESSION).ok_or_else(missing)?,
    })
}

fn refused(status: Status) -> ErrorData {
    ErrorData::invalid_params(status.message().to_owned(), None)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_experimental_with(BTreeMap::from([(
                ITSELF.to_owned(),
                introduction(self.shared.engine.calls().instance()),
            )]))
            .build();
        let this = Implementation::new("toolgate", env!("CARGO_PKG_VERSION")).with_title("Toolgate");
        ServerConfig::new(capabilities)
            .with_server_info(this)
            .with_instructions(INSTRUCTIONS)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        ProtocolVersion::known_up_to(&ProtocolVersion::LATEST_WITH_INITIALIZE).into()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        let client = context.client_capabilities();
        let definitions = self.definitions(&seen, client.as_ref()).await?;
        let etag = digest_of(&json!(definitions))[..16].to_owned();
        let first = match request.and_then(|request| request.cursor) {
            None => 0,
            Some(cursor) => {
                let place = cursor.strip_prefix(&etag).and_then(|rest| rest.strip_prefix('.'));
                place
                    .and_then(|first| first.parse::<usize>().ok())
                    .ok_or_else(|| ErrorData::invalid_params("the list has changed since: begin again", None))?
            }
        };
        let next = first.saturating_add(PAGE_SIZE);
        let more = next < definitions.len();
        let page = definitions.into_iter().skip(first).take(PAGE_SIZE).map(content::tool);
        let mut result = ListToolsResult::with_all_items(page.collect());
        result.next_cursor = more.then(|| format!("{etag}.{next}"));
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        let gone = self
            .sessions
            .gone(&seen.session)
            .ok_or_else(|| ErrorData::invalid_request("the session has ended", None))?;
        let _counted = self.sessions.call(&seen.session);
        let result = call::run(&self.shared, &self.sessions, seen, gone, request, context).await?;
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        let cursor = request.and_then(|request| request.cursor);
        let client = context.client_info();
        resources::list(&self.shared, &seen, client.as_ref(), cursor).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![resources::template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        let client = context.client_info();
        let read = resources::read(&self.shared, &seen, client.as_ref(), &request.uri).await?;
        Ok(read.into())
    }

    /// Begins to tell the client when its list of tools is another one.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(seen) = read_seen(&context.extensions) else {
            return;
        };
        let client = context.peer.peer_info().map(|info| info.capabilities.clone());
        let session = seen.session.clone();
        let watcher = Self::new(self.shared.clone(), self.sessions.clone());
        self.sessions.spawn(&session, async move {
            // The workspace itself is not held: it may be closed.
            let place = seen.context.place(&seen.caller, &watcher.shared.engine);
            let Ok(mut changes) = place.map(|place| place.tools.changes()) else {
                return;
            };
            let mut known = watcher.definitions(&seen, client.as_ref()).await.unwrap_or_default();
            while changes.changed().await.is_ok() {
                let now = watcher.definitions(&seen, client.as_ref()).await.unwrap_or_default();
                if now == known {
                    continue;
                }
                known = now;
                if context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }
}
