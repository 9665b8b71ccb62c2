//! One tool call of an MCP client: started, followed to its end, its prompts put to the client's user.
//!
//! *Invariant:* the call goes on only as long as somebody waits for it: a cancelled request, or the end of its session,
//! cancels it. Whoever is refused as an approver by the policy is not asked.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesUnordered, SelectAll};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientResult, ContentBlock, ElicitRequest, ElicitResult,
};
use rmcp::model::{CancelledNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};
use rmcp::{ErrorData, Peer, RoleServer};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use toolgate_contract::Scope;
use toolgate_engine::prompts::broker::{ApproverReply, Listener, ReplyOutcome, Subscription};
use toolgate_engine::{Cursor, Item, OutputMode, WatchError, digest_of};
use toolgate_model::{
    CONNECTION, CallId, Decision, Ending, EventKind, JsonMap, OnDisconnect, Origin, Prompt, PromptId, PromptOutcome,
    RawInput, Reply, ToolCall, WorkspaceSet,
};

use super::context::{CLIENT, Seen};
use super::sessions::Sessions;
use super::{content, elicitation};
use crate::grpc::{Shared, convert, status};

/// The least time between two notes about output.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes of output that one note shows.
const MAX_OUTPUT_NOTE_BYTES: usize = 2 * 1024;

type Items = Pin<Box<dyn stream::Stream<Item = (CallId, Result<Item, WatchError>)> + Send>>;
type Asking = Pin<Box<dyn Future<Output = (Arc<Prompt>, Result<ElicitResult, ServiceError>)> + Send>>;

/// Says whether a client shows forms to its user.
pub(super) fn shows_forms(client: &ClientCapabilities) -> bool {
    // The first revision with elicitation knew only forms, and its capability has no fields.
    let elicitation = client.elicitation.as_ref();
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// Says whether the user of a client may answer prompts of its calls: whoever asks does not answer, unless that is allowed.
pub(super) fn user_may_answer(shared: &Shared, seen: &Seen, workspace: &str) -> bool {
    if !shared.takes_replies {
        return false;
    }
    let approvals = shared.engine.inbox().approvals();
    let principal = seen.caller.principal().id();
    seen.caller.may(Scope::PromptsReply) && approvals.allows_self(workspace, &principal)
}

/// Runs a call to its end.
pub(super) async fn run(
    shared: &Shared,
    sessions: &Arc<Sessions>,
    seen: Seen,
    gone: CancellationToken,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let ended = context.ct.clone();
    let call = match tool_call(shared, &seen, request, &context) {
        Ok(call) => call,
        Err(status) => return Ok(refusal(&status)),
    };
    if !seen.context.names_session() {
        sessions.works_in(&seen.session, call.origin.session_key());
    }
    let mut following = match Following::start(shared, seen, call, context).await {
        Ok(following) => following,
        // Told as a result: clients keep errors of the protocol from the model.
        Err(status) => return Ok(refusal(&status)),
    };
    // What is dropped with `following` cancels the call.
    tokio::select! {
        ending = following.follow() => match ending {
            Ok(ending) => Ok(content::result(&following.id, &following.ran, ending)),
            Err(error) => Ok(refusal(&status::watch(error))),
        },
        () = ended.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        () = gone.cancelled() => Err(ErrorData::internal_error("the session has ended", None)),
    }
}

fn refusal(status: &Status) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(status.message())])
}

