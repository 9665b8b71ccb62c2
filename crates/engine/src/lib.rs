//! The life of a call: admit, run, end; and the cursors that watch it.
//!
//! *Invariant:* imports `call`, `tool`, `permission`, `store`, `workspace`; never a concrete tool, nothing of the wire.
//! A call exists once its record is durable; from then on it has exactly one end, whatever happens to its tool, its
//! clients or the service.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod admit;
mod afterwards;
mod announce;
mod catalog;
mod child;
mod cursor;
mod decided;
mod delegate;
mod edit;
mod ending;
mod handover;
mod in_force;
mod input;
mod late;
mod left;
mod lineage;
mod live;
mod lossy;
mod measure;
mod notice;
pub mod outputs;
mod port;
pub mod prompts;
mod queue;
mod recent;
mod recording;
mod refusal;
mod reserve;
mod row;
mod run;
mod stdin;
pub mod truncate;
mod turns;
mod writer;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_fs::Workspace;
use toolgate_model::redact::Redactor;
use toolgate_model::{
    CallId, CallRecord, Definition, Delegation, EndReason, InstanceId, Origin, Rule, ServiceEvent, ServiceEventKind,
    SessionKey, Timestamp, Todo,
};
use toolgate_permission::Rights;
use toolgate_permission::agents::Agent;
use toolgate_store::audit::RefusalSampler;
use toolgate_store::{CallFilter, Page, PageRequest, Store, StoreError};
use toolgate_telemetry::Telemetry;
use toolgate_tool::{Catalog, Offer, dialect};

pub use admit::Started;
pub use catalog::record_tool_changes;
pub use cursor::{Cursor, Item, OutputMode, WatchError};
pub use in_force::{Current, InForce};
pub use left::LeftRunning;
pub use live::Attached;
pub use notice::DrainNotice;
pub use queue::RunLimits;
pub use refusal::AdmitError;
pub use stdin::{InputError, InputState, MAX_WAITING_INPUT};

use self::live::{LiveCall, lock};
use self::turns::Turns;
use crate::prompts::broker::Broker;

/// How long a call that was asked to stop may take before its tool is dropped.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Sessions whose last calls are remembered for the loop question; beyond that the oldest are read from the store.
const SESSIONS_REMEMBERED: usize = 4096;

/// Returns the SHA-256 of a value's canonical JSON (RFC 8785), 64 hexadecimal digits.
pub fn digest_of(value: &serde_json::Value) -> String {
    input::sha256_hex(input::canonical(value).as_bytes())
}

/// A workspace with everything that calls in it need.
pub struct WorkspaceRuntime {
    /// The folders.
    pub workspace: Arc<Workspace>,
    /// The tools.
    pub tools: Arc<Catalog>,
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

    /// Returns what the model of an agent with these rights is told of the tools.
    pub async fn offered(&self, offer: &Offer<'_>, rights: &Rights) -> Vec<Definition> {
        self.tools.settled().await;
        let registry = self.tools.current();
        registry.refresh().await;
        let told = registry.hooks().definitions(registry.offered(offer, rights)).await;
        // Last: what a hook writes is sent to the provider as well.
        told.into_iter()
            .map(|definition| dialect::adapt(definition, offer.model))
            .collect()
    }

    /// Returns the rules of an agent that may be run by a task.
    fn layer(&self, agent: &str, in_task: bool) -> Option<Arc<[Rule]>> {
        let now = self.now();
        let agent = now.agents.get(agent)?;
        Some(lineage::layer(&agent.rules, &now.primary_tools, in_task))
    }

    /// Returns what is in force at the moment.
    pub fn now(&self) -> Arc<InForce> {
        self.in_force.get()
    }

    /// Says whether the workspace takes calls.
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

/// What one service allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls that run, and that wait for their turn.
    pub running: RunLimits,
    /// Bytes of one call's input.
    pub max_input_bytes: usize,
    /// Bytes of one call's output.
    pub max_output_bytes: u64,
    /// Bytes of one call's files, before and after, that are kept so that it can be reverted.
    pub max_undo_bytes: u64,
}

/// What an engine works beside.
#[derive(Clone, Default)]
pub struct EngineDeps {
    /// Whoever starts programs.
    pub background: Option<Arc<dyn LeftRunning>>,
    /// Keeps secrets out of what calls show.
    pub redactor: Redactor,
    /// What calls are counted and traced with.
    pub telemetry: Telemetry,
}

