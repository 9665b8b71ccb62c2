//! Tools: where they come from, how they are described, what they return.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ending::Attachment;
use super::json::JsonMap;
use super::result::ToolResult;

/// Where a tool comes from, in the order in which tools are listed; of two tools of the same name the later one is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Compiled into the service.
    Builtin,
    /// A file or an executable of the workspace.
    Custom,
    /// A plugin.
    Plugin,
    /// Lent by a front end.
    Hosted,
    /// An MCP server.
    Mcp,
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
    /// A name for people, where whoever offers the tool has given it one; not to be trusted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
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
    /// What a server of tools says of it beside that.
    #[serde(default, skip_serializing_if = "Claims::is_empty")]
    pub claims: Claims,
}

/// What a server of tools says of one. Nothing is allowed for it, and nothing asked less: it is for people and programs to look
/// at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// The JSON Schema of what it returns as data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Whether it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether what it changes may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Whether doing it twice is doing it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Whether it deals with what nobody here has a hold of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Claims {
    /// Says whether nothing is claimed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Definition {
    /// Describes a tool that is not built in: every model is told of it, and it is asked for under its own name.
    pub fn foreign(name: &str, description: &str, input_schema: &Value, source: Source, effects: &[Effect]) -> Self {
        Self {
            name: name.to_owned(),
            title: String::new(),
            description: description.to_owned(),
            input_schema: input_schema.clone(),
            source,
            effects: effects.to_vec(),
            permissions: vec![name.to_owned()],
            experimental: false,
            advertised: true,
            claims: Claims::default(),
        }
    }
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
    /// What the tool knows of it, for programs.
    pub result: Option<ToolResult>,
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
