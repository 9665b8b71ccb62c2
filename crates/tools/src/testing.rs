//! A bench for the tests of the tools beside it: a workspace in a temporary folder, and a person who is played.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_model::{Ask, CallId, FileChange, OutputText, Question, ToolOutput};
use toolgate_permission::Refusal;
use toolgate_tool::testing::Fakes;
use toolgate_tool::{Tool, ToolContext};

/// A workspace, and one session in it.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    workspace: Arc<Workspace>,
    fakes: Fakes,
    pub(crate) cancelled: CancellationToken,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_folder("w")
    }

    /// Makes one whose workspace is a git checkout.
    pub(crate) fn repository() -> Self {
        Self::with_folder("w/.git")
    }

    fn with_folder(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join(name)).unwrap();
        let workspace = Arc::new(Workspace::open("w", &root.join("w"), None).unwrap());
        Self {
            folder,
            workspace,
            fakes: Fakes::default(),
            cancelled: CancellationToken::new(),
        }
    }

    pub(crate) fn ctx(&self) -> ToolContext {
        self.fakes.context(Arc::clone(&self.workspace), self.cancelled.clone())
    }

    /// Returns a path in the workspace; `../x` lies beside it.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.workspace.directory().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    /// Returns a text with `$w` replaced by the workspace's folder and `$o` by the one that it lies in.
    pub(crate) fn fill(&self, text: &str) -> String {
        let root = self.folder.path().canonicalize().unwrap();
        text.replace("$w", &root.join("w").to_string_lossy())
            .replace("$o", &root.to_string_lossy())
    }

    /// Queues the answer to the next question.
    pub(crate) fn answer(&self, answer: Result<(), Refusal>) {
        self.fakes.permission.answers.lock().push_back(answer);
    }

    /// Refuses a permission from now on.
    pub(crate) fn refuse(&self, permission: &str) {
        *self.fakes.permission.refused.lock() = Some(permission.to_owned());
    }

    /// Queues the reply to the next questions.
    pub(crate) fn answer_questions(&self, reply: Result<Vec<Vec<String>>, Refusal>) {
        self.fakes.permission.replies.lock().push_back(reply);
    }

    /// Returns the questions so far.
    pub(crate) fn questions(&self) -> Vec<Question> {
        self.fakes.permission.questions.lock().clone()
    }

    /// Does something while the person thinks.
    pub(crate) fn on_ask(&self, act: impl Fn(&Ask) + Send + Sync + 'static) {
        *self.fakes.permission.on_ask.lock() = Some(Box::new(act));
    }

    /// Returns and forgets the questions so far, each as permission and patterns.
    pub(crate) fn asked(&self) -> Vec<(String, Vec<String>)> {
        let asks = std::mem::take(&mut *self.fakes.permission.asks.lock());
        asks.into_iter().map(|ask| (ask.permission, ask.patterns)).collect()
    }

    pub(crate) fn last_ask(&self) -> Ask {
        self.fakes.permission.asks.lock().last().unwrap().clone()
    }

    pub(crate) fn edited(&self) -> Vec<PathBuf> {
        self.fakes.changes.announced.lock().clone()
    }

    /// Says whether the session has read or written no file.
    pub(crate) fn has_read_nothing(&self) -> bool {
        let facts = self.fakes.session.facts.lock();
        !facts.keys().any(|key| key.starts_with("read:"))
    }

    pub(crate) fn forget(&self) {
        self.fakes.session.facts.lock().clear();
    }

    /// Returns the id of the last call.
    pub(crate) fn last_call(&self) -> CallId {
        self.fakes.changes.calls.lock().last().unwrap().0.clone()
    }

    /// Returns what a call recorded.
    pub(crate) fn changes(&self, call: &CallId) -> Vec<FileChange> {
        let calls = self.fakes.changes.calls.lock();
        calls.iter().find(|(id, _)| id == call).unwrap().1.clone()
    }

    /// Forgets every content that a change refers to.
    pub(crate) fn forget_blobs(&self) {
        self.fakes.changes.contents.lock().clear();
    }

    pub(crate) async fn run(&self, tool: &dyn Tool, input: Value) -> Result<ToolOutput, String> {
        tool.call(input, &self.ctx()).await.map_err(|error| error.to_string())
    }
}

/// Returns the text for the model.
pub(crate) fn output_text(output: &ToolOutput) -> &str {
    match &output.output {
        OutputText::Text(text) => text,
        OutputText::Stored => panic!("the output is not stored"),
    }
}
