//! What the engine does for a running call: the other side of the handles of a `ToolContext`.

mod program;
mod undo;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_fs::changes::PlannedChange;
use toolgate_model::redact::Redactor;
use toolgate_model::{
    Ask, CallId, CallRecord, Consent, Decision, FileChange, InputEdit, JsonMap, Model, Prompt, PromptId, PromptOutcome,
    PromptRequest, PromptState, Question, Reply, Resources, ServiceEvent, ServiceEventKind, Timestamp, Todo,
    WarningKind,
};
use toolgate_permission::Refusal;
use toolgate_permission::Rights;
use toolgate_permission::judgement::{self, Judgement};
use toolgate_store::StoreError;
use toolgate_tool::Registry;
use toolgate_tool::hooks::{HookAnswer, HookedCall};
use toolgate_tool::{
    ChangesHandle, Child, ChildCall, ChildrenHandle, Delegated, HookPoint, HooksHandle, LateMetadata, OutputHandle,
    PermissionHandle, SessionHandle, ToolContext, ToolError,
};

use crate::live::LiveCall;
use crate::log::writer::Command;
use crate::outcome::{Decided, settled, until, verdict};
use crate::parts::Parts;
use crate::prompts::asking::{Asked, Opened, Verdict};
use crate::subagent::child::{self, ChildAdmission};
use crate::{audit, lookup, metrics, subagent};

/// Serves one running call.
pub(super) struct RunContext {
    pub(super) parts: Arc<Parts>,
    pub(super) children: Arc<dyn ChildAdmission>,
    pub(super) call: Arc<LiveCall>,
    pub(super) record: Arc<CallRecord>,
    pub(super) rights: Rights,
    pub(super) registry: Arc<Registry>,
    pub(super) log: mpsc::Sender<Command>,
    /// The prompts that this call had before the service died, in the order in which it asked: the same question
    /// finds its prompt, and its reply if there is one.
    pub(super) earlier: Mutex<Vec<Opened>>,
    /// Whether a person may put another input in the place of the call's. Where one has, it answers what that input asks.
    pub(super) editable: bool,
    /// The input that a person put in the place of the call's: the tool must not go on with this one.
    pub(super) edit: Mutex<Option<InputEdit>>,
    /// Whether the call began before it was recorded.
    pub(super) may_be_unrecorded: bool,
}

/// Returns the variables that a call sets as people see them.
fn shown_variables(redactor: &Redactor, variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shown = |(name, value): (&String, &String)| (name.clone(), redactor.text(value).into_owned());
    variables.iter().map(shown).collect()
}

impl RunContext {
    /// Returns what serves the call with the input that a person put in the place of its own.
    pub(super) fn with_edit(&self, record: CallRecord) -> Self {
        Self {
            parts: self.parts.clone(),
            children: self.children.clone(),
            call: self.call.clone(),
            record: Arc::new(record),
            rights: self.rights.clone(),
            registry: self.registry.clone(),
            log: self.log.clone(),
            earlier: Mutex::default(),
            editable: false,
            edit: Mutex::default(),
            may_be_unrecorded: self.may_be_unrecorded,
        }
    }

    /// Waits for the decision on a prompt, records it and returns the reply.
    async fn wait(&self, opened: Opened) -> Result<Reply, Refusal> {
        let _pause = self.call.clock.pause();
        let _measured = metrics::Waiting::new(&self.parts.telemetry.metrics, &self.call);
        let prompt = opened.prompt;
        let at_question = self.parts.calls.at_question(&self.call);
        let stored = self
            .tell(|stored| Command::Waiting {
                prompt: Box::new((*prompt).clone()),
                stored,
            })
            .await;
        if stored != Some(true) {
            self.withdraw(&prompt.id, "the service could not record that the call waits")
                .await;
            return Err(Refusal::Unavailable);
        }
        self.parts.calls.look_again();
        let mut decision = opened.decision;
        let decided = tokio::select! {
            biased;
            // Nothing is withdrawn then.
            () = self.call.handover.left() => None,
            decision = &mut decision => decision.ok(),
            () = self.call.stopping().cancelled() => self.withdraw(&prompt.id, "the call was stopped").await,
            () = until(opened.left) => {
                settled(&prompt.id, self.parts.prompts.expire(&prompt.id).await)
            }
            () = self.parts.prompts.abandoned(&prompt, self.record.origin.unanswered) => {
                settled(&prompt.id, self.parts.prompts.expire(&prompt.id).await)
            }
        };
        drop(at_question);
        self.go_on().await;
        let Some(decision) = decided else {
            return Err(Refusal::Unavailable);
        };
        self.resume(&prompt.id, decision).await
    }

