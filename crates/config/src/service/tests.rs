//! How file, variables and flags make the configuration of the service, and what is refused in them.

use std::time::Duration;

use toolgate_model::Durability;
use toolgate_permission::Unattended;

use super::*;

mod errors;
mod fleet;

fn environment(vars: &[(&str, &str)]) -> Environment {
    let vars = vars.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Environment::new(
        [("HOME".to_owned(), "/nowhere/u".to_owned())].into_iter().chain(vars),
        "/nowhere/w",
    )
    .with_system_dir("/nowhere/etc")
}

fn load(file: &str, vars: &[(&str, &str)], flags: RawConfig) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("toolgate.toml");
    std::fs::write(&path, file).expect("the folder is ours");
    Config::load(Some(&path), flags, &environment(vars))
}

fn plain(file: &str) -> Config {
    load(file, &[], RawConfig::default()).expect("the configuration is valid")
}

fn setting<'a>(config: &'a Config, key: &str) -> (&'a str, String) {
    let setting = config
        .explain()
        .iter()
        .find(|setting| setting.key == key)
        .expect("the key exists");
    (&setting.value, setting.source.to_string())
}

#[test]
fn defaults() {
    let config = Config::load(None, RawConfig::default(), &environment(&[])).expect("the defaults are valid");
    assert_eq!(config.listen.tcp, "127.0.0.1:50551".parse().ok());
    assert_eq!(
        config.listen.unix.as_deref(),
        Some(Path::new("/nowhere/u/.local/share/toolgate/toolgate.sock"))
    );
    assert_eq!(config.data_dir, Path::new("/nowhere/u/.local/share/toolgate"));
    assert_eq!(config.permission.timeout, None);
    assert_eq!(config.permission.unattended, Unattended::Wait);
    assert_eq!(
        config.workspaces,
        [WorkspaceConfig {
            name: "default".to_owned(),
            directory: PathBuf::from("/nowhere/w"),
            self_approval: None,
            trust: false,
        }]
    );
    assert_eq!(config.retention.calls, Duration::from_secs(30 * 86_400));
    assert!(config.explain().iter().all(|setting| setting.source == Source::Default));
    assert!(config.warnings.is_empty());
}

#[test]
fn folders_of_the_login_session() {
    let vars = [
        ("XDG_RUNTIME_DIR", "/run/u"),
        ("XDG_DATA_HOME", "/data"),
        ("XDG_CONFIG_HOME", "relative"),
    ];
    let config = Config::load(None, RawConfig::default(), &environment(&vars)).expect("it is valid");
    assert_eq!(config.listen.unix.as_deref(), Some(Path::new("/run/u/toolgate.sock")));
    assert_eq!(config.data_dir, Path::new("/data/toolgate"));
    // Services side by side do not meet at one socket.
    let given = RawConfig::default().with_some("data_dir", Some("/own"));
    let config = Config::load(None, given, &environment(&vars)).expect("it is valid");
    assert_eq!(config.listen.unix.as_deref(), Some(Path::new("/own/toolgate.sock")));
}

