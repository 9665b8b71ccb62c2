//! The life of one server: connected to at the start, listed, connected to again when it is lost.
//!
//! A server that cannot be reached or that is lost is tried again after 1 s, then after twice as long each time, up to 5
//! minutes; one that had worked for a minute begins anew. Until then it is shown as failed, with the reason. Of one that
//! worked until now the tools stay for the first attempt, and their calls wait for it.
//!
//! *Invariant:* that a server is lost is told before anything of it is cleaned up; a server harms nobody else: each has its own task, its own limits of time, and its program is ended with
//! everything it started before the next attempt and at the end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::Instant;
use toolgate_model::{Effect, Source, SourceState};
use toolgate_process::{Exit, StdioChild};
use toolgate_tool::{Catalog, Contribution, Tool, Voice};

use super::client::{Described, Link, Offers};
use super::dispatcher::{About, Change, Disconnect, Dispatcher, Queue};
use super::lists::Announced;
use super::local;
use super::login::Credentials;
use super::passed::Passed;
use super::remote;
use super::settings::{Env, Kind, ServerSettings};
use super::shared::{Shared, Way};
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

/// A server and where it stands.
pub(super) struct Server {
    settings: ServerSettings,
    env: Env,
    voice: Voice,
    shared: Arc<Shared>,
    /// The login there, which stays known from one connection to the next.
    credentials: Option<Arc<Credentials>>,
    /// The tools that were offered last: what has not changed is offered as it is.
    offered: Mutex<Vec<Arc<McpTool>>>,
}

/// Closes the way to a server when its life is over.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A connection, and the program at its other end.
struct Connection {
    link: Link,
    offers: Offers,
    process: Option<StdioChild>,
}

