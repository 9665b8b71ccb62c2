//! What the `TOOLGATE_*` variables say.

use std::collections::BTreeMap;
use std::str::FromStr;

use toolgate_permission::hints;

use super::raw::{
    RawAudit, RawAuth, RawConfig, RawExtensions, RawJwt, RawLimits, RawListen, RawLog, RawLsp, RawNetwork,
    RawPermission, RawRedact, RawRetention, RawSandbox, RawSandboxAgent, RawSearch, RawShell, RawShellEnvironment,
    RawSize, RawTelemetry, RawTls, RawUnix, RawWorkspace,
};
use crate::environment::Environment;
use crate::error::{ConfigError, Problem};

/// Returns the variable of a key.
pub(super) fn name_of(key: &str) -> String {
    format!("TOOLGATE_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// Reads all variables.
pub(super) fn read(env: &Environment) -> Result<RawConfig, ConfigError> {
    let text = |key: &str| env.get(&name_of(key)).map(str::to_owned);
    let count = |key: &str| parsed(env, key, "a number");
    let size = |key: &str| text(key).map(RawSize::Text);
    let list = |key: &str| -> Option<Vec<String>> {
        text(key).map(|list| list.split(',').map(|one| one.trim().to_owned()).collect())
    };
    Ok(RawConfig {
        data_dir: text("data_dir"),
        drain_grace: text("drain_grace"),
        trust: switch(env, "trust")?,
        console: switch(env, "console")?,
        listen: RawListen {
            tcp: text("listen.tcp"),
            unix: text("listen.unix"),
            insecure: switch(env, "listen.insecure")?,
            local_users: text("listen.local_users"),
            origins: list("listen.origins"),
            tls: RawTls {
                certificate: text("listen.tls.certificate"),
                key: text("listen.tls.key"),
                client_ca: text("listen.tls.client_ca"),
                client_auth: text("listen.tls.client_auth"),
            },
        },
        auth: RawAuth {
            tokens_file: text("auth.tokens_file"),
            jwt: RawJwt {
                jwks_file: text("auth.jwt.jwks_file"),
                issuer: text("auth.jwt.issuer"),
                audience: text("auth.jwt.audience"),
                algorithms: list("auth.jwt.algorithms"),
                name_claim: text("auth.jwt.name_claim"),
                scope_claim: text("auth.jwt.scope_claim"),
                workspace_claim: text("auth.jwt.workspace_claim"),
                leeway: text("auth.jwt.leeway"),
            },
            certificates: None,
            unix: RawUnix {
                group: text("auth.unix.group"),
                scopes: list("auth.unix.scopes"),
            },
        },
        workspaces: workspaces(env)?,
        limits: RawLimits {
            max_running_calls: count("limits.max_running_calls")?,
            max_running_calls_per_workspace: count("limits.max_running_calls_per_workspace")?,
            max_running_calls_per_session: count("limits.max_running_calls_per_session")?,
            max_running_calls_per_principal: count("limits.max_running_calls_per_principal")?,
            max_queued_calls: count("limits.max_queued_calls")?,
            max_queued_bytes: size("limits.max_queued_bytes"),
            max_requests_per_second: count("limits.max_requests_per_second")?,
            max_request_burst: count("limits.max_request_burst")?,
            max_streams: count("limits.max_streams")?,
            max_streams_per_principal: count("limits.max_streams_per_principal")?,
            max_streams_per_connection: count("limits.max_streams_per_connection")?,
            max_message_bytes: size("limits.max_message_bytes"),
            max_open_prompts: count("limits.max_open_prompts")?,
            max_open_prompts_per_session: count("limits.max_open_prompts_per_session")?,
            max_input_bytes: size("limits.max_input_bytes"),
            max_output_bytes: size("limits.max_output_bytes"),
            max_total_output_bytes: size("limits.max_total_output_bytes"),
            max_undo_bytes: size("limits.max_undo_bytes"),
            min_free_bytes: size("limits.min_free_bytes"),
        },
        permission: RawPermission {
            timeout: text("permission.timeout"),
            unattended: text("permission.unattended"),
            self_approval: switch(env, "permission.self_approval")?,
            second_approver: list("permission.second_approver"),
            attended_within: text("permission.attended_within"),
        },
        retention: RawRetention {
            outputs: text("retention.outputs"),
            calls: text("retention.calls"),
            journal: text("retention.journal"),
        },
        audit: RawAudit {
            key_file: text("audit.key_file"),
            retention: text("audit.retention"),
        },
        redact: RawRedact {
            values_from_env: list("redact.values_from_env"),
            files: list("redact.files"),
            // One pattern: it may hold a comma.
            patterns: text("redact.patterns").map(|pattern| vec![pattern]),
        },
        network: RawNetwork {
            allow: list("network.allow"),
            proxy: text("network.proxy"),
        },
        search: RawSearch {
            endpoint: text("search.endpoint"),
            key_file: text("search.key_file"),
        },
        sandbox: RawSandbox {
            mode: text("sandbox.mode"),
            network: text("sandbox.network"),
            required: switch(env, "sandbox.required")?,
            writable: list("sandbox.writable"),
            readable: list("sandbox.readable"),
            hidden: list("sandbox.hidden"),
            caches: list("sandbox.caches"),
            protected: list("sandbox.protected"),
            sockets: list("sandbox.sockets"),
            agents: sandbox_agents(env)?,
        },
        shell: RawShell {
            environment: RawShellEnvironment {
                allow: list("shell.environment.allow"),
                deny: list("shell.environment.deny"),
            },
        },
        extensions: RawExtensions {
            runtime: text("extensions.runtime"),
        },
        lsp: RawLsp {
            diagnostics_wait: text("lsp.diagnostics_wait"),
        },
        telemetry: RawTelemetry {
            admin: text("telemetry.admin"),
            otlp_endpoint: text("telemetry.otlp_endpoint"),
        },
        log: RawLog {
            format: text("log.format"),
            filter: text("log.filter"),
        },
    })
}

/// What is no key of the configuration and read all the same.
const OTHERS: [&str; 14] = [
    "TOOLGATE_AGENT",
    "TOOLGATE_COLOR",
    "TOOLGATE_CONFIG",
    "TOOLGATE_LOG",
    // What a service says to the servers that it starts.
    "TOOLGATE_MCP_DEPTH",
    "TOOLGATE_NAME",
    "TOOLGATE_SERVER",
    "TOOLGATE_SESSION",
    "TOOLGATE_TLS_CA",
    "TOOLGATE_TLS_CERT",
    "TOOLGATE_TLS_KEY",
    "TOOLGATE_TOKEN",
    "TOOLGATE_TOKEN_FILE",
    "TOOLGATE_WORKSPACE",
];

/// Returns a sentence for each variable that looks like ours and is none.
pub(super) fn unknown(env: &Environment, known: &[&str]) -> Vec<String> {
    let known: Vec<String> = known.iter().map(|key| name_of(key)).collect();
    let known = || known.iter().map(String::as_str).chain(OTHERS);
    let ours = env.vars().filter(|(name, _)| name.starts_with("TOOLGATE_"));
    let unknown = ours.filter(|(name, value)| !is_of_kubernetes(name, value) && !known().any(|one| one == *name));
    unknown
        .map(|(name, _)| {
            let meant = hints::nearest(name, known()).map(|meant| format!("; did you mean {meant}?"));
            let meant = meant.unwrap_or_default();
            format!("the variable {name} is not known and has no effect{meant}")
        })
        .collect()
}

/// Says whether Kubernetes sets such a variable for a service whose name begins with `toolgate`, for instance
/// `TOOLGATE_PORT_50551_TCP_ADDR`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let is_url = ["tcp://", "udp://", "sctp://"]
        .iter()
        .any(|scheme| value.starts_with(scheme));
    let of_port = |rest: &str| {
        let mut parts = rest.split('_');
        let number = parts.next().is_some_and(|port| port.parse::<u16>().is_ok());
        let protocol = parts.next().is_some_and(|name| ["TCP", "UDP", "SCTP"].contains(&name));
        let what = parts
            .next()
            .is_none_or(|what| ["PROTO", "PORT", "ADDR"].contains(&what));
        number && protocol && what && parts.next().is_none()
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && is_url)
        || name
            .match_indices("_PORT_")
            .any(|(at, mark)| of_port(&name[at + mark.len()..]))
}

fn switch(env: &Environment, key: &str) -> Result<Option<bool>, ConfigError> {
    let name = name_of(key);
    match env.get(&name) {
        None => Ok(None),
        Some("0" | "false") => Ok(Some(false)),
        Some("1" | "true") => Ok(Some(true)),
        Some(other) => Err(wrong(name, &format!("expected 1, true, 0 or false, found {other:?}"))),
    }
}

fn parsed<T: FromStr>(env: &Environment, key: &str, expected: &str) -> Result<Option<T>, ConfigError> {
    let name = name_of(key);
    match env.get(&name).map(|text| (text, text.parse())) {
        None => Ok(None),
        Some((_, Ok(value))) => Ok(Some(value)),
        Some((text, Err(_))) => Err(wrong(name, &format!("expected {expected}, found {text:?}"))),
    }
}

/// Reads `plan=read-only,build=workspace-write/allow`: for each agent its mode and, after a slash, its network.
fn sandbox_agents(env: &Environment) -> Result<Option<BTreeMap<String, RawSandboxAgent>>, ConfigError> {
    let name = name_of("sandbox.agents");
    let Some(text) = env.get(&name) else { return Ok(None) };
    let entries = text.split(',').map(|entry| {
        let (agent, rule) = entry.split_once('=')?;
        let (mode, network) = match rule.split_once('/') {
            Some((mode, network)) => (mode, Some(network.trim().to_owned())),
            None => (rule, None),
        };
        let mode = Some(mode.trim().to_owned());
        Some((agent.trim().to_owned(), RawSandboxAgent { mode, network }))
    });
    let entries: Option<BTreeMap<_, _>> = entries.collect();
    let expected = || format!("expected agent=mode or agent=mode/network, separated by commas, found {text:?}");
    entries.map(Some).ok_or_else(|| wrong(name, &expected()))
}

fn workspaces(env: &Environment) -> Result<Option<Vec<RawWorkspace>>, ConfigError> {
    let name = name_of("workspaces");
    let Some(text) = env.get(&name) else { return Ok(None) };
    let entries = text.split(',').map(|entry| {
        let (name, directory) = entry.split_once('=')?;
        Some(RawWorkspace {
            name: name.trim().to_owned(),
            directory: directory.trim().to_owned(),
            self_approval: None,
            trust: None,
        })
    });
    let entries: Option<Vec<_>> = entries.collect();
    let expected = || format!("expected name=folder, separated by commas, found {text:?}");
    entries.map(Some).ok_or_else(|| wrong(name, &expected()))
}

fn wrong(variable: String, message: &str) -> ConfigError {
    ConfigError::invalid("the environment", Problem::new(None, variable, message))
}
