//! A call that is followed: what happens in it is told to the client, its prompts are put to the client's user, and what
//! servers of tools ask for in its midst is got from the client.
//!
//! *Invariant:* dropped, the call is cancelled. Only prompts that the client's user may answer are put to it. What
//! a server says is told without secrets.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesUnordered, SelectAll};
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitRequest, ElicitResult, InputRequests,
    InputResponses, ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};
use rmcp::{Peer, RoleServer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use toolgate_engine::prompts::broker::{ApproverReply, Listener, ReplyOutcome, Subscription};
use toolgate_engine::{Cursor, Item, OutputMode, WatchError};
use toolgate_extensions::mcp::relay::{self, Abilities, Ability, Followed, Said};
use toolgate_model::{
    CallId, Decision, Ending, EventKind, Prompt, PromptId, PromptOutcome, Reply, ToolCall, WorkspaceSet,
};

use super::clients::{is_sessionless, shows_forms, user_may_answer};
use super::context::Seen;
use super::elicitation::{self, Shows};
use super::notes::Notes;
use super::wanted::Wanted;
use crate::grpc::{Shared, convert, status};

type Items = Pin<Box<dyn stream::Stream<Item = (CallId, Result<Item, WatchError>)> + Send>>;
type Asking = Pin<Box<dyn Future<Output = (Arc<Prompt>, String, Result<ElicitResult, ServiceError>)> + Send>>;
type Relaying = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How far a call was followed.
pub(super) enum Step {
    /// To its end.
    Ended(Ending),
    /// To where its client has to bring something.
    Wants(InputRequests),
    /// To where a server of tools needs what its client does not have.
    Lacks(ClientCapabilities),
}

/// The end of a call.
pub(super) struct Ended {
    pub(super) call: CallId,
    /// The tool that it ran.
    pub(super) ran: String,
    pub(super) ending: Ending,
    /// The result of a server of tools, as that sent it.
    pub(super) sent: Option<serde_json::Value>,
    /// The error of such a server: the code, and what it said.
    pub(super) failed: Option<(i64, String)>,
}

/// A call that is followed.
pub(super) struct Following {
    shared: Arc<Shared>,
    seen: Seen,
    workspace: String,
    id: CallId,
    /// The tool that it runs.
    ran: String,
    peer: Peer<RoleServer>,
    items: SelectAll<Items>,
    /// Forms in front of the user.
    asking: FuturesUnordered<Asking>,
    /// Withdraws them.
    withdraw: HashMap<PromptId, CancellationToken>,
    /// What servers of tools ask the client for.
    relaying: FuturesUnordered<Relaying>,
    /// Whether the user is asked, and how the client is called.
    asks: Option<String>,
    shows: Shows,
    /// What the client has to bring, if it is told so in answers; else it is sent requests.
    wanted: Option<Wanted>,
    /// What servers of tools say of the call.
    followed: Followed,
    sent: Option<Value>,
    failed: Option<(i64, String)>,
    notes: Notes,
    /// Dropped with the rest: that cancels the call.
    _attached: Option<toolgate_engine::Attached>,
    /// Says that there is somebody to ask.
    _present: Option<Listener>,
}

impl Following {
    /// Makes a call.
    pub(super) async fn start(
        shared: &Arc<Shared>,
        seen: Seen,
        call: ToolCall,
        context: &RequestContext<RoleServer>,
        log_level: Option<usize>,
    ) -> Result<Self, Status> {
        let engine = &shared.engine;
        let (workspace, session) = (call.origin.workspace.clone(), call.origin.session.clone());
        let name = context.client_info().map(|client| client.name).unwrap_or_default();
        let capabilities = context.client_capabilities().unwrap_or_default();
        let asks = shows_forms(&capabilities) && user_may_answer(shared, &seen, &workspace);
        let abilities = Abilities {
            sampling: capabilities.sampling.is_some(),
            roots: capabilities.roots.is_some(),
        };
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
        let notes = Notes::new(context.meta.get_progress_token(), context.peer.clone(), log_level);
        let relays = shared.servers.as_ref().map(|servers| Arc::clone(servers.relays()));
        let followed = relays.unwrap_or_default().follow(&call.id, abilities);
        // Nobody sees output that nobody is told of.
        let mode = if notes.are_wanted() {
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
            shared: Arc::clone(shared),
            seen,
            workspace,
            peer: context.peer.clone(),
            items: SelectAll::from_iter([items(started.id.clone(), cursor)]),
            id: started.id,
            ran: String::new(),
            asking: FuturesUnordered::new(),
            withdraw: HashMap::new(),
            relaying: FuturesUnordered::new(),
            asks: asks.then_some(name),
            shows: Shows {
                choices: version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2025_11_25.as_str()),
                pages: capabilities
                    .elicitation
                    .is_some_and(|elicitation| elicitation.url.is_some()),
                several: is_sessionless(context),
            },
            wanted: is_sessionless(context).then(Wanted::default),
            followed,
            sent: None,
            failed: None,
            notes,
            _attached: started.attached,
            _present: present,
        })
    }

    /// Goes on with another request of the client for the same call. Its user answers only what it still may.
    pub(super) async fn go_on(&mut self, seen: Seen, context: &RequestContext<RoleServer>, log_level: Option<usize>) {
        let token = context.meta.get_progress_token();
        self.notes.go_on(Notes::new(token, context.peer.clone(), log_level));
        self.peer = context.peer.clone();
        self.seen = seen;
        let capabilities = context.client_capabilities().unwrap_or_default();
        if shows_forms(&capabilities) && user_may_answer(&self.shared, &self.seen, &self.workspace) {
            return;
        }
        self.asks = None;
        self._present = None;
        let withdrawn = self.wanted.as_mut().map(Wanted::withdraw_all).unwrap_or_default();
        for prompt in withdrawn {
            self.wait_for_approver(&prompt).await;
        }
    }

    /// Takes what the client brings.
    pub(super) async fn bring(&mut self, responses: InputResponses) {
        if let Some(wanted) = &mut self.wanted {
            wanted.bring(responses);
        }
        self.settle().await;
    }

    /// Returns how the call ended.
    pub(super) fn ended(self, ending: Ending) -> Ended {
        Ended {
            call: self.id,
            ran: self.ran,
            ending,
            sent: self.sent,
            failed: self.failed,
        }
    }

    /// Follows the call as far as that goes with this request.
    pub(super) async fn follow(&mut self) -> Result<Step, WatchError> {
        loop {
            if let Some(requests) = self.wanted.as_ref().and_then(Wanted::requests) {
                return Ok(Step::Wants(requests));
            }
            tokio::select! {
                biased;
                said = self.followed.next() => {
                    if let Some(step) = self.hear(said).await {
                        return Ok(step);
                    }
                }
                item = self.items.next() => {
                    let Some((call, item)) = item else { return Err(WatchError::Abandoned) };
                    if call != self.id {
                        // A child that cannot be followed still runs; its end is told by its parent.
                        if let Ok(item) = item {
                            self.handle(&call, item).await;
                        }
                    } else if let Some(ending) = self.handle(&call, item?).await {
                        // What was said last may be the result.
                        while let Some(said) = self.followed.said() {
                            self.hear(said).await;
                        }
                        return Ok(Step::Ended(ending));
                    }
                }
                Some((prompt, key, result)) = self.asking.next(), if !self.asking.is_empty() => {
                    self.withdraw.remove(&prompt.id);
                    let reply = match result {
                        Ok(result) => elicitation::reply(&prompt, &BTreeMap::from([(key, result)])),
                        Err(error) => {
                            tracing::debug!(prompt = %prompt.id, %error, "a form of an MCP client came to nothing");
                            None
                        }
                    };
                    self.hand_in(&prompt, reply).await;
                }
                Some(()) = self.relaying.next(), if !self.relaying.is_empty() => {}
            }
        }
    }

    /// Does what a server of tools says about the call.
    async fn hear(&mut self, said: Said) -> Option<Step> {
        match said {
            Said::Progress {
                progress,
                total,
                mut message,
            } => {
                if let Some(message) = &mut message {
                    self.shared.engine.redactor().string(message);
                }
                self.notes.relay(progress, total, message).await;
            }
            Said::Logged(mut line) => {
                self.shared.engine.redactor().value(&mut line);
                self.notes.log(line).await;
            }
            Said::PromptFollows => {
                if let Some(wanted) = &mut self.wanted {
                    wanted.expects_prompt = true;
                }
            }
            Said::PromptOver => {
                if let Some(wanted) = &mut self.wanted {
                    wanted.expects_prompt = false;
                }
            }
            Said::Asks(requests) => {
                for mut request in requests {
                    self.shared.engine.redactor().value(&mut request.params);
                    match &mut self.wanted {
                        Some(wanted) => wanted.add_request(request),
                        None => self.relaying.push(relay_request(self.peer.clone(), request)),
                    }
                }
                self.settle().await;
            }
            Said::Lacks(ability) if self.wanted.is_some() => return Some(Step::Lacks(capability(ability))),
            Said::Lacks(_) => {}
            Said::Result(result) => self.sent = Some(result),
            Said::Failed { code, mut message } => {
                self.shared.engine.redactor().string(&mut message);
                self.failed = Some((code, message));
            }
        }
        None
    }

    /// Hands in what the client has brought.
    async fn settle(&mut self) {
        let settled = self.wanted.as_mut().map(Wanted::settle).unwrap_or_default();
        for (prompt, reply) in settled {
            self.hand_in(&prompt, reply).await;
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
                if let Some(wanted) = &mut self.wanted {
                    wanted.withdraw(prompt);
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
        let forms = match &self.asks {
            Some(_) if self.may_answer(&prompt) => elicitation::forms(&prompt, self.shows),
            Some(_) | None => Vec::new(),
        };
        if let Some(wanted) = &mut self.wanted {
            wanted.expects_prompt = false;
        }
        if forms.is_empty() {
            return self.wait_for_approver(&prompt).await;
        }
        if let Some(wanted) = &mut self.wanted {
            wanted.add_prompt(&prompt, forms);
            return self.settle().await;
        }
        let what = convert::waits_for(&prompt);
        self.notes.say(format!("waits for an answer: {what}")).await;
        let token = CancellationToken::new();
        self.withdraw.insert(prompt.id.clone(), token.clone());
        let peer = self.peer.clone();
        for (key, form) in forms {
            let (peer, prompt, token) = (peer.clone(), Arc::clone(&prompt), token.clone());
            self.asking.push(Box::pin(async move {
                let result = elicit(&peer, ElicitRequest::new(form), token).await;
                (prompt, key, result)
            }));
        }
    }

    /// Says that somebody else has to answer.
    async fn wait_for_approver(&mut self, prompt: &Prompt) {
        let what = convert::waits_for(prompt);
        // The log of `toolgate mcp` is the client's.
        tracing::warn!(call = %self.id, prompt = %prompt.id, "a call waits for an approver, {what}: toolgate approve");
        let text = format!("waits for an approver (toolgate approve): {what}, prompt {}", prompt.id);
        self.notes.waits = Some(text.clone());
        self.notes.say(text).await;
    }

    fn may_answer(&self, prompt: &Prompt) -> bool {
        let approvals = self.shared.engine.inbox().approvals();
        approvals.may_answer(prompt, &self.seen.caller.principal().id())
    }

    /// Hands in what the user said; none if that is no answer, or cannot be understood: then others may still answer.
    async fn hand_in(&mut self, prompt: &Prompt, reply: Option<Reply>) {
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

/// Asks the client for what a server of tools wants of it. Without an answer the server gets none.
fn relay_request(peer: Peer<RoleServer>, request: relay::Request) -> Relaying {
    Box::pin(async move {
        let asked = json!({"method": request.method, "params": request.params});
        let Ok(asked) = serde_json::from_value::<ServerRequest>(asked) else {
            return;
        };
        let answer = match peer.send_request(asked).await {
            Ok(answer) => answer,
            Err(error) => return tracing::debug!(%error, method = request.method, "a client was asked in vain"),
        };
        if let Ok(Value::Object(answer)) = serde_json::to_value(answer) {
            let _ = request.answer.send(answer);
        }
    })
}

/// Names what a client would have to have.
fn capability(ability: Ability) -> ClientCapabilities {
    let needed = match ability {
        Ability::Sampling => json!({"sampling": {}}),
        Ability::Roots => json!({"roots": {}}),
    };
    serde_json::from_value(needed).unwrap_or_default()
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
