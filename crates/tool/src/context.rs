//! What a running call may reach: its ids and its workspace, and through its port the engine's services.
//!
//! *Invariant:* nothing here outlives the call.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_fs::changes::PlannedChange;
use toolgate_fs::diff::FileDiff;
use toolgate_fs::files::{LockedFile, Snapshot};
use toolgate_fs::marks::ReadMark;
use toolgate_fs::{ResolvedPath, Workspace};
use toolgate_model::{Ask, CallId, Consent, FileChange, JsonMap, Model, Origin, Question, SessionId, Todo};

use super::{Child, ChildCall, Delegated, Refusal, ToolError, ask_by_name, guarded_part};

/// Metadata that becomes known after the end of a call: patches in which absent keys stay and null clears.
pub type Afterwards = BoxStream<'static, JsonMap>;

/// What the engine does for a running call. Tools reach it through [`CallContext`]; tests give their own.
#[async_trait]
pub trait CallPort: Send + Sync + 'static {
    /// Evaluates the request and waits for a person where the rules say so.
    async fn ask(&self, ask: Ask) -> Result<Consent, Refusal>;

    /// Asks a person questions and waits for the answers: one list for each question.
    async fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, Refusal>;

    /// Publishes interim title and metadata: absent keys stay, null clears. Rate-limited, the latest wins.
    async fn progress(&self, title: Option<String>, patch: JsonMap);

    /// Says whether a rule denies a permission for one pattern. Nobody is asked.
    fn denies(&self, _permission: &str, _pattern: &str) -> bool {
        false
    }

    /// Says whether rules or grants allow a permission for one pattern. Nobody is asked.
    fn allows(&self, _permission: &str, _pattern: &str) -> bool {
        false
    }

    /// Says whether what runs without a person's approval is held to what its judged parts need.
    fn has_walls(&self) -> bool {
        false
    }

    /// Appends bytes to the call's stored output and returns once they are written; readers see them next.
    async fn output(&self, bytes: Bytes) -> Result<(), ToolError>;

    /// Says something a person should know that does not end the call.
    async fn warn(&self, kind: &str, text: String);

    /// Returns a fact of the session.
    async fn fact(&self, key: &str) -> Option<Value>;

    /// Keeps a fact of the session. It is stored no later than the end of the call.
    fn remember(&self, key: &str, value: Value);

    /// Announces that the call changed a file.
    fn file_edited(&self, path: &Path);

    /// Replaces the session's list of tasks, and announces it. It is stored no later than the end of the call.
    fn replace_todos(&self, _todos: Vec<Todo>) {}

    /// Records what the call is about to do to files, contents included; durable when it returns.
    async fn record_changes(&self, changes: Vec<PlannedChange>) -> Result<(), ToolError>;

    /// Returns what an ended call of this workspace did to files; never nothing.
    async fn changes_of(&self, call: &CallId) -> Result<Vec<FileChange>, ToolError>;

    /// Returns a content that a change refers to, or `None` if it is not kept any more.
    async fn blob(&self, sha256: &str) -> Result<Option<Bytes>, ToolError>;

    /// Starts another call on behalf of this one.
    async fn start_child(&self, _call: ChildCall) -> Result<Child, ToolError> {
        Err(ToolError::failed("No other call can be started from here."))
    }

    /// Makes the call's stored output, empty, unless it is there, and returns its path.
    async fn open_output(&self) -> Result<String, ToolError> {
        Err(ToolError::failed("No output can be stored here."))
    }

    /// Says that what the call starts is under way, and what the call that waits for this should know of it.
    fn launched(&self, _facts: JsonMap) {}

    /// Takes what is to be listened to when the call has ended.
    fn afterwards(&self, _patches: Afterwards) {}

    /// Returns the variables that hooks add for a command.
    async fn shell_environment(&self, _directory: &Path) -> Result<BTreeMap<String, String>, ToolError> {
        Ok(BTreeMap::new())
    }

    /// Lets the hooks see and change a result.
    async fn after_hooks(&self, result: Value) -> Result<Value, ToolError> {
        Ok(result)
    }

    /// Returns the next piece of what clients send to the call; none at its end.
    async fn next_input(&self) -> Option<Bytes> {
        None
    }

    /// Takes no more input: what was sent and not fetched is dropped, and clients are told.
    fn end_input(&self) {}

    /// Returns how many calls of `task` stand above this one.
    async fn tasks_above(&self) -> Result<usize, ToolError> {
        Ok(0)
    }

    /// Prepares a session in which an agent works on behalf of this call.
    async fn delegate(&self, _agent: &str, _model: Model, _resumed: Option<&str>) -> Result<Delegated, ToolError> {
        Err(ToolError::failed("No work can be given to others from here."))
    }
}

/// What a running call may reach: who asks, where, the cancellation, and the engine's services. Nothing in it
/// outlives the call.
#[derive(Clone)]
pub struct CallContext {
    /// The call's id.
    pub call: CallId,
    /// In whose name it runs.
    pub origin: Arc<Origin>,
    /// Where it works.
    pub workspace: Arc<Workspace>,
    /// Asks the tool to stop; a grace later the call is dropped.
    pub cancelled: CancellationToken,
    pub(super) port: Arc<dyn CallPort>,
}

