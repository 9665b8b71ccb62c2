//! A call from its request to its record.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ending::{Ending, Outcome};
use super::ids::{CallId, InstanceId, PromptId};
use super::origin::{Delegation, Origin};
use super::prompt::InputEdit;
use super::time::Timestamp;

/// What becomes of a call when its last `ExecuteTool` or `RunTool` stream is gone before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// The call is cancelled.
    #[default]
    Cancel,
    /// The call goes on; `WatchCall` finds it.
    Keep,
}

/// The arguments of a call as a client sent them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RawInput {
    /// JSON text exactly as the model wrote it, possibly malformed.
    Json(String),
    /// A value from a `Struct`.
    Value(Value),
}

/// A request to execute a tool, before it is admitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id.
    pub id: CallId,
    /// The service has just made the id: no other call has it.
    pub id_is_new: bool,
    /// In whose name.
    pub origin: Origin,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments.
    pub input: RawInput,
    /// The time that the tool may run, not counting the time that people are asked.
    pub timeout: Option<Duration>,
    /// What a lost client means.
    pub on_disconnect: OnDisconnect,
}

/// Where a call is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Admitted, not started.
    Pending,
    /// The tool runs.
    Running,
    /// The call waits for a person.
    Waiting,
    /// Ended with a result.
    Completed,
    /// Ended without one.
    Failed,
}

impl CallState {
    /// Every state, in the order of a call's life.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Completed,
        Self::Failed,
    ];

    /// Says whether nothing follows this state.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Pending | Self::Running | Self::Waiting => false,
        }
    }

    /// Returns the stored word for the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl Ending {
    /// Returns the state that the ending leaves the call in.
    pub fn state(&self) -> CallState {
        match self.outcome {
            Outcome::Completed { .. } => CallState::Completed,
            Outcome::Failed { .. } => CallState::Failed,
        }
    }
}

/// The record of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call's id.
    pub id: CallId,
    /// The run of the service that runs it, or ran it.
    pub owner: InstanceId,
    /// In whose name.
    pub origin: Origin,
    /// The tool that runs; `invalid` for a repaired call.
    pub tool: String,
    /// The name that was asked for.
    pub requested_tool: String,
    /// The workspace's folder when the call was admitted.
    #[serde(default)]
    pub directory: String,
    /// Whether a subagent that a task runs makes it: the limits of a task's session hold then.
    #[serde(default)]
    pub in_task: bool,
    /// In whose names the calls above it run, the nearest first. Their rules hold as well.
    #[serde(default)]
    pub ancestors: Vec<Delegation>,
    /// Whether another call made it, not a client.
    #[serde(default)]
    pub made_by_call: bool,
    /// Whether it is a step of the model's: it counts in the row of identical calls. What a client makes always is.
    #[serde(default)]
    pub is_step: bool,
    /// SHA-256 of the whole request, hexadecimal: what makes a repeated start the same start.
    pub request_digest: String,
    /// The frozen input, canonical JSON (RFC 8785).
    pub input_json: String,
    /// SHA-256 of `input_json`, hexadecimal. Prompts carry it.
    pub input_digest: String,
    /// The input as it was admitted, if a person put another one in its place.
    #[serde(default)]
    pub original: Option<InputEdit>,
    /// The time the tool may run.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// What a lost client means.
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
    /// Where the call is.
    pub state: CallState,
    /// When it was admitted.
    pub created: Timestamp,
    /// When the tool started.
    #[serde(default)]
    pub started: Option<Timestamp>,
    /// When it ended.
    #[serde(default)]
    pub ended: Option<Timestamp>,
    /// The number of the last event.
    pub last_sequence: u64,
    /// The title so far; at first what the input says.
    #[serde(default)]
    pub title: String,
    /// What the call touches, one line.
    #[serde(default)]
    pub summary: String,
    /// The prompt it waits on.
    #[serde(default)]
    pub waiting_on: Option<PromptId>,
    /// The end; there exactly when the state is terminal.
    #[serde(default)]
    pub ending: Option<Ending>,
}
