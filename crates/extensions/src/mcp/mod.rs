//! Servers of tools that speak the Model Context Protocol (`docs/spec/extensions.md` §3): programs that the service
//! starts and servers that it reaches by HTTP, whose tools are offered as `<server>_<tool>`.
//!
//! The client is our own. That of rmcp 3.9 is left out for what the tests of `tests/it/mcp` ask of servers
//! that are not perfect: its `CallToolResult` drops the keys that it does not know (hooks and `metadata` need them); its
//! lines that are too long are dropped, so that the request waits for its time limit instead of failing with the reason;
//! it has no HTTP of the first kind, and no bound for requests of a server that does not read the answers. Its `auth` makes
//! logins (`authorization`) and does not renew them: it tells a client that is not registered any more and a server that is
//! down for a moment by one error, `TokenRefreshFailed`; they are two states here.
//!
//! In reading order: `settings`, `server` (the life of one), `shared` (the way to it), `client` (handshake, list, calls), `dispatcher` (who waits for
//! what) and `message`; the ways of messages `stdio` with `local`, `http` and `sse` with `endpoint`, `events` and `remote`;
//! `login` (used and renewed) with `guards` and `oauth`, `authorization` (made) and `probe` (whether one is needed); `tool`, `names`, `marked`
//! and `result`; `attending` (what a server says and asks in the midst of a call) with `forms`, `tasks` (tools that run as tasks)
//! and `relay`; `lists`, `passed`, `resources` and `follows` (prompts and resources).
//!
//! *Invariant:* nobody waits for a server but who calls its tools. Every server has a task of its own, and all of them,
//! programs included, are gone when [`Servers::stop`] returns.

mod attending;
mod authorization;
mod client;
mod dispatcher;
mod endpoint;
mod events;
mod follows;
mod forms;
mod guards;
mod http;
mod lists;
mod local;
mod login;
mod marked;
mod message;
mod names;
mod oauth;
mod passed;
mod probe;
pub mod relay;
mod remote;
mod resources;
mod result;
mod server;
mod settings;
mod shared;
mod sse;
mod stdio;
mod tasks;
mod tool;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::{InstanceId, Source, SourceState};
use toolgate_process::Programs;
use toolgate_tool::Catalog;
use toolgate_web::Network;
use tracing::Instrument as _;

pub use authorization::{Authorization, AuthorizationError, Wish};
pub use follows::Follow;
pub use lists::{Announced, McpServer, Owned};
pub use login::{ByItself, Logins};
pub use probe::{Probed, probe};
pub use resources::resource_tools;
pub use result::{bytes_of, text_of};
pub use settings::{CALL_LIMIT, CONNECT_LIMIT, Kind, Local, Remote, ServerSettings};
pub use shared::{List, Unlisted};

use self::lists::Known;
use self::login::Credentials;
use self::relay::Relays;
use self::server::Server;
use self::settings::Env;
use crate::groups::Groups;

/// A server's name, its address and, for a client that logs in by itself, its workspace.
type LoginKey = (String, String, Option<String>);

/// The servers of all workspaces. Dropping it asks them to end.
pub struct Servers {
    programs: Programs,
    network: Network,
    /// The logins: workspaces share them, and none is made twice. What the configuration of a server said last of how to log in there
    /// counts. Never held across an await.
    credentials: Mutex<HashMap<LoginKey, Arc<Credentials>>>,
    /// What keeps them, for all workspaces.
    tasks: TaskTracker,
    /// The servers themselves.
    groups: Groups,
    /// Each by its workspace and its name, until it is gone. Never held across an await.
    members: Mutex<HashMap<(String, String), Member>>,
    /// What leads to them.
    known: Known,
    /// Who follows which call.
    relays: Arc<Relays>,
    instance: InstanceId,
    /// Whether this service runs below a server that another one has started: then it starts none.
    nested: bool,
}

/// A server by itself.
struct Member {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Member {
    fn is_gone(&self) -> bool {
        self.stop.is_cancelled() && self.tasks.is_closed() && self.tasks.is_empty()
    }
}

impl Servers {
    /// Makes the place for servers of this run of the service; none runs yet. `nested` says whether it runs below a
    /// server that another one has started ([`toolgate_model::STARTED_AS_SERVER`]).
    pub fn new(programs: Programs, network: Network, instance: InstanceId, nested: bool) -> Self {
        Self {
            programs,
            network,
            credentials: Mutex::default(),
            tasks: TaskTracker::new(),
            groups: Groups::default(),
            members: Mutex::default(),
            known: Known::default(),
            relays: Arc::default(),
            instance,
            nested,
        }
    }

