//! The vocabulary: plain data that every part of the service speaks.
//!
//! *Invariant:* a leaf. Nothing here imports another module, starts anything or knows the wire. What is stored is
//! these types as JSON, so a field is only added with a default and never changes its meaning.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod audit_key;
pub mod frontmatter;
mod ids;
mod invalid;
mod itself;
mod names;
mod principal;
mod prompt;
pub mod redact;
mod service_event;
pub mod skills;
mod todo;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use ids::{CallId, GrantId, InstanceId, OutputId, PromptId, SessionId};
pub use invalid::INVALID;
pub use itself::{ITSELF, REACHES_ITSELF, STARTED_AS_SERVER, STARTS_ITSELF, introduction, is_own_introduction};
pub use names::{CONNECTION, SessionKey};
pub use principal::{Principal, PrincipalKind};
pub use prompt::{
    Action, Always, Approval, Ask, AskPart, Consent, Decision, Grant, GrantReach, GrantScope, InputEdit, PartVerdict,
    Prompt, PromptOutcome, PromptRequest, PromptState, Question, QuestionOption, Reply, Rule,
};
pub use service_event::{ServiceEvent, ServiceEventKind, SourceState};
pub use todo::Todo;

/// A free map, as metadata and `extra` are; the order of keys is kept.
pub type JsonMap = Map<String, Value>;

/// A moment with the precision of a millisecond, as it is stored and listed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the present moment.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Returns the milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// Returns the time that passed since `earlier`, zero if the clock went back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the moment `wait` later.
    pub fn after(self, wait: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let millis = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Self(millis)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Compiled into the service.
    Builtin,
    /// A file or an executable of the workspace.
    Custom,
    /// A plugin.
    Plugin,
    /// An MCP server.
    Mcp,
    /// Lent by a front end.
    Hosted,
}

/// What a tool may do to the world; for front ends that sort or mark tools by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Reads files.
    Reads,
    /// Creates, changes or deletes files.
    Writes,
    /// Starts programs.
    RunsPrograms,
    /// Uses the network.
    Network,
    /// Asks a person beyond permission prompts.
    AsksUser,
}

/// What is told about a tool to a model and to a front end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The name that a call uses.
    pub name: String,
    /// The text for the model; may depend on the agent.
    pub description: String,
    /// The JSON Schema (2020-12) of the input.
    pub input_schema: Value,
    /// Where the tool comes from.
    pub source: Source,
    /// What it may do.
    pub effects: Vec<Effect>,
    /// The permissions it may ask for.
    pub permissions: Vec<String>,
    /// Whether the tool may change or vanish without notice.
    pub experimental: bool,
    /// Whether models are told of it. A tool that is not advertised can be called all the same.
    pub advertised: bool,
}

impl Definition {
    /// Describes a tool that is not built in: every model is told of it, and it is asked for under its own name.
    pub fn foreign(name: &str, description: &str, input_schema: &Value, source: Source, effects: &[Effect]) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: input_schema.clone(),
            source,
            effects: effects.to_vec(),
            permissions: vec![name.to_owned()],
            experimental: false,
            advertised: true,
        }
    }
}

/// The model that a call or a list of tools is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Model {
    /// The provider's id, `anthropic` for instance.
    #[serde(default)]
    pub provider_id: String,
    /// The provider's name for the model.
    #[serde(default)]
    pub model_id: String,
    /// The npm package through which the front end reaches the model, or empty: see `ModelRef` in the proto.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub package: String,
}

/// In whose name a call is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The workspace's name.
    pub workspace: String,
    /// The session; never empty.
    pub session: SessionId,
    /// The message of the model that the call belongs to, or empty.
    #[serde(default)]
    pub message_id: String,
    /// The agent's name.
    pub agent: String,
    /// The model, as far as the client says.
    #[serde(default)]
    pub model: Model,
    /// The kind of client: `cli`, `app`, `desktop` or any other.
    #[serde(default)]
    pub client: String,
    /// The call on whose behalf this one is made.
    #[serde(default)]
    pub parent: Option<CallId>,
    /// Who made the call: [`Principal::id`], empty without authentication. Never taken from what a client says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requester: String,
    /// Who made the calls above this one, as far as they are others. They do not answer its prompts either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_behalf_of: Vec<String>,
    /// The clients, as they name themselves, that made the call and those above it: whose own approvers see its prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Free data of the front end.
    #[serde(default)]
    pub extra: JsonMap,
}

/// In whose name a call runs, as far as rights are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delegation {
    /// The workspace, whose configuration has the agent.
    pub workspace: String,
    /// The agent.
    pub agent: String,
    /// Whether a task runs the agent.
    pub in_task: bool,
}

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
    /// Lines of the whole; the piece after a final newline counts.
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
    /// What truncation did.
    #[serde(default)]
    pub truncation: Truncation,
    /// How long it took.
    #[serde(default)]
    pub timing: Timing,
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
            truncation: Truncation::default(),
            timing: Timing::default(),
        }
    }

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
    /// The title so far.
    #[serde(default)]
    pub title: String,
    /// The prompt it waits on.
    #[serde(default)]
    pub waiting_on: Option<PromptId>,
    /// The end; there exactly when the state is terminal.
    #[serde(default)]
    pub ending: Option<Ending>,
}

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
        /// A first title.
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
        /// What was decided.
        outcome: PromptOutcome,
    },
    /// The call made another one.
    Child {
        /// Which.
        call: CallId,
        /// The tool that it asked for.
        tool: String,
    },
    /// Something a person should know that does not end the call.
    Warning {
        /// A stable word.
        kind: String,
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

/// What a tool returns on success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// A short text for people.
    pub title: String,
    /// The text for the model.
    pub output: OutputText,
    /// Merged over the metadata published so far. A key `truncated` says that the tool pages its own output: the
    /// engine then leaves the text alone.
    pub metadata: JsonMap,
    /// Files that belong to the result.
    pub attachments: Vec<Attachment>,
}

/// Where the text for the model is.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputText {
    /// Here.
    Text(String),
    /// In the stored output that the call wrote while it ran.
    Stored,
}

impl Default for OutputText {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// A process that an ended call left running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundProcess {
    /// Its number on the service's machine.
    pub pid: u32,
    /// Its command line on one line, possibly cut.
    pub command: String,
}

/// One change that a call made to a file, with what is needed to take it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The absolute path with every link followed.
    pub path: PathBuf,
    /// The absolute path as the call named it; permissions are asked for this one.
    pub shown: PathBuf,
    /// The file before the change; none if there was none.
    pub before: Option<FileVersion>,
    /// The file after the change; none if there is none. A file that was moved is a change of either path.
    pub after: Option<FileVersion>,
}

/// A file as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// SHA-256 of the content, hexadecimal; names its blob in the store.
    pub sha256: String,
    /// Bytes of the content.
    pub bytes: u64,
    /// The permission bits; none for a new file, which gets what the system gives to new files.
    pub mode: Option<u32>,
}

/// Facts of one session that outlive a call, such as the files that it has read: key to JSON value.
pub type Facts = BTreeMap<String, Value>;

/// Makes a JSON map from pairs.
pub fn json_map<const N: usize>(pairs: [(&str, Value); N]) -> JsonMap {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
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
