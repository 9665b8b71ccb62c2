//! What the services of one server share: the engine, who may call, the limits, and the facts that they report.
//!
//! *Invariant:* a leaf: it uses no service, so that each service can use it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;
use tonic::{Code, Status};
use toolgate_engine::Engine;
use toolgate_extensions::hosted::Hosts;
use toolgate_fs::uploads::Uploads;
use toolgate_model::{CallId, Origin, Timestamp};
use toolgate_permission::wildcard;
use toolgate_store::{Audit, Journal, Outputs};
use toolgate_telemetry::Telemetry;
use toolgate_tools::bash::decides_what_runs;
use toolgate_tools::ports::OpenPorts;

use super::auth::{Authenticator, Caller};
use super::closing::Closing;
use super::limits::Traffic;
use super::status::bad_field;
use super::watches::Watches;
use super::workspaces::Workspaces;
use super::{convert, status};

/// The longest silence on a stream.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// What every service of one server shares.
pub struct Shared {
    /// Runs the calls.
    pub engine: Arc<Engine>,
    /// Opens and closes workspaces.
    pub workspaces: Arc<dyn Workspaces>,
    /// What calls printed.
    pub outputs: Arc<dyn Outputs>,
    /// Contents that clients send for calls.
    pub uploads: Uploads,
    /// The ports that are open.
    pub ports: OpenPorts,
    /// What goes on beside the streams: connections to those ports.
    pub tunnels: TaskTracker,
    /// The workspaces whose files are watched.
    pub watches: Watches,
    /// What happened in the service, as clients follow it.
    pub journal: Arc<dyn Journal>,
    /// Who did what, by which rule.
    pub audit: Arc<dyn Audit>,
    /// The servers of tools; none where calls do not run.
    #[cfg(feature = "mcp")]
    pub servers: Option<Arc<toolgate_extensions::mcp::Servers>>,
    /// The front ends that lend tools.
    pub hosts: Arc<Hosts>,
    /// The longest silence on a stream.
    pub heartbeat: Duration,
    /// How long outputs are kept.
    pub output_retention: Duration,
    /// How long records of ended calls are kept.
    pub call_retention: Duration,
    /// The largest message that is accepted.
    pub max_message_bytes: usize,
    /// The origins of the web pages that may call.
    pub origins: Arc<[String]>,
    /// Whether the console is served, which then may call as well.
    pub console: bool,
    /// Whether SDKs of agent-sandbox are served.
    pub agent_sandbox: bool,
    /// Knows who may call.
    pub authenticator: Arc<Authenticator>,
    /// Knows how much may come from whom.
    pub traffic: Arc<Traffic>,
    /// Whether replies to prompts are taken here: a worker without a store leaves that to the gateways.
    pub takes_replies: bool,
    /// When this run began.
    pub started: Timestamp,
    /// The variables that calls may set although they decide what runs.
    pub caller_variables: Vec<String>,
    /// What a person should know of the service's own configuration.
    pub warnings: Vec<String>,
    /// What confines programs.
    pub sandbox: SandboxFacts,
    /// Knows the language servers of each workspace.
    pub languages: Arc<dyn Languages>,
    /// Ends the streams that have no end of their own.
    pub closing: Closing,
    /// What is told of RPCs.
    pub telemetry: Telemetry,
}

impl Shared {
    /// Refuses variables that a call must not set.
    pub(super) fn check_environment(&self, origin: &Origin) -> Result<(), Status> {
        for (name, value) in &origin.environment {
            let field = "context.environment";
            if name.starts_with("TOOLGATE_") {
                return Err(bad_field(
                    field,
                    format!("{name}: such variables are the service's own"),
                ));
            }
            let is_allowed = || {
                self.caller_variables
                    .iter()
                    .any(|pattern| wildcard::matches(name, pattern))
            };
            if let Some(why) = decides_what_runs(name, value).filter(|_| !is_allowed()) {
                let how = "an operator may allow it with shell.environment.callers";
                return Err(bad_field(field, format!("{name} decides what runs ({why}); {how}")));
            }
        }
        Ok(())
    }

    /// Notes who makes a call, and finds the one on whose behalf it is made.
    pub(super) async fn sign(&self, caller: &Caller, origin: &mut Origin) -> Result<(), Status> {
        caller.sign(origin);
        if let Some(parent) = &origin.parent {
            origin.parent = Some(self.call(caller, parent).await?);
        }
        Ok(())
    }

    /// Finds a call that a caller names; one that it may not see is not there.
    pub(crate) async fn call(&self, caller: &Caller, id: &CallId) -> Result<CallId, Status> {
        // Where workspaces come and go, calls of closed ones may be meant.
        let is_only_one = self.workspaces.are_fixed() && self.engine.catalogs().all().len() == 1;
        if is_only_one && id.workspace().is_none() && !caller.is_limited() {
            return Ok(id.clone());
        }
        let named = self.engine.named(id, |workspace| caller.sees(workspace)).await;
        let mut named = named.map_err(status::store)?.into_iter();
        match (named.next(), named.next()) {
            (Some(id), None) => Ok(id),
            (None, _) => Err(status::not_found("call", id.name())),
            (Some(_), Some(_)) => Err(status::ambiguous_call(id.name())),
        }
    }

    /// Finds a call to filter by; one that is not there has nothing.
    pub(super) async fn filtered_call(
        &self,
        caller: &Caller,
        field: &str,
        id: String,
    ) -> Result<Option<CallId>, Status> {
        if id.is_empty() {
            return Ok(None);
        }
        let id = convert::known_call_id(field, &id)?;
        match self.call(caller, &id).await {
            Err(status) if status.code() == Code::NotFound => Ok(Some(id)),
            found => found.map(Some),
        }
    }
}

/// What the service tells of a language server.
#[derive(Clone, Debug)]
pub struct LanguageServerFacts {
    /// Its id.
    pub id: String,
    /// Its program, or why it cannot be used.
    pub program: Result<PathBuf, String>,
    /// For how many projects it runs.
    pub running: usize,
}

/// Knows the language servers of each workspace.
pub trait Languages: Send + Sync + 'static {
    /// Returns those of a workspace. Blocking: it looks for programs.
    fn servers(&self, workspace: &str) -> Vec<LanguageServerFacts>;
}

/// What the service tells of its sandbox.
#[derive(Clone, Debug)]
pub struct SandboxFacts {
    /// The version of Landlock's interface, 0 without it.
    pub landlock: u32,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// Whether any program is confined.
    pub is_on: bool,
    /// The configured mode, of agents that have none of their own.
    pub mode: toolgate_config::service::SandboxMode,
    /// The configured use of the network, likewise.
    pub network: toolgate_config::service::SandboxNetwork,
    /// Whether the service refuses to start without it.
    pub required: bool,
    /// What the kernel lacks for all of it.
    pub missing: Vec<String>,
}
