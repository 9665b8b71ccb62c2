//! The public verbs of an engine.
//!
//! *Invariant:* each verb hands on to the part, or to the file, that does it; nothing is decided here but the order of
//! steps.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use toolgate_model::redact::Redactor;
use toolgate_model::{
    BackgroundProcess, CallId, CallRecord, EndReason, FileChange, Grant, InstanceId, ListeningPort, Origin,
    ServiceEvent, ServiceEventKind, SessionKey, Signal, TerminalSize, Timestamp, Todo, ToolCall, WorkspaceChange,
};
use toolgate_permission::Rights;
use toolgate_permission::agents::Agent;
use toolgate_store::{CallFilter, ENDED, Page, PageRequest, SessionFilter, SessionSummary, Store, StoreError};
use toolgate_telemetry::Telemetry;

use crate::admission::Admission;
use crate::admission::refusal::AdmitError;
use crate::admission::started::Started;
use crate::audit::Refusals;
use crate::call_programs::{CallPrograms, NoPrograms, ProgramUsage};
use crate::calls::{Calls, stop_and_wait};
use crate::catalogs::{Catalogs, WorkspaceRuntime};
use crate::doom_loop::LoopGuard;
use crate::elsewhere::{Elsewhere, Nowhere};
use crate::evaluate::Evaluation;
use crate::glance::Glance;
use crate::live::LiveCall;
use crate::log::CallLog;
use crate::log::cursor::{Cursor, OutputMode, WatchError, WatchOptions};
use crate::parts::{Limits, Parts};
use crate::program::{Program, ProgramError};
use crate::prompts::asking::Asking;
use crate::prompts::broker::Broker;
use crate::prompts::exchange::{ApproverReply, ReplyOutcome};
use crate::prompts::inbox::Inbox;
use crate::restart::{self, Recovered};
use crate::run::edited;
use crate::screen::Picture;
use crate::stdin::{InputError, InputState};
use crate::suspend::{self, Rested};
use crate::{lookup, subagent};

/// What an engine gets from the rest of the service.
#[derive(Clone, Default)]
pub struct EngineDeps {
    /// Whoever starts programs.
    pub programs: Option<Arc<dyn CallPrograms>>,
    /// Other processes that share the store, where they run the calls.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Keeps secrets out of what calls show.
    pub redactor: Redactor,
    /// What calls are counted and traced with.
    pub telemetry: Telemetry,
}

/// Runs calls.
pub struct Engine {
    parts: Arc<Parts>,
    admission: Admission,
}

impl Engine {
    /// Makes an engine. The first place is the default workspace.
    pub fn new(
        store: Arc<dyn Store>,
        broker: Broker,
        instance: InstanceId,
        places: Vec<WorkspaceRuntime>,
        limits: Limits,
        deps: EngineDeps,
    ) -> Arc<Self> {
        let EngineDeps {
            programs,
            elsewhere,
            redactor,
            telemetry,
        } = deps;
        let metrics = telemetry.metrics.clone();
        let parts = Arc::new(Parts {
            calls: Calls::new(instance.clone(), limits.running),
            log: Arc::new(CallLog::new(
                store.clone(),
                redactor.clone(),
                metrics,
                limits.max_output_bytes,
            )),
            prompts: broker.asking,
            inbox: broker.inbox,
            catalogs: Catalogs::new(places),
            loop_guard: LoopGuard::new(store.clone()),
            refusals: Refusals::new(store.clone(), instance),
            programs: programs.unwrap_or_else(|| Arc::new(NoPrograms)),
            elsewhere: elsewhere.unwrap_or_else(|| Arc::new(Nowhere)),
            store,
            redactor,
            telemetry,
            limits,
        });
        Arc::new(Self {
            admission: Admission::new(parts.clone()),
            parts,
        })
    }

    /// Returns the workspaces with their tools and agents.
    pub fn catalogs(&self) -> &Catalogs {
        &self.parts.catalogs
    }

    /// Returns the calls that run or wait for their turn.
    pub fn calls(&self) -> &Calls {
        &self.parts.calls
    }

