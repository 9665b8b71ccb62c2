//! Admission: from a request to a recorded call, or a refusal before any call exists.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolgate_model::{
    CallId, CallRecord, CallState, EndReason, Ending, EventKind, OnDisconnect, Origin, Prompt, PromptState, RawInput,
    ServiceEvent, ServiceEventKind, Source, Timestamp, ToolCall,
};
use toolgate_permission::Rights;
use toolgate_store::audit::Fact;
use toolgate_store::{Created, PromptFilter, StoreError};
use toolgate_telemetry as telemetry;
use toolgate_tool::hooks::HookedCall;
use toolgate_tool::registry::{Entry, Registry};
use toolgate_tool::{HookPoint, InputProblem, Offer};
use tracing::Instrument as _;

use super::handover::Again;
use super::input::{self, Frozen};
use super::live::{Attached, LiveCall, lock};
use super::refusal::AdmitError;
use super::reserve::{Claim, Reservation};
use super::run::{self, Run, Work, running};
use super::{Engine, WorkspaceRuntime, ending, lineage, measure, recording};
use crate::prompts::broker::DOOM_LOOP;

/// What is looked at of a larger input is done where it holds up nobody else.
const LARGE_INPUT: usize = 64 * 1024;

/// How long the client of a call that was taken up after a restart has to come back.
const CLIENT_GRACE: Duration = Duration::from_secs(60);

/// A call that was started, or found under its id.
pub struct Started {
    /// Its id.
    pub id: CallId,
    /// Keeps the call from being cancelled for a lost client; none if the call does not run in this process.
    pub attached: Option<Attached>,
}

/// A call that was admitted or found, and what is to be done for it: its admitter runs that.
pub(super) struct Admitted {
    pub(super) started: Started,
    pub(super) work: Option<Work>,
}

impl From<Started> for Admitted {
    fn from(started: Started) -> Self {
        Self { started, work: None }
    }
}

/// Separates what the maker of a call is told from what is to be done.
fn split(admitted: Result<Admitted, AdmitError>) -> (Result<Started, AdmitError>, Option<Work>) {
    match admitted {
        Ok(Admitted { started, work }) => (Ok(started), work),
        Err(error) => (Err(error), None),
    }
}

/// Who makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// A client, in a model's name or its own.
    Client,
    /// Another call: it is not a step of the model's, so it counts in no row of identical calls.
    Call,
    /// Another call that hands on what the model made.
    Bundle,
}

/// A request that was understood, as far as it can be.
struct Understood {
    /// The tools of the moment: the call goes on with them whatever comes or goes.
    registry: Arc<Registry>,
    entry: Entry,
    args: Value,
}

/// Arguments as the tool gets them.
pub(super) struct Checked {
    pub(super) frozen: Frozen,
    /// Why and with which text the call ends before it starts, if it does.
    pub(super) problem: Option<(EndReason, String)>,
}

impl Engine {
    /// Starts a call, or attaches to the call of the same id and the same request.
    ///
    /// # Errors
    /// The call is not admitted; no record of it exists.
    pub async fn start(self: &Arc<Self>, call: ToolCall) -> Result<Started, AdmitError> {
        let engine = self.clone();
        let admission = async move { split(engine.admit(call, Maker::Client).await) };
        let admitted = self.admission(admission).await;
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
    pub(super) async fn admission<T: Send + 'static>(
        &self,
        admission: impl Future<Output = (T, Option<Work>)> + Send + 'static,
    ) -> Result<T, oneshot::error::RecvError> {
        let (answer, answered) = oneshot::channel();
        let admission = telemetry::carried(self.telemetry.traces.as_ref(), admission.in_current_span());
        self.tasks.spawn(async move {
            let (admitted, work) = admission.await;
            // Nobody to tell: what is dropped here is the client's hold on the call.
            let _ = answer.send(admitted);
            if let Some(work) = work {
                work.await;
            }
        });
        answered.await
    }

    /// Admits a call, or records why not.
    pub(super) async fn admit(self: &Arc<Self>, call: ToolCall, maker: Maker) -> Result<Admitted, AdmitError> {
        let refused = Fact::not_admitted(&call, "");
        let started = self.admit_checked(call, maker).await;
        if let Err(error) = &started {
            self.count_refusal(error);
            let reason = recording::refusal_word(error).to_owned();
            self.record_refusal(Fact { reason, ..refused });
        }
        started
    }