fn tool_call(
    shared: &Shared,
    seen: &Seen,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<ToolCall, Status> {
    let tool = convert::name("name", request.name.into_owned())?;
    let place = seen.context.place(&seen.caller, &shared.engine)?;
    let mut extra = JsonMap::new();
    let client_name = context.client_info().map(|client| {
        let name = format!("{}/{}", client.name, client.version);
        name.chars().filter(|c| !c.is_control()).take(100).collect()
    });
    let connection = digest_of(&json!(seen.session))[..12].to_owned();
    extra.insert(CONNECTION.to_owned(), connection.into());
    let mut call = ToolCall {
        id: CallId::generate(),
        id_is_new: true,
        origin: Origin {
            workspace: place.workspace.name().to_owned(),
            session: seen.conversation(context.client_info().as_ref(), &place),
            directory: String::new(),
            message_id: String::new(),
            agent: seen.context.agent().to_owned(),
            model: seen.context.model.clone(),
            client: CLIENT.to_owned(),
            client_name: client_name.unwrap_or_default(),
            parent: None,
            requester: seen.caller.principal().id(),
            on_behalf_of: Vec::new(),
            unanswered: None,
            clients: Vec::new(),
            extra,
            environment: Default::default(),
        },
        tool,
        input: RawInput::Json(json!(request.arguments.unwrap_or_default()).to_string()),
        timeout: None,
        on_disconnect: OnDisconnect::Cancel,
    };
    seen.caller.sign(&mut call.origin);
    Ok(call)
}

/// A call that is followed.
struct Following<'s> {
    shared: &'s Shared,
    seen: Seen,
    id: CallId,
    /// The tool that it runs.
    ran: String,
    peer: Peer<RoleServer>,
    items: SelectAll<Items>,
    /// Forms in front of the user.
    asking: FuturesUnordered<Asking>,
    /// Withdraws them.
    withdraw: HashMap<PromptId, CancellationToken>,
    /// Whether the user is asked, and how the client is called.
    asks: Option<String>,
    choices: bool,
    notes: Notes,
    /// Dropped with the rest: that cancels the call.
    _attached: Option<toolgate_engine::Attached>,
    /// Says that there is somebody to ask.
    _present: Option<Listener>,
}