impl CallContext {
    /// Makes the context of one call.
    pub fn new(
        call: CallId,
        origin: Arc<Origin>,
        workspace: Arc<Workspace>,
        cancelled: CancellationToken,
        port: Arc<dyn CallPort>,
    ) -> Self {
        Self {
            call,
            origin,
            workspace,
            cancelled,
            port,
        }
    }

    /// Returns the call's session.
    pub fn session(&self) -> &SessionId {
        &self.origin.session
    }

    /// Asks for a permission: returns at once where the rules allow, waits for a person where they say ask.
    ///
    /// # Errors
    /// A rule denies it, a person refused it, nobody answered in time, or the call was cancelled meanwhile.
    pub async fn ask(&self, ask: Ask) -> Result<Consent, Refusal> {
        self.port.ask(ask).await
    }

    /// Says whether rules or grants allow a permission for one pattern. Nobody is asked.
    pub fn allows(&self, permission: &str, pattern: &str) -> bool {
        self.port.allows(permission, pattern)
    }

    /// Says whether what runs without a person's approval is held to what its judged parts need.
    pub fn has_walls(&self) -> bool {
        self.port.has_walls()
    }

    /// Says whether a rule denies a permission for one pattern: what is denied need not even be named to the model.
    pub fn denies(&self, permission: &str, pattern: &str) -> bool {
        self.port.denies(permission, pattern)
    }

    /// Asks a person questions and waits, without a limit of time of its own, for the answers: for each question, in
    /// their order, what was chosen or written. There may be fewer lists than questions.
    ///
    /// # Errors
    /// The person dismissed the questions, nobody answered in time, or the call was cancelled meanwhile.
    pub async fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, Refusal> {
        self.port.ask_questions(questions).await
    }

    /// Asks for `external_directory` if the path leads out of the workspace (`docs/spec/file-tools.md` §1.3).
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_outside(&self, path: &ResolvedPath, is_folder: bool) -> Result<(), Refusal> {
        let folders = path.outside_folders(is_folder);
        let Some(first) = folders.first() else { return Ok(()) };
        let patterns: Vec<String> = folders
            .iter()
            .map(|folder| format!("{}/*", trim_slash(folder)))
            .collect();
        let metadata = toolgate_model::json_map([
            ("filepath", json!(path.shown().to_string_lossy())),
            ("parentDir", json!(first.to_string_lossy())),
        ]);
        self.ask(Ask {
            permission: "external_directory".to_owned(),
            title: path.shown().to_string_lossy().into_owned(),
            always: if patterns.iter().all(|pattern| is_literal_folder(pattern)) {
                patterns.clone()
            } else {
                Vec::new()
            },
            patterns,
            metadata,
            ..Ask::default()
        })
        .await
        .map(drop)
    }

    /// Asks for `edit`, shows the diff, and replaces the content of a file if it still is what the diff was made from.
    /// The session has then seen the new content.
    ///
    /// # Errors
    /// As [`Self::ask`]; or the file was changed meanwhile, or cannot be written.
    pub async fn replace_file(
        &self,
        file: &LockedFile,
        old: Arc<Snapshot>,
        new: Bytes,
        diff: &FileDiff,
    ) -> Result<(), ToolError> {
        let (shown, relative) = (file.path().shown(), file.path().relative());
        let mut ask = Ask {
            permission: "edit".to_owned(),
            patterns: file.path().patterns(),
            always: vec!["*".to_owned()],
            title: relative.to_owned(),
            metadata: toolgate_model::json_map([
                ("filepath", json!(shown.to_string_lossy())),
                ("diff", json!(diff.text)),
            ]),
            ..Ask::default()
        };
        let guarded = guarded_part(file.path(), old.bytes(), &new);
        ask_by_name(&mut ask, guarded.into_iter().collect());
        self.ask(ask).await?;
        if self.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        self.record_changes(vec![file.planned_change(&old, &new)]).await?;
        let mark = file.replace(old, new).await?;
        self.wrote(file.path(), Some(mark))
    }

    /// Announces that the call changed a file. The session has seen its new content, if there is a mark of it.
    ///
    /// # Errors
    /// [`ToolError::Internal`] only.
    pub fn wrote(&self, path: &ResolvedPath, mark: Option<ReadMark>) -> Result<(), ToolError> {
        if let Some(mark) = mark {
            let mark = serde_json::to_value(mark).map_err(|error| ToolError::Internal(Box::new(error)))?;
            self.remember(&ReadMark::key(path.real()), mark);
        }
        self.file_edited(path.shown());
        Ok(())
    }

    /// Publishes interim title and metadata: absent keys stay, null clears. Rate-limited, the latest wins.
    pub async fn progress(&self, title: Option<String>, patch: JsonMap) {
        self.port.progress(title, patch).await;
    }

    /// Appends bytes to the call's stored output and returns once they are written.
    ///
    /// # Errors
    /// The output cannot be stored: disk full, or over the limit for one call.
    pub async fn output(&self, bytes: Bytes) -> Result<(), ToolError> {
        self.port.output(bytes).await
    }

