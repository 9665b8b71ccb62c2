//! A process of a fleet that is killed, and comes back where it was.
//!
//! *Invariant:* its folder, its address and its log stay; only the process is another one.

#![allow(dead_code)] // two benchmarks share this, and each has its own part of it

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tokio::process::Command;

use crate::program;
use crate::service::{Serving, Token, announced, environment};

/// What clients show to a fleet.
pub(crate) const AGENT: &str = "the-agent-of-the-benchmark";

/// See the module.
pub(crate) struct Part {
    command: &'static str,
    folder: PathBuf,
    listens: String,
    running: Option<Serving>,
}

impl Part {
    /// Starts the program with a command and its configuration, in a folder.
    pub(crate) async fn start(folder: PathBuf, command: &'static str, settings: &str) -> Result<Self> {
        write(&folder, "toolgate.toml", settings)?;
        let free = TcpListener::bind("127.0.0.1:0")?;
        let mut part = Self {
            command,
            folder,
            listens: free.local_addr()?.to_string(),
            running: None,
        };
        drop(free);
        part.run().await?;
        Ok(part)
    }

    /// Starts it (again).
    pub(crate) async fn run(&mut self) -> Result<()> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))?;
        let mut command = Command::new(program());
        command
            .args(["--json", self.command, "--listen", &self.listens])
            .args(["--config", "toolgate.toml"])
            .env_clear()
            .envs(environment(&self.folder))
            .current_dir(&self.folder)
            .stderr(log);
        let started = Serving::start(command, Token::new(AGENT)?, announced).await;
        self.running = Some(started.with_context(|| format!("starting a {}: {}", self.command, self.log()))?);
        Ok(())
    }

    /// Returns the process.
    pub(crate) fn serving(&self) -> Result<&Serving> {
        self.running.as_ref().context("it does not run")
    }

    /// Returns where it listens, also while it does not.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listens)
    }

    /// Returns what it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Ends it without a warning.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.running.take().context("it does not run")?.kill().await
    }

    /// Ends it in order, if it runs.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        match self.running.take() {
            Some(running) => running.stop().await,
            None => Ok(()),
        }
    }
}

/// Writes a file that only its owner may read.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    fs::write(&path, text)?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?)
}
