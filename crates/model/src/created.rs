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

impl WorkspaceSource {
    /// Returns it as it may be shown: the query of an archive's address often lets whoever has it get the archive.
    #[must_use]
    pub fn shown(&self) -> Self {
        match self {
            Self::Archive { url } => Self::Archive {
                url: url.split(['?', '#']).next().unwrap_or_default().to_owned(),
            },
            Self::Empty | Self::Template(_) | Self::Git { .. } => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_of_an_archive_is_not_shown() {
        let archive = |url: &str| WorkspaceSource::Archive { url: url.to_owned() };
        let shown = archive("https://a.example/b.tar?key=1#c").shown();
        assert_eq!(shown, archive("https://a.example/b.tar"));
        assert_eq!(shown.shown(), shown);
    }
}
