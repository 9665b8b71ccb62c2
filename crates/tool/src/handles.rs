//! What a running call may reach, one narrow interface for each purpose. The engine serves them all; a test gives the ones
//! that its tool uses.
//!
//! *Invariant:* nothing here outlives the call.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde_json::Value;
use toolgate_fs::changes::PlannedChange;
use toolgate_model::{
    Ask, CallId, Consent, FileChange, JsonMap, ListeningPort, Model, Question, Resources, Signal, TerminalSize, Todo,
    WarningKind,
};
use toolgate_permission::Refusal;

use super::{Child, ChildCall, Delegated, ToolError};

/// Metadata that becomes known after the end of a call: patches in which absent keys stay and null clears.
pub type LateMetadata = BoxStream<'static, JsonMap>;

/// What a call may do, and people who decide about it.
#[async_trait]
pub trait PermissionHandle: Send + Sync + 'static {
    /// Asks for a permission: returns at once where the rules allow, waits for a person where they say ask.
    ///
    /// # Errors
    /// A rule denies it, a person refused it, nobody answered in time, or the call was cancelled meanwhile.
    async fn ask(&self, ask: Ask) -> Result<Consent, Refusal>;

    /// Asks a person questions and waits, without a limit of time of its own, for the answers: for each question, in
    /// their order, what was chosen or written. There may be fewer lists than questions.
    ///
    /// # Errors
    /// The person dismissed the questions, nobody answered in time, or the call was cancelled meanwhile.
    async fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, Refusal>;

    /// Returns whether a rule denies a permission for one pattern: what is denied need not even be named to the model.
    /// Nobody is asked.
    fn denies(&self, permission: &str, pattern: &str) -> bool;

    /// Returns whether rules or grants allow a permission for one pattern. Nobody is asked.
    fn allows(&self, permission: &str, pattern: &str) -> bool;

    /// Returns whether what runs without a person's approval is held to what its judged parts need.
    fn has_walls(&self) -> bool;
}

/// What a call shows while it runs, and what it leaves.
#[async_trait]
pub trait OutputHandle: Send + Sync + 'static {
    /// Appends bytes to the call's stored output and returns once they are written; readers see them next.
    ///
    /// # Errors
    /// The output cannot be stored: disk full, or over the limit for one call.
    async fn write(&self, bytes: Bytes) -> Result<(), ToolError>;

    /// Makes the call's stored output, empty, unless it is there, and returns the path at which the service's own tools can
    /// read it while it grows.
    ///
    /// # Errors
    /// The output cannot be stored.
    async fn open(&self) -> Result<String, ToolError>;

    /// Publishes interim title and metadata: absent keys stay, null clears. Rate-limited, the latest wins.
    async fn progress(&self, title: Option<String>, patch: JsonMap);

    /// Says something a person should know that does not end the call. `text` is a sentence.
    async fn warn(&self, kind: WarningKind, text: String);

    /// Adds to what the programs of the call have used.
    fn used(&self, resources: Resources);

    /// Leaves something that is listened to when the call has ended, for what becomes known only then: each patch is added
    /// to the call's log and metadata, and announced. A call leaves one stream, the last. It is dropped after a while, or
    /// when the service stops.
    fn late_metadata(&self, patches: LateMetadata);
}

/// What a session keeps from one call to the next.
#[async_trait]
pub trait SessionHandle: Send + Sync + 'static {
    /// Returns a fact of the session.
    async fn get(&self, key: &str) -> Option<Value>;

    /// Keeps a fact of the session. It is stored no later than the end of the call.
    fn set(&self, key: &str, value: Value);

    /// Replaces the session's list of tasks, and announces it. It is stored no later than the end of the call.
    fn replace_todos(&self, todos: Vec<Todo>);
}

/// What calls do to files, recorded so that it can be taken back.
#[async_trait]
pub trait ChangesHandle: Send + Sync + 'static {
    /// Records what the call is about to do to files, contents included; durable when it returns. Every tool that changes
    /// files calls this right before it does, when nothing is left to ask: what is recorded and then not done does no harm.
    ///
    /// # Errors
    /// The store cannot keep it. The tool must then leave the files alone.
    async fn record(&self, changes: Vec<PlannedChange>) -> Result<(), ToolError>;

    /// Returns what an ended call of this workspace did to files, in order; never nothing.
    ///
    /// # Errors
    /// There is no such call in this workspace, it has not ended, or it changed nothing.
    async fn made_by(&self, call: &CallId) -> Result<Vec<FileChange>, ToolError>;

    /// Returns a content that a change refers to, or `None` if it is not kept any more.
    ///
    /// # Errors
    /// The store failed.
    async fn content(&self, sha256: &str) -> Result<Option<Bytes>, ToolError>;

    /// Announces that the call changed a file.
    fn announce(&self, path: &Path);
}

