//! The workspaces with their tools, agents and rules, and what these mean for a call.
//!
//! Workspaces come and go while the service runs. Whoever has found one keeps it: it is closed for new calls first, and
//! taken from here when its calls have ended.
//!
//! *Invariant:* reads what is in force at the moment; knows nothing of running calls, logs and prompts. No two workspaces
//! have the same name, and the first one stays.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_model::{CallRecord, Definition, Delegation, Origin, Rule, Timestamp, WorkspaceSource};
use toolgate_permission::Rights;
use toolgate_permission::agents::Agent;
use toolgate_tool::Catalog;
use toolgate_tool::registry::{Entry, Registry};
use toolgate_tool::{Offer, dialect};

use crate::admission::refusal::AdmitError;
use crate::held::{Held, Waker};
use crate::in_force::{Current, InForce};
use crate::stranded::Stranded;
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
    /// Whether it takes calls.
    pub gate: Gate,
    /// Who opened it, if that was done while a service ran; none for one of the configuration.
    pub opened: Option<OpenedBy>,
}

/// Who opened a workspace, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedBy {
    /// The principal, or empty without authentication.
    pub by: String,
    /// When.
    pub time: Timestamp,
    /// What it was created from; none if it was there, and only opened.
    pub source: Option<WorkspaceSource>,
}

/// Whether a workspace takes calls. It is closed once, under the lock of the map of calls, so a call is either in that map
/// then, or refused.
#[derive(Debug, Default)]
pub struct Gate {
    closing: CancellationToken,
    held: Option<Held>,
}

impl Gate {
    /// Makes the gate of a workspace that is known, and that nothing can be done in.
    pub fn held(held: Held) -> Self {
        Self {
            closing: CancellationToken::new(),
            held: Some(held),
        }
    }

