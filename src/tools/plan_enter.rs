//! `plan_enter`: asks whether the `plan` agent should make a plan first.
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
pub struct PlanEnter {
    plans: Arc<Plans>,
}

impl PlanEnter {
    /// Makes the tool.
    pub fn new(plans: Arc<Plans>) -> Self {
        Self { plans }
    }
}

/// It takes no arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {}

#[async_trait]
impl TypedTool for PlanEnter {
    type Input = Input;

    const ABOUT: About = About {
        name: "plan_enter",
        effects: &[Effect::AsksUser],
        permissions: &[],
        advertised: true,
        resumable: true,
        example: "{}",
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("plan_enter.md").trim_end().to_owned()
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        offer.client == "cli"
    }

    async fn run(&self, _input: Input, ctx: &CallContext) -> Result<ToolOutput, ToolError> {
        let plan = self.plans.of_session(ctx).await;
        let shown = &plan.shown;
        let switch = Switch {
            agent: "plan",
            question: format!("Would you like to switch to the plan agent and create a plan saved to {shown}?"),
            header: "Plan Mode",
            yes: "Switch to plan agent for research and planning",
            no: "Stay with build agent to continue making changes",
            message: "User has requested to enter plan mode. Switch to plan mode and begin planning.".to_owned(),
        };
        let metadata = switch.ask(ctx, &plan).await?;
        Ok(ToolOutput {
            title: "Switching to plan agent".to_owned(),
            output: OutputText::Text(format!(
                "User confirmed to switch to plan mode. A new message has been created to switch you to plan mode. The \
                 plan file will be at {shown}. Begin planning."
            )),
            metadata,
            attachments: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::plan::SWITCH;
    use crate::tools::testing::{Bench, shown};

    #[tokio::test]
    async fn a_checkout_keeps_its_own_plans() {
        let bench = Bench::repository();
        let tool = PlanEnter::new(Arc::new(Plans::new(&bench.at("../data"))));
        let output = bench.run(&tool, json!({})).await.unwrap();
        let file = output.metadata[SWITCH]["planFile"].as_str().unwrap();
        let plan = file.strip_prefix(bench.at("").to_str().unwrap()).unwrap();
        assert!(plan.starts_with(".opencode/plans/"), "{plan}");
        assert!(
            shown(&output).contains(&format!("The plan file will be at {plan}. Begin")),
            "{output:?}"
        );
        let asked = &bench.questions()[0];
        assert!(
            asked.question.ends_with(&format!("create a plan saved to {plan}?")),
            "{asked:?}"
        );
        assert!(!asked.custom);
        assert_eq!(output.metadata[SWITCH]["agent"], "plan");
    }
}
