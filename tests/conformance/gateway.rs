//! A gateway between the cases and the services: three workers, one of which is the service of the case.
//!
//! *Invariant:* the gateway and its workers know each other by tokens, as they would on several machines; nothing of them
//! outlives the runner.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::server::PROGRAM;

/// The token of the cases at the gateway, and that of the gateway at its workers.
pub(crate) const TOKEN: &str = "a-token-of-the-cases";
const OWN: &str = "a-token-of-the-gateway";

/// The variables by which a service is a worker of the gateway.
pub(crate) fn as_worker(folder: &Path) -> Result<[(&'static str, String); 3]> {
    let tokens = folder.join("gateway-tokens");
    private(&tokens, &format!("gateway {OWN} *\n"))?;
    Ok([
        ("TOOLGATE_AUTH_TOKENS_FILE", tokens.display().to_string()),
        ("TOOLGATE_AUTH_GATEWAYS", "token:gateway".to_owned()),
        // The runner makes the calls, and answers their prompts.
        ("TOOLGATE_PERMISSION_SELF_APPROVAL", "true".to_owned()),
    ])
}

pub(crate) fn private(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o600)))?;
    Ok(())
}

/// The workers that no case uses: they make a gateway look for what it passes on.
pub(crate) struct Workers {
    folder: TempDir,
    _children: Vec<Child>,
}

impl Workers {
    /// Starts them. They listen some time later; a gateway waits for them.
    pub(crate) async fn start() -> Result<Self> {
        let folder = TempDir::new().context("making the folder of the workers")?;
        let mut children = Vec::new();
        for name in OTHERS {
            let own = folder.path().join(name);
            fs::create_dir_all(own.join("work"))?;
            let child = Command::new(PROGRAM)
                .args([
                    "serve",
                    "--no-tcp",
                    "--socket",
                    "socket",
                    "--data-dir",
                    "data",
                    "--workspace",
                ])
                .arg(format!("{name}=work"))
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                .env("HOME", &own)
                .envs(as_worker(&own)?)
                .current_dir(&own)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn();
            children.push(child.context("starting a worker")?);
        }
        for name in OTHERS {
            let socket = folder.path().join(name).join("socket");
            for _ in 0..1000 {
                if socket.exists() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            anyhow::ensure!(socket.exists(), "the worker {name} does not listen");
        }
        Ok(Self {
            folder,
            _children: children,
        })
    }

    /// Writes what a gateway needs in front of a service and these, and returns the file of its configuration.
    pub(crate) fn configure(&self, folder: &Path, service: &Path) -> Result<PathBuf> {
        private(&folder.join("gateway-own"), OWN)?;
        private(&folder.join("gateway-people"), &format!("cases {TOKEN} *\n"))?;
        // First by name, so that its workspace is the default one.
        let mut text = "[auth]\ntokens_file = \"gateway-people\"\n[cluster]\nrole = \"gateway\"\n".to_owned();
        let others = OTHERS.map(|name| (name, self.folder.path().join(name).join("socket")));
        for (name, socket) in [("case", service.to_path_buf())].into_iter().chain(others) {
            let address = format!("unix:{}", socket.display());
            text += &format!("[cluster.workers.{name}]\naddress = {address:?}\ntoken_file = \"gateway-own\"\n");
        }
        let file = folder.join("gateway.toml");
        fs::write(&file, text)?;
        Ok(file)
    }
}

const OTHERS: [&str; 2] = ["other", "third"];
