//! What plugins hear of what happens: the journal, in the shapes of OpenCode's events.
//!
//! Nothing is read while no plugin hears. A worker, whose journal the gateways keep, tells plugins nothing.
//!
//! *Invariant:* reads what is stored, and waits for no plugin. What concerns a workspace is told to its plugins only.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_extensions::javascript::Extensions;
use toolgate_model::{
    CallId, CallRecord, CallState, Prompt, PromptId, PromptOutcome, PromptRequest, Reply, ServiceEvent,
    ServiceEventKind, SessionKey, WorkspaceSet,
};
use toolgate_store::{CallFilter, PageRequest, Store, StoreError};

use super::plugin_answers::{message_of, session_json, tool_part, with_ids};
use crate::grpc::ServeError;

/// Events that are read at once.
const BATCH: usize = 64;

/// How long a session has to be quiet before it counts as idle: between two calls of an agent its model thinks.
const QUIET: Duration = Duration::from_secs(5);

/// Sessions of which it is remembered that they were told of.
const MAX_KNOWN: usize = 10_000;

/// Tells plugins what happens until `stop`.
pub(super) async fn tell(
    store: Arc<dyn Store>,
    extensions: Arc<Extensions>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let mut teller = Teller {
        store,
        extensions,
        known: HashSet::new(),
        busy: HashMap::new(),
    };
    if let Some(Err(error)) = stop.run_until_cancelled(teller.run()).await {
        tracing::warn!(%error, "plugins are not told what happens");
    }
    teller.extensions.never_tell();
    Ok(())
}

struct Teller {
    store: Arc<dyn Store>,
    extensions: Arc<Extensions>,
    /// The sessions that plugins have heard of.
    known: HashSet<SessionKey>,
    busy: HashMap<SessionKey, Busy>,
}

/// A session that is not known to be idle.
#[derive(Default)]
struct Busy {
    calls: HashSet<CallId>,
    /// Since when none of its calls runs.
    quiet: Option<Instant>,
}

impl Teller {
    async fn run(&mut self) -> Result<(), StoreError> {
        let mut listening = self.extensions.listening();
        loop {
            // The sender lives as long as the extensions, which are ours.
            if listening.wait_for(|listening| !listening.is_empty()).await.is_err() {
                return Ok(());
            }
            let mut last = self.store.last().await?;
            let mut after = *last.borrow_and_update();
            loop {
                let batch = self.store.since(after, BATCH).await?;
                // Behind the look: whoever is heard of by now was there before what is told here happened.
                let heard = listening.borrow_and_update().clone();
                self.extensions.begin_to_tell();
                if heard.is_empty() {
                    self.busy.clear();
                    break;
                }
                for (number, event) in &batch {
                    after = *number;
                    if heard.contains(&event.workspace) {
                        self.tell(*number, event).await?;
                    }
                }
                if !batch.is_empty() {
                    continue;
                }
                let next_idle = self.next_idle();
                tokio::select! {
                    more = last.wait_for(|last| *last > after) => if more.is_err() { return Ok(()) },
                    changed = listening.changed() => if changed.is_err() { return Ok(()) },
                    () = tokio::time::sleep_until(next_idle.unwrap_or_else(Instant::now)), if next_idle.is_some() => {
                        self.tell_idle(&heard, after);
                    }
                }
            }
        }
    }

    /// Tells of one event of the journal, by none, one or several of OpenCode's.
    async fn tell(&mut self, number: u64, event: &ServiceEvent) -> Result<(), StoreError> {
        let session = event.session.as_ref();
        let extensions = self.extensions.clone();
        let send = |kind: &str, properties: Value| extensions.tell(&event.workspace, shape(number, kind, properties));
        match (&event.kind, session) {
            (ServiceEventKind::Call { call, state, .. }, Some(session)) => {
                let Some(record) = self.store.get(call).await? else {
                    return Ok(());
                };
                let key = SessionKey::new(&event.workspace, session);
                if self.is_new(&key, &record).await? {
                    let info = session_json(
                        &record.origin.workspace,
                        &record.directory,
                        session,
                        None,
                        (record.created, record.created),
                    );
                    send("session.created", json!({ "sessionID": session, "info": info }));
                }
                self.note(&key, call, *state, number);
                let part = tool_part(&record);
                send("message.part.updated", json!({ "sessionID": session, "part": part }));
            }
            (ServiceEventKind::FileEdited { path, .. }, _) => send("file.edited", json!({ "file": path })),
            (ServiceEventKind::TodosUpdated { todos, .. }, Some(session)) => {
                let todos = with_ids(json!(todos));
                send("todo.updated", json!({ "sessionID": session, "todos": todos }));
            }
            (ServiceEventKind::PromptAdded { prompt, .. }, _) => {
                if let Some((kind, properties)) = self.asked(prompt).await? {
                    send(kind, properties);
                }
            }
            (ServiceEventKind::PromptResolved { prompt, .. }, _) => {
                if let Some(prompt) = self.store.prompt(prompt).await? {
                    let (kind, properties) = replied(&prompt);
                    send(kind, properties);
                }
            }
            (ServiceEventKind::SessionEnded, Some(session)) => {
                let key = SessionKey::new(&event.workspace, session);
                self.known.remove(&key);
                self.busy.remove(&key);
                let info = session_json(&event.workspace, "", session, None, (event.time, event.time));
                send("session.deleted", json!({ "sessionID": session, "info": info }));
            }
            (
                ServiceEventKind::Call { .. } | ServiceEventKind::TodosUpdated { .. } | ServiceEventKind::SessionEnded,
                None,
            )
            | (
                ServiceEventKind::Metadata { .. }
                | ServiceEventKind::Listening { .. }
                | ServiceEventKind::WorkspaceChanged { .. }
                | ServiceEventKind::ToolsChanged { .. },
                _,
            ) => {}
        }
        Ok(())
    }

