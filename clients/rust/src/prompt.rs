//! What a person is asked, as handlers meet it.
//!
//! *Invariant:* plain data; a prompt that this library does not know is not handled.

use toolgate_contract as v1;
use toolgate_contract::prompt::Request;

/// What a person is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// A tool needs a permission.
    Permission(Box<PermissionPrompt>),
    /// The model asks questions.
    Question(Box<QuestionPrompt>),
}

/// A tool needs a permission. The decision is [`Once`], [`Always`], [`Reject`], [`Leave`], or [`Instead`] if the prompt
/// is editable.
///
/// [`Once`]: crate::Decision::Once
/// [`Always`]: crate::Decision::Always
/// [`Reject`]: crate::Decision::Reject
/// [`Leave`]: crate::Decision::Leave
/// [`Instead`]: crate::Decision::Instead
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionPrompt {
    /// The whole message of the contract: the call, its session, when the prompt expires.
    pub message: v1::Prompt,
    /// What is asked.
    pub permission: v1::PermissionRequest,
}

/// The model asks questions. The decision is [`Answer`], [`Reject`] or [`Leave`].
///
/// [`Answer`]: crate::Decision::Answer
/// [`Reject`]: crate::Decision::Reject
/// [`Leave`]: crate::Decision::Leave
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionPrompt {
    /// The whole message of the contract: the call, its session, when the prompt expires.
    pub message: v1::Prompt,
    /// In the order in which they are answered.
    pub questions: Vec<v1::Question>,
}

impl Prompt {
    /// Reads a message of the contract; `None` if it asks what this library does not know.
    pub fn from_message(message: v1::Prompt) -> Option<Self> {
        Some(match message.request.clone()? {
            Request::Permission(permission) => Self::Permission(Box::new(PermissionPrompt { message, permission })),
            Request::Questions(asked) => Self::Question(Box::new(QuestionPrompt {
                message,
                questions: asked.questions,
            })),
        })
    }

    /// Returns the whole message of the contract.
    pub fn message(&self) -> &v1::Prompt {
        match self {
            Self::Permission(prompt) => &prompt.message,
            Self::Question(prompt) => &prompt.message,
        }
    }

    /// Returns the prompt's id.
    pub fn id(&self) -> &str {
        &self.message().prompt_id
    }
}
