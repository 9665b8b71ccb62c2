//! What a host lends, as the registry holds it: tools and hooks.
//!
//! *Invariant:* a hosted tool asks for the permission of its own name before the host hears of the call, and never says
//! that it pages its own output: what a host returns is cut like everything else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use toolgate_model::{Ask, Definition, Effect, JsonMap, OutputText, Source, ToolOutput, json_map};
use toolgate_tool::{CallContext, Hook, HookError, HookPoint, Offer, Properties, Tool, ToolError};

use super::host::Host;
use super::invocation::{HostResult, Report, Work, lost};

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

/// How long a host has to answer a hook, and one that is asked for each tool of a list.
const ANSWER: Duration = Duration::from_secs(25);
const ANSWER_IN_LIST: Duration = Duration::from_secs(5);

/// Metadata by which the engine knows what it has cut.
const OF_ENGINE: [&str; 2] = ["truncated", "outputPath"];

/// A tool as its host describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct LentTool {
    /// Its name.
    pub name: String,
    /// The text for the model.
    pub description: String,
    /// The JSON Schema of the input.
    pub input_schema: Value,
    /// What it may do.
    pub effects: Vec<Effect>,
}

impl LentTool {
    /// Says why it cannot be lent, whatever else there is.
    pub(super) fn problem(&self) -> Option<String> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if self.name.is_empty() || self.name.len() > MAX_NAME || !self.name.bytes().all(allowed) {
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

/// A tool that a host lends.
pub(super) struct HostedTool {
    pub(super) host: Arc<Host>,
    pub(super) lent: LentTool,
}

impl HostedTool {
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.lent.name.eq_ignore_ascii_case(name)
    }
}

/// Takes out of a host's metadata what it may not say.
pub(super) fn own(mut metadata: JsonMap) -> JsonMap {
    metadata.retain(|key, _| !OF_ENGINE.contains(&key.as_str()));
    metadata
}

#[async_trait]
impl Tool for HostedTool {
    fn name(&self) -> &str {
        &self.lent.name
    }

    fn input_schema(&self) -> Value {
        self.lent.input_schema.clone()
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        let LentTool {
            name,
            description,
            input_schema,
            effects,
        } = &self.lent;
        Definition::foreign(name, description, input_schema, Source::Hosted, effects)
    }

    fn example(&self) -> &str {
        "{}"
    }

    fn properties(&self) -> Properties {
        Properties::NONE
    }

    async fn call(&self, input: Value, ctx: &CallContext) -> Result<ToolOutput, ToolError> {
        let name = &self.lent.name;
        ctx.ask(Ask {
            always: vec!["*".to_owned()],
            title: format!("{name} ({})", self.host.source),
            metadata: json_map([("input", input.clone())]),
            ..Ask::new(name, vec!["*".to_owned()])
        })
        .await?;
        let work = Work::Tool {
            call: ctx.call.clone(),
            origin: ctx.origin.clone(),
            tool: name.clone(),
            input,
        };
        let invocation = self.host.invoke(work);
        let invocation = invocation.map_err(|why| ToolError::Failed(lost(&self.host.name, &why)))?;
        invocation.serve(ctx).await.map(to_output)
    }
}

fn to_output(result: HostResult) -> ToolOutput {
    ToolOutput {
        title: result.title,
        output: result.output.map_or(OutputText::Stored, OutputText::Text),
        metadata: own(result.metadata),
        attachments: result.attachments,
    }
}

/// The hooks of a host.
pub(super) struct HostedHook {
    host: Arc<Host>,
    points: Vec<HookPoint>,
}

impl HostedHook {
    pub(super) fn new(host: Arc<Host>, points: Vec<HookPoint>) -> Self {
        Self { host, points }
    }

    fn failed(&self, problem: impl Into<String>) -> HookError {
        HookError::Failed {
            name: self.host.name.clone(),
            problem: problem.into(),
        }
    }
}

#[async_trait]
impl Hook for HostedHook {
    fn name(&self) -> &str {
        &self.host.name
    }

    fn principal(&self) -> Option<&str> {
        Some(&self.host.principal)
    }

    fn handles(&self, point: HookPoint) -> bool {
        self.points.contains(&point)
    }

    async fn run(&self, point: HookPoint, input: Value, output: Value) -> Result<Value, HookError> {
        if self.host.is_silent() {
            return Err(self.failed("it left an earlier hook without an answer"));
        }
        let in_list = point == HookPoint::Definition;
        if in_list && self.host.is_away() {
            return Err(self.failed("it is away"));
        }
        let work = Work::Hook { point, input, output };
        let mut invocation = self.host.invoke(work).map_err(|why| self.failed(why))?;
        let limit = if in_list { ANSWER_IN_LIST } else { ANSWER };
        match tokio::time::timeout(limit, invocation.next()).await {
            Ok(Ok(Report::HookResult(output))) => Ok(output),
            Ok(Ok(Report::Failed(error))) => Err(HookError::Refused(error)),
            // Reports of other kinds do not come this far.
            Ok(Ok(Report::Progress { .. } | Report::Output(_) | Report::Ask { .. } | Report::Completed(_))) => {
                Err(self.failed("it reports something else"))
            }
            Ok(Err(why)) => Err(self.failed(why)),
            Err(_) => {
                self.host.fall_silent();
                let (point, seconds) = (point.as_str(), limit.as_secs());
                Err(self.failed(format!("it did not answer `{point}` within {seconds} s")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn some_tools_cannot_be_lent() {
        let check = |name: &str, schema: Value, usable: bool| {
            let tool = LentTool {
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