    /// Returns if the call goes on here, and never if it was left: the run drops this future.
    async fn go_on(&self) {
        if !self.call.handover.go_on() {
            std::future::pending().await
        }
    }

    /// Records the decision and says what it means. Nothing runs on a reply that is not recorded.
    async fn resume(&self, prompt: &PromptId, decision: Decision) -> Result<Reply, Refusal> {
        self.go_on().await;
        let recorded = Box::new(decision.clone());
        let stored = self
            .tell(|stored| Command::Resumed {
                prompt: prompt.clone(),
                decision: recorded,
                stored,
            })
            .await;
        let verdict = verdict(prompt, decision.outcome);
        if verdict.is_ok() && stored != Some(true) {
            return Err(Refusal::Unavailable);
        }
        verdict
    }

    /// Says what a reply means for the tool that asked.
    fn allowed(&self, reply: Reply) -> Result<(), Refusal> {
        match reply {
            Reply::Instead(edit) => {
                *self.edit.lock() = Some(edit);
                Err(Refusal::Edited)
            }
            Reply::Once | Reply::Always(_) | Reply::Answers(_) => Ok(()),
            // No such reply comes as a verdict that allows.
            Reply::Reject { .. } => Err(Refusal::Rejected),
        }
    }

    async fn withdraw(&self, prompt: &PromptId, why: &str) -> Option<Decision> {
        settled(prompt, self.parts.prompts.withdraw(prompt, why).await)
    }

