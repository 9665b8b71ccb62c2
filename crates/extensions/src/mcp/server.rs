//! The life of one server: connected to at the start, listed, connected to again when it is lost.
//!
//! A server that cannot be reached or that is lost is tried again after 1 s, then after twice as long each time, up to 5
//! minutes; one that had worked for a minute begins anew. Until then it is shown as failed, with the reason. Of one that
//! worked until now the tools stay for the first attempt, and their calls wait for it.
//!
//! *Invariant:* that a server is lost is told before anything of it is cleaned up; a server harms nobody else: each has its own task, its own limits of time, and its program is ended with
//! everything it started before the next attempt and at the end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::RunningService;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_model::{Effect, Source, SourceState};
use toolgate_process::{Exit, StdioChild};
use toolgate_tool::{Catalog, Contribution, Tool};

use super::client::{self, About, Described, Handler, Link, RequestError};
use super::local;
use super::login::Credentials;
use super::remote;
use super::settings::{Env, Kind, ServerSettings};
use super::signals::{Disconnect, ServerSignals};
use super::tool::McpTool;

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

/// The way to a server at the moment.
#[derive(Clone)]
enum Way {
    Open(Link),
    /// It is lost, and the first attempt to connect again is under way. With the reason, if one is known.
    Returning(Option<String>),
    Closed(Option<String>),
}

/// What the tools of a server have in common: the way to it.
pub(super) struct Shared {
    name: String,
    way: watch::Sender<Way>,
}

