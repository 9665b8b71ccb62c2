//! `PermissionService`: shows prompts to approvers and takes their replies.

mod replies;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use prost::Message as _;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use toolgate_contract::channel_response::Message;
use toolgate_contract::permission_service_server::PermissionService;
use toolgate_contract::{self as proto, *};
use toolgate_engine::prompts::broker::{Change, Listener, Subscription};
use toolgate_engine::{DrainNotice, Engine};
use toolgate_model::{Prompt, PromptId, PromptState, Timestamp};
use toolgate_store::PromptFilter as StoredFilter;

use self::replies::{Approver, answer};
use super::auth::{ALL, Caller};
use super::convert::{self, int32, non_empty, page_size, timestamp};
use super::events::ResponseStream;
use super::status::bad_field;
use super::{Shared, status};
use crate::grpc::convert::{FromCore as _, FromNumber as _, IntoProto as _};

/// The service.
pub(crate) struct Permissions(pub(crate) Arc<Shared>);

const MAX_PROMPTS: usize = 1000;
const MAX_GRANTS: usize = 1000;

/// Bytes of a page of prompts; clients take 4 MiB in one message unless they are told otherwise.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

struct Watcher {
    listener: Listener,
    interest: Subscription,
    first: VecDeque<Message>,
    heartbeat: std::time::Duration,
    draining: DrainNotice,
    closing: CancellationToken,
}

impl Watcher {
    async fn open(shared: &Shared, interest: Subscription) -> Result<Self, Status> {
        let inbox = shared.engine.inbox();
        let listener = inbox.listen(interest.clone()).await.map_err(status::store)?;
        let opened = ChannelOpened {
            instance_id: inbox.instance().to_string(),
        };
        let prompts = int32(listener.snapshot.len());
        let mut first = VecDeque::from([Message::Opened(opened)]);
        first.extend(listener.snapshot.iter().map(|prompt| {
            Message::PromptAdded(PromptAdded {
                prompt: Some((**prompt).clone().into_proto()),
            })
        }));
        first.push_back(Message::SnapshotEnd(SnapshotEnd { prompts }));
        Ok(Self {
            listener,
            interest,
            first,
            heartbeat: shared.heartbeat,
            draining: shared.engine.calls().drain_notice(),
            closing: shared.closing.turn(),
        })
    }

    fn heartbeat(&mut self) -> Message {
        Message::Heartbeat(ChannelHeartbeat {
            server_time: Some(timestamp(Timestamp::now())),
            draining: self.draining.tell(),
        })
    }

    async fn next(&mut self) -> Result<Message, Status> {
        if let Some(told) = self.first.pop_front() {
            return Ok(told);
        }
        let silence = tokio::time::sleep(self.heartbeat);
        tokio::pin!(silence);
        loop {
            let change = tokio::select! {
                biased;
                () = self.draining.due() => return Ok(self.heartbeat()),
                change = self.listener.changes.recv() => change,
                () = &mut silence => return Ok(self.heartbeat()),
                () = self.closing.cancelled() => return Err(status::draining()),
            };
            match change {
                Ok(change) if !self.interest.covers(change.prompt()) => {}
                Ok(Change::Added(prompt)) => {
                    return Ok(Message::PromptAdded(PromptAdded {
                        prompt: Some((*prompt).clone().into_proto()),
                    }));
                }
                Ok(Change::Approved(prompt)) => {
                    return Ok(Message::PromptUpdated(PromptUpdated {
                        prompt: Some((*prompt).clone().into_proto()),
                    }));
                }
                Ok(Change::Resolved(prompt)) => {
                    return Ok(Message::PromptResolved(PromptResolved {
                        prompt: Some((*prompt).clone().into_proto()),
                    }));
                }
                Err(RecvError::Lagged(_)) => return Err(status::missed_changes()),
                Err(RecvError::Closed) => return Err(status::draining()),
            }
        }
    }
}

/// Streams what a watcher is told until it fails.
fn stream_messages(watcher: Watcher) -> impl stream::Stream<Item = Result<Message, Status>> + Send {
    stream::try_unfold(watcher, |mut watcher| async {
        Ok(Some((watcher.next().await?, watcher)))
    })
}

#[tonic::async_trait]
impl PermissionService for Permissions {
    type ChannelStream = ResponseStream<ChannelResponse>;