    pub(super) async fn tell<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (tx, rx) = oneshot::channel();
        self.log.send(command(tx)).await.ok()?;
        rx.await.ok()
    }

    /// Waits until the call is recorded, before something is stored that belongs to it; false if it is not.
    pub(super) async fn is_recorded(&self) -> bool {
        self.tell(|stored| Command::Recorded { stored }).await == Some(true)
    }

    /// Finds the prompt that this call opened for the same question before the service died. A different question means
    /// that the world has changed: prompts left open then are for something that will not run.
    async fn asked_before(&self, is_same: impl Fn(&PromptRequest) -> bool) -> Result<Option<Opened>, Refusal> {
        {
            let mut earlier = self.earlier.lock();
            let Some(first) = earlier.first() else { return Ok(None) };
            if is_same(&first.prompt.request) {
                return Ok(Some(earlier.remove(0)));
            }
        }
        let recorded = self
            .withdraw_earlier("after a restart the call asks something else")
            .await;
        if recorded { Ok(None) } else { Err(Refusal::Unavailable) }
    }

    /// Goes on from a prompt of before a restart: with its decision, or waiting for it.
    async fn go_on_from(&self, earlier: Opened) -> Result<Reply, Refusal> {
        let waited = self.record.waiting_on.as_ref() == Some(&earlier.prompt.id);
        match earlier.prompt.decision.clone() {
            // The log has it already.
            Some(decision) if !waited => verdict(&earlier.prompt.id, decision.outcome),
            Some(decision) => self.resume(&earlier.prompt.id, decision).await,
            None => self.wait(earlier).await,
        }
    }

    /// Ends the wait for a prompt that nobody needs to answer any more. The log must say so before the tool goes on: a
    /// call that is recorded as waiting would be run again after the next death of the service.
    async fn end_wait(&self, prompt: &Prompt, why: &str) -> bool {
        self.go_on().await;
        let decision = match prompt.decision.clone() {
            Some(decision) => Some(decision),
            None => self.withdraw(&prompt.id, why).await,
        };
        if self.record.waiting_on.as_ref() != Some(&prompt.id) {
            return true;
        }
        let decision = decision.unwrap_or_else(|| Decision::new(PromptOutcome::Withdrawn(why.to_owned())));
        let (prompt, decision) = (prompt.id.clone(), Box::new(decision));
        let stored = self
            .tell(|stored| Command::Resumed {
                prompt,
                decision,
                stored,
            })
            .await;
        stored == Some(true)
    }

    /// Withdraws the prompts from before a restart that the call has not come to again.
    pub(super) async fn withdraw_earlier(&self, why: &str) -> bool {
        let stale: Vec<Opened> = self.earlier.lock().drain(..).collect();
        let mut recorded = true;
        for opened in stale {
            recorded &= self.end_wait(&opened.prompt, why).await;
        }
        recorded
    }

    /// Finds out whether the call may go on.
    async fn decide(&self, ask: &Ask) -> Result<Decided, Refusal> {
        let origin = &self.record.origin;
        if ask.late {
            self.call.handover.keep_here();
        }
        // Whoever wrote this very input has answered what it asks before it runs, unless that takes two.
        let takes_two = self.parts.prompts.approvals().takes_two(&ask.permission);
        // What the rules allow stores nothing that others look at.
        let is_allowed = || self.parts.prompts.judge(origin, &self.rights, ask).is_allowed_by_rule();
        if self.may_be_unrecorded && !is_allowed() && !self.is_recorded().await {
            return Err(Refusal::Unavailable);
        }
        if self.record.original.is_some() && !ask.late && !takes_two {
            return match self.parts.prompts.judge(origin, &self.rights, ask) {
                Judgement::Allow { .. } | Judgement::Ask { .. } => Ok(Decided::Edited),
                Judgement::Deny { relevant } => Err(Refusal::Denied { relevant }),
            };
        }
        if let Some(decided) = self.hooked(ask, takes_two).await? {
            return Ok(decided);
        }
        let shown = self.parts.redactor.ask(ask);
        let Some(earlier) = self
            .asked_before(|request| match request {
                PromptRequest::Permission { ask: before, .. } => **before == *shown,
                PromptRequest::Questions(_) => false,
            })
            .await?
        else {
            let make = |request, expires| self.prompt(request, expires);
            return match self.parts.prompts.ask(ask, origin, &self.rights, make).await? {
                Asked::Allowed { grants } => Ok(Decided::Allowed { grants }),
                Asked::Opened(opened) => self.wait(opened).await.map(Decided::Replied),
            };
        };
        // Judged before an earlier reply counts: the rules may have changed with the restart, and a deny always wins.
        // With a reply at hand no grant is used up.
        if earlier.prompt.decision.is_some() {
            if let Judgement::Deny { relevant } = self.parts.prompts.judge(origin, &self.rights, ask) {
                self.end_wait(&earlier.prompt, "a rule denies it now").await;
                return Err(Refusal::Denied { relevant });
            }
            return self.go_on_from(earlier).await.map(Decided::Replied);
        }
        match self.parts.prompts.decide(ask, origin, &self.rights).await {
            Ok(Verdict::Ask(_)) => self.go_on_from(earlier).await.map(Decided::Replied),
            Ok(Verdict::Allowed { grants }) if self.end_wait(&earlier.prompt, "it is allowed now").await => {
                Ok(Decided::Allowed { grants })
            }
            Ok(Verdict::Allowed { .. }) => Err(Refusal::Unavailable),
            Err(refusal) => {
                self.end_wait(&earlier.prompt, "a rule denies it now").await;
                Err(refusal)
            }
        }
    }

    /// Asks the hooks where a person would be asked. They do not stand in for one of two who must agree.
    async fn hooked(&self, ask: &Ask, takes_two: bool) -> Result<Option<Decided>, Refusal> {
        let hooks = self.registry.hooks();
        if takes_two || !hooks.handle(HookPoint::PermissionAsk) {
            return Ok(None);
        }
        match self.parts.prompts.judge(&self.record.origin, &self.rights, ask) {
            Judgement::Allow { .. } | Judgement::Deny { .. } => return Ok(None),
            Judgement::Ask { .. } => {}
        }
        let origin = &self.record.origin;
        let answer = hooks.permission(self.about(), &origin.message_id, ask, |hook| {
            hook.principal().is_none_or(|principal| {
                let is_own = origin.requesters().iter().any(|id| id == principal);
                !is_own || self.parts.prompts.approvals().allows_self(&origin.workspace, principal)
            })
        });
        match answer.await {
            HookAnswer::Ask => Ok(None),
            HookAnswer::Allow(hook) => Ok(Some(Decided::Hooked(hook))),
            HookAnswer::Deny(hook) => Err(Refusal::Corrected {
                message: format!("The hook of {hook} does not allow this."),
            }),
        }
    }

    fn about(&self) -> HookedCall<'_> {
        HookedCall {
            tool: &self.record.tool,
            session: &self.record.origin.session,
            call: &self.record.id,
        }
    }

    fn prompt(&self, request: PromptRequest, expires: Option<Timestamp>) -> Prompt {
        let origin = &self.record.origin;
        let may_edit = self.editable
            && match &request {
                PromptRequest::Permission { ask, .. } => {
                    !ask.late && !self.parts.prompts.approvals().takes_two(&ask.permission)
                }
                PromptRequest::Questions(_) => false,
            };
        Prompt {
            id: PromptId::generate(&request),
            call: self.record.id.clone(),
            owner: self.parts.calls.instance.clone(),
            session: origin.session.clone(),
            workspace: origin.workspace.clone(),
            agent: origin.agent.clone(),
            tool: self.record.tool.clone(),
            requester: origin.requester.clone(),
            directory: origin.directory.clone(),
            on_behalf_of: origin.on_behalf_of.clone(),
            clients: origin.clients.clone(),
            approvals: Vec::new(),
            created: Timestamp::now(),
            expires,
            state: PromptState::Open,
            input_digest: self.record.input_digest.clone(),
            // With a secret in it, what a person would send back is not what was asked.
            input_json: (may_edit && self.parts.redactor.is_shown(&self.record.input_json))
                .then(|| self.record.input_json.clone()),
            environment: shown_variables(&self.parts.redactor, &origin.environment),
            request: self.parts.redactor.request(request),
            decision: None,
        }
    }
}

