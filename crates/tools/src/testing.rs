//! A bench for the tests of the tools beside it: a workspace in a temporary folder and a port that plays the person.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_fs::changes::{PlannedChange, Version};
use toolgate_fs::marks::sha256;
use toolgate_model::{
    Ask, CallId, Consent, FileChange, FileVersion, JsonMap, Model, Origin, OutputText, Question, SessionId, Todo,
    ToolOutput,
};
use toolgate_permission::Refusal;
use toolgate_tool::{CallContext, CallPort, Tool, ToolError};

type OnAsk = Box<dyn Fn(&Ask) + Send + Sync>;

/// Keeps what a tool asked and remembered. Answers come from lists; without one everything is allowed, and
/// questions are left unanswered.
#[derive(Default)]
pub(crate) struct Port {
    asks: Mutex<Vec<Ask>>,
    answers: Mutex<VecDeque<Result<(), Refusal>>>,
    /// The permission that is always refused.
    refused: Mutex<Option<String>>,
    facts: Mutex<BTreeMap<String, Value>>,
    edited: Mutex<Vec<PathBuf>>,
    /// The calls so far, each with the changes that it recorded.
    calls: Mutex<Vec<(CallId, Vec<FileChange>)>>,
    blobs: Mutex<BTreeMap<String, Bytes>>,
    on_ask: Mutex<Option<OnAsk>>,
    questions: Mutex<Vec<Question>>,
    replies: Mutex<VecDeque<Result<Vec<Vec<String>>, Refusal>>>,
}

#[async_trait]
impl CallPort for Port {
    async fn ask(&self, ask: Ask) -> Result<Consent, Refusal> {
        if let Some(act) = self.on_ask.lock().unwrap().as_ref() {
            act(&ask);
        }
        let is_refused = self.refused.lock().unwrap().as_ref() == Some(&ask.permission);
        self.asks.lock().unwrap().push(ask);
        if is_refused {
            return Err(Refusal::Rejected);
        }
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or(Ok(()));
        answer.map(|()| Consent::Standing)
    }

    async fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, Refusal> {
        self.questions.lock().unwrap().extend(questions);
        self.replies.lock().unwrap().pop_front().unwrap_or(Ok(Vec::new()))
    }

    async fn progress(&self, _title: Option<String>, _patch: JsonMap) {}

    async fn output(&self, _bytes: Bytes) -> Result<(), ToolError> {
        Ok(())
    }

    async fn warn(&self, _kind: &str, _text: String) {}

    async fn fact(&self, key: &str) -> Option<Value> {
        self.facts.lock().unwrap().get(key).cloned()
    }

    fn remember(&self, key: &str, value: Value) {
        self.facts.lock().unwrap().insert(key.to_owned(), value);
    }

    fn replace_todos(&self, todos: Vec<Todo>) {
        self.remember(Todo::FACT, serde_json::to_value(todos).unwrap());
    }

    fn file_edited(&self, path: &Path) {
        self.edited.lock().unwrap().push(path.to_path_buf());
    }

    async fn record_changes(&self, changes: Vec<PlannedChange>) -> Result<(), ToolError> {
        let keep = |version: Version| {
            let sha256 = sha256(&version.bytes);
            let bytes = version.bytes.len() as u64;
            self.blobs.lock().unwrap().insert(sha256.clone(), version.bytes);
            FileVersion {
                sha256,
                bytes,
                mode: version.mode,
            }
        };
        let changes = changes.into_iter().filter(|change| change.before != change.after);
        let changes = changes.map(|change| FileChange {
            path: change.path,
            shown: change.shown,
            before: change.before.map(keep),
            after: change.after.map(keep),
        });
        let changes: Vec<FileChange> = changes.collect();
        self.calls.lock().unwrap().last_mut().unwrap().1.extend(changes);
        Ok(())
    }