    /// Says whether a session begins with a call.
    async fn is_new(&mut self, key: &SessionKey, call: &CallRecord) -> Result<bool, StoreError> {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        if !self.known.insert(key.clone()) {
            return Ok(false);
        }
        let filter = CallFilter {
            workspaces: WorkspaceSet::one(&key.workspace),
            session: Some(key.session.clone()),
            until: Some(call.created),
            ..CallFilter::default()
        };
        let page = PageRequest { size: 1, after: None };
        Ok(self.store.list_calls(&filter, &page).await?.items.is_empty())
    }

    /// Notes that a call entered a state, and tells what that is for its session.
    fn note(&mut self, key: &SessionKey, call: &CallId, state: CallState, number: u64) {
        let is_new = !self.busy.contains_key(key);
        let busy = self.busy.entry(key.clone()).or_default();
        if state.is_terminal() {
            busy.calls.remove(call);
            busy.quiet = busy.calls.is_empty().then(Instant::now);
        } else {
            busy.calls.insert(call.clone());
            busy.quiet = None;
        }
        if is_new {
            let status = json!({ "sessionID": key.session, "status": { "type": "busy" } });
            self.extensions
                .tell(&key.workspace, shape(number, "session.status", status));
        }
    }

    fn next_idle(&self) -> Option<Instant> {
        let quiet = self.busy.values().filter_map(|busy| busy.quiet);
        quiet.min().map(|since| since + QUIET)
    }

    fn tell_idle(&mut self, heard: &BTreeSet<String>, number: u64) {
        let now = Instant::now();
        let extensions = &self.extensions;
        self.busy.retain(|key, busy| {
            let is_idle = busy.quiet.is_some_and(|since| since + QUIET <= now);
            if is_idle && heard.contains(&key.workspace) {
                let status = json!({ "sessionID": key.session, "status": { "type": "idle" } });
                extensions.tell(&key.workspace, shape(number, "session.status", status));
                let idle = json!({ "sessionID": key.session });
                extensions.tell(&key.workspace, shape(number, "session.idle", idle));
            }
            !is_idle
        });
    }

    async fn asked(&self, prompt: &PromptId) -> Result<Option<(&'static str, Value)>, StoreError> {
        let Some(prompt) = self.store.prompt(prompt).await? else {
            return Ok(None);
        };
        let call = self.store.get(&prompt.call).await?;
        let message = call.as_ref().map(message_of);
        let tool = json!({ "messageID": message, "callID": prompt.call.name(), "name": prompt.tool });
        Ok(Some(match &prompt.request {
            PromptRequest::Permission { ask, .. } => (
                "permission.asked",
                json!({
                    "id": prompt.id,
                    "sessionID": prompt.session,
                    "permission": ask.permission,
                    "patterns": ask.patterns,
                    "metadata": ask.metadata,
                    "always": ask.always,
                    "tool": tool,
                }),
            ),
            PromptRequest::Questions(questions) => (
                "question.asked",
                json!({ "id": prompt.id, "sessionID": prompt.session, "questions": questions, "tool": tool }),
            ),
        }))
    }
}

/// Returns the event that a prompt has ended; one that nobody answered counts as rejected, as it does for the call.
fn replied(prompt: &Prompt) -> (&'static str, Value) {
    let outcome = prompt.decision.as_ref().map(|decision| &decision.outcome);
    let reply = outcome.and_then(|outcome| match outcome {
        PromptOutcome::Replied(reply) => Some(reply),
        PromptOutcome::Expired | PromptOutcome::Withdrawn(_) => None,
    });
    let mut properties = json!({ "sessionID": prompt.session, "requestID": prompt.id });
    match (&prompt.request, reply) {
        (PromptRequest::Permission { .. }, reply) => {
            properties["reply"] = json!(match reply {
                Some(Reply::Once | Reply::Instead(_) | Reply::Answers(_)) => "once",
                Some(Reply::Always(_)) => "always",
                Some(Reply::Reject { .. }) | None => "reject",
            });
            // Under their older names as well.
            properties["permissionID"] = json!(prompt.id);
            properties["response"] = properties["reply"].clone();
            ("permission.replied", properties)
        }
        (PromptRequest::Questions(_), Some(Reply::Answers(answers))) => {
            properties["answers"] = json!(answers);
            ("question.replied", properties)
        }
        (PromptRequest::Questions(_), _) => ("question.rejected", properties),
    }
}

fn shape(number: u64, kind: &str, properties: Value) -> Value {
    json!({ "id": format!("evt_{number:012}"), "type": kind, "properties": properties })
}
