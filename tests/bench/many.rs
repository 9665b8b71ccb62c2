//! What the benchmark of a large fleet is made of: a database, gateways, a real worker, and simulated ones in groups.
//!
//! *Invariant:* everything but the simulated workers is a process of its own, and the database waits for the disk.

#![allow(clippy::unwrap_used)] // the server of the tests says itself what it lacks

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::sleep;
use toolgate_contract::ExecuteToolRequest;

use crate::part::{AGENT, Part, write};
use crate::processes::Processors;
use crate::server::Server;
use crate::service::{Connection, Token, execute, folder, request, tools};

/// Simulated workers of one token: real ones have one each.
pub(crate) const GROUPS: usize = 100;

/// The lease, so that what is idle is seen to be before long.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

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

/// A large fleet without its simulated workers.
pub(crate) struct Many {
    folder: TempDir,
    database: Server,
    pub(crate) gateways: Vec<Part>,
    worker: Part,
}

impl Many {
    /// Starts the database, so many gateways, which may have a bucket, and the real worker.
    pub(crate) async fn start(count: usize, bucket: Option<&str>) -> Result<Self> {
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
        let bucket = bucket.map_or_else(String::new, |endpoint| {
            format!(
                "outputs = \"s3://outputs/fleet\"\noutputs_endpoint = {endpoint:?}\noutputs_region = \"us-east-1\"\n\
                 outputs_path_style = true\noutputs_keys_file = \"bucket-keys\"\n"
            )
        });
        let settings = format!(
            "drain_grace = \"30s\"\nlimits.max_streams = 100000\nlimits.max_running_calls = 1000\n[auth]\ntokens_file = \"tokens\"\nworkers = [{}]\n\
             [cluster]\nrole = \"gateway\"\nstore_file = \"database\"\nmigrate = \"start\"\nlease = \"{}s\"\n{bucket}",
            names.join(", "),
            LEASE.as_secs()
        );
        let mut gateways = Vec::new();
        for number in 0..count {
            let place = folder.path().join(format!("gateway-{number}"));
            write(&place, "tokens", &tokens)?;
            write(&place, "bucket-keys", "key:secret\n")?;
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

    /// Begins to count the processor time of the first gateway and of the database.
    pub(crate) fn count(&self) -> Result<Counting<'_>> {
        Ok(Counting {
            many: self,
            before: self.times()?,
            begun: Instant::now(),
        })
    }

    fn times(&self) -> Result<[Duration; 2]> {
        let gateway = Processors::of(self.gateways[0].serving()?.pid()?)?.own;
        Ok([gateway, self.database_time()?])
    }

    /// Returns the processor time that the database has taken.
    fn database_time(&self) -> Result<Duration> {
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
            part.stop().await?;
        }
        for part in std::iter::once(&self.worker).chain(&self.gateways) {
            let log = part.log();
            ensure!(!log.contains("panicked"), "a process has panicked: {log}");
        }
        drop(self.database);
        Ok(self.folder.close()?)
    }
}

/// Processor time that is being counted.
pub(crate) struct Counting<'a> {
    many: &'a Many,
    before: [Duration; 2],
    begun: Instant,
}

impl Counting<'_> {
    /// Returns how much of one core the first gateway and the database have taken, in per cent.
    pub(crate) fn shares(&self) -> Result<[f64; 2]> {
        let (now, took) = (self.many.times()?, self.begun.elapsed().as_secs_f64());
        let share = |at: usize| 100.0 * now[at].saturating_sub(self.before[at]).as_secs_f64() / took;
        Ok([share(0), share(1)])
    }
}

/// Lets this process and those that it starts have so many files open, as far as the system permits.
pub(crate) fn have_room(files: u64) -> Result<()> {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(u64::MAX);
    ensure!(
        most >= files,
        "{files} files are to be open in one process, and the system permits {most}: raise `ulimit -Hn`, or measure fewer workers with --workers"
    );
    let limit = Rlimit {
        current: Some(most),
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, limit).context("having many files open")
}

/// A call that takes a moment, at the real worker: the first workspace of all is one of a simulated worker, which runs nothing.
pub(crate) fn read() -> ExecuteToolRequest {
    let mut asked = request("fleet", "read", json!({"filePath": FILE}));
    "main".clone_into(&mut asked.context.get_or_insert_default().workspace);
    asked
}
