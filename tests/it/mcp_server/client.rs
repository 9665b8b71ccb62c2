//! A client of MCP with a person in front of it, and services for it to talk to.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio as Pipe};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    Implementation, ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use toolgate_config::service::{AuthConfig, DEFAULT_MESSAGE_BYTES, SandboxMode, SandboxNetwork};
use toolgate_engine::{Rested, WorkspaceRuntime};
use toolgate_model::Timestamp;
use toolgate_server::grpc::auth::Authenticator;
use toolgate_server::grpc::limits::{Traffic, TrafficLimits};
use toolgate_server::grpc::{
    CloseError, Closing, CreatedError, HEARTBEAT, LanguageServerFacts, Languages, Listener, OpenError, SandboxFacts,
    Services, Shared, WantedCreation, WantedWorkspace, Workspaces,
};

use crate::support::{Inside, Server};

/// What the person does with a form.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// The client shows none.
    None,
    /// Fills it in.
    Fill(Value),
    /// Refuses.
    Decline,
    /// Dismisses it, as a client does that has nobody in front of it.
    Cancel,
    /// Looks at it until it is withdrawn.
    Never,
}

/// What the client saw.
#[derive(Default)]
pub(crate) struct Log {
    forms: Mutex<Vec<String>>,
    notes: Mutex<Vec<String>>,
    withdrawn: Mutex<usize>,
    list_changes: Mutex<usize>,
    updates: Mutex<Vec<String>>,
}

impl Log {
    pub(crate) fn forms(&self) -> Vec<String> {
        self.forms.lock().unwrap().clone()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    pub(crate) fn withdrawn(&self) -> usize {
        *self.withdrawn.lock().unwrap()
    }

    /// The resources that it was told to look at again.
    pub(crate) fn updates(&self) -> Vec<String> {
        self.updates.lock().unwrap().clone()
    }

    pub(crate) fn list_changes(&self) -> usize {
        *self.list_changes.lock().unwrap()
    }
}

/// The person.
pub(crate) struct Person {
    form: Form,
    name: &'static str,
    pub(crate) log: Arc<Log>,
}

pub(crate) type Client = RunningService<RoleClient, Person>;

impl Person {
    pub(crate) fn new(form: Form) -> Self {
        Self {
            form,
            name: "person",
            log: Arc::default(),
        }
    }

    pub(super) fn called(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Connects to `/mcp` of a server.
    pub(super) async fn connect(self, server: &Server) -> Client {
        self.connect_with(server, "").await
    }

    /// Connects with a query.
    pub(super) async fn connect_with(self, server: &Server, query: &str) -> Client {
        let url = format!("http://{}/mcp{query}", server.tcp.as_ref().unwrap());
        let config = StreamableHttpClientTransportConfig::with_uri(url);
        self.start(StreamableHttpClientTransport::with_client(http(), config))
            .await
    }

    pub(crate) async fn start<T, E, A>(self, transport: T) -> Client
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        self.serve(transport).await.unwrap()
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.form {
            Form::None => json!({}),
            Form::Fill(_) | Form::Decline | Form::Cancel | Form::Never => json!({"elicitation": {"form": {}}}),
        };
        ClientConfig::new(
            serde_json::from_value(capabilities).unwrap(),
            Implementation::new(self.name, "1"),
        )
        .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let shown = json!(request)["message"].as_str().unwrap().to_owned();
        self.log.forms.lock().unwrap().push(shown);
        Ok(match &self.form {
            Form::Fill(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content.clone()),
            Form::Decline | Form::None => ElicitResult::new(ElicitationAction::Decline),
            Form::Cancel => ElicitResult::new(ElicitationAction::Cancel),
            Form::Never => {
                context.ct.cancelled().await;
                *self.log.withdrawn.lock().unwrap() += 1;
                ElicitResult::new(ElicitationAction::Cancel)
            }
        })
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.log.notes.lock().unwrap().extend(params.message);
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.log.updates.lock().unwrap().push(params.uri);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        *self.log.list_changes.lock().unwrap() += 1;
    }
}

/// A client of HTTP that takes no detour.
pub(crate) fn http() -> reqwest::Client {
    // The program does so first thing; here any test may come first.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .timeout(Duration::from_secs(120))
        .build()
        .unwrap()
}

pub(super) fn config(address: &SocketAddr) -> StreamableHttpClientTransportConfig {
    StreamableHttpClientTransportConfig::with_uri(format!("http://{address}/mcp"))
}

pub(crate) fn params(tool: &str, input: Value) -> CallToolRequestParams {
    let Value::Object(input) = input else {
        panic!("an object")
    };
    CallToolRequestParams::new(tool.to_owned()).with_arguments(input)
}

pub(crate) async fn call(client: &Client, tool: &str, input: Value) -> CallToolResult {
    client.call_tool(params(tool, input)).await.unwrap()
}

/// The text that a model reads.
pub(crate) fn text(result: &CallToolResult) -> &str {
    result.content[0].as_text().map_or("", |content| &content.text)
}

/// `toolgate mcp` as a client starts it.
pub(super) struct Stdio {
    folder: TempDir,
    child: Child,
}

impl Stdio {
    pub(super) fn start(args: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["home", "work"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let rules = json!({"permission": {"bash": "ask"}});
        fs::write(folder.path().join("work/opencode.json"), rules.to_string()).unwrap();
        Self::within(folder, args)
    }

    fn within(folder: TempDir, args: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder.path().join("home"))
            .env("TMPDIR", folder.path())
            .env("SHELL", "/bin/bash")
            .current_dir(folder.path().join("work"))
            .arg("mcp")
            .args(args)
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { folder, child }
    }

