//! The real program for tests: started in its own folders, talked to through typed clients, killed or stopped at will.
//!
//! *Invariant:* each [`Server`] has its own temporary folder and never leaves a process behind; every wait is bounded;
//! nothing here reads the environment but the path of programs.

mod approver;
mod cli;
mod engine;
mod host;
mod line;
mod processes;
mod proxy;
mod pty;
mod random;
mod site;

use std::fs::{self, File};
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost_types::Struct;
use prost_types::value::Kind;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::health_client::HealthClient;
use tonic_types::{ErrorDetails, StatusExt as _};
use toolgate_contract::call_event::Event;
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::info_service_client::InfoServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;

pub(crate) use approver::{Approver, everybody, list_all, reply, watch_all};
pub(crate) use cli::grpcurl;
pub(crate) use engine::Inside;
pub(crate) use host::{LendingHost, hello};
pub(crate) use processes::{gone, processes};
pub(crate) use proxy::{Proxy, Shaky};
pub(crate) use pty::Pty;
pub(crate) use random::Random;
pub(crate) use site::{Site, page, redirect, request_head};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

/// The longest that any test may take.
const TEST_LIMIT: Duration = Duration::from_secs(300);
/// The longest that a server may take to listen, and to end after SIGTERM beyond its grace.
const SERVER_LIMIT: Duration = Duration::from_secs(60);
/// Messages in either direction.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Returns the path of what `tests/setup/tools.sh` has installed.
pub(crate) fn installed(path: &str) -> String {
    let target = Path::new(PROGRAM).ancestors().nth(2).unwrap();
    let found = target.join("tools").join(path);
    assert!(
        found.exists(),
        "{} is missing: run tests/setup/tools.sh, or `make test`",
        found.display()
    );
    found.display().to_string()
}

/// Runs a test on its own runtime, bounded in time.
pub(crate) fn test<F: Future<Output = ()>>(body: F) {
    test_within(TEST_LIMIT, body);
}

