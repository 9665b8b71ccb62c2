//! A fleet as real processes: a database, two gateways that share it, and workers that keep nothing.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tonic::Status;
use tonic::transport::Channel;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::*;

use super::server::Server;
use crate::gateway::setup::*;
use crate::support::{self, connect_tcp, eventually};

/// The lease of all fleets here: as short as may be, since tests wait for its end.
const LEASE: &str = "3s";

/// The workers: each has the workspace of its letter.
const WORKERS: [(&str, &str); 2] = [("a", "worker-a-worker-a-worker-a"), ("b", "worker-b-worker-b-worker-b")];

pub(super) struct Fleet {
    folder: TempDir,
    pub(super) database: Server,
    pub(super) gateways: Vec<Process>,
    pub(super) workers: Vec<Process>,
}

fn tokens() -> String {
    let entry =
        |name: &str, token: &str, rest: &str| format!("[[tokens]]\nname = \"{name}\"\ntoken = \"{token}\"\n{rest}\n");
    let all = "scopes = [\"*\"]";
    let mut text = entry("anna", ANNA, all) + &entry("carl", CARL, all);
    text += &entry("ben", BEN, "scopes = [\"*\"]\nworkspaces = [\"wb\"]");
    for (name, token) in WORKERS {
        text += &entry(
            &format!("worker-{name}"),
            token,
            &format!("scopes = []\nworkspaces = [\"w{name}\"]"),
        );
    }
    text
}

impl Fleet {
    pub(super) async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let database = Server::start(false).await;
        database.run("postgres", "CREATE DATABASE fleet").await;
        let mut fleet = Self {
            folder,
            database,
            gateways: Vec::new(),
            workers: Vec::new(),
        };
        for name in ["one", "two"] {
            fleet.start_gateway(name).await;
        }
        for (name, token) in WORKERS {
            fleet.start_worker(name, token).await;
        }
        fleet.ready().await;
        fleet
    }

    pub(super) fn home(&self) -> PathBuf {
        home_in(self.folder.path())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Where the database is, as the configuration has it.
    pub(super) fn database_address(&self) -> String {
        self.database.url("fleet")
    }

    async fn start_gateway(&mut self, name: &str) {
        let place = self.path(name);
        fs::create_dir_all(&place).unwrap();
        put(&place.join("tokens"), &tokens());
        put(&place.join("database"), &self.database_address());
        let text = format!(
            "telemetry.admin = \"127.0.0.1:0\"\n[auth]\ntokens_file = \"tokens\"\nworkers = [\"token:worker-a\", \"token:worker-b\"]\n\
             [cluster]\nrole = \"gateway\"\nstore_file = \"database\"\nlease = \"{LEASE}\"\nmigrate = \"start\"\n"
        );
        put(&place.join("toolgate.toml"), &text);
        let gateway = Process::start(place, "gateway", &self.home()).await;
        self.gateways.push(gateway);
    }

    async fn start_worker(&mut self, name: &str, token: &str) {
        let place = self.path(&format!("worker-{name}"));
        let work = place.join("own");
        fs::create_dir_all(&work).unwrap();
        put(&place.join("identity"), token);
        put(&work.join("opencode.json"), RULES);
        let gateways: Vec<String> = self
            .gateways
            .iter()
            .map(|gateway| format!("\"http://{}\"", gateway.address))
            .collect();
        let (gateways, socket) = (gateways.join(", "), place.join("s").display().to_string());
        let text = format!(
            "data_dir = \"data\"\nlisten.unix = \"s\"\n[cluster]\nrole = \"worker\"\ngateways = [{gateways}]\nidentity = \"identity\"\n\
             name = \"{name}\"\nadvertise = \"unix:{socket}\"\n[[workspaces]]\nname = \"w{name}\"\ndirectory = \"own\"\n"
        );
        put(&place.join("toolgate.toml"), &text);
        let worker = Process::start(place, "serve", &self.home()).await;
        self.workers.push(worker);
    }

    /// Waits until both gateways have all workspaces.
    pub(super) async fn ready(&self) {
        for gateway in 0..self.gateways.len() {
            eventually("both workers are at the gateway", async || {
                let channel = connect_tcp(&self.gateways[gateway].address).await.unwrap();
                let mut workspaces = WorkspaceServiceClient::with_interceptor(channel, Shown(ANNA, None));
                let listed = workspaces.list_workspaces(ListWorkspacesRequest::default()).await;
                listed.is_ok_and(|listed| {
                    let there = listed.into_inner().workspaces;
                    there.iter().filter(|one| one.problem.is_empty()).count() == WORKERS.len()
                })
            })
            .await;
        }
    }

    pub(super) async fn channel(&self, gateway: usize) -> Channel {
        connect_tcp(&self.gateways[gateway].address).await.unwrap()
    }

    pub(super) async fn tools(&self, gateway: usize, token: &'static str) -> ToolServiceClient<Authorized> {
        ToolServiceClient::with_interceptor(self.channel(gateway).await, Shown(token, None))
    }

    pub(super) async fn prompts(&self, gateway: usize, token: &'static str) -> PermissionServiceClient<Authorized> {
        PermissionServiceClient::with_interceptor(self.channel(gateway).await, Shown(token, None))
    }

    /// Runs a command to its end.
    pub(super) async fn run(&self, gateway: usize, workspace: &str, command: &str) -> Result<Call, Status> {
        let request = support::run_request(bash(workspace, command));
        let mut tools = self.tools(gateway, ANNA).await;
        Ok(tools.run_tool(request).await?.into_inner().call.unwrap())
    }

    pub(super) async fn get(&self, gateway: usize, id: &str) -> Result<Call, Status> {
        let request = GetCallRequest { call_id: id.to_owned() };
        let mut tools = self.tools(gateway, ANNA).await;
        Ok(tools.get_call(request).await?.into_inner().call.unwrap())
    }

    /// Allows what a prompt asks, once.
    pub(super) async fn allow(&self, gateway: usize, prompt: &Prompt) -> Result<PromptReplyResult, Status> {
        let request = ReplyPromptRequest {
            reply: Some(support::reply(prompt, PromptDecision::Once)),
            ..ReplyPromptRequest::default()
        };
        let answer = self.prompts(gateway, CARL).await.reply_prompt(request).await?;
        Ok(answer.into_inner().result.unwrap())
    }

    /// Says that nothing has panicked.
    pub(super) fn assert_calm(&self) {
        for process in self.gateways.iter().chain(&self.workers) {
            let log = process.log();
            assert!(!log.contains("panicked"), "{log}");
            assert!(!log.contains("toolgate-registration-"), "{log}");
        }
    }
}
