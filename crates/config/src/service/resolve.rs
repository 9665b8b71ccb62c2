//! From layers of raw configuration to the one in force: the strongest layer that says something decides, and every
//! value is checked with its source at hand.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_permission::Unattended;

use super::layered::{DEFAULT_TCP, Layered, RawLayer, folder};
use super::raw::RawWorkspace;
use super::values::{
    AuthConfig, Config, ListenConfig, LocalUsers, LogConfig, LogFormat, LspConfig, PermissionConfig, RetentionConfig,
    ShellConfig, Source, WorkspaceConfig,
};
use super::variables;
use crate::environment::Environment;
use crate::error::{ConfigError, Problem};
use crate::units;

/// How long ago an approver may have left, so that prompts still wait.
const DEFAULT_ATTENDED_WITHIN: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(86_400);
/// Long enough for a server that looks at one file at a time, and hardly noticed beside what a model takes.
const DEFAULT_DIAGNOSTICS_WAIT: Duration = Duration::from_millis(500);
/// A server that takes longer is better heard of later.
const MAX_DIAGNOSTICS_WAIT: Duration = Duration::from_secs(3);
/// Bytes of the longest path that a socket address holds.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Makes the configuration of layers, the strongest last.
pub(super) fn config(layers: &[RawLayer], env: &Environment) -> Result<Config, ConfigError> {
    let mut pick = Layered {
        layers,
        env,
        settings: Vec::new(),
        warnings: Vec::new(),
        private_files: Vec::new(),
    };
    let data_dir = pick.data_dir()?;
    let drain_grace = pick.duration("drain_grace", |raw| &raw.drain_grace, Duration::from_secs(10))?;
    let listen = pick.listen(&data_dir)?;
    let console = pick.switch("console", |raw| &raw.console)?;
    let auth = pick.auth()?;
    pick.check_reach(&listen, &auth)?;
    let workspaces = pick.workspaces()?;
    let limits = pick.limits()?;
    let permission = pick.permission(listen.is_local(), &auth)?;
    let retention = RetentionConfig {
        outputs: pick.duration("retention.outputs", |raw| &raw.retention.outputs, 7 * DAY)?,
        calls: pick.duration("retention.calls", |raw| &raw.retention.calls, 30 * DAY)?,
        journal: pick.duration("retention.journal", |raw| &raw.retention.journal, 7 * DAY)?,
    };
    let audit = pick.audit()?;
    let redact = pick.redact()?;
    let network = pick.network()?;
    let search = pick.search()?;
    let sandbox = pick.sandbox()?;
    let shell = ShellConfig {
        environment_allow: pick.names(
            "shell.environment.allow",
            |raw| &raw.shell.environment.allow,
            "every variable",
        )?,
        environment_deny: pick.names("shell.environment.deny", |raw| &raw.shell.environment.deny, "none")?,
    };
    let javascript_runtime = pick.value(
        "extensions.runtime",
        |raw| &raw.extensions.runtime,
        |text, base| {
            Ok(Some(text)
                .filter(|text| *text != "auto")
                .map(|text| program(text, base)))
        },
        || None,
        |runtime| runtime.clone().unwrap_or_else(|| "auto".to_owned()),
    )?;
    let lsp = LspConfig {
        diagnostics_wait: pick.value(
            "lsp.diagnostics_wait",
            |raw| &raw.lsp.diagnostics_wait,
            |text, _| diagnostics_wait(text),
            || DEFAULT_DIAGNOSTICS_WAIT,
            |wait| units::show_duration(*wait),
        )?,
    };
    let telemetry = pick.telemetry()?;
    let log = pick.log()?;
    let keys: Vec<&str> = pick.settings.iter().map(|setting| setting.key.as_str()).collect();
    let unknown = variables::unknown(env, &keys);
    pick.warnings.extend(unknown);
    // Inside a workspace it is a file like others, and hiding it would be in the way of every command.
    let is_outside = |path: &PathBuf| {
        !workspaces
            .iter()
            .any(|workspace| path.starts_with(&workspace.directory))
    };
    let mut private_files = pick.private_files;
    private_files.extend(layers.iter().filter_map(RawLayer::path).filter(is_outside));
    Ok(Config {
        data_dir,
        drain_grace,
        listen,
        console,
        auth,
        workspaces,
        limits,
        permission,
        retention,
        audit,
        redact,
        network,
        search,
        sandbox,
        shell,
        javascript_runtime,
        lsp,
        telemetry,
        log,
        private_files,
        warnings: pick.warnings,
        settings: pick.settings,
    })
}

fn diagnostics_wait(text: &str) -> Result<Duration, String> {
    match units::duration(text)? {
        wait if wait <= MAX_DIAGNOSTICS_WAIT => Ok(wait),
        _ => Err(format!("expected at most {:?}, found {text:?}", MAX_DIAGNOSTICS_WAIT)),
    }
}