/// As [`test`], for what takes longer.
pub(crate) fn test_within<F: Future<Output = ()>>(limit: Duration, body: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        timeout(limit, body).await.expect("the test takes too long");
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Waits for something that no event tells of; the panic says what was waited for.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SERVER_LIMIT;
    while !holds().await {
        assert!(Instant::now() < deadline, "still not so: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// What a server is started with.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// `opencode.json` in the user's settings.
    pub(crate) config: Option<Value>,
    /// Variables on top of the fixed ones.
    pub(crate) env: Vec<(&'static str, String)>,
    /// Listen on a free TCP port instead of a Unix socket.
    pub(crate) tcp: bool,
    /// Workspaces beside `default`, each a folder of its name.
    pub(crate) more: Vec<&'static str>,
    /// Folders that are there before it starts, relative to its folder.
    pub(crate) folders: Vec<&'static str>,
    /// Files that are there before it starts, relative to its folder.
    pub(crate) files: Vec<(&'static str, String)>,
    /// A program and its arguments that become the server.
    pub(crate) by: &'static [&'static str],
    /// Run it on a terminal of its own, which is closed when what then counts as the server is killed.
    pub(crate) on_terminal: bool,
}

impl Setup {
    pub(crate) fn permission(permission: Value) -> Self {
        Self {
            config: Some(json!({ "permission": permission })),
            ..Self::default()
        }
    }

    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    pub(crate) fn tcp() -> Self {
        Self {
            tcp: true,
            ..Self::default()
        }
    }
}

/// A running server and its folders.
pub(crate) struct Server {
    folder: Arc<TempDir>,
    setup: Setup,
    child: Child,
    channel: Channel,
    /// Where it listens on TCP, as `host:port`.
    pub(crate) tcp: Option<String>,
    /// Where operators ask for it, as `host:port`.
    pub(crate) admin: Option<String>,
}

impl Server {
    /// Starts a server with the default settings: everything is allowed.
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let folder = Arc::new(TempDir::new().unwrap());
        for name in ["home/.config/opencode", "work", "data"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for name in setup.more.iter().chain(&setup.folders) {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for (name, text) in &setup.files {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        if let Some(config) = &setup.config {
            fs::write(
                folder.path().join("home/.config/opencode/opencode.json"),
                config.to_string(),
            )
            .unwrap();
        }
        Self::launch(folder, setup).await
    }

    async fn launch(folder: Arc<TempDir>, setup: Setup) -> Self {
        let path = folder.path();
        let (socket, out) = (path.join("s"), path.join("stdout"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(path.join("stderr"))
            .unwrap();
        let line = line::of(&setup, path);
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", path.join("home"))
            .env("TMPDIR", path)
            .env("SHELL", "/bin/bash")
            .env("LANG", "C.UTF-8")
            .envs(setup.env.iter().map(|(name, value)| (name, value)))
            .current_dir(path)
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(log)
            .kill_on_drop(true);
        let mut child = command.spawn().expect("the program starts");
        let deadline = Instant::now() + SERVER_LIMIT;
        let announced: Value = loop {
            let text = fs::read_to_string(&out).unwrap();
            if text.ends_with('\n') {
                break serde_json::from_str(text.lines().next().unwrap()).unwrap();
            }
            let log = || fs::read_to_string(path.join("stderr")).unwrap_or_default();
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the server ended with {status} instead of listening:\n{}", log());
            }
            assert!(Instant::now() < deadline, "the server does not listen:\n{}", log());
            sleep(Duration::from_millis(5)).await;
        };
        let tcp = announced["listening"]["tcp"]
            .as_str()
            .map(|url| url.trim_start_matches("http://").to_owned());
        let admin = announced["listening"]["admin"].as_str();
        let admin = admin.and_then(|url| Some(url.strip_prefix("http://")?.strip_suffix("/metrics")?.to_owned()));
        let channel = match &tcp {
            Some(address) => connect_tcp(address).await.unwrap(),
            None => connect_unix(&socket).await.unwrap(),
        };
        Self {
            folder,
            setup,
            child,
            channel,
            tcp,
            admin,
        }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// The workspace.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Where the outputs of the workspace are.
    pub(crate) fn output_folder(&self) -> PathBuf {
        self.folder.path().join("data/workspaces/default/tool-output")
    }

    /// Everything that the server logged, over all its runs.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the server runs")
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Makes a connection of its own.
    pub(crate) async fn connect(&self) -> Channel {
        match &self.tcp {
            Some(address) => connect_tcp(address).await.unwrap(),
            None => connect_unix(&self.folder.path().join("s")).await.unwrap(),
        }
    }

    pub(crate) fn tools(&self) -> ToolServiceClient<Channel> {
        tools(self.channel())
    }

    pub(crate) fn permissions(&self) -> PermissionServiceClient<Channel> {
        PermissionServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_BYTES)
    }

    pub(crate) fn outputs(&self) -> OutputServiceClient<Channel> {
        OutputServiceClient::new(self.channel())
    }

    pub(crate) fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_BYTES)
    }

    pub(crate) fn info(&self) -> InfoServiceClient<Channel> {
        InfoServiceClient::new(self.channel())
    }

    pub(crate) fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel())
    }

    /// Runs a tool to its end in a session of its own.
    pub(crate) async fn run(&self, tool: &str, input: Value) -> Call {
        run(&mut self.tools(), run_request(request(tool, input))).await.unwrap()
    }

    /// Executes and collects every event.
    pub(crate) async fn execute(&self, request: ExecuteToolRequest) -> Result<Vec<CallEvent>, Status> {
        collect(self.tools().execute_tool(request).await?.into_inner()).await
    }

    pub(crate) async fn get(&self, id: &str) -> Call {
        let request = GetCallRequest { call_id: id.to_owned() };
        let call = self.tools().get_call(request).await.unwrap().into_inner().call;
        call.unwrap()
    }

    /// Stops a call, and returns it once it has ended.
    pub(crate) async fn cancel(&self, id: &str) -> Call {
        let request = CancelCallRequest { call_id: id.to_owned() };
        let call = self.tools().cancel_call(request).await.unwrap().into_inner().call;
        call.unwrap()
    }

    pub(crate) async fn prompts(&self, which: ListPromptsRequest) -> Vec<Prompt> {
        let listed = self.permissions().list_prompts(which).await.unwrap();
        listed.into_inner().prompts
    }

    /// Watches a call from its first event to its end.
    pub(crate) async fn watch(&self, id: &str, after: i64) -> Result<Vec<CallEvent>, Status> {
        let request = watch_request(id, after, OutputMode::Full);
        collect_watch(self.tools().watch_call(request).await?.into_inner()).await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the server's own end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        match timeout(SERVER_LIMIT, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("the server does not end:\n{}", self.log()),
        }
    }

    /// Kills the server at once.
    pub(crate) async fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Starts the server, which has ended, again on the same folders.
    pub(crate) async fn restart(&mut self) {
        assert!(self.child.id().is_none(), "the server still runs");
        *self = Self::launch(self.folder.clone(), self.setup.clone()).await;
    }

    /// Stops the server as an operator does, and checks that it went well.
    pub(crate) async fn stop(&mut self) {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert_eq!(status.code(), Some(0), "{}", self.log());
        self.assert_calm();
    }

    /// No run of the server has panicked.
    pub(crate) fn assert_calm(&self) {
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
        if self.child.id().is_some() {
            // The programs of a server that is killed are ended by its undertaker.
            let _ = self.child.start_kill();
        }
    }
}

async fn connect_unix(path: &Path) -> Result<Channel, tonic::transport::Error> {
    let path = path.to_path_buf();
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(connector)
        .await
}

/// Connects to `host:port`.
pub(crate) async fn connect_tcp(address: &str) -> Result<Channel, tonic::transport::Error> {
    Endpoint::try_from(format!("http://{address}"))
        .expect("an address is a URL")
        .connect()
        .await
}

pub(crate) fn tools(channel: Channel) -> ToolServiceClient<Channel> {
    ToolServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES)
}

