//! What the benchmark of a large fleet is made of: a database, gateways, a real worker, and simulated ones in groups.
//!
//! *Invariant:* everything but the simulated workers is a process of its own, and the database waits for the disk.

#![allow(clippy::unwrap_used)] // the server of the tests says itself what it lacks

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::sleep;
use toolgate_contract::ExecuteToolRequest;

use crate::processes::Processors;
use crate::service::{Connection, Serving, Token, announced, environment, execute, folder, request, tools};

#[allow(dead_code)] // the tests of the store use all of it
#[path = "../../crates/postgres/tests/store/server.rs"]
mod server;

use server::Server;

/// Simulated workers of one token: real ones have one each.
pub(crate) const GROUPS: usize = 100;

/// The lease, so that what is idle is seen to be before long.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

const AGENT: &str = "the-agent-of-the-benchmark";
const PERSON: &str = "the-person-of-a-tenant-of-it";
const WORKER: &str = "the-worker-of-the-benchmark";
const PATIENCE: Duration = Duration::from_secs(120);
const FILE: &str = "notes";

/// The token of a simulated worker, and its workspace.
pub(crate) fn token(number: usize) -> String {
    format!("the-token-of-group-{:03}-of-the-benchmark", number % GROUPS)
}

/// See [`token`].
pub(crate) fn workspace(number: usize) -> String {
    format!("g{:03}/w{number}", number % GROUPS)
}

/// A process that comes back where it was.
pub(crate) struct Part {
    command: &'static str,
    folder: PathBuf,
    listens: String,
    running: Option<Serving>,
}

impl Part {
    async fn start(folder: PathBuf, command: &'static str, settings: &str) -> Result<Self> {
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
        let mut command = Command::new(crate::program());
        let arguments = [
            "--json",
            self.command,
            "--listen",
            &self.listens,
            "--config",
            "toolgate.toml",
        ];
        command
            .args(arguments)
            .env_clear()
            .envs(environment(&self.folder))
            .current_dir(&self.folder)
            .stderr(
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(self.folder.join("log"))?,
            );
        let started = Serving::start(command, Token::new(AGENT)?, announced).await;
        let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        self.running = Some(started.with_context(|| format!("starting a {}: {}", self.command, log()))?);
        Ok(())
    }

    pub(crate) fn serving(&self) -> Result<&Serving> {
        self.running.as_ref().context("it does not run")
    }

    /// Returns where it listens, also while it does not.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listens)
    }

    /// Ends it without a warning.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.running.take().context("it does not run")?.kill().await
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    fs::write(&path, text)?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?)
}

/// A large fleet without its simulated workers.
pub(crate) struct Many {
    folder: TempDir,
    database: Server,
    pub(crate) gateways: Vec<Part>,
    worker: Part,
}

