//! The services whose prompts are answered: a channel to each, opened again when it breaks.
//!
//! *Invariant:* a service that was started meanwhile is found, and one that is gone is not tried again. Nothing here waits for a service
//! that does not answer, except the one call that begins to listen to those that were there first.

use std::collections::HashSet;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered, SelectAll};
use futures_util::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use toolgate_client::{ChannelEvent, Client, Error, PromptChannel};
use toolgate_contract::{ChannelOpen, ChannelRequest, ChannelResponse, PromptFilter, PromptReply};

use crate::cli::connection;
use crate::cli::exit::Failure;
use crate::cli::globals::Globals;
use crate::cli::instances::Instance;
use crate::cli::service;
use crate::cli::words;

/// How often services are looked for that were started meanwhile.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often services are asked whether their rules are those that their files have.
const RULES_EVERY: Duration = Duration::from_secs(5);

/// What a service says, or what became of the connection to it.
pub(super) enum News {
    Opened(mpsc::Sender<ChannelRequest>),
    Message(Box<ChannelResponse>),
    Lost,
    Refused(Error),
    /// Why the rules of a workspace are not those that its files have, or nothing any more.
    Rules(Option<String>),
}

type NewsStream = Pin<Box<dyn Stream<Item = (usize, News)> + Send>>;

/// A service that was found, and the connection to it, or why there is none.
type Attempt = Pin<Box<dyn Future<Output = (Instance, Result<(Client, ChannelOpen), Failure>)> + Send>>;

/// One service whose prompts are answered.
pub(super) struct Source {
    pub(super) url: String,
    /// Its id, if it was found among those that run.
    id: String,
    /// Takes replies while there is a connection.
    pub(super) requests: Option<mpsc::Sender<ChannelRequest>>,
    /// Why the rules of a workspace are not those that its files have.
    pub(super) broken_rules: Option<String>,
    /// Whether a connection was lost before this one.
    pub(super) is_back: bool,
    /// Whether it has told of all prompts that were open, or refused to, if only before a connection was lost.
    pub(super) is_heard: bool,
    /// Whether that is true of the connection that there is now.
    is_told: bool,
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
    news: SelectAll<NewsStream>,
    /// Connections to services that were started meanwhile, and the ids of these services.
    attempts: FuturesUnordered<Attempt>,
    attempted: HashSet<String>,
}

impl Source {
    /// Returns whether the service is gone for good.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Notes that it has told of all prompts that were open, or refused to.
    pub(super) fn has_told(&mut self) {
        self.is_heard = true;
        self.is_told = true;
    }

    /// Notes that the connection is lost: the next one tells of everything again.
    pub(super) fn is_lost(&mut self) {
        self.is_back = true;
        self.is_told = false;
    }