#[test]
fn everything_in_a_file() {
    let config = plain(
        r#"
data_dir = "/d"
drain_grace = "250ms"
trust = true
console = true
[listen]
tcp = "[::1]:9"
unix = "none"
local_users = "any"
origins = ["HTTP://localhost:3000"]
agent_sandbox = true
request_timeout = "5s"
[limits]
max_running_calls = 5
max_running_calls_per_workspace = 4
max_running_calls_per_session = 3
max_running_calls_per_principal = 2
max_queued_calls = 0
max_queued_bytes = "2KiB"
max_requests_per_second = 100
max_request_burst = 200
max_streams = 50
max_streams_per_principal = 40
max_streams_per_connection = 30
max_worker_records_per_second = 3000
max_worker_bytes_per_second = "4MiB"
max_message_bytes = "1MiB"
max_open_prompts = 20
max_open_prompts_per_session = 10
max_input_bytes = 1024
max_output_bytes = "2MiB"
max_total_output_bytes = "1GiB"
max_workspaces = 7
max_undo_bytes = "3MiB"
min_free_bytes = "1MiB"
[state]
durability = "power"
[permission]
timeout = "10m"
unattended = "refuse"
attended_within = "5m"
[shell]
environment.allow = ["PATH", "LC_*"]
environment.deny = ["AWS_*"]
environment.callers = ["PATH"]
[extensions]
runtime = "node"
[lsp]
diagnostics_wait = "1s"
[retention]
outputs = "1d"
calls = "2d"
journal = "3h"
[[workspace_roots]]
directory = "/roots"
[created_workspaces]
directory = "/created"
templates = "/templates"
trust = true
resume = "requests"
max_bytes = "1MiB"
timeout = "1m"
[audit]
key_file = "none"
retention = "1d"
[redact]
values_from_env = []
files = []
patterns = ["sk-[0-9]+"]
[network]
allow = ["10.0.0.0/8"]
proxy = "http://p:1"
[search]
endpoint = "http://localhost:1/mcp"
key_file = "none"
[sandbox]
mode = "read-only"
network = "deny"
required = true
writable = ["/w"]
readable = ["/r"]
hidden = ["/h"]
caches = ["~/c"]
protected = ["a", "b/c"]
sockets = ["/s"]
agents = { plan = { mode = "off" } }
[telemetry]
admin = "127.0.0.1:9464"
otlp_endpoint = "http://127.0.0.1:4317"
[log]
format = "json"
filter = "warn,toolgate=debug"
[cluster]
role = "all"
[[workspaces]]
name = "a"
directory = "~/a"
[[workspaces]]
name = "b"
directory = "/b/../c"
trust = false
"#,
    );
    assert_eq!(config.listen.tcp, "[::1]:9".parse().ok());
    assert_eq!(config.listen.unix, None);
    assert_eq!(config.listen.local_users, LocalUsers::Any);
    assert_eq!(config.listen.origins, ["http://localhost:3000"]);
    assert_eq!(config.listen.request_timeout, Duration::from_secs(5));
    assert!(config.console);
    assert!(config.listen.agent_sandbox);
    assert_eq!(config.limits.max_queued_calls, 0);
    assert_eq!(config.limits.max_requests_per_second, Some(100));
    assert_eq!(config.limits.max_message_bytes, 1 << 20);
    assert_eq!(config.limits.max_output_bytes, 2 << 20);
    assert_eq!(config.limits.max_undo_bytes, 3 << 20);
    assert_eq!(config.limits.min_free_bytes, 1 << 20);
    assert_eq!(config.permission.timeout, Some(Duration::from_secs(600)));
    assert_eq!(config.permission.unattended, Unattended::Refuse);
    assert_eq!(config.state.durability, Durability::Power);
    assert_eq!(config.retention.journal, Duration::from_secs(3 * 3600));
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.workspaces[0].directory, Path::new("/nowhere/u/a"));
    assert_eq!(config.workspaces[1].directory, Path::new("/c"));
    assert!(config.workspaces[0].trust && !config.workspaces[1].trust);
    assert!(
        setting(&config, "limits.max_running_calls")
            .1
            .ends_with("toolgate.toml:14")
    );
    assert_eq!(setting(&config, "drain_grace").0, "250ms");
    let silent: Vec<&Setting> = config
        .explain()
        .iter()
        .filter(|setting| setting.source == Source::Default)
        .collect();
    let optional = |key: &str| key.starts_with("listen.tls.") || key.starts_with("auth.") || key.contains("approv");
    let optional = |key: &str| optional(key) || key.starts_with("cluster.") || key == "tenants";
    let silent: Vec<&str> = silent.iter().map(|setting| setting.key.as_str()).collect();
    assert_eq!(
        silent.into_iter().filter(|key| !optional(key)).collect::<Vec<_>>(),
        ["listen.insecure"]
    );
}

