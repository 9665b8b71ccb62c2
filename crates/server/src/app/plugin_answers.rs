//! What plugins are told of sessions, calls and agents when they ask OpenCode's client, in the shapes of OpenCode.
//!
//! A session is what its calls tell of it: a message is what one step of an agent called, and has nothing but the parts of its
//! tools.
//!
//! *Invariant:* a plugin sees its own workspace only, as it is stored: without secrets.

use std::collections::HashSet;

use async_trait::async_trait;
use serde_json::{Value, json};
use toolgate_extensions::javascript::{Answer, Left, World};
use toolgate_model::{CallRecord, CallState, Outcome, SessionId, SessionKey, Timestamp, Todo, WorkspaceSet};
use toolgate_permission::agents::{Agent, BUILT_IN};
use toolgate_store::{CallFilter, PageRequest, SessionFilter, SessionSummary, StoreError};
use toolgate_tool::Hold;

use super::plugins::Plugins;

/// Sessions and messages that are told at once.
const MAX_SESSIONS: usize = 100;
const MAX_CALLS: usize = 500;

/// How much of messages is told at once: those behind them are left out, as with a limit.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The longest title of a session that a plugin makes, and the longest id of its parent.
const MAX_TITLE: usize = 1000;
const MAX_ID: usize = 256;

/// How many sessions plugins may make below one, and in all in one run of the service.
const MAX_CHILDREN: usize = MAX_SESSIONS;
const MAX_MADE: usize = 10_000;

/// The tool that runs subagents.
const TASK: &str = "task";

/// The session fact that has what a plugin said of a session that it made.
const MADE: &str = "made_by_plugin";

/// Why a plugin gets no answer.
enum Problem {
    Store(StoreError),
    /// What is wrong with what it asked.
    Wrong(String),
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

#[async_trait]
impl World for Plugins {
    async fn answer(&self, name: &str, params: &Value) -> Result<Answer, String> {
        let session = params.get("session").and_then(Value::as_str).map(SessionId::from);
        let limit = params.get("limit").and_then(Value::as_u64);
        let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let answer: Result<_, Problem> = match (name, session) {
            ("app.agents", _) => Ok(Some(Value::Array(self.agents().iter().map(agent).collect()))),
            ("session.list", _) => self.sessions(limit).await.map(Some).map_err(Into::into),
            ("session.status", _) => self.busy().await.map(Some).map_err(Into::into),
            ("session.create", _) => self.make(params).await.map(Some),
            ("session.get", Some(session)) => self.session(&session).await.map_err(Into::into),
            ("session.children", Some(session)) => self.children(&session).await.map(Some).map_err(Into::into),
            ("session.messages", Some(session)) => self.messages(&session, limit).await.map(Some).map_err(Into::into),
            ("session.todo", Some(session)) => self.todos(&session).await.map(Some).map_err(Into::into),
            (_, None) => {
                return Err(format!(
                    "client.{name} has to be told which session is meant: {{ path: {{ id }} }}"
                ));
            }
            (_, Some(_)) => return Err(format!("client.{name} is not available")),
        };
        match answer {
            Ok(Some(data)) => Ok(Answer::Data(data)),
            Ok(None) => Ok(Answer::Missing("Session not found: no call of it is stored".to_owned())),
            Err(Problem::Wrong(problem)) => Err(format!("client.{name}: {problem}")),
            Err(Problem::Store(error)) => {
                tracing::warn!(workspace = self.workspace.name(), name, %error, "a plugin gets no answer");
                Err("what is stored cannot be read now".to_owned())
            }
        }
    }

    fn take_config(&self, left: Vec<Left>, hold: Hold) {
        let left = left.into_iter().map(|one| (one.plugin, one.path, one.config)).collect();
        self.leave(left, hold);
    }
}

impl Plugins {
    fn here(&self) -> WorkspaceSet {
        WorkspaceSet::one(self.workspace.name())
    }

    fn key(&self, session: &SessionId) -> SessionKey {
        SessionKey::new(self.workspace.name(), session)
    }

    async fn calls(&self, session: &SessionId, tools: &[&str], limit: usize) -> Result<Vec<CallRecord>, StoreError> {
        let filter = CallFilter {
            workspaces: self.here(),
            session: Some(session.clone()),
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            ..CallFilter::default()
        };
        let page = PageRequest {
            size: limit.clamp(1, MAX_CALLS),
            after: None,
        };
        let mut calls = self.store.list_calls(&filter, &page).await?.items;
        calls.reverse();
        Ok(calls)
    }

    async fn summaries(&self, limit: Option<usize>) -> Result<Vec<SessionSummary>, StoreError> {
        let filter = SessionFilter {
            workspaces: self.here(),
            ..SessionFilter::default()
        };
        let page = PageRequest {
            size: limit.unwrap_or(MAX_SESSIONS).clamp(1, MAX_SESSIONS),
            after: None,
        };
        Ok(self.store.list_sessions(&filter, &page).await?.items)
    }

