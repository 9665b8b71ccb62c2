//! The service under measurement: the program in a process of its own, reached like any client would.
//!
//! *Invariant:* only loopback, a port of the kernel's choice, folders that go away. A process never outlives its guard.

#![allow(dead_code)] // two benchmarks share this, and each has its own part of it

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use toolgate_config::service::DEFAULT_MESSAGE_BYTES;
use toolgate_contract::call_event::Event;
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::{CallCompleted, CallContext, ExecuteToolRequest, ExecuteToolResponse, OnDisconnect};

/// The shell of the service and of the floors.
pub(crate) const SHELL: &str = "/bin/bash";

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Flow-control windows of the client, as large as the service's, and its largest frame, into which an event of output
/// fits: small ones would measure themselves.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const FRAME: u32 = 1 << 17;

/// Makes a folder that goes away.
pub(crate) fn folder() -> Result<TempDir> {
    TempDir::with_prefix_in("bench-", env!("CARGO_TARGET_TMPDIR")).context("making a folder")
}

/// Returns the environment of the service, its programs and the floors.
pub(crate) fn environment(home: &Path) -> Vec<(OsString, OsString)> {
    vec![
        ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
        ("HOME".into(), home.into()),
        ("SHELL".into(), SHELL.into()),
        ("LANG".into(), "C.UTF-8".into()),
    ]
}

/// Shows a token, if there is one to show.
#[derive(Clone, Default)]
pub(crate) struct Token(Option<MetadataValue<Ascii>>);

impl Token {
    pub(crate) fn new(token: &str) -> Result<Self> {
        Ok(Self(Some(format!("Bearer {token}").parse()?)))
    }
}

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A connection, and a client for calls on it.
pub(crate) type Connection = InterceptedService<Channel, Token>;
pub(crate) type Tools = ToolServiceClient<Connection>;

/// A program that serves on loopback and has said where.
pub(crate) struct Serving {
    child: Child,
    address: String,
    token: Token,
}

impl Serving {
    /// Starts a program and reads its address from the first line that it prints. Its clients show the token.
    pub(crate) async fn start(
        mut command: Command,
        token: Token,
        address_in: fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting a program")?;
        let stdout = child.stdout.take().context("a program without standard output")?;
        let mut line = String::new();
        timeout(START_LIMIT, BufReader::new(stdout).read_line(&mut line))
            .await
            .context("the program says nothing")??;
        let address = address_in(&line).with_context(|| format!("the program says {line:?}"))?;
        Ok(Self { child, address, token })
    }

    /// Returns where it listens: a URL.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let endpoint = Endpoint::from_shared(self.address.clone())?
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME);
        self.connect_as(endpoint).await
    }

    /// Opens a connection whose streams take so many bytes before they are read.
    pub(crate) async fn connect_narrow(&self, window: u32) -> Result<Connection> {
        let endpoint = Endpoint::from_shared(self.address.clone())?.initial_stream_window_size(window);
        self.connect_as(endpoint).await
    }

    /// The same for a client that shows another token.
    pub(crate) async fn connect_with(&self, token: Token) -> Result<Connection> {
        let channel = Endpoint::from_shared(self.address.clone())?.connect().await;
        Ok(InterceptedService::new(channel.context("connecting")?, token))
    }

    async fn connect_as(&self, endpoint: Endpoint) -> Result<Connection> {
        let channel = endpoint.connect().await.context("connecting")?;
        Ok(InterceptedService::new(channel, self.token.clone()))
    }

    /// Returns its memory.
    pub(crate) fn memory(&self) -> Result<Memory> {
        Memory::of(self.pid()?)
    }

    /// Forgets the peak of its memory, and returns its memory now.
    pub(crate) fn reset_peak(&self) -> Result<Memory> {
        Memory::forget_peak(self.pid()?)?;
        self.memory()
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the program has ended")
    }

    /// Ends it without a warning.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("killing a program")
    }

    /// Asks it to end and waits.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid()?).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id")?, Signal::TERM)?;
        let status = timeout(STOP_LIMIT, self.child.wait())
            .await
            .context("the program does not end")??;
        ensure!(status.success(), "the program ended with {status}");
        Ok(())
    }
}

/// A running `toolgate serve`.
pub(crate) struct Service {
    serving: Serving,
    home: TempDir,
}

impl Service {
    /// Returns where it keeps its state.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Starts it for a workspace.
    pub(crate) async fn start(workspace: &Path) -> Result<Self> {
        Self::configured(workspace, &serde_json::json!({})).await
    }

    /// Starts it for a workspace, with what its user has in `opencode.json`.
    pub(crate) async fn configured(workspace: &Path, config: &serde_json::Value) -> Result<Self> {
        let program = Path::new(env!("CARGO_BIN_EXE_toolgate"));
        Self::of(program, workspace, config, &[]).await
    }

    /// Starts this program as the service, with variables on top.
    pub(crate) async fn of(
        program: &Path,
        workspace: &Path,
        config: &serde_json::Value,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        Self::for_clients(program, workspace, config, variables, Token::default()).await
    }

    /// Starts this program as the service, with variables on top, for clients that show a token.
    pub(crate) async fn for_clients(
        program: &Path,
        workspace: &Path,
        config: &serde_json::Value,
        variables: &[(&str, String)],
        token: Token,
    ) -> Result<Self> {
        let home = folder()?;
        let settings = home.path().join(".config/opencode");
        std::fs::create_dir_all(&settings).context("making the folder of settings")?;
        std::fs::write(settings.join("opencode.json"), config.to_string()).context("writing the settings")?;
        Self::at(home, program, workspace, variables, token).await
    }