impl Shared {
    fn new(name: String) -> Self {
        Self {
            name,
            way: watch::Sender::new(Way::Closed(None)),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the connection, waiting for one that is about to come back.
    ///
    /// # Errors
    /// There is none, or it did not come back within the limit.
    pub(super) async fn link(&self, limit: Duration, cancelled: &CancellationToken) -> Result<Link, RequestError> {
        let mut ways = self.way.subscribe();
        let settled = async {
            let settled = ways.wait_for(|way| !matches!(way, Way::Returning(_))).await;
            settled.map(|way| way.clone())
        };
        let settled = tokio::select! {
            settled = tokio::time::timeout(limit, settled) => settled,
            () = cancelled.cancelled() => return Err(RequestError::Cancelled),
        };
        let way = settled.ok().and_then(Result::ok);
        match way.unwrap_or_else(|| self.way.borrow().clone()) {
            Way::Open(link) => Ok(link),
            Way::Returning(problem) | Way::Closed(problem) => Err(RequestError::closed(problem)),
        }
    }

    fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

/// A server and where it stands.
pub(super) struct Server {
    settings: ServerSettings,
    env: Env,
    catalog: Arc<Catalog>,
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
    signals: Arc<ServerSignals>,
    process: Option<StdioChild>,
}

impl Server {
    pub(super) fn new(
        settings: ServerSettings,
        env: Env,
        catalog: Arc<Catalog>,
        credentials: Option<Arc<Credentials>>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            shared: Arc::new(Shared::new(settings.name.clone())),
            settings,
            env,
            catalog,
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
                Some(Ok(connection)) => self.attend(connection, &mut pause).await,
                Some(Err(loss)) => {
                    self.tell(&loss, pause, false);
                    loss
                }
            };
            if stop.is_cancelled() || matches!(loss, Disconnect::Itself(_)) {
                return;
            }
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
            pause = BACKOFF.1.min(pause * 2);
        }
    }

    /// Says that there is no connection, and why. `worked` says that there was one until now.
    fn tell(&self, loss: &Disconnect, pause: Duration, worked: bool) {
        if self.stop.is_cancelled() {
            return;
        }
        let name = &self.settings.name;
        let problem = text_of(loss);
        let again = format!("{problem} (tried again in {} s)", pause.as_secs());
        let state = match loss {
            Disconnect::Itself(_) => {
                tracing::warn!(problem, "the server is left alone");
                self.shared.set(Way::Closed(Some(problem.to_owned())));
                return self.catalog.report(Source::Mcp, name, SourceState::Failed, problem);
            }
            Disconnect::Failed(_) => SourceState::Failed,
            Disconnect::NeedsAuth { .. } => SourceState::NeedsAuth,
            Disconnect::NeedsRegistration => SourceState::NeedsClientRegistration,
        };
        tracing::warn!(problem, again_in = ?pause, "the server does not work");
        if worked && self.returns(loss, pause) {
            return self.catalog.lost(Source::Mcp, name, again);
        }
        self.shared.set(Way::Closed(Some(problem.to_owned())));
        self.catalog.report(Source::Mcp, name, state, again);
    }

    /// Says whether calls may wait for the next attempt: it comes before they would end.
    fn returns(&self, loss: &Disconnect, pause: Duration) -> bool {
        matches!(loss, Disconnect::Failed(_)) && pause < self.settings.call
    }

    async fn connect(&self) -> Result<Connection, Disconnect> {
        match &self.settings.kind {
            Kind::Local(program) => {
                let signals = Arc::<ServerSignals>::default();
                let (mut process, transport) = local::start(&self.settings.name, program, &self.env, &signals).await?;
                match client::connect(transport, self.handler(&signals, true), self.settings.connect).await {
                    Ok(running) => Ok(Connection {
                        running,
                        signals,
                        process: Some(process),
                    }),
                    Err(error) => {
                        // One that starts what it was started by is ended without delay.
                        let exit = match &error {
                            Disconnect::Itself(_) => None,
                            Disconnect::Failed(_) | Disconnect::NeedsAuth { .. } | Disconnect::NeedsRegistration => {
                                local::exit_of(&mut process).await
                            }
                        };
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
                    about: self.about(false),
                };
                let (running, signals) = remote::connect(place, self.settings.connect, &self.env.network).await?;
                Ok(Connection {
                    running,
                    signals,
                    process: None,
                })
            }
        }
    }

    fn handler(&self, signals: &Arc<ServerSignals>, started: bool) -> Handler {
        Handler::new(Arc::clone(signals), self.about(started))
    }

    fn about(&self, started: bool) -> About {
        About {
            root: self.env.root.clone(),
            instance: self.env.instance.clone(),
            started,
        }
    }

    /// Offers what a server has until the connection ends or the service stops. Returns why it ended. `pause` is the one
    /// before the next attempt.
    async fn attend(&self, connection: Connection, pause: &mut Duration) -> Disconnect {
        let since = Instant::now();
        let Connection {
            running,
            signals,
            mut process,
        } = connection;
        let link = Link::new(running.peer().clone(), Arc::clone(&signals));
        let closing = running.cancellation_token();
        let mut closed = std::pin::pin!(running.waiting());
        self.shared.set(Way::Open(link.clone()));
        let failed = |problem: &str| Disconnect::Failed(problem.to_owned());
        let (loss, is_closed, worked) = tokio::select! {
            () = self.stop.cancelled() => (failed("The service stops"), false, true),
            loss = signals.lost() => (loss, false, true),
            _ = &mut closed => (failed("Connection closed"), true, true),
            () = ended(process.as_ref()) => (failed("Connection closed"), false, true),
            problem = self.keep_listed(&link, &signals) => (failed(&problem), false, false),
        };
        let loss = match (signals.loss().unwrap_or(loss), signals.problem()) {
            (Disconnect::Failed(_), Some(problem)) => Disconnect::Failed(problem),
            (loss, _) => loss,
        };
        // Whatever the machinery still does: nobody waits for it any more.
        signals.lose(loss.clone());
        if since.elapsed() > SETTLED {
            *pause = BACKOFF.0;
        }
        let problem = Some(text_of(&loss).to_owned());
        self.shared.set(if worked && self.returns(&loss, *pause) {
            Way::Returning(problem)
        } else {
            Way::Closed(problem)
        });
        let exit = match &mut process {
            Some(process) if !self.stop.is_cancelled() => local::exit_of(process).await,
            Some(_) | None => None,
        };
        let loss = with_exit(loss, exit);
        self.tell(&loss, *pause, worked);
        closing.cancel();
        if !is_closed {
            let _ = tokio::time::timeout(CLOSE_LIMIT, &mut closed).await;
        }
        if let Some(process) = process {
            process.stop().await;
        }
        loss
    }

    /// Lists the tools, and lists them again when the server says that they have changed. Returns why the first list
    /// cannot be had.
    async fn keep_listed(&self, link: &Link, signals: &ServerSignals) -> String {
        let mut last = match self.list(link, None).await {
            Ok(listed) => listed,
            Err(problem) => return problem,
        };
        let mut pause = SETTLE_LIST.0;
        loop {
            signals.tools_changed.notified().await;
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
        let (catalog, name) = (Arc::clone(&self.catalog), self.settings.name.clone());
        let contribution = Contribution {
            tools: self.tools(described.clone()),
            hooks: Vec::new(),
        };
        // Schemas are compiled there.
        let offered = tokio::task::spawn_blocking(move || catalog.offer(Source::Mcp, &name, contribution)).await;
        let problems = offered.unwrap_or_default();
        for problem in problems.iter().take(MAX_LOGGED).map(ToString::to_string) {
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

fn text_of(loss: &Disconnect) -> &str {
    match loss {
        Disconnect::NeedsAuth { .. } => LOG_IN,
        Disconnect::NeedsRegistration => REGISTER,
        Disconnect::Failed(problem) => problem,
        Disconnect::Itself(problem) => problem,
    }
}

async fn ended(process: Option<&StdioChild>) {
    match process {
        Some(process) => {
            process.ended().await;
        }
        None => std::future::pending().await,
    }
}

fn with_exit(loss: Disconnect, exit: Option<Exit>) -> Disconnect {
    let Disconnect::Failed(problem) = loss else {
        return loss;
    };
    Disconnect::Failed(match exit {
        Some(Exit::Code(code)) => format!("{problem}: the program ended with code {code}; see the service's log"),
        Some(Exit::Signal(signal)) => format!("{problem}: the program was ended by signal {signal}"),
        None => problem,
    })
}