/// Calls that a call makes, and subagents that work for it.
#[async_trait]
pub trait ChildrenHandle: Send + Sync + 'static {
    /// Starts another call on behalf of this one: an ordinary one, with a record, prompts and an end of its own, that names
    /// this one as its parent. It is not tied to any client.
    ///
    /// # Errors
    /// The tool is not there for this agent, too many calls run, or calls that make calls are nested too deeply.
    async fn start(&self, call: ChildCall) -> Result<Child, ToolError>;

    /// Says that what the call starts is under way: everything was asked, and it runs. The call that made this one may wait
    /// for that ([`Child::launched`]), and is told `facts`.
    fn report_launched(&self, facts: JsonMap);

    /// Returns how many calls above this one run subagents: how deeply the subagent is nested that makes it.
    ///
    /// # Errors
    /// The store failed.
    async fn depth(&self) -> Result<usize, ToolError>;

    /// Prepares a session in which an agent works on behalf of this call, on a model: the one named by `resumed` if this
    /// workspace has it, otherwise a new one.
    ///
    /// # Errors
    /// The store failed.
    async fn delegate(&self, agent: &str, model: Model, resumed: Option<&str>) -> Result<Delegated, ToolError>;
}

/// The hooks that take part in a call while its tool runs.
#[async_trait]
pub trait HooksHandle: Send + Sync + 'static {
    /// Returns the variables that hooks add for a command that is to run in a folder.
    ///
    /// # Errors
    /// A hook refused or failed; the command must not run.
    async fn shell_environment(&self, directory: &Path) -> Result<BTreeMap<String, String>, ToolError>;

    /// Lets the hooks see and change a result. For tools that [say so](super::Properties::runs_after_hooks); the results of
    /// others go through the hooks when they have returned.
    ///
    /// # Errors
    /// A hook refused or failed.
    async fn after(&self, result: Value) -> Result<Value, ToolError>;
}

/// What clients send to a running call. For tools that [read it](super::Properties::reads_input), by one reader.
#[async_trait]
pub trait StdinHandle: Send + Sync + 'static {
    /// Waits for the next piece and returns it; none once a client has said that nothing follows. Nothing is lost if the
    /// future is dropped. A piece counts as waiting to be read until the next one is asked for.
    async fn next(&self) -> Option<Bytes>;

    /// Takes no more input: what was sent and not fetched is dropped, and clients that send more are told.
    fn end(&self);
}

/// The program that a call runs, for clients that look at its terminal, change its size, send signals, and connect to what it
/// listens on.
#[async_trait]
pub trait ProgramHandle: Send + Sync + 'static {
    /// Says that the program runs in a terminal, or is about to: what is written to the call's output from now on is what
    /// the terminal shows.
    fn open_terminal(&self, _size: TerminalSize) {}

    /// Returns the size of the terminal that was opened, which clients may have changed since then; none without one.
    fn terminal_size(&self) -> Option<TerminalSize> {
        None
    }

    /// Says that the program runs, and how to reach it. If the size of the terminal was changed meanwhile, the program is
    /// told.
    fn attach(&self, _program: Arc<dyn ProgramControl>) {}

    /// Says that programs of the call have begun or ceased to listen, and on what all of them listen now.
    async fn listens(&self, _ports: Vec<ListeningPort>) {}

    /// Returns the whole id of another call of this workspace, whose programs are to be reached.
    ///
    /// # Errors
    /// There is no such call in this workspace.
    async fn call_to_reach(&self, call: &CallId) -> Result<CallId, ToolError> {
        Ok(call.clone())
    }
}

/// A program that runs. It may end at any moment.
pub trait ProgramControl: Send + Sync + 'static {
    /// Changes the size of its terminal.
    ///
    /// # Errors
    /// It has none.
    fn resize(&self, size: TerminalSize) -> io::Result<()>;

    /// Sends it a signal, and says whether there was anybody to get it. Blocking.
    fn signal(&self, signal: Signal) -> bool;
}
