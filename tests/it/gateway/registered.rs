//! A gateway at which workers register, and workers that do.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::process::Command;
use tonic::transport::Channel;
use toolgate_contract::cluster::cluster_service_client::ClusterServiceClient;
use toolgate_contract::cluster::{ListWorkersRequest, Worker, WorkerState};
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{self, connect_tcp, eventually};

/// The tokens of workers at the gateway: `a`, `b` and `c` may have the workspace of their letter, `c` also that of `b`.
pub(super) const WORKERS: [(&str, &str, &str); 3] = [
    ("a", "worker-a-worker-a-worker-a", r#"["wa", "acme/*"]"#),
    ("b", "worker-b-worker-b-worker-b", r#"["wb"]"#),
    ("c", "worker-c-worker-c-worker-c", r#"["wc", "wb"]"#),
];

fn tokens() -> String {
    let people = format!(
        "[[tokens]]\nname = \"anna\"\ntoken = \"{ANNA}\"\nscopes = [\"*\"]\n[[tokens]]\nname = \"ben\"\ntoken = \"{BEN}\"\n\
         scopes = [\"*\"]\nworkspaces = [\"wb\"]\n"
    );
    let workers = WORKERS.map(|(name, token, workspaces)| {
        format!("[[tokens]]\nname = \"worker-{name}\"\ntoken = \"{token}\"\nscopes = []\nworkspaces = {workspaces}\n")
    });
    people + &workers.concat()
}

/// A gateway without workers of its own.
pub(super) struct Door {
    folder: TempDir,
    pub(super) gateway: Process,
    pub(super) channel: Channel,
}

impl Door {
    pub(super) async fn open(settings: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("home")).unwrap();
        let place = folder.path().join("gateway");
        fs::create_dir_all(&place).unwrap();
        put(&place.join("tokens"), &tokens());
        put(&place.join("own"), GATEWAY);
        let text = format!(
            "auth.tokens_file = \"tokens\"\nauth.workers = [\"token:worker-a\", \"token:worker-b\", \"token:worker-c\"]\n\
             cluster.role = \"gateway\"\n{settings}\n"
        );
        put(&place.join("toolgate.toml"), &text);
        let gateway = Process::start(place, "gateway", &folder.path().join("home")).await;
        Self {
            channel: connect_tcp(&gateway.address).await.unwrap(),
            folder,
            gateway,
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Starts a worker with the token of one of [`WORKERS`] and these workspaces, each in a folder of its own; one without rules gets
    /// [`RULES`].
    pub(super) async fn worker(&self, name: &str, workspaces: &[&str]) -> Process {
        let gateway = format!("http://{}", self.gateway.address);
        self.worker_of(&gateway, name, workspaces).await
    }

    /// The same, which registers at another gateway.
    pub(super) async fn worker_of(&self, gateway: &str, name: &str, workspaces: &[&str]) -> Process {
        let place = self.path(name);
        fs::create_dir_all(place.join("roots")).unwrap();
        let (_, token, _) = WORKERS.into_iter().find(|(one, ..)| *one == name).unwrap();
        put(&place.join("identity"), token);
        let socket = place.join("s").display().to_string();
        let mut text = format!(
            "data_dir = \"data\"\nlisten.unix = \"s\"\n[cluster]\ngateways = [\"{gateway}\"]\nidentity = \"identity\"\n\
             name = \"{name}\"\nadvertise = \"unix:{socket}\"\n[[workspace_roots]]\ndirectory = \"roots\"\n\
             [created_workspaces]\ndirectory = \"made\"\n"
        );
        for workspace in workspaces {
            let folder = place.join(workspace.replace('/', "-"));
            fs::create_dir_all(&folder).unwrap();
            let rules = folder.join("opencode.json");
            if !rules.exists() {
                put(&rules, RULES);
            }
            let folder = folder.display();
            text += &format!("[[workspaces]]\nname = \"{workspace}\"\ndirectory = \"{folder}\"\n");
        }
        put(&place.join("toolgate.toml"), &text);
        Process::start(place, "serve", &self.home()).await
    }

    pub(super) fn tools(&self, token: &'static str) -> ToolServiceClient<Authorized> {
        ToolServiceClient::with_interceptor(self.channel.clone(), Shown(token, None))
    }

    pub(super) async fn run(&self, workspace: &str, command: &str) -> Result<Call, tonic::Status> {
        let request = support::run_request(bash(workspace, command));
        Ok(self.tools(ANNA).run_tool(request).await?.into_inner().call.unwrap())
    }

    pub(super) fn cluster(&self, token: &'static str) -> ClusterServiceClient<Authorized> {
        ClusterServiceClient::with_interceptor(self.channel.clone(), Shown(token, None))
    }

    pub(super) async fn workers(&self) -> Vec<Worker> {
        let listed = self.cluster(ANNA).list_workers(ListWorkersRequest {}).await;
        listed.unwrap().into_inner().workers
    }

    /// Waits until workers with these workspaces are ready.
    pub(super) async fn ready(&self, expected: &[(&str, &[&str])]) {
        let mut last = Vec::new();
        eventually("the workers are ready", async || {
            last = self.workers().await;
            let is_ready = |worker: &&Worker| worker.state() == WorkerState::Ready;
            expected.iter().all(|(name, workspaces)| {
                let found = last.iter().filter(is_ready).find(|worker| worker.name == *name);
                found.is_some_and(|found| found.workspaces == *workspaces)
            })
        })
        .await;
    }

    /// What `toolgate` prints, on both of its outputs.
    pub(super) async fn print(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_toolgate"))
            .args(["--server", &format!("http://{}", self.gateway.address)])
            .args(arguments)
            .env_clear()
            .env("HOME", self.home())
            .env("TOOLGATE_TOKEN", ANNA)
            .output()
            .await
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Says that no process has panicked, and that none has told the secret of a registration.
pub(super) fn assert_calm(processes: &[&Process]) {
    for process in processes {
        let log = process.log();
        assert!(!log.contains("panicked"), "{log}");
        assert!(!log.contains("toolgate-registration-"), "{log}");
    }
}
