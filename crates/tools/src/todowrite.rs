//! `todowrite`: replaces the session's list of tasks.
//!
//! *Invariant:* the list is replaced whole or not at all.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_model::{Ask, Todo, ToolOutput};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, todos};

/// The tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct TodoWrite;

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The whole new list, in the order in which it should be shown
    pub todos: Vec<Item>,
}

/// One task.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Item {
    /// What is to be done, in a few words
    pub content: String,
    /// pending, in_progress, completed or cancelled
    pub status: String,
    /// high, medium or low
    pub priority: String,
    /// A name for the task that stays the same when the list is written again
    pub id: Option<String>,
}

impl From<Item> for Todo {
    fn from(item: Item) -> Self {
        Self {
            content: item.content,
            status: item.status,
            priority: item.priority,
            id: item.id,
        }
    }
}

#[async_trait]
impl TypedTool for TodoWrite {
    type Input = Input;

    const ABOUT: About = About {
        name: "todowrite",
        effects: &[],
        permissions: &["todowrite"],
        advertised: true,
        properties: Properties::RESUMABLE,
        example: r#"{"todos": [{"content": "Write the parser", "status": "in_progress", "priority": "high"}]}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("todowrite.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::counting(input, "todos", "todo")
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let list: Vec<Todo> = input.todos.into_iter().map(Todo::from).collect();
        todos::check_size(&list)?;
        let everything = vec!["*".to_owned()];
        ctx.permission
            .ask(Ask {
                always: everything.clone(),
                title: format!("{} todos", list.len()),
                ..Ask::new("todowrite", everything)
            })
            .await?;
        let result = todos::result(&list)?;
        ctx.replace_todos(list)?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_permission::Refusal;

    use super::*;
    use crate::testing::{Bench, output_text};

    fn todo(content: &str, status: &str) -> Value {
        json!({"content": content, "status": status, "priority": "low"})
    }

    #[tokio::test]
    async fn the_title_counts_what_is_not_completed() {
        async fn check(statuses: &[&str], title: &str) {
            let bench = Bench::new();
            let list: Vec<Value> = statuses.iter().map(|status| todo("x", status)).collect();
            let output = bench.run(&TodoWrite, json!({ "todos": list })).await.unwrap();
            assert_eq!(output.title, title);
            assert_eq!(output.metadata["todos"], json!(list));
        }
        check(&[], "0 todos").await;
        check(&["pending"], "1 todos").await;
        check(&["completed", "cancelled", "blocked", "Completed"], "3 todos").await;
    }

    #[tokio::test]
    async fn the_output_is_the_list_and_the_next_one_replaces_it() {
        let bench = Bench::new();
        let first = json!({"todos": [{"priority": "p", "id": "7", "status": "s", "content": "c", "more": 1}]});
        let output = bench.run(&TodoWrite, first).await.unwrap();
        let text = "[\n  {\n    \"content\": \"c\",\n    \"status\": \"s\",\n    \"priority\": \"p\",\n    \"id\": \"7\"\n  }\n]";
        assert_eq!(output_text(&output), text);
        assert_eq!(bench.ctx().todos().await.len(), 1);
        let output = bench.run(&TodoWrite, json!({"todos": []})).await.unwrap();
        assert_eq!(output_text(&output), "[]");
        assert_eq!(bench.ctx().todos().await, []);
        assert_eq!(bench.asked(), vec![("todowrite".to_owned(), vec!["*".to_owned()]); 2]);
    }

    #[tokio::test]
    async fn what_is_refused_or_too_large_changes_nothing() {
        let bench = Bench::new();
        bench
            .run(&TodoWrite, json!({"todos": [todo("kept", "pending")]}))
            .await
            .unwrap();
        bench.answer(Err(Refusal::Rejected));
        bench.run(&TodoWrite, json!({"todos": []})).await.unwrap_err();
        assert_eq!(bench.asked().len(), 2);
        for (list, problem) in [
            (
                vec![todo("x", "pending"); todos::MAX_TODOS + 1],
                "1001 todos, and at most 1000",
            ),
            (
                vec![todo(&"x".repeat(todos::MAX_BYTES), "pending")],
                "131082 bytes of text",
            ),
        ] {
            let error = bench.run(&TodoWrite, json!({ "todos": list })).await.unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert!(bench.asked().is_empty(), "nobody is asked about what cannot be");
        let kept = bench.ctx().todos().await;
        assert_eq!((kept.len(), kept[0].content.as_str()), (1, "kept"));
    }
}