    /// Returns why nothing can be done in the workspace, if that is so from the beginning.
    pub fn hold(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Returns what is cancelled when the workspace is closed, for whoever looks at it for long.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Says whether the workspace is closed, or about to be.
    pub fn is_closed(&self) -> bool {
        self.closing.is_cancelled()
    }
}

impl WorkspaceRuntime {
    /// Returns the rights of an agent here.
    pub fn rights(&self, agent: &Agent) -> Rights {
        Rights {
            rules: agent.rules.clone().into(),
            ancestors: agent.at_most.iter().map(|rules| rules.as_slice().into()).collect(),
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

    /// Returns the rulesets of an agent that may be run by a task.
    fn layers(&self, agent: &str, in_task: bool) -> Option<Vec<Arc<[Rule]>>> {
        let now = self.now();
        let agent = now.agents.get(agent)?;
        Some(rights::layers(agent, &now.primary_tools, in_task))
    }

    /// Returns what is in force at the moment.
    pub fn now(&self) -> Arc<InForce> {
        self.in_force.get()
    }

    /// Returns whether the workspace takes calls.
    ///
    /// # Errors
    /// Its configuration cannot be used, or it is closed.
    pub fn usable(&self) -> Result<(), AdmitError> {
        if self.gate.is_closed() {
            return Err(AdmitError::ClosedWorkspace(self.workspace.name().to_owned()));
        }
        if let Some(held) = self.gate.hold().filter(|held| !matches!(held, Held::Failed(_))) {
            return Err(AdmitError::HeldWorkspace {
                name: self.workspace.name().to_owned(),
                held: held.clone(),
            });
        }
        self.problem().map_or(Ok(()), |problem| {
            Err(AdmitError::BrokenWorkspace {
                name: self.workspace.name().to_owned(),
                problem,
            })
        })
    }

    /// Returns why the workspace takes no calls, if it is broken.
    pub fn problem(&self) -> Option<String> {
        match self.gate.hold() {
            Some(Held::Failed(problem)) => return Some(problem.clone()),
            Some(Held::Creating | Held::Suspended { .. } | Held::Deleting) => return None,
            None => {}
        }
        if let Some(problem) = &self.now().broken {
            return Some(problem.clone());
        }
        // The folders of the configuration are the operator's; one that a client named may be swapped by others.
        let is_swapped = self.opened.is_some() && !self.workspace.is_in_place();
        is_swapped.then(|| {
            format!(
                "its folder {} is gone, or a link stands in its place: put it back, or open the workspace again",
                self.workspace.directory().display()
            )
        })
    }

    /// Returns the workspace as somebody sees it who works in a folder of it, and that folder relative to its directory.
    fn starting_in(&self, directory: &str) -> Option<(Arc<Workspace>, String)> {
        if directory.is_empty() {
            return Some((self.workspace.clone(), String::new()));
        }
        let (workspace, relative) = self.workspace.starting_in(Path::new(directory))?;
        Some((Arc::new(workspace), relative))
    }

    /// Returns the workspace as somebody sees it who works where a call does, and notes where that is.
    ///
    /// # Errors
    /// The folder is none of the workspace.
    pub(crate) async fn working_in(self: &Arc<Self>, origin: &mut Origin) -> Result<Arc<Workspace>, AdmitError> {
        if origin.directory.is_empty() {
            return Ok(self.workspace.clone());
        }
        let (place, directory) = (self.clone(), origin.directory.clone());
        let found = tokio::task::spawn_blocking(move || place.starting_in(&directory)).await;
        // A look that panicked found nothing.
        let Some((workspace, relative)) = found.ok().flatten() else {
            return Err(AdmitError::BadDirectory(origin.directory.clone()));
        };
        origin.directory = relative;
        Ok(workspace)
    }

    /// Finds an agent as it is now.
    pub fn agent(&self, name: &str) -> Option<Arc<Agent>> {
        self.now().agents.get(name).cloned()
    }
}

/// What a call is run again with.
pub(crate) struct Restart {
    pub(crate) place: Arc<WorkspaceRuntime>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) rights: Rights,
    pub(crate) registry: Arc<Registry>,
    pub(crate) entry: Entry,
}

/// The workspaces of one engine.
pub struct Catalogs {
    /// In the order in which they were opened. Replaced as a whole.
    places: RwLock<Arc<[Arc<WorkspaceRuntime>]>>,
    /// Who resumes those that are suspended, if anybody does.
    waker: OnceLock<Arc<dyn Waker>>,
}

impl Catalogs {
    /// The first workspace is the default one.
    pub(crate) fn new(places: Vec<WorkspaceRuntime>) -> Self {
        Self {
            places: RwLock::new(places.into_iter().map(Arc::new).collect()),
            waker: OnceLock::new(),
        }
    }

    /// Lets somebody resume workspaces that are suspended. Once; whoever comes later is not asked.
    pub fn wake_with(&self, waker: Arc<dyn Waker>) {
        // There is one service to an engine.
        let _ = self.waker.set(waker);
    }

    /// Says whether a workspace is one in which nothing can be done at the moment.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.find(name).is_some_and(|place| place.gate.hold().is_some())
    }

    /// Has a workspace resumed that is suspended, if there is somebody who does, and does not wait for it.
    pub(crate) fn rouse(&self, name: &str) {
        let place = self.find(name).filter(|place| place.gate.hold().is_some());
        if let (Some(place), Some(waker)) = (place, self.waker.get()) {
            waker.rouse(place.workspace.name());
        }
    }

    /// Finds a workspace, and waits a moment for one that is about to be there. One that is suspended is resumed for it.
    pub async fn awake(&self, name: &str) -> Option<Arc<WorkspaceRuntime>> {
        let place = self.find(name)?;
        match (place.gate.hold(), self.waker.get()) {
            (Some(held), Some(waker)) if held.may_pass() => {
                let name = place.workspace.name();
                waker.wait(name).await;
                self.find(name)
            }
            (Some(_) | None, _) => Some(place),
        }
    }

