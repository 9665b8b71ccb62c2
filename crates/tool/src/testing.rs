//! One fake for each handle of a [`ToolContext`], for the tests of tools.
//!
//! *Invariant:* compiled for tests only. Without further words everything is allowed, nothing fails, and what the tool does
//! is kept to be looked at.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_fs::changes::{PlannedChange, Version};
use toolgate_fs::marks::sha256;
use toolgate_model::{
    Ask, CallId, Consent, FileChange, FileVersion, JsonMap, Model, Origin, Question, Resources, SessionId, Todo,
    WarningKind,
};

use super::handles::*;
use super::{Child, ChildCall, Delegated, Refusal, ToolContext, ToolError};

/// What happens while a person is asked.
type OnAsk = Box<dyn Fn(&Ask) + Send + Sync>;

/// Plays the person. Answers come from lists; without one everything is allowed, and questions are left unanswered.
#[derive(Default)]
pub struct FakePermission {
    /// What was asked for.
    pub asks: Mutex<Vec<Ask>>,
    /// What is answered next.
    pub answers: Mutex<VecDeque<Result<(), Refusal>>>,
    /// The permission that is always refused; `*` stands for every one.
    pub refused: Mutex<Option<String>>,
    /// What happens while the person thinks.
    pub on_ask: Mutex<Option<OnAsk>>,
    /// The questions that were asked.
    pub questions: Mutex<Vec<Question>>,
    /// What is replied to the next questions.
    pub replies: Mutex<VecDeque<Result<Vec<Vec<String>>, Refusal>>>,
}

#[async_trait]
impl PermissionHandle for FakePermission {
    async fn ask(&self, ask: Ask) -> Result<Consent, Refusal> {
        if let Some(act) = self.on_ask.lock().as_ref() {
            act(&ask);
        }
        let is_refused = self
            .refused
            .lock()
            .as_ref()
            .is_some_and(|name| name == "*" || *name == ask.permission);
        self.asks.lock().push(ask);
        if is_refused {
            return Err(Refusal::Rejected);
        }
        let answer = self.answers.lock().pop_front().unwrap_or(Ok(()));
        answer.map(|()| Consent::Standing)
    }

    async fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, Refusal> {
        self.questions.lock().extend(questions);
        self.replies.lock().pop_front().unwrap_or(Ok(Vec::new()))
    }

    fn denies(&self, _permission: &str, _pattern: &str) -> bool {
        false
    }

    fn allows(&self, _permission: &str, _pattern: &str) -> bool {
        false
    }

    fn has_walls(&self) -> bool {
        false
    }
}

/// Keeps what a tool shows.
#[derive(Default)]
pub struct FakeOutput {
    /// The stored output.
    pub written: Mutex<Vec<u8>>,
    /// Every interim metadata.
    pub progress: Mutex<Vec<JsonMap>>,
    /// Told when output has come.
    pub appeared: Notify,
}

#[async_trait]
impl OutputHandle for FakeOutput {
    async fn write(&self, bytes: Bytes) -> Result<(), ToolError> {
        self.written.lock().extend_from_slice(&bytes);
        self.appeared.notify_one();
        Ok(())
    }

    async fn open(&self) -> Result<String, ToolError> {
        Err(ToolError::failed("No output can be stored here."))
    }

    async fn progress(&self, _title: Option<String>, patch: JsonMap) {
        self.progress.lock().push(patch);
    }

    async fn warn(&self, _kind: WarningKind, _text: String) {}

    fn used(&self, _resources: Resources) {}

    fn late_metadata(&self, _patches: LateMetadata) {}
}

/// Keeps the facts of one session.
#[derive(Default)]
pub struct FakeSession {
    /// The facts.
    pub facts: Mutex<BTreeMap<String, Value>>,
}

#[async_trait]
impl SessionHandle for FakeSession {
    async fn get(&self, key: &str) -> Option<Value> {
        self.facts.lock().get(key).cloned()
    }

    fn set(&self, key: &str, value: Value) {
        self.facts.lock().insert(key.to_owned(), value);
    }

    fn replace_todos(&self, todos: Vec<Todo>) {
        self.set(Todo::FACT, json!(todos));
    }
}

/// Keeps what calls do to files.
#[derive(Default)]
pub struct FakeChanges {
    /// The files that were announced as changed.
    pub announced: Mutex<Vec<PathBuf>>,
    /// The calls so far, each with the changes that it recorded. What is recorded belongs to the last one.
    pub calls: Mutex<Vec<(CallId, Vec<FileChange>)>>,
    /// The contents by their hashes.
    pub contents: Mutex<BTreeMap<String, Bytes>>,
}

