//! Why tools fail, and what the model reads then.

use toolgate_fs::FileError;
use toolgate_fs::edit::EditError;
use toolgate_model::EndReason;
use toolgate_permission::Refusal;

/// Returns the text of a call whose arguments do not fit (`docs/spec/framework.md` §4).
pub fn invalid_arguments(tool: &str, details: &str) -> String {
    format!(
        "The {tool} tool was called with invalid arguments: {details}.\n\
         Please rewrite the input so it satisfies the expected schema."
    )
}

/// Why a tool did not return a result. The text of every variant but the last is written for the model.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The tool failed; the sentence says what to do next.
    #[error("{0}")]
    Failed(String),
    /// The tool was not allowed to go on.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The tool noticed the cancellation itself.
    #[error("Tool execution aborted")]
    Cancelled,
    /// A limit of the service was reached.
    #[error("{0}")]
    Quota(String),
    /// A call of a tool was to be made that the agent does not have.
    #[error("The tool {tool} is not available to the agent {agent}.")]
    NoSuchTool {
        /// The name.
        tool: String,
        /// The agent.
        agent: String,
        /// The names of the tools that the agent's models are told of, in their order.
        available: Vec<String>,
    },
    /// A call that this one made failed, and this one fails for the same reason and with the same text.
    #[error("{error}")]
    Child {
        /// Why the other call failed.
        reason: EndReason,
        /// Its text for the model.
        error: String,
    },
    /// A fault of the service: the model reads "internal error", the cause goes to the log.
    #[error("internal error")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ToolError {
    /// Makes the error of a tool that failed, from a sentence for the model.
    pub fn failed(sentence: impl Into<String>) -> Self {
        Self::Failed(sentence.into())
    }
}

impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Stopped => Self::Cancelled,
            FileError::Interrupted(_) => Self::Internal(Box::new(error)),
            FileError::PathTooLong { .. }
            | FileError::NotFound { .. }
            | FileError::IsFolder { .. }
            | FileError::ParentIsFile { .. }
            | FileError::Special { .. }
            | FileError::Swapped { .. }
            | FileError::Binary { .. }
            | FileError::TooLarge { .. }
            | FileError::TooManyEntries { .. }
            | FileError::TooManyFolders { .. }
            | FileError::OffsetOutOfRange { .. }
            | FileError::Unread { .. }
            | FileError::Modified { .. }
            | FileError::HalfDone { .. }
            | FileError::Io { .. } => Self::Failed(error.to_string()),
        }
    }
}

impl From<EditError> for ToolError {
    fn from(error: EditError) -> Self {
        match error {
            EditError::File(error) => error.into(),
            EditError::Identical
            | EditError::EmptyOld
            | EditError::Missing { .. }
            | EditError::NotFound
            | EditError::NotUtf8
            | EditError::Ambiguous
            | EditError::FarLarger
            | EditError::ResultTooLarge => Self::Failed(error.to_string()),
        }
    }
}
