//! What decisions, stops and faults mean for a call.
//!
//! *Invariant:* nothing here decides.

use std::time::Duration;

use toolgate_model::{Decision, EndReason, Ending, GrantId, Outcome, PromptId, PromptOutcome, Reply};
use toolgate_permission::Refusal;
use toolgate_store::StoreError;

/// What the model reads of a call that somebody stopped.
const ABORTED: &str = "Tool execution aborted";

/// What the model reads when the service is at fault.
const INTERNAL: &str = "internal error";

/// Why a call may go on.
pub(crate) enum Decided {
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
pub(crate) fn verdict(prompt: &PromptId, outcome: PromptOutcome) -> Result<Reply, Refusal> {
    match outcome {
        PromptOutcome::Replied(reply @ (Reply::Once | Reply::Always(_) | Reply::Instead(_) | Reply::Answers(_))) => {
            Ok(reply)
        }
        PromptOutcome::Replied(Reply::Reject { message }) if message.is_empty() => Err(Refusal::Rejected),
        PromptOutcome::Replied(Reply::Reject { message }) => Err(Refusal::Corrected { message }),
        PromptOutcome::Expired => Err(Refusal::Expired {
            prompt: prompt.to_string(),
        }),
        PromptOutcome::Withdrawn(_) => Err(Refusal::Withdrawn),
    }
}

/// Returns when a prompt expires that waits for so long.
pub(crate) async fn until(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

/// Returns how a prompt ended, if it could be ended.
pub(crate) fn settled(prompt: &PromptId, result: Result<Option<Decision>, StoreError>) -> Option<Decision> {
    result.unwrap_or_else(|error| {
        tracing::error!(%prompt, error = &error as &dyn std::error::Error, "a prompt could not be settled");
        None
    })
}

/// Returns for which reason a call ends that was stopped, and what the model reads then.
pub(crate) fn stopped(reason: Option<EndReason>, limit: Option<Duration>) -> (EndReason, String) {
    let reason = reason.unwrap_or(EndReason::Cancelled);
    let error = match reason {
        EndReason::TimedOut => {
            let limit = limit.unwrap_or_default();
            format!("{ABORTED}: it ran longer than the {limit:?} that it was given")
        }
        EndReason::Drained => format!("{ABORTED}: the service is stopping"),
        EndReason::Cancelled
        | EndReason::InvalidArguments
        | EndReason::Denied
        | EndReason::Rejected
        | EndReason::PromptExpired
        | EndReason::ToolError
        | EndReason::DoomLoop
        | EndReason::Quota
        | EndReason::Lost
        | EndReason::Internal => ABORTED.to_owned(),
    };
    (reason, error)
}

/// Returns the outcome of a call that a fault of the service ended.
pub(crate) fn internal() -> Outcome {
    Outcome::Failed {
        reason: EndReason::Internal,
        error: INTERNAL.to_owned(),
    }
}

/// Makes the end of a call that a fault of the service ended.
pub(crate) fn internal_ending() -> Ending {
    Ending::failed(EndReason::Internal, INTERNAL)
}
