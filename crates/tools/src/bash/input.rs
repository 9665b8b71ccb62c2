//! The arguments of `bash`, and which of them are refused before a person is asked.
//!
//! *Invariant:* looks at the arguments only.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_tool::ToolError;

/// The longest time limit, in milliseconds: what the timers of other implementations can hold.
const MAX_TIMEOUT_MS: f64 = 2_147_483_547.0;

/// The longest command line: what the kernel takes as one argument, less its end mark.
pub(super) const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// Comes on top of every time limit.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(100);

/// The arguments of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The command line to run
    pub(super) command: String,
    /// Time limit in milliseconds
    pub(super) timeout: Option<f64>,
    /// The directory to run the command in, absolute or relative to the default one. Use this instead of `cd`.
    pub(super) workdir: Option<String>,
    /// What the command does, for people, in five to ten words
    pub(super) description: String,
    /// Starts the command and returns at once; the command goes on until it ends or is stopped
    pub(super) background: Option<bool>,
}

/// Refuses what no shell can be started with, before a person is asked about it.
pub(super) fn check_command(command: &str) -> Result<(), ToolError> {
    let problem = match command.len() {
        0 => "is empty. Write the command line to run.".to_owned(),
        length if length > MAX_COMMAND_BYTES => {
            format!(
                "has {length} bytes, and the system takes {MAX_COMMAND_BYTES} at most. Write a script and run that."
            )
        }
        _ if command.contains('\0') => {
            "contains a NUL byte, which no shell accepts. Write \\0 in its place.".to_owned()
        }
        _ => return Ok(()),
    };
    Err(ToolError::Failed(format!("The command {problem}")))
}

/// A time limit as given and as applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) shown_ms: f64,
    pub(super) time: Duration,
}

impl Limit {
    /// No limit: longer than any service runs.
    pub(super) const NONE: Self = Self {
        shown_ms: MAX_TIMEOUT_MS,
        time: Duration::MAX,
    };

    pub(super) fn new(given: Option<f64>, default: Duration) -> Result<Self, ToolError> {
        Self::given(given.unwrap_or(default.as_secs_f64() * 1000.0))
    }

    pub(super) fn given(shown_ms: f64) -> Result<Self, ToolError> {
        if shown_ms < 0.0 {
            return Err(ToolError::Failed(format!(
                "Invalid timeout value: {shown_ms}. Timeout must be a positive number."
            )));
        }
        let shown_ms = shown_ms.min(MAX_TIMEOUT_MS);
        let time = Duration::from_secs_f64(shown_ms / 1000.0) + TIMEOUT_MARGIN;
        Ok(Self { shown_ms, time })
    }
}