#[test]
fn variables_beat_the_file_and_flags_beat_both() {
    let file = "drain_grace = \"1s\"\n[retention]\ncalls = \"1d\"\noutputs = \"1d\"\n";
    let vars = [
        ("TOOLGATE_RETENTION_CALLS", "2d"),
        ("TOOLGATE_DRAIN_GRACE", "2s"),
        ("TOOLGATE_DATA_DIR", "rel"),
    ];
    let flags = RawConfig::default().with("drain_grace", "3s");
    let config = load(file, &vars, flags).expect("it is valid");
    assert_eq!(setting(&config, "drain_grace"), ("3s", "flag".to_owned()));
    assert_eq!(
        setting(&config, "retention.calls"),
        ("2d", "TOOLGATE_RETENTION_CALLS".to_owned())
    );
    assert!(setting(&config, "retention.outputs").1.ends_with("toolgate.toml:4"));
    assert_eq!(config.data_dir, Path::new("/nowhere/w/rel"));
}

#[test]
fn every_key_has_a_variable() {
    let vars = [
        ("TOOLGATE_DATA_DIR", "/d"),
        ("TOOLGATE_DRAIN_GRACE", "1s"),
        ("TOOLGATE_TRUST", "true"),
        ("TOOLGATE_CONSOLE", "1"),
        ("TOOLGATE_LISTEN_TCP", "127.0.0.1:0"),
        ("TOOLGATE_LISTEN_UNIX", "/s"),
        ("TOOLGATE_LISTEN_INSECURE", "true"),
        ("TOOLGATE_LISTEN_LOCAL_USERS", "any"),
        ("TOOLGATE_LISTEN_REQUEST_TIMEOUT", "5s"),
        ("TOOLGATE_LISTEN_ORIGINS", "https://a.example, http://b"),
        ("TOOLGATE_WORKSPACES", "a=/a, b=/b"),
        ("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", "1"),
        ("TOOLGATE_LIMITS_MAX_RUNNING_CALLS_PER_WORKSPACE", "1"),
        ("TOOLGATE_LIMITS_MAX_RUNNING_CALLS_PER_SESSION", "1"),
        ("TOOLGATE_LIMITS_MAX_RUNNING_CALLS_PER_PRINCIPAL", "1"),
        ("TOOLGATE_LIMITS_MAX_QUEUED_CALLS", "1"),
        ("TOOLGATE_LIMITS_MAX_QUEUED_BYTES", "1"),
        ("TOOLGATE_LIMITS_MAX_REQUESTS_PER_SECOND", "1"),
        ("TOOLGATE_LIMITS_MAX_REQUEST_BURST", "1"),
        ("TOOLGATE_LIMITS_MAX_STREAMS", "1"),
        ("TOOLGATE_LIMITS_MAX_STREAMS_PER_PRINCIPAL", "1"),
        ("TOOLGATE_LIMITS_MAX_STREAMS_PER_CONNECTION", "1"),
        ("TOOLGATE_LIMITS_MAX_MESSAGE_BYTES", "1"),
        ("TOOLGATE_LIMITS_MAX_OPEN_PROMPTS", "1"),
        ("TOOLGATE_LIMITS_MAX_OPEN_PROMPTS_PER_SESSION", "1"),
        ("TOOLGATE_LIMITS_MAX_INPUT_BYTES", "1"),
        ("TOOLGATE_LIMITS_MAX_OUTPUT_BYTES", "1"),
        ("TOOLGATE_LIMITS_MAX_TOTAL_OUTPUT_BYTES", "1"),
        ("TOOLGATE_LIMITS_MAX_UNDO_BYTES", "1"),
        ("TOOLGATE_LIMITS_MAX_WORKER_RECORDS_PER_SECOND", "3000"),
        ("TOOLGATE_LIMITS_MAX_WORKER_BYTES_PER_SECOND", "4MiB"),
        ("TOOLGATE_LIMITS_MIN_FREE_BYTES", "1"),
        ("TOOLGATE_SHELL_ENVIRONMENT_ALLOW", "PATH, LC_*"),
        ("TOOLGATE_SHELL_ENVIRONMENT_DENY", "AWS_*"),
        ("TOOLGATE_PERMISSION_TIMEOUT", "none"),
        ("TOOLGATE_PERMISSION_UNATTENDED", "attended"),
        ("TOOLGATE_PERMISSION_ATTENDED_WITHIN", "1h"),
        ("TOOLGATE_STATE_DURABILITY", "power"),
        ("TOOLGATE_RETENTION_OUTPUTS", "1d"),
        ("TOOLGATE_RETENTION_CALLS", "1d"),
        ("TOOLGATE_RETENTION_JOURNAL", "1d"),
        ("TOOLGATE_AUDIT_KEY_FILE", "none"),
        ("TOOLGATE_AUDIT_RETENTION", "1d"),
        ("TOOLGATE_REDACT_VALUES_FROM_ENV", "TOKEN"),
        (
            "TOOLGATE_REDACT_FILES",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ),
        ("TOOLGATE_REDACT_PATTERNS", "sk-[0-9]{2,}"),
        ("TOOLGATE_NETWORK_ALLOW", "localhost:3000, 10.0.0.0/8"),
        ("TOOLGATE_NETWORK_PROXY", "none"),
        ("TOOLGATE_SEARCH_ENDPOINT", "https://search.example/mcp"),
        ("TOOLGATE_SEARCH_KEY_FILE", "none"),
        ("TOOLGATE_SANDBOX_MODE", "read-only"),
        ("TOOLGATE_SANDBOX_NETWORK", "allow"),
        ("TOOLGATE_SANDBOX_REQUIRED", "1"),
        ("TOOLGATE_SANDBOX_WRITABLE", "/w"),
        ("TOOLGATE_SANDBOX_READABLE", "/r"),
        ("TOOLGATE_SANDBOX_HIDDEN", "/h"),
        ("TOOLGATE_SANDBOX_AGENTS", "plan=off"),
        ("TOOLGATE_TELEMETRY_ADMIN", "127.0.0.1:9464"),
        ("TOOLGATE_TELEMETRY_OTLP_ENDPOINT", "http://127.0.0.1:4317"),
        ("TOOLGATE_LOG_FORMAT", "text"),
        ("TOOLGATE_LOG_FILTER", "info"),
        ("TOOLGATE_LISTEN_TLS_CERTIFICATE", "/c"),
        ("TOOLGATE_LISTEN_TLS_KEY", "/k"),
        ("TOOLGATE_LISTEN_AGENT_SANDBOX", "true"),
        ("TOOLGATE_LISTEN_TLS_CLIENT_CA", "/ca"),
        ("TOOLGATE_LISTEN_TLS_CLIENT_AUTH", "optional"),
        ("TOOLGATE_AUTH_TOKENS_FILE", "/t"),
        ("TOOLGATE_AUTH_JWT_JWKS_FILE", "/j"),
        ("TOOLGATE_AUTH_JWT_ISSUER", "i"),
        ("TOOLGATE_AUTH_JWT_AUDIENCE", "a"),
        ("TOOLGATE_AUTH_JWT_ALGORITHMS", "ES256,EdDSA"),
        ("TOOLGATE_AUTH_JWT_NAME_CLAIM", "n"),
        ("TOOLGATE_AUTH_JWT_SCOPE_CLAIM", "s"),
        ("TOOLGATE_AUTH_JWT_WORKSPACE_CLAIM", "w"),
        ("TOOLGATE_AUTH_JWT_LEEWAY", "1s"),
        ("TOOLGATE_AUTH_UNIX_GROUP", "staff"),
        ("TOOLGATE_AUTH_UNIX_SCOPES", "calls.read"),
        ("TOOLGATE_SANDBOX_CACHES", "/c,~/d"),
        ("TOOLGATE_SANDBOX_PROTECTED", "a,b/c"),
        ("TOOLGATE_SANDBOX_SOCKETS", "/s"),
        ("TOOLGATE_SHELL_ENVIRONMENT_CALLERS", "PATH"),
        ("TOOLGATE_WORKSPACE_ROOTS", "/roots"),
        ("TOOLGATE_CREATED_WORKSPACES_DIRECTORY", "/created"),
        ("TOOLGATE_CREATED_WORKSPACES_TEMPLATES", "/templates"),
        ("TOOLGATE_CREATED_WORKSPACES_TRUST", "true"),
        ("TOOLGATE_CREATED_WORKSPACES_RESUME", "calls"),
        ("TOOLGATE_CREATED_WORKSPACES_MAX_BYTES", "1GiB"),
        ("TOOLGATE_CREATED_WORKSPACES_TIMEOUT", "1m"),
        ("TOOLGATE_LIMITS_MAX_WORKSPACES", "7"),
        ("TOOLGATE_EXTENSIONS_RUNTIME", "bun"),
        ("TOOLGATE_LSP_DIAGNOSTICS_WAIT", "0s"),
        ("TOOLGATE_PERMISSION_SELF_APPROVAL", "false"),
        ("TOOLGATE_PERMISSION_SECOND_APPROVER", "bash,edit"),
        ("TOOLGATE_AUTH_GATEWAYS", "token:a,jwt:b"),
        ("TOOLGATE_CLUSTER_ROLE", "all"),
        ("TOOLGATE_CLUSTER_GATEWAYS", "https://10.0.0.1:50551,unix:/g"),
        ("TOOLGATE_CLUSTER_RESOLVE", "true"),
        ("TOOLGATE_CLUSTER_IDENTITY", "/i"),
        ("TOOLGATE_CLUSTER_NAME", "a"),
        ("TOOLGATE_CLUSTER_ADVERTISE", "https://10.0.0.5:50551"),
        ("TOOLGATE_CLUSTER_CA", "/ca"),
        ("TOOLGATE_CLUSTER_CERTIFICATE", "/c"),
        ("TOOLGATE_CLUSTER_KEY", "/k"),
    ];
    let config = load("", &vars, RawConfig::default()).expect("it is valid");
    assert_eq!(config.workspaces.len(), 2);
    // A list of tables has no place in a variable, and what is a gateway's none beside that of a service.
    let elsewhere = [
        "auth.certificates",
        "auth.workers",
        "auth.workers_file",
        "cluster.jwt.jwks_file",
        "cluster.jwt.issuer",
        "cluster.jwt.audience",
        "cluster.jwt.algorithms",
        "cluster.jwt.leeway",
        "cluster.workers",
        "cluster.provisioner.kind",
        "cluster.provisioner.on_first_call",
        "cluster.provisioner.idle_suspend",
        "cluster.provisioner.url",
        "cluster.provisioner.token_file",
        "cluster.provisioner.namespace",
        "cluster.provisioner.template",
        "cluster.provisioner.api",
        "cluster.provisioner.ca_file",
        "cluster.reach",
        "cluster.listen",
        "cluster.tls.certificate",
        "cluster.tls.key",
        "cluster.tls.client_ca",
        "cluster.store",
        "cluster.store_file",
        "cluster.store_ca",
        "cluster.lease",
        "cluster.migrate",
        "cluster.outputs",
        "cluster.outputs_endpoint",
        "cluster.outputs_region",
        "cluster.outputs_path_style",
        "cluster.outputs_keys_file",
        "cluster.pool",
        "tenants",
    ];
    let settings = || {
        config
            .explain()
            .iter()
            .filter(|setting| !elsewhere.contains(&setting.key.as_str()))
    };
    for setting in settings() {
        assert!(
            matches!(setting.source, Source::Variable(_)),
            "{} has no variable",
            setting.key
        );
    }
    assert_eq!(settings().count(), vars.len());
}

