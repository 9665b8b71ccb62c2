//! The configuration in force: checked values, and where each comes from.
//!
//! *Invariant:* types only: they are made where the layers are put together, and read everywhere.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use toolgate_model::audit_key::Key;
use toolgate_model::redact::Redactor;
use toolgate_permission::Unattended;
use toolgate_web as net;
use toolgate_web::Url;

/// Bytes of the longest key of the search service.
const MAX_KEY_BYTES: usize = 1024;

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
    pub(super) settings: Vec<Setting>,
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
    /// Returns every value in force and where it comes from, in the order of the documentation.
    pub fn explain(&self) -> &[Setting] {
        &self.settings
    }
}

/// Encryption of TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities whose client certificates are accepted, and whether there must be one.
    pub client_ca: Option<(PathBuf, ClientAuth)>,
}

/// Whether a client must have a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// No connection without one.
    Required,
    /// It may say otherwise who it is.
    Optional,
}

/// Who may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthConfig {
    /// The file of bearer tokens.
    pub tokens_file: Option<PathBuf>,
    /// Signed tokens.
    pub jwt: Option<JwtConfig>,
    /// Who the owners of client certificates are.
    pub certificates: Vec<CertificateConfig>,
    /// Who else may use the Unix socket.
    pub unix: Option<UnixGroupConfig>,
}

impl AuthConfig {
    /// Says whether it is known who calls.
    pub fn is_configured(&self) -> bool {
        self.has_credentials() || self.unix.is_some()
    }

    /// Says whether there is anything that callers over TCP can show.
    pub(super) fn has_credentials(&self) -> bool {
        self.tokens_file.is_some() || self.jwt.is_some() || !self.certificates.is_empty()
    }
}

/// The users that may use the Unix socket beside its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixGroupConfig {
    /// Their group: its name or number.
    pub group: String,
    /// Their scopes.
    pub scopes: Vec<String>,
}

/// Signed tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// The file of public keys.
    pub jwks_file: PathBuf,
    /// The only issuer that is accepted.
    pub issuer: String,
    /// The audience that a token must name.
    pub audience: String,
    /// The algorithms that are accepted.
    pub algorithms: Vec<String>,
    /// The claim with the principal's name.
    pub name_claim: String,
    /// The claim with the scopes.
    pub scope_claim: String,
    /// The claim with the workspaces; none: tokens are for all.
    pub workspace_claim: Option<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
}

/// Who the owner of a client certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateConfig {
    /// The common name in the subject.
    pub subject: Option<String>,
    /// One of the alternative names.
    pub san: Option<String>,
    /// The principal's name.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Its workspaces; none for all.
    pub workspaces: Option<Vec<String>>,
}

/// Bounds on what everybody and each may use; `docs/reference/limits.md` says what happens at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Calls that run at the same time; more wait for their turn.
    pub max_running_calls: u32,
    /// Those of one workspace.
    pub max_running_calls_per_workspace: Option<u32>,
    /// Those of one session.
    pub max_running_calls_per_session: Option<u32>,
    /// Those of one principal.
    pub max_running_calls_per_principal: Option<u32>,
    /// Calls that wait for their turn; more are refused.
    pub max_queued_calls: u32,
    /// Bytes of their inputs together.
    pub max_queued_bytes: u64,
    /// Requests of one principal, on average.
    pub max_requests_per_second: Option<u32>,
    /// Requests of one principal at once.
    pub max_request_burst: Option<u32>,
    /// Open streams.
    pub max_streams: u32,
    /// Those of one principal.
    pub max_streams_per_principal: Option<u32>,
    /// RPCs under way on one connection; the client's library holds more back.
    pub max_streams_per_connection: u32,
    /// Bytes of one gRPC message.
    pub max_message_bytes: u64,
    /// Prompts that wait for an answer.
    pub max_open_prompts: u32,
    /// Those of one session.
    pub max_open_prompts_per_session: Option<u32>,
    /// Bytes of one call's input.
    pub max_input_bytes: u64,
    /// Bytes of one call's stored output: enough for the log of a long build, too little to fill a disk.
    pub max_output_bytes: u64,
    /// Bytes of all stored outputs, of kept contents of files and of the database together; the oldest outputs go first.
    pub max_total_output_bytes: u64,
    /// Bytes that the files that one call changes may have together, before and after, so that it can be reverted.
    pub max_undo_bytes: u64,
    /// Bytes that must stay free on the disk: what would leave less is not stored.
    pub min_free_bytes: u64,
}

/// The service that the search tools ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchConfig {
    /// Its address.
    pub endpoint: Url,
    /// What tells it who asks.
    pub key: Option<ApiKey>,
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
