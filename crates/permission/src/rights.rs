//! What a call is judged by.
//!
//! *Invariant:* plain data.

use std::path::Path;
use std::sync::Arc;

use toolgate_model::{Origin, Rule};

/// What a call is judged by.
#[derive(Clone, Debug)]
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
