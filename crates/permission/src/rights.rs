//! What a call is judged by.
//!
//! *Invariant:* plain data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolgate_model::{Origin, Rule};

/// What a call is judged by. It is written in a form of its own, which is stored and read again by other releases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredRights", from = "StoredRights")]
pub struct Rights {
    /// The agent's rules.
    pub rules: Arc<[Rule]>,
    /// The rules of the calls on whose behalf it is made, the nearest first. Each holds as well.
    pub ancestors: Vec<Arc<[Rule]>>,
    /// The folder that relative paths among the patterns are relative to.
    pub worktree: Arc<Path>,
    /// In whose name it is made: nobody's own approval counts for it. Empty where nothing is made.
    pub requesters: Arc<[String]>,
}

impl Rights {
    /// Returns the same rights for a call that is made in these names.
    pub fn of_requesters(self, origin: &Origin) -> Self {
        Self {
            requesters: origin.requesters().into(),
            ..self
        }
    }

    /// Returns all rulesets that hold, the agent's own first.
    pub fn layers(&self) -> impl Iterator<Item = &[Rule]> {
        std::iter::once(&*self.rules).chain(self.ancestors.iter().map(|rules| &**rules))
    }
}

/// Rights as they are stored. A field that another release has added may take something away, so one that is not known is
/// an error.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRights {
    rules: Arc<[Rule]>,
    ancestors: Vec<Arc<[Rule]>>,
    worktree: PathBuf,
    requesters: Arc<[String]>,
}

impl From<Rights> for StoredRights {
    fn from(rights: Rights) -> Self {
        Self {
            rules: rights.rules,
            ancestors: rights.ancestors,
            worktree: rights.worktree.to_path_buf(),
            requesters: rights.requesters,
        }
    }
}

impl From<StoredRights> for Rights {
    fn from(stored: StoredRights) -> Self {
        Self {
            rules: stored.rules,
            ancestors: stored.ancestors,
            worktree: stored.worktree.into(),
            requesters: stored.requesters,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_model::Action;

    use super::*;

    #[test]
    fn rights_are_stored_in_a_form_that_stays() {
        let rule = |pattern: &str, action| Rule {
            permission: "bash".to_owned(),
            pattern: pattern.to_owned(),
            action,
        };
        let rights = Rights {
            rules: [rule("*", Action::Ask), rule("ls *", Action::Allow)].into(),
            ancestors: vec![[rule("rm *", Action::Deny)].into()],
            worktree: Path::new("/work").into(),
            requesters: ["token:ann".to_owned()].into(),
        };
        let stored = json!({
            "rules": [
                {"permission": "bash", "pattern": "*", "action": "ask"},
                {"permission": "bash", "pattern": "ls *", "action": "allow"},
            ],
            "ancestors": [[{"permission": "bash", "pattern": "rm *", "action": "deny"}]],
            "worktree": "/work",
            "requesters": ["token:ann"],
        });
        assert_eq!(serde_json::to_value(&rights).expect("it can be stored"), stored);
        let read: Rights = serde_json::from_value(stored.clone()).expect("it is read");
        assert_eq!(read, rights);
        let mut newer = stored.clone();
        newer["except"] = json!([]);
        assert!(
            serde_json::from_value::<Rights>(newer).is_err(),
            "what is not known is refused"
        );
        for field in ["rules", "ancestors", "worktree", "requesters"] {
            let mut cut = stored.clone();
            cut.as_object_mut().expect("an object").remove(field);
            assert!(serde_json::from_value::<Rights>(cut).is_err(), "without {field}");
        }
    }
}
