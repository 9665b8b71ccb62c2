//! The program under test: started in a clean environment, reached over its Unix socket, stopped like an operator would.
//!
//! *Invariant:* nothing of the service runs in this process; a server never outlives its [`Server`].

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint, Uri};
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::{ListWorkspacesRequest, WorkspaceInfo};

use crate::case::Pairs;
use crate::connection::{Connection, Token, Way};
use crate::gateway;
use crate::play::Bench;
use crate::vars::Vars;
use crate::workspace::Folders;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

/// How long the server may take until it accepts a connection.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long it may take to end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// The pause between two attempts to connect, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// How many lines of the server's log a failure shows.
const LOG_LINES: usize = 20;

/// A running server, and the gateway through which it is reached.
pub(crate) struct Server {
    child: Child,
    gateway: Option<Child>,
    log: PathBuf,
    connection: Connection,
}

impl Server {
    /// Starts the server of a case and waits until it accepts connections.
    pub(crate) async fn start(folders: &Folders, env: &Pairs<String>, bench: &Bench) -> Result<Self> {
        let log = folders.log();
        let output = File::create(&log).context("creating the server's log")?;
        let mut workspace = std::ffi::OsString::from("default=");
        workspace.push(folders.cwd());
        let mut command = program(folders, env);
        if bench.others.is_some() {
            command.envs(gateway::as_worker(&folders.root())?);
        }
        let behind = folders.root().join("g.sock");
        let mut front = None;
        if let Some(fleet) = &bench.fleet {
            let configured = fleet.configure(&folders.root(), &folders.socket(), &behind).await?;
            command.envs(configured.worker);
            // First: a worker has nothing without it.
            front = Some(start_gateway(folders, &configured.gateway, &behind, &output)?);
        }
        let mut child = command
            // Cases bring tools and plugins of their own.
            .args(["serve", "--trust", "--no-tcp", "--socket"])
            .arg(folders.socket())
            .arg("--data-dir")
            .arg(folders.data())
            .arg("--workspace")
            .arg(workspace)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {PROGRAM}"))?;
        let mut channel = in_time(connect(&mut child, folders.socket()), &log).await?;
        let (mut socket, mut token, mut gateway) = (folders.socket(), None, None);
        if let Some(others) = &bench.others {
            let config = others.configure(&folders.root(), &socket)?;
            front = Some(start_gateway(
                folders,
                &config,
                &behind,
                &File::options().append(true).open(&log)?,
            )?);
        }
        if let Some(mut started) = front {
            socket = behind;
            channel = in_time(connect(&mut started, socket.clone()), &log).await?;
            (token, gateway) = (Some(gateway::TOKEN), Some(started));
        }
        if bench.fleet.is_some() {
            in_time(registered(channel.clone()), &log).await?;
        }
        let connection = match &bench.driver {
            None => {
                let shown = token.map(|token| format!("Bearer {token}").parse()).transpose()?;
                Connection::Direct(Way::new(channel, Token(shown)))
            }
            Some(driver) => {
                let (client, target) = (folders.name(), format!("unix:{}", socket.display()));
                driver.connect(&client, &target, token).await?;
                Connection::Driven(driver.clone(), client)
            }
        };
        Ok(Self {
            child,
            gateway,
            log,
            connection,
        })
    }

    /// Returns the connection.
    pub(crate) fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// Returns the end of what the server printed, for the report of a failure.
    pub(crate) fn log_tail(&self) -> String {
        log_tail(&self.log)
    }

    /// Asks the server to end and waits for it.
    ///
    /// # Errors
    /// It did not end in time, or with another code than 0.
    pub(crate) async fn stop(self) -> Result<()> {
        let Self {
            child,
            gateway,
            log,
            connection,
        } = self;
        connection.close().await?;
        // A worker that finds no gateway to leave tries for a while.
        for process in [child].into_iter().chain(gateway) {
            end(process, &log).await?;
        }
        Ok(())
    }
}

