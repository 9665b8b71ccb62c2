//! The language servers of all workspaces, and which of them are for a file.
//!
//! *Invariant:* who does not ask for an answer never waits for a server.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolgate_fs::{ResolvedPath, Workspace};
use toolgate_process::Programs;

use super::client::Client;
use super::diagnostic::Diagnostic;
use super::documents::MAX_WAIT;
use super::lifecycle::{Lifecycle, Shared, Slot, State};
use super::limits::Limits;
use super::refresh::{Refresh, Seen};
use super::reports::Published;
use super::server::{Server, Surroundings};

/// Reports that a slow listener may lag behind before it misses some.
const MAX_BEHIND: usize = 64;

/// Pairs of server and root that are remembered.
const MAX_SLOTS: usize = 256;

/// What the servers of one workspace are made of.
pub struct Settings {
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// Whether what the project brings may be run.
    pub trusted: bool,
    /// The servers that may be used.
    pub servers: Vec<Server>,
    /// The folder of the Python environment that the service was started in.
    pub virtual_env: Option<PathBuf>,
}

/// The language servers of all workspaces. Dropping it asks them to end.
pub struct ServerPool {
    shared: Shared,
    /// Those of each workspace. Never held across an await.
    workspaces: Mutex<Vec<LanguageServers>>,
    _stop: DropGuard,
}

impl ServerPool {
    /// Makes the place for servers; none runs yet.
    pub fn new(programs: Programs, limits: Limits) -> Self {
        let stop = CancellationToken::new();
        let shared = Shared {
            programs,
            limits,
            tasks: TaskTracker::new(),
            stop: stop.clone(),
            running: Arc::default(),
        };
        Self {
            shared,
            workspaces: Mutex::default(),
            _stop: stop.drop_guard(),
        }
    }

    /// Returns the servers of a workspace; none is started.
    pub fn workspace(&self, settings: Settings) -> LanguageServers {
        let around = Surroundings {
            workspace: settings.workspace,
            programs: self.shared.programs.clone(),
            trusted: settings.trusted,
            virtual_env: settings.virtual_env,
        };
        let servers = LanguageServers(Arc::new(Inner {
            around,
            servers: settings.servers.into_iter().map(Arc::new).collect(),
            shared: Arc::new(self.shared.of_workspace()),
            slots: Mutex::default(),
            published: broadcast::Sender::new(MAX_BEHIND),
        }));
        self.workspaces().push(servers.clone());
        servers
    }

    /// Returns the servers of the workspace of that name.
    pub fn find(&self, workspace: &str) -> Option<LanguageServers> {
        let workspaces = self.workspaces();
        let mut found = workspaces.iter();
        found
            .find(|servers| servers.0.around.workspace.name() == workspace)
            .cloned()
    }

    fn workspaces(&self) -> MutexGuard<'_, Vec<LanguageServers>> {
        self.workspaces.lock()
    }

    /// Ends the servers of a workspace, and returns when they are gone.
    pub async fn end(&self, workspace: &str) {
        let servers = {
            let mut workspaces = self.workspaces();
            let found = workspaces
                .iter()
                .position(|servers| servers.0.around.workspace.name() == workspace);
            found.map(|at| workspaces.remove(at))
        };
        if let Some(servers) = servers {
            servers.0.shared.end().await;
        }
    }

    /// Ends every server, and returns when they are gone.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        let all = self.workspaces().clone();
        for servers in all {
            servers.0.shared.end().await;
        }
    }
}

/// The language servers of one workspace. Cheap to clone.
#[derive(Clone)]
pub struct LanguageServers(Arc<Inner>);

struct Inner {
    around: Surroundings,
    servers: Vec<Arc<Server>>,
    shared: Arc<Shared>,
    /// Each server with each root. Never held across an await.
    slots: Mutex<HashMap<(String, PathBuf), Arc<Slot>>>,
    published: broadcast::Sender<Published>,
}

/// A server that is for a file and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The server's id.
    pub server: String,
    /// Why, and what to do about it.
    pub problem: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.problem)
    }
}

/// The servers for a file.
#[derive(Clone, Default)]
pub struct Fitting {
    /// Those that run.
    pub clients: Vec<Arc<Client>>,
    /// Those that cannot be used.
    pub unavailable: Vec<Unavailable>,
}

/// A server, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Its id.
    pub server: String,
    /// Its program, or why it cannot be used.
    pub program: Result<PathBuf, String>,
    /// For how many projects it runs.
    pub running: usize,
}

impl LanguageServers {
    /// Says whether some server is for files of that name. Nothing is looked at.
    pub fn serves(&self, path: &ResolvedPath) -> bool {
        self.0.servers.iter().any(|server| server.fits(path.display_path()))
    }

    /// Returns the servers for a file, and starts those that do not run; waits until they do or cannot.
    pub async fn for_file(&self, path: &ResolvedPath) -> Fitting {
        let mut fitting = Fitting::default();
        let found = self.slots_for(path).await;
        let clients = found.into_iter().map(async |found| match found {
            Ok(slot) => self.client(&slot).await.map_err(|problem| Unavailable {
                server: slot.server.id.clone(),
                problem,
            }),
            Err(unavailable) => Err(unavailable),
        });
        for client in join_all(clients).await {
            match client {
                Ok(client) => fitting.clients.push(client),
                Err(unavailable) => fitting.unavailable.push(unavailable),
            }
        }
        fitting
    }

    /// Says whether some server for files of that name runs already.
    pub(super) fn is_up_for(&self, path: &ResolvedPath) -> bool {
        let running = self.running();
        let mut fitting = self.0.servers.iter().filter(|server| server.fits(path.display_path()));
        fitting.any(|server| running.iter().any(|client| client.id() == server.id))
    }