    async fn admit_checked(self: &Arc<Self>, call: ToolCall, maker: Maker) -> Result<Admitted, AdmitError> {
        let size = match &call.input {
            RawInput::Json(text) => text.len(),
            RawInput::Value(value) => value.to_string().len(),
        };
        if size > self.limits.max_input_bytes {
            return Err(AdmitError::InputTooLarge {
                size,
                limit: self.limits.max_input_bytes,
            });
        }
        let (mut call, digest) = off_runtime(size, move || {
            let digest = request_digest(&call);
            (call, digest)
        })
        .await?;
        if let Some(started) = self.attach_live(&call.id, &digest).await? {
            return Ok(started.into());
        }
        if self.is_draining() {
            return Err(AdmitError::Draining);
        }
        let place = self.place_of(&call)?;
        place.usable()?;
        let agents = place.now().agents.clone();
        if agents.get(&call.origin.agent).is_none() {
            return Err(AdmitError::UnknownAgent {
                name: call.origin.agent.clone(),
                known: agents.iter().map(|agent| agent.name.clone()).collect(),
            });
        }
        let parent = self.parent_of(&call).await?;
        if let Some(parent) = &parent {
            if parent.runs_subagent() && parent.state.is_terminal() {
                return Err(AdmitError::TaskEnded(parent.id.clone()));
            }
            call.origin.inherit(&parent.origin);
        }
        let (own, ancestors) = lineage::descend(&call.origin.workspace, &call.origin.agent, parent.as_ref());
        let rights = self.rights_of(place, &own, &ancestors).of_requesters(&call.origin);
        let record = CallRecord {
            in_task: own.in_task,
            ancestors,
            made_by_call: maker != Maker::Client,
            is_step: maker != Maker::Call,
            ..self.new_record(&call, place.workspace.directory(), digest)
        };
        let reserved = match self.claim(record, parent.as_ref(), size).await? {
            Claim::Reserved(reserved) => reserved,
            Claim::Attached(started) => return Ok(started.into()),
        };
        let (input, name) = (call.input.clone(), call.tool.clone());
        let parsed = off_runtime(size, move || parsed(&input, &name)).await?;
        let understood = understand(place, &call, parsed, &rights, reserved.live()).await;
        if understood.registry.hooks().handle(HookPoint::ExecuteBefore)
            && let Some(stored) = self.store.get(&call.id).await?
        {
            // Hooks are not asked about a call that was made before.
            return taken(&stored, &reserved.live().request_digest);
        }
        let checked = self.prepare(&call, &understood, size, reserved.live()).await?;
        self.record_and_run(place, reserved, understood, checked, rights).await
    }

    async fn parent_of(&self, call: &ToolCall) -> Result<Option<CallRecord>, AdmitError> {
        let Some(id) = &call.origin.parent else {
            return Ok(None);
        };
        match self.get(id).await? {
            Some(parent) => Ok(Some(parent)),
            None => Err(AdmitError::UnknownParent(id.clone())),
        }
    }

    fn place_of(&self, call: &ToolCall) -> Result<&WorkspaceRuntime, AdmitError> {
        self.place(&call.origin.workspace)
            .ok_or_else(|| AdmitError::UnknownWorkspace {
                name: call.origin.workspace.clone(),
                known: self
                    .places
                    .iter()
                    .map(|place| place.workspace.name().to_owned())
                    .collect(),
            })
    }

    /// Says whether the agent of a call may call a tool of exactly this name; if not, which ones its models are told of.
    pub(super) fn may_call(&self, record: &CallRecord, tool: &str) -> Result<(), Vec<String>> {
        let Some(place) = self.place(&record.origin.workspace) else {
            return Err(Vec::new());
        };
        let rights = self.rights_of(place, &lineage::own(record), &record.ancestors);
        let offer = offer(place, &record.origin);
        let registry = place.tools.current();
        match registry.resolve(tool, &offer, &rights) {
            Some(entry) if entry.tool.name() == tool => Ok(()),
            Some(_) | None => Err(registry.callable_names(&offer, &rights).split_off(1)),
        }
    }

