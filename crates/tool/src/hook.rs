//! Hooks: what plugins and hosts may see and change of every call (`docs/spec/extensions.md` §2.2,
//! `docs/spec/framework.md` §12).
//!
//! A hook gets what it is about and what it may change, both as JSON in the shape that plugins know, and returns the
//! latter. What it means, in which order hooks run and what becomes of a failure is the engine's affair.

use async_trait::async_trait;
use serde_json::Value;

/// A point at which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// Before the arguments of a call are checked: `{args}` may be changed.
    ExecuteBefore,
    /// After a call has succeeded: its result may be changed.
    ExecuteAfter,
    /// While tools are listed: description and schema may be changed.
    Definition,
    /// Before a command is run: variables may be added.
    ShellEnvironment,
    /// Before a person is asked: `{status}` may be changed.
    PermissionAsk,
}

impl HookPoint {
    /// Every point.
    pub const ALL: [Self; 5] = [
        Self::ExecuteBefore,
        Self::ExecuteAfter,
        Self::Definition,
        Self::ShellEnvironment,
        Self::PermissionAsk,
    ];

    /// Returns the name that plugins know.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExecuteBefore => "tool.execute.before",
            Self::ExecuteAfter => "tool.execute.after",
            Self::Definition => "tool.definition",
            Self::ShellEnvironment => "shell.env",
            Self::PermissionAsk => "permission.ask",
        }
    }

    /// Finds a point by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.as_str() == name)
    }
}

/// Why a hook has no result.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It refused; the text is its own.
    #[error("{0}")]
    Refused(String),
    /// It is not there any more, or broke down.
    #[error("the hook of {name} failed: {problem}")]
    Failed {
        /// Whose hook.
        name: String,
        /// What happened.
        problem: String,
    },
}

/// What runs at some points of every call.
#[async_trait]
pub trait Hook: Send + Sync + 'static {
    /// Returns whose hook it is: the plugin's or the host's name.
    fn name(&self) -> &str;

    /// Returns the principal in whose name it decides what a person would be asked ([`toolgate_model::Principal::id`]); none if
    /// it belongs to the service's own configuration. Where that principal could not answer, the hook is not asked.
    fn principal(&self) -> Option<&str> {
        None
    }

    /// Says whether it is there for a point; it is not asked elsewhere.
    fn handles(&self, point: HookPoint) -> bool;

    /// Runs it: `input` says what it is about, and `output`, changed or not, is what it returns. Dropping the future
    /// gives up; the engine does that when its time is over.
    ///
    /// # Errors
    /// See [`HookError`].
    async fn run(&self, point: HookPoint, input: Value, output: Value) -> Result<Value, HookError>;
}