/// Takes a name as it is, and a relative path from the folder of the file that says it.
fn program(text: &str, base: &Path) -> String {
    if text.contains('/') {
        return base.join(text).to_string_lossy().into_owned();
    }
    text.to_owned()
}

impl Layered<'_> {
    fn data_dir(&mut self) -> Result<PathBuf, ConfigError> {
        let env = self.env;
        let default = env.data_home().map(|folder| folder.join("toolgate"));
        if default.is_none() && self.said(|raw| &raw.data_dir).is_none() {
            let message = "there is no home folder to keep data in: set data_dir or TOOLGATE_DATA_DIR";
            return Err(ConfigError::invalid(
                "the environment",
                Problem::new(None, "data_dir", message),
            ));
        }
        self.value(
            "data_dir",
            |raw| &raw.data_dir,
            |text, base| folder(env, text, base),
            || default.unwrap_or_default(),
            |path| path.display().to_string(),
        )
    }

    fn listen(&mut self, data_dir: &Path) -> Result<ListenConfig, ConfigError> {
        let env = self.env;
        let tcp = self.value(
            "listen.tcp",
            |raw| &raw.listen.tcp,
            |text, _| address(text),
            || DEFAULT_TCP.parse().ok(),
            |address| address.map_or_else(|| "none".to_owned(), |address| address.to_string()),
        )?;
        let default_socket = env.runtime_dir().unwrap_or(data_dir).join("toolgate.sock");
        let fits = default_socket.as_os_str().len() <= MAX_SOCKET_PATH_BYTES;
        if !fits && self.said(|raw| &raw.listen.unix).is_none() {
            let text = format!("no Unix socket: the path {} is too long", default_socket.display());
            self.warnings.push(text);
        }
        let unix = self.value(
            "listen.unix",
            |raw| &raw.listen.unix,
            |text, base| socket(env, text, base),
            || fits.then_some(default_socket),
            |path| {
                path.as_ref()
                    .map_or_else(|| "none".to_owned(), |path| path.display().to_string())
            },
        )?;
        let insecure = self.switch("listen.insecure", |raw| &raw.listen.insecure)?;
        let local_users = self.value(
            "listen.local_users",
            |raw| &raw.listen.local_users,
            |text, _| match text.as_str() {
                "same" => Ok(LocalUsers::Same),
                "any" => Ok(LocalUsers::Any),
                other => Err(format!("expected \"same\" or \"any\", found {other:?}")),
            },
            LocalUsers::default,
            |users| match users {
                LocalUsers::Same => "same".to_owned(),
                LocalUsers::Any => "any".to_owned(),
            },
        )?;
        let origins = self.value(
            "listen.origins",
            |raw| &raw.listen.origins,
            |list, _| list.iter().map(|text| origin(text)).collect(),
            Vec::new,
            |list| {
                if list.is_empty() {
                    "none".to_owned()
                } else {
                    list.join(",")
                }
            },
        )?;
        let listen = ListenConfig {
            tcp,
            unix,
            insecure,
            local_users,
            origins,
            tls: self.tls()?,
        };
        if listen.tcp.is_none() && listen.unix.is_none() {
            let message = "nothing to listen on: give listen.tcp or listen.unix".to_owned();
            return Err(self.conflict("listen.tcp", |raw| &raw.listen.tcp, message));
        }
        Ok(listen)
    }

    fn workspaces(&mut self) -> Result<Vec<WorkspaceConfig>, ConfigError> {
        let env = self.env;
        let trust = self.switch("trust", |raw| &raw.trust)?;
        let workspaces = match self.said(|raw| &raw.workspaces) {
            None => vec![WorkspaceConfig {
                name: "default".to_owned(),
                directory: env.cwd().to_path_buf(),
                self_approval: None,
                trust,
            }],
            Some((layer, entries)) => entries
                .iter()
                .enumerate()
                .map(|(index, entry)| workspace(env, (entry, trust), &entries[..index], &layer.base))
                .collect::<Result<_, _>>()
                .map_err(|message| layer.error("workspaces", message))?,
        };
        if workspaces.is_empty() {
            let message = "expected at least one workspace, or no such key".to_owned();
            return Err(self.conflict("workspaces", |raw| &raw.workspaces, message));
        }
        let source = self
            .said(|raw| &raw.workspaces)
            .map_or(Source::Default, |(layer, _)| layer.source("workspaces"));
        let shown = workspaces
            .iter()
            .map(|workspace| format!("{}={}", workspace.name, workspace.directory.display()));
        let shown: Vec<String> = shown.collect();
        self.record("workspaces", shown.join(","), source);
        Ok(workspaces)
    }

    fn permission(&mut self, is_local: bool, auth: &AuthConfig) -> Result<PermissionConfig, ConfigError> {
        let timeout = self.value(
            "permission.timeout",
            |raw| &raw.permission.timeout,
            |text, _| timeout(text),
            || (!is_local).then_some(Duration::from_secs(600)),
            |value| value.map_or_else(|| "none".to_owned(), units::show_duration),
        )?;
        let unattended = self.value(
            "permission.unattended",
            |raw| &raw.permission.unattended,
            |text, _| match text.as_str() {
                "wait" => Ok(Unattended::Wait),
                "refuse" => Ok(Unattended::Refuse),
                "attended" => Ok(Unattended::Attended(DEFAULT_ATTENDED_WITHIN)),
                other => Err(format!(
                    "expected \"wait\", \"refuse\" or \"attended\", found {other:?}"
                )),
            },
            || Unattended::Wait,
            |value| match value {
                Unattended::Wait => "wait".to_owned(),
                Unattended::Refuse => "refuse".to_owned(),
                Unattended::Attended(_) => "attended".to_owned(),
            },
        )?;
        let attended_within = self.value(
            "permission.attended_within",
            |raw| &raw.permission.attended_within,
            |text, _| match units::duration(text)? {
                Duration::ZERO => Err("expected more than no time at all".to_owned()),
                time => Ok(time),
            },
            || DEFAULT_ATTENDED_WITHIN,
            |value| units::show_duration(*value),
        )?;
        let (self_approval, second_approver) = self.approval(auth)?;
        Ok(PermissionConfig {
            timeout,
            unattended: match unattended {
                Unattended::Attended(_) => Unattended::Attended(attended_within),
                Unattended::Wait | Unattended::Refuse => unattended,
            },
            self_approval,
            second_approver,
        })
    }

    fn log(&mut self) -> Result<LogConfig, ConfigError> {
        let format = self.value(
            "log.format",
            |raw| &raw.log.format,
            |text, _| match text.as_str() {
                "text" => Ok(LogFormat::Text),
                "json" => Ok(LogFormat::Json),
                other => Err(format!("expected \"text\" or \"json\", found {other:?}")),
            },
            || LogFormat::Text,
            |value| match value {
                LogFormat::Text => "text".to_owned(),
                LogFormat::Json => "json".to_owned(),
            },
        )?;
        let filter = self.value(
            "log.filter",
            |raw| &raw.log.filter,
            |text, _| log_filter(text),
            || "info".to_owned(),
            String::clone,
        )?;
        Ok(LogConfig { format, filter })
    }
}