    /// Describes a call before its tool and its input are known.
    fn new_record(&self, call: &ToolCall, directory: &Path, request_digest: String) -> CallRecord {
        CallRecord {
            id: call.id.clone(),
            owner: self.instance.clone(),
            origin: call.origin.clone(),
            tool: call.tool.clone(),
            requested_tool: self.redactor.text(&call.tool).into_owned(),
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
            None => (None, Some(ending::stopped(live.stop_reason(), call.timeout))),
            Some(Err(refusal)) => (None, Some((EndReason::ToolError, refusal.to_string()))),
            // What came from the caller has passed the limits of a request.
            Some(Ok(same)) if same == *args => (None, None),
            Some(Ok(changed)) => match input::unfit(&changed, self.limits.max_input_bytes) {
                Some(problem) => (None, Some((EndReason::ToolError, unfit(&problem)))),
                None => (Some(changed), None),
            },
        };
        let (entry, args) = (entry.clone(), args.unwrap_or_else(|| understood.args.clone()));
        let mut checked = off_runtime(size, move || checked(&entry, args)).await?;
        checked.problem = problem.or(checked.problem);
        Ok(checked)
    }

    async fn record_and_run(
        self: &Arc<Self>,
        place: &WorkspaceRuntime,
        mut reserved: Reservation,
        understood: Understood,
        checked: Checked,
        rights: Rights,
    ) -> Result<Admitted, AdmitError> {
        let live = reserved.live().clone();
        let mut record = CallRecord {
            tool: understood.entry.tool.name().to_owned(),
            input_json: checked.frozen.json.clone(),
            input_digest: checked.frozen.digest.clone(),
            ..(*live.record()).clone()
        };
        // Remembered even if its arguments do not fit: it is a call of the row all the same.
        let in_a_row = self.asks_doom_loop(&record, &rights).await;
        let asks_first = in_a_row && checked.problem.is_none();
        let awaits_clients = awaits_clients(&understood.entry);
        live.awaits_clients.store(awaits_clients, Ordering::Release);
        let queued = reserved.queued().filter(|_| checked.problem.is_none());
        let is_queued = queued.is_some();
        live.clock.hold(is_queued);
        let mut kinds = vec![EventKind::Pending {
            tool: record.tool.clone(),
            requested_tool: record.requested_tool.clone(),
            queued,
        }];
        if let Some((reason, problem)) = &checked.problem {
            let mut ending = Ending::failed(*reason, self.redactor.text(problem).as_ref());
            if live.stop_reason() == Some(*reason) {
                ending.metadata.insert("interrupted".to_owned(), json!(true));
            }
            kinds.push(EventKind::Ended(Box::new(ending)));
        } else if !asks_first && !is_queued {
            kinds.push(running(&record, String::new(), &self.redactor));
        }
        let events = run::apply(&mut record, kinds);
        match self.store.create_call(record.clone(), events.clone()).await? {
            Created::New => {}
            Created::Taken(stored) => return taken(&stored, &record.request_digest),
        }
        let (attached, turn) = reserved.keep();
        self.count_start(&record, understood.entry.source);
        self.announce(&record);
        if let Some(ending) = &record.ending {
            measure::count_end(&self.telemetry.metrics, &record.tool, ending);
        }
        run::publish(&live, record.clone(), events);
        let id = record.id.clone();
        let work = if record.state.is_terminal() {
            self.forget(&id);
            None
        } else {
            let found = (understood.registry, understood.entry);
            let run = Run::new(self, place, live, record, found, rights).in_turn(turn);
            Some(run.with_input(checked.frozen.value).work(asks_first, Vec::new()))
        };
        let attached = Some(attached);
        Ok(Admitted {
            started: Started { id, attached },
            work,
        })
    }

