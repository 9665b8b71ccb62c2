//! The table of keys: of each its name, what it means, the type and the kind of its values, and its default.
//!
//! From a row follow the field of its part, how a file, a variable and a flag are read, the checks, `toolgate config` and
//! the reference page (`docs/reference/configuration.md`), whose text is the documentation here. A new key is a new row.
//!
//! *Invariant:* each value is checked by itself here; what concerns two keys is in `resolve`. A default may use the values
//! of the rows above it in its part.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use toolgate_model::Durability;
use toolgate_model::audit_key::Key as AuditKey;
use toolgate_permission::Unattended;
use toolgate_web::{Allowed, Proxy, Url};

use super::bucket::{self, BucketKeys};
use super::cluster;
use super::kinds::*;
use super::layers::{Key, Layers};
use super::parse;
use super::provisioner;
use super::sandbox;
use super::secrets::{self, Secrets};
use super::values::*;
use crate::error::ConfigError;

/// The largest message unless a larger input is allowed. It is well above that limit, so that a large input gets an error
/// that says what to do.
pub const DEFAULT_MESSAGE_BYTES: usize = 32 << 20;

/// The largest message that gRPC clients of all languages can send.
pub(super) const MAX_MESSAGE_BYTES: u64 = (1 << 31) - 1;

/// Where the service listens unless somebody says otherwise.
pub(super) const DEFAULT_TCP: &str = "127.0.0.1:50551";

const DAY: Duration = Duration::from_secs(86_400);

/// How long ago an approver may have left, so that prompts still wait.
const ATTENDED_WITHIN: Duration = Duration::from_secs(600);

/// By how much clocks may differ at most: a leeway keeps expired tokens alive.
const MAX_LEEWAY: Duration = Duration::from_secs(300);

/// A shorter lease is lost by a short pause of a machine, and a longer one keeps people waiting.
const LEASE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(600));

/// A language server that takes longer is better heard of later.
const MAX_DIAGNOSTICS_WAIT: Duration = Duration::from_secs(3);

