//! `plan_enter` and `plan_exit`: ask whether the `plan` agent should make a plan first, and whether the `build` agent should
//! carry it out (`docs/spec/interactive-tools.md` §4).
//!
//! *Invariant:* change nothing; the front end switches agents, as the result tells it. The two differ in words only.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_model::{Claims, Definition, Effect, OutputText, Source, ToolOutput};
use toolgate_tool::plan::{Plans, Switch};
use toolgate_tool::{Offer, Outline, Properties, Tool, ToolContext, ToolError, schema_of};

/// One of the tools.
#[derive(Clone, Debug)]
pub struct PlanSwitch {
    words: &'static Words,
    plans: Arc<Plans>,
}

impl PlanSwitch {
    /// Makes `plan_enter`.
    pub fn enter(plans: Arc<Plans>) -> Self {
        Self { words: &ENTER, plans }
    }

    /// Makes `plan_exit`.
    pub fn exit(plans: Arc<Plans>) -> Self {
        Self { words: &EXIT, plans }
    }
}

/// What a tool says. `{plan}` stands for the path of the plan.
#[derive(Debug)]
struct Words {
    name: &'static str,
    description: &'static str,
    agent: &'static str,
    question: &'static str,
    header: &'static str,
    yes: &'static str,
    no: &'static str,
    message: &'static str,
    title: &'static str,
    output: &'static str,
}

static ENTER: Words = Words {
    name: "plan_enter",
    description: include_str!("plan_enter.md"),
    agent: "plan",
    question: "Would you like to switch to the plan agent and create a plan saved to {plan}?",
    header: "Plan Mode",
    yes: "Switch to plan agent for research and planning",
    no: "Stay with build agent to continue making changes",
    message: "User has requested to enter plan mode. Switch to plan mode and begin planning.",
    title: "Switching to plan agent",
    output: "User confirmed to switch to plan mode. A new message has been created to switch you to plan mode. The plan \
             file will be at {plan}. Begin planning.",
};

static EXIT: Words = Words {
    name: "plan_exit",
    description: include_str!("plan_exit.md"),
    agent: "build",
    question: "Plan at {plan} is complete. Would you like to switch to the build agent and start implementing?",
    header: "Build Agent",
    yes: "Switch to build agent and start implementing the plan",
    no: "Stay with plan agent to continue refining the plan",
    message: "The plan at {plan} has been approved, you can now edit files. Execute the plan",
    title: "Switching to build agent",
    output: "User approved switching to build agent. Wait for further instructions.",
};

/// They take no arguments.
#[derive(Deserialize, JsonSchema)]
struct Input {}

#[async_trait]
impl Tool for PlanSwitch {
    fn name(&self) -> &str {
        self.words.name
    }

    fn input_schema(&self) -> Value {
        schema_of::<Input>()
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        Definition {
            name: self.words.name.to_owned(),
            title: String::new(),
            description: self.words.description.trim_end().to_owned(),
            input_schema: self.input_schema(),
            source: Source::Builtin,
            effects: vec![Effect::AsksUser],
            permissions: Vec::new(),
            experimental: false,
            advertised: true,
            claims: Claims::default(),
        }
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        offer.client == "cli"
    }

    fn properties(&self) -> Properties {
        Properties::RESUMABLE
    }

    fn outline(&self, _input: &Value) -> Outline {
        Outline::new(self.words.title)
    }

    async fn call(&self, _input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Words {
            agent, header, yes, no, ..
        } = *self.words;
        let plan = self.plans.of_session(ctx).await;
        let switch = Switch {
            agent,
            question: self.words.question.replace("{plan}", &plan.shown),
            header,
            yes,
            no,
            message: self.words.message.replace("{plan}", &plan.shown),
        };
        Ok(ToolOutput {
            metadata: switch.ask(ctx, &plan).await?,
            title: self.words.title.to_owned(),
            output: OutputText::Text(self.words.output.replace("{plan}", &plan.shown)),
            attachments: Vec::new(),
            result: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_permission::Refusal;
    use toolgate_tool::plan::SWITCH;

    use super::*;
    use crate::testing::{Bench, output_text};

    const DISMISSED: &str = "The user dismissed this question";

    fn plans(bench: &Bench) -> Arc<Plans> {
        Arc::new(Plans::new(&bench.at("../data")))
    }

    fn tool(bench: &Bench) -> PlanSwitch {
        PlanSwitch::exit(plans(bench))
    }

    #[tokio::test]
    async fn a_checkout_keeps_its_own_plans() {
        let bench = Bench::repository();
        let tool = PlanSwitch::enter(plans(&bench));
        let output = bench.run(&tool, json!({})).await.unwrap();
        let file = output.metadata[SWITCH]["planFile"].as_str().unwrap();
        let plan = file.strip_prefix(bench.at("").to_str().unwrap()).unwrap();
        assert!(plan.starts_with(".opencode/plans/"), "{plan}");
        assert!(
            output_text(&output).contains(&format!("The plan file will be at {plan}. Begin")),
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
