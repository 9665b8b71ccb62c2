//! From the values of all keys to the configuration in force: what concerns two keys is checked here, and what depends on
//! others gets its default.
//!
//! *Invariant:* an address that other machines can reach is refused unless callers must say who they are and the line is
//! encrypted, or somebody took the risk by name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_model::audit_key::Key as AuditKey;
use toolgate_permission::Unattended;
use toolgate_web as net;

use super::keys::*;
use super::layers::{Layer, Layers};
use super::parse::MAX_SOCKET_PATH_BYTES;
use super::values::*;
use super::{roles, secrets, telemetry, variables};
use crate::environment::Environment;
use crate::error::{ConfigError, Problem};
use crate::units::show_size;

/// Where OpenCode looks for the key of the search service.
const SEARCH_KEY_VARIABLE: &str = "EXA_API_KEY";

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where calls, outputs and grants are kept; absolute.
    pub data_dir: PathBuf,
    /// How long running calls may go on when the service stops.
    pub drain_grace: Duration,
    /// Where to listen.
    pub listen: ListenConfig,
    /// Encryption of TCP.
    pub tls: Option<TlsConfig>,
    /// Encryption of the listener for workers, if it has one of its own.
    pub worker_tls: Option<TlsConfig>,
    /// Whether the console is served.
    pub console: bool,
    /// Who may call.
    pub auth: AuthConfig,
    /// The root folders in which tools work, the default one first; at least one, but none in a gateway or a worker that waits.
    pub workspaces: Vec<WorkspaceConfig>,
    /// The folder of a worker that waits for a workspace: it has no name, and nothing is in `workspaces` then.
    pub unbound: Option<WorkspaceConfig>,
    /// The folders below which workspaces may be opened while the service runs.
    pub workspace_roots: Vec<WorkspaceRoot>,
    /// How workspaces are created while the service runs.
    pub created_workspaces: CreatedConfig,
    /// Bounds on what everybody and each may use.
    pub limits: LimitsConfig,
    /// How prompts are treated.
    pub permission: PermissionConfig,
    /// How what happened is stored.
    pub state: StateConfig,
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
    /// What tells the service that the search tools ask who does.
    pub search_key: Option<ApiKey>,
    /// What programs are confined to.
    pub sandbox: SandboxConfig,
    /// Which variables commands get.
    pub shell: ShellConfig,
    /// The JavaScript runtime for custom tools and plugins; none for the first one that is there.
    pub javascript_runtime: Option<String>,
    /// How language servers are used.
    pub lsp: LspConfig,
    /// What the service is for others.
    pub cluster: ClusterConfig,
    /// Who makes the places of workspaces that clients create, at a gateway.
    pub provisioner: ProvisionerConfig,
    /// Groups of workspaces with limits of their own, at a gateway.
    pub tenants: Vec<TenantConfig>,
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

impl Config {
    /// Returns the configuration of a listener to which neither pages of a browser nor SDKs of agent-sandbox come.
    #[must_use]
    pub fn for_workers_alone(&self) -> Self {
        let mut config = self.clone();
        config.console = false;
        config.listen.agent_sandbox = false;
        config.listen.origins.clear();
        config
    }

    /// Returns every value in force and where it comes from, in the order of the documentation.
    pub fn explain(&self) -> &[Setting] {
        &self.settings
    }
}

/// Who may call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthConfig {
    /// The file of bearer tokens.
    pub tokens_file: Option<PathBuf>,
    /// Signed tokens.
    pub jwt: Option<JwtConfig>,
    /// Who the owners of client certificates are.
    pub certificates: Vec<CertificateConfig>,
    /// Who else may use the Unix socket.
    pub unix: Option<UnixGroupConfig>,
    /// The ids of the principals that may say on whose behalf they call.
    pub gateways: Vec<String>,
    /// The ids of the principals that may register as workers.
    pub workers: Vec<String>,
    /// The file of rules that say which others may, and what each may have.
    pub workers_file: Option<PathBuf>,
    /// Signed tokens of workers.
    pub worker_jwt: Option<JwtConfig>,
    /// Whether gateways are told secrets by which they call.
    pub registers: bool,
    /// Whether the owner of the process must say who calls, too, on a Unix socket.
    pub owner_is_stranger: bool,
}

impl AuthConfig {
    /// Returns whether it is known who calls.
    pub fn is_configured(&self) -> bool {
        self.has_credentials() || self.unix.is_some()
    }

    /// Returns whether workers may register.
    pub fn takes_workers(&self) -> bool {
        !self.workers.is_empty() || self.workers_file.is_some()
    }

