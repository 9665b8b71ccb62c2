//! What a call is and how it ended, as far as its record says so by the tool's name and the kind of its result.

use super::result::CallEnd;
use super::{CallRecord, Outcome};

/// The name of the tool that answers a call which was not understood: its name is unknown, or its arguments are no JSON.
pub const INVALID: &str = "invalid";

/// The name of the tool whose calls run subagents.
const TASK: &str = "task";

impl CallRecord {
    /// Returns whether a subagent makes calls on behalf of this one.
    pub fn runs_subagent(&self) -> bool {
        self.tool == TASK
    }

    /// Says whether the call was not understood. Its end is a result, so that the model reads what was wrong; to everybody
    /// else it is a failure.
    pub fn is_invalid(&self) -> bool {
        self.tool == INVALID
    }

    /// Returns how the call ended, in short.
    pub fn end(&self) -> Option<CallEnd> {
        let ending = self.ending.as_ref()?;
        Some(match ending.outcome {
            Outcome::Failed { reason, .. } => CallEnd::Failed(reason),
            Outcome::Completed { .. } => CallEnd::completed(ending.result.as_ref(), self.is_invalid()),
        })
    }
}
