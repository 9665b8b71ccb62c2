//! Admission: from a request to a recorded call, or a refusal before any call exists.
//!
//! *Invariant:* a call that was recorded is run or ended, whatever becomes of whoever asked for it. What is refused leaves
//! no record.

pub(crate) mod arguments;
pub(crate) mod refusal;
pub(crate) mod reserve;
pub(crate) mod started;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolgate_fs::Workspace;
use toolgate_model::{
    Ask, CallEvent, CallRecord, CallState, Delegation, EndReason, Ending, EventKind, Origin, RawInput, Source,
    Timestamp, ToolCall,
};
use toolgate_permission::Rights;
use toolgate_store::audit::Fact;
use toolgate_store::{Created, StoreError};
use toolgate_telemetry as telemetry;
use toolgate_tool::hooks::HookedCall;
use toolgate_tool::{Child, HookPoint, ToolError};
use tracing::Instrument as _;

use self::arguments::{Checked, Understood, checked, off_runtime, parsed, request_digest, understand};
use self::refusal::AdmitError;
use self::reserve::{Claim, Reservation};
use self::started::{Admitted, Maker, Started, Work};
use crate::catalogs::WorkspaceRuntime;
use crate::evaluate::{Evaluation, Stage, evaluate};
use crate::glance::Glance;
use crate::live::LiveCall;
use crate::log::appends::Creation;
use crate::log::event::{apply, running_event};
use crate::parts::Parts;
use crate::prompts::exchange::DOOM_LOOP;
use crate::run::Run;
use crate::subagent::child::{ChildAdmission, ChildStart};
use crate::subagent::rights;
use crate::{input, lookup, metrics, outcome, subagent};

/// How long a call may run before it is recorded: most that only look are over by then, and are stored with their end.
const UNRECORDED: Duration = Duration::from_millis(50);

/// Admits calls and runs them.
#[derive(Clone)]
pub(crate) struct Admission {
    parts: Arc<Parts>,
}

/// Separates what the maker of a call gets from what is to be done.
fn split(admitted: Result<Admitted, AdmitError>) -> (Result<Started, AdmitError>, Option<Work>) {
    match admitted {
        Ok(Admitted { started, work }) => (Ok(started), work),
        Err(error) => (Err(error), None),
    }
}

/// Where a call runs, on whose behalf, and what it may do there.
struct Standing {
    place: Arc<WorkspaceRuntime>,
    /// The workspace, as somebody sees it who works where the call does.
    workspace: Arc<Workspace>,
    parent: Option<CallRecord>,
    /// Whether it is made within a task.
    in_task: bool,
    ancestors: Vec<Delegation>,
    rights: Rights,
}

impl Admission {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    /// Starts a call, or attaches to the call of the same id and the same request.
    ///
    /// # Errors
    /// The call is not admitted; no record of it exists.
    pub(crate) async fn start(&self, call: ToolCall) -> Result<Started, AdmitError> {
        let admission = self.clone();
        let admission = async move { split(admission.admit(call, Maker::Client).await) };
        let admitted = self.in_task(admission).await;
        admitted.unwrap_or_else(|panicked| {
            Err(AdmitError::Store(StoreError::Failed {
                context: "the admission of a call did not come to its end".to_owned(),
                source: Box::new(panicked),
            }))
        })
    }

