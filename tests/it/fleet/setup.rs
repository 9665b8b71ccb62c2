//! A fleet as real processes: a database, two gateways that share it, and workers that keep nothing.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::*;

use super::clock::Clock;
use super::commands::{text, toolgate};
use super::line::Line;
use super::server::Server;
use crate::gateway::setup::*;
use crate::support::{self, connect_tcp, eventually, is_output, next_such};

/// The lease of all fleets here: as short as may be, since tests wait for its end.
pub(super) const LEASE: Duration = Duration::from_secs(3);

/// The token of workers that are tasks of a test.
pub(super) const CROWD: &str = "crowd-crowd-crowd-crowd";

pub(super) struct Fleet {
    folder: TempDir,
    pub(super) database: Server,
    pub(super) gateways: Vec<Process>,
    pub(super) workers: Vec<Process>,
    /// The names of the workers: each has the workspace of its letter.
    names: Vec<String>,
    /// What workers run, if it is another program.
    worker: Option<PathBuf>,
}

/// The principal of the workers at places that are made, and what gateways show to whoever makes them.
pub(super) const MACHINES: &str = "machines";
/// The principal of those that wait there to be bound.
pub(super) const PODS: &str = "pods";
pub(super) const MACHINES_TOKEN: &str = "machines-of-the-gateway";

pub(super) fn token_of(worker: &str) -> String {
    format!("worker-{worker}-worker-{worker}-worker-{worker}")
}

/// What a fleet is made of.
pub(super) struct Plan {
    /// The gateways, each with its clock.
    pub(super) gateways: Vec<Clock>,
    /// The workers, each with its clock.
    pub(super) workers: Vec<Clock>,
    /// Where the bucket of outputs is, if there is one.
    pub(super) bucket: Option<String>,
    /// What else is in the configuration of the gateways, before its first table.
    pub(super) settings: &'static str,
    /// What workers run, if it is another program.
    pub(super) worker: Option<PathBuf>,
    /// Who makes places for created workspaces, whose workers show a token of their own: what the configuration says of that.
    pub(super) provisioner: Option<String>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            gateways: vec![Clock::Right; 2],
            workers: vec![Clock::Right; 2],
            bucket: None,
            settings: "",
            worker: None,
            provisioner: None,
        }
    }
}

impl Fleet {
    pub(super) async fn start() -> Self {
        Self::of(Plan::default()).await
    }

    pub(super) async fn of(plan: Plan) -> Self {
        let mut fleet = Self::with_gateways(&plan).await;
        let gateways = fleet.gateway_addresses();
        for (name, clock) in fleet.names.clone().iter().zip(plan.workers) {
            fleet.start_worker(name, clock, &gateways, None).await;
        }
        fleet.ready().await;
        fleet
    }

    /// Starts a fleet in which each worker has a line of its own to each gateway, and each gateway reaches each worker by one.
    pub(super) async fn with_lines(plan: Plan) -> (Self, Vec<Arc<Line>>) {
        let mut fleet = Self::with_gateways(&plan).await;
        let mut lines = Vec::new();
        for (name, clock) in fleet.names.clone().iter().zip(plan.workers) {
            let mut near = Vec::new();
            for address in fleet.gateway_addresses() {
                let line = Line::to(address).await;
                near.push(line.address.clone());
                lines.push(line);
            }
            let own = free_address().to_string();
            let line = Line::to(own.clone()).await;
            let at = Some((own.as_str(), line.address.as_str()));
            fleet.start_worker(name, clock, &near, at).await;
            lines.push(line);
        }
        fleet.ready().await;
        (fleet, lines)
    }

