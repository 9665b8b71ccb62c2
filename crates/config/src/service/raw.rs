//! The configuration as somebody writes it: the tables of `toolgate.toml`, which variables and flags fill as well.
//!
//! *Invariant:* nothing is checked here but the form: what a value means is found out where all that was said is put together.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a file, the variables or the flags may say. Everything may be absent; nothing else may be there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawConfig {
    /// Where calls, outputs and grants are kept.
    pub data_dir: Option<String>,
    /// How long running calls may go on when the service stops.
    pub drain_grace: Option<String>,
    /// Whether code that projects bring is run, where a workspace does not say.
    pub trust: Option<bool>,
    /// Whether the console is served.
    pub console: Option<bool>,
    /// Where to listen.
    pub listen: RawListen,
    /// Who may call.
    pub auth: RawAuth,
    /// The root folders in which tools work.
    pub workspaces: Option<Vec<RawWorkspace>>,
    /// Bounds on what calls may use.
    pub limits: RawLimits,
    /// How prompts are treated.
    pub permission: RawPermission,
    /// How long things are kept.
    pub retention: RawRetention,
    /// How the audit is kept.
    pub audit: RawAudit,
    /// What is shown to nobody.
    pub redact: RawRedact,
    /// Which servers tools may reach.
    pub network: RawNetwork,
    /// Where the search tools ask.
    pub search: RawSearch,
    /// What programs are confined to.
    pub sandbox: RawSandbox,
    /// How commands are run.
    pub shell: RawShell,
    /// How custom tools and plugins are run.
    pub extensions: RawExtensions,
    /// How language servers are used.
    pub lsp: RawLsp,
    /// What operators see of the service.
    pub telemetry: RawTelemetry,
    /// What is logged.
    pub log: RawLog,
}

/// The part `listen`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawListen {
    /// `address:port`, or `none`.
    pub tcp: Option<String>,
    /// The path of a Unix socket, or `none`.
    pub unix: Option<String>,
    /// Accepts an address that other machines can reach.
    pub insecure: Option<bool>,
    /// Who of this machine may connect by TCP without authentication: `same` or `any`.
    pub local_users: Option<String>,
    /// The origins of the web pages that may call, such as `http://localhost:3000`.
    pub origins: Option<Vec<String>>,
    /// Encryption.
    pub tls: RawTls,
}

/// The part `listen.tls`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawTls {
    /// The certificate chain, PEM.
    pub certificate: Option<String>,
    /// Its private key, PEM.
    pub key: Option<String>,
    /// The authorities whose client certificates are accepted, PEM.
    pub client_ca: Option<String>,
    /// `required` or `optional`.
    pub client_auth: Option<String>,
}

/// The part `auth`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawAuth {
    /// The file of bearer tokens.
    pub tokens_file: Option<String>,
    /// Signed tokens.
    pub jwt: RawJwt,
    /// Who the owners of client certificates are.
    pub certificates: Option<Vec<RawCertificate>>,
    /// Who else may use the Unix socket.
    pub unix: RawUnix,
}

/// The part `auth.unix`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawUnix {
    /// The group whose members may use the socket: its name or number.
    pub group: Option<String>,
    /// Their scopes.
    pub scopes: Option<Vec<String>>,
}

/// The part `auth.jwt`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawJwt {
    /// The file of public keys.
    pub jwks_file: Option<String>,
    /// The only issuer that is accepted.
    pub issuer: Option<String>,
    /// The audience that a token must name.
    pub audience: Option<String>,
    /// The algorithms that are accepted.
    pub algorithms: Option<Vec<String>>,
    /// The claim with the principal's name.
    pub name_claim: Option<String>,
    /// The claim with the scopes.
    pub scope_claim: Option<String>,
    /// The claim with the workspaces.
    pub workspace_claim: Option<String>,
    /// By how much clocks may differ.
    pub leeway: Option<String>,
}

/// One entry of `auth.certificates`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawCertificate {
    /// The common name in the subject.
    #[serde(default)]
    pub subject: Option<String>,
    /// One of the alternative names: a DNS name, a mail address or a URI.
    #[serde(default)]
    pub san: Option<String>,
    /// The principal's name.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Its workspaces; all if absent.
    #[serde(default)]
    pub workspaces: Option<Vec<String>>,
}

/// One entry of `workspaces`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawWorkspace {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub directory: String,
    /// Whether a principal may answer prompts of its own calls here.
    #[serde(default)]
    pub self_approval: Option<bool>,
    /// Whether code that the project brings is run here.
    #[serde(default)]
    pub trust: Option<bool>,
}

/// A size: an integer, or a text such as `8MiB`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a number of bytes such as 1048576 or \"8MiB\"")]
pub enum RawSize {
    /// Bytes.
    Bytes(u64),
    /// With a unit.
    Text(String),
}

