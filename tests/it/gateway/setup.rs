//! A gateway and its workers as real processes, and clients that say who they are.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;

pub(crate) use crate::fleet::server::free_address;
use crate::support::{self, connect_tcp, eventually};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

/// The token of the gateway at its workers, and those of people at the gateway.
pub(crate) const GATEWAY: &str = "gateway-gateway-gateway";
pub(crate) const ANNA: &str = "anna-anna-anna-anna";
pub(crate) const BEN: &str = "ben-ben-ben-ben-ben";
pub(crate) const CARL: &str = "carl-carl-carl-carl";
pub(crate) const DORA: &str = "dora-dora-dora-dora";

const PEOPLE: &str = "anna anna-anna-anna-anna *\nben ben-ben-ben-ben-ben * wb\ncarl carl-carl-carl-carl *\ndora dora-dora-dora-dora calls.read\n";
const OWN: &str = "gateway gateway-gateway-gateway *\nlocal local-local-local-local *\n";

/// What is asked about in the workspaces `wa` and `wb`; in `wc` everything is allowed, and nothing confined.
pub(crate) const RULES: &str = r#"{"permission": {"bash": {"*": "allow", "echo ask*": "ask"}}}"#;

/// A token of the workers that is no gateway's.
pub(crate) const LOCAL: &str = "local-local-local-local";

/// Shows a token, and the entry that only gateways may send.
#[derive(Clone)]
pub(crate) struct Shown(pub(crate) &'static str, pub(crate) Option<&'static str>);

impl Interceptor for Shown {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        metadata.insert("authorization", format!("Bearer {}", self.0).parse().unwrap());
        if let Some(json) = self.1 {
            let value = tonic::metadata::MetadataValue::from_bytes(json.as_bytes());
            metadata.insert_bin("toolgate-caller-bin", value);
        }
        Ok(request)
    }
}

pub(crate) type Authorized = InterceptedService<Channel, Shown>;

/// One process of the program.
pub(crate) struct Process {
    child: Option<Child>,
    folder: PathBuf,
    command: &'static str,
    /// Where it listens on TCP, as `host:port`; later runs listen there again.
    pub(crate) address: String,
    /// Where operators ask, if they may.
    pub(crate) admin: Option<String>,
    /// What it loads before anything else, if so.
    pub(crate) library: Option<PathBuf>,
    /// What is run.
    pub(crate) program: PathBuf,
}

impl Process {
    pub(crate) async fn start(folder: PathBuf, command: &'static str, home: &Path) -> Self {
        Self::start_at(&free_address().to_string(), folder, command, home).await
    }

    /// Starts it where others know it already.
    pub(crate) async fn start_at(address: &str, folder: PathBuf, command: &'static str, home: &Path) -> Self {
        let mut process = Self::at(address, folder, command);
        process.run(home).await;
        process
    }

    /// One that is not started yet.
    pub(crate) fn at(address: &str, folder: PathBuf, command: &'static str) -> Self {
        Self {
            child: None,
            folder,
            command,
            address: address.to_owned(),
            admin: None,
            library: None,
            program: PROGRAM.into(),
        }
    }

    /// Says whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.try_wait().unwrap().is_some())
    }

    /// Starts it (again), and waits until it listens.
    pub(crate) async fn run(&mut self, home: &Path) {
        self.spawn(home);
        let mut announced = String::new();
        eventually("the process listens", async || {
            announced = fs::read_to_string(self.folder.join("stdout")).unwrap();
            let has_ended = self.has_ended();
            assert!(!has_ended, "it ended:\n{}", self.log());
            announced.ends_with('\n')
        })
        .await;
        let announced: Value = serde_json::from_str(announced.lines().next().unwrap()).unwrap();
        let url = announced["listening"]["tcp"].as_str().unwrap();
        self.address = url.rsplit('/').next().unwrap().to_owned();
        let admin = announced["listening"]["admin"].as_str();
        self.admin = admin.and_then(|url| Some(url.strip_prefix("http://")?.strip_suffix("/metrics")?.to_owned()));
    }

    /// Starts it (again), and does not wait for anything.
    pub(crate) fn spawn(&mut self, home: &Path) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("stderr"))
            .unwrap();
        let child = Command::new(&self.program)
            .args([
                "--json",
                "--config",
                "toolgate.toml",
                self.command,
                "--listen",
                &self.address,
            ])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("TMPDIR", &self.folder)
            .env("SHELL", "/bin/bash")
            .env("OTEL_BSP_SCHEDULE_DELAY", "50")
            .envs(self.library.as_ref().map(|library| ("LD_PRELOAD", library)))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(File::create(self.folder.join("stdout")).unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        self.child = Some(child.unwrap());
    }

    pub(crate) async fn kill9(&mut self) {
        self.signal(Signal::KILL).await;
    }

    /// Returns its process id, while it runs.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().and_then(Child::id).unwrap()
    }

    /// Sends a signal that does not end it.
    pub(crate) fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends a signal, waits for the end, and returns the exit status.
    pub(crate) async fn signal(&mut self, signal: Signal) -> Option<i32> {
        self.send(signal);
        let mut child = self.child.take().unwrap();
        child.wait().await.unwrap().code()
    }

    /// Waits until it ends by itself, and returns the exit status.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        child.wait().await.unwrap().code()
    }

    /// The part of a gateway's configuration that names it as a worker.
    pub(crate) fn named(&self, name: &str) -> String {
        let address = &self.address;
        format!("[cluster.workers.{name}]\naddress = \"http://{address}\"\ntoken_file = \"own\"\n")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }
}

