//! `todoread`: shows the session's list of tasks.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_model::{Ask, ToolOutput};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, todos};

/// The tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct TodoRead;

/// It takes no arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {}

#[async_trait]
impl TypedTool for TodoRead {
    type Input = Input;

    const ABOUT: About = About {
        name: "todoread",
        effects: &[],
        permissions: &["todoread"],
        advertised: true,
        properties: Properties::ONLY_LOOKS,
        example: "{}",
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("todoread.md").trim_end().to_owned()
    }

    fn outline(&self, _input: &Value) -> Outline {
        Outline::new("todos")
    }

    async fn run(&self, _input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let everything = vec!["*".to_owned()];
        ctx.permission
            .ask(Ask {
                always: everything.clone(),
                title: "The todos of the session".to_owned(),
                ..Ask::new("todoread", everything)
            })
            .await?;
        todos::result(&ctx.todos().await)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_model::Todo;

    use super::*;
    use crate::testing::{Bench, output_text};

    #[tokio::test]
    async fn shows_what_is_stored() {
        async fn check(fact: serde_json::Value, title: &str, text: &str) {
            let bench = Bench::new();
            bench.ctx().session.set(Todo::FACT, fact);
            let output = bench.run(&TodoRead, json!({})).await.unwrap();
            assert_eq!((output.title.as_str(), output_text(&output)), (title, text));
            assert_eq!(bench.asked(), [("todoread".to_owned(), vec!["*".to_owned()])]);
        }
        check(json!(null), "0 todos", "[]").await;
        check(json!({"not": "a list"}), "0 todos", "[]").await;
        let stored = json!([{"content": "c", "status": "pending", "priority": "low"}]);
        let text = serde_json::to_string_pretty(&stored).unwrap();
        check(stored, "1 todos", &text).await;
    }
}