impl RunContext {
    /// Returns what the tool of this call gets to work with.
    pub(super) fn tool_context(
        self: &Arc<Self>,
        workspace: Arc<Workspace>,
        cancelled: CancellationToken,
    ) -> ToolContext {
        ToolContext {
            call: self.record.id.clone(),
            origin: Arc::new(self.record.origin.clone()),
            workspace,
            cancelled,
            permission: self.clone(),
            output: self.clone(),
            session: self.clone(),
            changes: self.clone(),
            children: self.clone(),
            hooks: self.clone(),
            stdin: self.clone(),
            program: self.clone(),
        }
    }
}

#[async_trait]
impl PermissionHandle for RunContext {
    async fn ask(&self, ask: Ask) -> Result<Consent, Refusal> {
        if self.call.stopping().is_cancelled() {
            return Err(Refusal::Withdrawn);
        }
        if self.edit.lock().is_some() {
            return Err(Refusal::Edited);
        }
        let decided = self.decide(&ask).await;
        metrics::count_prompt(&self.parts.telemetry.metrics, decided.as_ref().err());
        if let Some(fact) = audit::decision_fact(&decided, &self.record, &self.rights, &ask) {
            self.parts.store.audit(fact);
        }
        match decided? {
            Decided::Allowed { .. } | Decided::Hooked(_) => Ok(Consent::Standing),
            Decided::Edited => Ok(Consent::Person),
            Decided::Replied(reply) => self.allowed(reply).map(|()| Consent::Person),
        }
    }