    async fn changes_of(&self, call: &CallId) -> Result<Vec<FileChange>, ToolError> {
        let calls = self.calls.lock().unwrap();
        let found = calls.iter().find(|(id, _)| id == call);
        match found {
            Some((_, changes)) if !changes.is_empty() => Ok(changes.clone()),
            Some(_) | None => Err(ToolError::failed("nothing to revert")),
        }
    }

    async fn blob(&self, sha256: &str) -> Result<Option<Bytes>, ToolError> {
        Ok(self.blobs.lock().unwrap().get(sha256).cloned())
    }
}

/// A workspace, and one session in it.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    workspace: Arc<Workspace>,
    port: Arc<Port>,
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
            port: Arc::default(),
            cancelled: CancellationToken::new(),
        }
    }

    pub(crate) fn ctx(&self) -> CallContext {
        let origin = Origin {
            workspace: "w".to_owned(),
            session: SessionId::new("session"),
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
        let call = CallId::generate();
        self.port.calls.lock().unwrap().push((call.clone(), Vec::new()));
        CallContext::new(
            call,
            Arc::new(origin),
            Arc::clone(&self.workspace),
            self.cancelled.clone(),
            Arc::clone(&self.port) as Arc<dyn CallPort>,
        )
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
        self.port.answers.lock().unwrap().push_back(answer);
    }

    /// Refuses a permission from now on.
    pub(crate) fn refuse(&self, permission: &str) {
        *self.port.refused.lock().unwrap() = Some(permission.to_owned());
    }

    /// Queues the reply to the next questions.
    pub(crate) fn answer_questions(&self, reply: Result<Vec<Vec<String>>, Refusal>) {
        self.port.replies.lock().unwrap().push_back(reply);
    }

    /// Returns the questions so far.
    pub(crate) fn questions(&self) -> Vec<Question> {
        self.port.questions.lock().unwrap().clone()
    }

    /// Does something while the person thinks.
    pub(crate) fn on_ask(&self, act: impl Fn(&Ask) + Send + Sync + 'static) {
        *self.port.on_ask.lock().unwrap() = Some(Box::new(act));
    }

    /// Returns and forgets the questions so far, each as permission and patterns.
    pub(crate) fn asked(&self) -> Vec<(String, Vec<String>)> {
        let asks = std::mem::take(&mut *self.port.asks.lock().unwrap());
        asks.into_iter().map(|ask| (ask.permission, ask.patterns)).collect()
    }

    pub(crate) fn last_ask(&self) -> Ask {
        self.port.asks.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn edited(&self) -> Vec<PathBuf> {
        self.port.edited.lock().unwrap().clone()
    }

    /// Says whether the session has read or written no file.
    pub(crate) fn has_read_nothing(&self) -> bool {
        let facts = self.port.facts.lock().unwrap();
        !facts.keys().any(|key| key.starts_with("read:"))
    }

    pub(crate) fn forget(&self) {
        self.port.facts.lock().unwrap().clear();
    }

    /// Returns the id of the last call.
    pub(crate) fn last_call(&self) -> CallId {
        self.port.calls.lock().unwrap().last().unwrap().0.clone()
    }

    /// Returns what a call recorded.
    pub(crate) fn changes(&self, call: &CallId) -> Vec<FileChange> {
        let calls = self.port.calls.lock().unwrap();
        calls.iter().find(|(id, _)| id == call).unwrap().1.clone()
    }

    /// Forgets every content that a change refers to.
    pub(crate) fn forget_blobs(&self) {
        self.port.blobs.lock().unwrap().clear();
    }

    pub(crate) async fn run(&self, tool: &dyn Tool, input: Value) -> Result<ToolOutput, String> {
        tool.call(input, &self.ctx()).await.map_err(|error| error.to_string())
    }
}

/// Returns the text for the model.
pub(crate) fn shown(output: &ToolOutput) -> &str {
    match &output.output {
        OutputText::Text(text) => text,
        OutputText::Stored => panic!("the output is not stored"),
    }
}
