//! `batch`: several calls at once, each a call of its own (`docs/spec/framework.md` §11 and §16 F8).
//!
//! *Invariant:* does nothing by itself. Every call goes the way that it would go alone, with its own id, prompts, record
//! and place in the row of identical calls; when the batch is stopped, so are they.

use std::fmt::Write as _;

use async_trait::async_trait;
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_model::{
    Attachment, AttachmentContent, CallId, ChildResult, ChildrenResult, Effect, Ending, JsonMap, Outcome, OutputText,
    ToolOutput, ToolResult, WarningKind, json_map,
};
use toolgate_tool::{
    About, Child, ChildCall, InputProblem, Offer, Outline, Properties, ToolContext, ToolError, TypedTool,
};

/// Calls that are made; what is more fails.
const MOST_CALLS: usize = 25;

/// More entries are no batch, but a mistake.
const MOST_ENTRIES: usize = 1000;

/// Bytes of all attachments of a batch's result. More does not fit into a message; each call has its own.
const MOST_ATTACHED: usize = 16 * 1024 * 1024;

/// The tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The calls to make
    #[schemars(length(min = 1))]
    tool_calls: Vec<Entry>,
}

/// One call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Entry {
    /// The name of the tool
    tool: String,
    /// The arguments of the tool
    parameters: Map<String, Value>,
}

/// What became of one entry.
struct Member {
    tool: String,
    /// The call that was made of it, or why none was.
    call: Result<CallId, String>,
    succeeded: bool,
}

#[async_trait]
impl TypedTool for Batch {
    type Input = Input;

    const ABOUT: About = About {
        name: "batch",
        effects: &[
            Effect::Reads,
            Effect::Writes,
            Effect::RunsPrograms,
            Effect::Network,
            Effect::AsksUser,
        ],
        permissions: &[],
        advertised: true,
        // Its calls would be made twice.
        properties: Properties {
            foreseeable: true,
            ..Properties::NONE
        },
        example: r#"{"tool_calls": [{"tool": "read", "parameters": {"filePath": "README.md"}}]}"#,
    };

    const EXPERIMENTAL: bool = true;

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("batch.md").trim_end().to_owned()
    }

    fn misfit(&self, problems: &[InputProblem]) -> String {
        let mut text = "Invalid parameters for tool 'batch':\n".to_owned();
        for problem in problems {
            let (argument, message) = match problem {
                InputProblem { argument, keyword, .. } if argument == "tool_calls" && keyword == "minItems" => {
                    (argument.as_str(), "Provide at least one tool call")
                }
                InputProblem { argument, message, .. } if argument.is_empty() => ("root", message.as_str()),
                InputProblem { argument, message, .. } => (argument.as_str(), message.as_str()),
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "  - {argument}: {message}");
        }
        text + "\nExpected payload format:\n  [{\"tool\": \"tool_name\", \"parameters\": {...}}, {...}]"
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::counting(input, "tool_calls", "call")
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let total = input.tool_calls.len();
        if total > MOST_ENTRIES {
            return Err(ToolError::failed(format!(
                "{total} calls are too many for one batch: give at most {MOST_CALLS}, and the rest in others"
            )));
        }
        let mut members = Vec::with_capacity(total);
        let mut running = Vec::new();
        for (index, entry) in input.tool_calls.into_iter().enumerate() {
            let tool = entry.tool.clone();
            let started = match index {
                0..MOST_CALLS => start(entry, ctx).await?,
                _ => Err(format!("Maximum of {MOST_CALLS} tools allowed in batch")),
            };
            let call = started.map(|child| {
                let call = child.call.clone();
                running.push((index, child));
                call
            });
            members.push(Member {
                tool,
                call,
                succeeded: false,
            });
        }
        ctx.output.progress(None, json_map([("calls", calls(&members))])).await;
        let ended = join_all(running.iter().map(|(_, child)| child.ended())).await;
        if ctx.cancelled.is_cancelled() {
            // They ended because this call is to end, and that is no result.
            return Err(ToolError::Cancelled);
        }
        let mut attachments = Attached::default();
        for ((index, _), ended) in running.iter().zip(ended) {
            let Ending {
                outcome,
                attachments: made,
                ..
            } = ended?;
            if matches!(outcome, Outcome::Completed { .. }) {
                members[*index].succeeded = true;
                attachments.extend(made);
            }
        }
        attachments.tell(ctx).await;
        Ok(result(&members, attachments.kept))
    }
}

