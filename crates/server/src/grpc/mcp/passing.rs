//! Prompts and resources of servers of tools, handed on to MCP clients: under their own addresses, and prompts under
//! `<server>_<prompt>`.
//!
//! *Invariant:* what is read is read by a call, which is judged and recorded like any other, and no secret is shown. To a Toolgate, nothing of a server
//! is handed on: two that have each other as a server would hand the same round and round.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{
    CompleteRequestParams, CompleteResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    JsonObject, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceUpdatedNotificationParam,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, Peer, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use toolgate_extensions::mcp::{Announced, List, Owned, Servers};
use toolgate_model::{ITSELF, Outcome as Ending};
use toolgate_permission::judgement::denies;

use super::call::{self, Outcome, Wish};
use super::context::Seen;
use super::following::Ended;
use super::sessions::{MAX_SUBSCRIPTIONS, Sessions};
use crate::grpc::Shared;

/// The code with which servers of older revisions say that there is no such resource.
const NOT_FOUND: i64 = -32002;

fn workspace(shared: &Shared, seen: &Seen) -> Result<String, ErrorData> {
    let place = seen.context.place(&seen.caller, &shared.engine);
    let place = place.map_err(|status| ErrorData::invalid_params(status.message().to_owned(), None))?;
    Ok(place.workspace.name().to_owned())
}

/// Says whether a rule keeps the client's agent from reading something. Where a rule wants a person asked, that is done when it
/// is read.
fn is_denied(shared: &Shared, seen: &Seen, owned: &Owned) -> Result<bool, ErrorData> {
    let place = seen.context.place(&seen.caller, &shared.engine);
    let place = place.map_err(|status| ErrorData::invalid_params(status.message().to_owned(), None))?;
    let agent = place.agent(seen.context.agent());
    Ok(agent.is_none_or(|agent| denies("read", &owned.pattern, &place.rights(&agent))))
}

/// Returns the servers, for clients that get something of them.
fn servers<'s>(shared: &'s Shared, context: &RequestContext<RoleServer>) -> Option<&'s Arc<Servers>> {
    let experimental = context.client_capabilities().and_then(|client| client.experimental);
    let is_itself = experimental.is_some_and(|known| known.contains_key(ITSELF));
    shared.servers.as_ref().filter(|_| !is_itself)
}

/// Returns what the servers of the workspace list. What cannot be read is left out.
pub(super) async fn listed<T: DeserializeOwned>(
    shared: &Shared,
    seen: &Seen,
    context: &RequestContext<RoleServer>,
    list: List,
) -> Result<Vec<T>, ErrorData> {
    let workspace = workspace(shared, seen)?;
    let Some(servers) = servers(shared, context) else {
        return Ok(Vec::new());
    };
    let listed = servers.listed(&workspace, list).await;
    Ok(listed
        .into_iter()
        .filter_map(|mut item| {
            shared.engine.redactor().value(&mut item);
            serde_json::from_value(item).ok()
        })
        .collect())
}

