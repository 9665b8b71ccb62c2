//! A workspace on disk and a port that allows everything, for the tests of the search tools.
//!
//! *Invariant:* compiled for tests only.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_fs::changes::PlannedChange;
use toolgate_model::{
    Ask, CallId, Consent, FileChange, JsonMap, Model, Origin, OutputText, Question, SessionId, ToolOutput,
};
use toolgate_permission::Refusal;
use toolgate_tool::{CallContext, CallPort, Tool, ToolError};

#[derive(Default)]
struct Port {
    asks: Mutex<Vec<Ask>>,
}

#[async_trait]
impl CallPort for Port {
    async fn ask(&self, ask: Ask) -> Result<Consent, Refusal> {
        self.asks.lock().unwrap().push(ask);
        Ok(Consent::Standing)
    }

    async fn ask_questions(&self, _questions: Vec<Question>) -> Result<Vec<Vec<String>>, Refusal> {
        panic!("this tool asks no questions")
    }

    async fn progress(&self, _title: Option<String>, _patch: JsonMap) {}

    async fn output(&self, _bytes: Bytes) -> Result<(), ToolError> {
        Ok(())
    }

    async fn warn(&self, _kind: &str, _text: String) {}

    async fn fact(&self, _key: &str) -> Option<Value> {
        None
    }

    fn remember(&self, _key: &str, _value: Value) {}

    fn file_edited(&self, _path: &Path) {}

    async fn record_changes(&self, _changes: Vec<PlannedChange>) -> Result<(), ToolError> {
        panic!("this tool changes no files")
    }

    async fn changes_of(&self, _call: &CallId) -> Result<Vec<FileChange>, ToolError> {
        panic!("this tool reverts nothing")
    }

    async fn blob(&self, _sha256: &str) -> Result<Option<Bytes>, ToolError> {
        panic!("this tool reverts nothing")
    }
}

/// A workspace and a folder beside it.
pub(super) struct Stage {
    _folder: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    port: Arc<Port>,
    ctx: CallContext,
}

impl Stage {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, outside) = (base.join("workspace"), base.join("outside"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let origin = Origin {
            workspace: "test".to_owned(),
            session: SessionId::generate(),
            message_id: String::new(),
            agent: "build".to_owned(),
            model: Model::default(),
            client: String::new(),
            parent: None,
            requester: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            extra: JsonMap::new(),
        };
        let port = Arc::new(Port::default());
        let workspace = Workspace::open("test", &root, None).unwrap();
        let ctx = CallContext::new(
            CallId::generate(),
            Arc::new(origin),
            Arc::new(workspace),
            CancellationToken::new(),
            Arc::clone(&port) as Arc<dyn CallPort>,
        );
        Self {
            _folder: folder,
            root,
            outside,
            port,
            ctx,
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn outside(&self) -> &Path {
        &self.outside
    }

    pub(super) fn folder(&self, path: &str) {
        std::fs::create_dir_all(self.root.join(path)).unwrap();
    }

    /// Writes a file that was last modified so many seconds ago.
    pub(super) fn file(&self, path: &str, text: &str, seconds_ago: u64) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds_ago))
            .unwrap();
    }

    pub(super) fn link(&self, target: &str, path: &str) {
        std::os::unix::fs::symlink(target, self.root.join(path)).unwrap();
    }

    pub(super) fn pipe(&self, path: &str) {
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            self.root.join(path),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
    }

    pub(super) fn cancel(&self) {
        self.ctx.cancelled.cancel();
    }

    pub(super) async fn run(&self, tool: &dyn Tool, input: &str) -> Result<ToolOutput, ToolError> {
        tool.call(serde_json::from_str(input).unwrap(), &self.ctx).await
    }

    pub(super) fn text(&self, output: &ToolOutput) -> String {
        match &output.output {
            OutputText::Text(text) => text.clone(),
            OutputText::Stored => panic!("a search keeps its output in memory"),
        }
    }

    /// Returns what was asked for, as permission and patterns.
    pub(super) fn asked(&self) -> Vec<String> {
        let asks = self.port.asks.lock().unwrap();
        asks.iter()
            .map(|ask| format!("{} {}", ask.permission, ask.patterns.join(" ")))
            .collect()
    }
}
