//! `ToolService`: lists tools, starts calls, lets clients watch and cancel them.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use toolgate_contract::tool_service_server::ToolService;
use toolgate_contract::{self as proto, *};
use toolgate_engine::{AdmitError, Attached, Cursor, Item, MAX_WAITING_INPUT, OutputMode, Started, digest_of};
use toolgate_model::{CallId, CallRecord, Definition, EventKind, PromptId, ToolCall};
use toolgate_store::{CallFilter, PageRequest};
use toolgate_tool::{Offer, dialect};

use super::arrival::Arrival;
use super::auth::Caller;
use super::convert::{self, WireCall, int, int32, non_empty, page_size, unsigned};
use super::events::{ResponseStream, deadline, stream_events};
use super::hold::{HeldForClient, Hold};
use super::status::bad_field;
use super::values::page_start;
use super::{Shared, status};
use crate::grpc::convert::{FromCore as _, FromNumber as _, IntoProto as _};

/// The service.
pub(crate) struct Tools(pub(crate) Arc<Shared>);

const MAX_TOOLS: usize = 1000;
const MAX_CALLS: usize = 500;

/// How long before its deadline a client is told what its call waits for.
const DEADLINE_MARGIN: Duration = Duration::from_secs(1);

impl Tools {
    async fn begin(
        &self,
        caller: &Caller,
        request: WireCall,
        mode: OutputMode,
    ) -> Result<(CallId, Cursor, Option<Attached>), Status> {
        self.begin_in(caller, &self.default_for(caller), request, mode).await
    }

    /// Returns the workspace that a caller means who names none.
    fn default_for(&self, caller: &Caller) -> String {
        let places = self.0.engine.catalogs().all();
        let mut names = places.iter().map(|place| place.workspace.name());
        names.find(|name| caller.sees(name)).unwrap_or_default().to_owned()
    }

    /// Returns the call of a request, in the name of its caller.
    async fn signed(&self, caller: &Caller, default: &str, request: WireCall) -> Result<ToolCall, Status> {
        let mut call = request.into_call(default)?;
        self.0.check_environment(&call.origin)?;
        if !caller.sees(&call.origin.workspace) {
            return Err(status::not_found("workspace", &call.origin.workspace));
        }
        self.0.sign(caller, &mut call.origin).await?;
        Ok(call)
    }

    /// Starts a call; a request without a workspace means `default`.
    async fn begin_in(
        &self,
        caller: &Caller,
        default: &str,
        request: WireCall,
        mode: OutputMode,
    ) -> Result<(CallId, Cursor, Option<Attached>), Status> {
        let engine = &self.0.engine;
        let call = self.signed(caller, default, request).await?;
        let started = self.start(caller, call).await?;
        let cursor = engine.watch_started(&started, mode, self.0.heartbeat).await;
        let cursor = cursor.map_err(status::watch)?;
        Ok((started.id, cursor, started.attached))
    }

    /// Starts a call. Who does not see the workspace of another call of the same id is not told of it, nor hindered; no other
    /// call has an id that the client has not named.
    async fn start(&self, caller: &Caller, mut call: ToolCall) -> Result<Started, Status> {
        let engine = &self.0.engine;
        if !caller.is_limited() || call.id_is_new {
            return engine.start(call).await.map_err(status::admit);
        }
        if self.is_taken_out_of_sight(caller, &call.id).await? {
            call.id = call.id.within(&call.origin.workspace);
        }
        let again = ToolCall {
            id: call.id.within(&call.origin.workspace),
            ..call.clone()
        };
        let id = call.id.clone();
        match engine.start(call).await {
            // Somebody else was quicker.
            Err(AdmitError::IdTaken(_)) if self.is_taken_out_of_sight(caller, &id).await? => {
                engine.start(again).await.map_err(status::admit)
            }
            started => started.map_err(status::admit),
        }
    }

    async fn is_taken_out_of_sight(&self, caller: &Caller, id: &CallId) -> Result<bool, Status> {
        let origin = self.0.engine.origin_of(id).await.map_err(status::store)?;
        Ok(origin.is_some_and(|origin| !caller.sees(&origin.workspace)))
    }