    async fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, Refusal> {
        if self.call.stopping().is_cancelled() {
            return Err(Refusal::Withdrawn);
        }
        if self.may_be_unrecorded && !self.is_recorded().await {
            return Err(Refusal::Unavailable);
        }
        if questions.iter().any(|question| question.form.is_some()) {
            // A server of tools asks: by now it may have done something.
            self.call.handover.keep_here();
        }
        let request = self.parts.redactor.request(PromptRequest::Questions(questions));
        let replied = match self.asked_before(|before| *before == request).await? {
            Some(earlier) => self.go_on_from(earlier).await,
            None => {
                let prompts = &self.parts.prompts;
                let opened = prompts.open(request, &self.record.origin, &self.rights, |request, expires| {
                    self.prompt(request, expires)
                });
                let opened = opened.await;
                metrics::count_prompt(&self.parts.telemetry.metrics, opened.as_ref().err());
                self.wait(opened?).await
            }
        };
        match replied {
            Ok(Reply::Answers(answers)) => Ok(answers),
            // The broker takes no such reply to a question.
            Ok(Reply::Once | Reply::Always(_) | Reply::Instead(_) | Reply::Reject { .. }) => Err(Refusal::Unavailable),
            Err(Refusal::Rejected) => Err(Refusal::Dismissed { message: String::new() }),
            Err(Refusal::Corrected { message }) => Err(Refusal::Dismissed { message }),
            Err(refusal) => Err(refusal),
        }
    }

    fn denies(&self, permission: &str, pattern: &str) -> bool {
        judgement::denies(permission, pattern, &self.rights)
    }

    fn allows(&self, permission: &str, pattern: &str) -> bool {
        let ask = Ask::new(permission, vec![pattern.to_owned()]);
        let judged = self.parts.prompts.judge(&self.record.origin, &self.rights, &ask);
        matches!(judged, Judgement::Allow { .. })
    }

    fn has_walls(&self) -> bool {
        self.parts.catalogs.has_walls(&self.record)
    }
}

#[async_trait]
impl OutputHandle for RunContext {
    async fn write(&self, bytes: Bytes) -> Result<(), ToolError> {
        stored(self.tell(|stored| Command::Output { bytes, stored }).await)
    }

    async fn open(&self) -> Result<String, ToolError> {
        stored(self.tell(|opened| Command::OpenOutput { opened }).await)
    }

    async fn progress(&self, title: Option<String>, patch: JsonMap) {
        // A closed log means that the call has ended; nobody would see it.
        let _ = self.log.send(Command::Metadata { title, patch }).await;
    }

    async fn warn(&self, kind: WarningKind, text: String) {
        let _ = self.log.send(Command::Warning { kind, text }).await;
    }

    fn used(&self, resources: Resources) {
        self.call.resources.lock().get_or_insert_default().add(resources);
    }

    fn late_metadata(&self, patches: LateMetadata) {
        self.call.leave(patches);
    }
}

#[async_trait]
impl SessionHandle for RunContext {
    async fn get(&self, key: &str) -> Option<Value> {
        if let Some(kept) = self.call.kept_fact(key) {
            return Some(kept);
        }
        match self.parts.store.fact(&self.record.origin.session_key(), key).await {
            Ok(fact) => fact,
            Err(error) => {
                tracing::error!(call = %self.record.id, error = &error as &dyn std::error::Error, "a fact could not be read");
                None
            }
        }
    }

    fn set(&self, key: &str, value: Value) {
        if !self.call.keep_fact(key, &value) {
            self.parts.store.remember(&self.record.origin.session_key(), key, value);
        }
    }