    /// Runs an admission, and then the call that it admitted, in a task of their own. A client that is lost meanwhile
    /// drops this future at any await; the task goes on, so a call that was recorded is always run or ended, and the
    /// drain waits for it.
    ///
    /// # Errors
    /// The admission panicked.
    async fn in_task<T: Send + 'static>(
        &self,
        admission: impl Future<Output = (T, Option<Work>)> + Send + 'static,
    ) -> Result<T, oneshot::error::RecvError> {
        let (answer, answered) = oneshot::channel();
        let traces = self.parts.telemetry.traces.as_ref();
        let admission = telemetry::carried(traces, admission.in_current_span());
        self.parts.calls.tasks.spawn(async move {
            let (admitted, work) = admission.await;
            // If nobody waits any more, what is dropped here is the client's hold on the call.
            let _ = answer.send(admitted);
            if let Some(work) = work {
                work.await;
            }
        });
        answered.await
    }

    /// Admits a call, or records why not.
    async fn admit(&self, call: ToolCall, maker: Maker) -> Result<Admitted, AdmitError> {
        let refused = Fact::not_admitted(&call, "");
        let started = self.admit_checked(call, maker).await;
        if let Err(error) = &started {
            metrics::count_refusal(&self.parts.telemetry.metrics, error);
            self.parts.refusals.record_admission(refused, error);
        }
        started
    }

    async fn admit_checked(&self, call: ToolCall, maker: Maker) -> Result<Admitted, AdmitError> {
        let parts = &self.parts;
        let size = self.size_of(&call)?;
        let (mut call, digest) = off_runtime(size, move || {
            let digest = request_digest(&call);
            (call, digest)
        })
        .await?;
        if let Some(started) = reserve::attach_live(&parts.calls, &call.id, &digest).await? {
            return Ok(started.into());
        }
        if parts.calls.is_draining() {
            return Err(AdmitError::Draining);
        }
        if parts.catalogs.is_held(&call.origin.workspace)
            && let Some(stored) = parts.store.get(&call.id).await?
        {
            // Whoever comes back to a call that waits resumes nothing.
            return attach_stored(&stored, &digest);
        }
        let standing = self.standing(&mut call.origin).await?;
        let Standing {
            place,
            workspace,
            parent,
            in_task,
            ancestors,
            rights,
        } = standing;
        let record = CallRecord {
            in_task,
            ancestors,
            made_by_call: maker != Maker::Client,
            is_step: maker != Maker::Call,
            ..self.new_record(&call, place.workspace.directory(), digest)
        };
        let reserved = match reserve::claim(parts, record, &place.gate, parent.as_ref(), size).await? {
            Claim::Reserved(reserved) => reserved,
            Claim::Attached(started) => return Ok(started.into()),
        };
        let (input, name) = (call.input.clone(), call.tool.clone());
        let parsed = off_runtime(size, move || parsed(&input, &name)).await?;
        let understood = understand(&place, &call, parsed, &rights, Some(reserved.live())).await;
        if understood.registry.hooks().handle(HookPoint::ExecuteBefore)
            && let Some(stored) = parts.store.get(&call.id).await?
        {
            // Hooks are not asked about a call that was made before.
            return attach_stored(&stored, &reserved.live().request_digest);
        }
        let checked = self.prepare(&call, &understood, size, reserved.live()).await?;
        // Of another id it is only known when it is recorded whether it is taken. What other calls make begins at once.
        let may_run_first = call.id_is_new && maker == Maker::Client;
        let rights = (rights, may_run_first);
        self.record_and_run((&place, workspace), reserved, understood, checked, rights)
            .await
    }

    /// Returns the bytes of a call's input.
    ///
    /// # Errors
    /// They are too many.
    fn size_of(&self, call: &ToolCall) -> Result<usize, AdmitError> {
        let size = match &call.input {
            RawInput::Json(text) => text.len(),
            RawInput::Value(value) => value.to_string().len(),
        };
        let limit = self.parts.limits.max_input_bytes;
        match size > limit {
            true => Err(AdmitError::InputTooLarge { size, limit }),
            false => Ok(size),
        }
    }

    /// Finds out where a call would run, on whose behalf, and what it may do there.
    async fn standing(&self, origin: &mut Origin) -> Result<Standing, AdmitError> {
        let place = tokio::select! {
            biased;
            place = self.parts.catalogs.expect(&origin.workspace) => place?,
            // It may wait for its workspace, and the service must not wait for that.
            () = self.parts.calls.drain_notice().due() => return Err(AdmitError::Draining),
        };
        place.usable()?;
        // Plugins may bring agents, and rules that take something away.
        tokio::select! {
            biased;
            () = place.tools.loaded() => {}
            () = self.parts.calls.drain_notice().due() => return Err(AdmitError::Draining),
        }
        let agents = place.now().agents.clone();
        if agents.get(&origin.agent).is_none() {
            return Err(AdmitError::UnknownAgent {
                name: origin.agent.clone(),
                known: agents.iter().map(|agent| agent.name.clone()).collect(),
            });
        }
        let parent = self.parent_of(origin).await?;
        if let Some(parent) = &parent {
            if parent.runs_subagent() && parent.state.is_terminal() {
                return Err(AdmitError::TaskEnded(parent.id.clone()));
            }
            origin.inherit(&parent.origin);
        }
        let (caller, ancestors) = rights::descend(&origin.workspace, &origin.agent, parent.as_ref());
        let rights = self.parts.catalogs.rights(&place, &caller, &ancestors);
        let workspace = place.working_in(origin).await?;
        Ok(Standing {
            place,
            workspace,
            parent,
            in_task: caller.in_task,
            ancestors,
            rights: rights.of_requesters(origin),
        })
    }

    /// Returns what a call would ask.
    ///
    /// # Errors
    /// It would not be admitted.
    pub(crate) async fn evaluate(&self, mut call: ToolCall) -> Result<Evaluation, AdmitError> {
        let size = self.size_of(&call)?;
        let Standing {
            place,
            workspace,
            rights,
            ..
        } = self.standing(&mut call.origin).await?;
        let (input, name) = (call.input.clone(), call.tool.clone());
        let parsed = off_runtime(size, move || parsed(&input, &name)).await?;
        let Understood { registry, entry, args } = understand(&place, &call, parsed, &rights, None).await;
        let stage = Stage {
            parts: self.parts.clone(),
            registry,
            origin: Arc::new(call.origin),
            rights,
            workspace,
            depth: 1,
        };
        Ok(evaluate(stage, &entry, args).await)
    }

    /// Returns what a client may look at without making a call.
    ///
    /// # Errors
    /// A call of this origin would not be admitted.
    pub(crate) async fn glance(&self, mut origin: Origin) -> Result<Glance, AdmitError> {
        let Standing {
            place,
            workspace,
            rights,
            ..
        } = self.standing(&mut origin).await?;
        let closing = place.gate.closing().clone();
        Ok(Glance::new(self.parts.clone(), (workspace, closing), origin, rights))
    }

    async fn parent_of(&self, origin: &Origin) -> Result<Option<CallRecord>, AdmitError> {
        let Some(id) = &origin.parent else {
            return Ok(None);
        };
        match lookup::record(&self.parts, id).await? {
            Some(parent) => Ok(Some(parent)),
            None => Err(AdmitError::UnknownParent(id.clone())),
        }
    }

    /// Describes a call before its tool and its input are known.
    fn new_record(&self, call: &ToolCall, directory: &Path, request_digest: String) -> CallRecord {
        CallRecord {
            id: call.id.clone(),
            owner: self.parts.calls.instance.clone(),
            origin: call.origin.clone(),
            tool: call.tool.clone(),
            requested_tool: self.parts.redactor.text(&call.tool).into_owned(),
            directory: directory.to_string_lossy().into_owned(),
            in_task: false,
            ancestors: Vec::new(),
            made_by_call: false,
            is_step: false,
            request_digest,
            input_json: String::new(),
            input_digest: String::new(),
            original: None,
            timeout: call.timeout,
            on_disconnect: call.on_disconnect,
            state: CallState::Pending,
            created: Timestamp::now(),
            started: None,
            ended: None,
            last_sequence: 0,
            title: String::new(),
            summary: String::new(),
            waiting_on: None,
            ending: None,
        }
    }

    /// Lets hooks see and change the arguments, checks them against the schema, and freezes them. A stop ends the waiting for
    /// hooks, not the call: it gets its record and its end.
    async fn prepare(
        &self,
        call: &ToolCall,
        understood: &Understood,
        size: usize,
        live: &LiveCall,
    ) -> Result<Checked, AdmitError> {
        let Understood { registry, entry, args } = understood;
        let about = HookedCall {
            tool: entry.tool.name(),
            session: &call.origin.session,
            call: &call.id,
        };
        let hooked = registry.hooks().before(about, args.clone());
        let (args, problem) = match live.stopping().run_until_cancelled(hooked).await {
            None => (None, Some(outcome::stopped(live.stop_reason(), call.timeout))),
            Some(Err(refusal)) => (None, Some((EndReason::ToolError, refusal.to_string()))),
            // What came from the caller has passed the limits of a request.
            Some(Ok(same)) if same == *args => (None, None),
            Some(Ok(changed)) => match input::unfit(&changed, self.parts.limits.max_input_bytes) {
                Some(problem) => (None, Some((EndReason::ToolError, unfit(&problem)))),
                None => (Some(changed), None),
            },
        };
        let (entry, args) = (entry.clone(), args.unwrap_or_else(|| understood.args.clone()));
        let origin = call.origin.clone();
        let mut checked = off_runtime(size, move || checked(&entry, args, &origin)).await?;
        checked.problem = problem.or(checked.problem);
        Ok(checked)
    }

    async fn record_and_run(
        &self,
        place: (&WorkspaceRuntime, Arc<Workspace>),
        mut reserved: Reservation,
        understood: Understood,
        checked: Checked,
        (rights, may_run_first): (Rights, bool),
    ) -> Result<Admitted, AdmitError> {
        let live = reserved.live().clone();
        let outline = checked.outline.shown(&self.parts.redactor);
        let mut record = CallRecord {
            title: outline.title,
            summary: outline.summary,
            tool: understood.entry.tool.name().to_owned(),
            input_json: checked.frozen.json.clone(),
            input_digest: checked.frozen.digest.clone(),
            ..(*live.record()).clone()
        };
        // Remembered even if its arguments do not fit: it counts among identical calls all the same.
        let is_by_person = understood.entry.tool.properties().for_people;
        let in_a_row = !is_by_person && self.asks_doom_loop(&record, &rights).await;
        let asks_first = in_a_row && checked.problem.is_none();
        let awaits_clients = subagent::awaits_clients(&understood.entry);
        live.awaits_clients.store(awaits_clients, Ordering::Release);
        let queued = reserved.queued().filter(|_| checked.problem.is_none());
        let is_queued = queued.is_some();
        live.clock.hold(is_queued);
        let mut kinds = vec![EventKind::Pending {
            tool: record.tool.clone(),
            requested_tool: record.requested_tool.clone(),
            title: record.title.clone(),
            summary: record.summary.clone(),
            queued,
        }];
        if let Some((reason, problem)) = &checked.problem {
            let mut ending = Ending::failed(*reason, self.parts.redactor.text(problem).as_ref());
            ending.title.clone_from(&record.title);
            if live.stop_reason() == Some(*reason) {
                ending.metadata.insert("interrupted".to_owned(), json!(true));
            }
            kinds.push(EventKind::Ended(Box::new(ending)));
        } else if !asks_first && !is_queued {
            kinds.push(running_event(&record, &self.parts.redactor));
        }
        let events = apply(&mut record, kinds);
        let turn = reserved.take_turn();
        let only_looks = understood.entry.tool.properties().only_looks;
        if may_run_first && only_looks && record.state == CallState::Running {
            let named = (record.tool.clone(), understood.entry.source);
            let found = (understood.registry, understood.entry);
            let run = Run::new(&self.parts, self.children(), place, live, record, found, rights).in_turn(turn);
            let run = run.with_input(checked.frozen.value);
            return self.record_running(reserved, run, events, named).await;
        }
        match self.parts.store.create_call(record.clone(), events.clone()).await? {
            Created::New => {}
            Created::Taken(stored) => return attach_stored(&stored, &record.request_digest),
        }
        let attached = reserved.keep();
        metrics::count_start(&self.parts.telemetry.metrics, &record.tool, understood.entry.source);
        if let Some(ending) = &record.ending {
            metrics::count_end(&self.parts.telemetry.metrics, &record.tool, ending);
        }
        live.publish_stored(record.clone(), events);
        let id = record.id.clone();
        let work = if record.state.is_terminal() {
            self.parts.calls.forget(&id);
            None
        } else {
            let found = (understood.registry, understood.entry);
            let run = Run::new(&self.parts, self.children(), place, live, record, found, rights).in_turn(turn);
            Some(run.with_input(checked.frozen.value).work(asks_first, Vec::new()))
        };
        let attached = Some(attached);
        Ok(Admitted {
            started: Started { id, attached },
            work,
        })
    }

    /// Runs a call that only looks, and records it meanwhile: most have ended by then, and are recorded with their end.
    async fn record_running(
        &self,
        reserved: Reservation,
        run: Run,
        events: Vec<CallEvent>,
        (tool, source): (String, Source),
    ) -> Result<Admitted, AdmitError> {
        let live = reserved.live().clone();
        live.run_unrecorded();
        let (told, mut recorded) = oneshot::channel();
        let due = Instant::now() + UNRECORDED;
        let creation = Creation { events, due, told };
        let mut work = run.recorded_with(creation).work(false, Vec::new());
        let mut is_over = false;
        let recorded = tokio::select! {
            biased;
            recorded = &mut recorded => recorded,
            () = &mut work => {
                is_over = true;
                recorded.await
            }
        };
        match recorded {
            Ok(Ok(Created::New)) => {}
            Ok(Ok(Created::Taken(stored))) => return attach_stored(&stored, &live.request_digest),
            Ok(Err(error)) => return Err(error.into()),
            Err(dropped) => {
                return Err(AdmitError::Store(StoreError::Failed {
                    context: "the task that runs a call is gone before it was recorded".to_owned(),
                    source: Box::new(dropped),
                }));
            }
        }
        let session = live.record().origin.session_key();
        live.note_recorded(|(key, value)| self.parts.store.remember(&session, &key, value));
        metrics::count_start(&self.parts.telemetry.metrics, &tool, source);
        Ok(Admitted {
            started: Started {
                id: live.id.clone(),
                attached: Some(reserved.keep()),
            },
            work: Some(work).filter(|_| !is_over),
        })
    }

    /// Returns whether this call is the third identical one in a row of its session and the rules alone do not allow that.
    async fn asks_doom_loop(&self, record: &CallRecord, rights: &Rights) -> bool {
        let ask = Ask::new(DOOM_LOOP, vec![record.tool.clone()]);
        self.parts.loop_guard.is_repeated(record).await
            && !self
                .parts
                .prompts
                .judge(&record.origin, rights, &ask)
                .is_allowed_by_rule()
    }

    /// Returns what admits the calls that calls make.
    pub(crate) fn children(&self) -> Arc<dyn ChildAdmission> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl ChildAdmission for Admission {
    async fn admit_child(&self, call: ToolCall, maker: Maker) -> Result<Admitted, AdmitError> {
        self.admit(call, maker).await
    }

    async fn in_own_task(&self, start: ChildStart) -> Option<Result<Child, ToolError>> {
        self.in_task(start).await.ok()
    }
}

fn unfit(problem: &str) -> String {
    format!("A hook for `tool.execute.before` left arguments that cannot be used: {problem}.")
}

/// Attaches to the recorded call that has the id of a new request, if the request is the same.
fn attach_stored(stored: &CallRecord, request_digest: &str) -> Result<Admitted, AdmitError> {
    if stored.request_digest != request_digest {
        return Err(AdmitError::IdTaken(stored.id.clone()));
    }
    let started = Started {
        id: stored.id.clone(),
        attached: None,
    };
    Ok(started.into())
}
