//! The glue between the command line and the service: reads the configuration, starts the service, finds those that run.
//!
//! *Invariant:* a command sees [`Flags`], [`Service`] and JSON, and talks to the service through the contract alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_config::service::{ClusterRole, LogConfig, TelemetryConfig};
use toolgate_config::{Config, ConfigError, Environment, RawConfig, ToolsConfig};
use toolgate_fs::Workspace;
use toolgate_gateway::Gateway;
use toolgate_model::audit_key::Key;
use toolgate_model::redact::Redactor;
use toolgate_permission::agents::{Agents, Folders};
use toolgate_process::sandbox::Kernel;
use toolgate_server::app::entrance::Taken;
#[cfg(feature = "mcp")]
use toolgate_server::app::mcp_login::{LoginPlace, NotNamed};
use toolgate_server::app::{
    App, Claim, Emergency, Running, Temporary, UnusableFolder, Unwelcome, output_folder, workspace_folder,
};

use super::exit::{Failure, with_causes};
use super::greeting::Greeting;
use super::instances::{self, Instance, Registration, Settings};
use super::taken;

/// The file of the running program, even where it has been replaced meanwhile.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// What the command line says about the service itself. What it leaves out, variables, the file and the defaults say.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    pub(super) config: Option<PathBuf>,
    pub(super) listen: Option<String>,
    pub(super) socket: Option<PathBuf>,
    pub(super) no_tcp: bool,
    pub(super) no_socket: bool,
    pub(super) insecure: bool,
    pub(super) workspaces: Vec<(String, PathBuf)>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) sandbox: Option<String>,
    pub(super) admin: Option<String>,
    pub(super) trust: bool,
    pub(super) console: bool,
    /// The session that it is started for: others find it by that.
    pub(super) session: Option<String>,
}

impl Flags {
    fn raw(&self) -> RawConfig {
        let or_none = |off: bool, value: Option<String>| if off { Some("none".to_owned()) } else { value };
        let workspaces: Vec<(&str, String)> = self
            .workspaces
            .iter()
            .map(|(name, folder)| (&**name, text(folder)))
            .collect();
        RawConfig::default()
            .with_some("data_dir", self.data_dir.as_deref().map(text))
            .with_some("listen.tcp", or_none(self.no_tcp, self.listen.clone()))
            .with_some("listen.unix", or_none(self.no_socket, self.socket.as_deref().map(text)))
            .with_some("listen.insecure", self.insecure.then_some(true))
            .with_some("trust", self.trust.then_some(true))
            .with_some("console", self.console.then_some(true))
            .with_workspaces(&workspaces)
            .with_some("sandbox.mode", self.sandbox.clone())
            .with_some("telemetry.admin", self.admin.clone())
    }