/// Reads a resource of a server.
pub(super) async fn read(
    (shared, sessions): (&Arc<Shared>, &Arc<Sessions>),
    seen: Seen,
    request: ReadResourceRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<ReadResourceResponse, ErrorData> {
    let uri = request.uri;
    let missing =
        || ErrorData::resource_not_found(format!("there is no resource {uri:?}"), Some(json!({ "uri": uri })));
    let workspace = workspace(shared, &seen)?;
    let owned = match servers(shared, &context) {
        Some(servers) => servers.resource(&workspace, &uri).await,
        None => None,
    };
    let wish = Wish {
        tool: owned.ok_or_else(missing)?.tool,
        arguments: JsonObject::from_iter([("uri".to_owned(), json!(uri))]),
        state: request.request_state,
        responses: request.input_responses,
    };
    match made(shared, sessions, seen, wish, context).await? {
        Made::Answer(answer) => Ok(answer_of::<ReadResourceResult>(answer)?.into()),
        Made::Wants(wants) => Ok(wants.into()),
        Made::Failed(error) if i64::from(error.code.0) == NOT_FOUND => Err(missing()),
        Made::Failed(error) => Err(error),
    }
}

/// Gets a prompt of a server.
pub(super) async fn prompt(
    (shared, sessions): (&Arc<Shared>, &Arc<Sessions>),
    seen: Seen,
    request: GetPromptRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let workspace = workspace(shared, &seen)?;
    let owned = match servers(shared, &context) {
        Some(servers) => servers.prompt(&workspace, &request.name).await,
        None => None,
    };
    let missing = || ErrorData::invalid_params(format!("there is no prompt {:?}", request.name), None);
    let Owned { tool, name, .. } = owned.ok_or_else(missing)?;
    let mut arguments = JsonObject::from_iter([("prompt".to_owned(), json!(name))]);
    if let Some(given) = request.arguments {
        arguments.insert("arguments".to_owned(), Value::Object(given));
    }
    let wish = Wish {
        tool,
        arguments,
        state: request.request_state,
        responses: request.input_responses,
    };
    match made(shared, sessions, seen, wish, context).await? {
        Made::Answer(answer) => Ok(answer_of::<GetPromptResult>(answer)?.into()),
        Made::Wants(wants) => Ok(wants.into()),
        Made::Failed(error) => Err(error),
    }
}

/// What came of a call that reads something.
enum Made {
    Answer(Value),
    Wants(rmcp::model::InputRequiredResult),
    Failed(ErrorData),
}

async fn made(
    shared: &Arc<Shared>,
    sessions: &Arc<Sessions>,
    seen: Seen,
    wish: Wish,
    context: RequestContext<RoleServer>,
) -> Result<Made, ErrorData> {
    let ended = match call::run(shared, sessions, seen, wish, context).await? {
        Outcome::Refused(status) => {
            let refused = ErrorData::invalid_params(status.message().to_owned(), None);
            return Ok(Made::Failed(refused));
        }
        Outcome::Wants(wants) => return Ok(Made::Wants(wants)),
        Outcome::Ended(ended) => *ended,
    };
    let Ended {
        ending, sent, failed, ..
    } = ended;
    if let Ending::Failed { error, .. } = ending.outcome {
        let code = failed.as_ref().and_then(|(code, _)| i32::try_from(*code).ok());
        let error = match (code, failed) {
            (Some(code), Some((_, message))) => ErrorData::new(ErrorCode(code), message, None),
            (None, _) | (_, None) => ErrorData::invalid_request(error, None),
        };
        return Ok(Made::Failed(error));
    }
    let lost = || ErrorData::internal_error("what was read did not arrive: read it again", None);
    let mut answer = sent.ok_or_else(lost)?;
    shared.engine.redactor().value(&mut answer);
    Ok(Made::Answer(answer))
}

fn answer_of<T: DeserializeOwned>(mut answer: Value) -> Result<T, ErrorData> {
    if let Some(answer) = answer.as_object_mut() {
        // Servers of older revisions do not say so; clients of those are not told.
        answer.insert("resultType".to_owned(), json!("complete"));
    }
    serde_json::from_value(answer)
        .map_err(|error| ErrorData::internal_error(format!("the server's answer cannot be read: {error}"), None))
}

/// Completes an argument of a prompt or of the template of an address.
pub(super) async fn complete(
    shared: &Shared,
    seen: &Seen,
    request: &CompleteRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CompleteResult, ErrorData> {
    let workspace = workspace(shared, seen)?;
    let mut params = serde_json::to_value(request).unwrap_or_default();
    let Some(servers) = servers(shared, context) else {
        return Ok(CompleteResult::default());
    };
    let text = |key: &str| params["ref"][key].as_str().map(str::to_owned);
    let owned = match (text("name"), text("uri")) {
        (Some(name), _) => servers.prompt(&workspace, &name).await,
        (None, Some(uri)) => servers.resource(&workspace, &uri).await,
        (None, None) => None,
    };
    let Some(owned) = owned else {
        return Ok(CompleteResult::default());
    };
    if is_denied(shared, seen, &owned)? {
        return Ok(CompleteResult::default());
    }
    if params["ref"]["name"].is_string() {
        params["ref"]["name"] = json!(owned.name);
    }
    if let Some(params) = params.as_object_mut() {
        // It is of this client's request.
        params.remove("_meta");
    }
    match owned.ask("completion/complete", params).await {
        Ok(mut answer) => {
            shared.engine.redactor().value(&mut answer);
            answer_of(answer)
        }
        Err(problem) => {
            tracing::debug!(problem, "an argument could not be completed");
            Ok(CompleteResult::default())
        }
    }
}

/// Follows a resource of a server for a session.
pub(super) async fn subscribe(
    (shared, sessions): (&Shared, &Arc<Sessions>),
    seen: &Seen,
    uri: String,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let refused = |problem: &str| ErrorData::invalid_params(format!("{uri:?} cannot be followed: {problem}"), None);
    let workspace = workspace(shared, seen)?;
    let session = seen.session.as_deref().ok_or_else(|| refused("there is no session"))?;
    let servers = servers(shared, context).ok_or_else(|| refused("it is of no server of tools"))?;
    let owned = servers.resource(&workspace, &uri).await;
    let owned = owned.ok_or_else(|| refused("there is no such resource"))?;
    if is_denied(shared, seen, &owned)? {
        return Err(refused("a rule denies it"));
    }
    let server = owned.server().to_owned();
    let mut announced = servers.announced();
    let followed = owned.follow().await.map_err(|problem| refused(&problem))?;
    let token = sessions.subscribe(session, (workspace.clone(), uri.clone()));
    let token = token.ok_or_else(|| refused("too many are followed"))?;
    let peer = context.peer.clone();
    sessions.spawn(session, async move {
        let _followed = followed;
        let follow = async {
            loop {
                let is_other = match announced.recv().await {
                    Ok(announced) => is_about(&announced, (&workspace, &server), &uri),
                    // It may have been this one.
                    Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => return,
                };
                if is_other && tell(&peer, &uri).await.is_err() {
                    return;
                }
            }
        };
        token.run_until_cancelled(follow).await;
    });
    Ok(())
}

/// Says whether something is about a resource. Another server may have one of the same address.
fn is_about(announced: &Announced, (workspace, server): (&str, &str), uri: &str) -> bool {
    (announced.workspace.as_str(), announced.server.as_str()) == (workspace, server)
        && announced.uri.as_deref() == Some(uri)
}

async fn tell(peer: &Peer<RoleServer>, uri: &str) -> Result<(), rmcp::service::ServiceError> {
    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri))
        .await
}