    /// Sends a reply; one that is not taken is sent again when the service is back.
    pub(super) async fn send(&self, reply: PromptReply) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(PromptChannel::request(reply)).await;
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
            attempts: FuturesUnordered::new(),
            attempted: HashSet::new(),
        }
    }

    /// Says whether a service has still to tell of prompts that were open when it was found.
    pub(super) fn have_more(&self) -> bool {
        self.list.iter().any(|source| !source.is_told && !source.is_over())
    }

    /// Returns what the next service says.
    pub(super) async fn next(&mut self) -> Option<(usize, News)> {
        loop {
            tokio::select! {
                Some(news) = self.news.next() => return Some(news),
                Some((instance, connected)) = self.attempts.next() => {
                    self.attempted.remove(&instance.id);
                    match connected {
                        Ok((client, open)) => self.listen(&instance, client, open),
                        // One that does not answer yet is tried again with the next look.
                        Err(failure) => tracing::debug!("{}: {failure}", instance.url),
                    }
                }
                else => return None,
            }
        }
    }

    /// Begins to listen to a service.
    pub(super) async fn add(&mut self, instance: &Instance, client: Client) -> Result<(), Failure> {
        let open = opening(
            &client,
            self.workspace.as_deref(),
            self.sessions.clone(),
            self.name.clone(),
        )
        .await?;
        self.listen(instance, client, open);
        Ok(())
    }

    fn listen(&mut self, instance: &Instance, client: Client, open: ChannelOpen) {
        let over = CancellationToken::new();
        let index = self.list.len();
        let wanted = open.filter.as_ref().map(|filter| filter.workspace.clone());
        let rules = rules_news(client.clone(), wanted.unwrap_or_default());
        let news = stream::select(channel_news(client, open), rules).map(move |news| (index, news));
        self.news
            .push(Box::pin(news.take_until(over.clone().cancelled_owned())));
        self.list.push(Source {
            url: instance.url.clone(),
            id: instance.id.clone(),
            requests: None,
            broken_rules: None,
            is_back: false,
            is_heard: false,
            is_told: false,
            over,
        });
    }

    /// Listens to services that were started meanwhile; those that are gone are not tried again. One that was named is the
    /// only one.
    pub(super) fn look(&mut self) {
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
            if self.list.iter().any(is_known) || !self.attempted.insert(instance.id.clone()) {
                continue;
            }
            let credentials = self.globals.credentials.clone();
            let (workspace, sessions, name) = (self.workspace.clone(), self.sessions.clone(), self.name.clone());
            self.attempts.push(Box::pin(async move {
                let connected = async {
                    let client = connection::connect_to(&instance.url, &credentials).await?;
                    let open = opening(&client, workspace.as_deref(), sessions, name).await?;
                    Ok((client, open))
                };
                let connected = connected.await;
                (instance, connected)
            }));
        }
    }
}

/// Says to a service who listens, and to which prompts.
async fn opening(
    client: &Client,
    workspace: Option<&str>,
    sessions: Vec<String>,
    name: String,
) -> Result<ChannelOpen, Failure> {
    let filter = PromptFilter {
        workspace: connection::workspace_filter(client, workspace).await?,
        all: sessions.is_empty(),
        session_ids: sessions,
        client_ids: Vec::new(),
    };
    Ok(ChannelOpen {
        name,
        filter: Some(filter),
    })
}

/// Tells what a service says; a lost connection is opened again.
fn channel_news(client: Client, open: ChannelOpen) -> impl Stream<Item = News> + Send {
    stream::unfold(PromptChannel::new(client, open), |mut channel| async move {
        let news = match channel.next().await? {
            ChannelEvent::Opened => News::Opened(channel.sender()?),
            ChannelEvent::Message(message) => News::Message(message),
            ChannelEvent::Lost(_) => News::Lost,
            ChannelEvent::Refused(error) => News::Refused(error),
        };
        Some((news, channel))
    })
}

/// Tells when the rules of workspaces begin or cease to be others than their files have. `wanted` are the workspaces, as a filter
/// names them.
fn rules_news(client: Client, wanted: String) -> impl Stream<Item = News> + Send {
    let is_wanted = move |name: &str| {
        let is_below = wanted.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix));
        wanted == connection::ALL_WORKSPACES || wanted == name || is_below
    };
    let mut looks = tokio::time::interval(RULES_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold(
        (client, is_wanted, looks, None),
        |(client, is_wanted, mut looks, told)| async move {
            loop {
                looks.tick().await;
                let workspaces = match client.server_info().await {
                    Ok(info) => info.workspaces,
                    // Whoever may answer prompts need not be allowed to see that.
                    Err(error) if error.code() == Code::PermissionDenied => return None,
                    Err(_) => continue,
                };
                let mut shown = workspaces.iter().filter(|one| is_wanted(&one.name));
                let broken = shown.find_map(words::broken_rules);
                if broken != told {
                    return Some((News::Rules(broken.clone()), (client, is_wanted, looks, broken)));
                }
            }
        },
    )
}
