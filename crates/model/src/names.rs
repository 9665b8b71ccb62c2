//! What names a session or a call beside its id: the workspace, and the connection.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use serde::{Deserialize, Serialize};

use super::{CallId, Origin, SessionId};

/// In the `extra` of a call: over which connection of its client it was made. A session may outlive connections, and what is
/// asked again over another one is no repetition.
pub const CONNECTION: &str = "mcpConnection";

/// A session where it is: the same id in another workspace is another session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// The workspace's name.
    pub workspace: String,
    /// The session's id.
    pub session: SessionId,
}

impl SessionKey {
    /// Names a session of a workspace.
    pub fn new(workspace: &str, session: &SessionId) -> Self {
        Self {
            workspace: workspace.to_owned(),
            session: session.clone(),
        }
    }
}

/// Stands in no id that a client may choose.
const WITHIN: char = '~';
const AFTER_WITHIN: char = '\x7f';

impl CallId {
    /// Returns the id that a call has which clients call so, if a call of a workspace that they do not see has the name.
    pub fn within(&self, workspace: &str) -> Self {
        Self::new(format!("{}{WITHIN}{workspace}", self.name()))
    }

    /// Returns the workspace that is part of it, if one is.
    pub fn workspace(&self) -> Option<&str> {
        self.as_str().split_once(WITHIN).map(|(_, workspace)| workspace)
    }

    /// Returns texts between which all ids are that clients call so and that name a workspace.
    pub fn range_within(&self) -> (String, String) {
        let name = self.name();
        (format!("{name}{WITHIN}"), format!("{name}{AFTER_WITHIN}"))
    }

    /// Returns what clients call it.
    pub fn name(&self) -> &str {
        self.as_str().split_once(WITHIN).map_or(self.as_str(), |(name, _)| name)
    }
}

impl Origin {
    /// Returns the session where it is.
    pub fn session_key(&self) -> SessionKey {
        SessionKey::new(&self.workspace, &self.session)
    }

    /// Says whether this is of a session of a workspace.
    pub fn is_of(&self, key: &SessionKey) -> bool {
        (&self.workspace, &self.session) == (&key.workspace, &key.session)
    }
}