    async fn sessions(&self, limit: Option<usize>) -> Result<Value, StoreError> {
        let mut sessions = Vec::new();
        for summary in self.summaries(limit).await? {
            let made = self.store.fact(&summary.session, MADE).await?;
            sessions.push(self.shown(&summary.session.session, made.as_ref(), summary.first, summary.active));
        }
        Ok(Value::Array(sessions))
    }

    async fn busy(&self) -> Result<Value, StoreError> {
        let summaries = self.summaries(None).await?;
        let busy = summaries.iter().filter(|summary| summary.unfinished > 0);
        Ok(busy
            .map(|summary| (summary.session.session.to_string(), json!({ "type": "busy" })))
            .collect())
    }

    /// Returns a session, if there is one: one of which a call is stored, or that a plugin has made.
    async fn session(&self, session: &SessionId) -> Result<Option<Value>, StoreError> {
        let made = self.store.fact(&self.key(session), MADE).await?;
        let calls = self.calls(session, &[], MAX_CALLS).await?;
        let (first, last) = match (calls.first(), calls.last()) {
            (Some(first), Some(last)) => (first.created, last.ended.unwrap_or(last.created)),
            (_, _) => match made.as_ref().and_then(|made| made["created"].as_i64()) {
                Some(created) => (Timestamp(created), Timestamp(created)),
                None => return Ok(None),
            },
        };
        Ok(Some(self.shown(session, made.as_ref(), first, last)))
    }

    /// Makes a session: it is known from now on, and has no call yet.
    async fn make(&self, params: &Value) -> Result<Value, Problem> {
        let session = SessionId::new(format!("ses_{}", uuid::Uuid::now_v7().simple()));
        let now = Timestamp::now();
        let mut made = json!({ "created": now.millis() });
        for (key, longest) in [("title", MAX_TITLE), ("parentID", MAX_ID)] {
            if let Some(text) = params.get(key).and_then(Value::as_str) {
                if text.len() > longest {
                    let problem = format!("{key} has {} bytes, and may have {longest}", text.len());
                    return Err(Problem::Wrong(problem));
                }
                made[key] = json!(text);
            }
        }
        // One after the other: the list of children is read, and written as a whole.
        let mut count = self.made.lock().await;
        if *count >= MAX_MADE {
            let problem =
                format!("plugins have made {MAX_MADE} sessions since the service began, and may make no more");
            return Err(Problem::Wrong(problem));
        }
        if let Some(parent) = made["parentID"].as_str() {
            let parent = self.key(&SessionId::from(parent));
            let mut children = self.made_children(&parent).await?;
            if children.len() >= MAX_CHILDREN {
                let problem = format!("plugins have made {MAX_CHILDREN} sessions below this one, and may make no more");
                return Err(Problem::Wrong(problem));
            }
            children.push(session.to_string());
            self.store
                .remember(&parent, &format!("{MADE}_children"), json!(children));
        }
        self.store.remember(&self.key(&session), MADE, made.clone());
        *count += 1;
        Ok(self.shown(&session, Some(&made), now, now))
    }

    async fn made_children(&self, parent: &SessionKey) -> Result<Vec<String>, StoreError> {
        let fact = self.store.fact(parent, &format!("{MADE}_children")).await?;
        Ok(fact
            .and_then(|fact| serde_json::from_value(fact).ok())
            .unwrap_or_default())
    }

    /// Returns the sessions of the subagents that a session's tasks ran, and those that plugins made below it.
    async fn children(&self, session: &SessionId) -> Result<Value, StoreError> {
        let tasks = self.calls(session, &[TASK], MAX_CALLS).await?;
        let of_task = |task: &CallRecord| {
            let ending = task.ending.as_ref()?;
            Some(ending.metadata.get("sessionId")?.as_str()?.to_owned())
        };
        let mut ids: Vec<String> = tasks.iter().filter_map(of_task).collect();
        ids.extend(self.made_children(&self.key(session)).await?);
        let mut seen = HashSet::new();
        let mut children = Vec::new();
        for id in ids {
            if seen.insert(id.clone())
                && let Some(mut child) = self.session(&SessionId::from(id.as_str())).await?
            {
                child["parentID"] = json!(session);
                children.push(child);
            }
        }
        Ok(Value::Array(children))
    }

    /// Returns the last messages of a session, oldest first.
    async fn messages(&self, session: &SessionId, limit: Option<usize>) -> Result<Value, StoreError> {
        let calls = self.calls(session, &[], limit.unwrap_or(MAX_CALLS)).await?;
        let mut bytes = 0;
        let mut parts: Vec<(&CallRecord, Value)> = Vec::new();
        for call in calls.iter().rev() {
            let part = tool_part(call);
            bytes += part.to_string().len();
            if bytes > MAX_BYTES && !parts.is_empty() {
                break;
            }
            parts.push((call, part));
        }
        let mut messages: Vec<Value> = Vec::new();
        for (call, part) in parts.into_iter().rev() {
            let id = part["messageID"].clone();
            if let Some(message) = messages.last_mut().filter(|message| message["info"]["id"] == id)
                && let Some(parts) = message["parts"].as_array_mut()
            {
                parts.push(part);
                continue;
            }
            messages.push(json!({ "info": self.message(call, &id), "parts": [part] }));
        }
        Ok(Value::Array(messages))
    }