    /// Starts it on what an earlier one has left.
    pub(crate) async fn again(home: TempDir, workspace: &Path) -> Result<Self> {
        let program = Path::new(env!("CARGO_BIN_EXE_toolgate"));
        Self::at(home, program, workspace, &[], Token::default()).await
    }

    async fn at(
        home: TempDir,
        program: &Path,
        workspace: &Path,
        variables: &[(&str, String)],
        token: Token,
    ) -> Result<Self> {
        let mut main = OsString::from("main=");
        main.push(workspace);
        let mut command = Command::new(program);
        command
            .args([
                "--json",
                "serve",
                "--no-socket",
                // A language server that lies in the workspace's repository, as this program does.
                "--trust",
                "--listen",
                "127.0.0.1:0",
                "--data-dir",
            ])
            .arg(home.path().join("data"))
            .arg("--workspace")
            .arg(main)
            .env_clear()
            .envs(environment(home.path()))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir(workspace)
            .stderr(Stdio::null());
        let serving = Serving::start(command, token, announced);
        Ok(Self {
            serving: serving.await?,
            home,
        })
    }

    /// Returns its process.
    pub(crate) fn serving(&self) -> &Serving {
        &self.serving
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        self.serving.connect().await
    }

    /// Opens a connection for calls.
    pub(crate) async fn tools(&self) -> Result<Tools> {
        Ok(tools(self.connect().await?))
    }

    /// Opens a connection whose streams take so many bytes before they are read.
    pub(crate) async fn connect_narrow(&self, window: u32) -> Result<Connection> {
        self.serving.connect_narrow(window).await
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.serving.pid()
    }

    /// Returns its home folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.home.path().to_path_buf()
    }

    /// Returns its memory.
    pub(crate) fn memory(&self) -> Result<Memory> {
        self.serving.memory()
    }

    /// Forgets the peak of its memory, and returns its memory now.
    pub(crate) fn reset_peak(&self) -> Result<Memory> {
        self.serving.reset_peak()
    }

    /// Ends it.
    pub(crate) async fn stop(self) -> Result<()> {
        self.serving.stop().await
    }

    /// Ends it, and returns its home with all that it has stored.
    pub(crate) async fn leave(self) -> Result<TempDir> {
        self.serving.stop().await?;
        Ok(self.home)
    }
}

/// Reads the address from what a service or a gateway prints first.
pub(crate) fn announced(line: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(line["listening"]["tcp"].as_str()?.to_owned())
}

/// Makes a client for calls.
pub(crate) fn tools(connection: Connection) -> Tools {
    ToolServiceClient::new(connection).max_decoding_message_size(2 * DEFAULT_MESSAGE_BYTES)
}

/// What a process occupies, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) anonymous: u64,
    pub(crate) peak: u64,
}

impl Memory {
    /// Has the kernel forget the peak of a process's memory.
    pub(crate) fn forget_peak(pid: u32) -> Result<()> {
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5").context("resetting the peak of memory")
    }

    /// Asks for the memory of a process.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading a process's memory")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            number
                .map(|kib| kib * 1024)
                .with_context(|| format!("there is no {name}"))
        };
        Ok(Self {
            resident: field("VmRSS:")?,
            anonymous: field("RssAnon:")?,
            peak: field("VmHWM:")?,
        })
    }
}

/// Makes the request of a call.
pub(crate) fn request(session: &str, tool: &str, input: serde_json::Value) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            session_id: session.to_owned(),
            ..CallContext::default()
        }),
        tool: tool.to_owned(),
        arguments: Some(Arguments::InputJson(input.to_string())),
        on_disconnect: OnDisconnect::Cancel.into(),
        ..ExecuteToolRequest::default()
    }
}

/// Returns the next event of a call, or none at the end of the stream.
pub(crate) async fn next(stream: &mut Streaming<ExecuteToolResponse>) -> Result<Option<Event>> {
    let message = stream.message().await?;
    Ok(message.and_then(|message| message.event).and_then(|event| event.event))
}

/// Makes a call, and returns the messages that it is answered with.
pub(crate) async fn recorded(client: &mut Tools, request: ExecuteToolRequest) -> Result<Vec<ExecuteToolResponse>> {
    let mut stream = client.execute_tool(request).await?.into_inner();
    let mut messages = Vec::new();
    while let Some(message) = stream.message().await? {
        messages.push(message);
    }
    Ok(messages)
}

/// Executes a tool and reads the whole stream; returns its time, the result, and the bytes of output streamed.
pub(crate) async fn execute(client: &mut Tools, request: ExecuteToolRequest) -> Result<(Duration, CallCompleted, u64)> {
    let begin = Instant::now();
    let mut stream = client.execute_tool(request).await?.into_inner();
    let (mut completed, mut streamed) = (None, 0);
    while let Some(event) = next(&mut stream).await? {
        match event {
            Event::Output(output) => streamed += output.data.len() as u64,
            Event::Completed(result) => completed = Some(result),
            Event::Failed(failed) => bail!("the call failed: {}", failed.error),
            Event::Waiting(_) => bail!("the call asks a person, which was not meant to be measured"),
            Event::Pending(_)
            | Event::Running(_)
            | Event::Metadata(_)
            | Event::Resumed(_)
            | Event::Child(_)
            | Event::Listening(_)
            | Event::Warning(_)
            | Event::Heartbeat(_)
            | Event::Gap(_) => {}
        }
    }
    let time = begin.elapsed();
    Ok((time, completed.context("the stream ended without a result")?, streamed))
}