impl<'s> Following<'s> {
    async fn start(
        shared: &'s Shared,
        seen: Seen,
        call: ToolCall,
        context: RequestContext<RoleServer>,
    ) -> Result<Self, Status> {
        let engine = &shared.engine;
        let (workspace, session) = (call.origin.workspace.clone(), call.origin.session.clone());
        let name = context.client_info().map(|client| client.name).unwrap_or_default();
        let shows_forms = context.client_capabilities().as_ref().is_some_and(shows_forms);
        let asks = shows_forms && user_may_answer(shared, &seen, &workspace);
        let present = match asks {
            false => None,
            true => {
                let interest = Subscription {
                    workspaces: WorkspaceSet::one(&workspace),
                    sessions: vec![session],
                    forms: true,
                    clients: Vec::new(),
                    only_watches: false,
                };
                Some(engine.inbox().listen(interest).await.map_err(status::store)?)
            }
        };
        let notes = Notes::new(context.meta.get_progress_token(), context.peer.clone());
        // Nobody sees output that nobody is told of.
        let mode = if notes.token.is_some() {
            OutputMode::Tail
        } else {
            OutputMode::None
        };
        let started = engine.start(call).await.map_err(status::admit)?;
        if let Some(attached) = &started.attached {
            // Its session ends with the service.
            attached.cannot_come_back();
        }
        let cursor = engine.watch_started(&started, mode, shared.heartbeat).await;
        let cursor = cursor.map_err(status::watch)?;
        let version = context.protocol_version();
        Ok(Self {
            shared,
            seen,
            peer: context.peer,
            items: SelectAll::from_iter([items(started.id.clone(), cursor)]),
            id: started.id,
            ran: String::new(),
            asking: FuturesUnordered::new(),
            withdraw: HashMap::new(),
            asks: asks.then_some(name),
            choices: version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2025_11_25.as_str()),
            notes,
            _attached: started.attached,
            _present: present,
        })
    }

    async fn follow(&mut self) -> Result<Ending, WatchError> {
        loop {
            tokio::select! {
                item = self.items.next() => {
                    let Some((call, item)) = item else { return Err(WatchError::Abandoned) };
                    if call != self.id {
                        // A child that cannot be followed still runs; its end is told by its parent.
                        if let Ok(item) = item {
                            self.handle(&call, item).await;
                        }
                    } else if let Some(ending) = self.handle(&call, item?).await {
                        return Ok(ending);
                    }
                }
                Some((prompt, result)) = self.asking.next(), if !self.asking.is_empty() => {
                    self.withdraw.remove(&prompt.id);
                    self.hand_in(&prompt, result).await;
                }
            }
        }
    }

    /// Does what an event of the call, or of one that it made, is about. Returns how it ended.
    async fn handle(&mut self, call: &CallId, item: Item) -> Option<Ending> {
        let (event, data) = match item {
            Item::Event(event, data) => (event, data),
            Item::Gap { .. } => return None,
            Item::Heartbeat {
                state,
                elapsed,
                draining,
                ..
            } => {
                if *call == self.id {
                    let stopping = if draining { ", and the service is stopping" } else { "" };
                    let state = self.notes.waits.as_deref().unwrap_or(state.as_str());
                    let text = format!("{state}, {} s{stopping}", elapsed.as_secs());
                    self.notes.say(text).await;
                }
                return None;
            }
        };
        match &event.kind {
            EventKind::Pending { tool, .. } if *call == self.id => self.ran.clone_from(tool),
            EventKind::Pending { .. } => {}
            EventKind::Running { title, .. } => self.notes.say(title.clone()).await,
            EventKind::Metadata { title, .. } => self.notes.say(title.clone().unwrap_or_default()).await,
            EventKind::Output { .. } => self.notes.show_output(&data).await,
            EventKind::Waiting { prompt } => self.ask((**prompt).clone().into()).await,
            EventKind::Resumed { prompt, decision } => {
                if let Some(form) = self.withdraw.remove(prompt) {
                    form.cancel();
                }
                self.notes.waits = None;
                self.notes.say(resumed(decision)).await;
            }
            EventKind::Child { call, .. } => {
                let heartbeat = self.shared.heartbeat;
                let cursor = self.shared.engine.watch(call, 0, OutputMode::None, heartbeat).await;
                if let Ok(cursor) = cursor {
                    self.items.push(items(call.clone(), cursor));
                }
            }
            EventKind::Listening { .. } => {}
            EventKind::Warning { text, .. } => self.notes.say(text.clone()).await,
            EventKind::Ended(ending) if *call == self.id => return Some((**ending).clone()),
            EventKind::Ended(_) => {}
        }
        None
    }

    /// Puts a prompt to the user, or says that it waits for somebody else.
    async fn ask(&mut self, prompt: Arc<Prompt>) {
        let form = match &self.asks {
            Some(_) if self.may_answer(&prompt) => elicitation::form(&prompt, self.choices),
            Some(_) | None => None,
        };
        let what = convert::waits_for(&prompt);
        let Some(form) = form else {
            // The log of `toolgate mcp` is the client's.
            tracing::warn!(call = %self.id, prompt = %prompt.id, "a call waits for an approver, {what}: toolgate approve");
            let text = format!("waits for an approver (toolgate approve): {what}, prompt {}", prompt.id);
            self.notes.waits = Some(text.clone());
            return self.notes.say(text).await;
        };
        self.notes.say(format!("waits for an answer: {what}")).await;
        let token = CancellationToken::new();
        self.withdraw.insert(prompt.id.clone(), token.clone());
        let peer = self.peer.clone();
        self.asking.push(Box::pin(async move {
            let result = elicit(&peer, ElicitRequest::new(form), token).await;
            (prompt, result)
        }));
    }

    fn may_answer(&self, prompt: &Prompt) -> bool {
        let approvals = self.shared.engine.inbox().approvals();
        approvals.may_answer(prompt, &self.seen.caller.principal().id())
    }

    /// Hands in what the user said. If that cannot be understood, others may still answer.
    async fn hand_in(&mut self, prompt: &Prompt, result: Result<ElicitResult, ServiceError>) {
        let reply = match &result {
            Ok(result) => elicitation::reply(prompt, result),
            Err(error) => {
                tracing::debug!(prompt = %prompt.id, %error, "a form of an MCP client came to nothing");
                None
            }
        };
        let waits = |why: &str| {
            format!(
                "{why}; waits for an approver (toolgate approve): {}",
                convert::waits_for(prompt)
            )
        };
        let Some(reply) = reply else {
            // Withdrawn because it was decided elsewhere, it is open no more, and this does nothing.
            self.shared.engine.inbox().dismiss(&prompt.id);
            return self.notes.say(waits("the client gave no answer")).await;
        };
        let given = self.make_reply(prompt, reply);
        let text = match self.shared.engine.reply(given).await {
            Ok(ReplyOutcome::Accepted(_) | ReplyOutcome::Before(_) | ReplyOutcome::Unknown) => return,
            Ok(ReplyOutcome::Recorded(_)) => waits("recorded, and another principal has to approve as well"),
            Ok(ReplyOutcome::NotAllowed(_)) => waits(status::SELF_APPROVAL),
            Ok(
                ReplyOutcome::WrongKind(_)
                | ReplyOutcome::BadGrant { .. }
                | ReplyOutcome::BadEdit { .. }
                | ReplyOutcome::DigestMismatch(_),
            ) => waits("the answer did not count"),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "an answer could not be stored"
                );
                waits("the answer could not be stored")
            }
        };
        self.notes.say(text).await;
    }

    fn make_reply(&self, prompt: &Prompt, reply: Reply) -> ApproverReply {
        let principal = self.seen.caller.principal();
        let client: String = self.asks.iter().flat_map(|name| name.chars()).take(100).collect();
        ApproverReply {
            prompt: prompt.id.clone(),
            reply_id: format!("mcp-{}", uuid::Uuid::now_v7().simple()),
            reply,
            input_digest: prompt.input_digest.clone(),
            by: principal.display_name(&client),
            principal: principal.clone(),
        }
    }
}