    /// Says something a person should know that does not end the call. `kind` is a stable word.
    pub async fn warn(&self, kind: &str, text: impl Into<String> + Send) {
        self.port.warn(kind, text.into()).await;
    }

    /// Returns a fact of the session.
    pub async fn fact(&self, key: &str) -> Option<Value> {
        self.port.fact(key).await
    }

    /// Keeps a fact of the session. It is stored no later than the end of the call.
    pub fn remember(&self, key: &str, value: Value) {
        self.port.remember(key, value);
    }

    /// Announces that the call changed a file.
    pub fn file_edited(&self, path: &Path) {
        self.port.file_edited(path);
    }

    /// Records what the call is about to do to files, so that it can be taken back. Every tool that changes files calls
    /// this right before it does, when nothing is left to ask: what is recorded and then not done does no harm.
    ///
    /// # Errors
    /// The store cannot keep it. The tool must then leave the files alone.
    pub async fn record_changes(&self, changes: Vec<PlannedChange>) -> Result<(), ToolError> {
        self.port.record_changes(changes).await
    }

    /// Returns what a call did to files, in order; never nothing.
    ///
    /// # Errors
    /// There is no such call in this workspace, it has not ended, or it changed nothing.
    pub async fn changes_of(&self, call: &CallId) -> Result<Vec<FileChange>, ToolError> {
        self.port.changes_of(call).await
    }

    /// Returns a content that a change refers to, or `None` if it is not kept any more.
    ///
    /// # Errors
    /// The store failed.
    pub async fn blob(&self, sha256: &str) -> Result<Option<Bytes>, ToolError> {
        self.port.blob(sha256).await
    }

    /// Starts another call on behalf of this one: an ordinary one, with a record, prompts and an end of its own, that
    /// names this one as its parent. It is not tied to any client.
    ///
    /// # Errors
    /// The tool is not there for this agent, too many calls run, or calls that make calls are nested too deeply.
    pub async fn start_child(&self, call: ChildCall) -> Result<Child, ToolError> {
        self.port.start_child(call).await
    }

    /// Makes the call's stored output, unless it is there, and returns the path at which the service's own tools can
    /// read it while it grows.
    ///
    /// # Errors
    /// The output cannot be stored.
    pub async fn open_output(&self) -> Result<String, ToolError> {
        self.port.open_output().await
    }

    /// Says that what the call starts is under way: everything was asked, and it runs. The call that made this one may
    /// wait for that ([`Child::launched`]), and is told `facts`.
    pub fn launched(&self, facts: JsonMap) {
        self.port.launched(facts);
    }

    /// Leaves something that is listened to when the call has ended, for what becomes known only then: each patch is added
    /// to the call's log and metadata, and announced. A call leaves one stream, the last. It is dropped after a while, or
    /// when the service stops.
    pub fn afterwards(&self, patches: Afterwards) {
        self.port.afterwards(patches);
    }

    /// Returns the variables that hooks add for a command that is to run in a folder.
    ///
    /// # Errors
    /// A hook refused or failed; the command must not run.
    pub async fn shell_environment(&self, directory: &Path) -> Result<BTreeMap<String, String>, ToolError> {
        self.port.shell_environment(directory).await
    }

    /// Lets the hooks see and change a result. For tools that [say so](super::Tool::runs_after_hooks); the results of others go
    /// through the hooks when they have returned.
    ///
    /// # Errors
    /// A hook refused or failed.
    pub async fn after_hooks(&self, result: Value) -> Result<Value, ToolError> {
        self.port.after_hooks(result).await
    }

    /// Returns the next piece of what clients send to the call, and waits for it; none once a client has said that
    /// nothing follows. For tools that [take input](super::Tool::takes_input), by one reader. Nothing is lost if the future is
    /// dropped. A piece counts as waiting to be read until the next one is asked for.
    pub async fn next_input(&self) -> Option<Bytes> {
        self.port.next_input().await
    }

    /// Takes no more input: what was sent and not fetched is dropped, and clients that send more are told.
    pub fn end_input(&self) {
        self.port.end_input();
    }

    /// Returns how many calls of `task` stand above this one: how deeply the subagent is nested that makes it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn tasks_above(&self) -> Result<usize, ToolError> {
        self.port.tasks_above().await
    }

    /// Prepares a session in which an agent works on behalf of this call, on a model: the one named by `resumed` if this
    /// workspace has it, otherwise a new one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delegate(&self, agent: &str, model: Model, resumed: Option<&str>) -> Result<Delegated, ToolError> {
        self.port.delegate(agent, model, resumed).await
    }
}

/// Says whether the pattern of a folder matches that folder only: its name holds no wildcard, and it is not the root.
fn is_literal_folder(pattern: &str) -> bool {
    let folder = pattern.strip_suffix("/*").unwrap_or(pattern);
    !folder.is_empty() && !folder.contains(['*', '?'])
}

fn trim_slash(folder: &Path) -> String {
    folder.to_string_lossy().trim_end_matches('/').to_owned()
}
