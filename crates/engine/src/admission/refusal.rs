//! Why a call was not admitted.
//!
//! *Invariant:* such a call has no record, and left nothing behind.

use toolgate_model::CallId;
use toolgate_store::StoreError;

use crate::held::Held;
use crate::scheduler::Limit;

/// Why a call was not admitted. No record of it exists.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// The service is stopping.
    #[error("the service is stopping")]
    Draining,
    /// No such workspace.
    #[error("there is no workspace named {name:?}; available: {}", .known.join(", "))]
    UnknownWorkspace {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The folder that the call names is none in the workspace.
    #[error("there is no folder {0:?} inside the workspace's directory")]
    BadDirectory(String),
    /// The workspace was closed meanwhile.
    #[error("the workspace {0:?} is closed")]
    ClosedWorkspace(String),
    /// Nothing can be done in the workspace at the moment.
    #[error("the workspace {name:?} {held}")]
    HeldWorkspace {
        /// The workspace.
        name: String,
        /// Why.
        held: Held,
    },
    /// The configuration of the workspace cannot be used.
    #[error("the workspace {name:?} refuses calls until this is mended: {problem}")]
    BrokenWorkspace {
        /// The workspace.
        name: String,
        /// What is wrong, and where.
        problem: String,
    },
    /// No such agent.
    #[error("there is no agent named {name:?}; available: {}", .known.join(", "))]
    UnknownAgent {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The parent call is not known.
    #[error("there is no call {0} that could be the parent")]
    UnknownParent(CallId),
    /// The parent is a task that has ended, so that nobody waits for what its subagent does.
    #[error("the task {0} has ended; its subagent can make no more calls")]
    TaskEnded(CallId),
    /// The id belongs to a call of another request.
    #[error("the call id {0} belongs to a call of another request")]
    IdTaken(CallId),
    /// The input is larger than the service allows.
    #[error("the input has {size} bytes; at most {limit} are allowed")]
    InputTooLarge {
        /// Its bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Too many calls run, and no more may wait for their turn.
    #[error("{what}, which is as many as {key} allows; try again when some have ended")]
    TooManyCalls {
        /// How many of what there are.
        what: String,
        /// The limit, as the configuration names it.
        key: &'static str,
        /// Its value.
        limit: usize,
    },
    /// The call could not be recorded.
    #[error("the call could not be recorded")]
    Store(#[from] StoreError),
}

impl AdmitError {
    /// Says that a limit is reached.
    pub(crate) fn too_many(reached: Limit, limit: usize) -> Self {
        let what = match reached {
            Limit::Running => format!("{limit} calls are running"),
            Limit::Workspace => format!("{limit} calls are running in this workspace"),
            Limit::Session => format!("{limit} calls of this session are running"),
            Limit::Principal => format!("{limit} calls of this principal are running"),
            Limit::Call => format!("{limit} calls below one call are running"),
            Limit::Queued => format!("{limit} calls are waiting for their turn"),
            Limit::QueuedBytes => format!("the inputs of the calls that wait for their turn have {limit} bytes"),
        };
        let key = reached.key();
        Self::TooManyCalls { what, key, limit }
    }
}
