//! The life of one server: connected to at the start, listed, connected to again when it is lost.
//!
//! A server that cannot be reached or that is lost is tried again after 1 s, then after twice as long each time, up to 5
//! minutes; one that had worked for a minute begins anew. Until then it is shown as failed, with the reason.
//!
//! *Invariant:* a server harms nobody else: each has its own task, its own limits of time, and its program is ended with
//! everything it started before the next attempt and at the end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::RunningService;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::{self, Described, Handler, Link, RequestError};
use super::inbox::{Inbox, Loss};
use super::local;
use super::login::Credentials;
use super::remote;
use super::tool::McpTool;
use super::{Kind, ServerSettings, Shelf, Surroundings};
use crate::call::{Effect, SourceState};
use crate::process::{Exit, Peer};
use crate::tool::Tool;

/// The pause before a server is tried again, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// A server that has worked for this long is not one that keeps failing.
const SETTLED: Duration = Duration::from_secs(60);

/// How long further changes of a list are waited for, at least and at most.
const SETTLE_LIST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Tools that are left out of one list, of which the log says so one by one.
const MAX_LOGGED: usize = 20;

/// How long a connection may take to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

const LOG_IN: &str = "The server wants a login. Log in with OpenCode (`opencode mcp auth`), or set `headers.Authorization` \
                      in the server's entry of the configuration.";

const REGISTER: &str = "The server wants a login, and lets no client register by itself. Register one there and set \
                        `oauth.clientId` (and `oauth.clientSecret`, if it has one) in the server's entry of the \
                        configuration; then log in with OpenCode (`opencode mcp auth`).";

/// What the tools of a server have in common: the way to it.
pub(super) struct Shared {
    name: String,
    /// The connection of the moment, or why there is none. Never held across an await.
    link: Mutex<Result<Link, Option<String>>>,
}

impl Shared {
    fn new(name: String) -> Self {
        Self {
            name,
            link: Mutex::new(Err(None)),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the connection of the moment.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn link(&self) -> Result<Link, RequestError> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.clone().map_err(RequestError::closed)
    }

    fn set(&self, link: Result<Link, Option<String>>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }
}

/// A server and where it stands.
pub(super) struct Server {
    settings: ServerSettings,
    around: Surroundings,
    shelf: Arc<dyn Shelf>,
    shared: Arc<Shared>,
    /// The login there, which stays known from one connection to the next.
    credentials: Option<Arc<Credentials>>,
    stop: CancellationToken,
    /// The tools that were offered last: what has not changed is offered as it is.
    offered: Mutex<Vec<Arc<McpTool>>>,
}

/// A connection, and the program at its other end.
struct Connection {
    running: RunningService<RoleClient, Handler>,
    inbox: Arc<Inbox>,
    process: Option<Peer>,
}

impl Server {
    pub(super) fn new(
        settings: ServerSettings,
        around: Surroundings,
        shelf: Arc<dyn Shelf>,
        credentials: Option<Arc<Credentials>>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            shared: Arc::new(Shared::new(settings.name.clone())),
            settings,
            around,
            shelf,
            credentials,
            stop,
            offered: Mutex::default(),
        }
    }

    /// Lives until the service stops.
    pub(super) async fn run(self) {
        let mut pause = BACKOFF.0;
        loop {
            let stop = self.stop.clone();
            let loss = match stop.run_until_cancelled(self.connect()).await {
                None => return,
                Some(Ok(connection)) => {
                    let since = Instant::now();
                    let loss = self.attend(connection).await;
                    if since.elapsed() > SETTLED {
                        pause = BACKOFF.0;
                    }
                    loss
                }
                Some(Err(loss)) => loss,
            };
            let (state, problem) = match loss {
                Loss::NeedsAuth { .. } => (SourceState::NeedsAuth, LOG_IN.to_owned()),
                Loss::NeedsRegistration => (SourceState::NeedsClientRegistration, REGISTER.to_owned()),
                Loss::Failed(problem) => (SourceState::Failed, problem),
            };
            if stop.is_cancelled() {
                return;
            }
            tracing::warn!(problem, again_in = ?pause, "the server does not work");
            let again = format!("{problem} (tried again in {} s)", pause.as_secs());
            self.shelf.report(&self.settings.name, state, again);
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
            pause = BACKOFF.1.min(pause * 2);
        }
    }

    async fn connect(&self) -> Result<Connection, Loss> {
        match &self.settings.kind {
            Kind::Local(program) => {
                let inbox = Arc::<Inbox>::default();
                let (mut process, transport) = local::start(&self.settings.name, program, &self.around, &inbox)
                    .await
                    .map_err(Loss::Failed)?;
                match client::connect(transport, self.handler(&inbox), self.settings.connect).await {
                    Ok(running) => Ok(Connection {
                        running,
                        inbox,
                        process: Some(process),
                    }),
                    Err(error) => {
                        let exit = local::exit_of(&mut process).await;
                        process.stop().await;
                        Err(with_exit(error, exit))
                    }
                }
            }
            Kind::Remote(remote) => {
                let place = remote::Place {
                    url: &remote.url,
                    headers: &remote.headers,
                    credentials: self.credentials.clone(),
                    root: &self.around.root,
                };
                let (running, inbox) = remote::connect(place, self.settings.connect, &self.around.network).await?;
                Ok(Connection {
                    running,
                    inbox,
                    process: None,
                })
            }
        }
    }