fn log_filter(text: &str) -> Result<String, String> {
    tracing_subscriber::EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| format!("expected a filter such as \"info,toolgate=debug\", found {text:?}: {error}"))
}

/// Reads the origin of a web page, as browsers send it: scheme, host, and a port that is not the scheme's own.
fn origin(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_origin = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*', ' ']);
    match host {
        Some(host) if is_origin(host) => Ok(text),
        Some(_) | None => Err(format!(
            "expected an origin such as \"http://localhost:3000\", found {text:?}"
        )),
    }
}

fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "none" {
        return Ok(None);
    }
    let numeric = text
        .strip_prefix("localhost:")
        .map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    numeric
        .parse()
        .map(Some)
        .map_err(|_| format!("expected an address and port such as {DEFAULT_TCP:?}, or \"none\", found {text:?}"))
}

fn socket(env: &Environment, text: &str, base: &Path) -> Result<Option<PathBuf>, String> {
    if text == "none" {
        return Ok(None);
    }
    let path = folder(env, text, base)?;
    if path.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
        return Err(format!(
            "expected a path of at most {MAX_SOCKET_PATH_BYTES} bytes, found {}",
            path.display()
        ));
    }
    Ok(Some(path))
}

fn timeout(text: &str) -> Result<Option<Duration>, String> {
    if text == "none" {
        return Ok(None);
    }
    match units::duration(text)? {
        Duration::ZERO => Err("expected more than no time at all, or \"none\" to wait for ever".to_owned()),
        time => Ok(Some(time)),
    }
}

fn workspace(
    env: &Environment,
    (entry, trust): (&RawWorkspace, bool),
    before: &[RawWorkspace],
    base: &Path,
) -> Result<WorkspaceConfig, String> {
    let name = &entry.name;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(format!(
            "expected a name of 1 to 64 letters, digits, '-', '_' or '.', found {name:?}"
        ));
    }
    if before.iter().any(|earlier| earlier.name == *name) {
        return Err(format!("expected different names, found {name:?} twice"));
    }
    Ok(WorkspaceConfig {
        name: name.clone(),
        directory: folder(env, &entry.directory, base)?,
        self_approval: entry.self_approval,
        trust: entry.trust.unwrap_or(trust),
    })
}