/// Follows it no more.
pub(super) fn unsubscribe(shared: &Shared, sessions: &Sessions, seen: &Seen, uri: String) -> Result<(), ErrorData> {
    let workspace = workspace(shared, seen)?;
    if let Some(session) = seen.session.as_deref() {
        sessions.unsubscribe(session, &(workspace, uri));
    }
    Ok(())
}

/// Tells a client without a session what has changed, for as long as it listens. `tools` completes when the list of tools is
/// another for it.
pub(super) async fn listen<F: Future<Output = ()>>(
    shared: &Shared,
    seen: &Seen,
    context: &SubscriptionContext,
    mut tools: impl FnMut() -> F,
) -> Result<(), ErrorData> {
    let workspace = workspace(shared, seen)?;
    let (sink, accepted) = (context.sink(), context.accepted());
    let servers = servers(shared, context.request_context());
    let mut announced = servers.map(|servers| servers.announced());
    let mut followed = BTreeMap::new();
    for uri in accepted.resource_subscriptions.clone().unwrap_or_default() {
        let Some(servers) = servers else { break };
        if followed.len() >= MAX_SUBSCRIPTIONS {
            tracing::debug!("a client wants to follow too many resources");
            break;
        }
        let Some(owned) = servers.resource(&workspace, &uri).await else {
            continue;
        };
        if is_denied(shared, seen, &owned)? {
            continue;
        }
        let server = owned.server().to_owned();
        match owned.follow().await {
            Ok(follow) => drop(followed.insert(uri, (server, follow))),
            Err(problem) => tracing::debug!(problem, "a server does not tell of a resource"),
        }
    }
    loop {
        let next = async {
            match &mut announced {
                Some(announced) => announced.recv().await,
                None => std::future::pending().await,
            }
        };
        let sent = tokio::select! {
            () = context.cancelled() => return Ok(()),
            () = tools() => match accepted.tools_list_changed {
                Some(true) => sink.notify_tool_list_changed().await,
                Some(false) | None => Ok(()),
            },
            next = next => match next {
                Ok(Announced { workspace: of, .. }) if of != workspace => Ok(()),
                Ok(Announced { server, uri: Some(uri), .. })
                    if followed.get(&uri).is_some_and(|(of, _)| *of == server) =>
                {
                    sink.notify_resource_updated(uri).await
                }
                Ok(Announced { uri: Some(_), .. }) => Ok(()),
                told @ (Ok(Announced { uri: None, .. }) | Err(RecvError::Lagged(_))) => {
                    let mut sent = Ok(());
                    // What was missed may have been about any of them.
                    if told.is_err() {
                        for uri in followed.keys() {
                            if sent.is_ok() {
                                sent = sink.notify_resource_updated(uri.clone()).await;
                            }
                        }
                    }
                    if sent.is_ok() && accepted.prompts_list_changed == Some(true) {
                        sent = sink.notify_prompt_list_changed().await;
                    }
                    if sent.is_ok() && accepted.resources_list_changed == Some(true) {
                        sent = sink.notify_resource_list_changed().await;
                    }
                    sent
                }
                Err(RecvError::Closed) => {
                    announced = None;
                    Ok(())
                }
            },
        };
        if sent.is_err() {
            return Ok(());
        }
    }
}
