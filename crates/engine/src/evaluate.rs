//! What a call would ask, found out without making it: its tool is run up to its last question, by handles that do nothing.
//!
//! *Invariant:* nothing is started, changed, recorded or asked. A tool that does not promise to
//! [only look](toolgate_tool::Properties::foreseeable) before it asks is not run, and what is not allowed yet is not looked at: a
//! tool goes on behind a question only if rules or grants allow what it asks.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_fs::changes::PlannedChange;
use toolgate_model::{
    Action, Ask, CallId, Consent, FileChange, GrantId, JsonMap, Model, Origin, PromptRequest, Question, Resources,
    Todo, WarningKind,
};
use toolgate_permission::{Refusal, Rights};
use toolgate_tool::registry::{Entry, Registry};
use toolgate_tool::{
    ChangesHandle, Child, ChildCall, ChildrenHandle, Delegated, HooksHandle, LateMetadata, OutputHandle,
    PermissionHandle, ProgramHandle, SessionHandle, StdinHandle, ToolContext, ToolError,
};

use crate::admission::arguments::{Checked, checked};
use crate::lookup;
use crate::parts::Parts;
use crate::subagent;
use crate::subagent::child::MAX_DEPTH;

/// What a call would ask before it does anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The tool that would run.
    pub tool: String,
    /// One line of what it touches.
    pub summary: String,
    /// Its input, canonical JSON.
    pub input_json: String,
    /// The SHA-256 of that.
    pub input_digest: String,
    /// What would be asked, in order. It ends with the first request that is denied.
    pub requests: Vec<Evaluated>,
    /// The calls that it would make before it is done.
    pub children: Vec<Evaluation>,
    /// Why the call would fail before it has asked everything, in the words that its model would read.
    pub problem: Option<String>,
    /// Whether this is all that it asks before it does something. Otherwise the code of its tool decides.
    pub is_complete: bool,
}

/// One thing that would be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// What, with the verdict on each part.
    pub request: PromptRequest,
    /// The verdict.
    pub action: Action,
    /// The standing approvals that allow it.
    pub grants: Vec<GrantId>,
    /// Whether it is asked only after the one before is approved: what the call finds then may add to it.
    pub is_announced: bool,
}

impl Evaluation {
    /// Returns the strictest verdict. What nobody can know counts as a question.
    pub fn action(&self) -> Action {
        let own = self.requests.iter().map(|request| request.action);
        let all = own.chain(self.children.iter().map(Self::action));
        let unknown = (!self.is_complete).then_some(Action::Ask);
        let strictness = |action: &Action| match action {
            Action::Allow => 0,
            Action::Ask => 1,
            Action::Deny => 2,
        };
        all.chain(unknown).max_by_key(strictness).unwrap_or(Action::Allow)
    }
}

/// Where and for whom a call is evaluated.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) parts: Arc<Parts>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) origin: Arc<Origin>,
    pub(crate) rights: Rights,
    /// Where it would work.
    pub(crate) workspace: Arc<Workspace>,
    /// How many calls hang on each other down to this one.
    pub(crate) depth: usize,
}

/// Evaluates a call of a tool with these arguments.
pub(crate) async fn evaluate(stage: Stage, entry: &Entry, args: Value) -> Evaluation {
    let Checked {
        frozen,
        problem,
        outline,
    } = checked(entry, args, &stage.origin);
    let is_foreseeable = entry.tool.properties().foreseeable;
    let mut evaluation = Evaluation {
        tool: entry.tool.name().to_owned(),
        summary: outline.shown(&stage.parts.redactor).summary,
        input_json: frozen.json,
        input_digest: frozen.digest,
        requests: Vec::new(),
        children: Vec::new(),
        problem: problem.map(|(_, text)| text),
        is_complete: true,
    };
    if evaluation.problem.is_none() && is_foreseeable {
        let rehearsal = Arc::new(Rehearsal {
            stage,
            seen: Mutex::default(),
        });
        let ctx = rehearsal.tool_context();
        let returned = AssertUnwindSafe(entry.tool.call(frozen.value, &ctx))
            .catch_unwind()
            .await;
        let seen = std::mem::take(&mut *rehearsal.seen.lock());
        evaluation.problem = match returned {
            _ if seen.is_over => None,
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("The tool failed.".to_owned()),
        };
        evaluation.requests = seen.requests;
        evaluation.children = seen.children;
    } else if evaluation.problem.is_none() {
        evaluation.is_complete = false;
    }
    evaluation
}

/// What a tool has asked so far.
#[derive(Default)]
struct Seen {
    requests: Vec<Evaluated>,
    children: Vec<Evaluation>,
    /// Whether its last question is asked, or one that is not allowed, or it would act without another one.
    is_over: bool,
}

/// The other side of the handles of a tool that is only to show what it asks.
struct Rehearsal {
    stage: Stage,
    seen: Mutex<Seen>,
}

