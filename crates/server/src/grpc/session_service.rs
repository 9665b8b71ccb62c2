//! `SessionService`: shows sessions, ends them, streams what happens.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use toolgate_contract::event::Event as Kind;
use toolgate_contract::session_service_server::SessionService;
use toolgate_contract::*;
use toolgate_engine::DrainNotice;
use toolgate_model::{self as call, ServiceEvent, ServiceEventKind, SessionKey, Timestamp, WorkspaceSet};
use toolgate_store::{CallFilter, PageRequest, PromptFilter, SessionFilter, SessionSummary as Summary};

use super::auth::Caller;
use super::convert::{self, int, int32, moment, non_empty, page_size, timestamp, unsigned};
use super::events::ResponseStream;
use super::values::to_struct;
use super::{Shared, status};
use crate::grpc::convert::FromCore as _;

/// The service.
pub(crate) struct Sessions(pub(crate) Arc<Shared>);

const RECENT_CALLS: usize = 20;
const OPEN_PROMPTS: usize = 1000;
const MAX_SESSIONS: usize = 500;
/// How many events are read at once; each may carry a list of tasks.
const BATCH: usize = 64;

struct EventReader {
    shared: Arc<Shared>,
    last: watch::Receiver<u64>,
    workspaces: WorkspaceSet,
    session: Option<String>,
    after: u64,
    batch: VecDeque<(u64, ServiceEvent)>,
    draining: DrainNotice,
    closing: CancellationToken,
}

impl EventReader {
    async fn next(&mut self) -> Result<Event, Status> {
        // To the client, events that it did not ask for are silence too.
        let heartbeat_due = Instant::now() + self.shared.heartbeat;
        loop {
            if self.draining.is_due() {
                return Ok(self.heartbeat());
            }
            if let Some((sequence, event)) = self.batch.pop_front() {
                self.after = sequence;
                if self.covers(&event) {
                    return Ok(to_event(sequence, event));
                }
                if Instant::now() >= heartbeat_due {
                    return Ok(self.heartbeat());
                }
                continue;
            }
            let newest = *self.last.borrow();
            let more = self.shared.journal.since(self.after, BATCH).await;
            self.batch = more.map_err(status::store)?.into();
            // Numbers have no gaps but for what is not kept any more; who begins at 0 wants what is there.
            let next = self.batch.front().map_or(newest + 1, |(number, _)| *number);
            if self.after > 0 && next > self.after + 1 {
                return Err(status::cursor_too_old(
                    "look at everything again, and watch without a sequence",
                ));
            }
            if !self.batch.is_empty() {
                continue;
            }
            let after = self.after;
            let is_silent = tokio::select! {
                more = self.last.wait_for(|last| *last > after) => {
                    more.map_err(|_| status::draining())?;
                    false
                }
                () = tokio::time::sleep_until(heartbeat_due) => true,
                () = self.draining.due() => false,
                () = self.closing.cancelled() => return Err(status::draining()),
            };
            if is_silent {
                return Ok(self.heartbeat());
            }
        }
    }

    fn heartbeat(&mut self) -> Event {
        Event {
            sequence: int(self.after),
            event_time: Some(timestamp(Timestamp::now())),
            workspace: String::new(),
            session_id: String::new(),
            event: Some(Kind::Heartbeat(EventHeartbeat {
                draining: self.draining.tell(),
            })),
        }
    }

    fn covers(&self, event: &ServiceEvent) -> bool {
        self.workspaces.contains(&event.workspace)
            && self
                .session
                .as_ref()
                .is_none_or(|wanted| event.session.as_ref().is_some_and(|session| session.as_str() == wanted))
    }
}

fn to_event(sequence: u64, event: ServiceEvent) -> Event {
    let kind = match event.kind {
        ServiceEventKind::Call {
            call,
            tool,
            state,
            title,
            summary,
            end,
        } => Kind::CallStateChanged(CallStateChanged {
            call_id: call.to_string(),
            tool,
            state: CallState::from_core(state).into(),
            title,
            summary,
            ..convert::ended(end)
        }),
        ServiceEventKind::FileEdited { path, call } => Kind::FileEdited(FileEdited {
            path,
            call_id: call.to_string(),
        }),
        ServiceEventKind::Metadata {
            call,
            tool,
            sequence,
            patch,
        } => Kind::CallMetadataChanged(CallMetadataChanged {
            call_id: call.to_string(),
            tool,
            sequence: int(sequence),
            metadata: Some(to_struct(patch)),
        }),
        ServiceEventKind::PromptAdded { prompt, call } => Kind::PromptOpened(PromptOpened {
            prompt_id: prompt.to_string(),
            call_id: call.to_string(),
        }),
        ServiceEventKind::PromptResolved { prompt, call, state } => Kind::PromptEnded(PromptEnded {
            prompt_id: prompt.to_string(),
            call_id: call.to_string(),
            state: PromptState::from_core(state).into(),
        }),
        ServiceEventKind::TodosUpdated { todos, call } => Kind::TodosUpdated(TodosUpdated {
            todos: todos.into_iter().map(Todo::from_core).collect(),
            call_id: call.to_string(),
        }),
        ServiceEventKind::Listening { call, ports } => Kind::ListeningChanged(ListeningChanged {
            call_id: call.to_string(),
            ports: ports.into_iter().map(ListeningPort::from_core).collect(),
        }),
        ServiceEventKind::ToolsChanged {
            added,
            removed,
            changed,
        } => Kind::ToolsChanged(ToolsChanged {
            added,
            removed,
            changed,
        }),
        ServiceEventKind::WorkspaceChanged { change } => Kind::WorkspaceChanged(WorkspaceChanged {
            change: WorkspaceChange::from_core(change).into(),
        }),
        ServiceEventKind::SessionEnded => Kind::SessionEnded(SessionEnded {}),
    };
    Event {
        sequence: int(sequence),
        event_time: Some(timestamp(event.time)),
        workspace: event.workspace,
        session_id: event.session.map(|session| session.to_string()).unwrap_or_default(),
        event: Some(kind),
    }
}