impl Many {
    /// Starts the database, so many gateways, and the real worker.
    pub(crate) async fn start(count: usize) -> Result<Self> {
        let database = Server::start(false).await;
        database.run("postgres", "CREATE DATABASE fleet").await;
        let folder = folder()?;
        let entry = |name: &str, token: &str, rest: &str| {
            format!("[[tokens]]\nname = \"{name}\"\ntoken = \"{token}\"\n{rest}\n")
        };
        let mut tokens = entry("agent", AGENT, "scopes = [\"*\"]");
        tokens += &entry("person", PERSON, "scopes = [\"*\"]\nworkspaces = [\"g001/*\"]");
        tokens += &entry("worker", WORKER, "scopes = []\nworkspaces = [\"main\"]");
        let mut names = vec!["\"token:worker\"".to_owned()];
        for group in 0..GROUPS {
            let rest = format!("scopes = []\nworkspaces = [\"g{group:03}/*\"]");
            tokens += &entry(&format!("group-{group:03}"), &token(group), &rest);
            names.push(format!("\"token:group-{group:03}\""));
        }
        let settings = format!(
            "drain_grace = \"30s\"\nlimits.max_streams = 100000\nlimits.max_running_calls = 1000\n[auth]\ntokens_file = \"tokens\"\nworkers = [{}]\n\
             [cluster]\nrole = \"gateway\"\nstore_file = \"database\"\nmigrate = \"start\"\nlease = \"{}s\"\n",
            names.join(", "),
            LEASE.as_secs()
        );
        let mut gateways = Vec::new();
        for number in 0..count {
            let place = folder.path().join(format!("gateway-{number}"));
            write(&place, "tokens", &tokens)?;
            write(&place, "database", &database.url("fleet"))?;
            gateways.push(Part::start(place, "gateway", &settings).await?);
        }
        let place = folder.path().join("worker");
        write(&place, "identity", WORKER)?;
        write(&place.join("own"), FILE, &"a line of a file that is read\n".repeat(60))?;
        let rules = json!({"permission": {"bash": "allow", "doom_loop": "allow"}});
        write(&place.join(".config/opencode"), "opencode.json", &rules.to_string())?;
        let urls: Vec<String> = gateways.iter().map(|gateway| format!("{:?}", gateway.url())).collect();
        let settings = format!(
            "data_dir = \"data\"\nlisten.unix = \"s\"\nlimits.max_running_calls = 1000\nlimits.max_streams = 100000\n[cluster]\nrole = \"worker\"\n\
             gateways = [{}]\nidentity = \"identity\"\nname = \"worker\"\nadvertise = \"unix:{}\"\n\
             [[workspaces]]\nname = \"main\"\ndirectory = \"own\"\n",
            urls.join(", "),
            place.canonicalize()?.join("s").display(),
        );
        let worker = Part::start(place, "serve", &settings).await?;
        let many = Self {
            folder,
            database,
            gateways,
            worker,
        };
        for gateway in 0..count {
            many.called(gateway).await?;
        }
        Ok(many)
    }

    /// Opens a connection of the agent.
    pub(crate) async fn connect(&self, gateway: usize) -> Result<Connection> {
        self.gateways[gateway].serving()?.connect().await
    }

    /// Opens a connection of somebody who sees one group.
    pub(crate) async fn connect_as_person(&self, gateway: usize) -> Result<Connection> {
        self.gateways[gateway]
            .serving()?
            .connect_with(Token::new(PERSON)?)
            .await
    }

    /// Makes a call at the real worker; returns how long it took until one came to its end, whatever failed before.
    pub(crate) async fn called(&self, gateway: usize) -> Result<Duration> {
        let begun = Instant::now();
        loop {
            let attempt = async {
                let mut client = tools(self.connect(gateway).await?);
                execute(&mut client, read()).await
            };
            match attempt.await {
                Ok(_) => return Ok(begun.elapsed()),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Returns the processor time that the database has taken.
    pub(crate) fn database_time(&self) -> Result<Duration> {
        let socket = self.database.socket();
        let place = socket.parent().context("a folder")?.join("data/postmaster.pid");
        let file = fs::read_to_string(place).context("looking for the database")?;
        let pid = file.lines().next().and_then(|line| line.trim().parse().ok());
        let time = Processors::of(pid.context("a process id")?)?;
        Ok(time.own + time.below)
    }

    /// Ends everything.
    pub(crate) async fn stop(mut self) -> Result<()> {
        for part in std::iter::once(&mut self.worker).chain(&mut self.gateways) {
            if let Some(running) = part.running.take() {
                running.stop().await?;
            }
        }
        let log = |part: &Part| fs::read_to_string(part.folder.join("log")).unwrap_or_default();
        for part in std::iter::once(&self.worker).chain(&self.gateways) {
            ensure!(!log(part).contains("panicked"), "a process has panicked: {}", log(part));
        }
        drop(self.database);
        Ok(self.folder.close()?)
    }
}

/// A call that takes a moment, at the real worker: the first workspace of all is one of a simulated worker, which runs nothing.
pub(crate) fn read() -> ExecuteToolRequest {
    let mut asked = request("fleet", "read", json!({"filePath": FILE}));
    "main".clone_into(&mut asked.context.get_or_insert_default().workspace);
    asked
}
