//! The workspaces with their tools, agents and rules, and what these mean for a call.
//!
//! *Invariant:* reads what is in force at the moment; knows nothing of running calls, logs and prompts.

use std::sync::Arc;

use toolgate_fs::Workspace;
use toolgate_model::{CallRecord, Definition, Delegation, Origin, Rule};
use toolgate_permission::Rights;
use toolgate_permission::agents::Agent;
use toolgate_tool::Catalog;
use toolgate_tool::registry::{Entry, Registry};
use toolgate_tool::{Offer, dialect};

use crate::admission::refusal::AdmitError;
use crate::in_force::{Current, InForce};
use crate::subagent::rights;

/// A workspace with everything that calls in it need.
pub struct WorkspaceRuntime {
    /// The folders.
    pub workspace: Arc<Workspace>,
    /// The tools.
    pub tools: Arc<Catalog>,
    /// The kind of a client that does not say what it is.
    pub default_client: String,
    /// Whether code that the project brings is run.
    pub trusted: bool,
    /// What its configuration says now.
    pub in_force: Current,
}

impl WorkspaceRuntime {
    /// Returns the rights of an agent here.
    pub fn rights(&self, agent: &Agent) -> Rights {
        Rights {
            rules: agent.rules.clone().into(),
            ancestors: Vec::new(),
            worktree: self.workspace.worktree().into(),
            requesters: Arc::default(),
        }
    }

    /// Returns the definitions of the tools as the model of an agent with these rights gets them.
    pub async fn offered(&self, offer: &Offer<'_>, rights: &Rights) -> Vec<Definition> {
        self.tools.settled().await;
        let registry = self.tools.current();
        registry.refresh().await;
        let definitions = registry.hooks().definitions(registry.offered(offer, rights)).await;
        // Last: what a hook writes is sent to the provider as well.
        definitions
            .into_iter()
            .map(|definition| dialect::adapt(definition, offer.model))
            .collect()
    }

    /// Returns the kind of client that is meant by what a client says, possibly nothing.
    pub fn client_kind<'a>(&'a self, said: &'a str) -> &'a str {
        if said.is_empty() { &self.default_client } else { said }
    }

    /// Returns for whom the tools of a call are listed.
    pub(crate) fn offer_for<'a>(&'a self, origin: &'a Origin) -> Offer<'a> {
        Offer {
            workspace: &self.workspace,
            agent: &origin.agent,
            model: &origin.model,
            client: self.client_kind(&origin.client),
            rights: None,
        }
    }

    /// Returns the rules of an agent that may be run by a task.
    fn layer(&self, agent: &str, in_task: bool) -> Option<Arc<[Rule]>> {
        let now = self.now();
        let agent = now.agents.get(agent)?;
        Some(rights::layer(&agent.rules, &now.primary_tools, in_task))
    }

    /// Returns what is in force at the moment.
    pub fn now(&self) -> Arc<InForce> {
        self.in_force.get()
    }

    /// Returns whether the workspace takes calls.
    ///
    /// # Errors
    /// Its configuration cannot be used.
    pub fn usable(&self) -> Result<(), AdmitError> {
        self.now().broken.as_ref().map_or(Ok(()), |problem| {
            Err(AdmitError::BrokenWorkspace {
                name: self.workspace.name().to_owned(),
                problem: problem.clone(),
            })
        })
    }

    /// Finds an agent as it is now.
    pub fn agent(&self, name: &str) -> Option<Arc<Agent>> {
        self.now().agents.get(name).cloned()
    }
}

/// What a call is run again with.
pub(crate) struct Restart<'a> {
    pub(crate) place: &'a WorkspaceRuntime,
    pub(crate) rights: Rights,
    pub(crate) registry: Arc<Registry>,
    pub(crate) entry: Entry,
}

/// The workspaces of one engine.
pub struct Catalogs {
    places: Vec<WorkspaceRuntime>,
}

impl Catalogs {
    /// The first workspace is the default one.
    pub(crate) fn new(places: Vec<WorkspaceRuntime>) -> Self {
        Self { places }
    }