/// Starts one call; says for the model why it could not be.
async fn start(entry: Entry, ctx: &ToolContext) -> Result<Result<Child, String>, ToolError> {
    let Entry { tool, parameters } = entry;
    if tool == Batch::ABOUT.name {
        return Ok(Err(
            "Tool 'batch' is not allowed in batch. Disallowed tools: batch".to_owned()
        ));
    }
    let call = ChildCall {
        tool,
        input: Value::Object(parameters),
        is_step: true,
    };
    match ctx.children.start(call).await {
        Ok(child) => Ok(Ok(child)),
        Err(ToolError::NoSuchTool { tool, available, .. }) => Ok(Err(not_there(&tool, available))),
        Err(error @ (ToolError::Failed(_) | ToolError::Refused(_) | ToolError::Quota(_) | ToolError::Child { .. })) => {
            Ok(Err(error.to_string()))
        }
        Err(error @ (ToolError::Cancelled | ToolError::Internal(_))) => Err(error),
    }
}

fn not_there(tool: &str, mut available: Vec<String>) -> String {
    available.retain(|name| name != Batch::ABOUT.name);
    format!(
        "Tool '{tool}' not in registry. External tools (MCP, environment) cannot be batched - call them directly. \
         Available tools: {}",
        available.join(", ")
    )
}

/// The attachments of all calls, as far as they fit.
#[derive(Default)]
struct Attached {
    kept: Vec<Attachment>,
    bytes: usize,
    left_out: usize,
}

impl Attached {
    fn extend(&mut self, attachments: Vec<Attachment>) {
        for attachment in attachments {
            let size = match &attachment.content {
                AttachmentContent::Bytes(bytes) => bytes.len(),
                AttachmentContent::Url(url) => url.len(),
            };
            if self.bytes + size > MOST_ATTACHED {
                self.left_out += 1;
            } else {
                self.bytes += size;
                self.kept.push(attachment);
            }
        }
    }

    async fn tell(&self, ctx: &ToolContext) {
        if self.left_out > 0 {
            let text = format!(
                "{} attachments are too large to stand here as well; the calls of the batch have them.",
                self.left_out
            );
            ctx.output.warn(WarningKind::AttachmentsLeftOut, text).await;
        }
    }
}

/// Returns for each entry, in order, its call or why there is none.
fn calls(members: &[Member]) -> Value {
    members
        .iter()
        .map(|member| match &member.call {
            Ok(call) => json!({"tool": member.tool, "call": call.as_str()}),
            Err(error) => json!({"tool": member.tool, "error": error}),
        })
        .collect()
}

