//! The arguments of `bash`, and which of them are refused before a person is asked.
//!
//! *Invariant:* looks at the arguments only.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_model::TerminalSize;
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
    /// The size of the terminal that a command in the background runs in; without it the command has pipes
    pub(super) terminal: Option<Terminal>,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Terminal {
    /// Columns
    #[schemars(range(min = 1, max = 500))]
    columns: u16,
    /// Rows
    #[schemars(range(min = 1, max = 200))]
    rows: u16,
}

impl Terminal {
    /// Checks it once more: the schema, which says the same, is for the one who wrote the input.
    pub(super) fn size(self) -> Result<TerminalSize, ToolError> {
        TerminalSize::new(self.columns, self.rows).ok_or_else(|| {
            ToolError::Failed(format!(
                "A terminal has 1 to {} columns and 1 to {} rows.",
                TerminalSize::MAX_COLUMNS,
                TerminalSize::MAX_ROWS
            ))
        })
    }

    /// Returns it as it stands in an input.
    pub(super) fn as_input(self) -> Value {
        json!({ "columns": self.columns, "rows": self.rows })
    }

    /// Returns what a person is shown of it.
    pub(super) fn note(self) -> String {
        format!("{} x {}, input may follow", self.columns, self.rows)
    }
}

/// Refuses a terminal for a command that nobody could type to.
pub(super) fn check_terminal(input: &Input) -> Result<(), ToolError> {
    if input.terminal.is_some() && input.background != Some(true) {
        return Err(ToolError::failed(
            "A terminal is for commands in the background: add background: true, or leave terminal out.",
        ));
    }
    Ok(())
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