    /// Returns the workspaces that are there at the moment; the first is the default.
    pub fn all(&self) -> Arc<[Arc<WorkspaceRuntime>]> {
        self.places.read().clone()
    }

    /// Adds a workspace, after all others. If there is one of its name, it takes the place of that.
    pub fn add(&self, place: WorkspaceRuntime) -> Arc<WorkspaceRuntime> {
        let place = Arc::new(place);
        let mut places = self.places.write();
        let others = places
            .iter()
            .filter(|other| other.workspace.name() != place.workspace.name());
        let all = others.chain([&place]).cloned().collect();
        *places = all;
        place
    }

    /// Takes a workspace away.
    pub fn remove(&self, place: &Arc<WorkspaceRuntime>) {
        let mut places = self.places.write();
        let left = places.iter().filter(|other| !Arc::ptr_eq(other, place));
        let left = left.cloned().collect();
        *places = left;
    }

    /// Finds a workspace by name; an empty name means the default one.
    pub fn find(&self, name: &str) -> Option<Arc<WorkspaceRuntime>> {
        let places = self.places.read();
        if name.is_empty() {
            return places.first().cloned();
        }
        places.iter().find(|place| place.workspace.name() == name).cloned()
    }

    /// Finds the workspace in which a call is to be made.
    pub(crate) async fn expect(&self, name: &str) -> Result<Arc<WorkspaceRuntime>, AdmitError> {
        self.awake(name).await.ok_or_else(|| AdmitError::UnknownWorkspace {
            name: name.to_owned(),
            known: self
                .all()
                .iter()
                .map(|place| place.workspace.name().to_owned())
                .collect(),
        })
    }

    /// Returns the rights of a call: those of its agent, as far as all calls above it have them.
    pub(crate) fn rights(&self, place: &WorkspaceRuntime, caller: &Delegation, ancestors: &[Delegation]) -> Rights {
        rights::combine(caller, ancestors, place.workspace.worktree(), |delegation| {
            self.find(&delegation.workspace)?
                .layers(&delegation.agent, delegation.in_task)
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
        let rights = self.rights_of(&place, record);
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
            let rights = self.rights_of(&place, record);
            let registry = place.tools.current();
            registry
                .resolve(&record.tool, &place.offer_for(&record.origin), &rights)
                .is_some()
        })
    }

    /// Returns what a call that waits for a person could be run again with.
    ///
    /// # Errors
    /// It could not, and why.
    pub(crate) fn restart(&self, record: &CallRecord) -> Result<Restart, Stranded> {
        let place = self.find(&record.origin.workspace);
        let place = place
            .filter(|place| !place.gate.is_closed())
            .ok_or(Stranded::NoWorkspace)?;
        self.restart_in(place, record)
    }

    /// As [`Self::restart`], in a workspace of the call's that may be closed.
    ///
    /// # Errors
    /// It could not, and why.
    pub(crate) fn restart_in(&self, place: Arc<WorkspaceRuntime>, record: &CallRecord) -> Result<Restart, Stranded> {
        place.agent(&record.origin.agent).ok_or(Stranded::NoAgent)?;
        let rights = self.rights_of(&place, record).of_requesters(&record.origin);
        let registry = place.tools.current();
        let entry = registry.resolve(&record.tool, &place.offer_for(&record.origin), &rights);
        let entry = entry.ok_or(Stranded::NoTool)?.clone();
        let resumable = entry.tool.properties().resumable;
        // A workspace of the same name may be another folder by now.
        let now = place.workspace.directory().to_string_lossy();
        if record.directory != now {
            return Err(Stranded::OtherFolder {
                now: now.into_owned(),
                is_untouched: resumable,
            });
        }
        if !resumable {
            return Err(Stranded::NotResumable);
        }
        let (workspace, _) = place
            .starting_in(&record.origin.directory)
            .ok_or(Stranded::NoDirectory)?;
        Ok(Restart {
            place,
            workspace,
            rights,
            registry,
            entry,
        })
    }
}
