//! What the SDK asks of a server: who it is, its tools, a call, its resources.
//!
//! *Invariant:* one per session, and nothing of the session in it: whoever calls is read from each request.

#![expect(
    deprecated,
    reason = "clients of revisions before 2026-07-28 set the level of their log by a request"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, CompleteRequestParams, CompleteResult, Extensions,
    GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tonic::Status;
use tonic::codegen::http::request::Parts;
use toolgate_engine::digest_of;
use toolgate_extensions::mcp::List;
use toolgate_model::{Definition, ITSELF, Source, introduction};

use super::call::{Outcome, Wish};
use super::clients;
use super::context::{McpContext, Seen};
use super::sessions::Sessions;
use super::{SESSION, text_of};
use super::{call, content, notes, passing, resources};
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
        let shows_forms = client.is_some_and(clients::shows_forms);
        let asks = shows_forms && clients::user_may_answer(&self.shared, seen, place.workspace.name());
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
        session: text_of(&parts.headers, &SESSION),
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
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
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
        let wish = Wish {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            state: request.request_state,
            responses: request.input_responses,
        };
        let ended = match call::run(&self.shared, &self.sessions, seen, wish, context).await? {
            Outcome::Refused(status) => return Ok(call::refusal(&status).into()),
            Outcome::Wants(wants) => return Ok(wants.into()),
            Outcome::Ended(ended) => *ended,
        };
        let is_whole = !ended.ending.truncation.truncated;
        let mut result = content::result(&ended.call, &ended.ran, ended.ending);
        if is_whole && result.is_error != Some(true) {
            let mut sent = ended.sent;
            if let Some(sent) = &mut sent {
                self.shared.engine.redactor().value(sent);
            }
            content::as_sent(&mut result, sent);
        }
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        let prompts = passing::listed(&self.shared, &seen, &context, List::Prompts).await?;
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        passing::prompt((&self.shared, &self.sessions), seen, request, context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        passing::complete(&self.shared, &seen, &request, &context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        let cursor = request.and_then(|request| request.cursor);
        let client = context.client_info();
        let mut listed = resources::list(&self.shared, &seen, client.as_ref(), cursor).await?;
        if listed.next_cursor.is_none() {
            let of_servers = passing::listed(&self.shared, &seen, &context, List::Resources).await?;
            listed.resources.extend(of_servers);
        }
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        let mut templates = vec![resources::template()];
        templates.extend(passing::listed(&self.shared, &seen, &context, List::Templates).await?);
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let seen = read_seen(&context.extensions)?;
        if !resources::is_own(&request.uri) {
            return passing::read((&self.shared, &self.sessions), seen, request, context).await;
        }
        let client = context.client_info();
        let read = resources::read(&self.shared, &seen, client.as_ref(), &request.uri).await?;
        Ok(read.into())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let seen = read_seen(&context.extensions)?;
        if clients::is_sessionless(&context) {
            // There each request says it for itself.
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        let level = serde_json::to_value(request.level).ok();
        let level = level.as_ref().and_then(Value::as_str).and_then(notes::level);
        if let (Some(session), Some(level)) = (&seen.session, level) {
            self.sessions.set_log_level(session, level);
        }
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let seen = read_seen(&context.extensions)?;
        passing::subscribe((&self.shared, &self.sessions), &seen, request.uri, &context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let seen = read_seen(&context.extensions)?;
        passing::unsubscribe(&self.shared, &self.sessions, &seen, request.uri)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    /// Tells a client without a session what has changed, for as long as it listens.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let request = context.request_context();
        let seen = read_seen(&request.extensions)?;
        let client = request.client_capabilities();
        let place = seen.context.place(&seen.caller, &self.shared.engine).map_err(refused)?;
        let changes = Mutex::new((place.tools.changes(), None));
        drop(place);
        let changed = || async {
            let mut state = changes.lock().await;
            let (changes, known) = &mut *state;
            if known.is_none() {
                *known = Some(self.definitions(&seen, client.as_ref()).await.unwrap_or_default());
            }
            loop {
                if changes.changed().await.is_err() {
                    return std::future::pending().await;
                }
                let now = Some(self.definitions(&seen, client.as_ref()).await.unwrap_or_default());
                if now != *known {
                    *known = now;
                    return;
                }
            }
        };
        passing::listen(&self.shared, &seen, &context, changed).await
    }

    /// Begins to tell the client when its list of tools is another one.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(seen) = read_seen(&context.extensions) else {
            return;
        };
        let client = context.peer.peer_info().map(|info| info.capabilities.clone());
        let Some(session) = seen.session.clone() else {
            return;
        };
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
