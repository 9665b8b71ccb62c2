//! The glue between the command line and the service: the only file here that names the configuration and the
//! composition root.
//!
//! *Invariant:* a command sees [`Flags`], [`Service`] and JSON, and talks to the service through the contract alone.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::exit::Failure;
use super::placeholder::{App, Config, Environment, RawConfig, Running};

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
}

impl Flags {
    fn raw(&self) -> RawConfig {
        RawConfig {
            file: self.config.clone(),
            listen: self.listen.clone(),
            socket: self.socket.clone(),
            no_tcp: self.no_tcp.then_some(true),
            no_socket: self.no_socket.then_some(true),
            insecure: self.insecure.then_some(true),
            workspaces: self.workspaces.clone(),
            data_dir: self.data_dir.clone(),
        }
    }

    fn load(&self, environment: &Environment) -> Result<Config, Failure> {
        Config::load(self.raw(), environment).map_err(|error| Failure::Configuration(error.to_string()))
    }
}

/// A service that runs in this process.
pub(super) struct Service {
    running: Running,
}

impl Service {
    /// Builds it from the configuration and starts it.
    pub(super) async fn start(flags: &Flags) -> Result<Self, Failure> {
        let environment = Environment::from_process();
        let config = flags.load(&environment)?;
        let failed = |error: anyhow::Error| Failure::Start(format!("{error:#}"));
        let app = App::build(&config, &environment).map_err(failed)?;
        Ok(Self {
            running: app.start().await.map_err(failed)?,
        })
    }

    /// Returns where it listens on TCP.
    pub(super) fn tcp(&self) -> Option<SocketAddr> {
        self.running.tcp
    }

    /// Returns where its Unix socket is.
    pub(super) fn unix(&self) -> Option<&Path> {
        self.running.unix.as_deref()
    }

    /// Returns the token that ends it without waiting for anything.
    pub(super) fn exit_now(&self) -> CancellationToken {
        self.running.exit_now.clone()
    }

    /// Ends it in order: refuse, wait, cancel, close.
    pub(super) async fn drain(self) {
        self.running.drain().await;
    }
}

/// A service for one command: on a socket that only this user can reach, its state gone when it ends.
pub(super) struct PrivateService {
    service: Service,
    folder: TempDir,
}

impl PrivateService {
    /// Starts one; with a directory that is its only workspace, else with the configured ones.
    pub(super) async fn start(config: Option<PathBuf>, directory: Option<PathBuf>) -> Result<Self, Failure> {
        // Temporary folders are made with mode 0700.
        let folder = tempfile::Builder::new().prefix("toolgate-").tempdir();
        let folder = folder.map_err(|error| Failure::Start(format!("cannot make a temporary folder: {error}")))?;
        let flags = Flags {
            config,
            socket: Some(folder.path().join("toolgate.sock")),
            no_tcp: true,
            workspaces: directory
                .into_iter()
                .map(|directory| ("default".to_owned(), directory))
                .collect(),
            data_dir: Some(folder.path().join("data")),
            ..Flags::default()
        };
        Ok(Self {
            service: Service::start(&flags).await?,
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

    /// Ends it without waiting for its calls.
    pub(super) fn abandon(self) {
        self.service.exit_now().cancel();
    }
}

/// Returns the configured Unix socket, if the configuration can be read.
pub(super) fn configured_socket(config: Option<PathBuf>) -> Option<PathBuf> {
    let flags = Flags {
        config,
        ..Flags::default()
    };
    flags.load(&Environment::from_process()).ok()?.socket
}

/// Returns what is in force and where it comes from: `service` and `workspaces`.
pub(super) fn explain(flags: &Flags) -> Result<Value, Failure> {
    let environment = Environment::from_process();
    let config = flags.load(&environment)?;
    let service = config
        .explain()
        .into_iter()
        .map(|(key, value, source)| json!({ "key": key, "value": value, "source": source }));
    let workspaces = config.explain_workspaces(&environment);
    Ok(json!({
        "service": service.collect::<Vec<_>>(),
        "workspaces": workspaces.map_err(|error| Failure::Configuration(error.to_string()))?,
    }))
}