impl Rehearsal {
    fn tool_context(self: &Arc<Self>) -> ToolContext {
        ToolContext {
            call: CallId::generate(),
            origin: self.stage.origin.clone(),
            workspace: self.stage.workspace.clone(),
            cancelled: CancellationToken::new(),
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

    /// Ends the tool where it would begin to act.
    fn end(&self) -> ToolError {
        self.seen.lock().is_over = true;
        ToolError::Cancelled
    }

    fn appraised(&self, ask: &Ask, is_announced: bool) -> Evaluated {
        let Stage {
            parts, origin, rights, ..
        } = &self.stage;
        let (appraisal, grants) = parts.prompts.appraise(origin, rights, ask);
        Evaluated {
            request: parts.redactor.request(PromptRequest::Permission {
                ask: Box::new(ask.clone()),
                rule: appraisal.rule,
                verdicts: appraisal.parts,
            }),
            action: appraisal.action,
            grants,
            is_announced,
        }
    }
}

#[async_trait]
impl PermissionHandle for Rehearsal {
    async fn ask(&self, ask: Ask) -> Result<Consent, Refusal> {
        let own = self.appraised(&ask, false);
        let later: Vec<Evaluated> = ask.then.iter().map(|later| self.appraised(later, true)).collect();
        let mut seen = self.seen.lock();
        if seen.is_over || ask.late {
            return Err(Refusal::Withdrawn);
        }
        let denies = later.iter().any(|later| later.action == Action::Deny);
        let goes_on = own.action == Action::Allow && !later.is_empty() && !denies;
        let is_denied = own.action == Action::Deny;
        seen.requests.push(own);
        if goes_on {
            return Ok(Consent::Standing);
        }
        if !is_denied {
            seen.requests.extend(later);
        }
        seen.is_over = true;
        Err(Refusal::Withdrawn)
    }

    async fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, Refusal> {
        let mut seen = self.seen.lock();
        if !seen.is_over {
            seen.requests.push(Evaluated {
                request: self.stage.parts.redactor.request(PromptRequest::Questions(questions)),
                action: Action::Ask,
                grants: Vec::new(),
                is_announced: false,
            });
            seen.is_over = true;
        }
        Err(Refusal::Withdrawn)
    }

    fn denies(&self, permission: &str, pattern: &str) -> bool {
        toolgate_permission::judgement::denies(permission, pattern, &self.stage.rights)
    }

    fn allows(&self, permission: &str, pattern: &str) -> bool {
        let ask = Ask::new(permission, vec![pattern.to_owned()]);
        self.appraised(&ask, false).action == Action::Allow
    }

    fn has_walls(&self) -> bool {
        true
    }
}

#[async_trait]
impl OutputHandle for Rehearsal {
    async fn write(&self, _bytes: Bytes) -> Result<(), ToolError> {
        Err(self.end())
    }

    async fn open(&self) -> Result<String, ToolError> {
        Err(self.end())
    }

    async fn progress(&self, _title: Option<String>, _patch: JsonMap) {}

    async fn warn(&self, _kind: WarningKind, _text: String) {}

    fn used(&self, _resources: Resources) {}

    fn late_metadata(&self, _patches: LateMetadata) {}
}

#[async_trait]
impl SessionHandle for Rehearsal {
    async fn get(&self, key: &str) -> Option<Value> {
        let fact = self.stage.parts.store.fact(&self.stage.origin.session_key(), key).await;
        fact.unwrap_or_default()
    }

    fn set(&self, _key: &str, _value: Value) {}

    fn replace_todos(&self, _todos: Vec<Todo>) {}
}

#[async_trait]
impl ChangesHandle for Rehearsal {
    async fn record(&self, _changes: Vec<PlannedChange>) -> Result<(), ToolError> {
        Err(self.end())
    }

    async fn made_by(&self, call: &CallId) -> Result<Vec<FileChange>, ToolError> {
        lookup::changes_made_by(&self.stage.parts, &self.stage.origin.workspace, call).await
    }

    async fn content(&self, sha256: &str) -> Result<Option<Bytes>, ToolError> {
        let blob = self.stage.parts.store.blob(sha256).await;
        blob.map_err(|error| ToolError::Internal(Box::new(error)))
    }

    fn announce(&self, _path: &Path) {}
}

#[async_trait]
impl ChildrenHandle for Rehearsal {
    async fn start(&self, call: ChildCall) -> Result<Child, ToolError> {
        let Stage {
            parts,
            registry,
            origin,
            rights,
            depth,
            ..
        } = self.stage.clone();
        if depth >= MAX_DEPTH || self.seen.lock().is_over {
            return Err(ToolError::Cancelled);
        }
        let Some(place) = parts.catalogs.find(&origin.workspace) else {
            return Err(ToolError::Cancelled);
        };
        let offer = place.offer_for(&origin);
        let entry = registry.resolve(&call.tool, &offer, &rights);
        let Some(entry) = entry.filter(|entry| entry.tool.name() == call.tool) else {
            return Err(ToolError::NoSuchTool {
                tool: call.tool,
                agent: origin.agent.clone(),
                available: registry.callable_names(&offer, &rights).split_off(1),
            });
        };
        let stage = Stage {
            depth: depth + 1,
            ..self.stage.clone()
        };
        let evaluation = Box::pin(evaluate(stage, entry, call.input)).await;
        self.seen.lock().children.push(evaluation);
        Err(ToolError::failed("The call is only evaluated."))
    }

    fn report_launched(&self, _facts: JsonMap) {}

    async fn depth(&self) -> Result<usize, ToolError> {
        let above = subagent::tasks_above(&self.stage.parts, self.stage.origin.parent.clone()).await;
        above.map_err(|error| ToolError::Internal(Box::new(error)))
    }

    async fn delegate(&self, _agent: &str, _model: Model, _resumed: Option<&str>) -> Result<Delegated, ToolError> {
        Err(self.end())
    }
}

#[async_trait]
impl HooksHandle for Rehearsal {
    async fn shell_environment(&self, _directory: &Path) -> Result<BTreeMap<String, String>, ToolError> {
        Err(self.end())
    }

    async fn after(&self, _result: Value) -> Result<Value, ToolError> {
        Err(self.end())
    }
}

#[async_trait]
impl ProgramHandle for Rehearsal {
    async fn call_to_reach(&self, call: &CallId) -> Result<CallId, ToolError> {
        lookup::call_of(&self.stage.parts, &self.stage.origin.workspace, call).await
    }
}

#[async_trait]
impl StdinHandle for Rehearsal {
    async fn next(&self) -> Option<Bytes> {
        None
    }

    fn end(&self) {}
}
