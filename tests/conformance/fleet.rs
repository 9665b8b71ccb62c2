//! A gateway with a database before the service of each case, which is a worker that keeps nothing.
//!
//! *Invariant:* each case has a database of its own, made from a template; nothing of it outlives the runner.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use crate::gateway::{TOKEN, private};
use crate::postgres::Server;
use crate::server::PROGRAM;

/// The token of the worker at the gateway.
const WORKER: &str = "a-token-of-the-worker";

const TEMPLATE: &str = "tables";

/// The server of the databases of all cases.
pub(crate) struct Fleet {
    server: Server,
    number: AtomicU32,
}

/// What the processes of one case are started with.
pub(crate) struct Configured {
    /// The configuration of the gateway.
    pub(crate) gateway: PathBuf,
    /// The variables by which a service is a worker of that gateway.
    pub(crate) worker: [(&'static str, String); 6],
}

impl Fleet {
    /// Starts the server, and makes the tables that each case gets a copy of.
    pub(crate) async fn start() -> Result<Self> {
        let server = Server::start(true).await;
        server.run("postgres", &format!("CREATE DATABASE {TEMPLATE}")).await;
        let folder = tempfile::tempdir().context("making a folder")?;
        let file = configure(folder.path(), &server.url(TEMPLATE))?;
        let mut command = Command::new(PROGRAM);
        command.arg("--config").arg(file).args(["store", "migrate"]).env_clear();
        let made = command
            .env("HOME", folder.path())
            .output()
            .await
            .context("making the tables")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Ok(Self {
            server,
            number: AtomicU32::new(0),
        })
    }

    /// Makes a database, and writes what a gateway at `gateway` and a worker at `service` need.
    pub(crate) async fn configure(&self, folder: &Path, service: &Path, gateway: &Path) -> Result<Configured> {
        let name = format!("case{}", self.number.fetch_add(1, Ordering::Relaxed));
        let made = format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}");
        self.server.run("postgres", &made).await;
        let identity = folder.join("worker-identity");
        private(&identity, WORKER)?;
        Ok(Configured {
            gateway: configure(folder, &self.server.url(&name))?,
            worker: [
                ("TOOLGATE_CLUSTER_ROLE", "worker".to_owned()),
                ("TOOLGATE_CLUSTER_GATEWAYS", format!("unix:{}", gateway.display())),
                ("TOOLGATE_CLUSTER_IDENTITY", identity.display().to_string()),
                ("TOOLGATE_CLUSTER_NAME", "case".to_owned()),
                ("TOOLGATE_CLUSTER_ADVERTISE", format!("unix:{}", service.display())),
                // The runner makes the calls, and answers their prompts.
                ("TOOLGATE_PERMISSION_SELF_APPROVAL", "true".to_owned()),
            ],
        })
    }
}

fn configure(folder: &Path, database: &str) -> Result<PathBuf> {
    let worker = format!("[[tokens]]\nname = \"worker\"\ntoken = \"{WORKER}\"\nscopes = []\n");
    let cases = format!("[[tokens]]\nname = \"cases\"\ntoken = \"{TOKEN}\"\nscopes = [\"*\"]\n");
    private(&folder.join("gateway-people"), &(cases + &worker))?;
    let file = folder.join("gateway.toml");
    let text = format!(
        "[auth]\ntokens_file = \"gateway-people\"\nworkers = [\"token:worker\"]\n[permission]\nself_approval = true\n[cluster]\n\
         role = \"gateway\"\nstore = \"{database}\"\n"
    );
    fs::write(&file, text)?;
    Ok(file)
}