#[test]
fn names_of_variables_are_checked() {
    let check = |names: &str, expected: Option<&[&str]>| {
        let config = load(
            &format!("[shell]\nenvironment.deny = {names}"),
            &[],
            RawConfig::default(),
        );
        match (config, expected) {
            (Ok(config), Some(expected)) => assert_eq!(config.shell.deny, expected),
            (Err(error), None) => assert!(error.to_string().contains("shell.environment.deny"), "{error}"),
            (other, _) => panic!("{names}: {other:?}"),
        }
    };
    check("[]", Some(&[]));
    check("['AWS_*', '*']", Some(&["AWS_*", "*"]));
    check("['A=1']", None);
    check("['']", None);
    check("[' A']", None);
}

#[test]
fn unknown_variables_are_warned_of() {
    let vars = [
        ("TOOLGATE_LISTEN_TPC", "x"),
        ("TOOLGATE_PORT_50551_TCP", "tcp://10.0.0.1:50551"),
        ("TOOLGATE_SERVICE_HOST", "10.0.0.1"),
        ("TOOLGATE_PORT", "tcp://10.0.0.1:50551"),
        ("TOOLGATE_PORT_50551_TCP_ADDR", "10.0.0.1"),
        ("TOOLGATE_SERVICE_PORT_GRPC", "50551"),
        ("TOOLGATE_ADMIN_PORT_9090_TCP_PORT", "9090"),
        ("TOOLGATE_SESSION", "s"),
    ];
    let check = |more: &[(&str, &str)], expected: &[&str]| {
        let config = load("", &[&vars[..], more].concat(), RawConfig::default()).expect("it is valid");
        assert_eq!(config.warnings.len(), expected.len(), "{:?}", config.warnings);
        for (warning, part) in config.warnings.iter().zip(expected) {
            assert!(warning.contains(part), "{part:?} is not in {warning:?}");
        }
    };
    let meant = "TOOLGATE_LISTEN_TPC is not known and has no effect; did you mean TOOLGATE_LISTEN_TCP?";
    check(&[], &[meant]);
    check(&[("TOOLGATE_PORT", "50551")], &[meant, "TOOLGATE_PORT is not known"]);
    check(
        &[("TOOLGATE_UNATTENDED", "refuse")],
        &[
            meant,
            "TOOLGATE_UNATTENDED is not known and has no effect; did you mean TOOLGATE_PERMISSION_UNATTENDED?",
        ],
    );
}