    async fn definitions(&self, caller: &Caller, request: &ListToolsRequest) -> Result<Vec<Definition>, Status> {
        let place = caller.awake(&self.0.engine, &request.workspace).await?;
        let agent_name = non_empty(request.agent.clone()).unwrap_or_else(|| convert::DEFAULT_AGENT.to_owned());
        place.usable().map_err(status::admit)?;
        // Plugins may bring agents, and rules that hide tools.
        place.tools.loaded().await;
        let now = place.now();
        let agent = now.agents.get(&agent_name).ok_or_else(|| {
            let known: Vec<&str> = now.agents.iter().map(|agent| agent.name.as_str()).collect();
            bad_field(
                "agent",
                format!(
                    "there is no agent named {agent_name:?}; available: {}",
                    known.join(", ")
                ),
            )
        })?;
        let mut model = convert::model(request.model.clone())?;
        dialect::complete(&mut model, &now.packages);
        let offer = Offer {
            workspace: &place.workspace,
            agent: &agent_name,
            model: &model,
            client: place.client_kind(&request.client_kind),
            rights: None,
        };
        let parent = match request.parent_call_id.as_str() {
            _ if caller.within().is_some() => caller.within().cloned(),
            "" => None,
            id => {
                let id = convert::known_call_id("parent_call_id", id)?;
                Some(self.0.call(caller, &id).await?)
            }
        };
        let engine = &self.0.engine;
        let rights = engine.rights_below(&place, agent, parent.as_ref()).await;
        let rights = rights.map_err(status::store)?;
        let rights = rights.ok_or_else(|| status::not_found("call", &request.parent_call_id))?;
        Ok(place.offered(&offer, &rights).await)
    }
}

