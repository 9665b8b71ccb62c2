//! What approvers listen to, as processes that share a store tell each other.
//!
//! *Invariant:* plain data. An interest that cannot be read is none.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolgate_model::{SessionId, WorkspaceSet};

/// What an approver who may answer listens to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interest {
    /// The workspaces.
    #[serde(serialize_with = "entries", deserialize_with = "workspaces")]
    pub workspaces: WorkspaceSet,
    /// Any of these sessions; all if empty, unless clients are named.
    pub sessions: Vec<SessionId>,
    /// Whether each prompt is shown once, as a form, to whoever made the call.
    pub forms: bool,
    /// Calls of any of these clients beside those of the sessions.
    pub clients: Vec<String>,
}

fn entries<S: Serializer>(workspaces: &WorkspaceSet, serializer: S) -> Result<S::Ok, S::Error> {
    workspaces.entries().serialize(serializer)
}

fn workspaces<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WorkspaceSet, D::Error> {
    let entries: Option<Vec<String>> = Deserialize::deserialize(deserializer)?;
    match entries {
        None => Ok(WorkspaceSet::ALL),
        Some(entries) if entries.is_empty() => Ok(WorkspaceSet::of_names([])),
        Some(entries) => WorkspaceSet::parse(entries.iter().map(String::as_str)).map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let some = WorkspaceSet::parse(["a", "b/*"]).unwrap();
        for workspaces in [WorkspaceSet::ALL, WorkspaceSet::of_names([]), some] {
            let interest = Interest {
                workspaces,
                sessions: vec![SessionId::from("s")],
                forms: true,
                clients: vec!["c".to_owned()],
            };
            let json = serde_json::to_string(&interest).unwrap();
            assert_eq!(serde_json::from_str::<Interest>(&json).unwrap(), interest);
        }
    }
}