    /// Returns whether there is anything that callers over TCP can show.
    pub(super) fn has_credentials(&self) -> bool {
        self.tokens_file.is_some() || self.jwt.is_some() || !self.certificates.is_empty() || self.registers
    }
}

impl ListenConfig {
    /// Returns whether only this machine can connect.
    pub fn is_local(&self) -> bool {
        self.tcp.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl AuditConfig {
    /// Returns the key that the records are made with.
    pub fn key(&self) -> Option<&AuditKey> {
        self.key_file.as_ref().map(|(_, key)| key)
    }
}

/// Makes the configuration of layers, the strongest last.
pub(super) fn config(given: &[Layer<'_>], env: &Environment) -> Result<Config, ConfigError> {
    let mut layers = Layers {
        layers: given,
        env,
        settings: Vec::new(),
        warnings: Vec::new(),
    };
    let keys = Keys::read(&mut layers)?;
    let general = keys.general;
    if general.data_dir.as_os_str().is_empty() {
        let message = "there is no home folder to keep data in: set data_dir or TOOLGATE_DATA_DIR";
        let problem = Problem::new(None, "data_dir", message);
        return Err(ConfigError::invalid_in("in the environment", problem));
    }
    let is_gateway = keys.cluster.role == ClusterRole::Gateway;
    let listen = listen(&mut layers, keys.listen, &general.data_dir, is_gateway)?;
    let tls = tls(&layers, "listen.tls", keys.tls)?;
    let worker_tls = worker_tls(&layers, keys.worker_tls)?;
    let auth = AuthConfig {
        tokens_file: keys.auth.tokens_file,
        jwt: jwt(&layers, "auth.jwt", keys.jwt)?,
        certificates: keys.auth.certificates,
        unix: unix_group(&layers, keys.unix)?,
        gateways: keys.auth.gateways,
        workers: keys.auth.workers,
        workers_file: keys.auth.workers_file,
        worker_jwt: worker_jwt(&layers, keys.worker_jwt)?,
        registers: !keys.cluster.gateways.is_empty(),
        // A command that a worker on the same machine runs has the same user, and must not count as a person.
        owner_is_stranger: is_gateway,
    };
    roles::check(&layers, &keys.cluster, &auth, tls.as_ref())?;
    if is_gateway && layers.has("data_dir") {
        layers.warn("data_dir has no effect on a gateway, which stores nothing in it: remove it".to_owned());
    }
    roles::check_provisioner(&layers, &keys.cluster, &keys.provisioner)?;
    check_reach(&layers, &listen, [tls.as_ref(), worker_tls.as_ref()], &auth)?;
    roles::check_listener(&layers, &keys.cluster, &listen, worker_tls.as_ref().or(tls.as_ref()))?;
    check_limits(&layers, &keys.limits)?;
    let permission = permission(&mut layers, keys.permission, listen.is_local(), &auth)?;
    let workspaces = Some(general.workspaces).filter(|_| !is_gateway).unwrap_or_default();
    let workspaces: Vec<WorkspaceConfig> = workspaces
        .into_iter()
        .map(|entry| WorkspaceConfig {
            name: entry.name,
            directory: entry.directory,
            self_approval: entry.self_approval,
            trust: entry.trust.unwrap_or(general.trust),
        })
        .collect();
    let (mut unbound, workspaces): (Vec<_>, Vec<_>) =
        workspaces.into_iter().partition(|workspace| workspace.name.is_empty());
    let unbound = unbound.pop();
    roles::check_unbound(&layers, keys.cluster.role, unbound.as_ref(), workspaces.len())?;
    let workspace_roots = general.workspace_roots.into_iter().map(|root| WorkspaceRoot {
        directory: root.directory,
        trust: root.trust.unwrap_or(general.trust),
    });
    let workspace_roots: Vec<WorkspaceRoot> = workspace_roots.collect();
    check_created(&layers, &keys.created_workspaces, &workspace_roots, &workspaces)?;
    // Inside a workspace it is a file like others, and hiding it would be in the way of every command.
    let is_outside = |path: &PathBuf| {
        !workspaces
            .iter()
            .chain(&unbound)
            .any(|workspace| path.starts_with(&workspace.directory))
    };
    let private_files = [
        tls.iter().chain(&worker_tls).map(|tls| tls.key.clone()).collect(),
        auth.tokens_file.iter().chain(&auth.workers_file).cloned().collect(),
        keys.cluster
            .workers
            .iter()
            .flat_map(|worker| worker.token_file.iter().chain(&worker.key).cloned())
            .collect(),
        keys.cluster.identity.iter().chain(&keys.cluster.key).cloned().collect(),
        roles::files_of(&keys.provisioner),
        auth.jwt
            .iter()
            .chain(&auth.worker_jwt)
            .map(|jwt| jwt.jwks_file.clone())
            .collect(),
        paths(keys.cluster.store_file.as_slice()),
        paths(keys.cluster.outputs_keys_file.as_slice()),
        paths(keys.audit.key_file.as_slice()),
        paths(keys.search.key_file.as_slice()),
        paths(&keys.redact.files),
        given.iter().filter_map(Layer::path).filter(is_outside).collect(),
    ]
    .concat();
    let redact = redact(&mut layers, keys.redact)?;
    let search_key = search_key(&mut layers, keys.search.key_file.as_ref().map(|(_, key)| key));
    layers.show("sandbox.agents", keys.sandbox.show_agents());
    let [traces, metrics] = telemetry::collectors(&mut layers, keys.telemetry.otlp_endpoint.as_ref());
    layers.warnings.extend(variables::unknown(env));
    Ok(Config {
        data_dir: general.data_dir,
        drain_grace: general.drain_grace,
        listen,
        tls,
        worker_tls,
        console: general.console,
        auth,
        workspace_roots,
        created_workspaces: keys.created_workspaces,
        workspaces,
        unbound,
        limits: keys.limits,
        permission,
        state: keys.state,
        retention: keys.retention,
        audit: keys.audit,
        redact,
        network: net::Settings {
            allow: keys.network.allow,
            proxy: keys.network.proxy,
        },
        search: keys.search,
        search_key,
        sandbox: keys.sandbox,
        shell: keys.shell,
        javascript_runtime: keys.extensions.runtime,
        lsp: keys.lsp,
        cluster: keys.cluster,
        provisioner: keys.provisioner,
        tenants: general.tenants,
        telemetry: TelemetryConfig {
            admin: keys.telemetry.admin,
            traces,
            metrics,
            attributes: telemetry::attributes(env),
        },
        log: keys.log,
        private_files,
        warnings: layers.warnings,
        settings: layers.settings,
    })
}

/// Checks that nobody else names folders where workspaces are created.
fn check_created(
    layers: &Layers<'_>,
    created: &CreatedConfig,
    roots: &[WorkspaceRoot],
    workspaces: &[WorkspaceConfig],
) -> Result<(), ConfigError> {
    let Some(directory) = &created.directory else {
        let key = "created_workspaces.templates";
        let message = "it is not said where workspaces are created: set created_workspaces.directory";
        return match created.templates {
            Some(_) => Err(layers.conflict(key, message)),
            None => Ok(()),
        };
    };
    let key = "created_workspaces.directory";
    if directory.parent().is_none() {
        return Err(layers.conflict(key, "expected a folder below /, found / itself"));
    }
    let others = roots.iter().map(|root| &root.directory);
    let others = others.chain(workspaces.iter().map(|workspace| &workspace.directory));
    let others = others.chain(&created.templates);
    for other in others {
        if other.starts_with(directory) || directory.starts_with(other) {
            let message = format!(
                "it lies in, around or at {}, where other workspaces or the templates are: give created workspaces a folder of their own",
                other.display()
            );
            return Err(layers.conflict(key, message));
        }
    }
    Ok(())
}

fn paths<T>(files: &[(PathBuf, T)]) -> Vec<PathBuf> {
    files.iter().map(|(path, _)| path.clone()).collect()
}

/// Picks the socket where nobody says which, and checks that there is something to listen on.
fn listen(
    layers: &mut Layers<'_>,
    mut listen: ListenConfig,
    data_dir: &Path,
    is_gateway: bool,
) -> Result<ListenConfig, ConfigError> {
    // The usual path is that of a service that runs calls.
    if !is_gateway && !layers.has("listen.unix") {
        // Services side by side have data directories of their own, and so each has its socket.
        let folder = layers.env.runtime_dir().filter(|_| !layers.has("data_dir"));
        let socket = folder.unwrap_or(data_dir).join("toolgate.sock");
        if socket.as_os_str().len() <= MAX_SOCKET_PATH_BYTES {
            layers.show("listen.unix", socket.display().to_string());
            listen.unix = Some(socket);
        } else {
            layers.warn(format!("no Unix socket: the path {} is too long", socket.display()));
        }
    }
    if listen.tcp.is_none() && listen.unix.is_none() {
        return Err(layers.conflict("listen.tcp", "nothing to listen on: give listen.tcp or listen.unix"));
    }
    Ok(listen)
}

fn tls(layers: &Layers<'_>, part: &str, tls: TlsConfig) -> Result<Option<TlsConfig>, ConfigError> {
    let [certificate, key, client_ca] = ["certificate", "key", "client_ca"].map(|key| format!("{part}.{key}"));
    let no_certificate = "the certificate is missing: TLS needs both certificate and key";
    layers.requires(&key, &certificate, no_certificate)?;
    layers.requires(&client_ca, &certificate, no_certificate)?;
    layers.requires(
        &certificate,
        &key,
        "the private key is missing: TLS needs both certificate and key",
    )?;
    Ok(layers.has(&certificate).then_some(tls))
}

fn worker_tls(layers: &Layers<'_>, tls_of_workers: WorkerTlsConfig) -> Result<Option<TlsConfig>, ConfigError> {
    let WorkerTlsConfig {
        certificate,
        key,
        client_ca,
    } = tls_of_workers;
    let settings = TlsConfig {
        certificate,
        key,
        client_ca,
        client_auth: ClientAuth::Optional,
    };
    tls(layers, "cluster.tls", settings)
}

fn jwt(layers: &Layers<'_>, part: &str, jwt: JwtConfig) -> Result<Option<JwtConfig>, ConfigError> {
    let file = format!("{part}.jwks_file");
    for key in ["issuer", "audience"] {
        let key = format!("{part}.{key}");
        layers.requires(&key, &file, &format!("the file of public keys is missing: set {file}"))?;
        let message = format!("{key} is missing: a token must name its issuer and be meant for this service");
        layers.requires(&file, &key, &message)?;
    }
    Ok(layers.has(&file).then_some(jwt))
}

/// Reads the settings for signed tokens of workers as those of others are: what a worker may is in no claim.
fn worker_jwt(layers: &Layers<'_>, tokens: WorkerJwtConfig) -> Result<Option<JwtConfig>, ConfigError> {
    let settings = JwtConfig {
        jwks_file: tokens.jwks_file,
        issuer: tokens.issuer,
        audience: tokens.audience,
        algorithms: tokens.algorithms,
        name_claim: "sub".to_owned(),
        scope_claim: String::new(),
        workspace_claim: None,
        leeway: tokens.leeway,
    };
    jwt(layers, "cluster.jwt", settings)
}

fn unix_group(layers: &Layers<'_>, unix: UnixGroupConfig) -> Result<Option<UnixGroupConfig>, ConfigError> {
    let is_set = !unix.group.is_empty();
    match (is_set, unix.scopes.is_empty()) {
        (true, true) => {
            let message = "it is not said what the group may do: set auth.unix.scopes";
            Err(layers.conflict("auth.unix.group", message))
        }
        (false, false) => Err(layers.conflict("auth.unix.scopes", "it is not said who has them: set auth.unix.group")),
        (true, false) | (false, true) => Ok(is_set.then_some(unix)),
    }
}

/// Refuses what would let strangers in.
fn check_reach(
    layers: &Layers<'_>,
    listen: &ListenConfig,
    [tls, worker_tls]: [Option<&TlsConfig>; 2],
    auth: &AuthConfig,
) -> Result<(), ConfigError> {
    let knows_clients = |tls: Option<&TlsConfig>| tls.is_some_and(|tls| tls.client_ca.is_some());
    if !auth.certificates.is_empty() && !knows_clients(tls) && !knows_clients(worker_tls) {
        let message = "nobody can show a certificate: set listen.tls.client_ca to the authority that signs them";
        return Err(layers.conflict("auth.certificates", message));
    }
    if auth.unix.is_some() {
        let group = "auth.unix.group";
        if listen.unix.is_none() {
            return Err(layers.conflict(group, "there is no socket for it: listen.unix is none"));
        }
        if listen.tcp.is_some() && !auth.has_credentials() {
            let message = "its members would be asked who they are, but nobody could say so over TCP: set listen.tcp to \
                           none, or auth.tokens_file, auth.jwt or auth.certificates";
            return Err(layers.conflict(group, message));
        }
    }
    let Some(address) = listen.tcp.filter(|_| !listen.is_local()) else {
        return Ok(());
    };
    let missing = match (tls.is_some() || listen.insecure, auth.has_credentials()) {
        (true, true) => return Ok(()),
        (false, true) => {
            "the line is not encrypted: set listen.tls.certificate and listen.tls.key, or listen.insecure (--insecure) \
             if something in front of the service encrypts"
        }
        (true, false) => "nobody would be asked who they are: set auth.tokens_file, auth.jwt or auth.certificates",
        (false, false) => {
            "there is neither TLS nor authentication: set listen.tls.certificate and listen.tls.key (or \
             listen.insecure, --insecure, if something in front of the service encrypts), and auth.tokens_file, \
             auth.jwt or auth.certificates"
        }
    };
    let message = format!(
        "other machines can reach {address}, and {missing}; or listen on a loopback address such as {DEFAULT_TCP}"
    );
    Err(layers.conflict("listen.tcp", message))
}

fn check_limits(layers: &Layers<'_>, limits: &LimitsConfig) -> Result<(), ConfigError> {
    if limits.max_requests_per_second.is_none() && limits.max_request_burst.is_some() {
        let message = "it says nothing without limits.max_requests_per_second";
        return Err(layers.conflict("limits.max_request_burst", message));
    }
    let input = limits.max_input_bytes;
    let message_key = "limits.max_message_bytes";
    let largest = show_size(MAX_MESSAGE_BYTES);
    if input > MAX_MESSAGE_BYTES && !layers.has(message_key) {
        // It is the input that no message can carry.
        let message = format!("expected at most {largest}, found {}", show_size(input));
        return Err(layers.conflict("limits.max_input_bytes", message));
    }
    let at_least = |key: &str, bytes: u64, other: &str, least: u64| match bytes >= least {
        true => Ok(()),
        false => {
            let (least, bytes) = (show_size(least), show_size(bytes));
            Err(layers.conflict(key, format!("expected at least {other}, {least}, found {bytes}")))
        }
    };
    at_least(
        "limits.max_queued_bytes",
        limits.max_queued_bytes,
        "limits.max_input_bytes",
        input,
    )?;
    if !(input..=MAX_MESSAGE_BYTES).contains(&limits.max_message_bytes) {
        let (input, found) = (show_size(input), show_size(limits.max_message_bytes));
        let message = format!("expected from limits.max_input_bytes, {input}, to {largest}, found {found}");
        return Err(layers.conflict(message_key, message));
    }
    let (one, all) = (limits.max_output_bytes, limits.max_total_output_bytes);
    at_least("limits.max_total_output_bytes", all, "limits.max_output_bytes", one)
}

/// Picks how long prompts wait, and whose replies count.
fn permission(
    layers: &mut Layers<'_>,
    mut permission: PermissionConfig,
    is_local: bool,
    auth: &AuthConfig,
) -> Result<PermissionConfig, ConfigError> {
    if !is_local && !layers.has("permission.timeout") {
        permission.timeout = Some(Duration::from_secs(600));
        layers.show("permission.timeout", "10m".to_owned());
    }
    if let Unattended::Attended(within) = &mut permission.unattended {
        *within = permission.attended_within;
    }
    if permission.self_approval.is_none() {
        let default = if auth.is_configured() { "owner only" } else { "true" };
        layers.show("permission.self_approval", default.to_owned());
    }
    if auth.is_configured() {
        return Ok(permission);
    }
    let alone = "needs authentication: without it everybody counts as the same one";
    if permission.self_approval == Some(false) {
        let message = format!("false {alone}, and nobody could answer a prompt");
        return Err(layers.conflict("permission.self_approval", message));
    }
    if !permission.second_approver.is_empty() {
        let message = format!("{alone}, and there is no second one");
        return Err(layers.conflict("permission.second_approver", message));
    }
    Ok(permission)
}

fn redact(layers: &mut Layers<'_>, redact: Redact) -> Result<RedactConfig, ConfigError> {
    let unset = redact.values_from_env.iter().filter(|(_, values)| values.0.is_empty());
    unset.for_each(|(name, _)| layers.warn(format!("redact.values_from_env: the variable {name} is not set")));
    let of_variables = redact.values_from_env.into_iter().flat_map(|(_, values)| values.0);
    let of_files = redact.files.into_iter().flat_map(|(_, values)| values.0);
    let secrets: Vec<String> = of_variables.chain(of_files).collect();
    secrets::redactor(&secrets, &redact.patterns)
        .map(RedactConfig)
        .map_err(|message| layers.conflict("redact.files", message))
}

fn search_key(layers: &mut Layers<'_>, of_file: Option<&ApiKey>) -> Option<ApiKey> {
    of_file
        .cloned()
        .or_else(|| match ApiKey::parse(layers.env.get(SEARCH_KEY_VARIABLE)?) {
            Ok(key) => Some(key),
            Err(why) => {
                layers.warn(format!("the variable {SEARCH_KEY_VARIABLE} has no effect: {why}"));
                None
            }
        })
}
