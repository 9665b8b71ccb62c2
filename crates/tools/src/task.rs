//! `task`: gives a task to a subagent, which a front end runs (`docs/spec/interactive-tools.md` §3).
//!
//! *Invariant:* changes nothing itself. The subagent's own calls are calls like others, whose rights end where those of the
//! agent that gave the task end.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_model::{Ask, ChildrenResult, Effect, Model, OutputText, ToolOutput, ToolResult, json_map};
use toolgate_tool::{
    About, Offer, Outline, Properties, SubagentRun, SubagentRunner, Subagents, ToolContext, ToolError, TypedTool,
};

/// What stands for the description of an agent that has none.
const UNDESCRIBED: &str = "This subagent should only be called manually by the user.";

/// The tool, for one workspace.
pub struct Task {
    subagents: Subagents,
    runner: Arc<dyn SubagentRunner>,
}

impl Task {
    /// Makes the tool for the agents of a workspace.
    pub fn new(subagents: Subagents, runner: Arc<dyn SubagentRunner>) -> Self {
        Self { subagents, runner }
    }
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// A short (3-5 words) description of the task
    pub description: String,
    /// The task for the agent to perform
    pub prompt: String,
    /// The type of specialized agent to use for this task
    pub subagent_type: String,
    /// The id of an earlier task, to go on with it
    pub task_id: Option<String>,
    /// The same by the name that it has in the output: models write either, or both, and are told of the first.
    #[schemars(skip)]
    pub session_id: Option<String>,
    /// The command that triggered this task
    pub command: Option<String>,
}

impl Input {
    /// Returns the id of the task to go on with.
    fn resumed(&self) -> Option<&str> {
        self.task_id.as_deref().or(self.session_id.as_deref())
    }
}

fn model_named(text: &str) -> Option<Model> {
    let (provider, model) = text.split_once('/')?;
    Some(Model {
        provider_id: provider.to_owned(),
        model_id: model.to_owned(),
        ..Model::default()
    })
}

#[async_trait]
impl TypedTool for Task {
    type Input = Input;

    const ABOUT: About = About {
        name: "task",
        effects: &[Effect::Reads, Effect::Writes, Effect::RunsPrograms, Effect::Network],
        permissions: &["task"],
        advertised: true,
        properties: Properties {
            runs_subagent: true,
            ..Properties::RESUMABLE
        },
        example: r#"{"description": "Count files", "prompt": "Count the files in src.", "subagent_type": "general"}"#,
    };

    fn description(&self, offer: &Offer<'_>) -> String {
        let agents: Vec<String> = self
            .subagents
            .told_to(offer.agent)
            .into_iter()
            .map(|(name, description)| format!("- {name}: {}", description.as_deref().unwrap_or(UNDESCRIBED)))
            .collect();
        include_str!("task.md")
            .trim_end()
            .replace("{agents}", &agents.join("\n"))
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        self.runner.is_there(offer.workspace.name())
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["subagent_type", "description"]).titled(input, "description")
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let limit = self.subagents.max_depth();
        if ctx.children.depth().await? >= limit {
            return Err(ToolError::Failed(format!(
                "Subagent depth limit reached ({limit}). Increase \"subagent_depth\" to allow nested subagents."
            )));
        }
        ctx.permission
            .ask(Ask {
                always: vec!["*".to_owned()],
                title: input.description.clone(),
                metadata: json_map([
                    ("description", json!(input.description)),
                    ("subagent_type", json!(input.subagent_type)),
                ]),
                ..Ask::new("task", vec![input.subagent_type.clone()])
            })
            .await?;
        let Some(agent) = self.subagents.find(&input.subagent_type) else {
            return Err(ToolError::Failed(format!(
                "Unknown agent type: {} is not a valid agent type",
                input.subagent_type
            )));
        };
        let model = agent
            .model
            .as_deref()
            .and_then(model_named)
            .unwrap_or_else(|| ctx.origin.model.clone());
        let resumed = input.resumed();
        let delegated = ctx.children.delegate(&input.subagent_type, model, resumed).await?;
        let session = delegated.session.clone();
        let of_session = json_map([("sessionId", json!(session))]);
        ctx.output
            .progress(Some(input.description.clone()), of_session.clone())
            .await;
        let run = SubagentRun {
            delegated,
            agent: input.subagent_type,
            agent_prompt: agent.prompt.clone().unwrap_or_default(),
            description: input.description.clone(),
            prompt: input.prompt,
            command: input.command.unwrap_or_default(),
        };
        let answer = self.runner.run(run, ctx).await.map_err(|error| match error {
            ToolError::Failed(message) => ToolError::Failed(format!("Subagent failed (task_id: {session}): {message}")),
            other @ (ToolError::Refused(_)
            | ToolError::Cancelled
            | ToolError::Quota(_)
            | ToolError::Child { .. }
            | ToolError::NoSuchTool { .. }
            | ToolError::Internal(_)) => other,
        })?;
        let mut metadata = answer.metadata;
        metadata.extend(of_session);
        Ok(ToolOutput {
            title: input.description,
            output: OutputText::Text(format!(
                "{}\n\n<task_metadata>\nsession_id: {session}\n</task_metadata>",
                answer.text
            )),
            metadata,
            attachments: answer.attachments,
            result: Some(ToolResult::Children(ChildrenResult {
                calls: Vec::new(),
                session: Some(session),
            })),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_tool::schema_of;

    use super::*;

    #[test]
    fn an_earlier_task_has_either_name() {
        let check = |more: Value, expected: Option<&str>| {
            let mut input = json!({"description": "d", "prompt": "p", "subagent_type": "general"});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let read: Input = serde_json::from_value(input).unwrap();
            assert_eq!(read.resumed(), expected, "{more}");
        };
        check(json!({}), None);
        check(json!({"task_id": "a"}), Some("a"));
        check(json!({"session_id": "b"}), Some("b"));
        check(json!({"session_id": "b", "task_id": "a"}), Some("a"));
        check(json!({"session_id": "b", "task_id": null}), Some("b"));
        let schema = schema_of::<Input>();
        let known: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(known, ["description", "prompt", "subagent_type", "task_id", "command"]);
    }

    #[test]
    fn models_are_named_with_their_provider() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = model_named(text);
            let found = found
                .as_ref()
                .map(|model| (model.provider_id.as_str(), model.model_id.as_str()));
            assert_eq!(found, expected, "{text}");
        };
        check("anthropic/claude", Some(("anthropic", "claude")));
        check("router/vendor/model", Some(("router", "vendor/model")));
        check("claude", None);
    }
}
