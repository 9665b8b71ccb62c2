//! Servers of tools that speak the Model Context Protocol (`spec/extensions.md` §3): programs that the service starts and
//! servers that it reaches by HTTP, whose tools are offered as `<server>_<tool>`.
//!
//! *Invariant:* nobody waits for a server but who calls its tools. Every server has a task of its own, and all of them,
//! programs included, are gone when [`Servers::stop`] returns.

mod client;
mod http;
mod local;
mod names;
mod result;
mod server;
mod sse;
mod stdio;
mod tool;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

pub use local::Local;

use self::server::Server;
use crate::call::SourceState;
use crate::net::Network;
use crate::process::Programs;
use crate::tool::Tool;

/// How long connecting and listing may take unless the configuration says otherwise.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How long a call may take unless the configuration says otherwise.
pub const CALL_LIMIT: Duration = Duration::from_secs(60);

/// Where a workspace's tools are kept.
pub trait Shelf: Send + Sync + 'static {
    /// Replaces the tools of a server. Returns what is wrong with those that cannot be offered. Blocking.
    fn offer(&self, server: &str, tools: Vec<Arc<dyn Tool>>) -> Vec<String>;

    /// Says how a server is that offers nothing for now.
    fn report(&self, server: &str, state: SourceState, problem: String);
}

/// A server to be connected to.
#[derive(Clone)]
pub struct ServerSettings {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub kind: Kind,
    /// How long connecting and listing may take, each.
    pub connect: Duration,
    /// How long a call may take.
    pub call: Duration,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Kind {
    /// It is a program.
    Local(Local),
    /// By HTTP.
    Remote(Remote),
}

/// A server that is reached by HTTP.
#[derive(Clone)]
pub struct Remote {
    /// Its address.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// Looks for a stored login, each time anew; blocking. Not asked if the headers have an authorization.
    pub login: Option<Arc<dyn Fn() -> Option<Login> + Send + Sync>>,
}

/// A stored login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// The token to be sent.
    Token(String),
    /// The token is not good any more.
    Expired,
}

/// Where the servers of a workspace work.
#[derive(Clone)]
struct Surroundings {
    directory: PathBuf,
    /// The same as a URL.
    root: String,
    programs: Programs,
    network: Network,
    tasks: TaskTracker,
}

/// The servers of all workspaces. Dropping it asks them to end.
pub struct Servers {
    programs: Programs,
    network: Network,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop: DropGuard,
}

impl Servers {
    /// Makes the place for servers; none runs yet.
    pub fn new(programs: Programs, network: Network) -> Self {
        let stop = CancellationToken::new();
        Self {
            programs,
            network,
            tasks: TaskTracker::new(),
            _stop: stop.clone().drop_guard(),
            stop,
        }
    }

    /// Begins to connect to a server for the workspace in a folder, and returns at once. To be called inside a runtime.
    pub fn start(&self, directory: PathBuf, settings: ServerSettings, shelf: Arc<dyn Shelf>) {
        shelf.report(&settings.name, SourceState::Connecting, String::new());
        let root = reqwest::Url::from_directory_path(&directory).map(String::from);
        let around = Surroundings {
            root: root.map_or_else(|()| "file:///".to_owned(), |root| root.trim_end_matches('/').to_owned()),
            directory,
            programs: self.programs.clone(),
            network: self.network.clone(),
            tasks: self.tasks.clone(),
        };
        let span = tracing::info_span!("mcp", server = %settings.name);
        let server = Server::new(settings, around, shelf, self.stop.clone());
        self.tasks.spawn(server.run().instrument(span));
    }

    /// Ends every connection and every program, and returns when they are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