/// Runs calls.
pub struct Engine {
    store: Arc<dyn Store>,
    broker: Arc<Broker>,
    instance: InstanceId,
    places: Vec<WorkspaceRuntime>,
    limits: Limits,
    background: Option<Arc<dyn LeftRunning>>,
    redactor: Redactor,
    telemetry: Telemetry,
    /// Keeps the record of refusals small.
    door: RefusalSampler,
    /// Calls that run in this process, or are about to.
    live: Mutex<HashMap<CallId, Arc<LiveCall>>>,
    /// Which of them may run.
    turns: Arc<Turns>,
    /// The last calls of each session; the loop question reads it.
    recent_calls: Mutex<HashMap<SessionKey, row::Row>>,
    tasks: TaskTracker,
    /// Parent of every call's stop token.
    stop_all: CancellationToken,
    /// What is kept of the recent logs of all calls.
    recent: Arc<recent::Memory>,
    /// Ends the attempts to store what the store does not take.
    closing: CancellationToken,
    /// Ended calls that are listened to take one each.
    listening: Semaphore,
    /// Ends the listening to ended calls.
    leaving: CancellationToken,
    /// No new calls are taken.
    draining: CancellationToken,
    /// Nothing runs any more.
    over: CancellationToken,
    /// There is a next run of the service, which goes on with what this one leaves.
    stays: AtomicBool,
    /// A call came to a question or went on from it, or does not run any more.
    changed: Notify,
}