impl FakeChanges {
    fn keep(&self, version: Version) -> FileVersion {
        let sha256 = sha256(&version.bytes);
        let bytes = version.bytes.len() as u64;
        self.contents.lock().insert(sha256.clone(), version.bytes);
        FileVersion {
            sha256,
            bytes,
            mode: version.mode,
        }
    }
}

#[async_trait]
impl ChangesHandle for FakeChanges {
    async fn record(&self, changes: Vec<PlannedChange>) -> Result<(), ToolError> {
        let changes = changes.into_iter().filter(|change| change.before != change.after);
        let changes = changes.map(|change| FileChange {
            path: change.path,
            shown: change.shown,
            before: change.before.map(|version| self.keep(version)),
            after: change.after.map(|version| self.keep(version)),
        });
        let changes: Vec<FileChange> = changes.collect();
        let mut calls = self.calls.lock();
        let last = calls.last_mut();
        last.ok_or_else(|| ToolError::failed("no call runs"))?.1.extend(changes);
        Ok(())
    }

    async fn made_by(&self, call: &CallId) -> Result<Vec<FileChange>, ToolError> {
        let calls = self.calls.lock();
        let found = calls.iter().find(|(id, _)| id == call);
        match found {
            Some((_, changes)) if !changes.is_empty() => Ok(changes.clone()),
            Some(_) | None => Err(ToolError::failed("nothing to revert")),
        }
    }

    async fn content(&self, sha256: &str) -> Result<Option<Bytes>, ToolError> {
        Ok(self.contents.lock().get(sha256).cloned())
    }

    fn announce(&self, path: &Path) {
        self.announced.lock().push(path.to_path_buf());
    }
}

/// Starts no other calls.
#[derive(Debug, Default)]
pub struct FakeChildren;

#[async_trait]
impl ChildrenHandle for FakeChildren {
    async fn start(&self, _call: ChildCall) -> Result<Child, ToolError> {
        Err(ToolError::failed("No other call can be started from here."))
    }

    fn report_launched(&self, _facts: JsonMap) {}

    async fn depth(&self) -> Result<usize, ToolError> {
        Ok(0)
    }

    async fn delegate(&self, _agent: &str, _model: Model, _resumed: Option<&str>) -> Result<Delegated, ToolError> {
        Err(ToolError::failed("No work can be given to others from here."))
    }
}

/// Has no hooks.
#[derive(Debug, Default)]
pub struct FakeHooks;

#[async_trait]
impl HooksHandle for FakeHooks {
    async fn shell_environment(&self, _directory: &Path) -> Result<BTreeMap<String, String>, ToolError> {
        Ok(BTreeMap::new())
    }

    async fn after(&self, result: Value) -> Result<Value, ToolError> {
        Ok(result)
    }
}

/// Has no input.
#[derive(Debug, Default)]
pub struct FakeStdin;

#[async_trait]
impl StdinHandle for FakeStdin {
    async fn next(&self) -> Option<Bytes> {
        None
    }

    fn end(&self) {}
}

/// Has no terminal.
#[derive(Debug, Default)]
pub struct FakeProgram;

#[async_trait]
impl ProgramHandle for FakeProgram {}

/// The fakes whose state tests look at.
#[derive(Clone, Default)]
pub struct Fakes {
    /// The person.
    pub permission: Arc<FakePermission>,
    /// What is shown.
    pub output: Arc<FakeOutput>,
    /// The session.
    pub session: Arc<FakeSession>,
    /// The files.
    pub changes: Arc<FakeChanges>,
}

impl Fakes {
    /// Makes the context of a new call of the agent `build`.
    pub fn context(&self, workspace: Arc<Workspace>, cancelled: CancellationToken) -> ToolContext {
        let origin = Origin {
            workspace: workspace.name().to_owned(),
            session: SessionId::from("session"),
            directory: String::new(),
            message_id: String::new(),
            agent: "build".to_owned(),
            model: Model::default(),
            client: String::new(),
            client_name: String::new(),
            unanswered: None,
            parent: None,
            requester: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            extra: JsonMap::new(),
            environment: Default::default(),
        };
        let call = CallId::generate();
        self.changes.calls.lock().push((call.clone(), Vec::new()));
        ToolContext {
            call,
            origin: Arc::new(origin),
            workspace,
            cancelled,
            permission: self.permission.clone(),
            output: self.output.clone(),
            session: self.session.clone(),
            changes: self.changes.clone(),
            children: Arc::new(FakeChildren),
            hooks: Arc::new(FakeHooks),
            stdin: Arc::new(FakeStdin),
            program: Arc::new(FakeProgram),
        }
    }

    /// Returns whether the tool has asked no questions and recorded no changes of files.
    pub fn has_only_asked_for_permissions(&self) -> bool {
        let calls = self.changes.calls.lock();
        self.permission.questions.lock().is_empty() && calls.iter().all(|(_, changes)| changes.is_empty())
    }
}