    /// Returns the servers that run, in the order of their ids and roots.
    pub fn running(&self) -> Vec<Arc<Client>> {
        let mut clients: Vec<Arc<Client>> = self.slots().values().filter_map(|slot| slot.running()).collect();
        clients.sort_by(|one, other| (one.id(), one.root()).cmp(&(other.id(), other.root())));
        clients
    }

    /// Tells the servers for a file what it holds now, starts those that do not run, and returns without waiting for
    /// anything. To be called after a file has been written, made or removed.
    pub fn touch(&self, path: &ResolvedPath) -> Refresh {
        let (outcome, refresh) = watch::channel(None);
        if !self.serves(path) || self.0.shared.stop.is_cancelled() {
            outcome.send_replace(Some(Seen::default()));
            return Refresh(refresh);
        }
        let (servers, path) = (self.clone(), path.clone());
        let stop = self.0.shared.stop.clone();
        self.0.shared.tasks.spawn(stop.run_until_cancelled_owned(async move {
            let clients = servers.for_file(&path).await.clients;
            let found = clients.iter().map(async |client| {
                let document = client.open(&path).await.ok()??;
                client.findings(&document, MAX_WAIT).await
            });
            let found = join_all(found).await;
            let answered = found.iter().any(Option::is_some);
            let found: Vec<Diagnostic> = found.into_iter().flatten().flat_map(|found| found.to_vec()).collect();
            outcome.send_replace(Some(Seen {
                servers: clients.len(),
                answered,
                found: found.into(),
            }));
        }));
        Refresh(refresh)
    }

    /// Tells the servers for a file what it holds now, and returns what they find in it; what is not found within `limit`
    /// is left out.
    pub async fn diagnostics(&self, path: &ResolvedPath, limit: Duration) -> Vec<Diagnostic> {
        let found = self.touch(path).diagnostics(limit).await;
        found.map(|found| found.to_vec()).unwrap_or_default()
    }

    /// Returns what was last reported of every file, by all servers that run.
    pub fn reported(&self) -> BTreeMap<PathBuf, Vec<Diagnostic>> {
        let mut all: BTreeMap<PathBuf, Vec<Diagnostic>> = BTreeMap::new();
        for client in self.running() {
            for (path, found) in client.reports.all() {
                all.entry(path).or_default().extend(found.iter().cloned());
            }
        }
        all
    }

    /// Returns the reports from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Published> {
        self.0.published.subscribe()
    }

    /// Looks which servers are there. Blocking.
    pub fn survey(&self) -> Vec<Surveyed> {
        let runs = self.running();
        self.0
            .servers
            .iter()
            .map(|server| Surveyed {
                server: server.id.clone(),
                program: server.survey(&self.0.around),
                running: runs.iter().filter(|client| client.id() == server.id).count(),
            })
            .collect()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<(String, PathBuf), Arc<Slot>>> {
        self.0.slots.lock()
    }

    async fn slots_for(&self, path: &ResolvedPath) -> Vec<Result<Arc<Slot>, Unavailable>> {
        let servers: Vec<Arc<Server>> = {
            let all = self.0.servers.iter();
            all.filter(|server| server.fits(path.display_path())).cloned().collect()
        };
        if servers.is_empty() {
            return Vec::new();
        }
        let (this, path) = (self.clone(), path.clone());
        // Fails only when the service ends.
        tokio::task::spawn_blocking(move || {
            let found = servers
                .iter()
                .filter_map(|server| this.slot(server, path.display_path()));
            found.collect()
        })
        .await
        .unwrap_or_default()
    }

    fn slot(&self, server: &Arc<Server>, path: &Path) -> Option<Result<Arc<Slot>, Unavailable>> {
        let around = &self.0.around;
        let root = server.root(path, around)?;
        let key = (server.id.clone(), root.clone());
        if let Some(slot) = self.slots().get(&key).filter(|slot| slot.is_alive()) {
            return Some(Ok(Arc::clone(slot)));
        }
        let start = match server.start(&root, around) {
            Ok(start) => start,
            Err(problem) => {
                let server = server.id.clone();
                return Some(Err(Unavailable { server, problem }));
            }
        };
        let mut slots = self.slots();
        if slots.len() >= MAX_SLOTS {
            slots.retain(|_, slot| slot.is_alive());
        }
        let slot = slots
            .entry(key)
            .or_insert_with(|| Arc::new(Slot::new(Arc::clone(server), root)));
        slot.set_start(start);
        Some(Ok(Arc::clone(slot)))
    }

    /// Returns a server that runs, starting it if need be.
    async fn client(&self, slot: &Arc<Slot>) -> Result<Arc<Client>, String> {
        const MAX_START_ATTEMPTS: usize = 2;
        let mut states = slot.state.subscribe();
        let mut problem = "the service stops".to_owned();
        for _ in 0..MAX_START_ATTEMPTS {
            if self.0.shared.stop.is_cancelled() {
                break;
            }
            if slot.begins_to_start() {
                let running = Lifecycle {
                    shared: Arc::clone(&self.0.shared),
                    slot: Arc::clone(slot),
                    published: self.0.published.clone(),
                };
                self.0.shared.tasks.spawn(running.run());
            }
            let state = states.wait_for(State::is_settled).await.map(|state| state.clone());
            match state {
                Ok(State::Ready(client)) => return Ok(client),
                Ok(State::Down { problem: why, again }) => {
                    let left = again.saturating_duration_since(Instant::now());
                    problem = why;
                    if !left.is_zero() {
                        return Err(format!(
                            "{problem} (it is started again after {} s)",
                            left.as_secs() + 1
                        ));
                    }
                }
                Ok(State::Idle | State::Starting) | Err(_) => {}
            }
        }
        Err(problem)
    }
}