    /// Starts a fleet that goes on with the history of a data directory, which `fill` names.
    pub(super) async fn importing(fill: impl AsyncFnOnce(&Self) -> PathBuf) -> Self {
        let plan = Plan::default();
        let mut fleet = Self::empty(plan.workers.len()).await;
        let data = fill(&fleet).await;
        let place = fleet.configure_gateway("gateway-0", &plan);
        for command in [&["store", "migrate"][..], &["store", "import", data.to_str().unwrap()]] {
            let output = toolgate(&place, command).await;
            assert!(output.status.success(), "{}", text(&output));
        }
        fleet.start_gateways(&plan).await;
        let gateways = fleet.gateway_addresses();
        for (name, clock) in fleet.names.clone().iter().zip(plan.workers) {
            fleet.start_worker(name, clock, &gateways, None).await;
        }
        fleet.ready().await;
        fleet
    }

    /// Starts the gateways of a fleet that has no workers yet.
    async fn with_gateways(plan: &Plan) -> Self {
        let mut fleet = Self::empty(plan.workers.len()).await;
        fleet.worker.clone_from(&plan.worker);
        fleet.start_gateways(plan).await;
        fleet
    }

    async fn start_gateways(&mut self, plan: &Plan) {
        for (number, clock) in plan.gateways.iter().enumerate() {
            let name = format!("gateway-{number}");
            self.start_gateway(&name, *clock, plan).await;
        }
    }