    fn load(&self, environment: &Environment) -> Result<Config, Failure> {
        Config::load(self.config.as_deref(), self.raw(), environment).map_err(configuration)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Takes the process's environment; what is not UTF-8 cannot be a setting and is left out.
pub(super) fn environment() -> Environment {
    let variables = std::env::vars_os();
    let variables = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    Environment::new(variables, cwd)
}

/// Says which variables look like ours and are none.
pub(super) fn unknown_variables() -> Vec<String> {
    toolgate_config::service::unknown_variables(&environment())
}

fn configuration(error: impl std::error::Error) -> Failure {
    Failure::Configuration(with_causes(&error))
}

/// Returns the configuration, as far as no flag changes it.
fn configured(config: Option<PathBuf>) -> Result<Config, Failure> {
    let flags = Flags {
        config,
        ..Flags::default()
    };
    flags.load(&environment())
}

/// Returns what the configuration says about the log, as far as it can be read: the command itself reports what is wrong.
pub(super) fn log_settings(config: Option<PathBuf>) -> Option<LogConfig> {
    configured(config).ok().map(|config| config.log)
}

/// Returns what takes secrets out of the log, if the configuration can be read.
pub(super) fn redactor(config: Option<PathBuf>) -> Option<Redactor> {
    configured(config).ok().map(|config| config.redact.0)
}

/// Returns the configured key of the audit, if there is one.
pub(super) fn audit_key(config: Option<PathBuf>) -> Option<Key> {
    configured(config).ok()?.audit.key().cloned()
}

/// Returns the data directory: the one that is named, else the configured one.
pub(super) fn data_dir(named: Option<PathBuf>, config: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let flags = Flags {
        config,
        data_dir: named,
        ..Flags::default()
    };
    Ok(flags.load(&environment())?.data_dir)
}

/// Says whether the configuration is that of a gateway.
pub(super) fn is_gateway(config: Option<PathBuf>) -> Result<bool, Failure> {
    let flags = Flags {
        config,
        ..Flags::default()
    };
    Ok(flags.load(&environment())?.cluster.role == ClusterRole::Gateway)
}

/// A service that runs in this process.
pub(super) struct Service {
    running: Running,
    /// What it says first, if it is there to stay.
    greeting: Option<Greeting>,
    /// Lets other commands find it.
    registration: Option<Registration>,
}

impl Service {
    /// Builds it from the configuration and starts it. One that is there to stay looks after what an earlier one left.
    pub(super) async fn start(flags: &Flags, stays: bool) -> Result<Self, Failure> {
        let environment = environment();
        let mut config = flags.load(&environment)?;
        match (stays, config.cluster.role) {
            // It is there to stay, or nothing: others would find its workspaces taken.
            (true, ClusterRole::Worker) => {}
            (_, ClusterRole::All | ClusterRole::Gateway | ClusterRole::Worker) => {
                check_role(&config, ClusterRole::All)?
            }
        }
        if !stays {
            // Its port may be taken by the one that stays, and nobody waits for the traces of one command.
            config.telemetry = TelemetryConfig::default();
        }
        // Those of variables a command has told of itself.
        let told = if stays { Vec::new() } else { unknown_variables() };
        for warning in config.warnings.iter().filter(|warning| !told.contains(warning)) {
            tracing::warn!("{warning}");
        }
        let claim = stays.then(|| Claim::take(&config.data_dir)).transpose();
        let claim = claim.map_err(|error| Failure::Start(taken::of_data(&error, &running())))?;
        let mut app = App::build(&config, &environment, Some(OWN_PROGRAM.into()))
            .await
            .map_err(not_started)?;
        let data_dir = config.data_dir.canonicalize().ok();
        if let Some(claim) = claim {
            app.recover(claim).await.map_err(not_started)?;
        }
        let started = app.start().await.map_err(not_started)?;
        let mut service = Self {
            running: started,
            greeting: stays.then(|| Greeting::of(&config, &environment)),
            registration: None,
        };
        service.register(flags, &environment, stays, data_dir);
        Ok(service)
    }

    fn register(&mut self, flags: &Flags, environment: &Environment, stays: bool, data_dir: Option<PathBuf>) {
        let unix = self.unix().map(|socket| format!("unix:{}", socket.display()));
        let tcp = self.tcp().map(|mut address| {
            if address.ip().is_unspecified() {
                address.set_ip(match address.ip() {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                });
            }
            format!("{}://{address}", self.scheme())
        });
        let Some(url) = unix.or(tcp) else { return };
        let instance = Instance {
            url,
            tcp: self.tcp(),
            settings: Settings::of(environment, &self.running.instance),
            id: self.running.instance.clone(),
            pid: std::process::id(),
            stays,
            config: named_config(flags.config.clone()),
            data_dir,
            workspaces: self.running.workspaces.clone(),
            roots: self.running.roots.clone(),
            session: flags.session.clone(),
        };
        self.registration = instances::register(&environment.instance_folders(), &instance);
    }

    /// Returns what it says of itself first.
    pub(super) fn greeting(&self) -> Option<&Greeting> {
        self.greeting.as_ref()
    }

    /// Notes in the log where the audit goes on.
    pub(super) async fn note_audit(&self) {
        self.running.note_audit().await;
    }

    /// Returns where it listens on TCP.
    pub(super) fn tcp(&self) -> Option<SocketAddr> {
        self.running.tcp
    }

    /// Returns the scheme of that.
    pub(super) fn scheme(&self) -> &'static str {
        if self.running.tls { "https" } else { "http" }
    }

    /// Returns where it can be reached, as people write it.
    pub(super) fn addresses(&self) -> Addresses {
        let Running {
            tcp,
            tls,
            unix,
            admin,
            console,
            ..
        } = &self.running;
        Addresses::new(*tcp, *tls, unix.as_deref(), *admin, *console)
    }

    /// Returns where its Unix socket is.
    pub(super) fn unix(&self) -> Option<&Path> {
        self.running.unix.as_deref()
    }

    /// Returns what ends its programs while it is drained.
    pub(super) fn emergency(&self) -> Emergency {
        self.running.emergency()
    }

    /// Ends when its programs must be killed at once: another run may have its calls.
    pub(super) fn stopped(&self) -> CancellationToken {
        self.running.stopped()
    }

    /// Waits until it can no longer serve, and says why.
    pub(super) async fn failed(&mut self) -> Failure {
        not_started(self.running.failed().await)
    }

    /// Ends it in order: refuse, wait, cancel, close.
    pub(super) async fn drain(self) {
        // Nobody should begin anything with it.
        drop(self.registration);
        self.running.drain().await;
    }
}

/// Where a service or a gateway can be reached, as people write it.
pub(super) struct Addresses {
    pub(super) tcp: Option<String>,
    pub(super) unix: Option<String>,
    /// Where workers come that have a listener of their own.
    pub(super) workers: Option<String>,
    pub(super) admin: Option<String>,
    pub(super) console: Option<String>,
}

impl Addresses {
    fn new(tcp: Option<SocketAddr>, tls: bool, unix: Option<&Path>, admin: Option<SocketAddr>, console: bool) -> Self {
        let tcp = tcp.map(|address| format!("{}://{address}", if tls { "https" } else { "http" }));
        Self {
            unix: unix.map(|socket| format!("unix:{}", socket.display())),
            workers: None,
            admin: admin.map(|address| format!("http://{address}/metrics")),
            console: tcp
                .as_ref()
                .filter(|_| console)
                .map(|address| format!("{address}/console/")),
            tcp,
        }
    }

