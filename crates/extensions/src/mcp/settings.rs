//! How a server is reached, and what all servers of a workspace have in common.
//!
//! *Invariant:* data only.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::InstanceId;
use toolgate_process::Programs;
use toolgate_web::Network;

use super::follows::Follows;
use super::lists::Announced;
use super::login::Logins;
use super::relay::Relays;

/// How long connecting and listing may take unless the configuration says otherwise.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How long a call may take unless the configuration says otherwise.
pub const CALL_LIMIT: Duration = Duration::from_secs(60);

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
    /// Where the login there is kept. Not looked at if the headers have an authorization.
    pub logins: Option<Arc<dyn Logins>>,
}

/// A server that is a program.
#[derive(Clone, Debug)]
pub struct Local {
    /// The program and its arguments, at least the program.
    pub command: Vec<String>,
    /// Variables that it gets.
    pub environment: BTreeMap<String, String>,
    /// Where it starts, relative to the workspace's folder; none for that folder.
    pub directory: Option<PathBuf>,
}

/// Where the servers of a workspace work.
#[derive(Clone)]
pub(super) struct Env {
    /// The name of the workspace.
    pub(super) workspace: String,
    /// Who follows which call.
    pub(super) relays: Arc<Relays>,
    /// What clients follow at the server.
    pub(super) follows: Arc<Follows>,
    /// Tells what servers say that has changed.
    pub(super) announced: broadcast::Sender<Announced>,
    pub(super) directory: PathBuf,
    /// The same as a URL.
    pub(super) root: String,
    pub(super) programs: Programs,
    pub(super) network: Network,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    pub(super) instance: InstanceId,
    pub(super) nested: bool,
}
