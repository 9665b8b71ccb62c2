//! Subagents as the tool that runs them sees them: which there are, who runs them, and what one run is given.
//!
//! *Invariant:* whoever runs the model is behind [`SubagentRunner`]. What a subagent may do is decided where its calls are
//! admitted, not by what is said here.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use toolgate_model::{Action, Attachment, JsonMap, Model, SessionId};
use toolgate_permission::agents::{Agent, Agents, Mode};
use toolgate_permission::rules;

use super::{ToolContext, ToolError};

/// The agents of one workspace, for the tool that gives them tasks. Clones share what [`Self::replace`] puts in.
#[derive(Clone, Debug, Default)]
pub struct Subagents {
    /// The agents, and how many tasks may hang on each other, as the configuration says now.
    listed: Arc<Mutex<(Arc<Agents>, usize)>>,
}

impl Subagents {
    /// Makes the list from a workspace's agents and the configured depth.
    pub fn new(agents: Arc<Agents>, max_depth: usize) -> Self {
        let listed = Arc::new(Mutex::new((agents, max_depth)));
        Self { listed }
    }

    /// Puts what a changed configuration says in the place of what was.
    pub fn replace(&self, agents: Arc<Agents>, max_depth: usize) {
        *self.listed.lock() = (agents, max_depth);
    }

    fn listed(&self) -> (Arc<Agents>, usize) {
        self.listed.lock().clone()
    }

    /// Returns how many tasks may hang on each other.
    pub fn max_depth(&self) -> usize {
        self.listed().1
    }

    /// Returns whom `caller` is told of: name, and when to use it.
    pub fn told_to(&self, caller: &str) -> Vec<(String, Option<String>)> {
        let (agents, _) = self.listed();
        let caller = agents.get(caller);
        let is_denied = |agent: &Agent| {
            let mut layers = caller.iter().flat_map(|caller| caller.layers());
            layers.any(|rules| rules::evaluate("task", &agent.name, &[rules]).0 == Action::Deny)
        };
        let listed = agents.iter();
        listed
            .filter(|agent| agent.mode != Mode::Primary && !agent.hidden && !is_denied(agent))
            .map(|agent| (agent.name.clone(), agent.description.clone()))
            .collect()
    }

    /// Returns an agent, if there is one of that name.
    pub fn find(&self, name: &str) -> Option<Arc<Agent>> {
        self.listed().0.get(name).cloned()
    }
}

/// What the engine prepares for a subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// Its session.
    pub session: SessionId,
    /// Whether the session goes on.
    pub resumed: bool,
    /// The model that it is to use, with everything that is known of it.
    pub model: Model,
    /// The tools that it is offered.
    pub allowed: Vec<String>,
    /// The others.
    pub denied: Vec<String>,
}

/// One run of a subagent.
#[derive(Clone, Debug, PartialEq)]
pub struct SubagentRun {
    /// What was prepared for it.
    pub delegated: Delegated,
    /// The agent.
    pub agent: String,
    /// Its own system prompt, or empty.
    pub agent_prompt: String,
    /// What it is to do, in a few words.
    pub description: String,
    /// What it is to do.
    pub prompt: String,
    /// The slash command behind it, or empty.
    pub command: String,
}

/// What a subagent came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubagentAnswer {
    /// The last text of its last message.
    pub text: String,
    /// What whoever ran it tells of the run.
    pub metadata: JsonMap,
    /// Files that belong to the answer.
    pub attachments: Vec<Attachment>,
}

/// Runs subagents: a front end that has models.
#[async_trait]
pub trait SubagentRunner: Send + Sync + 'static {
    /// Says whether any subagent can be run in a workspace at the moment.
    fn is_there(&self, workspace: &str) -> bool;

    /// Runs a subagent to its end, in the name of the call that `ctx` is of.
    ///
    /// # Errors
    /// Nobody is there to run it, the run failed, or the call was cancelled.
    async fn run(&self, run: SubagentRun, ctx: &ToolContext) -> Result<SubagentAnswer, ToolError>;
}