    pub(super) fn of_gateway(gateway: &Gateway) -> Self {
        let Gateway {
            tcp,
            tls,
            unix,
            admin,
            console,
            ..
        } = gateway;
        Self {
            workers: gateway.workers.map(|address| address.to_string()),
            ..Self::new(*tcp, *tls, unix.as_deref(), *admin, *console)
        }
    }
}

/// Returns the configuration of a gateway.
pub(super) fn gateway_config(flags: &Flags) -> Result<Config, Failure> {
    let config = flags.load(&environment())?;
    check_role(&config, ClusterRole::Gateway)?;
    Ok(config)
}

/// Starts a gateway from the configuration.
pub(super) async fn gateway(flags: &Flags) -> Result<Gateway, Failure> {
    let config = gateway_config(flags)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let started = Gateway::start(&config).await;
    started.map_err(|error| match error.is::<ConfigError>() {
        true => Failure::Configuration(format!("{error:#}")),
        false => Failure::StartGateway(match error.downcast_ref::<Taken>() {
            Some(taken) => taken::of_address(taken, &running()),
            None => format!("{error:#}"),
        }),
    })
}

/// Refuses a configuration that is for another command.
fn check_role(config: &Config, role: ClusterRole) -> Result<(), Failure> {
    if config.cluster.role == role {
        return Ok(());
    }
    Err(Failure::Configuration(match role {
        ClusterRole::All | ClusterRole::Worker if config.cluster.role == ClusterRole::Worker => {
            "the configuration is that of a worker (cluster.role), which keeps nothing by itself: make calls at its gateway, with \
             --server"
                .to_owned()
        }
        ClusterRole::All | ClusterRole::Worker => {
            "the configuration is that of a gateway (cluster.role), which runs no calls: start it with `toolgate gateway`".to_owned()
        }
        ClusterRole::Gateway => {
            "the configuration is not that of a gateway: set cluster.role to \"gateway\" and name the workers in \
             [cluster.workers.NAME], or start a service with `toolgate serve`"
                .to_owned()
        }
    }))
}

fn not_started(error: anyhow::Error) -> Failure {
    if let Some(taken) = error.downcast_ref::<Taken>() {
        return Failure::Start(taken::of_address(taken, &running()));
    }
    let text = format!("{error:#}");
    if error.is::<ConfigError>() || error.is::<UnusableFolder>() || error.is::<Unwelcome>() {
        Failure::Configuration(text)
    } else {
        Failure::Start(text)
    }
}

/// Returns the configuration file that was named, whole.
fn named_config(config: Option<PathBuf>) -> Option<PathBuf> {
    config.map(|path| path.canonicalize().unwrap_or(path))
}

/// Returns which settings of this process and of a service differ that say what calls may do: the names of variables.
pub(super) fn differences(instance: &Instance) -> Vec<String> {
    instance.settings.differences(&environment(), &instance.id)
}

/// Returns the services of this user that run, except this process's own.
pub(super) fn running() -> Vec<Instance> {
    let own = std::process::id();
    let mut found = instances::running(&environment().instance_folders());
    found.retain(|instance| instance.pid != own);
    found
}

/// Returns the services that are there to stay, were started with the same configuration file, and have this folder, if one is
/// meant, or may have opened it since.
pub(super) fn that_may_have(directory: Option<&Path>, config: Option<PathBuf>) -> Vec<Instance> {
    let config = named_config(config);
    let mut found = running();
    found.retain(|instance| {
        let mut folders = instance.workspaces.iter().map(|(_, folder)| folder);
        let may_have = directory.is_none_or(|directory| {
            folders.any(|folder| folder == directory) || instance.roots.iter().any(|root| directory.starts_with(root))
        });
        instance.stays && instance.config == config && may_have
    });
    found
}

/// A service for one command, on a socket that only this user can reach. Its state is kept where `serve` keeps it.
pub(super) struct PrivateService {
    service: Service,
    folder: Temporary,
}

impl PrivateService {
    /// Starts one; with a directory that is its only workspace, else with the configured ones. It is for this session, if
    /// one is named.
    pub(super) async fn start(
        config: Option<PathBuf>,
        directory: Option<PathBuf>,
        session: Option<String>,
    ) -> Result<Self, Failure> {
        let folder = Temporary::new();
        let folder = folder.map_err(|error| Failure::Start(format!("cannot make a temporary folder: {error}")))?;
        let flags = Flags {
            config,
            socket: Some(folder.path().join("toolgate.sock")),
            no_tcp: true,
            workspaces: directory
                .into_iter()
                .map(|directory| ("default".to_owned(), directory))
                .collect(),
            session,
            ..Flags::default()
        };
        Ok(Self {
            service: Service::start(&flags, false).await?,
            folder,
        })
    }

