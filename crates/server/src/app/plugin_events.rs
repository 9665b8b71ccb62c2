//! What plugins hear of what happens: the journal, in the shapes of OpenCode's events.
//!
//! Nothing is read while no plugin hears. A worker, whose journal the gateways keep, tells of what it has changed itself, and of its
//! prompts: nobody else changes anything of a workspace that it has.
//!
//! *Invariant:* reads what is stored, but for edited files, todos and ends of sessions, of which a worker tells when they are queued for
//! the store; and waits for no plugin. What concerns a workspace is told to its plugins only. What happens while the store cannot be read
//! is told later; what can never be told is passed over, and that is said.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_extensions::javascript::Extensions;
use toolgate_ledger::Told;
use toolgate_model::{
    CallId, CallRecord, CallState, Prompt, PromptId, PromptOutcome, PromptRequest, Reply, ServiceEvent,
    ServiceEventKind, SessionKey, Timestamp, WorkspaceSet,
};
use toolgate_store::{CallFilter, Journal, PageRequest, Store, StoreError};

use super::plugin_answers::{message_of, session_json, tool_part, with_ids};
use crate::grpc::ServeError;

/// Events that are read at once.
const BATCH: usize = 64;

/// How long a session has to be quiet before it counts as idle: between two calls of an agent its model thinks.
const QUIET: Duration = Duration::from_secs(5);

/// Sessions of which it is remembered that they were told of.
const MAX_KNOWN: usize = 10_000;

/// How long to wait before the store is read again that has failed: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// After how many failures in a row an event is passed over, if the store can be read otherwise.
const MAX_FAILURES: u32 = 6;

/// Tells plugins what happens until `stop`.
pub(super) async fn tell(
    records: (Arc<dyn Store>, Option<Arc<Told>>),
    extensions: Arc<Extensions>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let mut teller = Teller::new(records, extensions.clone());
    stop.run_until_cancelled(teller.run()).await;
    extensions.never_tell();
    Ok(())
}

