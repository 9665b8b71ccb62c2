//! Calls that were not understood.

use super::CallRecord;

/// The name of the tool that answers a call which was not understood: its name is unknown, or its arguments are no JSON.
pub const INVALID: &str = "invalid";

impl CallRecord {
    /// Says whether the call was not understood. Its end is a result, so that the model reads what was wrong; to everybody
    /// else it is a failure.
    pub fn is_invalid(&self) -> bool {
        self.tool == INVALID
    }
}
