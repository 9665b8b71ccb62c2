//! A gateway in front of a service.
//!
//! *Invariant:* both are processes of their own; clients show the same token at either, so that only the way differs.

#![allow(dead_code)] // two benchmarks share this, and each has its own part of it

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use crate::service::{Service, Serving, Token, announced, environment, folder};

const GATEWAY: &str = "the-gateway-of-the-benchmark";
const PERSON: &str = "the-person-of-the-benchmark";

/// A service, and a gateway whose only worker it is.
pub(crate) struct Fleet {
    pub(crate) service: Service,
    pub(crate) gateway: Serving,
    /// Where the gateway has its files.
    folder: TempDir,
}

impl Fleet {
    /// Starts both, with variables on top for both.
    pub(crate) async fn start(program: &Path, workspace: &Path, variables: &[(&str, String)]) -> Result<Self> {
        let folder = folder()?;
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            anyhow::Ok(path)
        };
        let tokens = write("tokens", format!("gateway {GATEWAY} *\nperson {PERSON} *\n"))?;
        let own = write("own", format!("{GATEWAY}\n"))?;
        let mut of_worker = variables.to_vec();
        of_worker.push(("TOOLGATE_AUTH_TOKENS_FILE", tokens.display().to_string()));
        of_worker.push(("TOOLGATE_AUTH_GATEWAYS", "token:gateway".to_owned()));
        let person = Token::new(PERSON)?;
        let service = Service::for_clients(program, workspace, &json!({}), &of_worker, person.clone()).await?;
        let settings = format!(
            "auth.tokens_file = {tokens:?}\ncluster.role = \"gateway\"\n[cluster.workers.worker]\naddress = {:?}\ntoken_file = {own:?}\n",
            service.serving().address(),
        );
        let settings = write("toolgate.toml", settings)?;
        let mut command = Command::new(program);
        command
            .args(["--json", "gateway", "--listen", "127.0.0.1:0", "--config"])
            .arg(settings)
            .env_clear()
            .envs(environment(folder.path()))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir(folder.path())
            .stderr(std::process::Stdio::null());
        let gateway = Serving::start(command, person, announced)
            .await
            .context("starting a gateway")?;
        Ok(Self {
            service,
            gateway,
            folder,
        })
    }

    /// Ends both.
    pub(crate) async fn stop(self) -> Result<()> {
        self.gateway.stop().await?;
        self.service.stop().await
    }
}