/// Three workers with the workspaces `wa`, `wb` and `wc`, and a gateway before them.
pub(crate) struct Fleet {
    folder: TempDir,
    pub(crate) workers: Vec<Process>,
    pub(crate) gateway: Process,
    pub(crate) channel: Channel,
}

pub(crate) fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Starts the worker of a name with one workspace, called `w` and its name.
pub(crate) async fn start_worker(folder: &Path, name: &str, settings: &str, rules: &str) -> Process {
    let place = folder.join(name);
    fs::create_dir_all(place.join("own")).unwrap();
    fs::create_dir_all(place.join("roots")).unwrap();
    put(&place.join("own/opencode.json"), rules);
    put(&place.join("tokens"), OWN);
    let text = format!(
        "{settings}\ndata_dir = \"data\"\nlisten.unix = \"s\"\nauth.tokens_file = \"tokens\"\nauth.gateways = [\"token:gateway\"]\n\
         [[workspaces]]\nname = \"w{name}\"\ndirectory = \"own\"\n[[workspace_roots]]\ndirectory = \"roots\"\n"
    );
    put(&place.join("toolgate.toml"), &text);
    Process::start(place, "serve", &home_in(folder)).await
}

/// Starts a gateway before the workers that a part of its configuration names.
pub(crate) async fn start_gateway(folder: &Path, name: &str, settings: &str, workers: &str) -> Process {
    let place = folder.join(name);
    fs::create_dir_all(&place).unwrap();
    put(&place.join("tokens"), PEOPLE);
    put(&place.join("own"), &format!("{GATEWAY}\n"));
    let text = format!("{settings}\nauth.tokens_file = \"tokens\"\ncluster.role = \"gateway\"\n{workers}");
    put(&place.join("toolgate.toml"), &text);
    Process::start(place, "gateway", &home_in(folder)).await
}

/// The home folder of all processes of a fleet.
pub(crate) fn home_in(folder: &Path) -> PathBuf {
    let home = folder.join("home");
    fs::create_dir_all(&home).unwrap();
    home
}

impl Fleet {
    pub(crate) async fn start() -> Self {
        Self::with("").await
    }

    /// Starts it; the settings are the gateway's.
    pub(crate) async fn with(settings: &str) -> Self {
        Self::with_both(settings, "").await
    }

    /// Starts it; the settings are the gateway's and those of all.
    pub(crate) async fn with_both(settings: &str, of_all: &str) -> Self {
        Self::with_each(&format!("{settings}\n{of_all}"), of_all).await
    }

    /// Starts it with the settings of the gateway, and those of the workers.
    pub(crate) async fn with_each(of_gateway: &str, of_workers: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let (mut workers, mut named) = (Vec::new(), String::new());
        for (name, rules) in [("a", RULES), ("b", RULES), ("c", r#"{"permission": "allow"}"#)] {
            let worker = start_worker(folder.path(), name, of_workers, rules).await;
            named += &worker.named(name);
            workers.push(worker);
        }
        let gateway = start_gateway(folder.path(), "gateway", of_gateway, &named).await;
        Self {
            channel: connect_tcp(&gateway.address).await.unwrap(),
            folder,
            workers,
            gateway,
        }
    }

    pub(crate) fn home(&self) -> PathBuf {
        home_in(self.folder.path())
    }

    /// A file of a worker.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn tools(&self, token: &'static str) -> ToolServiceClient<Authorized> {
        ToolServiceClient::with_interceptor(self.channel.clone(), Shown(token, None))
    }

    pub(crate) fn prompts(&self, token: &'static str) -> PermissionServiceClient<Authorized> {
        PermissionServiceClient::with_interceptor(self.channel.clone(), Shown(token, None))
    }

    pub(crate) fn sessions(&self, token: &'static str) -> SessionServiceClient<Authorized> {
        SessionServiceClient::with_interceptor(self.channel.clone(), Shown(token, None))
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, token: &'static str, workspace: &str, command: &str) -> Result<Call, Status> {
        let request = support::run_request(bash(workspace, command));
        Ok(self.tools(token).run_tool(request).await?.into_inner().call.unwrap())
    }

    /// Says that nothing has panicked.
    pub(crate) fn assert_calm(&self) {
        for process in self.workers.iter().chain([&self.gateway]) {
            let log = process.log();
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}

/// A command in a workspace.
pub(crate) fn bash(workspace: &str, command: &str) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            workspace: workspace.to_owned(),
            ..CallContext::default()
        }),
        ..support::bash(command)
    }
}

/// Replies to a prompt.
pub(crate) async fn answer(fleet: &Fleet, token: &'static str, prompt: &Prompt) -> PromptReplyResult {
    let request = ReplyPromptRequest {
        reply: Some(support::reply(prompt, PromptDecision::Once)),
        ..ReplyPromptRequest::default()
    };
    fleet
        .prompts(token)
        .reply_prompt(request)
        .await
        .unwrap()
        .into_inner()
        .result
        .unwrap()
}