/// The part `limits`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawLimits {
    /// Calls that run at the same time.
    pub max_running_calls: Option<i64>,
    /// Those of one workspace.
    pub max_running_calls_per_workspace: Option<i64>,
    /// Those of one session.
    pub max_running_calls_per_session: Option<i64>,
    /// Those of one principal.
    pub max_running_calls_per_principal: Option<i64>,
    /// Calls that wait for their turn.
    pub max_queued_calls: Option<i64>,
    /// Size of their inputs together.
    pub max_queued_bytes: Option<RawSize>,
    /// Requests of one principal, on average.
    pub max_requests_per_second: Option<i64>,
    /// Requests of one principal at once.
    pub max_request_burst: Option<i64>,
    /// Open streams.
    pub max_streams: Option<i64>,
    /// Those of one principal.
    pub max_streams_per_principal: Option<i64>,
    /// RPCs under way on one connection.
    pub max_streams_per_connection: Option<i64>,
    /// Size of one message.
    pub max_message_bytes: Option<RawSize>,
    /// Prompts that wait for an answer.
    pub max_open_prompts: Option<i64>,
    /// Those of one session.
    pub max_open_prompts_per_session: Option<i64>,
    /// Size of one call's input.
    pub max_input_bytes: Option<RawSize>,
    /// Size of one call's stored output.
    pub max_output_bytes: Option<RawSize>,
    /// Size of all stored outputs together.
    pub max_total_output_bytes: Option<RawSize>,
    /// Size of what is kept of the files of one call, so that it can be reverted.
    pub max_undo_bytes: Option<RawSize>,
    /// Free space that storing outputs leaves on the disk.
    pub min_free_bytes: Option<RawSize>,
}

/// The part `permission`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawPermission {
    /// How long a prompt waits, or `none`.
    pub timeout: Option<String>,
    /// What happens to a prompt while nobody is listening: `wait`, `refuse` or `attended`.
    pub unattended: Option<String>,
    /// Whether a principal may answer prompts of its own calls.
    pub self_approval: Option<bool>,
    /// The permissions for which two principals must approve.
    pub second_approver: Option<Vec<String>>,
    /// With `attended`: how long ago an approver may have left.
    pub attended_within: Option<String>,
}

/// The part `retention`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawRetention {
    /// Stored outputs.
    pub outputs: Option<String>,
    /// Records of calls.
    pub calls: Option<String>,
    /// Events of workspaces, for those who reconnect.
    pub journal: Option<String>,
}

/// The part `audit`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawAudit {
    /// The file of the key that the records are made with, or `none`.
    pub key_file: Option<String>,
    /// How long records are kept, or `none` for ever.
    pub retention: Option<String>,
}

/// The part `redact`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawRedact {
    /// Variables of the environment whose values are secrets.
    pub values_from_env: Option<Vec<String>>,
    /// Files whose lines are secrets.
    pub files: Option<Vec<String>>,
    /// Regular expressions for what else is a secret.
    pub patterns: Option<Vec<String>>,
}

/// The part `network`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawNetwork {
    /// Hosts and networks that tools may reach although they are not of the public internet.
    pub allow: Option<Vec<String>>,
    /// `none`, `environment` or the address of a proxy.
    pub proxy: Option<String>,
}

/// The part `search`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSearch {
    /// The address of a service that answers like Exa's.
    pub endpoint: Option<String>,
    /// The file of the key for it, or `none`.
    pub key_file: Option<String>,
}

/// The part `sandbox`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSandbox {
    /// `off`, `workspace-write` or `read-only`.
    pub mode: Option<String>,
    /// `ask`, `allow` or `deny`.
    pub network: Option<String>,
    /// Refuses to start where the kernel cannot enforce it.
    pub required: Option<bool>,
    /// Paths that programs may write in addition.
    pub writable: Option<Vec<String>>,
    /// Paths that programs may read although they are hidden.
    pub readable: Option<Vec<String>>,
    /// Paths that programs may neither read nor write, in addition to the service's own.
    pub hidden: Option<Vec<String>>,
    /// What programs may write of the caches of toolchains.
    pub caches: Option<Vec<String>>,
    /// What they may not write inside of workspaces.
    pub protected: Option<Vec<String>>,
    /// The Unix sockets that they may connect to.
    pub sockets: Option<Vec<String>>,
    /// What differs for agents, by name.
    pub agents: Option<BTreeMap<String, RawSandboxAgent>>,
}

/// What differs for one agent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSandboxAgent {
    /// `off`, `workspace-write` or `read-only`.
    pub mode: Option<String>,
    /// `ask`, `allow` or `deny`.
    pub network: Option<String>,
}

/// The part `extensions`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawExtensions {
    /// The JavaScript runtime: a name to be found in `PATH`, or an absolute path.
    pub runtime: Option<String>,
}

/// The part `lsp`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawLsp {
    /// How long the result of an edit may wait for what language servers say of it.
    pub diagnostics_wait: Option<String>,
}

/// The part `shell`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawShell {
    /// The environment of commands.
    pub environment: RawShellEnvironment,
}

/// The part `shell.environment`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawShellEnvironment {
    /// The variables of the service that commands get; `*` stands for any characters.
    pub allow: Option<Vec<String>>,
    /// The variables that commands do not get, whatever is allowed.
    pub deny: Option<Vec<String>>,
}

/// The part `telemetry`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawTelemetry {
    /// `address:port` for metrics and probes, or `none`.
    pub admin: Option<String>,
    /// The address of a collector of traces, or `none`.
    pub otlp_endpoint: Option<String>,
}

/// The part `log`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawLog {
    /// `text` or `json`.
    pub format: Option<String>,
    /// Which messages, as `tracing` filters are written.
    pub filter: Option<String>,
}