    /// Runs a call again that waited for a person when its service died; false if it cannot be.
    pub(super) async fn resume(self: &Arc<Self>, record: &CallRecord) -> Result<bool, StoreError> {
        let Some(again) = self.again(record) else {
            return Ok(false);
        };
        let Again {
            place,
            rights,
            registry,
            entry,
        } = again;
        let filter = PromptFilter {
            call: Some(record.id.clone()),
            ..Default::default()
        };
        let mut earlier = Vec::new();
        let asks_first = record.started.is_none();
        let prompts = self.store.prompts(&filter, usize::MAX).await?;
        if prompts.iter().filter_map(Prompt::ask).any(|ask| ask.late) {
            return Ok(false);
        }
        // The loop question is not asked again once the tool has started.
        let comes_again = |prompt: &Prompt| asks_first || prompt.ask().is_none_or(|ask| ask.permission != DOOM_LOOP);
        for prompt in prompts.into_iter().filter(comes_again) {
            earlier.push(self.broker.restore(prompt, &rights).await);
        }
        let turn = self.turns.enter_anyway(record);
        let live = self.make_live(record, &turn);
        live.awaits_clients.store(awaits_clients(&entry), Ordering::Release);
        live.stand.take_up();
        if entry.tool.properties().reads_input {
            live.take_input();
        }
        self.count_start(record, entry.source);
        run::publish(&live, record.clone(), Vec::new());
        lock(&self.live).insert(record.id.clone(), live.clone());
        self.wait_for_client(&live);
        let found = (registry, entry);
        let run = Run::new(self, place, live, record.clone(), found, rights).in_turn(Some(turn));
        self.tasks.spawn(run.work(asks_first, earlier));
        Ok(true)
    }

    /// Stops a call that was taken up after a restart if its client means it to end with itself and does not come back: a
    /// client that has lost its stream reads on by watching.
    fn wait_for_client(&self, live: &Arc<LiveCall>) {
        if live.on_disconnect == OnDisconnect::Keep {
            return;
        }
        let live = live.clone();
        self.tasks.spawn(async move {
            let mut progress = live.watch();
            while !live.is_attached() {
                let ended = progress.wait_for(|progress| progress.ended);
                if tokio::time::timeout(CLIENT_GRACE, ended).await.is_ok() {
                    return;
                }
                if !live.is_attached() && !live.is_watched() {
                    live.stop(EndReason::Cancelled);
                }
            }
        });
    }

    pub(super) async fn end_as_lost(&self, mut record: CallRecord) -> Result<(), StoreError> {
        // Before a tool starts, that is stored.
        let has_started = record.started.is_some() || record.state != CallState::Pending;
        let text = if has_started {
            "The service ended while this call was running, so its result is lost and what it did is not known. Look at \
             the present state before you repeat it."
        } else {
            "The service ended before this call was started. Nothing was done: it can be repeated."
        };
        let mut ending = Ending::failed(EndReason::Lost, text);
        ending.title.clone_from(&record.title);
        ending.metadata.insert("interrupted".to_owned(), json!(true));
        if !has_started {
            ending.metadata.insert("started".to_owned(), json!(false));
        }
        // Before the end: a call without an end is looked after again, should this be interrupted.
        let filter = PromptFilter {
            call: Some(record.id.clone()),
            states: vec![PromptState::Open],
            ..Default::default()
        };
        for prompt in self.store.prompts(&filter, usize::MAX).await? {
            self.broker
                .withdraw(&prompt.id, "the service ended while the call was running")
                .await?;
        }
        measure::count_end(&self.telemetry.metrics, &record.tool, &ending);
        let events = run::apply(&mut record, vec![EventKind::Ended(Box::new(ending))]);
        self.store.append(record.clone(), events).await?;
        self.announce(&record);
        Ok(())
    }

    pub(super) fn announce(&self, record: &CallRecord) {
        self.store.record(ServiceEvent {
            workspace: record.origin.workspace.clone(),
            session: Some(record.origin.session.clone()),
            time: Timestamp::now(),
            kind: ServiceEventKind::Call {
                call: record.id.clone(),
                tool: record.tool.clone(),
                state: record.state,
            },
        });
    }
}

/// Says whether a call may wait for calls that clients make in its name: its tool hands work to a front end, or is not
/// known to us.
fn awaits_clients(entry: &Entry) -> bool {
    entry.source != Source::Builtin || entry.tool.properties().runs_subagent
}

