//! Values of the configuration that are more than a number or a text, and where a value comes from.
//!
//! *Invariant:* types only: the keys that have such values are in `keys`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use toolgate_model::WorkspaceSet;
use toolgate_model::redact::Redactor;

/// Bytes of the longest key of the search service.
const MAX_KEY_BYTES: usize = 1024;

/// Makes an enum whose values are words in the configuration.
macro_rules! words {
    ($($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $word:literal,)* })*) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            /// The words of the configuration.
            pub(super) const WORDS: &[(&str, Self)] = &[$(($word, Self::$value)),*];

            /// Returns the word of the configuration.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word,)* }
            }
        }
    )* };
}

words! {
    /// What a process is for.
    ClusterRole {
        /// It runs calls itself.
        All = "all",
        /// It passes requests on to workers.
        Gateway = "gateway",
        /// It runs calls, and keeps nothing: what happens is stored through the gateways.
        Worker = "worker",
    }
    /// When a gateway brings the tables of its database up to date.
    MigrateWhen {
        /// Never: a command does it, before the gateways are started.
        Never = "never",
        /// When the gateway starts.
        Start = "start",
    }
    /// When a worker that waits for a workspace gets one.
    PoolUse {
        /// Never.
        Off = "off",
        /// When a call names a workspace that nobody has had.
        FirstCall = "first-call",
    }
    /// Who makes the places of workspaces that clients create at a gateway.
    ProvisionerKind {
        /// A server of the operator's that is asked by HTTP.
        Webhook = "webhook",
        /// The controllers of agent-sandbox in a Kubernetes cluster.
        AgentSandbox = "agent-sandbox",
    }
    /// Who of this machine may connect by TCP where nobody is asked who they are.
    LocalUsers {
        /// The user that the service runs as, from processes that it did not start.
        Same = "same",
        /// Whoever can, as in a network that containers share.
        Any = "any",
    }
    /// What resumes a suspended workspace.
    ResumeBy {
        /// The first call or reply.
        Calls = "calls",
        /// Only who asks for just that.
        Requests = "requests",
    }
    /// Whether a client must have a certificate.
    ClientAuth {
        /// No connection without one.
        Required = "required",
        /// It may say otherwise who it is.
        Optional = "optional",
    }
    /// What programs may write.
    SandboxMode {
        /// Whatever the service may.
        Off = "off",
        /// The workspace, a temporary folder, and what was approved.
        WorkspaceWrite = "workspace-write",
        /// A temporary folder, and what was approved.
        ReadOnly = "read-only",
    }
    /// Whether confined programs may use the network.
    SandboxNetwork {
        /// Not at first; somebody is asked when a command fails for it.
        Ask = "ask",
        /// Yes.
        Allow = "allow",
        /// No.
        Deny = "deny",
    }
    /// How messages are written.
    LogFormat {
        /// Lines for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

/// One entry of `workspaces`, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorkspace {
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) self_approval: Option<bool>,
    pub(super) trust: Option<bool>,
}

/// One workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceConfig {
    /// Its name, unique.
    pub name: String,
    /// Its folder, absolute; whether it exists is seen when it is opened.
    pub directory: PathBuf,
    /// Whether a principal may answer prompts of its own calls here; none: as elsewhere.
    pub self_approval: Option<bool>,
    /// Whether code that the project brings is run here: its custom tools, plugins and MCP servers.
    pub trust: bool,
}

/// A service that a gateway passes requests on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Its name, unique.
    pub name: String,
    /// Where it listens: `https://HOST:PORT`, `http://HOST:PORT` or `unix:/PATH`.
    pub address: String,
    /// The file with the token that says who the gateway is.
    pub token_file: Option<PathBuf>,
    /// The certificate that says so, PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of that certificate, PEM.
    pub key: Option<PathBuf>,
    /// The authorities that sign the worker's certificate, PEM; none for those of the system.
    pub ca: Option<PathBuf>,
}

/// A group of workspaces with limits of its own, at a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantConfig {
    /// Its name, unique.
    pub name: String,
    /// Its workspaces, open or not.
    pub workspaces: WorkspaceSet,
    /// How many of them may be open when another one is opened.
    pub max_workspaces: Option<u32>,
    /// How many of their calls may run.
    pub max_running_calls: Option<u32>,
}

