//! A session's list of tasks, for the tools that write and read it.
//!
//! *Invariant:* a list is bounded: it is kept, announced and shown whole.

use serde_json::json;
use toolgate_model::{OutputText, Todo, ToolOutput, json_map};

use super::{ToolContext, ToolError};

/// The most tasks that a list may have.
pub const MAX_TODOS: usize = 1000;
/// The most bytes that the texts of a list may have together.
pub const MAX_BYTES: usize = 128 * 1024;

impl ToolContext {
    /// Returns the session's list of tasks; empty if it has none.
    pub async fn todos(&self) -> Vec<Todo> {
        let list = self.session.get(Todo::FACT).await;
        // A list that cannot be read counts as empty (`docs/spec/interactive-tools.md` §1.3).
        list.and_then(|list| serde_json::from_value(list).ok())
            .unwrap_or_default()
    }

    /// Replaces the session's list of tasks, and announces it. It is stored no later than the end of the call.
    ///
    /// # Errors
    /// The call was cancelled meanwhile; the list is as it was.
    pub fn replace_todos(&self, todos: Vec<Todo>) -> Result<(), ToolError> {
        if self.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        self.session.replace_todos(todos);
        Ok(())
    }
}

/// Checks that a list is small enough to be kept.
///
/// # Errors
/// It has too many tasks, or too much text.
pub fn check_size(todos: &[Todo]) -> Result<(), ToolError> {
    if todos.len() > MAX_TODOS {
        return Err(ToolError::failed(format!(
            "The list has {} todos, and at most {MAX_TODOS} are kept. Merge small ones and leave out what is done.",
            todos.len()
        )));
    }
    let bytes: usize = todos.iter().map(text_bytes).sum();
    if bytes > MAX_BYTES {
        return Err(ToolError::failed(format!(
            "The todos have {bytes} bytes of text together, and at most {MAX_BYTES} are kept. Write them shorter."
        )));
    }
    Ok(())
}

fn text_bytes(todo: &Todo) -> usize {
    let id = todo.id.as_ref().map_or(0, String::len);
    todo.content.len() + todo.status.len() + todo.priority.len() + id
}

/// Returns a list as the result of a tool (`docs/spec/interactive-tools.md` §1.1).
///
/// # Errors
/// None that can happen: a list is JSON.
pub fn result(todos: &[Todo]) -> Result<ToolOutput, ToolError> {
    let open = todos.iter().filter(|todo| todo.status != "completed").count();
    let text = serde_json::to_string_pretty(todos).map_err(|error| ToolError::Internal(Box::new(error)))?;
    Ok(ToolOutput {
        // Never in the singular: clients know the title as OpenCode writes it.
        title: format!("{open} todos"),
        output: OutputText::Text(text),
        metadata: json_map([("todos", json!(todos))]),
        attachments: Vec::new(),
        result: None,
    })
}