    async fn channel(
        &self,
        request: Request<Streaming<ChannelRequest>>,
    ) -> Result<Response<Self::ChannelStream>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let mut requests = request.into_inner();
        let first = tokio::select! {
            first = requests.message() => first?,
            () = self.0.closing.at_once().cancelled() => return Err(status::draining()),
        };
        let Some(channel_request::Message::Open(open)) = first.and_then(|request| request.message) else {
            return Err(bad_field("message", "the first message of a channel is `open`"));
        };
        let name = convert::name("open.name", open.name)?;
        let filter = open.filter.unwrap_or_default();
        let interest = interest(&self.0.engine, &caller, "open.filter", filter).await?;
        let watcher = Watcher::open(&self.0, interest).await?;
        let engine = (self.0.engine.clone(), self.0.takes_replies);
        let approver = Approver { caller, name };
        let replies = stream::try_unfold((requests, engine, approver), |mut state| async {
            let (requests, engine, approver) = &mut state;
            // The client has nothing more to say, or is gone: the other half shows which.
            let Ok(Some(request)) = requests.message().await else {
                return Ok(None);
            };
            let result = match request.message {
                Some(channel_request::Message::Reply(reply)) => answer((&engine.0, engine.1), reply, approver).await?,
                Some(channel_request::Message::Open(_)) => {
                    return Err(bad_field("message", "the channel is already open"));
                }
                None => return Err(bad_field("message", "an empty message")),
            };
            Ok(Some((Message::ReplyResult(result), state)))
        });
        // The stream ends with the watcher or at the first error; a client that only stops talking goes on listening.
        let stream = stream::select(stream_messages(watcher), replies).scan(false, |failed, item| {
            let goes_on = !*failed;
            *failed = item.is_err();
            std::future::ready(goes_on.then_some(item))
        });
        Ok(Response::new(Box::pin(stream.map(|item| {
            item.map(|message| ChannelResponse { message: Some(message) })
        }))))
    }

    type WatchPromptsStream = ResponseStream<WatchPromptsResponse>;

    async fn watch_prompts(
        &self,
        request: Request<WatchPromptsRequest>,
    ) -> Result<Response<Self::WatchPromptsStream>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let filter = request.into_inner().filter.unwrap_or_default();
        let interest = interest(&self.0.engine, &caller, "filter", filter).await?;
        let watcher = Watcher::open(&self.0, interest).await?;
        Ok(Response::new(Box::pin(
            stream_messages(watcher).map(|item| item.map(watch_response)),
        )))
    }

    async fn list_prompts(
        &self,
        request: Request<ListPromptsRequest>,
    ) -> Result<Response<ListPromptsResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let mut filter = request.filter.unwrap_or_default();
        // A call says enough.
        filter.all |= !request.call_id.is_empty() && filter.session_ids.is_empty() && filter.client_ids.is_empty();
        if filter.workspace.is_empty() && !request.call_id.is_empty() {
            ALL.clone_into(&mut filter.workspace);
        }
        let interest = interest(&self.0.engine, &caller, "filter", filter).await?;
        let states = request
            .states
            .iter()
            .map(|&state| PromptState::from_number("states", state));
        let mut states = states.collect::<Result<Vec<_>, _>>()?;
        if states.is_empty() {
            states.push(PromptState::Open);
        }
        let call = self.0.filtered_call(&caller, "call_id", request.call_id).await?;
        let filter = StoredFilter {
            owner: None,
            workspaces: interest.workspaces,
            sessions: interest.sessions,
            ids: Vec::new(),
            call,
            states,
            after: non_empty(request.page_token).map(PromptId::new),
        };
        let limit = page_size(request.page_size, 100, MAX_PROMPTS)?;
        let prompts = self
            .0
            .engine
            .inbox()
            .list(&filter, limit + 1)
            .await
            .map_err(status::store)?;
        let more = prompts.len();
        let prompts = one_page(prompts, limit);
        let last = prompts.last().map(|prompt| prompt.prompt_id.clone());
        let next_page_token = last.filter(|_| prompts.len() < more).unwrap_or_default();
        Ok(Response::new(ListPromptsResponse {
            prompts,
            next_page_token,
        }))
    }

    async fn get_prompt(&self, request: Request<GetPromptRequest>) -> Result<Response<GetPromptResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let id = prompt_id(request.into_inner().prompt_id)?;
        let prompt = self.0.engine.inbox().get(&id).await.map_err(status::store)?;
        let prompt = prompt.filter(|prompt| caller.sees(&prompt.workspace));
        let prompt = prompt.ok_or_else(|| status::not_found("prompt", id.as_str()))?;
        Ok(Response::new(GetPromptResponse {
            prompt: Some(prompt.into_proto()),
        }))
    }

    async fn reply_prompt(
        &self,
        request: Request<ReplyPromptRequest>,
    ) -> Result<Response<ReplyPromptResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let name = convert::name("name", request.name)?;
        let approver = Approver { caller, name };
        let result = answer(
            (&self.0.engine, self.0.takes_replies),
            request.reply.unwrap_or_default(),
            &approver,
        )
        .await?;
        Ok(Response::new(ReplyPromptResponse { result: Some(result) }))
    }

    async fn list_grants(&self, request: Request<ListGrantsRequest>) -> Result<Response<ListGrantsResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let workspaces = caller.filtered(&self.0.engine, &request.workspace).await?;
        let size = page_size(request.page_size, 100, MAX_GRANTS)?;
        let grants = self.0.engine.grants(workspaces.single()).await;
        let mut grants = grants.map_err(status::store)?;
        // Their ids sort by time. A grant that ends while pages are read moves no other one.
        grants.retain(|grant| workspaces.contains(&grant.workspace) && *grant.id.as_str() > *request.page_token);
        grants.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
        let has_more = grants.len() > size;
        grants.truncate(size);
        let last = grants.last().filter(|_| has_more);
        Ok(Response::new(ListGrantsResponse {
            next_page_token: last.map(|grant| grant.id.to_string()).unwrap_or_default(),
            grants: grants.into_iter().map(Grant::from_core).collect(),
        }))
    }

    async fn revoke_grant(
        &self,
        request: Request<RevokeGrantRequest>,
    ) -> Result<Response<RevokeGrantResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let id = toolgate_model::GrantId::new(convert::name("grant_id", request.into_inner().grant_id)?);
        let inbox = self.0.engine.inbox();
        let standing = inbox.grant(&id).await.map_err(status::store)?;
        if standing.is_some_and(|grant| !caller.sees(&grant.workspace)) {
            return Err(status::not_found("grant", id.as_str()));
        }
        let by = caller.principal().id();
        let revoked = inbox.revoke(&id, &by).await;
        let grant = revoked.map_err(status::store)?;
        let grant = grant.ok_or_else(|| status::not_found("grant", id.as_str()))?;
        Ok(Response::new(RevokeGrantResponse {
            grant: Some(grant.into_proto()),
        }))
    }
}

