//! A call of an MCP client: what it asks for, made and followed to its end, or to where the client has to bring something.
//!
//! *Invariant:* the call goes on only as long as somebody waits for it: a cancelled request, or the end of its session,
//! cancels it.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, InputRequiredResult, InputResponses, JsonObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::json;
use tonic::Status;
use toolgate_engine::digest_of;
use toolgate_model::{CONNECTION, CallId, JsonMap, OnDisconnect, Origin, RawInput, SessionKey, ToolCall};

use super::clients::is_sessionless;
use super::context::{CLIENT, Seen};
use super::following::{Ended, Following, Step};
use super::parked::Held;
use super::sessions::Sessions;
use crate::grpc::{Shared, convert, status};

/// What a client asks for.
pub(super) struct Wish {
    /// The tool that does it.
    pub(super) tool: String,
    /// Its arguments.
    pub(super) arguments: JsonObject,
    /// Stands for the call that this goes on with.
    pub(super) state: Option<String>,
    /// What the client brings for it.
    pub(super) responses: Option<InputResponses>,
}

/// What came of it.
pub(super) enum Outcome {
    /// There is no call.
    Refused(Status),
    /// The call has ended.
    Ended(Box<Ended>),
    /// The client has to bring something first.
    Wants(InputRequiredResult),
}

/// Does what a client wishes.
pub(super) async fn run(
    shared: &Arc<Shared>,
    sessions: &Arc<Sessions>,
    seen: Seen,
    wish: Wish,
    context: RequestContext<RoleServer>,
) -> Result<Outcome, ErrorData> {
    let ended = context.ct.clone();
    let gone = sessions.gone(seen.session.as_deref());
    let gone = gone.ok_or_else(|| ErrorData::invalid_request("the session has ended", None))?;
    let place = seen.context.place(&seen.caller, &shared.engine);
    let place = place.map_err(|status| ErrorData::invalid_params(status.message().to_owned(), None))?;
    let conversation = seen.conversation(context.client_info().as_ref(), &place);
    let conversation = SessionKey::new(place.workspace.name(), &conversation);
    drop(place);
    // What a state is for, beside its owner: a call does not go on for a request of another place.
    let what = digest_of(&json!([
        conversation.workspace,
        conversation.session,
        seen.context.agent(),
        wish.tool,
        wish.arguments,
    ]));
    // A session that the client has named is not ended because this client has left: others may work in it.
    let unnamed = (!seen.context.names_session()).then_some(conversation);
    let counted = sessions.call(seen.session.as_deref(), unnamed);
    let owner = seen.caller.principal().id();
    let log_level = match is_sessionless(&context) {
        true => context.meta.log_level().and_then(|level| content_level(&level)),
        false => Some(sessions.log_level(seen.session.as_deref())),
    };
    let following = match &wish.state {
        Some(state) => {
            let parked = sessions.parked.take(state, &owner, &what);
            let unknown = "requestState: it stands for nothing that waits for you; make the request again without it";
            let mut following = parked
                .ok_or_else(|| ErrorData::invalid_params(unknown, None))?
                .following;
            following.go_on(seen, &context, log_level).await;
            following
        }
        None => {
            let call = match tool_call(shared, &seen, wish.tool, wish.arguments, &context) {
                Ok(call) => call,
                Err(status) => return Ok(Outcome::Refused(status)),
            };
            if !seen.context.names_session() {
                sessions.works_in(seen.session.as_deref(), call.origin.session_key(), &owner);
            }
            match Following::start(shared, seen, call, &context, log_level).await {
                Ok(following) => following,
                Err(status) => return Ok(Outcome::Refused(status)),
            }
        }
    };
    let mut following = following;
    following.bring(wish.responses.unwrap_or_default()).await;
    // What is dropped with `following` cancels the call.
    let step = tokio::select! {
        step = following.follow() => step,
        () = ended.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
        () = gone.cancelled() => return Err(ErrorData::internal_error("the session has ended", None)),
    };
    match step {
        Ok(Step::Ended(ending)) => Ok(Outcome::Ended(Box::new(following.ended(ending)))),
        Ok(Step::Wants(requests)) => {
            let held = Held {
                following,
                _counted: counted,
            };
            let state = sessions.parked.park(held, owner, what);
            Ok(Outcome::Wants(InputRequiredResult::new(Some(requests), Some(state))))
        }
        Ok(Step::Lacks(capabilities)) => Err(ErrorData::missing_required_client_capability(capabilities)),
        Err(error) => Ok(Outcome::Refused(status::watch(error))),
    }
}

/// Tells a model why there is no call: as a result, since clients keep errors of the protocol from it.
pub(super) fn refusal(status: &Status) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(status.message())])
}

fn content_level(level: &impl serde::Serialize) -> Option<usize> {
    let level = serde_json::to_value(level).ok()?;
    super::notes::level(level.as_str()?)
}

fn tool_call(
    shared: &Shared,
    seen: &Seen,
    tool: String,
    arguments: JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<ToolCall, Status> {
    let tool = convert::name("name", tool)?;
    let place = seen.context.place(&seen.caller, &shared.engine)?;
    let mut extra = JsonMap::new();
    let client_name = context.client_info().map(|client| {
        let name = format!("{}/{}", client.name, client.version);
        name.chars().filter(|c| !c.is_control()).take(100).collect()
    });
    if let Some(session) = &seen.session {
        let connection = digest_of(&json!(session))[..12].to_owned();
        extra.insert(CONNECTION.to_owned(), connection.into());
    }
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
        input: RawInput::Json(json!(arguments).to_string()),
        timeout: None,
        on_disconnect: OnDisconnect::Cancel,
    };
    seen.caller.sign(&mut call.origin);
    Ok(call)
}