/// A request without an id, in a session of its own.
pub(crate) fn request(tool: &str, input: Value) -> ExecuteToolRequest {
    ExecuteToolRequest {
        tool: tool.to_owned(),
        arguments: Some(Arguments::InputJson(input.to_string())),
        ..Default::default()
    }
}

/// A request for a command.
pub(crate) fn bash(command: &str) -> ExecuteToolRequest {
    request("bash", json!({"command": command, "description": "a test"}))
}

/// A request with an id, whose call outlives its clients.
pub(crate) fn kept(id: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        call_id: id.to_owned(),
        on_disconnect: OnDisconnect::Keep.into(),
        ..request
    }
}

/// The same request in a named session.
pub(crate) fn in_session(session: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            session_id: session.to_owned(),
            ..request.context.unwrap_or_default()
        }),
        ..request
    }
}

pub(crate) fn run_request(request: ExecuteToolRequest) -> RunToolRequest {
    RunToolRequest {
        context: request.context,
        call_id: request.call_id,
        tool: request.tool,
        arguments: request.arguments.map(|arguments| match arguments {
            Arguments::InputJson(text) => run_tool_request::Arguments::InputJson(text),
            Arguments::Input(fields) => run_tool_request::Arguments::Input(fields),
        }),
        timeout: request.timeout,
        on_disconnect: request.on_disconnect,
        unattended: Unattended::Wait.into(),
        wait_timeout: None,
    }
}

pub(crate) fn watch_request(id: &str, after: i64, output: OutputMode) -> WatchCallRequest {
    WatchCallRequest {
        call_id: id.to_owned(),
        after_sequence: after,
        output: output.into(),
    }
}

pub(crate) async fn run(tools: &mut ToolServiceClient<Channel>, request: RunToolRequest) -> Result<Call, Status> {
    let response = tools.run_tool(request).await?.into_inner();
    Ok(response.call.expect("a finished call has a record"))
}

pub(crate) async fn collect(mut stream: Streaming<ExecuteToolResponse>) -> Result<Vec<CallEvent>, Status> {
    let mut events = Vec::new();
    while let Some(response) = stream.next().await {
        events.extend(response?.event);
    }
    Ok(events)
}

pub(crate) async fn collect_watch(mut stream: Streaming<WatchCallResponse>) -> Result<Vec<CallEvent>, Status> {
    let mut events = Vec::new();
    while let Some(response) = stream.next().await {
        events.extend(response?.event);
    }
    Ok(events)
}