    /// Kills it, and starts another one in the same folders.
    pub(super) async fn killed(mut self) -> Self {
        self.child.kill().await.unwrap();
        Self::within(self.folder, &[])
    }

    /// The folders that services have made for what is temporary.
    pub(super) fn temporary(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap());
        let made = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("toolgate-"));
        made.map(|entry| entry.path()).collect()
    }

    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(super) fn transport(&mut self) -> (ChildStdout, ChildStdin) {
        (self.child.stdout.take().unwrap(), self.child.stdin.take().unwrap())
    }

    pub(super) async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await;
        ended.expect("it ends with its input").unwrap()
    }
}

struct NoLanguages;

/// The workspaces of an engine stay what they are.
struct Fixed;

#[async_trait::async_trait]
impl Workspaces for Fixed {
    fn are_fixed(&self) -> bool {
        true
    }

    fn roots(&self) -> Vec<String> {
        Vec::new()
    }

    fn most(&self) -> usize {
        1
    }

    async fn open(&self, _wanted: WantedWorkspace) -> Result<(Arc<WorkspaceRuntime>, bool), OpenError> {
        Err(OpenError::Fixed)
    }

    async fn close(&self, name: &str, _by: &str) -> Result<usize, CloseError> {
        Err(CloseError::Configured(name.to_owned()))
    }

    fn can_create(&self) -> bool {
        false
    }

    fn templates(&self) -> Vec<String> {
        Vec::new()
    }

    async fn create(&self, _wanted: WantedCreation) -> Result<(Arc<WorkspaceRuntime>, bool), CreatedError> {
        Err(CreatedError::Fixed)
    }

    async fn suspend(&self, name: &str) -> Result<(Arc<WorkspaceRuntime>, Rested), CreatedError> {
        Err(CreatedError::NotCreated(name.to_owned()))
    }

    async fn resume(&self, name: &str, _wait: Duration) -> Result<Arc<WorkspaceRuntime>, CreatedError> {
        Err(CreatedError::NotCreated(name.to_owned()))
    }

    async fn delete(&self, name: &str, _by: &str) -> Result<usize, CreatedError> {
        Err(CreatedError::NotCreated(name.to_owned()))
    }
}

impl Languages for NoLanguages {
    fn servers(&self, _workspace: &str) -> Vec<LanguageServerFacts> {
        Vec::new()
    }
}

/// A service around an engine in this process.
pub(super) struct Service {
    pub(super) address: SocketAddr,
    closing: Closing,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Service {
    pub(super) async fn stop(self) {
        self.closing.close();
        self.stop.cancel();
        self.served.await.unwrap();
    }
}

pub(super) async fn serve(inside: &Inside) -> Service {
    let closing = Closing::default();
    let shared = Arc::new(Shared {
        uploads: toolgate_fs::uploads::Uploads::new("/nonexistent".into(), 0),
        ports: Default::default(),
        tunnels: Default::default(),
        watches: toolgate_server::grpc::Watches::default(),
        engine: inside.engine.clone(),
        outputs: inside.store.clone(),
        journal: inside.store.clone(),
        audit: inside.store.clone(),
        heartbeat: HEARTBEAT,
        output_retention: Duration::from_secs(60),
        call_retention: Duration::from_secs(60),
        max_message_bytes: DEFAULT_MESSAGE_BYTES,
        traffic: Traffic::new(TrafficLimits::default(), Arc::default()),
        origins: Arc::new([]),
        console: false,
        agent_sandbox: false,
        authenticator: Authenticator::load(AuthConfig::default()).unwrap(),
        takes_replies: true,
        started: Timestamp::now(),
        sandbox: SandboxFacts {
            landlock: 0,
            seccomp: false,
            is_on: false,
            mode: SandboxMode::Off,
            network: SandboxNetwork::Allow,
            required: false,
            missing: Vec::new(),
        },
        servers: None,
        hosts: Default::default(),
        languages: Arc::new(NoLanguages),
        workspaces: Arc::new(Fixed),
        warnings: Vec::new(),
        closing: closing.clone(),
        telemetry: Default::default(),
        caller_variables: Vec::new(),
    });
    let services = Services::new(shared).await;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let stop = CancellationToken::new();
    let served = tokio::spawn({
        let stop = stop.clone();
        async move { services.serve(Listener::Tcp(incoming), stop).await.unwrap() }
    });
    Service {
        address,
        closing,
        stop,
        served,
    }
}
