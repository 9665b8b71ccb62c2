//! What a host says of itself and reports, what it is told, and what it may not say.
//!
//! *Invariant:* data only.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use toolgate_model::{Ask, Attachment, CallId, Effect, JsonMap, Origin};
use toolgate_tool::{HookPoint, SubagentRun};

/// The most tools of one host.
pub const MAX_TOOLS: usize = 256;

/// The longest name.
const MAX_NAME: usize = 64;

/// Bytes of one tool's description and schema.
const MAX_DEFINITION: usize = 256 * 1024;

/// Names that stand for something else: permissions that are no tool's, and built-in tools that may not be there.
const RESERVED: [&str; 14] = [
    "batch",
    "codesearch",
    "doom_loop",
    "external_directory",
    "invalid",
    "lsp",
    "network",
    "patch",
    "plan_enter",
    "plan_exit",
    "skill",
    "task",
    "webfetch",
    "websearch",
];

/// Metadata by which the engine knows what it has cut.
const OF_ENGINE: [&str; 2] = ["truncated", "outputPath"];

/// What a host says of itself.
pub struct Hello {
    /// How it is called.
    pub name: String,
    /// To which workspace it lends.
    pub workspace: String,
    /// Who it is.
    pub principal: String,
    /// Whether that principal may answer prompts.
    pub may_reply: bool,
    /// Whether it may take part in calls by hooks.
    pub may_hook: bool,
    /// Its tools.
    pub tools: Vec<HostedTool>,
    /// The agents that it can run, an empty list for all; none if it runs no subagents.
    pub subagents: Option<Vec<String>>,
    /// The names of the hooks that it wants.
    pub hooks: Vec<String>,
    /// Its token from before, or empty.
    pub token: String,
}

/// What became of a hello.
pub struct Welcome {
    /// Names the host.
    pub token: String,
    /// Whether it was known by its token.
    pub resumed: bool,
    /// What is not used, and why.
    pub refused: Vec<(String, String)>,
}

/// Why a host gets no seat, or cannot use the one that it has.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There are too many.
    #[error("{limit} hosts {of} are connected, which is as many as the service allows")]
    TooMany {
        /// The limit.
        limit: usize,
        /// Of whom, if it is the limit of one principal.
        of: &'static str,
    },
    /// The seat is not the host's any more.
    #[error("another stream came with the token of this host, or the host has left")]
    Gone,
    /// A fault of the service.
    #[error("what the host said did not come to its end")]
    Fault(#[source] tokio::task::JoinError),
}

/// A tool as its host describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct HostedTool {
    /// Its name.
    pub name: String,
    /// The text for the model.
    pub description: String,
    /// The JSON Schema of the input.
    pub input_schema: Value,
    /// What it may do.
    pub effects: Vec<Effect>,
}

impl HostedTool {
    /// Says why it cannot be lent, whatever else there is.
    pub(super) fn problem(&self) -> Option<String> {
        if self.name.is_empty()
            || self.name.len() > MAX_NAME
            || !self
                .name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        {
            return Some(format!("a name is 1 to {MAX_NAME} letters, digits, `_` and `-`"));
        }
        if RESERVED.iter().any(|name| name.eq_ignore_ascii_case(&self.name)) {
            return Some("the name means something else".to_owned());
        }
        if !self.input_schema.is_object() {
            return Some("the schema is not a JSON object".to_owned());
        }
        if self.description.len() + self.input_schema.to_string().len() > MAX_DEFINITION {
            return Some(format!("description and schema have more than {MAX_DEFINITION} bytes"));
        }
        None
    }
}

