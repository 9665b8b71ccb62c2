//! `McpService`: resources and prompts of MCP servers, for front ends.
//!
//! *Invariant:* what is read is read by a call, which is judged and recorded like any other. Whatever else is told of a server is
//! judged by the same rules, and nobody is asked. No secret is shown.
//!
//! `lists`: what servers list, as far as it may be seen. `wire`: what servers say, as messages of the contract.

mod lists;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status};
use toolgate_contract::mcp_service_server::McpService;
use toolgate_contract::*;
use toolgate_extensions::mcp::relay::Answer;
use toolgate_extensions::mcp::{List, McpServer, Owned};
use toolgate_model::{CallId, Source, SourceState};
use toolgate_tool::SourceInfo;

use self::lists::{Left, Look, of_server};
use super::Shared;
use super::auth::Caller;
use super::events::deadline;
use super::file_service::permitted::glance;
use super::rpc_call::RpcCall;
use super::status::{self, bad_field, failed_with};

/// The codes with which servers say that there is no such resource: of older revisions, and of parameters that are wrong, of which
/// the address is the only one.
const NO_RESOURCE: [i64; 2] = [-32002, INVALID_PARAMS];

/// The code with which servers refuse parameters.
const INVALID_PARAMS: i64 = -32602;

/// Suggestions of one answer.
const MAX_VALUES: usize = 100;

/// The service.
pub(crate) struct McpServers(pub(crate) Arc<Shared>);