fn start_gateway(folders: &Folders, config: &Path, socket: &Path, output: &File) -> Result<Child> {
    let mut command = program(folders, &Pairs::default());
    command
        .arg("--config")
        .arg(config)
        .args(["gateway", "--no-tcp", "--socket"]);
    let started = command
        .arg(socket)
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .spawn();
    started.with_context(|| format!("starting {PROGRAM} gateway"))
}

/// Waits until the gateway has the workspace of its worker.
async fn registered(channel: Channel) -> Result<()> {
    let token = format!("Bearer {}", gateway::TOKEN).parse()?;
    let mut workspaces = WorkspaceServiceClient::with_interceptor(channel, Token(Some(token)));
    loop {
        let listed = workspaces.list_workspaces(ListWorkspacesRequest::default()).await;
        let is_there = |one: &WorkspaceInfo| one.name == "default";
        if listed.is_ok_and(|listed| listed.into_inner().workspaces.iter().any(is_there)) {
            return Ok(());
        }
        sleep(BACKOFF.1).await;
    }
}

async fn end(mut child: Child, log: &Path) -> Result<()> {
    let id = child
        .id()
        .with_context(|| format!("the server ended by itself{}", log_tail(log)))?;
    let pid = i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .context("the server's process id")?;
    kill_process(pid, Signal::TERM).context("sending SIGTERM")?;
    let Ok(status) = timeout(STOP_LIMIT, child.wait()).await else {
        child.kill().await.context("killing the server")?;
        bail!("the server has not ended {STOP_LIMIT:?} after SIGTERM{}", log_tail(log));
    };
    let status: ExitStatus = status.context("waiting for the server")?;
    ensure!(
        status.code() == Some(0),
        "the server ended with {status} after SIGTERM{}",
        log_tail(log)
    );
    Ok(())
}

async fn in_time<T>(connected: impl Future<Output = Result<T>>, log: &Path) -> Result<T> {
    match timeout(START_LIMIT, connected).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(error)) => bail!("{error:#}{}", log_tail(log)),
        Err(_) => bail!(
            "the server does not accept connections after {START_LIMIT:?}{}",
            log_tail(log)
        ),
    }
}

/// Runs `toolgate config` for a case's workspace.
pub(crate) async fn print_config(folders: &Folders, env: &Pairs<String>) -> Result<Output> {
    let mut command = program(folders, env);
    command.args(["config", "--json", "--workspace"]).arg(folders.cwd());
    command
        .output()
        .await
        .with_context(|| format!("running {PROGRAM} config"))
}

/// The program, with an environment of which only the path of programs comes from the runner.
fn program(folders: &Folders, env: &Pairs<String>) -> Command {
    let vars: Vars = folders.vars();
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folders.home())
        .env("SHELL", "/bin/bash")
        .env("LANG", "C.UTF-8")
        // Where the case's own web server is.
        .env("TOOLGATE_NETWORK_ALLOW", "127.0.0.1")
        .envs(env.0.iter().map(|(name, value)| (name, vars.text(value))))
        .current_dir(folders.cwd())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn connect(child: &mut Child, socket: PathBuf) -> Result<Channel> {
    let mut pause = BACKOFF.0;
    loop {
        if let Some(status) = child.try_wait().context("looking at the server")? {
            bail!("the server ended with {status} instead of listening");
        }
        // The host is never looked at: the connector goes to the socket.
        let endpoint = Endpoint::from_static("http://localhost");
        let path = socket.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        if let Ok(channel) = endpoint.connect_with_connector(connector).await {
            return Ok(channel);
        }
        sleep(pause).await;
        pause = (pause * 2).min(BACKOFF.1);
    }
}

fn log_tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
    if tail.is_empty() {
        return "\n(the server printed nothing)".to_owned();
    }
    format!("\nthe server printed:\n    {}", tail.join("\n    "))
}
