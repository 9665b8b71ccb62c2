//! The service's own configuration: `toolgate.toml`, then `TOOLGATE_*` variables, then flags, the strongest last.
//!
//! A [`RawConfig`] is what one of them says; [`Config`] is what is in force, checked, with the source of every value.
//! The variable of the key `limits.max_running_calls` is `TOOLGATE_LIMITS_MAX_RUNNING_CALLS`, and so on; workspaces are
//! given as `TOOLGATE_WORKSPACES=name=/folder,other=/folder`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_model::audit_key::Key;
use toolgate_model::redact::Redactor;
use toolgate_web as net;

use super::environment::Environment;
use super::error::ConfigError;
use super::{read, toml_file};

mod auth;
mod limits;
mod network;
mod raw;
mod resolve;
mod sandbox;
mod search;
mod secrets;
mod telemetry;
mod variables;

pub use auth::{
    AuthConfig, CertificateConfig, ClientAuth, JwtConfig, RawAuth, RawCertificate, RawJwt, RawTls, RawUnix, TlsConfig,
    UnixGroupConfig,
};
pub use limits::{DEFAULT_MESSAGE_BYTES, LimitsConfig, RawLimits};
pub use raw::*;
pub use search::{ApiKey, SearchConfig};
pub use telemetry::TelemetryConfig;

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where calls, outputs and grants are kept; absolute.
    pub data_dir: PathBuf,
    /// How long running calls may go on when the service stops.
    pub drain_grace: Duration,
    /// Where to listen.
    pub listen: ListenConfig,
    /// Whether the console is served.
    pub console: bool,
    /// Who may call.
    pub auth: AuthConfig,
    /// The root folders in which tools work, the default one first; at least one.
    pub workspaces: Vec<WorkspaceConfig>,
    /// Bounds on what everybody and each may use.
    pub limits: LimitsConfig,
    /// How prompts are treated.
    pub permission: PermissionConfig,
    /// How long things are kept.
    pub retention: RetentionConfig,
    /// How the audit is kept.
    pub audit: AuditConfig,
    /// What is shown to nobody.
    pub redact: RedactConfig,
    /// Which servers tools may reach, and how.
    pub network: net::Settings,
    /// Where the search tools ask.
    pub search: SearchConfig,
    /// What programs are confined to.
    pub sandbox: SandboxConfig,
    /// How commands are run.
    pub shell: ShellConfig,
    /// The JavaScript runtime for custom tools and plugins; none for the first one that is there.
    pub javascript_runtime: Option<String>,
    /// How language servers are used.
    pub lsp: LspConfig,
    /// What operators see of the service.
    pub telemetry: TelemetryConfig,
    /// What is logged.
    pub log: LogConfig,
    /// The files with secrets that the configuration names, and those that it is in.
    pub private_files: Vec<PathBuf>,
    /// What a person should know that is no error.
    pub warnings: Vec<String>,
    settings: Vec<Setting>,
}

/// Where to listen: on at least one of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenConfig {
    /// The TCP address; a loopback one unless `insecure`.
    pub tcp: Option<SocketAddr>,
    /// The Unix socket.
    pub unix: Option<PathBuf>,
    /// Whether an address that other machines can reach was accepted.
    pub insecure: bool,
    /// Who of this machine may connect by TCP where nobody is asked who they are.
    pub local_users: LocalUsers,
    /// The origins of the web pages that may call. None by default: any page that a person opens could run commands.
    pub origins: Vec<String>,
    /// Encryption of TCP.
    pub tls: Option<TlsConfig>,
}

/// Who of this machine may connect by TCP where nobody is asked who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalUsers {
    /// The user that the service runs as, from processes that it did not start.
    #[default]
    Same,
    /// Whoever can, as in a network that containers share.
    Any,
}

impl ListenConfig {
    /// Says whether only this machine can connect.
    pub fn is_local(&self) -> bool {
        self.tcp.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
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

/// How prompts are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionConfig {
    /// How long a prompt waits; none for ever.
    pub timeout: Option<Duration>,
    /// What happens to a prompt while nobody is listening.
    pub unattended: Unattended,
    /// Whether a principal may answer prompts of its own calls; none: the owner on the Unix socket, and everybody where
    /// nobody is asked who they are.
    pub self_approval: Option<bool>,
    /// The permissions for which two principals must approve; `*` for all.
    pub second_approver: Vec<String>,
    /// With [`Unattended::Attended`]: how long ago an approver may have left.
    pub attended_within: Duration,
}

/// What happens to a prompt while nobody is listening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattended {
    /// It waits until somebody comes or it expires.
    Wait,
    /// It is refused at once.
    Refuse,
    /// It waits as long as somebody has been there a short time ago.
    Attended,
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Stored outputs.
    pub outputs: Duration,
    /// Records of calls.
    pub calls: Duration,
    /// Events of workspaces.
    pub journal: Duration,
}

