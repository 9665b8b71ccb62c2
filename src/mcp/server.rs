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

use super::client::{self, ConnectError, Described, Handler, Inbox, Link, RequestError};
use super::http::{self, Endpoint};
use super::local;
use super::sse::Sse;
use super::tool::McpTool;
use super::{Kind, Login, Remote, ServerSettings, Shelf, Surroundings};
use crate::call::{Effect, SourceState};
use crate::net::Url;
use crate::process::{Exit, Peer};
use crate::tool::Tool;

/// The pause before a server is tried again, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// A server that has worked for this long is not one that keeps failing.
const SETTLED: Duration = Duration::from_secs(60);

/// How long further changes of a list are waited for.
const SETTLE_LIST: Duration = Duration::from_millis(100);

/// How long a connection may take to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

const LOG_IN: &str = "The server wants a login. Log in with OpenCode (`opencode mcp auth`), or set `headers.Authorization` \
                      in the server's entry of the configuration.";

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
        stop: CancellationToken,
    ) -> Self {
        Self {
            shared: Arc::new(Shared::new(settings.name.clone())),
            settings,
            around,
            shelf,
            stop,
            offered: Mutex::default(),
        }
    }

    /// Lives until the service stops.
    pub(super) async fn run(self) {
        let mut pause = BACKOFF.0;
        loop {
            let started = Instant::now();
            let stop = self.stop.clone();
            let (state, problem) = match stop.run_until_cancelled(self.connect()).await {
                None => return,
                Some(Ok(connection)) => self.attend(connection).await,
                Some(Err(ConnectError::NeedsAuth)) => (SourceState::NeedsAuth, LOG_IN.to_owned()),
                Some(Err(ConnectError::Failed(problem))) => (SourceState::Failed, problem),
            };
            if stop.is_cancelled() {
                return;
            }
            if started.elapsed() > SETTLED {
                pause = BACKOFF.0;
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

    async fn connect(&self) -> Result<Connection, ConnectError> {
        match &self.settings.kind {
            Kind::Local(program) => {
                let inbox = Arc::<Inbox>::default();
                let (mut process, transport) = local::start(&self.settings.name, program, &self.around, &inbox)
                    .await
                    .map_err(ConnectError::Failed)?;
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
            Kind::Remote(remote) => self.connect_remote(remote).await,
        }
    }

    /// Tries the present kind of HTTP first, then the first one.
    async fn connect_remote(&self, remote: &Remote) -> Result<Connection, ConnectError> {
        let headers = http::headers(&remote.headers).map_err(ConnectError::Failed)?;
        let login = match &remote.login {
            Some(login) if !http::logs_in(&headers) => {
                let login = Arc::clone(login);
                tokio::task::spawn_blocking(move || login()).await.unwrap_or(None)
            }
            Some(_) | None => None,
        };
        let token = match login {
            Some(Login::Expired) => return Err(ConnectError::NeedsAuth),
            Some(Login::Token(token)) => Some(token),
            None => None,
        };
        let failed = |error: &dyn std::error::Error| ConnectError::Failed(error.to_string());
        let url = Url::parse(&remote.url).map_err(|error| failed(&error))?;
        let made = self.around.network.client_to(&url).await;
        let endpoint = Endpoint {
            client: made.map_err(|error| failed(&error))?,
            url: remote.url.as_str().into(),
            headers,
            token,
        };
        let limit = self.settings.connect;
        let inbox = Arc::<Inbox>::default();
        let first = match client::connect(endpoint.streamable(), self.handler(&inbox), limit).await {
            Ok(running) => {
                return Ok(Connection {
                    running,
                    inbox,
                    process: None,
                });
            }
            Err(ConnectError::NeedsAuth) => return Err(ConnectError::NeedsAuth),
            Err(ConnectError::Failed(problem)) => problem,
        };
        let inbox = Arc::<Inbox>::default();
        let failed = |second: String| ConnectError::Failed(format!("streamable HTTP: {first}; SSE: {second}"));
        let opened = tokio::time::timeout(limit, Sse::open(endpoint, Arc::clone(&inbox))).await;
        let opened = opened.unwrap_or_else(|_| Err(client::timed_out(limit)));
        let transport = opened.map_err(&failed)?;
        match client::connect(transport, self.handler(&inbox), limit).await {
            Ok(running) => Ok(Connection {
                running,
                inbox,
                process: None,
            }),
            Err(ConnectError::NeedsAuth) => Err(ConnectError::NeedsAuth),
            Err(ConnectError::Failed(second)) => Err(failed(second)),
        }
    }

    fn handler(&self, inbox: &Arc<Inbox>) -> Handler {
        Handler::new(Arc::clone(inbox), self.around.root.clone())
    }

    /// Offers what a server has until the connection ends or the service stops. Returns why it ended.
    async fn attend(&self, connection: Connection) -> (SourceState, String) {
        let Connection {
            running,
            inbox,
            mut process,
        } = connection;
        let link = Link::new(running.peer().clone(), Arc::clone(&inbox));
        let closing = running.cancellation_token();
        let mut closed = std::pin::pin!(running.waiting());
        self.shared.set(Ok(link.clone()));
        let (problem, is_closed) = tokio::select! {
            () = self.stop.cancelled() => ("The service stops".to_owned(), false),
            _ = &mut closed => ("Connection closed".to_owned(), true),
            () = ended(process.as_ref()) => ("Connection closed".to_owned(), false),
            problem = self.keep_listed(&link, &inbox) => (problem, false),
        };
        let problem = inbox.problem().unwrap_or(problem);
        self.shared.set(Err(Some(problem.clone())));
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
        (SourceState::Failed, told(problem, exit))
    }

    /// Lists the tools, and lists them again when the server says that they have changed. Returns why the first list
    /// cannot be had.
    async fn keep_listed(&self, link: &Link, inbox: &Inbox) -> String {
        if let Err(problem) = self.list(link).await {
            return problem;
        }
        loop {
            inbox.tools_changed.notified().await;
            tokio::time::sleep(SETTLE_LIST).await;
            if let Err(problem) = self.list(link).await {
                tracing::warn!(problem, "the list of tools stays as it was");
            }
        }
    }

    async fn list(&self, link: &Link) -> Result<(), String> {
        let described = if link.has_tools() {
            link.list(self.settings.connect).await?
        } else {
            Vec::new()
        };
        let (shelf, name) = (Arc::clone(&self.shelf), self.settings.name.clone());
        let tools = self.tools(described);
        // Schemas are compiled there.
        let offered = tokio::task::spawn_blocking(move || shelf.offer(&name, tools)).await;
        for problem in offered.unwrap_or_default() {
            tracing::warn!(problem, "a tool is left out");
        }
        Ok(())
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

fn with_exit(error: ConnectError, exit: Option<Exit>) -> ConnectError {
    match error {
        ConnectError::NeedsAuth => ConnectError::NeedsAuth,
        ConnectError::Failed(problem) => ConnectError::Failed(told(problem, exit)),
    }
}

fn told(problem: String, exit: Option<Exit>) -> String {
    match exit {
        Some(Exit::Code(code)) => format!("{problem}: the program ended with code {code}; see the service's log"),
        Some(Exit::Signal(signal)) => format!("{problem}: the program was ended by signal {signal}"),
        None => problem,
    }
}
