//! Stands for `config` and `app` with the interface that `service` is written against.

#![allow(dead_code)] // what the real ones read, these only carry

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

/// What the process was given.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    /// Its variables.
    pub(super) vars: BTreeMap<String, String>,
}

impl Environment {
    /// Reads the process's own.
    pub(super) fn from_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            vars: std::env::vars_os().filter_map(text).collect(),
        }
    }
}

/// What flags say.
#[derive(Clone, Debug, Default)]
pub(super) struct RawConfig {
    /// The file.
    pub(super) file: Option<PathBuf>,
    /// The TCP address.
    pub(super) listen: Option<String>,
    /// The Unix socket.
    pub(super) socket: Option<PathBuf>,
    /// Whether not to listen on TCP.
    pub(super) no_tcp: Option<bool>,
    /// Whether not to listen on a Unix socket.
    pub(super) no_socket: Option<bool>,
    /// Whether to listen without TLS and authentication.
    pub(super) insecure: Option<bool>,
    /// The workspaces.
    pub(super) workspaces: Vec<(String, PathBuf)>,
    /// The folder for state.
    pub(super) data_dir: Option<PathBuf>,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConfigError(String);

/// The configuration in force.
#[derive(Debug)]
pub(super) struct Config {
    /// The Unix socket.
    pub(super) socket: Option<PathBuf>,
}

impl Config {
    /// Reads it.
    pub(super) fn load(flags: RawConfig, _environment: &Environment) -> Result<Self, ConfigError> {
        if flags.listen.as_deref() == Some("") {
            return Err(ConfigError("`listen` is empty".to_owned()));
        }
        Ok(Self { socket: flags.socket })
    }

    /// Returns each key, its value and where it comes from.
    pub(super) fn explain(&self) -> Vec<(String, String, String)> {
        Vec::new()
    }

    /// Returns the workspaces as `config --json` shows them.
    pub(super) fn explain_workspaces(&self, _environment: &Environment) -> Result<serde_json::Value, ConfigError> {
        Ok(serde_json::Value::Array(Vec::new()))
    }
}

/// The service, built.
#[derive(Debug)]
pub(super) struct App;

impl App {
    /// Builds it.
    pub(super) fn build(_config: &Config, _environment: &Environment) -> anyhow::Result<Self> {
        anyhow::bail!("this build has no service")
    }

    /// Starts it.
    pub(super) async fn start(self) -> anyhow::Result<Running> {
        Ok(Running {
            tcp: None,
            unix: None,
            exit_now: CancellationToken::new(),
        })
    }
}

/// The service, running.
#[derive(Debug)]
pub(super) struct Running {
    /// Where it listens on TCP.
    pub(super) tcp: Option<SocketAddr>,
    /// Where its Unix socket is.
    pub(super) unix: Option<PathBuf>,
    /// Ends it without waiting.
    pub(super) exit_now: CancellationToken,
}

impl Running {
    /// Ends it in order.
    pub(super) async fn drain(self) {}
}