#[test]
fn other_machines_are_kept_out_unless_told_otherwise() {
    for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
        let error = load(&format!("[listen]\ntcp = {address:?}"), &[], RawConfig::default());
        let error = error.expect_err("others could connect").to_string();
        for part in [
            "line 2, column 1: listen.tcp",
            "neither TLS nor authentication",
            "--insecure",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        let bare = load(
            &format!("[listen]\ntcp = {address:?}\ninsecure = true"),
            &[],
            RawConfig::default(),
        );
        assert!(bare.expect_err("nobody is asked").to_string().contains("who they are"));
        let open = format!("[auth]\ntokens_file = \"/t\"\n[listen]\ntcp = {address:?}");
        let open = load(&open, &[], RawConfig::default());
        assert!(open.expect_err("it is readable").to_string().contains("not encrypted"));
        let tls = "[listen.tls]\ncertificate = \"c\"\nkey = \"k\"";
        plain(&format!(
            "[auth]\ntokens_file = \"/t\"\n[listen]\ntcp = {address:?}\n{tls}"
        ));
        let config = plain(&format!(
            "[auth]\ntokens_file = \"/t\"\n[listen]\ntcp = {address:?}\ninsecure = true"
        ));
        assert!(!config.listen.is_local());
        assert_eq!(config.permission.timeout, Some(Duration::from_secs(600)));
    }
    for address in ["127.8.0.1:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1", "none"] {
        assert!(
            plain(&format!("[listen]\ntcp = {address:?}")).listen.is_local(),
            "{address}"
        );
    }
}

