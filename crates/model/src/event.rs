//! The entries of a call's log.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use serde::{Deserialize, Serialize};

use super::change::ListeningPort;
use super::ending::Ending;
use super::ids::{CallId, OutputId, PromptId};
use super::json::JsonMap;
use super::prompt::{Decision, Prompt};
use super::time::Timestamp;

/// One entry of a call's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallEvent {
    /// Counts from 1 without gaps.
    pub sequence: u64,
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    pub kind: EventKind,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The call is admitted.
    Pending {
        /// The tool that will run.
        tool: String,
        /// The name that was asked for.
        requested_tool: String,
        /// A first title.
        #[serde(default)]
        title: String,
        /// What the call touches, one line.
        #[serde(default)]
        summary: String,
        /// What the call waits for, if it does not start at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued: Option<Queued>,
    },
    /// The tool starts with this frozen input.
    Running {
        /// Canonical JSON.
        input_json: String,
        /// Its SHA-256, hexadecimal.
        input_digest: String,
        /// The title so far.
        title: String,
    },
    /// Title or metadata changed: absent keys stay, null clears a key, other values replace.
    Metadata {
        /// The new title, if it changed.
        title: Option<String>,
        /// The patch.
        patch: JsonMap,
    },
    /// The tool produced output; the bytes are in the stored output.
    Output {
        /// Where they are.
        output: OutputId,
        /// Absolute offset of the first byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// The call waits for a person.
    Waiting {
        /// What is asked.
        prompt: Box<Prompt>,
    },
    /// The wait is over.
    Resumed {
        /// Which prompt.
        prompt: PromptId,
        /// How it ended, by whom and when.
        decision: Box<Decision>,
    },
    /// The call made another one.
    Child {
        /// Which.
        call: CallId,
        /// The tool that it asked for.
        tool: String,
    },
    /// A program of the call began or ceased to listen on a port.
    Listening {
        /// All that its programs listen on now.
        ports: Vec<ListeningPort>,
    },
    /// Something a person should know that does not end the call.
    Warning {
        /// A stable word.
        kind: WarningKind,
        /// A sentence.
        text: String,
    },
    /// The end; nothing follows.
    Ended(Box<Ending>),
}

/// Why a call does not start at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// The limit that holds it, as the configuration names it.
    pub limit: String,
    /// Calls that waited already when it came.
    pub ahead: u64,
}

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// Bytes of the output are not UTF-8.
    Lossy,
    /// The call cannot be taken back.
    NoUndo,
    /// Attachments are left out of the result of a batch.
    AttachmentsLeftOut,
    /// Processes could not be ended.
    Survivors,
    /// Metadata is left out.
    MetadataLeftOut,
}
