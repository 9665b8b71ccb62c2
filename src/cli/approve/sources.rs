//! The services whose prompts are answered: a channel to each, opened again when it breaks.
//!
//! *Invariant:* a service that was started meanwhile is found, and one that is gone is not tried again.

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, SelectAll};
use futures_util::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use toolgate_contract::channel_request::Message as Request;
use toolgate_contract::{ChannelOpen, ChannelRequest, ChannelResponse, PromptFilter, PromptReply};

use crate::cli::Globals;
use crate::cli::client::Client;
use crate::cli::exit::{Failure, is_lost_connection};
use crate::cli::follow::backoff;
use crate::cli::instances::Instance;
use crate::cli::service;

/// Replies that may wait for the network; one person does not type faster, and a program is held back.
const REPLIES: usize = 16;

/// How often services are looked for that were started meanwhile.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a service says, or what became of the connection to it.
pub(super) enum News {
    Opened(mpsc::Sender<ChannelRequest>),
    Message(Box<ChannelResponse>),
    Lost,
    Refused(Status),
}

type Told = Pin<Box<dyn Stream<Item = (usize, News)> + Send>>;

/// One service whose prompts are answered.
pub(super) struct Source {
    pub(super) url: String,
    /// Its id, if it was found among those that run.
    id: String,
    /// Takes replies while there is a connection.
    pub(super) requests: Option<mpsc::Sender<ChannelRequest>>,
    /// Whether a connection was lost before this one.
    pub(super) is_back: bool,
    /// Whether it has let this approver in, or refused to.
    pub(super) is_heard: bool,
    /// Ends the attempts to connect.
    over: CancellationToken,
}

/// All of them.
pub(super) struct Sources {
    globals: Globals,
    workspace: Option<String>,
    sessions: Vec<String>,
    name: String,
    pub(super) list: Vec<Source>,
    pub(super) news: SelectAll<Told>,
}

impl Source {
    /// Says whether the service is gone for good.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Sends a reply; one that is not taken is sent again when the service is back.
    pub(super) async fn send(&self, reply: PromptReply) {
        let request = ChannelRequest {
            message: Some(Request::Reply(reply)),
        };
        if let Some(requests) = &self.requests {
            let _ = requests.send(request).await;
        }
    }
}

impl Sources {
    /// Listens to nobody yet; `workspace` and `sessions` say which prompts are wanted.
    pub(super) fn new(globals: Globals, workspace: Option<String>, sessions: Vec<String>, name: String) -> Self {
        Self {
            globals,
            workspace,
            sessions,
            name,
            list: Vec::new(),
            news: SelectAll::new(),
        }
    }

    /// Begins to listen to a service.
    pub(super) async fn add(&mut self, instance: &Instance, client: Client) -> Result<(), Failure> {
        let filter = PromptFilter {
            workspace: client.workspace(self.workspace.as_deref()).await?,
            client_ids: Vec::new(),
            session_ids: self.sessions.clone(),
        };
        let open = ChannelOpen {
            name: self.name.clone(),
            filter: Some(filter),
        };
        let over = CancellationToken::new();
        let index = self.list.len();
        let told = news(client, open).map(move |news| (index, news));
        self.news
            .push(Box::pin(told.take_until(over.clone().cancelled_owned())));
        self.list.push(Source {
            url: instance.url.clone(),
            id: instance.id.clone(),
            requests: None,
            is_back: false,
            is_heard: false,
            over,
        });
        Ok(())
    }

    /// Listens to services that were started meanwhile; those that are gone are not tried again. One that was named is the
    /// only one.
    pub(super) async fn look(&mut self) {
        if self.globals.server.is_some() {
            return;
        }
        let running = service::running();
        for source in &self.list {
            let is_gone = !source.id.is_empty() && !running.iter().any(|instance| instance.id == source.id);
            if is_gone && source.requests.is_none() {
                source.over.cancel();
            }
        }
        for instance in running {
            let is_known =
                |source: &Source| source.id == instance.id || (source.id.is_empty() && source.url == instance.url);
            if self.list.iter().any(is_known) {
                continue;
            }
            // One that does not answer yet is tried again with the next look.
            if let Ok(client) = Client::connect_to(&instance.url, &self.globals.credentials).await
                && let Err(failure) = self.add(&instance, client).await
            {
                tracing::warn!("{}: {failure}", instance.url);
            }
        }
    }
}

/// Where a connection is.
enum Line {
    Connect(u32),
    Open(Box<Streaming<ChannelResponse>>, u32),
    Over,
}

/// Tells what a service says; a lost connection is opened again.
fn news(client: Client, open: ChannelOpen) -> impl Stream<Item = News> + Send {
    stream::unfold((client, open, Line::Connect(0)), |(client, open, line)| async move {
        let lost = |status: Status, attempt: u32| {
            if is_lost_connection(&status) {
                (News::Lost, Line::Connect(attempt + 1))
            } else {
                (News::Refused(status), Line::Over)
            }
        };
        let (news, line) = match line {
            Line::Over => return None,
            Line::Connect(attempt) => {
                if attempt > 0 {
                    tokio::time::sleep(backoff(attempt)).await;
                }
                match Channel::open(&client, &open).await {
                    Ok(Channel { requests, responses }) => {
                        (News::Opened(requests), Line::Open(Box::new(responses), attempt))
                    }
                    Err(status) => lost(status, attempt),
                }
            }
            Line::Open(mut responses, attempt) => match responses.message().await {
                Ok(Some(message)) => (News::Message(Box::new(message)), Line::Open(responses, 0)),
                Ok(None) => lost(Status::unavailable("the server closed the channel"), attempt),
                Err(status) => lost(status, attempt),
            },
        };
        Some((news, (client, open, line)))
    })
}

/// An open channel.
struct Channel {
    requests: mpsc::Sender<ChannelRequest>,
    responses: Streaming<ChannelResponse>,
}

impl Channel {
    async fn open(client: &Client, open: &ChannelOpen) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(REPLIES);
        let first = ChannelRequest {
            message: Some(Request::Open(open.clone())),
        };
        requests
            .send(first)
            .await
            .map_err(|_| Status::internal("the channel is closed"))?;
        let responses = client
            .permissions()
            .channel(ReceiverStream::new(receiver))
            .await?
            .into_inner();
        Ok(Self { requests, responses })
    }
}
