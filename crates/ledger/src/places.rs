//! In which workspaces prompts and grants are that this run has seen.
//!
//! *Invariant:* the workspace of neither ever changes, so what is remembered holds; what is not is asked for.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use toolgate_model::{GrantId, PromptId};

/// Entries of each kind. Beyond that all are forgotten.
const MOST: usize = 10_000;

/// Workspaces by ids.
#[derive(Default)]
pub(crate) struct Places {
    prompts: Mutex<HashMap<PromptId, String>>,
    grants: Mutex<HashMap<GrantId, String>>,
}

fn remember<K: Eq + Hash>(all: &Mutex<HashMap<K, String>>, id: K, workspace: &str) {
    let mut all = all.lock();
    if all.len() >= MOST {
        all.clear();
    }
    all.insert(id, workspace.to_owned());
}

impl Places {
    pub(crate) fn saw_prompt(&self, id: &PromptId, workspace: &str) {
        remember(&self.prompts, id.clone(), workspace);
    }

    pub(crate) fn saw_grant(&self, id: &GrantId, workspace: &str) {
        remember(&self.grants, id.clone(), workspace);
    }

    pub(crate) fn of_prompt(&self, id: &PromptId) -> Option<String> {
        self.prompts.lock().get(id).cloned()
    }

    pub(crate) fn of_grant(&self, id: &GrantId) -> Option<String> {
        self.grants.lock().get(id).cloned()
    }
}