#[tonic::async_trait]
impl ToolService for Tools {
    async fn list_tools(&self, request: Request<ListToolsRequest>) -> Result<Response<ListToolsResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let size = page_size(request.page_size, MAX_TOOLS, MAX_TOOLS)?;
        let definitions = self.definitions(&caller, &request).await?;
        let etag = digest_of(&json!(definitions))[..32].to_owned();
        if request.if_none_match == etag {
            return Ok(Response::new(ListToolsResponse {
                etag,
                not_modified: true,
                ..Default::default()
            }));
        }
        let first = page_start(&request.page_token, &etag)?;
        let next = size.saturating_add(first);
        let next_page_token = if next < definitions.len() {
            format!("{etag}.{next}")
        } else {
            String::new()
        };
        let tools = definitions
            .into_iter()
            .skip(first)
            .take(size)
            .map(ToolDefinition::from_core)
            .collect();
        Ok(Response::new(ListToolsResponse {
            tools,
            etag,
            next_page_token,
            not_modified: false,
        }))
    }

    type ExecuteToolStream = ResponseStream<ExecuteToolResponse>;

    async fn execute_tool(
        &self,
        request: Request<ExecuteToolRequest>,
    ) -> Result<Response<Self::ExecuteToolStream>, Status> {
        let deadline = deadline(request.metadata());
        let connection = request
            .extensions()
            .get()
            .map(|arrival: &Arrival| arrival.alive.clone());
        let (caller, request) = Caller::of_request(request)?;
        let mode = output_mode(request.output)?;
        let (id, cursor, attached) = self.begin(&caller, request.into(), mode).await?;
        let attached = HeldForClient {
            shared: self.0.clone(),
            attached,
            connection: connection.filter(|_| caller.is_behind_gateway()),
        };
        let inbox = self.0.engine.inbox().clone();
        Ok(Response::new(stream_events(
            id,
            cursor,
            inbox,
            attached,
            deadline,
            |event| ExecuteToolResponse { event: Some(event) },
        )))
    }

    async fn evaluate_call(
        &self,
        request: Request<EvaluateCallRequest>,
    ) -> Result<Response<EvaluateCallResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let request = request.into_inner().into();
        let call = self.signed(&caller, &self.default_for(&caller), request).await?;
        let evaluation = self.0.engine.evaluate(call).await.map_err(status::admit)?;
        Ok(Response::new(EvaluateCallResponse {
            evaluation: Some(evaluation.into_proto()),
        }))
    }

    async fn run_tool(&self, request: Request<RunToolRequest>) -> Result<Response<RunToolResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let unanswered = Some(convert::unanswered(request.unattended, request.wait_timeout.as_ref())?);
        let request = WireCall {
            unanswered,
            ..request.into()
        };
        let call = self.run(&caller, &self.default_for(&caller), request, deadline).await?;
        Ok(Response::new(RunToolResponse { call: Some(call) }))
    }

    type WatchCallStream = ResponseStream<WatchCallResponse>;

    async fn watch_call(&self, request: Request<WatchCallRequest>) -> Result<Response<Self::WatchCallStream>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let id = convert::known_call_id("call_id", &request.call_id)?;
        let id = self.0.call(&caller, &id).await?;
        let mode = output_mode(request.output)?;
        let after = unsigned("after_sequence", request.after_sequence)?;
        let engine = &self.0.engine;
        let cursor = engine
            .watch(&id, after, mode, self.0.heartbeat)
            .await
            .map_err(status::watch)?;
        let wrap = |event| WatchCallResponse { event: Some(event) };
        Ok(Response::new(stream_events(
            id,
            cursor,
            engine.inbox().clone(),
            (),
            deadline,
            wrap,
        )))
    }

    async fn get_call(&self, request: Request<GetCallRequest>) -> Result<Response<GetCallResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let id = convert::known_call_id("call_id", &request.get_ref().call_id)?;
        let id = self.0.call(&caller, &id).await?;
        let mut call = self.find(&id).await?;
        call.waiting_for = self.waiting_for(&call.waiting_prompt_id).await?;
        if let Some(input) = self.0.engine.calls().input_state(&id) {
            call.accepts_input = call.ending.is_none() && !input.closed;
            call.next_input_offset = int(input.next_offset);
        }
        let terminal = self.0.engine.calls().terminal_size(&id);
        call.terminal = terminal.filter(|_| call.ending.is_none()).map(TerminalSize::from_core);
        let listening = self.0.engine.listening(&id).await;
        call.listening = listening.into_iter().map(ListeningPort::from_core).collect();
        Ok(Response::new(GetCallResponse { call: Some(call) }))
    }

    async fn list_calls(&self, request: Request<ListCallsRequest>) -> Result<Response<ListCallsResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let states = request
            .states
            .iter()
            .map(|&state| toolgate_model::CallState::from_number("states", state));
        let reasons = request
            .reasons
            .iter()
            .map(|&reason| toolgate_model::EndReason::from_number("reasons", reason));
        let filter = CallFilter {
            workspaces: caller.filtered(&self.0.engine, &request.workspace).await?,
            session: non_empty(request.session_id).map(toolgate_model::SessionId::new),
            parent: self
                .0
                .filtered_call(&caller, "parent_call_id", request.parent_call_id)
                .await?,
            states: states.collect::<Result<_, _>>()?,
            reasons: reasons.collect::<Result<_, _>>()?,
            tools: request.tools,
            agent: non_empty(request.agent),
            requester: non_empty(request.requester),
            from: convert::moment("from_time", request.from_time)?,
            until: convert::moment("until_time", request.until_time)?,
            text: non_empty(convert::name("text", request.text)?),
        };
        let page = PageRequest {
            size: page_size(request.page_size, 50, MAX_CALLS)?,
            after: non_empty(request.page_token),
        };
        let page = self.0.engine.list(&filter, &page).await.map_err(status::store)?;
        let mut calls = Vec::with_capacity(page.items.len());
        for record in page.items {
            let background_processes = self.left_by(&record.id).await;
            let waiting_on = record.waiting_on.as_ref().map(ToString::to_string);
            calls.push(Call {
                background_processes,
                waiting_for: self.waiting_for(&waiting_on.unwrap_or_default()).await?,
                ..convert::summary(record)
            });
        }
        Ok(Response::new(ListCallsResponse {
            calls,
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn cancel_call(&self, request: Request<CancelCallRequest>) -> Result<Response<CancelCallResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let id = convert::known_call_id("call_id", &request.get_ref().call_id)?;
        let id = self.0.call(&caller, &id).await?;
        let record = self.0.engine.cancel(&id).await.map_err(status::store)?;
        let record = record.ok_or_else(|| status::not_found("call", id.as_str()))?;
        if !record.state.is_terminal() && self.0.engine.calls().is_draining() {
            return Err(status::draining());
        }
        if !record.state.is_terminal() {
            let problem = format!("another instance of the service ({}) runs the call {id}", record.owner);
            return Err(status::precondition(ErrorReason::OtherInstance, id.as_str(), problem));
        }
        Ok(Response::new(CancelCallResponse {
            call: Some(record.into_proto()),
        }))
    }

    async fn send_input(&self, request: Request<SendInputRequest>) -> Result<Response<SendInputResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let id = self.reached(&caller, &request.call_id).await?;
        let offset = unsigned("offset", request.offset)?;
        if request.data.len() > MAX_WAITING_INPUT {
            return Err(bad_field("data", format!("more than {MAX_WAITING_INPUT} bytes")));
        }
        let engine = &self.0.engine;
        let sent = engine.send_input(&id, offset, request.data, request.close).await;
        let state = sent.map_err(status::input)?;
        Ok(Response::new(SendInputResponse {
            next_offset: int(state.next_offset),
            closed: state.closed,
        }))
    }

    async fn resize_terminal(
        &self,
        request: Request<ResizeTerminalRequest>,
    ) -> Result<Response<ResizeTerminalResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let id = self.reached(&caller, &request.call_id).await?;
        let size = convert::terminal_size(request.size)?;
        self.0.engine.resize(&id, size).await.map_err(status::program)?;
        Ok(Response::new(ResizeTerminalResponse {}))
    }

    async fn get_terminal(
        &self,
        request: Request<GetTerminalRequest>,
    ) -> Result<Response<GetTerminalResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let id = self.known(&caller, &request.call_id).await?;
        let (picture, last) = self.0.engine.picture(&id).await.map_err(status::program)?;
        Ok(Response::new(GetTerminalResponse {
            size: Some(TerminalSize::from_core(picture.size)),
            contents: picture.contents,
            cursor_column: int32(picture.cursor.0),
            cursor_row: int32(picture.cursor.1),
            cursor_visible: picture.is_cursor_visible,
            title: picture.title,
            output_offset: int(picture.drawn),
            last_sequence: int(last),
        }))
    }

    async fn signal_call(&self, request: Request<SignalCallRequest>) -> Result<Response<SignalCallResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let id = self.reached(&caller, &request.call_id).await?;
        let signal = toolgate_model::Signal::from_number("signal", request.signal)?;
        self.0.engine.signal(&id, signal).await.map_err(status::program)?;
        Ok(Response::new(SignalCallResponse {}))
    }

    type RevertCallStream = ResponseStream<RevertCallResponse>;

    async fn revert_call(
        &self,
        request: Request<RevertCallRequest>,
    ) -> Result<Response<Self::RevertCallStream>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let reverted = convert::known_call_id("call_id", &request.call_id)?;
        let reverted = self.0.call(&caller, &reverted).await?;
        let workspace = self.record(&reverted).await?.origin.workspace;
        let call = WireCall::from(request);
        let (id, cursor, attached) = self.begin_in(&caller, &workspace, call, OutputMode::Full).await?;
        let inbox = self.0.engine.inbox().clone();
        Ok(Response::new(stream_events(
            id,
            cursor,
            inbox,
            attached,
            deadline,
            |event| RevertCallResponse { event: Some(event) },
        )))
    }
}