    fn replace_todos(&self, todos: Vec<Todo>) {
        let session = self.record.origin.session_key();
        self.parts.store.remember(&session, Todo::FACT, json!(todos));
        let call = self.record.id.clone();
        let kind = ServiceEventKind::TodosUpdated { todos, call };
        self.parts.store.record(ServiceEvent::in_session(session, kind));
    }
}

#[async_trait]
impl ChangesHandle for RunContext {
    async fn record(&self, changes: Vec<PlannedChange>) -> Result<(), ToolError> {
        self.keep_all(changes).await.map_err(|error| match error {
            StoreError::Full(what) => ToolError::Quota(format!(
                "The files were left as they are, because what they were before could not be kept: {what}."
            )),
            StoreError::Conflict(_)
            | StoreError::Fenced(_)
            | StoreError::NotFound(_)
            | StoreError::BadPage(_)
            | StoreError::Unavailable(_)
            | StoreError::Failed { .. } => ToolError::Internal(Box::new(error)),
        })
    }

    async fn made_by(&self, call: &CallId) -> Result<Vec<FileChange>, ToolError> {
        lookup::changes_made_by(&self.parts, &self.record.origin.workspace, call).await
    }

    async fn content(&self, sha256: &str) -> Result<Option<Bytes>, ToolError> {
        let blob = self.parts.store.blob(sha256).await;
        blob.map_err(|error| ToolError::Internal(Box::new(error)))
    }

    fn announce(&self, path: &Path) {
        let kind = ServiceEventKind::FileEdited {
            path: path.to_string_lossy().into_owned(),
            call: self.record.id.clone(),
        };
        let session = self.record.origin.session_key();
        self.parts.store.record(ServiceEvent::in_session(session, kind));
    }
}

#[async_trait]
impl ChildrenHandle for RunContext {
    async fn start(&self, call: ChildCall) -> Result<Child, ToolError> {
        if self.call.stopping().is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let tool = call.tool.clone();
        let child = child::start(&self.parts, &self.children, &self.call, call).await?;
        let call = child.call.clone();
        let _ = self.log.send(Command::Child { call, tool }).await;
        Ok(child)
    }

    fn report_launched(&self, facts: JsonMap) {
        self.call.launch(facts);
    }

    async fn depth(&self) -> Result<usize, ToolError> {
        let above = subagent::tasks_above(&self.parts, self.record.origin.parent.clone()).await;
        above.map_err(|error| ToolError::Internal(Box::new(error)))
    }

    async fn delegate(&self, agent: &str, model: Model, resumed: Option<&str>) -> Result<Delegated, ToolError> {
        let delegated = subagent::delegate(&self.parts, &self.record, &self.registry, (agent, model), resumed);
        delegated.await.map_err(|error| ToolError::Internal(Box::new(error)))
    }
}

#[async_trait]
impl HooksHandle for RunContext {
    async fn shell_environment(&self, directory: &Path) -> Result<BTreeMap<String, String>, ToolError> {
        let variables = self.registry.hooks().environment(self.about(), directory).await;
        variables.map_err(|refusal| ToolError::Failed(refusal.to_string()))
    }

    async fn after(&self, result: Value) -> Result<Value, ToolError> {
        // Frozen as JSON text.
        let args = serde_json::from_str(&self.record.input_json).unwrap_or_default();
        let result = self.registry.hooks().after(self.about(), &args, result).await;
        result.map_err(|refusal| ToolError::Failed(refusal.to_string()))
    }
}

/// Says what it means for the tool whether its output could be stored.
fn stored<T>(result: Option<Result<T, StoreError>>) -> Result<T, ToolError> {
    match result {
        Some(Ok(value)) => Ok(value),
        Some(Err(StoreError::Full(what))) => Err(ToolError::Quota(format!(
            "The output could not be stored, so the call was stopped: {what}."
        ))),
        Some(Err(error)) => Err(ToolError::Internal(Box::new(error))),
        None => Err(ToolError::Cancelled),
    }
}