/// Makes of each part a struct with a field for each key, and of all of them [`Keys`] and [`KEYS`]. A part is
/// `pub part: Struct in "prefix." { rows }`, a row is `key: Type = kind, default;`. `$layers` is the name by which defaults
/// know the layers.
macro_rules! keys {
    (|$layers:ident| $(
        $(#[$about:meta])*
        $vis:vis $part:ident: $struct:ident in $prefix:literal {
            $( $(#[doc = $doc:literal])* $key:ident: $type:ty = $kind:expr, $default:expr; )*
        }
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq)]
            $vis struct $struct { $( $(#[doc = $doc])* $vis $key: $type, )* }

            impl $struct {
                fn read($layers: &mut Layers<'_>) -> Result<Self, ConfigError> {
                    $(
                        let default: $type = $default;
                        let $key = $layers.value(concat!($prefix, stringify!($key)), &$kind, default)?;
                    )*
                    Ok(Self { $($key),* })
                }
            }
        )*

        /// The values of all keys, each valid by itself.
        pub(super) struct Keys { $(pub(super) $part: $struct,)* }

        impl Keys {
            /// Takes them out of the layers.
            pub(super) fn read(layers: &mut Layers<'_>) -> Result<Self, ConfigError> {
                Ok(Self { $($part: $struct::read(layers)?,)* })
            }
        }

        /// Every key of the configuration, in the order of the documentation.
        pub const KEYS: &[Key] = &[$($(Key {
            path: concat!($prefix, stringify!($key)),
            doc: concat!($($doc),*),
            shape: || $kind.shape,
            check: |written| $kind.check(written),
        },)*)*];
    };
}

keys! { |layers|
    /// The keys that belong to no part.
    pub(super) general: General in "" {
        /// The folder of records, outputs and the socket, readable by its owner only (`--data-dir`).
        data_dir: PathBuf = path(), layers.env.data_home().map(|home| home.join("toolgate")).unwrap_or_default();
        /// How long running calls may go on when the service stops.
        drain_grace: Duration = duration(), Duration::from_secs(10);
        /// Serve the [console](../start.md#in-a-browser) (`--console`).
        console: bool = switch(), false;
        /// Run the code that projects bring, in every workspace that does not say otherwise (`--trust`); see
        /// [Trust](../extend/README.md#trust).
        trust: bool = switch(), false;
        /// The folders in which tools work, by name; the first is the default (`--workspace`). Without an entry it is the
        /// folder that the service is started in.
        workspaces: Vec<RawWorkspace> = parse::workspaces(), vec![RawWorkspace {
            name: "default".to_owned(),
            directory: layers.env.cwd().to_path_buf(),
            self_approval: None,
            trust: None,
        }];
        /// The folders below which clients may open workspaces while the service runs, each with `directory` and, if it
        /// differs from the general one, `trust`; see [Workspaces at run time](../operate/workspaces.md). Without any,
        /// the workspaces are fixed.
        workspace_roots: Vec<RawRoot> = parse::roots(), Vec::new();
        /// On a gateway: groups of workspaces with limits of their own, each in its table such as `[tenants.acme]` with `workspaces`
        /// (names, and `PREFIX/*`), `max_workspaces` and `max_running_calls`; see
        /// [Tenants](../operate/gateway.md#tenants).
        tenants: Vec<TenantConfig> = cluster::tenants(), Vec::new();
    }

    /// Workspaces that are created while the service runs.
    pub created_workspaces: CreatedConfig in "created_workspaces." {
        /// The folder in which workspaces get folders of their own that clients create while the service runs; see
        /// [Created workspaces](../operate/workspaces.md#created-workspaces). Without it, none are created.
        directory: Option<PathBuf> = path().optional(), None;
        /// The folder whose folders are the templates, by their names, that workspaces are created from.
        templates: Option<PathBuf> = path().optional(), None;
        /// Run the code that created workspaces bring.
        trust: bool = switch(), false;
        /// What resumes a suspended workspace: the first call or reply, `calls`, or only a request for just that, `requests`.
        resume: ResumeBy = word(ResumeBy::WORDS), ResumeBy::Calls;
        /// Bytes of what a workspace is created from, on the disk.
        max_bytes: u64 = size(), 2 << 30;
        /// How long it may take to create one.
        timeout: Duration = more_than_nothing(""), Duration::from_secs(600);
    }

    /// Custom tools and plugins.
    pub(super) extensions: ExtensionsConfig in "extensions." {
        /// The JavaScript runtime for custom tools and plugins: a name in `PATH` or a path. By itself the service takes the
        /// first of bun, deno, node (22.18 or later) and opencode.
        runtime: Option<String> = parse::runtime(), None;
    }

    /// How language servers are used.
    pub lsp: LspConfig in "lsp." {
        /// How long the result of an edit may wait for
        /// [what language servers say of it](../extend/lsp.md#what-language-servers-say-of-edits); `0s` to `3s`.
        diagnostics_wait: Duration = at_most(MAX_DIAGNOSTICS_WAIT), Duration::from_millis(500);
    }

    /// What is logged.
    pub log: LogConfig in "log." {
        /// How the log is written to standard error: `text`, or `json` for machines.
        format: LogFormat = word(LogFormat::WORDS), LogFormat::Text;
        /// Which messages are logged: a filter of `tracing`, such as `info,toolgate=debug`.
        filter: String = text(parse::log_filter), "info".to_owned();
    }

    /// Where to listen: on at least one of the two.
    pub listen: ListenConfig in "listen." {
        /// Address and port for gRPC, gRPC-Web, MCP and the console (`--listen`), or `none`.
        tcp: Option<SocketAddr> = parse::address(DEFAULT_TCP), DEFAULT_TCP.parse().ok();
        /// The path of a Unix socket (`--socket`), or `none`. The default is in `XDG_RUNTIME_DIR`, or in `data_dir` if that is set or there is no such folder.
        unix: Option<PathBuf> = parse::socket().or_none(), None;
        /// Accept an address that other machines can reach without TLS, because something in front of the service encrypts
        /// (`--insecure`).
        insecure: bool = switch(), false;
        /// Who may connect by TCP where no authentication is set up: `same` is the service's own user, `any` is every user
        /// of a network that containers share.
        local_users: LocalUsers = word(LocalUsers::WORDS), LocalUsers::Same;
        /// The origins of web pages that may call, such as `http://localhost:3000`.
        origins: Vec<String> = list(text(parse::origin)), Vec::new();
        /// Serve the SDKs of agent-sandbox, on the same port; see
        /// [Pods of agent-sandbox](../operate/agent-sandbox.md#its-sdks).
        agent_sandbox: bool = switch(), false;
        /// How long a request of gRPC may take to bring its first message.
        request_timeout: Duration = duration(), Duration::from_secs(60);
    }

    /// Encryption of TCP. A path that is empty is not set.
    pub tls: TlsConfig in "listen.tls." {
        /// The certificate chain of the service, PEM.
        certificate: PathBuf = path(), PathBuf::new();
        /// The private key of the certificate, PEM.
        key: PathBuf = path(), PathBuf::new();
        /// The authorities whose client certificates are accepted, PEM.
        client_ca: Option<PathBuf> = path().optional(), None;
        /// Whether clients must have a certificate, with `client_ca`: `required`, or `optional` where clients may
        /// authenticate otherwise.
        client_auth: ClientAuth = word(ClientAuth::WORDS), ClientAuth::Required;
    }

    /// Who may call.
    pub(super) auth: Auth in "auth." {
        /// The file of bearer tokens, readable by its owner and at most its group.
        tokens_file: Option<PathBuf> = path().optional(), None;
        /// Who the owners of client certificates are: entries with `subject` or `san`, `name`, `scopes`, `workspaces`.
        certificates: Vec<CertificateConfig> = parse::certificates(), Vec::new();
        /// The [gateways](../operate/gateway.md): the principals that may say on whose behalf they call, by their ids as the
        /// audit shows them, such as `token:gateway`.
        gateways: Vec<String> = list(text(cluster::gateway)), Vec::new();
        /// On a gateway: the principals that may register as [workers](../operate/gateway.md#workers-that-register-themselves), such
        /// as `token:worker-a`, each with the workspaces that it may see.
        workers: Vec<String> = list(text(cluster::worker)), Vec::new();
        /// On a gateway: a file of rules that say which workers may register and what each may have, by patterns of their names. It
        /// is read again when it changes; see [Rules for workers](../operate/gateway.md#rules-for-workers).
        workers_file: Option<PathBuf> = path().optional(), None;
    }

    /// Signed tokens. A path or a text that is empty is not set.
    pub jwt: JwtConfig in "auth.jwt." {
        /// The file of public keys for signed tokens.
        jwks_file: PathBuf = path(), PathBuf::new();
        /// The only issuer that is accepted.
        issuer: String = name(), String::new();
        /// The audience that a token must name.
        audience: String = name(), String::new();
        /// The algorithms that are accepted; asymmetric ones only.
        algorithms: Vec<String> = parse::texts().that(|list| !list.is_empty(), |_| "expected at least one algorithm".to_owned()),
            ["RS256", "ES256", "EdDSA"].map(str::to_owned).to_vec();
        /// The claim with the principal's name.
        name_claim: String = name(), "sub".to_owned();
        /// The claim with the scopes: a list, or words in one text.
        scope_claim: String = name(), "scope".to_owned();
        /// The claim with the workspaces; without it tokens are for all. `*` in it means all, `acme/*` those whose
        /// names begin with `acme/`.
        workspace_claim: Option<String> = name().optional(), None;
        /// By how much clocks may differ; at most 5 minutes.
        leeway: Duration = at_most(MAX_LEEWAY), Duration::from_secs(30);
    }

    /// The users that may use the Unix socket beside its owner.
    pub unix: UnixGroupConfig in "auth.unix." {
        /// The group whose members may use the Unix socket: its name or number.
        group: String = name(), String::new();
        /// The scopes of the members of that group.
        scopes: Vec<String> = parse::texts(), Vec::new();
    }

    /// How prompts are treated.
    pub permission: PermissionConfig in "permission." {
        /// How long a prompt waits, or `none` for ever. The default is 10 minutes if the service listens beyond this
        /// machine.
        timeout: Option<Duration> = more_than_nothing(", or \"none\" to wait for ever").or_none(), None;
        /// What happens to a prompt while no approver is connected: `wait`, `refuse`, or `attended`, which waits if one was
        /// connected a short time ago.
        unattended: Unattended = word(&[
            ("wait", Unattended::Wait),
            ("refuse", Unattended::Refuse),
            ("attended", Unattended::Attended(ATTENDED_WITHIN)),
        ]), Unattended::Wait;
        /// How long ago an approver may have been connected, with `attended`.
        attended_within: Duration = more_than_nothing(""), ATTENDED_WITHIN;
        /// Whether a principal may answer the prompts of its own calls. With authentication the default holds only for the
        /// owner on the Unix socket.
        self_approval: Option<bool> = switch().optional(), None;
        /// The permissions for which two different principals must approve, such as `["bash"]`; `*` for all.
        second_approver: Vec<String> = parse::texts().that(
            |list| !list.iter().any(String::is_empty),
            |_| "expected names of permissions, found an empty one".to_owned(),
        ), Vec::new();
    }

    // The engine has `RunLimits` for the six of these that its scheduler needs: it must not know configuration, and this crate
    // must not know the engine.
    /// Bounds on what everybody and each may use; `docs/reference/limits.md` says what happens at each.
    pub limits: LimitsConfig in "limits." {
        /// Calls whose tool runs or waits for a person; more wait for their turn.
        max_running_calls: u32 = count(1), 1000;
        /// Those of one workspace.
        max_running_calls_per_workspace: Option<u32> = count(1).optional(), None;
        /// Those of one session.
        max_running_calls_per_session: Option<u32> = count(1).optional(), None;
        /// Those of one principal.
        max_running_calls_per_principal: Option<u32> = count(1).optional(), None;
        /// Calls that wait for their turn; more are refused.
        max_queued_calls: u32 = count(0), 1000;
        /// Requests of one principal, on average.
        max_requests_per_second: Option<u32> = count(1).optional(), None;
        /// Requests of one principal at once: as many as in a second unless it is set.
        max_request_burst: Option<u32> = count(1).optional(), max_requests_per_second;
        /// Open streams.
        max_streams: u32 = count(1), 10_000;
        /// Those of one principal.
        max_streams_per_principal: Option<u32> = count(1).optional(), None;
        /// RPCs under way on one connection; the client's library holds more back.
        max_streams_per_connection: u32 = count(1), 1024;
        /// Records that one worker may store through a gateway with a database, on average: calls, parts of their logs, prompts, notes.
        max_worker_records_per_second: u32 = count(1), 20_000;
        /// Bytes that it may store, on average.
        max_worker_bytes_per_second: u64 = size(), 256 << 20;
        /// Workspaces that are open, configured ones included: how many there may be when another one is opened.
        max_workspaces: u32 = count(1), 100;
        /// Prompts that wait for an answer.
        max_open_prompts: u32 = count(1), 10_000;
        /// Those of one session.
        max_open_prompts_per_session: Option<u32> = count(1).optional(), None;
        /// Bytes of one call's input.
        max_input_bytes: u64 = size(), 2 << 20;
        /// Bytes of the inputs of the calls that wait for their turn, together.
        max_queued_bytes: u64 = size(), max_input_bytes.max(64 << 20);
        /// Bytes of one message: four times `max_input_bytes` if that is more than the default.
        max_message_bytes: u64 = size(),
            max_input_bytes.saturating_mul(4).clamp(DEFAULT_MESSAGE_BYTES as u64, MAX_MESSAGE_BYTES);
        /// Bytes of one call's stored output: enough for the log of a long build, too little to fill a disk.
        max_output_bytes: u64 = size(), 1 << 30;
        /// Bytes of all stored outputs, of kept contents of files and of the database together; the oldest outputs go first.
        max_total_output_bytes: u64 = size(), 16 << 30;
        /// Bytes of the files that one call changes, before and after, so that it can be reverted.
        max_undo_bytes: u64 = size(), 64 << 20;
        /// Bytes that stay free on the disk: what would leave less is not stored.
        min_free_bytes: u64 = size(), 256 << 20;
    }

    /// How what happened is stored.
    #[derive(Copy)]
    pub state: StateConfig in "state." {
        /// What an admission, a decision or an end must survive before anybody is told of it: `process`, the death of the
        /// service, or `power`, a loss of power as well, which waits for the disk at each of them.
        durability: Durability = word(&[
            ("process", Durability::Process),
            ("power", Durability::Power),
        ]), Durability::Process;
    }

    /// How long things are kept.
    #[derive(Copy)]
    pub retention: RetentionConfig in "retention." {
        /// How long stored outputs are kept.
        outputs: Duration = duration(), 7 * DAY;
        /// How long records of calls are kept after their end.
        calls: Duration = duration(), 30 * DAY;
        /// How long events of workspaces are kept, for those who reconnect.
        journal: Duration = duration(), 7 * DAY;
    }

    /// How the audit is kept.
    pub audit: AuditConfig in "audit." {
        /// The file of the key that audit records are made with: 32 bytes or more.
        key_file: Option<(PathBuf, AuditKey)> = content(secrets::audit_key).or_none(), None;
        /// How long audit records are kept, or `none` for ever.
        retention: Option<Duration> = duration().or_none(), None;
    }

    /// What is shown to nobody.
    pub(super) redact: Redact in "redact." {
        /// Variables of the service whose values are secrets.
        values_from_env: Vec<(String, Secrets)> = list(secrets::variable()), Vec::new();
        /// Files whose lines are secrets.
        files: Vec<(PathBuf, Secrets)> = list(content(secrets::of_file)), Vec::new();
        /// Regular expressions for what else is a secret.
        patterns: Vec<String> = secrets::patterns(), Vec::new();
    }

    /// Which servers tools may reach, and how.
    pub(super) network: NetworkKeys in "network." {
        /// What web tools may reach beside the public internet: hosts, `host:port`, addresses, networks.
        allow: Vec<Allowed> = list(text(str::parse::<Allowed>)), Vec::new();
        /// The address of a proxy, `environment` for the usual variables, or `none`.
        proxy: Proxy = parse::proxy(), Proxy::default();
    }

    /// The service that the search tools ask.
    pub search: SearchConfig in "search." {
        /// The service that `websearch` and `codesearch` ask.
        endpoint: Url = text(parse::endpoint).shown(parse::without_query), parse::default_endpoint();
        /// A file with the key for that service.
        key_file: Option<(PathBuf, ApiKey)> = content(secrets::api_key).or_none(), None;
    }

    /// What programs are confined to.
    pub sandbox: SandboxConfig in "sandbox." {
        /// What every command may write: `off`, `workspace-write` or `read-only` (`--sandbox`).
        mode: SandboxMode = word(SandboxMode::WORDS), SandboxMode::Off;
        /// Whether confined commands may use the network: `ask`, `allow` or `deny`.
        network: SandboxNetwork = word(SandboxNetwork::WORDS), SandboxNetwork::Ask;
        /// Refuse to start where the kernel lacks what is needed, and say what.
        required: bool = switch(), false;
        /// More paths that commands may write.
        writable: Vec<PathBuf> = list(path()), Vec::new();
        /// Paths that may be read although they are hidden.
        readable: Vec<PathBuf> = list(path()), Vec::new();
        /// More paths that commands may neither read nor write, such as `~/.ssh`.
        hidden: Vec<PathBuf> = list(path()), Vec::new();
        /// The caches of toolchains that commands may write within
        /// [walls](../security.md#walls-what-an-allowed-command-can-do), such as `~/.cargo/registry`.
        caches: Vec<PathBuf> = list(path()), sandbox::caches(layers.env);
        /// What no command may write in a workspace: names, or the last parts of paths, such as `.git/hooks`.
        protected: Vec<PathBuf> = list(parse::ending()), sandbox::PROTECTED.iter().map(PathBuf::from).collect();
        /// Unix sockets that commands may connect to, such as an SSH agent's.
        sockets: Vec<PathBuf> = list(path()), Vec::new();
        /// `mode` and `network` for single agents, each in its table such as `[sandbox.agents.plan]`.
        agents: BTreeMap<String, RawSandboxAgent> = sandbox::agents(), BTreeMap::new();
    }

    /// The environment of commands.
    pub shell: ShellConfig in "shell.environment." {
        /// The variables of the service that commands get, such as `["PATH", "HOME", "LC_*"]`; an empty list means all.
        /// `TOOLGATE_*` are never passed on.
        allow: Vec<String> = parse::variables().shown(|names| match names.is_empty() {
            true => "every variable".to_owned(),
            false => names.join(","),
        }), Vec::new();
        /// The variables that commands do not get, whatever is allowed, such as `["AWS_*", "*_TOKEN"]`.
        deny: Vec<String> = parse::variables(), Vec::new();
        /// The variables that calls may set (`environment` of `CallContext`) although they decide what runs, such as `["PATH"]`.
        /// `TOOLGATE_*` never are.
        callers: Vec<String> = parse::variables(), Vec::new();
    }

    /// What the service is for others: see [Many workspaces behind one address](../operate/gateway.md).
    pub cluster: ClusterConfig in "cluster." {
        /// What runs: `all` runs calls itself and keeps what happens (`toolgate serve`); `gateway` passes them on to workers
        /// (`toolgate gateway`); `worker` runs calls and keeps nothing, for gateways with a `store` (`toolgate serve`).
        role: ClusterRole = word(ClusterRole::WORDS), ClusterRole::All;
        /// On a gateway: the PostgreSQL database that all gateways share, such as
        /// `postgres://toolgate:PASSWORD@db.example:5432/toolgate?sslmode=verify-full`. Without it, each worker keeps what happens
        /// there. See [A fleet on PostgreSQL](../operate/fleet.md).
        store: Option<StoreAddress> = secrets::database().or_none(), None;
        /// The same address in a file, readable by its owner only.
        store_file: Option<(PathBuf, StoreAddress)> = content(secrets::store_address).or_none(), None;
        /// The authorities that sign the certificate of the database, PEM; by default those of the system.
        store_ca: Option<PathBuf> = path().optional(), None;
        /// On a gateway with a store: how long a worker that is not heard of keeps its workspaces; the same at all gateways; 3 seconds
        /// to 10 minutes.
        lease: Duration = between(LEASE), Duration::from_secs(30);
        /// On a gateway with a store: whether the tables are brought up to date when it starts, `start`, or only by
        /// `toolgate store migrate`, `never`.
        migrate: MigrateWhen = word(MigrateWhen::WORDS), MigrateWhen::Never;
        /// On a gateway with a store: the bucket that keeps what is long of outputs, in anything that speaks S3, as
        /// `s3://BUCKET/PREFIX`. Without it, all of them is in the database. Once it was used it stays needed.
        outputs: Option<String> = text(bucket::address).optional(), None;
        /// The server of that bucket, `https://HOST:PORT`, or on this machine `http://`; by default Amazon's of the region.
        outputs_endpoint: Option<String> = text(bucket::endpoint).optional(), None;
        /// The region of that bucket; by default that of the environment (`AWS_REGION`).
        outputs_region: Option<String> = text(bucket::region).optional(), None;
        /// Whether that server has the bucket in its paths, not in its name.
        outputs_path_style: bool = switch(), false;
        /// Who uses that bucket: a file with one line `ID:SECRET`, readable by its owner only. By default the environment says, by
        /// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, a web identity, or the role of the machine.
        outputs_keys_file: Option<(PathBuf, BucketKeys)> = content(secrets::bucket_keys).or_none(), None;
        /// On a gateway with a store: when a worker that waits for a workspace gets one: `first-call`, when a call names a workspace that
        /// nobody has had, or `off`, never; see [Workers that wait](../operate/fleet.md#workers-that-wait).
        pool: PoolUse = word(PoolUse::WORDS), PoolUse::Off;
        /// The workers of a gateway, each in its table such as `[cluster.workers.a]` with `address` (`https://`, `http://`
        /// or `unix:/PATH`), who the gateway is there (`token_file`, or `certificate` and `key`), and `ca` and `insecure`
        /// where the line needs them.
        workers: Vec<WorkerConfig> = cluster::workers(), Vec::new();
        /// On a worker: the gateways that it registers at, each `https://HOST:PORT`, or on this machine `http://` or `unix:/PATH`.
        gateways: Vec<String> = list(text(cluster::address)), Vec::new();
        /// On a worker: whether each name of a host in `gateways` stands for as many gateways as it has addresses, which are looked up
        /// again every few seconds. Each of them shows a certificate for that name.
        resolve: bool = switch(), false;
        /// On a worker: the file with the token that says at the gateways which worker this is.
        identity: Option<PathBuf> = path().optional(), None;
        /// On a worker: its name at the gateways, 1 to 63 small letters, digits or `-`; by default the name of the machine, made to
        /// fit.
        name: Option<String> = text(cluster::worker_name).optional(), None;
        /// On a worker: where gateways reach it, such as `https://10.0.0.5:50551`.
        advertise: Option<String> = text(cluster::address).optional(), None;
        /// The authorities that sign the certificates of gateways, or on a gateway those of workers that register themselves, PEM;
        /// by default those of the system.
        ca: Option<PathBuf> = path().optional(), None;
        /// The client certificate that is shown to gateways, or on a gateway to workers that register themselves, PEM.
        certificate: Option<PathBuf> = path().optional(), None;
        /// The private key of that certificate, PEM.
        key: Option<PathBuf> = path().optional(), None;
        /// On a gateway: where workers may say that they are, beside the address that they register from: hosts, `host:port`,
        /// addresses, networks.
        reach: Vec<Allowed> = list(text(str::parse::<Allowed>)), Vec::new();
        /// On a gateway: an address and a port for workers alone, such as `0.0.0.0:50552`, or `none`. Then they do not come to
        /// `listen.tcp` any more, and nobody else comes here.
        listen: Option<SocketAddr> = parse::address("127.0.0.1:50552"), None;
    }

    /// Who makes the places of workspaces that clients create at gateways with a store.
    pub provisioner: ProvisionerConfig in "cluster.provisioner." {
        /// On a gateway with a store: who makes machines or pods for workspaces that clients create: `webhook`, a server of yours, or
        /// `agent-sandbox` in a Kubernetes cluster. Without it, workspaces come only with workers that register themselves; see
        /// [Created workspaces in a fleet](../operate/workspaces.md#created-workspaces-in-a-fleet).
        kind: Option<ProvisionerKind> = word(ProvisionerKind::WORDS).optional(), None;
        /// Whether the first call of a workspace that nobody has makes it, with nothing in it.
        on_first_call: bool = switch(), false;
        /// A workspace in which nothing has run for so long is suspended; `0s` for never.
        idle_suspend: Duration = duration(), Duration::ZERO;
        /// With `webhook`: where it is asked, `https://`, or on this machine `http://`.
        url: Option<String> = text(provisioner::url).optional(), None;
        /// The file with the bearer token that is shown there, read anew for each request. With `agent-sandbox` the default is that of the
        /// pod's service account.
        token_file: Option<PathBuf> = path().optional(), provisioner::file_of_pod(kind, "token");
        /// With `agent-sandbox`: the namespace of the pods; by default that of the gateway.
        namespace: Option<String> = text(provisioner::object).optional(), None;
        /// With `agent-sandbox`: the name of the template, and of its warm pool.
        template: Option<String> = text(provisioner::object).optional(), None;
        /// With `agent-sandbox`: where the API of the cluster is.
        api: String = text(provisioner::url), provisioner::API.to_owned();
        /// The authorities that sign the certificate of `url` or `api`, PEM, read anew for each request; then no others count, and no proxy is
        /// used. With `webhook` the default is what `network` says, with `agent-sandbox` those of the pod's service account.
        ca_file: Option<PathBuf> = path().optional(), provisioner::file_of_pod(kind, "ca.crt");
    }

    /// Encryption of the listener for workers. A path that is empty is not set.
    pub(super) worker_tls: WorkerTlsConfig in "cluster.tls." {
        /// On a gateway: the certificate chain that it shows to workers at `cluster.listen`, PEM; without it all of `listen.tls` holds there, too.
        certificate: PathBuf = path(), PathBuf::new();
        /// The private key of that certificate, PEM.
        key: PathBuf = path(), PathBuf::new();
        /// The authorities whose client certificates are accepted there, PEM. A worker may show a token in the place of one.
        client_ca: Option<PathBuf> = path().optional(), None;
    }

    /// Signed tokens of workers. A path or a text that is empty is not set.
    pub(super) worker_jwt: WorkerJwtConfig in "cluster.jwt." {
        /// On a gateway: the file of public keys for signed tokens of workers, such as those of service accounts of a Kubernetes
        /// cluster. What such a worker may have is said in `auth.workers_file`.
        jwks_file: PathBuf = path(), PathBuf::new();
        /// The only issuer of these that is accepted.
        issuer: String = name(), String::new();
        /// The audience that such a token must name.
        audience: String = name(), String::new();
        /// The algorithms that are accepted; asymmetric ones only.
        algorithms: Vec<String> = parse::texts().that(|list| !list.is_empty(), |_| "expected at least one algorithm".to_owned()),
            ["RS256", "ES256", "EdDSA"].map(str::to_owned).to_vec();
        /// By how much clocks may differ; at most 5 minutes.
        leeway: Duration = at_most(MAX_LEEWAY), Duration::from_secs(30);
    }

    /// What operators see of the service.
    pub(super) telemetry: Telemetry in "telemetry." {
        /// `address:port` for probes and metrics, over plain HTTP and for anybody who reaches it (`--admin`).
        admin: Option<SocketAddr> = parse::address("127.0.0.1:9464"), None;
        /// A collector that takes traces and metrics by OTLP over gRPC, such as `http://127.0.0.1:4317`; if it is not set,
        /// `OTEL_EXPORTER_OTLP_ENDPOINT` counts.
        otlp_endpoint: Option<String> = text(parse::collector).or_none(), None;
    }
}
