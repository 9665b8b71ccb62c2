//! The vocabulary of an agent's list of tasks.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use serde::{Deserialize, Serialize};

/// One task of a session's list (`docs/spec/interactive-tools.md` §1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`; any other word is kept as it is.
    pub status: String,
    /// `high`, `medium` or `low`; any other word is kept as it is.
    pub priority: String,
    /// The model's own name for it, if it gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Todo {
    /// The session's fact that holds the list.
    pub const FACT: &str = "todos";
}