/// What a host is asked to do.
#[derive(Debug)]
pub enum HostRequest {
    /// To run a tool.
    Tool {
        /// The call.
        call: CallId,
        /// In whose name.
        origin: Arc<Origin>,
        /// The tool.
        tool: String,
        /// The frozen input.
        input: Value,
    },
    /// To run a subagent.
    Subagent {
        /// The call of `task`.
        call: CallId,
        /// In whose name.
        origin: Arc<Origin>,
        /// The run.
        run: SubagentRun,
    },
    /// To run a hook.
    Hook {
        /// The point.
        point: HookPoint,
        /// What it is about.
        input: Value,
        /// What it may change.
        output: Value,
    },
}

impl HostRequest {
    /// Says whether a report is of a kind that this has.
    pub(super) fn takes(&self, report: &Report) -> bool {
        let is_hook = matches!(self, Self::Hook { .. });
        match report {
            Report::Failed(_) => true,
            Report::HookResult(_) => is_hook,
            Report::Progress { .. } | Report::Output(_) | Report::Ask { .. } | Report::Completed(_) => !is_hook,
        }
    }
}

/// What a host is told.
#[derive(Debug)]
pub enum HostMessage {
    /// To do something.
    Invoke {
        /// Names the invocation.
        id: String,
        /// What to do.
        work: Arc<HostRequest>,
        /// Whether an earlier stream was sent it.
        resent: bool,
    },
    /// To give something up.
    Cancel {
        /// Names the invocation.
        id: String,
    },
    /// What became of a request for permission.
    AskResult {
        /// Names the invocation.
        id: String,
        /// Names the request.
        ask: String,
        /// Why the tool may not go on, if it may not.
        result: Result<(), String>,
    },
}

/// What a host reports.
#[derive(Debug)]
pub enum Report {
    /// Title or metadata changed.
    Progress {
        /// The new title.
        title: Option<String>,
        /// The patch.
        patch: JsonMap,
    },
    /// More output.
    Output(Bytes),
    /// A permission is needed.
    Ask {
        /// Names the request.
        id: String,
        /// The request.
        ask: Box<Ask>,
    },
    /// A result.
    Completed(HostResult),
    /// There is none; a text for the model.
    Failed(String),
    /// What a hook leaves.
    HookResult(Value),
}

impl Report {
    /// Says whether it ends the invocation.
    pub(super) fn is_last(&self) -> bool {
        match self {
            Self::Completed(_) | Self::Failed(_) | Self::HookResult(_) => true,
            Self::Progress { .. } | Self::Output(_) | Self::Ask { .. } => false,
        }
    }
}

/// The result of a tool or a subagent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostResult {
    /// A short text for people.
    pub title: String,
    /// The text for the model; none if it is what was reported as output.
    pub output: Option<String>,
    /// Merged over what was reported.
    pub metadata: JsonMap,
    /// Files that belong to it.
    pub attachments: Vec<Attachment>,
}

/// Takes out of a host's metadata what it may not say.
pub(super) fn hosts_metadata(mut metadata: JsonMap) -> JsonMap {
    metadata.retain(|key, _| !OF_ENGINE.contains(&key.as_str()));
    metadata
}

/// Returns the text of a call whose host is gone.
pub(super) fn lost(host: &str, why: &str) -> String {
    format!(
        "The front end {host}, which ran this, is gone: {why}. What was done until then is not known: look at the \
         present state before you repeat it."
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn some_tools_cannot_be_lent() {
        let check = |name: &str, schema: Value, usable: bool| {
            let tool = HostedTool {
                name: name.to_owned(),
                description: String::new(),
                input_schema: schema,
                effects: Vec::new(),
            };
            assert_eq!(tool.problem().is_none(), usable, "{name}: {:?}", tool.problem());
        };
        check("crm_lookup-2", json!({}), true);
        for name in ["", "a b", "ä", "a.b", "*", "doom_loop", "External_Directory", "task"] {
            check(name, json!({}), false);
        }
        check(&"x".repeat(MAX_NAME), json!({}), true);
        check(&"x".repeat(MAX_NAME + 1), json!({}), false);
        check("a", json!(true), false);
        check("a", json!({"description": "x".repeat(MAX_DEFINITION)}), false);
    }
}
