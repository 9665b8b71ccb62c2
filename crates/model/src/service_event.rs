//! What happens in the service, for whoever watches it rather than one call.

use serde::{Deserialize, Serialize};

use super::{
    CallEnd, CallId, CallState, JsonMap, ListeningPort, PromptId, PromptState, SessionId, SessionKey, Timestamp, Todo,
};

/// Something that happened in a workspace, for `WatchEvents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceEvent {
    /// The workspace.
    pub workspace: String,
    /// The session, or none if it concerns all.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// When.
    pub time: Timestamp,
    /// What.
    pub kind: ServiceEventKind,
}

impl ServiceEvent {
    /// Makes the event that something happens in a session now.
    pub fn in_session(session: SessionKey, kind: ServiceEventKind) -> Self {
        Self {
            workspace: session.workspace,
            session: Some(session.session),
            time: Timestamp::now(),
            kind,
        }
    }
}

/// What a service event says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceEventKind {
    /// A call entered a state.
    Call {
        /// Which.
        call: CallId,
        /// Its tool.
        tool: String,
        /// The state.
        state: CallState,
        /// Its title so far.
        #[serde(default)]
        title: String,
        /// What it touches, one line.
        #[serde(default)]
        summary: String,
        /// How it ended, if it has.
        #[serde(default)]
        end: Option<CallEnd>,
    },
    /// A tool changed a file.
    FileEdited {
        /// Absolute path.
        path: String,
        /// The call that did it.
        call: CallId,
    },
    /// The metadata of a call changed after its end.
    Metadata {
        /// Which.
        call: CallId,
        /// Its tool.
        tool: String,
        /// The event of the call's log that says the same.
        sequence: u64,
        /// Absent keys stay, null clears.
        patch: JsonMap,
    },
    /// A prompt was opened.
    PromptAdded {
        /// Which.
        prompt: PromptId,
        /// Whose.
        call: CallId,
    },
    /// A prompt ended.
    PromptResolved {
        /// Which.
        prompt: PromptId,
        /// Whose.
        call: CallId,
        /// How.
        state: PromptState,
    },
    /// A session's list of tasks was replaced.
    TodosUpdated {
        /// The new list.
        todos: Vec<Todo>,
        /// The call that did it.
        call: CallId,
    },
    /// A program of a call began or ceased to listen on a port.
    Listening {
        /// Which call.
        call: CallId,
        /// All that its programs listen on now.
        ports: Vec<ListeningPort>,
    },
    /// A session was ended.
    SessionEnded,
    /// The workspace was opened or closed, or its configuration is another one.
    WorkspaceChanged {
        /// Which of these.
        change: WorkspaceChange,
    },
    /// Tools came, went, or are other ones than before.
    ToolsChanged {
        /// Those that came.
        added: Vec<String>,
        /// Those that went.
        removed: Vec<String>,
        /// Those that are others now.
        changed: Vec<String>,
    },
}

/// What became of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceChange {
    /// It was opened, and takes calls unless it is broken.
    Opened,
    /// It was closed.
    Closed,
    /// Its rules, its agents or what is wrong with it have changed.
    Changed,
}

/// How something that tools come from is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// It is being started or connected to.
    Connecting,
    /// It offers what it has.
    Ready,
    /// It is switched off.
    Disabled,
    /// It does not work.
    Failed,
    /// Somebody has to log in.
    NeedsAuth,
    /// Somebody has to register this client with it.
    NeedsClientRegistration,
    /// It is not run, because the workspace is not trusted.
    Untrusted,
}