/// One entry of `workspace_roots`, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRoot {
    pub(super) directory: PathBuf,
    pub(super) trust: Option<bool>,
}

/// A folder below which workspaces may be opened while the service runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceRoot {
    /// It, absolute; whether it exists is seen when a folder below it is named.
    pub directory: PathBuf,
    /// Whether code that the projects below it bring is run.
    pub trust: bool,
}

/// What is shown to nobody: takes it out of texts.
#[derive(Clone, Debug, Default)]
pub struct RedactConfig(pub Redactor);

/// One entry of `sandbox.agents`: known words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSandboxAgent {
    pub(super) mode: Option<String>,
    pub(super) network: Option<String>,
}

/// How the programs of an agent are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxRule {
    /// What they may write.
    pub mode: SandboxMode,
    /// Whether they may use the network.
    pub network: SandboxNetwork,
}

/// Who the owner of a client certificate is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateConfig {
    /// The common name in the subject.
    pub subject: Option<String>,
    /// One of the alternative names: a DNS name, a mail address or a URI.
    pub san: Option<String>,
    /// The principal's name.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Its workspaces; none for all.
    pub workspaces: Option<Vec<String>>,
}

/// A key that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Returns the key, to be sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let key = text.trim();
        let is_plain = |c: char| c.is_ascii_graphic();
        if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.chars().all(is_plain) {
            return Err(format!(
                "expected a key of 1 to {MAX_KEY_BYTES} letters, digits and signs"
            ));
        }
        Ok(Self(key.to_owned()))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}

/// Where a database is and who connects: with a password, perhaps, so that it is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreAddress(String);

impl StoreAddress {
    /// Returns the address, to connect.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns what may be shown of it: the host and the name of the database.
    pub fn shown(&self) -> String {
        let (_, rest) = self.0.split_once("://").unwrap_or_default();
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        format!("postgres://{place}")
    }

    /// Says what the address says of TLS: the word of `sslmode`, if there is one.
    pub fn tls_mode(&self) -> Option<&str> {
        let (_, query) = self.0.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix("sslmode="))
    }

    /// Says whether the database is on this machine: no other one sees what is said.
    pub fn is_local(&self) -> bool {
        let place = self.shown();
        let place = place.trim_start_matches("postgres://");
        let host = place.split('/').next().unwrap_or_default();
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(host, _)| host),
        };
        // Without a host, or with the folder of a socket.
        let is_socket = host.is_empty() || host.starts_with("%2F") || host.starts_with("%2f");
        let is_loopback = host
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        is_socket || host == "localhost" || is_loopback
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"));
        let is_plain = |rest: &&str| rest.len() <= MAX_KEY_BYTES && rest.chars().all(|c| c.is_ascii_graphic());
        // Not repeated: it may hold a password. One that is not written as it should be would be shown in part.
        let is_ambiguous = |rest: &str| {
            rest.split_once(['?', '#'])
                .is_some_and(|(_, behind)| behind.contains('@'))
        };
        if rest.is_some_and(is_ambiguous) {
            return Err("an address of a database in which `@` comes behind `?` or `#`: in user, password and values, write these \
                        as %40, %3F and %23"
                .to_owned());
        }
        match rest.filter(is_plain) {
            Some(rest) if rest.contains('/') => Ok(Self(text.to_owned())),
            Some(_) | None => Err(
                "expected the address of a PostgreSQL database such as postgres://USER:PASSWORD@HOST:5432/DATABASE"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreAddress")
    }
}

/// What operators see of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// Where `/metrics`, `/healthz` and `/readyz` are served, without encryption and to anybody.
    pub admin: Option<SocketAddr>,
    /// The collector of traces, which takes OTLP over gRPC.
    pub traces: Option<String>,
    /// The collector of metrics, likewise.
    pub metrics: Option<String>,
    /// What is said of the service in all of them; its name is among that.
    pub attributes: Vec<(String, String)>,
}

/// One value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its key, such as `listen.tcp`.
    pub key: String,
    /// The value as it would be written.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// The line of the key, from 1.
        line: Option<usize>,
    },
    /// A variable of the environment.
    Variable(String),
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag => f.write_str("flag"),
        }
    }
}