/// Returns for whom the tools of a call are listed.
pub(super) fn offer<'a>(place: &'a WorkspaceRuntime, origin: &'a Origin) -> Offer<'a> {
    Offer {
        workspace: &place.workspace,
        agent: &origin.agent,
        model: &origin.model,
        client: &origin.client,
        rights: None,
    }
}

fn unfit(problem: &str) -> String {
    format!("A hook for `tool.execute.before` left arguments that cannot be used: {problem}.")
}

/// Returns what a start comes to whose id a recorded call has: that call, if it is the same.
fn taken(stored: &CallRecord, request_digest: &str) -> Result<Admitted, AdmitError> {
    if stored.request_digest != request_digest {
        return Err(AdmitError::IdTaken(stored.id.clone()));
    }
    let started = Started {
        id: stored.id.clone(),
        attached: None,
    };
    Ok(started.into())
}

/// Does work that takes as long as an input is large, on a thread for such work if it is.
async fn off_runtime<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AdmitError> {
    if size < LARGE_INPUT {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|panicked| {
        AdmitError::Store(StoreError::Failed {
            context: "the input of a call could not be looked at".to_owned(),
            source: Box::new(panicked),
        })
    })
}

/// Parses the arguments of a call; the error tells the model why they cannot be.
fn parsed(input: &RawInput, tool: &str) -> Result<Value, String> {
    input::parse(input).map_err(|(text, parser)| {
        format!("Invalid input for tool {tool}: JSON parsing failed: Text: {text}.\nError message: {parser}")
    })
}

/// Waits for tools that are about to come, and finds the one of the call.
async fn understand(
    place: &WorkspaceRuntime,
    call: &ToolCall,
    parsed: Result<Value, String>,
    rights: &Rights,
    live: &LiveCall,
) -> Understood {
    let offer = offer(place, &call.origin);
    let wait = async {
        place.tools.loaded().await;
        if place.tools.current().resolve(&call.tool, &offer, rights).is_none() {
            // Perhaps of a source that is still being connected to.
            place.tools.settled().await;
        }
    };
    // Whoever stops the call need not wait for them.
    live.stopping().run_until_cancelled(wait).await;
    let registry = place.tools.current();
    let (entry, args) = understood(&registry, call, parsed, &offer, rights);
    if entry.tool.properties().reads_input {
        live.take_input();
    }
    Understood { registry, entry, args }
}

/// Returns the tool of a call and its arguments, or the tool that tells the model what it did wrong, and that.
fn understood(
    registry: &Registry,
    call: &ToolCall,
    parsed: Result<Value, String>,
    offer: &Offer<'_>,
    rights: &Rights,
) -> (Entry, Value) {
    let repaired = |error: String| {
        let args = json!({ "tool": call.tool, "error": error });
        (registry.invalid().clone(), args)
    };
    let Some(entry) = registry.resolve(&call.tool, offer, rights) else {
        let names = registry.callable_names(offer, rights).join(", ");
        return repaired(format!(
            "Model tried to call unavailable tool '{}'. Available tools: {names}.",
            call.tool
        ));
    };
    match parsed {
        Ok(value) => (entry.clone(), value),
        Err(problem) => repaired(problem),
    }
}

/// Converts arguments to what the schema wants, checks them and freezes them.
pub(super) fn checked(entry: &Entry, mut value: Value) -> Checked {
    let check = |value: &Value| input::problems(&entry.validator, value);
    let mut problems = check(&value);
    if !problems.is_empty() {
        input::convert(&mut value, &entry.schema);
        problems = check(&value);
    }
    let misfit = |problems: &[InputProblem]| (EndReason::InvalidArguments, entry.tool.misfit(problems));
    let problem = (!problems.is_empty()).then(|| misfit(&problems));
    Checked {
        frozen: Frozen::new(&value),
        problem,
    }
}

/// Returns the digest of everything that makes two starts the same start.
fn request_digest(call: &ToolCall) -> String {
    // A client that was started anew calls itself otherwise, and repeats the same request.
    let origin = Origin {
        clients: Vec::new(),
        ..call.origin.clone()
    };
    let request = json!({
        "origin": origin,
        "tool": call.tool,
        "input": call.input,
        "timeout": call.timeout.map(|timeout| timeout.as_millis().to_string()),
    });
    input::sha256_hex(input::canonical(&request).as_bytes())
}
