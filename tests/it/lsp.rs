//! Language servers: what the service tells them, and what it makes of servers that do what they should not.

mod client;
mod hostile;
mod real;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_fs::{ResolvedPath, Workspace};
use toolgate_lsp::{Client, Command, LanguageServers, Limits, Server as LanguageServer, ServerPool, Settings};
use toolgate_process::{self as process, Programs};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/lsp/server.py");

/// A workspace with servers in this process. Each does what its id says, for files of that ending.
struct Stage {
    folder: TempDir,
    workspace: Arc<Workspace>,
    programs: Programs,
    fleet: ServerPool,
    servers: LanguageServers,
}

impl Stage {
    fn new(how: &[&str], limits: Limits) -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["work", "log"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let log = root.join("log").display().to_string();
        let server = |how: &&str| LanguageServer {
            id: (*how).to_owned(),
            extensions: vec![format!(".{how}")],
            command: Command::Line(["python3", SCRIPT, how, &log].map(str::to_owned).to_vec()),
            environment: [("GIVEN".to_owned(), "yes".to_owned())].into(),
            initialization: Some(match *how {
                "deaf" => json!({"filler": "x".repeat(100_000)}),
                _ => json!({"a": {"b": 1}}),
            }),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut variables: process::Environment = [
            ("API_KEY", "secret"),
            ("TOOLGATE_TOKEN", "secret"),
            ("HOME", "/nowhere"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        variables.insert("PATH".into(), path);
        let programs = Programs::new(&variables, process::Settings::default()).unwrap();
        let workspace = Arc::new(Workspace::open("w", &root.join("work"), None).unwrap());
        let fleet = ServerPool::new(programs.clone(), limits);
        let servers = fleet.workspace(Settings {
            workspace: workspace.clone(),
            trusted: true,
            servers: how.iter().map(server).collect(),
            virtual_env: None,
        });
        let stage = Self {
            folder,
            workspace,
            programs,
            fleet,
            servers,
        };
        for how in how {
            stage.write(&format!("a.{how}"), "one\ntwo\n");
        }
        stage
    }

    fn path(&self, name: &str) -> ResolvedPath {
        self.workspace.resolve(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.workspace.directory().join(name), text).unwrap();
    }

    /// Everything that a server was sent, over all its runs.
    fn sent(&self, how: &str) -> Vec<Value> {
        let path: PathBuf = self.folder.path().join("log").join(format!("{how}.log"));
        let text = fs::read_to_string(path).unwrap_or_default();
        let whole = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        whole.collect()
    }

    /// The methods that a server was sent.
    fn methods(&self, how: &str) -> Vec<String> {
        let sent = self.sent(how).into_iter();
        sent.filter_map(|message| Some(message["method"].as_str()?.to_owned()))
            .collect()
    }

    async fn client(&self, how: &str) -> Result<Arc<Client>, String> {
        let mut fitting = self.servers.for_file(&self.path(&format!("a.{how}"))).await;
        fitting.clients.pop().ok_or_else(|| {
            let problems: Vec<String> = fitting.unavailable.iter().map(ToString::to_string).collect();
            problems.join("\n")
        })
    }

    async fn hover(&self, how: &str) -> Result<Value, String> {
        let client = self.client(how).await?;
        let path = self.path(&format!("a.{how}"));
        let document = client.open(&path).await.map_err(|error| error.to_string())?.unwrap();
        let place = client.place(path.display_path(), &document.text, 1, 2);
        let answer = client.request("textDocument/hover", place).await;
        answer.map_err(|error| error.to_string())
    }

    /// Ends everything; nothing must be left.
    async fn stop(self) {
        self.fleet.stop().await;
        assert_eq!(self.programs.shutdown().await, 0);
    }
}

fn quick() -> Limits {
    Limits {
        initialize: Duration::from_secs(15),
        request: Duration::from_secs(4),
        ..Limits::default()
    }
}