/// Reads a stream until an event that `wanted` accepts, and returns that.
pub(crate) async fn next_such(
    stream: &mut Streaming<ExecuteToolResponse>,
    mut wanted: impl FnMut(&Event) -> bool,
) -> CallEvent {
    loop {
        let response = stream.message().await.unwrap().expect("the stream goes on");
        let event = response.event.unwrap();
        if wanted(event.event.as_ref().unwrap()) {
            return event;
        }
    }
}

pub(crate) fn is_output(event: &Event) -> bool {
    matches!(event, Event::Output(_))
}

/// Reads until the call waits and returns the prompt.
pub(crate) async fn waiting(stream: &mut Streaming<ExecuteToolResponse>) -> Prompt {
    match next_such(stream, |event| matches!(event, Event::Waiting(_)))
        .await
        .event
    {
        Some(Event::Waiting(waiting)) => waiting.prompt.unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn is_terminal(event: &CallEvent) -> bool {
    matches!(event.event, Some(Event::Completed(_) | Event::Failed(_)))
}

/// Checks a whole log: numbered from `after + 1` without gaps, one terminal event, at the end. Heartbeats are skipped.
pub(crate) fn check_log(after: i64, events: &[CallEvent]) {
    let logged: Vec<&CallEvent> = events.iter().filter(|event| event.sequence != 0).collect();
    for (index, event) in logged.iter().enumerate() {
        assert_eq!(event.sequence, after + 1 + index as i64, "{event:?}");
    }
    let ends = logged.iter().filter(|event| is_terminal(event)).count();
    assert_eq!(ends, 1, "one terminal event: {:?}", logged.last());
    assert!(logged.last().is_some_and(|event| is_terminal(event)));
}

/// The output of a log, its pieces checked to follow each other from `offset` on.
pub(crate) fn output_of(events: &[CallEvent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        if let Some(Event::Output(output)) = &event.event {
            assert_eq!(output.offset, bytes.len() as i64, "pieces follow each other");
            bytes.extend_from_slice(&output.data);
        }
    }
    bytes
}

/// The end of a call as its stream told it.
pub(crate) fn end_of(events: &[CallEvent]) -> call::Ending {
    match events.last().and_then(|event| event.event.clone()) {
        Some(Event::Completed(completed)) => call::Ending::Completed(completed),
        Some(Event::Failed(failed)) => call::Ending::Failed(failed),
        other => panic!("no end: {other:?}"),
    }
}

/// The result of a call that must have succeeded.
pub(crate) fn completed(call: &Call) -> &CallCompleted {
    match &call.ending {
        Some(call::Ending::Completed(completed)) => completed,
        other => panic!("not completed: {other:?}"),
    }
}

/// The failure of a call that must have failed.
pub(crate) fn failed(call: &Call) -> &CallFailed {
    match &call.ending {
        Some(call::Ending::Failed(failed)) => failed,
        other => panic!("not failed: {other:?}"),
    }
}

/// A struct of the wire as JSON; every number is a double.
pub(crate) fn json_of(fields: &Struct) -> Value {
    fn value(kind: Option<&Kind>) -> Value {
        match kind {
            None | Some(Kind::NullValue(_)) => Value::Null,
            Some(Kind::NumberValue(number)) => Value::from(*number),
            Some(Kind::StringValue(text)) => Value::from(text.clone()),
            Some(Kind::BoolValue(is_true)) => Value::from(*is_true),
            Some(Kind::StructValue(fields)) => json_of(fields),
            Some(Kind::ListValue(list)) => list.values.iter().map(|item| value(item.kind.as_ref())).collect(),
        }
    }
    let field = |(name, field): (&String, &prost_types::Value)| (name.clone(), value(field.kind.as_ref()));
    Value::Object(fields.fields.iter().map(field).collect::<Map<_, _>>())
}

/// Checks the code and the details of a refusal and returns the details.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, reason: &str) -> ErrorDetails {
    let status = result.expect_err("a refusal");
    assert_eq!(status.code(), code, "{status:?}");
    let details = status.get_error_details();
    let info = details
        .error_info()
        .unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("toolgate", reason));
    details
}