#[tonic::async_trait]
impl McpService for McpServers {
    async fn list_mcp_resources(
        &self,
        request: Request<ListMcpResourcesRequest>,
    ) -> Result<Response<ListMcpResourcesResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let look = Look::new(&self.0, &caller, request.context).await?;
        let found = look.list(&request.server, List::Resources).await?;
        let page = found.page(&self.0, request.page_size, &request.page_token)?;
        let resources = page.entries.iter().map(|(server, item)| wire::resource(server, item));
        Ok(Response::new(ListMcpResourcesResponse {
            resources: resources.collect(),
            omitted: page.omitted,
            next_page_token: page.next,
        }))
    }

    async fn list_mcp_resource_templates(
        &self,
        request: Request<ListMcpResourceTemplatesRequest>,
    ) -> Result<Response<ListMcpResourceTemplatesResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let look = Look::new(&self.0, &caller, request.context).await?;
        let found = look.list(&request.server, List::Templates).await?;
        let page = found.page(&self.0, request.page_size, &request.page_token)?;
        let templates = page.entries.iter().map(|(server, item)| wire::template(server, item));
        Ok(Response::new(ListMcpResourceTemplatesResponse {
            templates: templates.collect(),
            omitted: page.omitted,
            next_page_token: page.next,
        }))
    }

    async fn list_mcp_prompts(
        &self,
        request: Request<ListMcpPromptsRequest>,
    ) -> Result<Response<ListMcpPromptsResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let look = Look::new(&self.0, &caller, request.context).await?;
        let found = look.list(&request.server, List::Prompts).await?;
        let page = found.page(&self.0, request.page_size, &request.page_token)?;
        let prompts = page.entries.iter().map(|(server, item)| wire::prompt(server, item));
        Ok(Response::new(ListMcpPromptsResponse {
            prompts: prompts.collect(),
            omitted: page.omitted,
            next_page_token: page.next,
        }))
    }

    async fn read_mcp_resource(
        &self,
        request: Request<ReadMcpResourceRequest>,
    ) -> Result<Response<ReadMcpResourceResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let uri = named("uri", &request.uri)?;
        let (shared, server) = (&self.0, &request.server);
        let reading = Reading::new(shared, &caller, (server, List::Resources), request.call, deadline).await?;
        let Reading { server, call } = reading.ok_or_else(|| status::not_found("MCP resource", uri))?;
        let input = json!({"server": server.name(), "uri": uri});
        let call_id = call.id().to_owned();
        let answer = match read(&server, &call, input).await? {
            Answer::Result(answer) => answer,
            Answer::Failed { code, message } => {
                let (status, reason) = match NO_RESOURCE.contains(&code) {
                    true => (Code::NotFound, ErrorReason::NotFound),
                    false => (Code::FailedPrecondition, ErrorReason::NotDone),
                };
                return Err(failed_with(status, reason, &call_id, said(&server, &message)));
            }
        };
        let contents = wire::contents(&answer);
        let contents = contents.map_err(|problem| unreadable(&server, &call_id, problem))?;
        Ok(Response::new(ReadMcpResourceResponse { call_id, contents }))
    }

    async fn get_mcp_prompt(
        &self,
        request: Request<GetMcpPromptRequest>,
    ) -> Result<Response<GetMcpPromptResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let name = named("name", &request.name)?;
        let (shared, server) = (&self.0, &request.server);
        let reading = Reading::new(shared, &caller, (server, List::Prompts), request.call, deadline).await?;
        let missing = || status::not_found("MCP prompt", name);
        let Reading { server, call } = reading.ok_or_else(missing)?;
        // Of a prompt that a rule denies nothing is told: the call says that it is denied.
        let is_denied = {
            let glance = glance(shared, &caller, call.context()).await?;
            glance.hides("read", &server.prompt(name).pattern)
        };
        if let (false, Ok(listed)) = (is_denied, server.listed(List::Prompts).await) {
            let prompt = listed.iter().find(|item| item["name"] == name);
            let prompt = wire::prompt(server.name(), prompt.ok_or_else(missing)?);
            let required = prompt.arguments.into_iter().filter(|argument| argument.required);
            let lacking = required.map(|argument| argument.name);
            let lacking: Vec<String> = lacking.filter(|name| !request.arguments.contains_key(name)).collect();
            if !lacking.is_empty() {
                return Err(status::mcp_argument_missing(&lacking));
            }
        }
        let mut input = json!({"server": server.name(), "prompt": name});
        if !request.arguments.is_empty() {
            input["arguments"] = ordered(request.arguments);
        }
        let call_id = call.id().to_owned();
        let answer = match read(&server, &call, input).await? {
            Answer::Result(answer) => answer,
            Answer::Failed { code, message } => {
                let (status, reason) = match code {
                    INVALID_PARAMS => (Code::InvalidArgument, ErrorReason::InvalidField),
                    _ => (Code::FailedPrecondition, ErrorReason::NotDone),
                };
                return Err(failed_with(status, reason, &call_id, said(&server, &message)));
            }
        };
        let messages = wire::messages(server.name(), &answer);
        let messages = messages.map_err(|problem| unreadable(&server, &call_id, problem))?;
        Ok(Response::new(GetMcpPromptResponse {
            call_id,
            description: answer["description"].as_str().unwrap_or_default().to_owned(),
            messages,
        }))
    }

    async fn complete_mcp_argument(
        &self,
        request: Request<CompleteMcpArgumentRequest>,
    ) -> Result<Response<CompleteMcpArgumentResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let argument = named("argument", &request.argument)?;
        let owner = request
            .owner
            .ok_or_else(|| bad_field("owner", "say whose argument it is"))?;
        let look = Look::new(&self.0, &caller, request.context).await?;
        let server = ready(look.source(&request.server)?, look.server(&request.server))?;
        let (owned, reference): (Owned, Value) = match &owner {
            complete_mcp_argument_request::Owner::Prompt(name) => {
                let name = named("prompt", name)?;
                (server.prompt(name), json!({"type": "ref/prompt", "name": name}))
            }
            complete_mcp_argument_request::Owner::UriTemplate(template) => {
                let template = named("uri_template", template)?;
                (
                    server.resource(template),
                    json!({"type": "ref/resource", "uri": template}),
                )
            }
        };
        let refused = |left: Left| left.into_status(server.name());
        look.may(&owned.pattern).await?.map_err(refused)?;
        if !server.completes() {
            return Ok(Response::new(CompleteMcpArgumentResponse::default()));
        }
        let mut params = json!({"ref": reference, "argument": {"name": argument, "value": request.value}});
        if !request.arguments.is_empty() {
            params["context"] = json!({"arguments": ordered(request.arguments)});
        }
        let answer = owned.ask("completion/complete", params).await;
        let mut answer = answer.map_err(|problem| refused(Left::not_done(said(&server, &problem))))?;
        self.0.engine.redactor().value(&mut answer);
        let completion = &answer["completion"];
        let values = completion["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        let values = values.iter().filter_map(Value::as_str).map(str::to_owned);
        Ok(Response::new(CompleteMcpArgumentResponse {
            values: values.take(MAX_VALUES).collect(),
            total: completion["total"].as_i64().and_then(|total| total.try_into().ok()),
            has_more: completion["hasMore"] == true,
        }))
    }
}