    fn message(&self, call: &CallRecord, id: &Value) -> Value {
        json!({
            "id": id,
            "sessionID": call.origin.session,
            "role": "assistant",
            "agent": call.origin.agent,
            "mode": call.origin.agent,
            "providerID": call.origin.model.provider_id,
            "modelID": call.origin.model.model_id,
            "parentID": "",
            "path": { "cwd": call.directory, "root": self.workspace.worktree().to_string_lossy() },
            "cost": 0,
            "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
            "time": { "created": call.created.millis(), "completed": call.ended.map(Timestamp::millis) },
        })
    }

    async fn todos(&self, session: &SessionId) -> Result<Value, StoreError> {
        let fact = self.store.fact(&self.key(session), Todo::FACT).await?;
        Ok(fact.map_or_else(|| json!([]), with_ids))
    }

    fn shown(&self, id: &SessionId, made: Option<&Value>, first: Timestamp, last: Timestamp) -> Value {
        let directory = self.workspace.directory().to_string_lossy();
        session_json(self.workspace.name(), &directory, id, made, (first, last))
    }
}

/// Returns a session as OpenCode has it; `made` is what a plugin said of it.
pub(super) fn session_json(
    project: &str,
    directory: &str,
    id: &SessionId,
    made: Option<&Value>,
    (first, last): (Timestamp, Timestamp),
) -> Value {
    let text = |key: &str| made.and_then(|made| made[key].as_str());
    let mut session = json!({
        "id": id,
        "slug": id,
        "projectID": project,
        "directory": directory,
        "title": text("title").map_or_else(|| id.to_string(), str::to_owned),
        "version": env!("CARGO_PKG_VERSION"),
        "time": { "created": first.millis(), "updated": last.millis() },
    });
    if let Some(parent) = text("parentID") {
        session["parentID"] = json!(parent);
    }
    session
}

fn agent(agent: &Agent) -> Value {
    let mut shown = json!({
        "name": agent.name,
        "mode": agent.mode.as_str(),
        "native": BUILT_IN.contains(&agent.name.as_str()),
        "hidden": agent.hidden,
        "permission": agent.rules,
        "options": {},
    });
    for (key, text) in [("description", &agent.description), ("prompt", &agent.prompt)] {
        if let Some(text) = text {
            shown[key] = json!(text);
        }
    }
    if let Some((provider, model)) = agent.model.as_deref().and_then(|model| model.split_once('/')) {
        shown["model"] = json!({ "providerID": provider, "modelID": model });
    }
    shown
}

/// Returns tasks with an id each, which OpenCode 1.1 has.
pub(super) fn with_ids(mut todos: Value) -> Value {
    for (index, todo) in todos.as_array_mut().into_iter().flatten().enumerate() {
        if let Some(todo) = todo.as_object_mut() {
            todo.entry("id").or_insert_with(|| json!((index + 1).to_string()));
        }
    }
    todos
}

/// Returns the message that a call belongs to; whoever calls by hand names none.
pub(super) fn message_of(call: &CallRecord) -> String {
    match call.origin.message_id.as_str() {
        "" => format!("msg_{}", call.id.as_str().replace('-', "")),
        id => id.to_owned(),
    }
}

/// Returns a call as the part of a message.
pub(super) fn tool_part(call: &CallRecord) -> Value {
    let input: Value = serde_json::from_str(&call.input_json).unwrap_or_else(|_| json!({}));
    let start = call.started.unwrap_or(call.created).millis();
    let end = call.ended.map_or(start, Timestamp::millis);
    let state = match (&call.ending, call.state) {
        (Some(ending), _) => match &ending.outcome {
            Outcome::Completed { output } => json!({
                "status": "completed",
                "input": input,
                "output": output,
                "title": ending.title,
                "metadata": ending.metadata,
                "time": { "start": start, "end": end },
            }),
            Outcome::Failed { error, .. } => json!({
                "status": "error",
                "input": input,
                "error": error,
                "metadata": ending.metadata,
                "time": { "start": start, "end": end },
            }),
        },
        (None, CallState::Pending) => json!({ "status": "pending", "input": input, "raw": call.input_json }),
        (None, CallState::Running | CallState::Waiting | CallState::Completed | CallState::Failed) => json!({
            "status": "running",
            "input": input,
            "title": call.title,
            "time": { "start": start },
        }),
    };
    json!({
        "id": format!("prt_{}", call.id.as_str()),
        "sessionID": call.origin.session,
        "messageID": message_of(call),
        "type": "tool",
        "callID": call.id.name(),
        "tool": call.tool,
        "state": state,
    })
}