/// How the audit is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditConfig {
    /// The key that the records are made with.
    pub key: Option<Key>,
    /// Where that is.
    pub key_file: Option<PathBuf>,
    /// How long records are kept; none for ever.
    pub retention: Option<Duration>,
}

/// What is shown to nobody: takes it out of texts.
#[derive(Clone, Debug, Default)]
pub struct RedactConfig(pub Redactor);

/// What programs are confined to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxConfig {
    /// For every agent that is not named below.
    pub general: SandboxRule,
    /// Whether the service refuses to start where the kernel cannot enforce it.
    pub required: bool,
    /// Paths that programs may write in addition; absolute.
    pub writable: Vec<PathBuf>,
    /// Paths that programs may read although they are hidden; absolute.
    pub readable: Vec<PathBuf>,
    /// Paths that programs may neither read nor write, in addition to the service's own; absolute.
    pub hidden: Vec<PathBuf>,
    /// The caches of toolchains, which programs may write; absolute.
    pub caches: Vec<PathBuf>,
    /// What they may not write wherever it is in a workspace: names, or the last parts of paths.
    pub protected: Vec<PathBuf>,
    /// The Unix sockets that they may connect to; absolute.
    pub sockets: Vec<PathBuf>,
    /// For agents, by name.
    pub agents: BTreeMap<String, SandboxRule>,
}

impl SandboxConfig {
    /// Says whether any program is confined.
    pub fn is_on(&self) -> bool {
        let mut rules = self.agents.values().chain([&self.general]);
        rules.any(|rule| rule.mode != SandboxMode::Off)
    }
}

/// How the programs of an agent are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxRule {
    /// What they may write.
    pub mode: SandboxMode,
    /// Whether they may use the network.
    pub network: SandboxNetwork,
}

/// What programs may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxMode {
    /// Whatever the service may.
    Off,
    /// The workspace, a temporary folder, and what was approved.
    WorkspaceWrite,
    /// A temporary folder, and what was approved.
    ReadOnly,
}

impl SandboxMode {
    /// Returns configuration's word for the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }
}

/// Whether confined programs may use the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxNetwork {
    /// Not at first; somebody is asked when a command fails for it.
    Ask,
    /// Yes.
    Allow,
    /// No.
    Deny,
}

impl SandboxNetwork {
    /// Returns configuration's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// How commands are run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellConfig {
    /// Names and patterns of the variables that commands get; none at all means every variable.
    pub environment_allow: Vec<String>,
    /// Names and patterns of the variables that commands do not get.
    pub environment_deny: Vec<String>,
}

/// How language servers are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LspConfig {
    /// How long the result of an edit may wait for what language servers say of it; what comes later is added to the call.
    pub diagnostics_wait: Duration,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How.
    pub format: LogFormat,
    /// Which messages.
    pub filter: String,
}

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
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

impl Config {
    /// Reads the configuration: a file, the variables of `env`, and what the command line says. Blocking.
    ///
    /// The file is `file`, else `$TOOLGATE_CONFIG`, else the first that exists of `toolgate/toolgate.toml` in the
    /// user's and in the machine's folder for settings. The current folder is not looked at: a project must not configure
    /// the service.
    ///
    /// # Errors
    /// A named file is missing, or something in a file, a variable or a flag means nothing.
    pub fn load(file: Option<&Path>, flags: RawConfig, env: &Environment) -> Result<Self, ConfigError> {
        let mut layers = Vec::new();
        if let Some((path, text)) = find_file(file, env)? {
            let raw = toml_file::parse(&text, &path)?;
            layers.push(resolve::RawLayer::file(raw, path, text));
        }
        layers.push(resolve::RawLayer::variables(variables::read(env)?, env));
        layers.push(resolve::RawLayer::flags(flags, env));
        resolve::config(&layers, env)
    }

    /// Returns every value in force and where it comes from, in the order of the documentation.
    pub fn explain(&self) -> &[Setting] {
        &self.settings
    }
}

fn find_file(named: Option<&Path>, env: &Environment) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let named = named.map(|path| env.cwd().join(path));
    let named = named.or_else(|| env.get("TOOLGATE_CONFIG").map(|path| env.resolve(path, env.cwd())));
    if let Some(path) = named {
        return match read::text(&path)? {
            Some(text) => Ok(Some((path, text))),
            None => Err(ConfigError::Missing { path }),
        };
    }
    for folder in env.config_home().into_iter().chain([env.system_dir().to_path_buf()]) {
        let path = folder.join("toolgate/toolgate.toml");
        if let Some(text) = read::text(&path)? {
            return Ok(Some((path, text)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
