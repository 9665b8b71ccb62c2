//! `plan_exit`: asks whether the plan is done and the `build` agent should carry it out.
//!
//! *Invariant:* changes nothing; the front end switches agents, as the result tells it.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::{Effect, OutputText, ToolOutput};
use crate::tool::plan::{Plans, Switch};
use crate::tool::{About, CallContext, Offer, ToolError, TypedTool};

/// The tool.
#[derive(Clone, Debug)]
pub struct PlanExit {
    plans: Arc<Plans>,
}

impl PlanExit {
    /// Makes the tool.
    pub fn new(plans: Arc<Plans>) -> Self {
        Self { plans }
    }
}

/// It takes no arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {}

#[async_trait]
impl TypedTool for PlanExit {
    type Input = Input;

    const ABOUT: About = About {
        name: "plan_exit",
        effects: &[Effect::AsksUser],
        permissions: &[],
        advertised: true,
        resumable: true,
        example: "{}",
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("plan_exit.md").trim_end().to_owned()
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        offer.client == "cli"
    }

    async fn run(&self, _input: Input, ctx: &CallContext) -> Result<ToolOutput, ToolError> {
        let plan = self.plans.of_session(ctx).await;
        let shown = &plan.shown;
        let switch = Switch {
            agent: "build",
            question: format!(
                "Plan at {shown} is complete. Would you like to switch to the build agent and start implementing?"
            ),
            header: "Build Agent",
            yes: "Switch to build agent and start implementing the plan",
            no: "Stay with plan agent to continue refining the plan",
            message: format!("The plan at {shown} has been approved, you can now edit files. Execute the plan"),
        };
        let metadata = switch.ask(ctx, &plan).await?;
        Ok(ToolOutput {
            title: "Switching to build agent".to_owned(),
            output: OutputText::Text(
                "User approved switching to build agent. Wait for further instructions.".to_owned(),
            ),
            metadata,
            attachments: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::permission::Refusal;
    use crate::tool::plan::SWITCH;
    use crate::tools::testing::Bench;

    const DISMISSED: &str = "The user dismissed this question";

    fn tool(bench: &Bench) -> PlanExit {
        PlanExit::new(Arc::new(Plans::new(&bench.at("../data"))))
    }

    #[tokio::test]
    async fn only_no_means_no() {
        async fn check(answer: Result<&[&[&str]], &str>, expected: Result<(), &str>) {
            let bench = Bench::new();
            let owned = |labels: &&[&str]| labels.iter().map(|&label| label.to_owned()).collect();
            let answer = answer.map(|answers| answers.iter().map(owned).collect());
            bench.answer_questions(answer.map_err(|message| Refusal::Dismissed {
                message: message.to_owned(),
            }));
            let ended = bench.run(&tool(&bench), json!({})).await;
            assert_eq!(ended.map(drop), expected.map_err(str::to_owned));
        }
        check(Ok(&[&["Yes"]]), Ok(())).await;
        check(Ok(&[]), Ok(())).await;
        check(Ok(&[&[]]), Ok(())).await;
        check(Ok(&[&["no"]]), Ok(())).await;
        check(Ok(&[&["Yes", "No"]]), Ok(())).await;
        check(Ok(&[&["No"]]), Err(DISMISSED)).await;
        check(Err(""), Err(DISMISSED)).await;
        check(
            Err("later"),
            Err("The user dismissed this question with the following feedback: later"),
        )
        .await;
    }

    #[tokio::test]
    async fn a_session_has_one_plan() {
        let bench = Bench::new();
        let first = bench.run(&tool(&bench), json!({})).await.unwrap();
        let again = bench.run(&tool(&bench), json!({})).await.unwrap();
        assert_eq!(first.metadata, again.metadata);
        let switch = &first.metadata[SWITCH];
        assert_eq!(switch["agent"], "build");
        let file = switch["planFile"].as_str().unwrap();
        let shown = file.strip_prefix('/').unwrap();
        let message = format!("The plan at {shown} has been approved, you can now edit files. Execute the plan");
        assert_eq!(switch["message"], message);
        assert!(
            bench.questions()[0]
                .question
                .starts_with(&format!("Plan at {shown} is complete."))
        );
        bench.forget();
        let other = bench.run(&tool(&bench), json!({})).await.unwrap();
        assert_ne!(first.metadata, other.metadata);
    }

    #[tokio::test]
    async fn two_calls_at_once_agree_on_the_plan() {
        let bench = Bench::new();
        let (tool, input) = (tool(&bench), json!({}));
        let (one, other) = tokio::join!(bench.run(&tool, input.clone()), bench.run(&tool, input.clone()));
        assert_eq!(one.unwrap().metadata, other.unwrap().metadata);
    }
}