#[test]
fn what_needs_something_else_says_so() {
    fn check(text: &str, part: &str) {
        let error = load(text, &[], RawConfig::default()).expect_err(text).to_string();
        assert!(error.contains(part), "{part} is not in {error}");
    }
    check("[listen.tls]\nkey = \"k\"", "certificate is missing");
    check("[listen.tls]\ncertificate = \"k\"", "private key is missing");
    check("[listen.tls]\nclient_auth = \"maybe\"", "\"optional\"");
    check(
        "[auth.jwt]\njwks_file = \"k\"\naudience = \"a\"",
        "auth.jwt.issuer is missing",
    );
    check(
        "[auth.jwt]\njwks_file = \"k\"\nissuer = \"a\"",
        "auth.jwt.audience is missing",
    );
    check("[auth.jwt]\nissuer = \"a\"", "auth.jwt.jwks_file");
    check("[auth.jwt]\nleeway = \"1h\"", "at most");
    check("[[auth.certificates]]\nname = \"a\"\nscopes = []", "subject");
    check(
        "[[auth.certificates]]\nsubject = \"a\"\nname = \"a\"\nscopes = []",
        "listen.tls.client_ca",
    );
    check("[auth.unix]\ngroup = \"staff\"", "auth.unix.scopes");
    check("[auth.unix]\nscopes = [\"admin\"]", "auth.unix.group");
    let group = "[auth.unix]\ngroup = \"staff\"\nscopes = [\"admin\"]\n[listen]\n";
    check(group, "listen.tcp to none");
    check(&format!("{group}unix = \"none\""), "listen.unix is none");
    check(
        &format!("{group}tcp = \"0.0.0.0:1\"\ninsecure = true"),
        "listen.tcp to none",
    );
    assert!(plain(&format!("{group}tcp = \"none\"")).auth.is_configured());
    assert!(
        plain(&format!("[auth]\ntokens_file = \"t\"\n{group}"))
            .auth
            .unix
            .is_some()
    );
    check(
        "[created_workspaces]\ntemplates = \"/t\"",
        "created_workspaces.directory",
    );
    check("[created_workspaces]\ndirectory = \"/\"", "below /");
    let roots = "[[workspace_roots]]\ndirectory = \"/a\"\n[created_workspaces]\n";
    check(&format!("{roots}directory = \"/a/b\""), "a folder of their own");
    check(&format!("{roots}directory = \"/nowhere/w\""), "a folder of their own");
    assert!(
        plain(&format!("{roots}directory = \"/b\""))
            .created_workspaces
            .directory
            .is_some()
    );
    check("[permission]\nself_approval = false", "needs authentication");
    check("[permission]\nsecond_approver = [\"bash\"]", "needs authentication");
    let config = plain(
        "[auth]\ntokens_file = \"t\"\n[permission]\nself_approval = true\nsecond_approver = [\"bash\"]\n[[workspaces]]\nname \
         = \"a\"\ndirectory = \"a\"\nself_approval = false",
    );
    assert_eq!(config.permission.self_approval, Some(true));
    assert_eq!(config.permission.second_approver, ["bash"]);
    assert_eq!(config.workspaces[0].self_approval, Some(false));
    assert!(config.auth.is_configured());
}

#[test]
fn files_are_found_where_they_belong() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (name, grace) in [("home", "1s"), ("etc", "2s"), ("named", "3s")] {
        std::fs::create_dir_all(folder.path().join(name).join("toolgate")).expect("the folder is ours");
        let text = format!("drain_grace = {grace:?}");
        std::fs::write(folder.path().join(name).join("toolgate/toolgate.toml"), text).expect("the folder is ours");
    }
    let path = |name: &str| folder.path().join(name).display().to_string();
    let grace = |vars: &[(&str, &str)]| {
        let env = environment(vars).with_system_dir(folder.path().join("etc"));
        Config::load(None, RawConfig::default(), &env).map(|config| config.drain_grace.as_secs())
    };
    assert_eq!(grace(&[]).ok(), Some(2));
    assert_eq!(grace(&[("XDG_CONFIG_HOME", &path("home"))]).ok(), Some(1));
    assert_eq!(
        grace(&[("TOOLGATE_CONFIG", &path("named/toolgate/toolgate.toml"))]).ok(),
        Some(3)
    );
    let missing = grace(&[("TOOLGATE_CONFIG", &path("missing.toml"))]);
    assert!(matches!(missing, Err(ConfigError::Missing { .. })));
}
