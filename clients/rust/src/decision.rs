//! What a person decides about a prompt.
//!
//! *Invariant:* a reply cites the digest of what was shown, so that what was shown is what runs.

use toolgate_contract::{GrantScope, Prompt, PromptDecision, PromptReply, QuestionAnswer, prompt};

use crate::client::new_id;
use crate::request::Input;

/// What a handler decides about a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Decision {
    /// Leaves the prompt to others.
    #[default]
    Leave,
    /// Allows this call only.
    Once,
    /// Allows this call, and from now on what these patterns of the prompt match, or all of its `always` patterns if there
    /// are none here.
    Always {
        /// How far that reaches; the default is the workspace, while the service runs.
        scope: GrantScope,
        /// The patterns.
        patterns: Vec<String>,
    },
    /// Refuses the call, with a message for the model that may be empty. Questions are dismissed.
    Reject {
        /// The message.
        message: String,
    },
    /// Answers questions: for each one, in their order, the labels chosen and the answers written.
    Answer(Vec<Vec<String>>),
    /// Allows this call, but with another input. Only prompts that are editable take it.
    Instead(Input),
}

impl Decision {
    /// Allows this call, and from now on what the prompt lists, while the service runs.
    pub fn always() -> Self {
        Self::Always {
            scope: GrantScope::default(),
            patterns: Vec::new(),
        }
    }

    /// Refuses the call.
    pub fn reject(message: impl Into<String>) -> Self {
        Self::Reject {
            message: message.into(),
        }
    }

    /// Returns the reply to a prompt; `None` if it is left to others.
    pub fn reply_to(&self, prompt: &Prompt) -> Option<PromptReply> {
        let mut reply = PromptReply {
            prompt_id: prompt.prompt_id.clone(),
            reply_id: new_id(),
            input_digest: prompt.input_digest.clone(),
            ..PromptReply::default()
        };
        let decision = match self {
            Self::Leave => return None,
            Self::Once => PromptDecision::Once,
            Self::Always { scope, patterns } => {
                reply.scope = (*scope != GrantScope::default()).then_some(*scope);
                reply.always_patterns = match &prompt.request {
                    Some(prompt::Request::Permission(asked)) if patterns.is_empty() => asked.always.clone(),
                    Some(_) | None => patterns.clone(),
                };
                PromptDecision::Always
            }
            Self::Reject { message } => {
                reply.message.clone_from(message);
                PromptDecision::Reject
            }
            Self::Answer(answers) => {
                let answers = answers.iter().cloned().map(|values| QuestionAnswer { values });
                reply.answers = answers.collect();
                PromptDecision::Answer
            }
            Self::Instead(input) => {
                reply.input_json = input.clone().into_text();
                PromptDecision::Instead
            }
        };
        reply.decision = decision.into();
        Some(reply)
    }
}
