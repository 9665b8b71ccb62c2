//! Why a call may not go on, in the words that the model reads.

use toolgate_model::Rule;

use super::rules;

/// Why a call may not go on. The texts are for the model (`docs/spec/permission.md` §6).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A rule denies it.
    #[error(
        "The user has specified a rule which prevents you from using this specific tool call. Here are some of the relevant rules {}",
        rules::to_json(relevant)
    )]
    Denied {
        /// The rules whose permission side matches, approvals not included.
        relevant: Vec<Rule>,
    },
    /// A person refused it.
    #[error("The user rejected permission to use this specific tool call.")]
    Rejected,
    /// A person refused it and said why.
    #[error("The user rejected permission to use this specific tool call with the following feedback: {message}")]
    Corrected {
        /// What the person said.
        message: String,
    },
    /// A person did not answer the questions; the message, if any, is for the model.
    #[error("The user dismissed this question{}", feedback(message))]
    Dismissed {
        /// What the person said; empty for nothing.
        message: String,
    },
    /// Nobody answered in time.
    #[error(
        "Nobody answered the prompt {prompt} in time, so this tool call did not go on. Ask the user, or go on without it."
    )]
    Expired {
        /// The prompt's id.
        prompt: String,
    },
    /// Nobody may be asked: the request or the service refuses prompts when nobody is listening.
    #[error(
        "This tool call needs a person's answer and nobody is there to give it: {asked}. Go on without it, or ask the user \
         to listen for prompts, with `toolgate approve` for example."
    )]
    Unattended {
        /// What would have been asked.
        asked: String,
    },
    /// Too many prompts wait for an answer.
    #[error(
        "This tool call needs a person's answer, and {limit} prompts are waiting for one already, which is as many as \
         {key} allows. Go on without it, or try again when some of them have been answered."
    )]
    TooManyPrompts {
        /// The limit, as the configuration names it.
        key: &'static str,
        /// Its value.
        limit: usize,
    },
    /// A person put another input in the place of the call's: the tool runs anew with that one. No model reads this.
    #[error("The user replaced the input of this tool call.")]
    Edited,
    /// The call ended while it waited.
    #[error("Tool execution aborted")]
    Withdrawn,
    /// The prompt could not be stored; the cause is in the log.
    #[error("internal error")]
    Unavailable,
}

fn feedback(message: &str) -> String {
    if message.is_empty() {
        return String::new();
    }
    format!(" with the following feedback: {message}")
}
