//! What happens to a prompt that nobody is there to answer.

use std::time::Duration;

/// What happens to prompts that no approver sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unattended {
    /// They wait until an approver comes or they expire.
    #[default]
    Wait,
    /// They are refused at once.
    Refuse,
    /// They wait as long as an approver was connected within this time.
    Attended(Duration),
}