/// How far a call has come.
pub(super) enum Ran<T> {
    /// To its end.
    Ended(Box<Call>),
    /// To what was waited for.
    Reached(CallId, T),
}

/// Returns when to tell a client what its call waits for: shortly before it stops listening.
pub(super) fn early(deadline: Instant) -> Instant {
    let left = deadline.saturating_duration_since(Instant::now());
    deadline
        .checked_sub((left / 10).min(DEADLINE_MARGIN))
        .unwrap_or(deadline)
}

impl Tools {
    /// Makes a call and returns its record when it has ended, as [`Self::run_until`].
    async fn run(
        &self,
        caller: &Caller,
        default: &str,
        request: WireCall,
        deadline: Option<Instant>,
    ) -> Result<Call, Status> {
        match self
            .run_until(caller, default, request, (deadline, Duration::ZERO), |_| {
                std::future::pending::<Infallible>()
            })
            .await?
        {
            Ran::Ended(call) => Ok(*call),
            Ran::Reached(_, never) => match never {},
        }
    }

    /// Makes a call, and returns when it has ended, or when `reached` returns, from when on the call goes on without its
    /// client. When the client goes away this future is dropped, and, after `linger`, the hold that the client has on the call.
    pub(super) async fn run_until<T, F: Future<Output = T> + Send>(
        &self,
        caller: &Caller,
        default: &str,
        request: WireCall,
        (deadline, linger): (Option<Instant>, Duration),
        reached: impl FnOnce(CallId) -> F + Send,
    ) -> Result<Ran<T>, Status> {
        let deadline = deadline.map(early);
        let begun = self.begin_in(caller, default, request, OutputMode::None).await?;
        let (id, mut cursor, attached) = begun;
        let mut hold = Hold {
            shared: self.0.clone(),
            attached,
            linger,
        };
        let mut reached = Box::pin(reached(id.clone()));
        let mut waits: Option<(PromptId, String)> = None;
        loop {
            let over = async {
                match deadline {
                    Some(deadline) if waits.is_some() => tokio::time::sleep_until(deadline).await,
                    Some(_) | None => std::future::pending().await,
                }
            };
            let item = tokio::select! {
                what = &mut reached => {
                    if let Some(attached) = hold.attached.take() {
                        attached.release();
                    }
                    return Ok(Ran::Reached(id, what));
                }
                item = cursor.next() => item.map_err(status::watch)?,
                () = over => {
                    let Some((prompt, what)) = &waits else { continue };
                    return Err(status::waited(id.as_str(), prompt.as_str(), what));
                }
            };
            match item {
                None => break,
                Some(Item::Event(event, _)) => match &event.kind {
                    EventKind::Waiting { prompt } => {
                        let what = convert::waits_for(prompt);
                        tracing::info!(call = %id, prompt = %prompt.id, "a call of RunTool waits for a person: {what}");
                        waits = Some((prompt.id.clone(), what));
                    }
                    EventKind::Resumed { .. } => waits = None,
                    EventKind::Pending { .. }
                    | EventKind::Running { .. }
                    | EventKind::Metadata { .. }
                    | EventKind::Output { .. }
                    | EventKind::Child { .. }
                    | EventKind::Listening { .. }
                    | EventKind::Warning { .. }
                    | EventKind::Ended(_) => {}
                },
                Some(Item::Gap { .. } | Item::Heartbeat { .. }) => {}
            }
        }
        hold.attached = None;
        self.find(&id).await.map(Box::new).map(Ran::Ended)
    }

