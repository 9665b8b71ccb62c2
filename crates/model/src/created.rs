//! What workspaces are created from.

use serde::{Deserialize, Serialize};

/// What a workspace is created from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceSource {
    /// Nothing: an empty folder.
    #[default]
    Empty,
    /// A template of the operator's, by its name.
    Template(String),
    /// A repository of git.
    Git {
        /// Where it is.
        url: String,
        /// A branch or a tag; empty for what the repository says.
        #[serde(default)]
        reference: String,
    },
    /// An archive.
    Archive {
        /// Where it is.
        url: String,
    },
}
