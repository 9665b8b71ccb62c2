//! How a call ends: result or failure, attachments, truncation, timing.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::OutputId;
use super::json::JsonMap;
use super::result::ToolResult;

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The input does not satisfy the tool's schema.
    InvalidArguments,
    /// A permission rule forbids it.
    Denied,
    /// A person refused it.
    Rejected,
    /// Nobody answered in time, or nobody may be asked.
    PromptExpired,
    /// The client, or somebody with the right to, cancelled it.
    Cancelled,
    /// It ran longer than the call's timeout.
    TimedOut,
    /// The tool itself failed; the text tells the model why.
    ToolError,
    /// The loop question was refused.
    DoomLoop,
    /// A limit of the service was reached while it ran.
    Quota,
    /// The service was stopping.
    Drained,
    /// The service ended while the call ran; what it did is not known.
    Lost,
    /// A fault of the service; the log has the cause.
    Internal,
}

impl EndReason {
    /// Returns the stored word for the reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "denied",
            Self::Rejected => "rejected",
            Self::PromptExpired => "prompt_expired",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::ToolError => "tool_error",
            Self::DoomLoop => "doom_loop",
            Self::Quota => "quota",
            Self::Drained => "drained",
            Self::Lost => "lost",
            Self::Internal => "internal",
        }
    }
}

/// Text, image or document that belongs to a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// Unique within the service.
    pub id: String,
    /// The media type.
    pub mime: String,
    /// The name of the file it came from, if it has one.
    #[serde(default)]
    pub filename: Option<String>,
    /// The content.
    pub content: AttachmentContent,
}

/// Where the content of an attachment is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentContent {
    /// The bytes themselves.
    Bytes(#[serde(with = "base64_bytes")] bytes::Bytes),
    /// A reference for the client to fetch.
    Url(String),
}

/// What truncation did to a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Truncation {
    /// Whether the model sees less than the whole.
    pub truncated: bool,
    /// The stored whole, if the call stored one.
    #[serde(default)]
    pub output: Option<OutputId>,
    /// Its file, where the model's own tools can read it.
    #[serde(default)]
    pub path: Option<String>,
    /// Bytes of the whole.
    #[serde(default)]
    pub bytes: u64,
    /// Lines of the whole, as editors count them: a last line without a line feed counts, nothing after a last line feed does.
    #[serde(default)]
    pub lines: u64,
}

/// How a call spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// From admission to the start of the tool.
    pub queued: Duration,
    /// Spent waiting for people.
    pub waited: Duration,
    /// Spent running, waiting not included.
    pub ran: Duration,
}

/// What the programs of a call have used, and those that they waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Time of processors spent in the programs.
    pub user: Duration,
    /// Time of processors spent in the kernel for them.
    pub system: Duration,
    /// The most memory that one of them had at a time.
    pub peak_memory_bytes: u64,
    /// Bytes read from disks.
    pub read_bytes: u64,
    /// Bytes written for disks.
    pub written_bytes: u64,
}

impl Resources {
    /// Adds what another program has used.
    pub fn add(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
        self.peak_memory_bytes = self.peak_memory_bytes.max(other.peak_memory_bytes);
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

/// The end of a call, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// The result, or why there is none.
    pub outcome: Outcome,
    /// A short text for people.
    #[serde(default)]
    pub title: String,
    /// All metadata reached.
    #[serde(default)]
    pub metadata: JsonMap,
    /// Files that belong to the result.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// What the tool knows of its result, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
    /// What truncation did.
    #[serde(default)]
    pub truncation: Truncation,
    /// How long it took.
    #[serde(default)]
    pub timing: Timing,
    /// What its programs have used; none if it has started none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// Result or failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The text for the model.
    Completed {
        /// What the model reads.
        output: String,
    },
    /// The call has no result.
    Failed {
        /// Why, for programs.
        reason: EndReason,
        /// Why, for the model.
        error: String,
    },
}

impl Ending {
    /// Makes the end of a call that failed with nothing to show.
    pub fn failed(reason: EndReason, error: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Failed {
                reason,
                error: error.into(),
            },
            title: String::new(),
            metadata: JsonMap::new(),
            attachments: Vec::new(),
            result: None,
            truncation: Truncation::default(),
            timing: Timing::default(),
            resources: None,
        }
    }
}

mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes::from).map_err(serde::de::Error::custom)
    }
}
