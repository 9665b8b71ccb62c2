//! What decisions mean for the call that asked.
//!
//! *Invariant:* nothing here decides.

use toolgate_model::{Decision, GrantId, PromptId, PromptOutcome, Reply, Timestamp};
use toolgate_permission::Refusal;
use toolgate_store::StoreError;

/// Why a call may go on.
pub(super) enum Decided {
    /// The rules allow it, or these grants do.
    Allowed { grants: Vec<GrantId> },
    /// A person wrote the input that asks this.
    Edited,
    /// This hook allows what a person would have been asked.
    Hooked(String),
    /// A person replied.
    Replied(Reply),
}

/// Says what the end of a prompt means for its call.
pub(super) fn verdict(outcome: PromptOutcome) -> Result<Reply, Refusal> {
    match outcome {
        PromptOutcome::Replied(reply @ (Reply::Once | Reply::Always(_) | Reply::Instead(_) | Reply::Answers(_))) => {
            Ok(reply)
        }
        PromptOutcome::Replied(Reply::Reject { message }) if message.is_empty() => Err(Refusal::Rejected),
        PromptOutcome::Replied(Reply::Reject { message }) => Err(Refusal::Corrected { message }),
        PromptOutcome::Expired => Err(Refusal::Expired),
        PromptOutcome::Withdrawn(_) => Err(Refusal::Withdrawn),
    }
}

/// Returns when a prompt expires.
pub(super) async fn until(expires: Option<Timestamp>) {
    match expires {
        Some(moment) => tokio::time::sleep(moment.since(Timestamp::now())).await,
        None => std::future::pending().await,
    }
}

/// Returns how a prompt ended, if it could be ended.
pub(super) fn settled(prompt: &PromptId, result: Result<Option<Decision>, StoreError>) -> Option<Decision> {
    result.unwrap_or_else(|error| {
        tracing::error!(%prompt, error = &error as &dyn std::error::Error, "a prompt could not be settled");
        None
    })
}