impl Engine {
    /// Makes an engine. The first place is the default workspace.
    pub fn new(
        store: Arc<dyn Store>,
        broker: Arc<Broker>,
        instance: InstanceId,
        places: Vec<WorkspaceRuntime>,
        limits: Limits,
        beside: EngineDeps,
    ) -> Arc<Self> {
        let EngineDeps {
            background,
            redactor,
            telemetry,
        } = beside;
        Arc::new(Self {
            store,
            broker,
            instance,
            places,
            limits,
            background,
            redactor,
            telemetry,
            door: RefusalSampler::default(),
            live: Mutex::default(),
            turns: Turns::new(limits.running),
            recent_calls: Mutex::default(),
            tasks: TaskTracker::new(),
            stop_all: CancellationToken::new(),
            recent: Arc::default(),
            closing: CancellationToken::new(),
            listening: Semaphore::new(afterwards::MOST_CALLS),
            leaving: CancellationToken::new(),
            draining: CancellationToken::new(),
            over: CancellationToken::new(),
            stays: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Returns the workspaces; the first is the default.
    pub fn places(&self) -> &[WorkspaceRuntime] {
        &self.places
    }

    /// Finds a workspace by name; an empty name means the default one.
    pub fn place(&self, name: &str) -> Option<&WorkspaceRuntime> {
        if name.is_empty() {
            return self.places.first();
        }
        self.places.iter().find(|place| place.workspace.name() == name)
    }

    /// Returns the rights of a call: those of its agent, as far as all calls above it have them.
    fn rights_of(&self, place: &WorkspaceRuntime, own: &Delegation, ancestors: &[Delegation]) -> Rights {
        lineage::rights(own, ancestors, place.workspace.worktree(), |delegation| {
            self.place(&delegation.workspace)?
                .layer(&delegation.agent, delegation.in_task)
        })
    }

    /// Says whether what a call runs without a person's approval is held to what its judged parts need: if its agent
    /// or one above it asks for that, or is not known.
    fn has_walls(&self, own: &Delegation, ancestors: &[Delegation]) -> bool {
        std::iter::once(own).chain(ancestors).any(|delegation| {
            let agent = self
                .place(&delegation.workspace)
                .and_then(|place| place.agent(&delegation.agent));
            agent.is_none_or(|agent| agent.has_walls)
        })
    }

    /// Returns what the service allows.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns this run of the service.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Returns the broker of permission prompts.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns how many calls run or wait.
    pub fn running(&self) -> usize {
        lock(&self.live).len()
    }

    /// Returns how many of them wait for their turn.
    pub fn queued(&self) -> usize {
        self.turns.waiting()
    }

    /// Returns the record of a call, as far as it is known at this moment.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        let live = lock(&self.live).get(id).cloned();
        let record = match live.map(|call| call.record()) {
            Some(record) if record.last_sequence > 0 => Some((*record).clone()),
            Some(_) | None => self.store.get(id).await?,
        };
        Ok(record.map(|record| self.shown(record)))
    }

    /// Returns whose a call is, also of one that is not recorded yet.
    ///
    /// # Errors
    /// The store failed.
    pub async fn origin_of(&self, id: &CallId) -> Result<Option<Origin>, StoreError> {
        let live = lock(&self.live).get(id).cloned();
        match live {
            Some(call) => Ok(Some(call.record().origin.clone())),
            None => Ok(self.store.get(id).await?.map(|record| record.origin)),
        }
    }

    /// Returns the workspace of a call, also of one that is not recorded yet.
    ///
    /// # Errors
    /// The store failed.
    pub async fn workspace_of(&self, id: &CallId) -> Result<Option<String>, StoreError> {
        Ok(self.origin_of(id).await?.map(|origin| origin.workspace))
    }

    /// Returns the calls of a name in the workspaces that somebody sees. It is more than one only where clients that do not
    /// see each other's workspaces chose the same.
    ///
    /// # Errors
    /// The store failed.
    pub async fn named(&self, id: &CallId, sees: impl Fn(&str) -> bool) -> Result<Vec<CallId>, StoreError> {
        let name = CallId::from(id.name());
        let mut found = self.store.namesakes(&name).await?;
        let places = self.places.iter().map(|place| name.within(place.workspace.name()));
        let live: Vec<CallId> = {
            let live = lock(&self.live);
            places.filter(|id| live.contains_key(id)).collect()
        };
        found.extend(live);
        found.push(name);
        found.sort();
        found.dedup();
        let mut seen = Vec::new();
        for one in found {
            let workspace = self.workspace_of(&one).await?;
            let is_meant = |workspace: &String| id.workspace().is_none_or(|meant| meant == workspace);
            if workspace.is_some_and(|workspace| sees(&workspace) && is_meant(&workspace)) {
                seen.push(one);
            }
        }
        Ok(seen)
    }

    /// Takes secrets out of what of a record is shown. Stored, the input is what runs, also after a restart.
    fn shown(&self, mut record: CallRecord) -> CallRecord {
        self.redactor.string(&mut record.input_json);
        record
    }

    /// Lists calls, newest first.
    ///
    /// # Errors
    /// The store failed, or the page token is not one of its own.
    pub async fn list(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
        let mut page = self.store.list_calls(filter, page).await?;
        page.items = page.items.into_iter().map(|record| self.shown(record)).collect();
        Ok(page)
    }

    /// Asks a call to stop, waits for its end and returns it. `None` if there is no such call; a call of another
    /// running service is returned as it is, not ended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn cancel(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        let live = lock(&self.live).get(id).cloned();
        if let Some(call) = live {
            call.stop(EndReason::Cancelled);
            let mut progress = call.watch();
            // The sender lives in `call`, so this ends only with the call.
            let _ = progress.wait_for(|progress| progress.ended).await;
        }
        self.end_left_by(id).await;
        self.get(id).await
    }

    /// Sends input to a running call: see [`InputState`]. Never waits for the program that reads it.
    ///
    /// # Errors
    /// Nothing was accepted: see [`InputError`].
    pub async fn send_input(
        &self,
        id: &CallId,
        offset: u64,
        data: Bytes,
        close: bool,
    ) -> Result<InputState, InputError> {
        let live = lock(&self.live).get(id).cloned();
        if let Some(call) = live.filter(|call| !call.record().state.is_terminal()) {
            let Some(stdin) = call.stdin.get() else {
                let tool = call.record().tool.clone();
                return Err(InputError::NotTaken { call: id.clone(), tool });
            };
            return stdin.send(offset, data, close);
        }
        let call = id.clone();
        Err(match self.get(id).await? {
            None => InputError::NotFound(call),
            Some(record) if record.state.is_terminal() || record.owner == self.instance => InputError::Ended(call),
            Some(record) => InputError::Elsewhere {
                call,
                owner: record.owner,
            },
        })
    }

    /// Returns how far the input of a call has come; none if it does not run here or reads none.
    pub fn input_state(&self, id: &CallId) -> Option<InputState> {
        let live = lock(&self.live).get(id).cloned();
        live.and_then(|call| call.stdin.get().map(stdin::Stdin::state))
    }

    /// Returns a session's list of tasks; empty if it has none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn todos(&self, session: &SessionKey) -> Result<Vec<Todo>, StoreError> {
        let list = self.store.fact(session, Todo::FACT).await?;
        Ok(list
            .and_then(|list| serde_json::from_value(list).ok())
            .unwrap_or_default())
    }