    /// Returns what records refused requests.
    pub fn refusals(&self) -> &Refusals {
        &self.parts.refusals
    }

    /// Returns what the service allows.
    pub fn limits(&self) -> Limits {
        self.parts.limits
    }

    /// Returns what asks people for the calls.
    pub fn prompts(&self) -> &Arc<Asking> {
        &self.parts.prompts
    }

    /// Returns what takes the replies to prompts, shows prompts, and has the standing approvals.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.parts.inbox
    }

    /// Returns what takes secrets out of what is shown and kept.
    pub fn redactor(&self) -> &Redactor {
        &self.parts.redactor
    }

    /// Returns the changes of files that a call recorded.
    ///
    /// # Errors
    /// The store failed.
    pub async fn changes(&self, id: &CallId) -> Result<Vec<FileChange>, StoreError> {
        self.parts.store.changes(id).await
    }

    /// Starts a call, or attaches to the call of the same id and the same request.
    ///
    /// # Errors
    /// The call is not admitted; no record of it exists.
    pub async fn start(&self, call: ToolCall) -> Result<Started, AdmitError> {
        self.admission.start(call).await
    }

    /// Returns what a call would ask, without making it: nothing is run, changed or recorded, and nobody is asked.
    ///
    /// # Errors
    /// The call would not be admitted.
    pub async fn evaluate(&self, call: ToolCall) -> Result<Evaluation, AdmitError> {
        self.admission.evaluate(call).await
    }

    /// Returns what a client may look at, in the name of this origin, without making a call.
    ///
    /// # Errors
    /// A call of this origin would not be admitted.
    pub async fn glance(&self, origin: Origin) -> Result<Glance, AdmitError> {
        self.admission.glance(origin).await
    }

    /// Returns the record of a call, as far as it is known at this moment.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        lookup::record(&self.parts, id).await
    }

    /// Returns whose a call is, also of one that is not recorded yet.
    ///
    /// # Errors
    /// The store failed.
    pub async fn origin_of(&self, id: &CallId) -> Result<Option<Origin>, StoreError> {
        lookup::origin(&self.parts, id).await
    }

    /// Returns the calls of a name in the workspaces that somebody sees. It is more than one only where clients that do not
    /// see each other's workspaces chose the same.
    ///
    /// # Errors
    /// The store failed.
    pub async fn named(&self, id: &CallId, sees: impl Fn(&str) -> bool) -> Result<Vec<CallId>, StoreError> {
        lookup::named(&self.parts, id, sees).await
    }

    /// Lists calls, newest first.
    ///
    /// # Errors
    /// The store failed, or the page token is not one of its own.
    pub async fn list(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
        self.parts.log.list(filter, page).await
    }

    /// Lists sessions, the one with the latest call first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sessions(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionSummary>, StoreError> {
        self.parts.store.list_sessions(filter, page).await
    }

    /// Watches a call from the event after `after` on; `heartbeat` is the longest silence.
    ///
    /// # Errors
    /// There is no such call, or it has fewer events than `after`.
    pub async fn watch(
        &self,
        id: &CallId,
        after: u64,
        mode: OutputMode,
        heartbeat: Duration,
    ) -> Result<Cursor, WatchError> {
        let live = self.parts.calls.find_recorded(id).await;
        self.watch_live(id, live, after, (mode, heartbeat)).await
    }

    /// Watches a call that was started, from its beginning: one that has ended by now is not read back.
    ///
    /// # Errors
    /// As [`Self::watch`].
    pub async fn watch_started(
        &self,
        started: &Started,
        mode: OutputMode,
        heartbeat: Duration,
    ) -> Result<Cursor, WatchError> {
        let live = match &started.attached {
            Some(attached) => Some(attached.call().clone()),
            None => self.parts.calls.find_recorded(&started.id).await,
        };
        self.watch_live(&started.id, live, 0, (mode, heartbeat)).await
    }

    async fn watch_live(
        &self,
        id: &CallId,
        live: Option<Arc<LiveCall>>,
        after: u64,
        (mode, heartbeat): (OutputMode, Duration),
    ) -> Result<Cursor, WatchError> {
        let calls = &self.parts.calls;
        let options = WatchOptions {
            after,
            mode,
            heartbeat,
            draining: calls.drain_notice(),
            over: calls.over().clone(),
        };
        self.parts.log.watch(id, live, options).await
    }

    /// Asks a call to stop, waits for its end and returns it. `None` if there is no such call; a call of another
    /// running service is returned as it is, not ended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn cancel(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        if let Some(call) = self.parts.calls.find(id) {
            stop_and_wait(&[call], EndReason::Cancelled).await;
        } else {
            suspend::cancel_one(&self.parts, id).await?;
        }
        self.parts.programs.end(id).await;
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
        let call = lookup::running(&self.parts, id).await?;
        let Some(stdin) = call.stdin.get() else {
            let tool = call.record().tool.clone();
            return Err(InputError::NotTaken { call: id.clone(), tool });
        };
        stdin.send(offset, data, close)
    }

    /// Changes the size of the terminal of a running call. Before its program runs, it is the size that this gets.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub async fn resize(&self, id: &CallId, size: TerminalSize) -> Result<(), ProgramError> {
        let call = lookup::running(&self.parts, id).await?;
        let resized = off_runtime(&call, move |program| program.resize(size)).await?;
        match resized.map_err(ProgramError::Failed)? {
            true => Ok(()),
            false => Err(no_terminal(&call)),
        }
    }

    /// Sends a signal to the program of a running call.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub async fn signal(&self, id: &CallId, signal: Signal) -> Result<(), ProgramError> {
        let call = lookup::running(&self.parts, id).await?;
        match off_runtime(&call, move |program| program.signal(signal)).await? {
            true => Ok(()),
            false => Err(ProgramError::NoProgram(id.clone())),
        }
    }

    /// Returns what the terminal of a running call shows, and the number of the call's last event: whoever watches from
    /// there misses nothing of what comes.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub async fn picture(&self, id: &CallId) -> Result<(Picture, u64), ProgramError> {
        let call = lookup::running(&self.parts, id).await?;
        // First: what it tells of is drawn by then.
        let last = call.record().last_sequence;
        let picture = off_runtime(&call, |program| program.picture()).await?;
        Ok((picture.ok_or_else(|| no_terminal(&call))?, last))
    }

    /// Replies to a prompt. Of an edited reply only the text counts; its digest is made here.
    ///
    /// # Errors
    /// The store failed; nothing is decided.
    pub async fn reply(&self, given: ApproverReply) -> Result<ReplyOutcome, StoreError> {
        let outcome = edited::reply(&self.parts, given).await?;
        if let ReplyOutcome::Accepted(prompt) = &outcome {
            self.parts.catalogs.rouse(&prompt.workspace);
        }
        Ok(outcome)
    }

    /// Returns the rights of an agent that works on behalf of a call, or by itself. None if there is no such call.
    ///
    /// # Errors
    /// The store failed.
    pub async fn rights_below(
        &self,
        place: &WorkspaceRuntime,
        agent: &Agent,
        parent: Option<&CallId>,
    ) -> Result<Option<Rights>, StoreError> {
        subagent::rights_below(&self.parts, place, agent, parent).await
    }

    /// Returns what a call left running.
    pub async fn left_by(&self, call: &CallId) -> Vec<BackgroundProcess> {
        self.parts.programs.left_by(call).await
    }

    /// Returns what the programs of a call listen on, those included that it left running.
    pub async fn listening(&self, call: &CallId) -> Vec<ListeningPort> {
        let mut ports = self.parts.programs.listening(call).await;
        self.parts.log.redact_ports(&mut ports);
        ports
    }

    /// Returns the calls that fit and left something running.
    async fn with_left(&self, fits: impl Fn(&Origin) -> bool) -> Result<Vec<CallId>, StoreError> {
        let mut found = Vec::new();
        for call in self.parts.programs.calls_with_left() {
            if self.origin_of(&call).await?.is_some_and(|origin| fits(&origin)) {
                found.push(call);
            }
        }
        Ok(found)
    }

    /// Returns how many calls of a workspace run or wait at this moment, and what their programs use, those included that ended
    /// calls left running.
    ///
    /// # Errors
    /// The store failed.
    pub async fn usage(&self, workspace: &str) -> Result<(usize, ProgramUsage), StoreError> {
        let live = self.parts.calls.all();
        let live = live
            .iter()
            .map(|call| call.record())
            .filter(|record| record.origin.workspace == workspace);
        let mut calls: Vec<CallId> = live.map(|record| record.id.clone()).collect();
        let running = calls.len();
        calls.extend(self.with_left(|origin| origin.workspace == workspace).await?);
        Ok((running, self.parts.programs.usage(calls).await))
    }

    /// Returns a session's list of tasks; empty if it has none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn todos(&self, session: &SessionKey) -> Result<Vec<Todo>, StoreError> {
        let list = self.parts.store.fact(session, Todo::FACT).await?;
        Ok(list
            .and_then(|list| serde_json::from_value(list).ok())
            .unwrap_or_default())
    }

    /// Ends a session of a workspace: its calls are cancelled and its facts forgotten. Returns how many calls were cancelled.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_session(&self, session: &SessionKey) -> Result<usize, StoreError> {
        let parts = &self.parts;
        let calls = parts.calls.in_session(session);
        stop_and_wait(&calls, EndReason::Cancelled).await;
        let cancelled = calls.len() + suspend::cancel_left(parts, &session.workspace, Some(session)).await?;
        for call in self.with_left(|origin| origin.is_of(session)).await? {
            parts.programs.end(&call).await;
        }
        let forgotten = parts.store.forget(session).await?;
        parts.inbox.end_session(session).await?;
        parts.loop_guard.forget(session);
        if forgotten > 0 || cancelled > 0 || lookup::has_calls(parts, session).await? {
            let event = ServiceEvent::in_session(session.clone(), ServiceEventKind::SessionEnded);
            parts.store.record(event);
            parts.store.remember(session, ENDED, json!(Timestamp::now().millis()));
        }
        Ok(cancelled)
    }

    /// Tells watchers what became of a workspace.
    pub fn announce_workspace(&self, workspace: &str, change: WorkspaceChange) {
        self.parts.store.record(ServiceEvent {
            workspace: workspace.to_owned(),
            session: None,
            time: Timestamp::now(),
            kind: ServiceEventKind::WorkspaceChanged { change },
        });
    }

    /// Says whether there is anything of a workspace that is not open here: calls whose records are still kept, or that it is open in
    /// another process.
    ///
    /// # Errors
    /// The store failed.
    pub async fn has_records(&self, workspace: &str) -> Result<bool, StoreError> {
        Ok(self.parts.elsewhere.is_open(workspace) || lookup::has_records(&self.parts, workspace).await?)
    }

    /// Returns the standing approvals of a workspace, or of all, oldest first: those that hold for this run, and for others that
    /// are known.
    ///
    /// # Errors
    /// The store failed.
    pub async fn grants(&self, workspace: Option<&str>) -> Result<Vec<Grant>, StoreError> {
        let mut grants = self.parts.inbox.grants(workspace).await?;
        let now = Timestamp::now();
        let of_runs = self.parts.store.grants_of(&self.parts.elsewhere.runs()).await?;
        let holds = |grant: &Grant| workspace.is_none_or(|name| grant.workspace == name) && !grant.is_over(now);
        grants.extend(of_runs.into_iter().filter(holds));
        grants.sort_by(|one, other| one.id.cmp(&other.id));
        grants.dedup_by(|one, other| one.id == other.id);
        Ok(grants)
    }

    /// Closes a workspace: its calls are cancelled, what they left running is ended, its standing approvals are taken back in
    /// the name of `by`, and it takes no more calls. Returns how many were cancelled; they have their ends then.
    ///
    /// # Errors
    /// The store failed; the workspace takes no calls all the same.
    pub async fn close_workspace(&self, place: &Arc<WorkspaceRuntime>, by: &str) -> Result<usize, StoreError> {
        let parts = &self.parts;
        let name = place.workspace.name();
        let calls = parts.calls.close(name, &place.gate);
        stop_and_wait(&calls, EndReason::Cancelled).await;
        parts.catalogs.remove(place);
        for call in self.with_left(|origin| origin.workspace == name).await? {
            parts.programs.end(&call).await;
        }
        parts.inbox.end_workspace(name, by).await?;
        Ok(calls.len())
    }

    /// Suspends a workspace: its calls that run are cancelled, and what they left running is ended. Those that only wait for a
    /// person go on waiting, and standing approvals are kept. `rests` stands for the workspace from now on.
    ///
    /// # Errors
    /// The store failed; what runs is ended all the same.
    pub async fn suspend_workspace(
        &self,
        place: &Arc<WorkspaceRuntime>,
        rests: WorkspaceRuntime,
    ) -> Result<Rested, StoreError> {
        let rested = suspend::suspend(&self.parts, place, rests).await?;
        let name = place.workspace.name();
        for call in self.with_left(|origin| origin.workspace == name).await? {
            self.parts.programs.end(&call).await;
        }
        Ok(rested)
    }

    /// Goes on with the calls that waited for a person while their workspace was suspended, or was not there yet.
    ///
    /// # Errors
    /// The store failed.
    pub async fn take_up_calls(&self, workspace: &str) -> Result<Recovered, StoreError> {
        suspend::take_up(&self.parts, workspace).await?;
        self.recover().await
    }

    /// Cancels the calls that wait for a person in a suspended workspace, and takes its standing approvals back. Returns how
    /// many calls these were.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_suspended(&self, workspace: &str, by: &str) -> Result<usize, StoreError> {
        let cancelled = suspend::cancel_left(&self.parts, workspace, None).await?;
        self.parts.inbox.end_workspace(workspace, by).await?;
        Ok(cancelled)
    }

    /// Stops in order: refuses new calls and tells watchers so, gives running ones `grace`, cancels the rest and waits until
    /// every call has its end. What only waits for a person is left to the next run, if there is one; that does not wait
    /// for the grace, but calls that run do, and as long as one does, a reply lets another go on.
    pub async fn drain(&self, grace: Duration) {
        let parts = &self.parts;
        parts.calls.begin_drain();
        parts.calls.stop_queued();
        parts.calls.tasks.close();
        parts.log.late.stop();
        let left = restart::let_go(parts, grace).await;
        parts.calls.tasks.wait().await;
        if left > 0 {
            tracing::info!(left, "calls that wait for a person are left to the next run");
        }
        parts.prompts.finish().await;
        parts.refusals.flush(true);
        parts.calls.end_drain();
    }

    /// Asks every call to stop, because the service does; those that the next run takes up are left to it. Returns how many
    /// these are.
    pub fn stop_running(&self) -> usize {
        restart::stop_running(&self.parts)
    }

    /// Looks after calls that an earlier run of the service left unfinished: those that only waited for a person are run
    /// again up to their question, the others end as lost. Returns how many of each. From now on this run leaves such calls
    /// to the next one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn recover(&self) -> Result<Recovered, StoreError> {
        restart::recover(&self.parts, &self.admission.children()).await
    }
}

fn no_terminal(call: &LiveCall) -> ProgramError {
    ProgramError::NoTerminal {
        call: call.id.clone(),
        tool: call.record().tool.clone(),
    }
}

/// Does something with the program of a call that may block.
async fn off_runtime<T: Send + 'static>(
    call: &Arc<LiveCall>,
    work: impl FnOnce(&Program) -> T + Send + 'static,
) -> Result<T, ProgramError> {
    let call = Arc::clone(call);
    let done = tokio::task::spawn_blocking(move || work(&call.program)).await;
    done.map_err(|error| ProgramError::Failed(error.into()))
}