    /// Returns its socket.
    pub(super) fn socket(&self) -> Result<&Path, Failure> {
        self.service
            .unix()
            .ok_or_else(|| Failure::Start("it listens on no Unix socket".to_owned()))
    }

    /// Ends it in order.
    pub(super) async fn drain(self) {
        self.service.drain().await;
        if let Err(error) = self.folder.close() {
            tracing::warn!(%error, "cannot remove the temporary folder");
        }
    }
}

/// Returns the configured Unix socket, if the configuration can be read.
pub(super) fn configured_socket(config: Option<PathBuf>) -> Option<PathBuf> {
    configured(config).ok()?.listen.unix
}

/// Finds a server of tools at which one can log in: in the folder that is named, else in the current one, else in the configured
/// workspaces.
#[cfg(feature = "mcp")]
pub(super) fn login_place(config: Option<PathBuf>, folder: Option<PathBuf>, name: &str) -> Result<LoginPlace, Failure> {
    let environment = environment();
    let is_named = folder.is_some();
    let folder = environment.resolve(&text(&folder.unwrap_or_default()), environment.cwd());
    let at_folder = Flags {
        config: config.clone(),
        workspaces: vec![("default".to_owned(), folder)],
        ..Flags::default()
    };
    let found = LoginPlace::find(&at_folder.load(&environment)?, &environment, name);
    let found = match found {
        Err(error) if !is_named && error.is::<NotNamed>() => {
            let elsewhere = LoginPlace::find(&configured(config)?, &environment, name);
            // What is in the folder tells a person most.
            elsewhere.map_err(|other| if other.is::<NotNamed>() { error } else { other })
        }
        found => found,
    };
    found.map_err(|error| Failure::Configuration(format!("{error:#}")))
}

/// Returns what is in force and where it comes from: `service` and `workspaces`.
pub(super) fn explain(flags: &Flags) -> Result<Value, Failure> {
    let environment = environment();
    let config = flags.load(&environment)?;
    let service: Vec<Value> = config
        .explain()
        .iter()
        .map(|setting| json!({ "key": setting.key, "value": setting.value, "source": setting.source.to_string() }))
        .collect();
    let workspaces = config.workspaces.iter().map(|workspace| {
        let found = explain_workspace(&workspace.name, &workspace.directory, &config.data_dir, &environment);
        // What is wrong with one must not hide the others.
        found.unwrap_or_else(|failure| {
            json!({
                "name": workspace.name,
                "directory": workspace.directory,
                "problem": failure.to_string(),
            })
        })
    });
    let workspaces: Vec<Value> = workspaces.collect();
    Ok(json!({ "service": service, "warnings": config.warnings, "workspaces": workspaces }))
}

/// What is around a folder that may become a workspace.
pub(super) struct Surroundings {
    /// The repository that the folder is in.
    pub(super) repository: Option<PathBuf>,
    /// The files of others, or of the user, that say something of rules and hold here as well.
    pub(super) rule_files: Vec<PathBuf>,
    /// What the kernel lacks for confining commands.
    pub(super) sandbox_lacks: Vec<String>,
}

/// Looks around a folder. Nothing is started.
pub(super) fn surroundings(folder: &Path) -> Result<Surroundings, Failure> {
    let environment = environment();
    let (workspace, tools) = read_workspace("default", folder, &environment)?;
    let root = workspace.worktree();
    let is_elsewhere = |path: &&Path| !path.starts_with(folder);
    Ok(Surroundings {
        repository: root.join(".git").exists().then(|| root.to_path_buf()),
        rule_files: tools.rule_files().filter(is_elsewhere).map(Path::to_path_buf).collect(),
        sandbox_lacks: Kernel::probe().lacks(),
    })
}

/// Opens a folder as a workspace, and reads what is configured in it.
pub(super) fn read_workspace(
    name: &str,
    directory: &Path,
    environment: &Environment,
) -> Result<(Workspace, ToolsConfig), Failure> {
    let home = environment.home().map(Path::to_path_buf);
    let workspace = Workspace::open(name, directory, home)
        .map_err(|error| Failure::Configuration(format!("the workspace {}: {error}", directory.display())))?;
    let tools = ToolsConfig::load(workspace.directory(), workspace.worktree(), environment).map_err(configuration)?;
    Ok((workspace, tools))
}

fn explain_workspace(
    name: &str,
    directory: &Path,
    data_dir: &Path,
    environment: &Environment,
) -> Result<Value, Failure> {
    let (workspace, tools) = read_workspace(name, directory, environment)?;
    let sources: Vec<Value> = tools
        .explain()
        .iter()
        .map(|leaf| {
            let origins: Vec<String> = leaf.origins.iter().map(ToString::to_string).collect();
            json!({ "pointer": leaf.pointer, "source": origins.join(", ") })
        })
        .collect();
    let output_dir = output_folder(data_dir, name);
    let own_folder = workspace_folder(data_dir, name);
    let agents = Agents::new(
        &tools.agents,
        Folders {
            output_dir: &output_dir,
            data_dir: &own_folder,
            skills: &[],
        },
    );
    let agents: Vec<Value> = agents
        .iter()
        .map(|agent| json!({ "name": agent.name, "mode": agent.mode.as_str() }))
        .collect();
    Ok(json!({
        "name": workspace.name(),
        "directory": workspace.directory(),
        "worktree": workspace.worktree(),
        "opencode": tools.masked(),
        "sources": sources,
        "warnings": tools.warnings_alone(),
        "agents": agents,
    }))
}