    pub(super) async fn empty(workers: usize) -> Self {
        let database = Server::start(false).await;
        database.run("postgres", "CREATE DATABASE fleet").await;
        let letters = ('a'..='z').take(workers);
        Self {
            folder: TempDir::new().unwrap(),
            database,
            gateways: Vec::new(),
            workers: Vec::new(),
            names: letters.map(String::from).collect(),
            worker: None,
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn tokens(&self) -> String {
        let entry = |name: &str, token: &str, rest: &str| {
            format!("[[tokens]]\nname = \"{name}\"\ntoken = \"{token}\"\n{rest}\n")
        };
        let all = "scopes = [\"*\"]";
        let mut text = entry("anna", ANNA, all) + &entry("carl", CARL, all);
        text += &entry("ben", BEN, "scopes = [\"*\"]\nworkspaces = [\"wb\"]");
        text += &entry(PODS, &token_of(PODS), "scopes = []\nworkspaces = [\"pods/*\"]");
        text += &entry(
            MACHINES,
            &token_of(MACHINES),
            "scopes = []\nworkspaces = [\"made/*\", \"kept/*\"]",
        );
        for name in &self.names {
            let rest = format!("scopes = []\nworkspaces = [\"w{name}\"]");
            text += &entry(&format!("worker-{name}"), &token_of(name), &rest);
        }
        text += &entry("crowd", CROWD, "scopes = []\nworkspaces = [\"crowd/*\"]");
        text
    }

    pub(super) fn gateway_addresses(&self) -> Vec<String> {
        self.gateways.iter().map(|gateway| gateway.address.clone()).collect()
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

    /// Returns what a process has to load to have a clock.
    pub(super) fn library(&self, clock: Clock) -> Option<PathBuf> {
        clock.library(self.folder.path())
    }

    /// Writes the configuration of a gateway; returns where.
    pub(super) fn configure_gateway(&self, name: &str, plan: &Plan) -> PathBuf {
        let place = self.path(name);
        fs::create_dir_all(&place).unwrap();
        put(&place.join("tokens"), &self.tokens());
        put(&place.join("database"), &self.database_address());
        let workers = self.names.iter().map(|name| format!("worker-{name}"));
        let workers = workers.chain([MACHINES.to_owned(), "crowd".to_owned()]);
        let workers: Vec<String> = workers.map(|name| format!("\"token:{name}\"")).collect();
        let (workers, lease, settings) = (workers.join(", "), LEASE.as_secs(), plan.settings);
        let bucket = plan.bucket.as_ref().map_or_else(String::new, |endpoint| {
            put(&place.join("bucket-keys"), "key:secret\n");
            format!(
                "outputs = \"s3://outputs/fleet\"\noutputs_endpoint = \"{endpoint}\"\noutputs_region = \"us-east-1\"\n\
                 outputs_path_style = true\noutputs_keys_file = \"bucket-keys\"\n"
            )
        });
        let text = format!(
            "telemetry.admin = \"127.0.0.1:0\"\n{settings}\n[auth]\ntokens_file = \"tokens\"\nworkers = [{workers}]\nworkers_file = \"rules\"\n\
             [cluster]\nrole = \"gateway\"\nstore_file = \"database\"\nlease = \"{lease}s\"\nmigrate = \"start\"\n{bucket}{}",
            plan.provisioner.as_deref().unwrap_or_default()
        );
        put(&place.join("machines"), MACHINES_TOKEN);
        put(
            &place.join("rules"),
            "[[workers]]\nprincipal = \"token:pods\"\npool = true\nworkspaces = [\"pods/*\"]\n",
        );
        put(&place.join("toolgate.toml"), &text);
        place
    }

    async fn start_gateway(&mut self, name: &str, clock: Clock, plan: &Plan) {
        let place = self.configure_gateway(name, plan);
        let mut gateway = Process::at(&free_address().to_string(), place, "gateway");
        gateway.library = self.library(clock);
        gateway.run(&self.home()).await;
        self.gateways.push(gateway);
    }

    /// Starts a worker: with where it listens and where it says to be, or on a socket.
    async fn start_worker(&mut self, name: &str, clock: Clock, gateways: &[String], at: Option<(&str, &str)>) {
        let place = self.path(&format!("worker-{name}"));
        let work = place.join("own");
        fs::create_dir_all(&work).unwrap();
        put(&place.join("identity"), &token_of(name));
        put(&work.join("opencode.json"), RULES);
        let gateways: Vec<String> = gateways.iter().map(|address| format!("\"http://{address}\"")).collect();
        let gateways = gateways.join(", ");
        let advertise = match at {
            Some((_, shown)) => format!("http://{shown}"),
            None => format!("unix:{}", place.join("s").display()),
        };
        let text = format!(
            "data_dir = \"data\"\nlisten.unix = \"s\"\n[cluster]\nrole = \"worker\"\ngateways = [{gateways}]\nidentity = \"identity\"\n\
             name = \"{name}\"\nadvertise = \"{advertise}\"\n[[workspaces]]\nname = \"w{name}\"\ndirectory = \"own\"\n"
        );
        put(&place.join("toolgate.toml"), &text);
        let listens = at.map_or_else(|| free_address().to_string(), |(own, _)| own.to_owned());
        let mut worker = Process::at(&listens, place, "serve");
        worker.library = self.library(clock);
        if let Some(program) = &self.worker {
            worker.program.clone_from(program);
        }
        worker.run(&self.home()).await;
        self.workers.push(worker);
    }

    /// Waits until all gateways have all workspaces.
    pub(super) async fn ready(&self) {
        for gateway in 0..self.gateways.len() {
            eventually("all workers are at the gateway", async || {
                let channel = connect_tcp(&self.gateways[gateway].address).await.unwrap();
                let mut workspaces = WorkspaceServiceClient::with_interceptor(channel, Shown(ANNA, None));
                let listed = workspaces.list_workspaces(ListWorkspacesRequest::default()).await;
                listed.is_ok_and(|listed| {
                    let there = listed.into_inner().workspaces;
                    there.iter().filter(|one| one.problem.is_empty()).count() == self.names.len()
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

    /// Starts a command through a gateway that goes on until its worker is killed; returns its stream, and the event of its first output.
    pub(super) async fn begin(&self, gateway: usize, workspace: &str) -> (Streaming<ExecuteToolResponse>, CallEvent) {
        let mut tools = self.tools(gateway, ANNA).await;
        let running = tools.execute_tool(bash(workspace, "echo begun; sleep 100")).await;
        let mut running = running.unwrap().into_inner();
        let begun = next_such(&mut running, is_output).await;
        (running, begun)
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
