//! In whose name a call is made: workspace, session, agent, model, client, requester.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::{CallId, SessionId};
use super::json::JsonMap;

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
    /// The folder that relative paths are joined to and commands start in, relative to the workspace's directory; empty for
    /// that itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
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
    /// The kind of client: `cli`, `app`, `desktop` or any other; empty if it does not say.
    #[serde(default)]
    pub client: String,
    /// The program that makes the call: its name and its version, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_name: String,
    /// The call on whose behalf this one is made.
    #[serde(default)]
    pub parent: Option<CallId>,
    /// Who made the call: [`Principal::id`](super::principal::Principal::id), empty without authentication. Never taken from what a client says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requester: String,
    /// Who made the calls above this one, as far as they are others. They do not answer its prompts either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_behalf_of: Vec<String>,
    /// The clients, as they name themselves, that made the call and those above it: whose own approvers see its prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// What prompts mean that nobody answers, if the request says so; otherwise the service does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<Unanswered>,
    /// Variables for the programs that the call starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Free data of the front end.
    #[serde(default)]
    pub extra: JsonMap,
}

/// What the prompts of a call mean that nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// They are refused when nobody listens.
    Refuse,
    /// They wait, but no longer than this.
    Wait(Option<Duration>),
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