/// Takes prompts for one page: at most `limit`, and after the first only as long as a message stays of a size that
/// every client takes. Diffs may be large.
fn one_page(stored: Vec<Prompt>, limit: usize) -> Vec<proto::Prompt> {
    let mut bytes = 0;
    let mut page: Vec<proto::Prompt> = Vec::new();
    for prompt in stored.into_iter().take(limit).map(proto::Prompt::from_core) {
        bytes += prompt.encoded_len();
        if !page.is_empty() && bytes > PAGE_BYTES {
            break;
        }
        page.push(prompt);
    }
    page
}

fn prompt_id(id: String) -> Result<PromptId, Status> {
    let id = convert::name("prompt_id", id)?;
    if id.is_empty() {
        return Err(bad_field("prompt_id", "name a prompt"));
    }
    Ok(PromptId::new(id))
}

async fn interest(engine: &Engine, caller: &Caller, field: &str, filter: PromptFilter) -> Result<Subscription, Status> {
    let names_some = !filter.session_ids.is_empty() || !filter.client_ids.is_empty();
    if filter.all == names_some {
        let problem = if names_some {
            "`all` stands alone: leave out session_ids and client_ids, or `all`"
        } else {
            "say whose prompts: name session_ids or client_ids, or set `all` for everybody's"
        };
        return Err(bad_field(field, problem));
    }
    let sessions = filter
        .session_ids
        .into_iter()
        .map(|id| convert::session_id(&format!("{field}.session_ids"), id));
    Ok(Subscription {
        workspaces: caller.filtered(engine, &filter.workspace).await?,
        sessions: sessions.collect::<Result<_, _>>()?,
        forms: false,
        clients: convert::client_ids(&format!("{field}.client_ids"), filter.client_ids)?,
        only_watches: !caller.may(Scope::PromptsReply),
    })
}

fn watch_response(message: Message) -> WatchPromptsResponse {
    use watch_prompts_response::Message as Watched;
    let message = match message {
        Message::Opened(opened) => Some(Watched::Opened(opened)),
        Message::PromptAdded(added) => Some(Watched::PromptAdded(added)),
        Message::SnapshotEnd(end) => Some(Watched::SnapshotEnd(end)),
        Message::PromptUpdated(updated) => Some(Watched::PromptUpdated(updated)),
        Message::PromptResolved(resolved) => Some(Watched::PromptResolved(resolved)),
        Message::Heartbeat(heartbeat) => Some(Watched::Heartbeat(heartbeat)),
        // Nobody replies on this stream.
        Message::ReplyResult(_) => None,
    };
    WatchPromptsResponse { message }
}