    /// Ends a session of a workspace: its calls are cancelled and its facts forgotten. Returns how many calls were cancelled.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_session(&self, session: &SessionKey) -> Result<usize, StoreError> {
        let calls: Vec<Arc<LiveCall>> = lock(&self.live)
            .values()
            .filter(|call| call.record().origin.is_of(session))
            .cloned()
            .collect();
        for call in &calls {
            call.stop(EndReason::Cancelled);
        }
        for call in &calls {
            let _ = call.watch().wait_for(|progress| progress.ended).await;
        }
        self.end_left_in(session).await?;
        let forgotten = self.store.forget(session).await?;
        self.broker.end_session(session).await?;
        lock(&self.recent_calls).remove(session);
        if forgotten > 0 || !calls.is_empty() || self.newest_call(session).await?.is_some() {
            self.store.record(ServiceEvent {
                workspace: session.workspace.clone(),
                session: Some(session.session.clone()),
                time: Timestamp::now(),
                kind: ServiceEventKind::SessionEnded,
            });
        }
        Ok(calls.len())
    }

    async fn newest_call(&self, session: &SessionKey) -> Result<Option<CallRecord>, StoreError> {
        let filter = CallFilter {
            workspace: Some(session.workspace.clone()),
            session: Some(session.session.clone()),
            ..CallFilter::default()
        };
        let page = PageRequest { size: 1, after: None };
        Ok(self.store.list_calls(&filter, &page).await?.items.into_iter().next())
    }

    /// Stops in order: refuses new calls and tells watchers so, gives running ones `grace`, cancels the rest and waits until
    /// every call has its end. What only waits for a person is left to the next run, if there is one; that does not wait
    /// for the grace, but calls that run do, and as long as one does, a reply lets another go on.
    pub async fn drain(&self, grace: Duration) {
        {
            // A call that passed the check before this is in the map now.
            let _calls = lock(&self.live);
            self.draining.cancel();
        }
        self.stop_queued();
        self.tasks.close();
        self.leaving.cancel();
        let left = self.let_go(grace).await;
        self.tasks.wait().await;
        if left > 0 {
            tracing::info!(left, "calls that wait for a person are left to the next run");
        }
        self.broker.finish().await;
        self.flush_refusals(true);
        self.over.cancel();
        self.stop_all.cancel();
    }

    /// Says whether new calls are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Returns what tells a new reader of a stream that new calls are refused.
    pub fn drain_notice(&self) -> DrainNotice {
        DrainNotice::of(&self.draining)
    }

    /// Looks after calls that an earlier run of the service left unfinished: those that only waited for a person are run
    /// again up to their question, the others end as lost. Returns how many of each. From now on this run leaves such calls
    /// to the next one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn recover(self: &Arc<Self>) -> Result<Recovered, StoreError> {
        self.stays.store(true, Ordering::Release);
        let orphans = self.store.adopt_orphans(&self.instance).await?;
        let mut recovered = Recovered::default();
        for orphan in orphans {
            if handover::only_waits(&orphan) && (self.resume_later(&orphan) || self.resume(&orphan).await?) {
                recovered.resumed += 1;
            } else {
                let changes = self.store.changes(&orphan.id).await?;
                let folders = changes.iter().filter_map(|change| change.path.parent());
                recovered.folders.extend(folders.map(Path::to_path_buf));
                self.end_as_lost(orphan).await?;
                recovered.lost += 1;
            }
        }
        Ok(recovered)
    }
}

/// What start-up found of an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Calls that wait again.
    pub resumed: usize,
    /// Calls that ended as lost.
    pub lost: usize,
    /// Folders in which lost calls were changing files: their temporary files may still be there.
    pub folders: BTreeSet<PathBuf>,
}