/// What is read of a store.
#[async_trait]
trait Records: Send + Sync {
    async fn last(&self) -> Result<watch::Receiver<u64>, StoreError>;
    async fn since(&self, after: u64, limit: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError>;
    async fn call(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError>;
    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError>;
    /// Says whether a session has a call from before this moment.
    async fn has_calls(&self, session: &SessionKey, before: Timestamp) -> Result<bool, StoreError>;
}

#[async_trait]
impl Records for (Arc<dyn Store>, Option<Arc<Told>>) {
    async fn last(&self) -> Result<watch::Receiver<u64>, StoreError> {
        match &self.1 {
            Some(told) => Ok(told.last()),
            None => Journal::last(&*self.0).await,
        }
    }

    async fn since(&self, after: u64, limit: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError> {
        match &self.1 {
            Some(told) => Ok(told.since(after, limit)),
            None => Journal::since(&*self.0, after, limit).await,
        }
    }

    async fn call(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        self.0.get(id).await
    }

    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        self.0.prompt(id).await
    }

    async fn has_calls(&self, session: &SessionKey, before: Timestamp) -> Result<bool, StoreError> {
        let filter = CallFilter {
            workspaces: WorkspaceSet::one(&session.workspace),
            session: Some(session.session.clone()),
            until: Some(before),
            ..CallFilter::default()
        };
        let page = PageRequest { size: 1, after: None };
        Ok(!self.0.list_calls(&filter, &page).await?.items.is_empty())
    }
}

/// Who is told.
trait Hearers: Send + Sync {
    /// The workspaces in which somebody hears, now and later.
    fn listening(&self) -> watch::Receiver<BTreeSet<String>>;
    /// Everything that happens from now on is told.
    fn begin(&self);
    fn hear(&self, workspace: &str, event: Value);
}

impl Hearers for Arc<Extensions> {
    fn listening(&self) -> watch::Receiver<BTreeSet<String>> {
        Extensions::listening(self)
    }

    fn begin(&self) {
        self.begin_to_tell();
    }

    fn hear(&self, workspace: &str, event: Value) {
        self.tell(workspace, event);
    }
}

struct Teller<R, H> {
    store: R,
    hearers: H,
    /// The last event that was told; none while nobody hears.
    after: Option<u64>,
    /// How often the store has failed since something was read.
    failures: u32,
    /// Up to which event they are read one by one, so that one that cannot be read stops only those behind it.
    careful: u64,
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

impl<R: Records, H: Hearers> Teller<R, H> {
    fn new(store: R, hearers: H) -> Self {
        Self {
            store,
            hearers,
            after: None,
            failures: 0,
            careful: 0,
            known: HashSet::new(),
            busy: HashMap::new(),
        }
    }

    /// Tells what happens, for ever: what cannot be read now is read later.
    async fn run(&mut self) {
        while let Err(error) = self.go_on().await {
            self.failures = self.failures.saturating_add(1);
            if self.failures == 1 {
                tracing::warn!(%error, "the store cannot be read: plugins are told later what happens now");
            }
            if let Some(after) = self.after {
                // Nobody has to wait: they are told of what happens from there on.
                self.hearers.begin();
                self.careful = after + BATCH as u64;
                let is_away = matches!(error, StoreError::Unavailable(_));
                if self.failures >= MAX_FAILURES && !is_away && self.is_bad(after + 1).await {
                    tracing::warn!(%error, number = after + 1, "plugins are not told of an event that cannot be read");
                    self.told(after + 1);
                }
            }
            let longer = 2u32.saturating_pow(self.failures.saturating_sub(1));
            tokio::time::sleep(PAUSES.0.saturating_mul(longer).min(PAUSES.1)).await;
        }
    }

    /// Says whether it is this event that cannot be read, and not the store.
    async fn is_bad(&self, number: u64) -> bool {
        let Ok(last) = self.store.last().await.map(|last| *last.borrow()) else {
            return false;
        };
        number <= last && self.store.since(number, 1).await.is_ok()
    }

    /// Notes that an event was told, or needs not be.
    fn told(&mut self, number: u64) {
        if let Some(missed) = self.after.and_then(|after| number.checked_sub(after + 1))
            && missed > 0
        {
            tracing::warn!(missed, "events were deleted before plugins could be told of them");
        }
        if self.failures > 0 {
            tracing::info!("plugins are told again what happens");
        }
        self.failures = 0;
        self.after = Some(number);
    }

    async fn go_on(&mut self) -> Result<(), StoreError> {
        let mut listening = self.hearers.listening();
        loop {
            // The sender lives as long as the extensions, which are ours.
            if listening.wait_for(|listening| !listening.is_empty()).await.is_err() {
                return Ok(());
            }
            let mut last = self.store.last().await?;
            let newest = *last.borrow_and_update();
            loop {
                let after = *self.after.get_or_insert(newest);
                let size = if after < self.careful { 1 } else { BATCH };
                let batch = self.store.since(after, size).await?;
                // Behind the look: whoever is heard of by now was there before what is told here happened.
                let heard = listening.borrow_and_update().clone();
                self.hearers.begin();
                if heard.is_empty() {
                    self.busy.clear();
                    self.after = None;
                    self.failures = 0;
                    break;
                }
                // What ends where nobody hears is not told here.
                self.busy.retain(|key, _| heard.contains(&key.workspace));
                for (number, event) in &batch {
                    if heard.contains(&event.workspace) {
                        self.tell(*number, event).await?;
                    }
                    self.told(*number);
                }
                if !batch.is_empty() {
                    continue;
                }
                self.failures = 0;
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
        for (kind, properties) in self.shapes(event).await? {
            self.hearers.hear(&event.workspace, shape(number, kind, properties));
        }
        Ok(())
    }

    async fn shapes(&mut self, event: &ServiceEvent) -> Result<Vec<(&'static str, Value)>, StoreError> {
        let session = event.session.as_ref();
        Ok(match (&event.kind, session) {
            (ServiceEventKind::Call { call, state, .. }, Some(session)) => {
                let key = SessionKey::new(&event.workspace, session);
                let Some(record) = self.store.call(call).await? else {
                    self.forget_call(&key, call);
                    return Ok(Vec::new());
                };
                let mut shapes = Vec::new();
                if self.is_new(&key, &record).await? {
                    let info = session_json(
                        &record.origin.workspace,
                        &record.directory,
                        session,
                        None,
                        (record.created, record.created),
                    );
                    shapes.push(("session.created", json!({ "sessionID": session, "info": info })));
                }
                shapes.extend(self.note(&key, call, *state));
                let part = tool_part(&record);
                shapes.push(("message.part.updated", json!({ "sessionID": session, "part": part })));
                shapes
            }
            (ServiceEventKind::FileEdited { path, .. }, _) => vec![("file.edited", json!({ "file": path }))],
            (ServiceEventKind::TodosUpdated { todos, .. }, Some(session)) => {
                let todos = with_ids(json!(todos));
                vec![("todo.updated", json!({ "sessionID": session, "todos": todos }))]
            }
            (ServiceEventKind::PromptAdded { prompt, .. }, _) => self.asked(prompt).await?.into_iter().collect(),
            (ServiceEventKind::PromptResolved { prompt, .. }, _) => {
                let prompt = self.store.prompt(prompt).await?;
                prompt.iter().map(replied).collect()
            }
            (ServiceEventKind::SessionEnded, Some(session)) => {
                let key = SessionKey::new(&event.workspace, session);
                self.known.remove(&key);
                self.busy.remove(&key);
                let info = session_json(&event.workspace, "", session, None, (event.time, event.time));
                vec![("session.deleted", json!({ "sessionID": session, "info": info }))]
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
            ) => Vec::new(),
        })
    }

    /// Says whether a session begins with a call.
    async fn is_new(&mut self, key: &SessionKey, call: &CallRecord) -> Result<bool, StoreError> {
        if self.known.contains(key) {
            return Ok(false);
        }
        let is_new = !self.store.has_calls(key, call.created).await?;
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(key.clone());
        Ok(is_new)
    }

    /// Notes that a call entered a state; returns what that is for its session.
    fn note(&mut self, key: &SessionKey, call: &CallId, state: CallState) -> Option<(&'static str, Value)> {
        let is_new = !self.busy.contains_key(key);
        let busy = self.busy.entry(key.clone()).or_default();
        if state.is_terminal() {
            busy.calls.remove(call);
            busy.quiet = busy.calls.is_empty().then(Instant::now);
        } else {
            busy.calls.insert(call.clone());
            busy.quiet = None;
        }
        let status = || json!({ "sessionID": key.session, "status": { "type": "busy" } });
        is_new.then(|| ("session.status", status()))
    }

    /// Notes that a call has ended: its record was deleted, which happens later.
    fn forget_call(&mut self, key: &SessionKey, call: &CallId) {
        if let Some(busy) = self.busy.get_mut(key)
            && busy.calls.remove(call)
            && busy.calls.is_empty()
        {
            busy.quiet = Some(Instant::now());
        }
    }

    fn next_idle(&self) -> Option<Instant> {
        let quiet = self.busy.values().filter_map(|busy| busy.quiet);
        quiet.min().map(|since| since + QUIET)
    }

    fn tell_idle(&mut self, heard: &BTreeSet<String>, number: u64) {
        let now = Instant::now();
        let hearers = &self.hearers;
        self.busy.retain(|key, busy| {
            let is_idle = busy.quiet.is_some_and(|since| since + QUIET <= now);
            if is_idle && heard.contains(&key.workspace) {
                let status = json!({ "sessionID": key.session, "status": { "type": "idle" } });
                hearers.hear(&key.workspace, shape(number, "session.status", status));
                let idle = json!({ "sessionID": key.session });
                hearers.hear(&key.workspace, shape(number, "session.idle", idle));
            }
            !is_idle
        });
    }

    async fn asked(&self, prompt: &PromptId) -> Result<Option<(&'static str, Value)>, StoreError> {
        let Some(prompt) = self.store.prompt(prompt).await? else {
            return Ok(None);
        };
        let call = self.store.call(&prompt.call).await?;
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

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::sync::mpsc;
    use toolgate_model::SessionId;

    use super::*;

    /// A store in which files are changed, and which fails as it is told.
    struct Shaky {
        last: watch::Sender<u64>,
        first: Mutex<u64>,
        /// Errors that come before anything is read.
        errors: Mutex<Vec<StoreError>>,
        /// An event that nobody can read.
        bad: u64,
    }

    #[async_trait]
    impl Records for Arc<Shaky> {
        async fn last(&self) -> Result<watch::Receiver<u64>, StoreError> {
            Ok(self.last.subscribe())
        }

        async fn since(&self, after: u64, limit: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError> {
            if let Some(error) = self.errors.lock().pop() {
                return Err(error);
            }
            let first = (*self.first.lock()).max(after + 1);
            let numbers: Vec<u64> = (first..=*self.last.borrow()).take(limit).collect();
            if numbers.contains(&self.bad) {
                return Err(failed());
            }
            let event = |number: u64| {
                let kind = ServiceEventKind::FileEdited {
                    path: format!("/w/{number}"),
                    call: CallId::from("call"),
                };
                ServiceEvent::in_session(SessionKey::new("w", &SessionId::from("s")), kind)
            };
            Ok(numbers.into_iter().map(|number| (number, event(number))).collect())
        }

        async fn call(&self, _: &CallId) -> Result<Option<CallRecord>, StoreError> {
            Ok(None)
        }

        async fn prompt(&self, _: &PromptId) -> Result<Option<Prompt>, StoreError> {
            Ok(None)
        }

        async fn has_calls(&self, _: &SessionKey, _: Timestamp) -> Result<bool, StoreError> {
            Ok(false)
        }
    }

    struct Ears {
        listening: watch::Sender<BTreeSet<String>>,
        heard: mpsc::UnboundedSender<Value>,
    }

    impl Hearers for Ears {
        fn listening(&self) -> watch::Receiver<BTreeSet<String>> {
            self.listening.subscribe()
        }

        fn begin(&self) {}

        fn hear(&self, _: &str, event: Value) {
            self.heard.send(event["properties"]["file"].clone()).unwrap();
        }
    }

    fn failed() -> StoreError {
        StoreError::Failed {
            context: "read".to_owned(),
            source: "it is broken".into(),
        }
    }

    fn away() -> StoreError {
        StoreError::Unavailable("away".to_owned())
    }

    /// Has so many events come to pass while the store is as it is made, and checks which of them plugins hear of.
    async fn check(events: u64, make: impl FnOnce(&mut Shaky), expected: &[u64]) {
        let mut shaky = Shaky {
            last: watch::Sender::new(0),
            first: Mutex::new(1),
            errors: Mutex::default(),
            bad: 0,
        };
        make(&mut shaky);
        let store = Arc::new(shaky);
        let (heard, mut hearing) = mpsc::unbounded_channel();
        let listening = watch::Sender::new(BTreeSet::from(["w".to_owned()]));
        let mut teller = Teller::new(store.clone(), Ears { listening, heard });
        // Whoever hears has heard of nothing yet.
        teller.after = Some(0);
        store.last.send_replace(events);
        let hears = async {
            for number in expected {
                let file = hearing.recv().await.unwrap();
                assert_eq!(file, format!("/w/{number}"));
            }
        };
        let heard = async {
            tokio::select! {
                () = teller.run() => panic!("it has ended"),
                () = hears => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(60), heard).await.unwrap();
    }

    #[tokio::test]
    async fn what_happens_while_the_store_is_away_is_told_later() {
        let errors = || (0..3).map(|_| away()).chain([failed()]).collect();
        check(
            100,
            |store| *store.errors.lock() = errors(),
            &(1..=100).collect::<Vec<_>>(),
        )
        .await;
    }

    #[tokio::test]
    async fn an_event_that_cannot_be_read_stops_no_other() {
        let all_but_70: Vec<u64> = (1..=100).filter(|number| *number != 70).collect();
        check(100, |store| store.bad = 70, &all_but_70).await;
    }

    #[tokio::test]
    async fn what_was_deleted_meanwhile_is_passed_over() {
        check(9, |store| *store.first.lock() = 5, &[5, 6, 7, 8, 9]).await;
    }
}
