//! Workspaces that are known, and in which nothing can be done at the moment.
//!
//! *Invariant:* whoever waits for one waits for a bounded time: a call never hangs because its workspace does not come.

use std::fmt;

use async_trait::async_trait;

/// Why nothing can be done in a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is being created, or resumed.
    Creating,
    /// It is suspended.
    Suspended {
        /// Whether a call resumes it.
        by_calls: bool,
    },
    /// It could not be created or resumed, for this reason.
    Failed(String),
    /// It is being deleted.
    Deleting,
}

impl Held {
    /// Says whether it may be over in a moment, if somebody wants to work there.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Creating | Self::Suspended { by_calls: true })
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Creating => f.write_str("is not ready yet: try again in a moment"),
            Self::Suspended { by_calls: true } => {
                f.write_str("is suspended, and could not be resumed yet: try again in a moment")
            }
            Self::Suspended { by_calls: false } => f.write_str("is suspended: resume it first"),
            Self::Failed(problem) => write!(f, "cannot be used: {problem}"),
            Self::Deleting => f.write_str("is being deleted"),
        }
    }
}

/// Brings workspaces about that are suspended or being created.
#[async_trait]
pub trait Waker: Send + Sync + 'static {
    /// Has a workspace resumed that is suspended, if calls and replies may do that, and does not wait for it.
    fn rouse(&self, workspace: &str);

    /// Does the same, and waits until nothing can be expected of waiting any more, or for a bounded time.
    async fn wait(&self, workspace: &str);
}