    /// Returns the workspaces; the first is the default.
    pub fn all(&self) -> &[WorkspaceRuntime] {
        &self.places
    }

    /// Finds a workspace by name; an empty name means the default one.
    pub fn find(&self, name: &str) -> Option<&WorkspaceRuntime> {
        if name.is_empty() {
            return self.places.first();
        }
        self.places.iter().find(|place| place.workspace.name() == name)
    }

    /// Finds the workspace in which a call is to be made.
    pub(crate) fn expect(&self, name: &str) -> Result<&WorkspaceRuntime, AdmitError> {
        self.find(name).ok_or_else(|| AdmitError::UnknownWorkspace {
            name: name.to_owned(),
            known: self
                .places
                .iter()
                .map(|place| place.workspace.name().to_owned())
                .collect(),
        })
    }

    /// Returns the rights of a call: those of its agent, as far as all calls above it have them.
    pub(crate) fn rights(&self, place: &WorkspaceRuntime, caller: &Delegation, ancestors: &[Delegation]) -> Rights {
        rights::combine(caller, ancestors, place.workspace.worktree(), |delegation| {
            self.find(&delegation.workspace)?
                .layer(&delegation.agent, delegation.in_task)
        })
    }

    /// Returns the rights of a recorded call.
    pub(crate) fn rights_of(&self, place: &WorkspaceRuntime, record: &CallRecord) -> Rights {
        self.rights(place, &rights::delegation_of(record), &record.ancestors)
    }

    /// Returns the rights of an agent that works on behalf of a call.
    pub(crate) fn rights_below(&self, place: &WorkspaceRuntime, agent: &str, parent: &CallRecord) -> Rights {
        let (caller, ancestors) = rights::descend(place.workspace.name(), agent, Some(parent));
        self.rights(place, &caller, &ancestors)
    }

    /// Returns whether what a call runs without a person's approval is confined to what its judged parts need: if its agent
    /// or one above it asks for that, or is not known.
    pub(crate) fn has_walls(&self, record: &CallRecord) -> bool {
        let caller = rights::delegation_of(record);
        std::iter::once(&caller).chain(&record.ancestors).any(|delegation| {
            let agent = self
                .find(&delegation.workspace)
                .and_then(|place| place.agent(&delegation.agent));
            agent.is_none_or(|agent| agent.has_walls)
        })
    }

    /// Returns whether the agent of a call may call a tool of exactly this name; if not, the error has the names that it
    /// may call.
    pub(crate) fn may_call(&self, record: &CallRecord, tool: &str) -> Result<(), Vec<String>> {
        let Some(place) = self.find(&record.origin.workspace) else {
            return Err(Vec::new());
        };
        let rights = self.rights_of(place, record);
        let offer = place.offer_for(&record.origin);
        let registry = place.tools.current();
        match registry.resolve(tool, &offer, &rights) {
            Some(entry) if entry.tool.name() == tool => Ok(()),
            Some(_) | None => Err(registry.callable_names(&offer, &rights).split_off(1)),
        }
    }

    /// Returns whether the tool of a call is there.
    pub(crate) fn has_tool(&self, record: &CallRecord) -> bool {
        self.find(&record.origin.workspace).is_some_and(|place| {
            let rights = self.rights_of(place, record);
            let registry = place.tools.current();
            registry
                .resolve(&record.tool, &place.offer_for(&record.origin), &rights)
                .is_some()
        })
    }

    /// Returns what a call that waits for a person could be run again with; none if it could not.
    pub(crate) fn restart(&self, record: &CallRecord) -> Option<Restart<'_>> {
        let place = self.find(&record.origin.workspace)?;
        place.agent(&record.origin.agent)?;
        let rights = self.rights_of(place, record).of_requesters(&record.origin);
        let registry = place.tools.current();
        let entry = registry.resolve(&record.tool, &place.offer_for(&record.origin), &rights)?;
        // A workspace of the same name may be another folder by now.
        let same_place = record.directory == place.workspace.directory().to_string_lossy();
        let entry = (same_place && entry.tool.properties().resumable).then(|| entry.clone())?;
        Some(Restart {
            place,
            rights,
            registry,
            entry,
        })
    }
}