fn items(id: CallId, cursor: Cursor) -> Items {
    let items = stream::try_unfold(cursor, |mut cursor| async {
        Ok(cursor.next().await?.map(|item| (item, cursor)))
    });
    Box::pin(items.map(move |item| (id.clone(), item)))
}

/// Asks the client to show a form, and withdraws it when it is pointless.
async fn elicit(
    peer: &Peer<RoleServer>,
    request: ElicitRequest,
    withdrawn: CancellationToken,
) -> Result<ElicitResult, ServiceError> {
    let handle = peer
        .send_cancellable_request(request.into(), PeerRequestOptions::no_options())
        .await?;
    let id = handle.id.clone();
    tokio::select! {
        biased;
        result = handle.await_response() => {
            let ClientResult::ElicitResult(result) = result? else {
                return Err(ServiceError::UnexpectedResponse);
            };
            Ok(result)
        }
        () = withdrawn.cancelled() => {
            let reason = "it was decided elsewhere".to_owned();
            let cancelled = CancelledNotificationParam::new(Some(id), Some(reason));
            let _ = peer.notify_cancelled(cancelled).await;
            Err(ServiceError::Cancelled { reason: None })
        }
    }
}

/// Says how a prompt ended, and by whom.
fn resumed(decision: &Decision) -> String {
    let how = match &decision.outcome {
        PromptOutcome::Replied(Reply::Reject { .. }) => "rejected",
        PromptOutcome::Replied(Reply::Answers(_)) => "answered",
        PromptOutcome::Replied(Reply::Once | Reply::Always(_) | Reply::Instead(_)) => "approved",
        PromptOutcome::Expired => "nobody answered in time",
        PromptOutcome::Withdrawn(_) => "the prompt was withdrawn",
    };
    match decision.by.as_str() {
        "" => how.to_owned(),
        name => format!("{how} by {name}"),
    }
}

/// What a client that asked for it is told of the call's progress.
struct Notes {
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
    count: f64,
    last_output: Option<Instant>,
    /// What is said again and again while the call waits for somebody else.
    waits: Option<String>,
}

impl Notes {
    fn new(token: Option<ProgressToken>, peer: Peer<RoleServer>) -> Self {
        Self {
            token,
            peer,
            count: 0.0,
            last_output: None,
            waits: None,
        }
    }

    async fn say(&mut self, text: String) {
        let Some(token) = self.token.clone().filter(|_| !text.is_empty()) else {
            return;
        };
        self.count += 1.0;
        let note = ProgressNotificationParam::new(token, self.count).with_message(text);
        if let Err(error) = self.peer.notify_progress(note).await {
            tracing::debug!(%error, "a client could not be told of progress");
        }
    }

    /// Shows the last lines of new output, not more often than anybody reads.
    async fn show_output(&mut self, data: &[u8]) {
        let is_early = self.last_output.is_some_and(|last| last.elapsed() < OUTPUT_INTERVAL);
        if is_early || self.token.is_none() {
            return;
        }
        self.last_output = Some(Instant::now());
        let tail = &data[data.len().saturating_sub(MAX_OUTPUT_NOTE_BYTES)..];
        self.say(String::from_utf8_lossy(tail).trim_end().to_owned()).await;
    }
}