    /// Says what a call waits for at a prompt; empty for none.
    async fn waiting_for(&self, prompt: &str) -> Result<String, Status> {
        if prompt.is_empty() {
            return Ok(String::new());
        }
        let found = self.0.engine.inbox().get(&PromptId::from(prompt)).await;
        let found = found.map_err(status::store)?;
        Ok(found.as_ref().map(convert::waits_for).unwrap_or_default())
    }

    /// Returns the call that a request names.
    async fn known(&self, caller: &Caller, id: &str) -> Result<CallId, Status> {
        let id = convert::known_call_id("call_id", id)?;
        self.0.call(caller, &id).await
    }

    /// Finds a call whose program a caller may reach: one that was made in its name, or whose prompts it may answer.
    async fn reached(&self, caller: &Caller, id: &str) -> Result<CallId, Status> {
        let id = self.known(caller, id).await?;
        if caller.may(Scope::PromptsReply) {
            return Ok(id);
        }
        let origin = self.0.engine.origin_of(&id).await.map_err(status::store)?;
        let own = caller.principal().id();
        match origin.is_some_and(|origin| origin.requesters().contains(&own)) {
            true => Ok(id),
            false => {
                let problem = "what runs was approved for somebody else: only who made the call, or who may answer prompts, \
                               reaches its program";
                Err(status::refused(ErrorReason::ForeignCall, problem))
            }
        }
    }

    async fn find(&self, id: &CallId) -> Result<Call, Status> {
        let record = self.record(id).await?;
        let changes = self.0.engine.changes(id).await.map_err(status::store)?;
        Ok(Call {
            changes: changes.into_iter().map(FileChange::from_core).collect(),
            background_processes: self.left_by(id).await,
            ..Call::from_core(record)
        })
    }

    async fn left_by(&self, id: &CallId) -> Vec<BackgroundProcess> {
        let left = self.0.engine.left_by(id).await;
        left.into_iter().map(BackgroundProcess::from_core).collect()
    }

    async fn record(&self, id: &CallId) -> Result<CallRecord, Status> {
        let record = self.0.engine.get(id).await.map_err(status::store)?;
        record.ok_or_else(|| status::not_found("call", id.as_str()))
    }
}

fn output_mode(mode: i32) -> Result<OutputMode, Status> {
    match proto::OutputMode::try_from(mode) {
        Ok(proto::OutputMode::Unspecified | proto::OutputMode::Full) => Ok(OutputMode::Full),
        Ok(proto::OutputMode::Tail) => Ok(OutputMode::Tail),
        Ok(proto::OutputMode::None) => Ok(OutputMode::None),
        Err(_) => Err(bad_field("output", "not a value that this service knows")),
    }
}