fn result(members: &[Member], attachments: Vec<Attachment>) -> ToolOutput {
    let total = members.len();
    let successful = members.iter().filter(|member| member.succeeded).count();
    let failed = total - successful;
    let text = if failed > 0 {
        format!("Executed {successful}/{total} tools successfully. {failed} failed.")
    } else {
        format!(
            "All {total} tools executed successfully.\n\n\
             Keep using the batch tool for optimal performance in your next response!"
        )
    };
    let details = members
        .iter()
        .map(|member| json!({"tool": member.tool, "success": member.succeeded}));
    let metadata: JsonMap = json_map([
        ("totalCalls", json!(total)),
        ("successful", json!(successful)),
        ("failed", json!(failed)),
        ("tools", members.iter().map(|member| json!(member.tool)).collect()),
        ("details", details.collect()),
        ("calls", calls(members)),
    ]);
    let made = members.iter().map(|member| ChildResult {
        tool: member.tool.clone(),
        call: member.call.as_ref().ok().cloned(),
        succeeded: member.succeeded,
    });
    ToolOutput {
        result: Some(ToolResult::Children(ChildrenResult {
            calls: made.collect(),
            session: None,
        })),
        title: format!("Batch execution ({successful}/{total} successful)"),
        output: OutputText::Text(text),
        metadata,
        attachments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, output_text};

    #[test]
    fn says_what_is_wrong_with_an_input() {
        let check = |argument: &str, keyword: &str, expected: &str| {
            let problem = InputProblem {
                argument: argument.to_owned(),
                keyword: keyword.to_owned(),
                message: "bad".to_owned(),
            };
            let text = TypedTool::misfit(&Batch, &[problem]);
            let expected = format!(
                "Invalid parameters for tool 'batch':\n  - {expected}\n\nExpected payload format:\n  \
                 [{{\"tool\": \"tool_name\", \"parameters\": {{...}}}}, {{...}}]"
            );
            assert_eq!(text, expected);
        };
        check("tool_calls", "minItems", "tool_calls: Provide at least one tool call");
        check("tool_calls.0.tool", "type", "tool_calls.0.tool: bad");
        check("", "type", "root: bad");
    }

    #[test]
    fn counts() {
        let member = |tool: &str, succeeded: bool| Member {
            tool: tool.to_owned(),
            call: Ok(CallId::from("c")),
            succeeded,
        };
        let output = result(&[member("a", true), member("b", false)], Vec::new());
        assert_eq!(output.title, "Batch execution (1/2 successful)");
        assert_eq!(output_text(&output), "Executed 1/2 tools successfully. 1 failed.");
        assert_eq!(
            output.metadata["details"],
            json!([{"tool": "a", "success": true}, {"tool": "b", "success": false}])
        );
        let output = result(&[member("a", true)], Vec::new());
        assert!(output_text(&output).starts_with("All 1 tools executed successfully.\n\nKeep using"));
    }

    #[test]
    fn keeps_the_attachments_that_fit() {
        let attachment = |size: usize| Attachment {
            id: String::new(),
            mime: "image/png".to_owned(),
            filename: None,
            content: AttachmentContent::Bytes(vec![0; size].into()),
        };
        let mut attached = Attached::default();
        attached.extend(vec![attachment(MOST_ATTACHED), attachment(1)]);
        attached.extend(vec![attachment(0)]);
        assert_eq!((attached.kept.len(), attached.left_out), (2, 1));
    }

    #[tokio::test]
    async fn refuses_what_cannot_be_batched() {
        // The port of the bench starts nothing.
        let bench = Bench::new();
        let mut entries = vec![json!({"tool": "batch", "parameters": {}}); MOST_CALLS];
        entries.push(json!({"tool": "read", "parameters": {}}));
        let output = bench.run(&Batch, json!({ "tool_calls": entries })).await.unwrap();
        assert_eq!(output_text(&output), "Executed 0/26 tools successfully. 26 failed.");
        let calls = output.metadata["calls"].as_array().unwrap();
        assert_eq!(
            calls[0]["error"],
            "Tool 'batch' is not allowed in batch. Disallowed tools: batch"
        );
        assert_eq!(calls[25]["error"], "Maximum of 25 tools allowed in batch");
        let entries = vec![json!({"tool": "batch", "parameters": {}}); MOST_ENTRIES + 1];
        let error = bench.run(&Batch, json!({ "tool_calls": entries })).await.unwrap_err();
        assert!(error.starts_with("1001 calls are too many"), "{error}");
    }

    #[test]
    fn names_what_is_there_instead() {
        let available = ["read", "batch", "bash"].map(str::to_owned).to_vec();
        assert_eq!(
            not_there("Read", available),
            "Tool 'Read' not in registry. External tools (MCP, environment) cannot be batched - call them directly. \
             Available tools: read, bash"
        );
    }
}