/// A reading of what a server has, which is about to be made.
struct Reading<'a> {
    server: McpServer,
    call: RpcCall<'a>,
}

impl<'a> Reading<'a> {
    /// Prepares it; there is none if the server has nothing of this kind.
    async fn new(
        shared: &'a Arc<Shared>,
        caller: &'a Caller,
        (server, list): (&str, List),
        call: Option<CallStart>,
        deadline: Option<Instant>,
    ) -> Result<Option<Self>, Status> {
        let workspace = call.as_ref().and_then(|call| call.context.as_ref());
        let workspace = workspace.map_or("", |context| &context.workspace);
        let place = caller.awake(&shared.engine, workspace).await?;
        place.usable().map_err(status::admit)?;
        place.tools.settled().await;
        let source = lists::source(&place, server)?;
        let server = ready(source, of_server(shared, place.workspace.name(), server))?;
        if server.has(list) != Some(true) {
            return Ok(None);
        }
        // Whatever is read, the tool is the server's.
        let tool = server.resource("").tool;
        let call = RpcCall::new(shared, caller, tool, call, deadline)?;
        Ok(Some(Self { server, call }))
    }
}

/// Returns a server that is there.
fn ready(source: SourceInfo, server: Option<McpServer>) -> Result<McpServer, Status> {
    let is_there = source.state == SourceState::Ready;
    let server = server.filter(|server| is_there && server.has(List::Resources).is_some());
    server.ok_or_else(|| Left::not_ready(&source).into_status(&source.name))
}

/// Reads what a server has, by a call. What the server answers is without secrets.
async fn read(server: &McpServer, call: &RpcCall<'_>, input: Value) -> Result<Answer, Status> {
    let shared = call.shared;
    let Some(servers) = &shared.servers else {
        return Err(status::not_found("MCP server", server.name()));
    };
    let id = CallId::from(call.id());
    // A call of another workspace may have the id; then this one is made under the second name.
    let mut taken = [&id, &id.within(call.workspace())].map(|id| servers.relays().take(id));
    let made = call.complete(input).await;
    let answer = taken.iter_mut().find_map(|taken| taken.answer());
    let redactor = shared.engine.redactor();
    match (made, answer) {
        (Ok(_), Some(Answer::Result(mut answer))) => {
            redactor.value(&mut answer);
            Ok(Answer::Result(answer))
        }
        (Ok((id, _)), Some(Answer::Failed { .. }) | None) => {
            let problem = format!(
                "what the call {id} has read was handed out, and is not kept: read it again with another call id"
            );
            Err(failed_with(
                Code::FailedPrecondition,
                ErrorReason::ContentMissing,
                &id,
                problem,
            ))
        }
        (Err(status), Some(Answer::Failed { code, mut message })) if status.code() == Code::FailedPrecondition => {
            redactor.string(&mut message);
            Ok(Answer::Failed { code, message })
        }
        // Without its server there is no such tool, which is not the fault of a rule.
        (Err(status), None) if status.code() == Code::PermissionDenied && server.has(List::Resources).is_none() => {
            Err(Left::lost().into_status(server.name()))
        }
        (Err(status), _) => Err(status),
    }
}

/// Returns a text of a request, which is not empty.
fn named<'t>(field: &str, text: &'t str) -> Result<&'t str, Status> {
    match text {
        "" => Err(bad_field(field, "it must not be empty")),
        text => Ok(text),
    }
}

/// Returns arguments in an order that a retry has as well.
fn ordered(arguments: HashMap<String, String>) -> Value {
    let mut arguments: Vec<(String, String)> = arguments.into_iter().collect();
    arguments.sort();
    let arguments = arguments.into_iter().map(|(name, value)| (name, Value::from(value)));
    Value::Object(arguments.collect::<Map<_, _>>())
}

fn said(server: &McpServer, message: &str) -> String {
    format!("the MCP server {:?} says: {message}", server.name())
}

fn unreadable(server: &McpServer, call_id: &str, problem: &str) -> Status {
    let problem = format!(
        "the answer of the MCP server {:?} cannot be read: {problem}",
        server.name()
    );
    failed_with(Code::FailedPrecondition, ErrorReason::NotDone, call_id, problem)
}

/// Says whether a source is an MCP server of this name.
fn is_server(source: &SourceInfo, name: &str) -> bool {
    source.source == Source::Mcp && source.name == name
}