    /// Begins to connect to a server for a workspace, of this name and in this folder, whose tools `catalog` has, and
    /// returns at once. One of the same name ends first. To be called inside a runtime.
    pub fn start(&self, (workspace, directory): (&str, PathBuf), settings: ServerSettings, catalog: Arc<Catalog>) {
        let group = self.groups.of(workspace);
        let member = Member {
            stop: group.stop.child_token(),
            tasks: TaskTracker::new(),
        };
        let (stop, tasks) = (member.stop.clone(), member.tasks.clone());
        let key = (workspace.to_owned(), settings.name.clone());
        let before = self.members.lock().insert(key, member);
        if let Some(before) = &before {
            before.stop.cancel();
            self.known.forget_one(workspace, &settings.name);
        }
        catalog.report(Source::Mcp, &settings.name, SourceState::Connecting, "");
        let root = reqwest::Url::from_directory_path(&directory).map(String::from);
        let env = Env {
            workspace: workspace.to_owned(),
            relays: Arc::clone(&self.relays),
            follows: self.known.follows(workspace, &settings.name),
            announced: self.known.announced.clone(),
            root: root.map_or_else(|()| "file:///".to_owned(), |root| root.trim_end_matches('/').to_owned()),
            directory,
            programs: self.programs.clone(),
            network: self.network.clone(),
            tasks: tasks.clone(),
            stop,
            instance: self.instance.clone(),
            nested: self.nested,
        };
        let span = tracing::info_span!("mcp", server = %settings.name);
        let credentials = match &settings.kind {
            Kind::Remote(remote) => self.credentials(workspace, &settings.name, remote),
            Kind::Local(_) => None,
        };
        let server = Server::new(settings, env, catalog, credentials);
        self.known.add(workspace, server.shared());
        let run = async move {
            if let Some(before) = before {
                before.tasks.wait().await;
            }
            server.run().await;
        };
        tasks.spawn(run.instrument(span));
        tasks.close();
        group.tasks.spawn(async move { tasks.wait().await });
    }

    /// Ends a server of a workspace and takes it out of the catalog; returns at once.
    pub fn end_one(&self, workspace: &str, name: &str, catalog: &Arc<Catalog>) {
        {
            let mut members = self.members.lock();
            if let Some(member) = members.get(&(workspace.to_owned(), name.to_owned())) {
                // What belongs to it ends with the workspace at the latest; the next one of its name waits for that.
                member.stop.cancel();
            }
            members.retain(|_, member| !member.is_gone());
        }
        self.known.forget_one(workspace, name);
        catalog.remove(Source::Mcp, name);
    }

    /// Says in which order the servers of a workspace are looked through for prompts and resources.
    pub fn arrange(&self, workspace: &str, names: &[String]) {
        self.known.arrange(workspace, names);
    }

    /// Returns the login at a server. All workspaces have that of the person, which must be renewed by one; a client that logs in by
    /// itself is that of its workspace alone.
    fn credentials(&self, workspace: &str, name: &str, remote: &Remote) -> Option<Arc<Credentials>> {
        let logins = Arc::clone(remote.logins.as_ref()?);
        let url = remote.url.parse().ok()?;
        let mut all = self.credentials.lock();
        let whose = logins.by_itself().map(|_| workspace.to_owned());
        let key = (name.to_owned(), remote.url.clone(), whose);
        if let Some(known) = all.get(&key) {
            // How to log in there may have changed.
            known.change(logins);
            return Some(Arc::clone(known));
        }
        let new = Arc::new(Credentials::new(url, logins, self.tasks.clone()));
        all.insert(key, Arc::clone(&new));
        Some(new)
    }

    /// Returns what leads from servers to whoever follows a call.
    pub fn relays(&self) -> &Arc<Relays> {
        &self.relays
    }

    /// Returns all that the servers of a workspace list, prompts under the names that they have here.
    pub async fn listed(&self, workspace: &str, list: List) -> Vec<Value> {
        self.known.listed(workspace, list).await
    }

    /// Returns the servers of a workspace that are connected to, or are to be, in their order.
    pub fn of(&self, workspace: &str) -> Vec<McpServer> {
        self.known.servers(workspace)
    }

    /// Finds the server of a resource.
    pub async fn resource(&self, workspace: &str, uri: &str) -> Option<Owned> {
        self.known.resource(workspace, uri).await
    }

    /// Finds the server of a prompt.
    pub async fn prompt(&self, workspace: &str, name: &str) -> Option<Owned> {
        self.known.prompt(workspace, name).await
    }

    /// Hears what servers say that has changed.
    pub fn announced(&self) -> broadcast::Receiver<Announced> {
        self.known.announced.subscribe()
    }

    /// Ends the servers of a workspace, and returns when they are gone.
    pub async fn end(&self, workspace: &str) {
        self.known.forget(workspace);
        self.members.lock().retain(|(of, _), _| of != workspace);
        self.groups.end(workspace).await;
    }

    /// Ends every connection and every program, and returns when they are gone.
    pub async fn stop(&self) {
        self.groups.end_all().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}
