//! What the configuration says of a workspace at the moment: it may change while the service runs.
//!
//! *Invariant:* it is put in as a whole, so nobody sees rules of one state and agents of another. A call keeps the rules that
//! it was admitted with.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_permission::agents::Agents;

use crate::run::truncate;

/// What is in force in a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InForce {
    /// The agents with their rules, in the order in which they are listed.
    pub agents: Arc<Agents>,
    /// The tools that subagents are not given.
    pub primary_tools: Vec<String>,
    /// How much of an output the model sees.
    pub truncation: truncate::Limits,
    /// The packages through which models are reached, by `provider/model` and by `provider`.
    pub packages: BTreeMap<String, String>,
    /// What a person should know of the configuration.
    pub warnings: Vec<String>,
    /// Why the configuration as it is now is not in force; told among the warnings, too.
    pub outdated: Option<String>,
    /// Why the workspace cannot be used at all: its configuration means nothing, and never meant anything to this run of
    /// the service.
    pub broken: Option<String>,
}

/// Holds what is in force.
#[derive(Debug, Default)]
pub struct Current(Mutex<Arc<InForce>>);

impl Current {
    /// Begins with this.
    pub fn new(in_force: InForce) -> Self {
        Self(Mutex::new(Arc::new(in_force)))
    }

    /// Returns what is in force now.
    pub fn get(&self) -> Arc<InForce> {
        self.0.lock().clone()
    }

    /// Puts this in the place of what was.
    pub fn put(&self, in_force: InForce) {
        *self.0.lock() = Arc::new(in_force);
    }
}