    fn handler(&self, inbox: &Arc<Inbox>) -> Handler {
        Handler::new(Arc::clone(inbox), self.around.root.clone())
    }

    /// Offers what a server has until the connection ends or the service stops. Returns why it ended.
    async fn attend(&self, connection: Connection) -> Loss {
        let Connection {
            running,
            inbox,
            mut process,
        } = connection;
        let link = Link::new(running.peer().clone(), Arc::clone(&inbox));
        let closing = running.cancellation_token();
        let mut closed = std::pin::pin!(running.waiting());
        self.shared.set(Ok(link.clone()));
        let failed = |problem: &str| Loss::Failed(problem.to_owned());
        let (loss, is_closed) = tokio::select! {
            () = self.stop.cancelled() => (failed("The service stops"), false),
            loss = inbox.lost() => (loss, false),
            _ = &mut closed => (failed("Connection closed"), true),
            () = ended(process.as_ref()) => (failed("Connection closed"), false),
            problem = self.keep_listed(&link, &inbox) => (failed(&problem), false),
        };
        let loss = match (inbox.loss().unwrap_or(loss), inbox.problem()) {
            (Loss::Failed(_), Some(problem)) => Loss::Failed(problem),
            (loss, _) => loss,
        };
        // Whatever the machinery still does: nobody waits for it any more.
        inbox.lose(loss.clone());
        self.shared.set(Err(Some(match &loss {
            Loss::Failed(problem) => problem.clone(),
            Loss::NeedsAuth { .. } => LOG_IN.to_owned(),
            Loss::NeedsRegistration => REGISTER.to_owned(),
        })));
        let exit = match &mut process {
            Some(process) if !self.stop.is_cancelled() => local::exit_of(process).await,
            Some(_) | None => None,
        };
        closing.cancel();
        if !is_closed {
            let _ = tokio::time::timeout(CLOSE_LIMIT, &mut closed).await;
        }
        if let Some(process) = process {
            process.stop().await;
        }
        with_exit(loss, exit)
    }

    /// Lists the tools, and lists them again when the server says that they have changed. Returns why the first list
    /// cannot be had.
    async fn keep_listed(&self, link: &Link, inbox: &Inbox) -> String {
        let mut last = match self.list(link, None).await {
            Ok(listed) => listed,
            Err(problem) => return problem,
        };
        let mut pause = SETTLE_LIST.0;
        loop {
            inbox.tools_changed.notified().await;
            tokio::time::sleep(pause).await;
            let started = Instant::now();
            match self.list(link, Some(&last)).await {
                Ok(listed) => last = listed,
                Err(problem) => tracing::warn!(problem, "the list of tools stays as it was"),
            }
            // However often a server says so, lists take a small part of the time.
            pause = (started.elapsed() * 10).clamp(SETTLE_LIST.0, SETTLE_LIST.1);
        }
    }

    /// Offers what a server lists, if that is not what it listed last.
    async fn list(&self, link: &Link, last: Option<&Vec<Described>>) -> Result<Vec<Described>, String> {
        let described = if link.has_tools() {
            link.list(self.settings.connect).await?
        } else {
            Vec::new()
        };
        if last == Some(&described) {
            return Ok(described);
        }
        let (shelf, name) = (Arc::clone(&self.shelf), self.settings.name.clone());
        let tools = self.tools(described.clone());
        // Schemas are compiled there.
        let offered = tokio::task::spawn_blocking(move || shelf.offer(&name, tools)).await;
        let problems = offered.unwrap_or_default();
        for problem in problems.iter().take(MAX_LOGGED) {
            tracing::warn!(problem, "a tool is left out");
        }
        if problems.len() > MAX_LOGGED {
            tracing::warn!(tools = problems.len() - MAX_LOGGED, "more tools are left out");
        }
        Ok(described)
    }

    fn tools(&self, described: Vec<Described>) -> Vec<Arc<dyn Tool>> {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let effect = match self.settings.kind {
            Kind::Local(_) => Effect::RunsPrograms,
            Kind::Remote(_) => Effect::Network,
        };
        let tool = |described: Described| {
            let known = offered.iter().find(|tool| *tool.described() == described);
            known.cloned().unwrap_or_else(|| {
                let server = Arc::clone(&self.shared);
                Arc::new(McpTool::new(described, effect, self.settings.call, server))
            })
        };
        let tools: Vec<Arc<McpTool>> = described.into_iter().map(tool).collect();
        offered.clone_from(&tools);
        tools.into_iter().map(|tool| tool as Arc<dyn Tool>).collect()
    }
}

async fn ended(process: Option<&Peer>) {
    match process {
        Some(process) => {
            process.ended().await;
        }
        None => std::future::pending().await,
    }
}

fn with_exit(loss: Loss, exit: Option<Exit>) -> Loss {
    let Loss::Failed(problem) = loss else {
        return loss;
    };
    Loss::Failed(match exit {
        Some(Exit::Code(code)) => format!("{problem}: the program ended with code {code}; see the service's log"),
        Some(Exit::Signal(signal)) => format!("{problem}: the program was ended by signal {signal}"),
        None => problem,
    })
}