fn summary(session: Summary) -> SessionSummary {
    SessionSummary {
        session_id: session.session.session.to_string(),
        workspace: session.session.workspace,
        agents: session.agents,
        create_time: Some(timestamp(session.first)),
        last_activity_time: Some(timestamp(session.active)),
        calls: int(session.calls),
        unfinished_calls: int(session.unfinished),
        waiting_calls: int(session.waiting),
        ended: session.ended,
    }
}

#[tonic::async_trait]
impl SessionService for Sessions {
    async fn get_session(&self, request: Request<GetSessionRequest>) -> Result<Response<GetSessionResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let id = convert::session_id("session_id", request.session_id)?;
        let workspaces = caller.filtered(&self.0.engine, &request.workspace).await?;
        let engine = &self.0.engine;
        let filter = CallFilter {
            session: Some(id.clone()),
            workspaces: workspaces.clone(),
            ..Default::default()
        };
        let page = PageRequest {
            size: RECENT_CALLS,
            after: None,
        };
        let calls = engine.list(&filter, &page).await.map_err(status::store)?.items;
        let filter = PromptFilter {
            sessions: vec![id.clone()],
            workspaces: workspaces.clone(),
            states: vec![call::PromptState::Open],
            ..Default::default()
        };
        let prompts = engine
            .inbox()
            .list(&filter, OPEN_PROMPTS)
            .await
            .map_err(status::store)?;
        let newest = calls.first().map(|call| call.origin.workspace.clone());
        let grants = engine.grants(None).await.map_err(status::store)?;
        let grants = grants
            .into_iter()
            .filter(|grant| calls.iter().any(|call| call.origin.workspace == grant.workspace))
            .map(Grant::from_core)
            .collect();
        // Of several workspaces a call tells which one it is.
        let newest = newest.or(workspaces.single().map(str::to_owned));
        let todos = match newest {
            Some(workspace) => engine.todos(&SessionKey::new(&workspace, &id)).await,
            None => Ok(Vec::new()),
        };
        let todos = todos.map_err(status::store)?;
        let session = Session {
            session_id: id.to_string(),
            open_prompts: prompts.into_iter().map(Prompt::from_core).collect(),
            grants,
            recent_calls: calls.into_iter().map(convert::summary).collect(),
            todos: todos.into_iter().map(Todo::from_core).collect(),
        };
        Ok(Response::new(GetSessionResponse { session: Some(session) }))
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let filter = SessionFilter {
            workspaces: caller.filtered(&self.0.engine, &request.workspace).await?,
            from: moment("from_time", request.from_time)?,
            until: moment("until_time", request.until_time)?,
        };
        let page = PageRequest {
            size: page_size(request.page_size, 50, MAX_SESSIONS)?,
            after: non_empty(request.page_token),
        };
        let page = self.0.engine.sessions(&filter, &page).await.map_err(status::store)?;
        Ok(Response::new(ListSessionsResponse {
            sessions: page.items.into_iter().map(summary).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn end_session(&self, request: Request<EndSessionRequest>) -> Result<Response<EndSessionResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let id = convert::session_id("session_id", request.session_id)?;
        let workspaces = caller.filtered(&self.0.engine, &request.workspace).await?;
        let workspace = workspaces.single().ok_or_else(|| {
            let problem = "name one workspace: sessions of the same id in several are different sessions";
            status::bad_field("workspace", problem)
        })?;
        let key = SessionKey::new(workspace, &id);
        let cancelled = self.0.engine.end_session(&key).await.map_err(status::store)?;
        Ok(Response::new(EndSessionResponse {
            cancelled_calls: int32(cancelled),
        }))
    }

    type WatchEventsStream = ResponseStream<WatchEventsResponse>;

    async fn watch_events(
        &self,
        request: Request<WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        if !request.resume_token.is_empty() {
            let problem =
                "it is of a stream of another service: this one's streams are taken up again by after_sequence";
            return Err(status::bad_field("resume_token", problem));
        }
        let last = self.0.journal.last().await.map_err(status::store)?;
        let newest = *last.borrow();
        let after = match request.after_sequence {
            None => newest,
            Some(after) => unsigned("after_sequence", after)?,
        };
        if after > newest {
            let problem = format!("there are {newest} events so far; events after {after} do not exist yet");
            return Err(status::out_of_range("after_sequence", problem));
        }
        let workspaces = caller.filtered(&self.0.engine, &request.workspace).await?;
        let reader = EventReader {
            shared: self.0.clone(),
            last,
            workspaces,
            session: non_empty(request.session_id),
            after,
            batch: VecDeque::new(),
            draining: self.0.engine.calls().drain_notice(),
            closing: self.0.closing.turn(),
        };
        let events = stream::try_unfold(reader, |mut reader| async {
            let message = WatchEventsResponse {
                event: Some(reader.next().await?),
                ..WatchEventsResponse::default()
            };
            Ok(Some((message, reader)))
        });
        let mut response: Response<Self::WatchEventsStream> = Response::new(Box::pin(events));
        response.metadata_mut().insert(EVENTS_BEGIN, after.into());
        Ok(response)
    }
}

/// The entry of the metadata that says after which number a stream of events begins, before there is any: for a gateway, whose streams go
/// on by the numbers of each worker.
pub const EVENTS_BEGIN: &str = "toolgate-events-begin";