impl Server {
    pub(super) fn new(
        settings: ServerSettings,
        env: Env,
        catalog: Arc<Catalog>,
        credentials: Option<Arc<Credentials>>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared::new(&settings.name, &env.root, &env.relays, &env.follows)),
            voice: Voice {
                catalog,
                source: Source::Mcp,
                name: settings.name.clone(),
                over: env.stop.clone(),
            },
            settings,
            env,
            credentials,
            offered: Mutex::default(),
        }
    }

    /// Returns what leads to it from outside of its tools.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Lives until the service stops.
    pub(super) async fn run(self) {
        // Calls wait for what returns: nothing does when this is over, however it ends.
        let _closing = Closing(Arc::clone(&self.shared));
        self.keep_connected().await;
    }

    async fn keep_connected(&self) {
        let mut pause = BACKOFF.0;
        loop {
            let stop = self.env.stop.clone();
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
            let waited = async {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.logged_in(&loss) => {}
                }
            };
            if stop.run_until_cancelled(waited).await.is_none() {
                return;
            }
            pause = BACKOFF.1.min(pause * 2);
        }
    }

    /// Returns when somebody has logged in at a server that wanted it, or that failed, perhaps because of the login.
    async fn logged_in(&self, loss: &Disconnect) {
        match (loss, &self.credentials) {
            (
                Disconnect::NeedsAuth { .. } | Disconnect::NeedsRegistration | Disconnect::Failed(_),
                Some(credentials),
            ) => credentials.replaced().await,
            (
                Disconnect::NeedsAuth { .. }
                | Disconnect::NeedsRegistration
                | Disconnect::Failed(_)
                | Disconnect::Itself(_),
                _,
            ) => std::future::pending().await,
        }
    }

    /// Says that there is no connection, and why. `worked` says that there was one until now.
    fn tell(&self, loss: &Disconnect, pause: Duration, worked: bool) {
        if self.env.stop.is_cancelled() {
            return;
        }
        let name = &self.settings.name;
        let problem = loss.text(name);
        let again = format!("{problem} (tried again in {} s)", pause.as_secs());
        let state = match loss {
            Disconnect::Itself(_) => {
                tracing::warn!(problem, "the server is left alone");
                self.shared.set(Way::Closed(Some(problem.clone())));
                return self.voice.report(SourceState::Failed, problem);
            }
            Disconnect::Failed(_) => SourceState::Failed,
            Disconnect::NeedsAuth { .. } => SourceState::NeedsAuth,
            Disconnect::NeedsRegistration => SourceState::NeedsClientRegistration,
        };
        tracing::warn!(problem, again_in = ?pause, "the server does not work");
        if worked && self.returns(loss, pause) {
            return self.voice.lost(again);
        }
        self.shared.set(Way::Closed(Some(problem)));
        self.voice.report(state, again);
    }

    /// Says whether calls may wait for the next attempt: it comes before they would end.
    fn returns(&self, loss: &Disconnect, pause: Duration) -> bool {
        matches!(loss, Disconnect::Failed(_)) && pause < self.settings.call
    }

    async fn connect(&self) -> Result<Connection, Disconnect> {
        let local = match &self.settings.kind {
            Kind::Local(local) => local,
            Kind::Remote(remote) => {
                let credentials = self.credentials.clone();
                let connected = remote::connect(remote, credentials, &self.env.network, || self.dispatcher(false));
                let (link, offers) = connected.await?;
                return Ok(Connection {
                    link,
                    offers,
                    process: None,
                });
            }
        };
        let started = local::start(&self.settings.name, local, &self.env, self.dispatcher(true)).await;
        let (mut process, link) = started?;
        match link.connect().await {
            Ok(offers) => Ok(Connection {
                link,
                offers,
                process: Some(process),
            }),
            Err(loss) => {
                // One that starts what it was started by is ended without delay.
                let exit = match &loss {
                    Disconnect::Itself(_) => None,
                    Disconnect::Failed(_) | Disconnect::NeedsAuth { .. } | Disconnect::NeedsRegistration => {
                        local::exit_of(&mut process).await
                    }
                };
                process.stop().await;
                Err(with_exit(loss, exit))
            }
        }
    }

    /// Makes a connection. `is_started` says whether the server is a program that was started for this.
    fn dispatcher(&self, is_started: bool) -> (Arc<Dispatcher>, Queue) {
        let about = About {
            server: self.settings.name.clone(),
            root: self.env.root.clone(),
            instance: self.env.instance.clone(),
            is_started,
            connect_limit: self.settings.connect,
        };
        Dispatcher::new(about, self.env.tasks.clone(), self.env.stop.clone())
    }

    /// Offers what a server has until the connection ends or the service stops. Returns why it ended. `pause` is the one
    /// before the next attempt.
    async fn attend(&self, connection: Connection, pause: &mut Duration) -> Disconnect {
        let since = Instant::now();
        let Connection {
            link,
            offers,
            mut process,
        } = connection;
        self.shared.set(Way::Open(link.clone(), offers));
        let (loss, worked) = tokio::select! {
            () = self.env.stop.cancelled() => (Disconnect::Failed("The server is stopped".to_owned()), true),
            loss = link.dispatcher.lost() => (loss, true),
            () = ended(process.as_ref()) => (Disconnect::closed(), true),
            problem = self.keep_listed(&link, offers) => (Disconnect::Failed(problem), false),
            loss = self.tell_changes(&link) => (loss, true),
            () = self.keep_followed(&link, offers) => (Disconnect::closed(), true),
        };
        // Whatever is still under way: nobody waits for it any more.
        link.dispatcher.lose(loss);
        let loss = link.dispatcher.lost().await;
        if since.elapsed() > SETTLED {
            *pause = BACKOFF.0;
        }
        let problem = Some(loss.text(&self.settings.name));
        let returns = worked && !self.env.stop.is_cancelled() && self.returns(&loss, *pause);
        self.shared.set(if returns {
            Way::Returning(problem)
        } else {
            Way::Closed(problem)
        });
        let exit = match &mut process {
            Some(process) if !self.env.stop.is_cancelled() => local::exit_of(process).await,
            Some(_) | None => None,
        };
        let loss = with_exit(loss, exit);
        self.tell(&loss, *pause, worked);
        let _ = tokio::time::timeout(CLOSE_LIMIT, link.outlet.close()).await;
        if let Some(process) = process {
            process.stop().await;
        }
        loss
    }

    /// Tells whoever is interested what the server says that has changed beside its tools.
    async fn tell_changes(&self, link: &Link) -> Disconnect {
        let mut changes = link.dispatcher.changes.subscribe();
        self.shared.forget_lists();
        loop {
            let change = match changes.recv().await {
                Ok(change) => change,
                // Something was missed: it may have been the lists.
                Err(broadcast::error::RecvError::Lagged(_)) => Change::Lists,
                Err(broadcast::error::RecvError::Closed) => return Disconnect::closed(),
            };
            if matches!(change, Change::Lists) {
                self.shared.forget_lists();
            }
            self.announce(match change {
                Change::Lists => None,
                Change::Resource(uri) => Some(uri),
            });
        }
    }

    fn announce(&self, uri: Option<String>) {
        // Nobody may be interested.
        let _ = self.env.announced.send(Announced {
            workspace: self.env.workspace.clone(),
            server: self.settings.name.clone(),
            uri,
        });
    }

    /// Has the server tell of the resources that clients follow, as long as there is a connection.
    async fn keep_followed(&self, link: &Link, offers: Offers) {
        match offers.watched {
            true => self.env.follows.keep(link, |uri| self.announce(Some(uri))).await,
            false => std::future::pending().await,
        }
    }

    /// Lists the tools, and lists them again when the server says that they have changed. Returns why the first list
    /// cannot be had.
    async fn keep_listed(&self, link: &Link, offers: Offers) -> String {
        let mut last = match self.list(link, offers, None).await {
            Ok(listed) => listed,
            Err(problem) => return problem,
        };
        let mut pause = SETTLE_LIST.0;
        loop {
            link.dispatcher.tools_changed.notified().await;
            tokio::time::sleep(pause).await;
            let started = Instant::now();
            match self.list(link, offers, Some(&last)).await {
                Ok(listed) => last = listed,
                Err(problem) => tracing::warn!(problem, "the list of tools stays as it was"),
            }
            // However often a server says so, lists take a small part of the time.
            pause = (started.elapsed() * 10).clamp(SETTLE_LIST.0, SETTLE_LIST.1);
        }
    }

    /// Offers what a server lists, if that is not what it listed last.
    async fn list(&self, link: &Link, offers: Offers, last: Option<&Vec<Described>>) -> Result<Vec<Described>, String> {
        let described = if offers.tools {
            link.list(self.settings.connect).await?
        } else {
            Vec::new()
        };
        if last == Some(&described) {
            return Ok(described);
        }
        let voice = self.voice.clone();
        let contribution = Contribution {
            tools: self.tools(described.clone(), offers),
            hooks: Vec::new(),
        };
        // Schemas are compiled there.
        let offered = tokio::task::spawn_blocking(move || voice.offer(contribution)).await;
        let problems = offered.unwrap_or_default();
        for problem in problems.iter().take(MAX_LOGGED).map(ToString::to_string) {
            tracing::warn!(problem, "a tool is left out");
        }
        if problems.len() > MAX_LOGGED {
            tracing::warn!(tools = problems.len() - MAX_LOGGED, "more tools are left out");
        }
        Ok(described)
    }

    fn tools(&self, described: Vec<Described>, offers: Offers) -> Vec<Arc<dyn Tool>> {
        let mut offered = self.offered.lock();
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
        let mut tools: Vec<Arc<dyn Tool>> = tools.into_iter().map(|tool| tool as Arc<dyn Tool>).collect();
        if offers.prompts || offers.resources {
            tools.push(Arc::new(Passed::new(self.settings.call, Arc::clone(&self.shared))));
        }
        tools
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
