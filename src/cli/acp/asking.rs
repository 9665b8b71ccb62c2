//! The prompts of the sessions: put to the editor, answered with what its user chose, and taken away when they are settled.
//!
//! *Invariant:* a prompt is shown once at a time, and only in the session of its call. What the editor does not answer stays open
//! for other approvers, and that is said; what it refuses to show, too.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use toolgate_client::{BoxError, Client, Decision, PermissionPrompt, Prompt, QuestionPrompt};
use toolgate_contract::{CallState, ListCallsRequest, PromptReplyResult, ReplyResult};

use super::lines::Id;
use super::sessions::{Bound, Sessions};
use super::shown::{Card, End, Version, decision, label};
use crate::cli::connection;
use crate::cli::credentials::CredentialArgs;
use crate::cli::exit::Failure;
use crate::cli::globals::Globals;
use crate::cli::prompt::subject;
use crate::cli::service;
use crate::cli::terminal::{Terminal, visible};
use crate::cli::words;

/// How often services are looked for that the agent has started meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long it takes until a service that has failed is tried again.
const PAUSE: Duration = Duration::from_secs(5);

/// What the ids of our own requests begin with.
const OWN: &str = "toolgate-asks-";

/// What an editor has answered.
enum Answer {
    Chosen(String),
    /// It shows the request no more, and nothing was chosen.
    Dismissed,
    /// It cannot show it.
    Failed(String),
}

/// Puts prompts to the editor.
pub(super) struct Desk {
    globals: Globals,
    /// The workspace of all sessions, if one was named.
    workspace: Option<String>,
    name: String,
    terminal: Terminal,
    /// What goes to the editor beside what the agent says.
    own: mpsc::Sender<Value>,
    /// Told when the sessions have changed.
    changed: watch::Sender<()>,
    /// Never held across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: Sessions,
    /// Requests that the editor has not answered, by their ids.
    answers: HashMap<String, oneshot::Sender<Answer>>,
    /// The prompts that are shown.
    shown: HashSet<String>,
}

/// Who is attended to: the service, by its id where it was found, and the session.
type Place = (String, String);

impl Desk {
    pub(super) fn new(
        (globals, workspace, name): (Globals, Option<String>, String),
        terminal: Terminal,
        own: mpsc::Sender<Value>,
    ) -> Self {
        Self {
            globals,
            workspace,
            name,
            terminal,
            own,
            changed: watch::Sender::default(),
            state: Mutex::default(),
        }
    }

    /// Does something with the sessions, which may change them.
    pub(super) fn sessions<T>(&self, change: impl FnOnce(&mut Sessions) -> T) -> T {
        let done = change(&mut self.state().sessions);
        self.changed.send_replace(());
        done
    }

    /// Says whether the answer to a request is waited for.
    pub(super) fn waits_for(&self, id: &Id) -> bool {
        self.state().sessions.waits_for(id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; should it ever, the sets are still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an answer of the editor if it is to a request of our own; too late, it is for nobody.
    pub(super) fn answered(&self, id: &Id, line: &[u8]) -> bool {
        let Some(id) = id.text().filter(|id| id.starts_with(OWN)) else {
            return false;
        };
        let waiting = self.state().answers.remove(&id);
        let Some(waiting) = waiting else { return true };
        // What cannot be read says nothing, which is said.
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let outcome = &message["result"]["outcome"];
        let answer = match (outcome["outcome"].as_str(), outcome["optionId"].as_str()) {
            (Some("selected"), Some(option)) => Answer::Chosen(option.to_owned()),
            (Some(_), _) => Answer::Dismissed,
            (None, _) => {
                let problem = message["error"]["message"].as_str();
                Answer::Failed(problem.unwrap_or("it did not say what was chosen").to_owned())
            }
        };
        // Taken back meanwhile, it is for nobody, too.
        let _ = waiting.send(answer);
        true
    }

    /// Attends to the sessions for as long as it is polled.
    pub(super) async fn attend(&self) {
        let mut attending = FuturesUnordered::new();
        let mut known: HashMap<Place, CancellationToken> = HashMap::new();
        let mut told: HashSet<Place> = HashSet::new();
        let mut changed = self.changed.subscribe();
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let ended: Option<(Place, Option<Failure>)> = tokio::select! {
                Some(ended) = attending.next(), if !attending.is_empty() => Some(ended),
                _ = changed.changed() => None,
                _ = look.tick() => None,
            };
            if let Some((place, failure)) = ended {
                if let Some(failure) = failure {
                    // It is tried again, if it is still there: a server that was away comes back, whatever it answered.
                    known.remove(&place);
                    let is_news = told.insert(place.clone());
                    self.has_failed(&place, is_news, &failure);
                }
                continue;
            }
            let found = self.places();
            known.retain(|place, gone| {
                let is_there = found.iter().any(|(there, ..)| there == place);
                if !is_there {
                    gone.cancel();
                }
                is_there
            });
            for (place, url, bound) in found {
                // Loaded again, a session is another one of the same name.
                if known.get(&place).is_some_and(|gone| !gone.is_cancelled()) {
                    continue;
                }
                let gone = bound.over.child_token();
                known.insert(place.clone(), gone.clone());
                attending.push(async move {
                    let attended = gone.run_until_cancelled(async {
                        let ended = self.attend_to(&bound, &url).await;
                        if ended.is_err() {
                            tokio::time::sleep(PAUSE).await;
                        }
                        ended
                    });
                    (place, attended.await.and_then(Result::err))
                });
            }
        }
    }

    /// Returns where prompts of the sessions may come from: the service that was named, or those that were started for them.
    fn places(&self) -> Vec<(Place, String, Bound)> {
        let bound = self.state().sessions.bound().to_vec();
        if bound.is_empty() {
            return Vec::new();
        }
        if let Some(url) = &self.globals.server {
            let place = |bound: Bound| ((String::new(), bound.name.clone()), url.clone(), bound);
            return bound.into_iter().map(place).collect();
        }
        let mut found = Vec::new();
        for instance in service::running() {
            let of = bound.iter().find(|one| Some(&one.name) == instance.session.as_ref());
            found.extend(of.map(|of| ((instance.id, of.name.clone()), instance.url, of.clone())));
        }
        found
    }

    /// Notes why a place could not be attended to, and says so the first time.
    fn has_failed(&self, place: &Place, is_news: bool, failure: &Failure) {
        if place.0.is_empty() && is_news {
            let text = failure.describe(false);
            self.terminal.inform(&format!("prompts cannot be shown: {text}"));
        } else {
            tracing::debug!("{}: {failure}", place.1);
        }
    }

    /// Answers the prompts of a session at a service until that is gone.
    async fn attend_to(&self, bound: &Bound, url: &str) -> Result<(), Failure> {
        // What is cancelled while the connection is made is cancelled, too.
        let cancelled = bound.cancelled.subscribe();
        let (client, workspace) = match &self.globals.server {
            Some(_) => {
                let client = connection::connect_to(url, &self.globals.credentials).await?;
                let named = self.workspace.as_ref().unwrap_or(&bound.folder);
                let workspace = connection::workspace_name(&client, Some(named)).await?;
                (client, workspace)
            }
            // The owner of the socket; what is meant for another server is not shown.
            None => {
                let client = connection::connect_to(url, &CredentialArgs::default()).await?;
                (client, String::new())
            }
        };
        let (terminal, elsewhere) = (self.terminal.clone(), self.elsewhere(&bound.name));
        let approver = client
            .approver(&self.name)
            .workspace(&workspace)
            .sessions([&bound.name])
            .on_reply(move |result| tell(result, &terminal, &elsewhere));
        let answering = approver.run(|prompt, problem| self.decide(bound, prompt, problem));
        tokio::select! {
            error = answering => Err(error.into()),
            never = cancel_calls(&client, &workspace, bound, cancelled) => match never {},
        }
    }

    /// Returns the command that answers the prompts of a session from elsewhere.
    fn elsewhere(&self, session: &str) -> String {
        let server = self.globals.server.iter();
        let server: String = server.map(|url| format!(" --server {url}")).collect();
        format!("toolgate approve --session {session}{server}")
    }

    async fn decide(&self, bound: &Bound, prompt: Prompt, problem: Option<String>) -> Result<Decision, BoxError> {
        // Two services that share their records may both tell of it.
        let Some(_shown) = Shown::new(self, prompt.id()) else {
            return Ok(Decision::Leave);
        };
        if let Some(problem) = problem {
            let problem = visible(&problem);
            self.terminal.inform(&format!("the answer was not accepted: {problem}"));
        }
        let (session, version) = self.session(&bound.name).await;
        let decided = match &prompt {
            Prompt::Permission(asked) => self.permission(bound, asked, (&session, version)).await,
            Prompt::Question(asked) => self.questions(bound, asked, (&session, version)).await,
        };
        Ok(decided.unwrap_or_else(|why| {
            let (what, elsewhere) = (subject(prompt.message()), self.elsewhere(&bound.name));
            let text = format!("{what}: {}. It waits for another approver: {elsewhere}", visible(&why));
            self.terminal.inform(&text);
            Decision::Leave
        }))
    }

    /// Returns the id of a session, when the agent has told it, and the form of what is said in it.
    async fn session(&self, name: &str) -> (String, Version) {
        let mut changed = self.changed.subscribe();
        loop {
            let known = {
                let state = self.state();
                state.sessions.id_of(name).map(|id| (id, state.sessions.version))
            };
            match known {
                Some(known) => return known,
                // It is told of every change, and dropped with the session.
                None => drop(changed.changed().await),
            }
        }
    }

    async fn permission(
        &self,
        bound: &Bound,
        asked: &PermissionPrompt,
        place: (&str, Version),
    ) -> Result<Decision, String> {
        let card = Card::of_permission(asked, place.1);
        let dialog = Dialog::open(self, bound, card, place).await;
        let (decided, end) = match dialog.answer().await {
            (Answer::Chosen(option), dialog) => match decision(&option, asked) {
                Some(reject @ Decision::Reject { .. }) => (Ok(reject), (dialog, End::Refused)),
                Some(decision) => (Ok(decision), (dialog, End::Allowed)),
                None => {
                    let why = format!("the editor answered {option:?}, which was not offered");
                    (Err(why), (dialog, End::Refused))
                }
            },
            (Answer::Dismissed, dialog) => (Ok(dialog.dismissed()), (dialog, End::Refused)),
            (Answer::Failed(why), dialog) => (Err(format!("the editor does not show it: {why}")), (dialog, End::Over)),
        };
        end.0.close(end.1);
        decided
    }

    /// Asks one question after the other.
    async fn questions(
        &self,
        bound: &Bound,
        asked: &QuestionPrompt,
        place: (&str, Version),
    ) -> Result<Decision, String> {
        let cards: Option<Vec<_>> = asked.questions.iter().map(Card::of_question).collect();
        let cards = cards.ok_or("a question without one answer to choose cannot be shown in the editor")?;
        let mut answers = Vec::with_capacity(cards.len());
        for (card, question) in cards.into_iter().zip(&asked.questions) {
            let dialog = Dialog::open(self, bound, card, place).await;
            let (answer, dialog) = dialog.answer().await;
            let label = match &answer {
                Answer::Chosen(option) => label(option, question),
                Answer::Dismissed | Answer::Failed(_) => None,
            };
            match (label, answer) {
                (Some(label), _) => {
                    dialog.close(End::Allowed);
                    answers.push(vec![label.to_owned()]);
                }
                (None, Answer::Failed(why)) => {
                    dialog.close(End::Over);
                    return Err(format!("the editor does not show it: {why}"));
                }
                (None, Answer::Chosen(_) | Answer::Dismissed) => {
                    let decision = dialog.dismissed();
                    dialog.close(End::Refused);
                    return Ok(decision);
                }
            }
        }
        Ok(Decision::Answer(answers))
    }

    /// Sends what nobody waits for. An editor that reads so slowly that there is no room is not told.
    fn tell_editor(&self, method: &str, params: Value) {
        let _ = self.own.try_send(notification(method, params));
    }
}

fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Cancels what runs in a session whenever the editor cancels its work: an agent may not do that.
async fn cancel_calls(
    client: &Client,
    workspace: &str,
    bound: &Bound,
    mut cancelled: watch::Receiver<u64>,
) -> Infallible {
    let workspace = if workspace.is_empty() {
        connection::ALL_WORKSPACES
    } else {
        workspace
    };
    while cancelled.changed().await.is_ok() {
        let request = ListCallsRequest {
            workspace: workspace.to_owned(),
            session_id: bound.name.clone(),
            states: [CallState::Pending, CallState::Running, CallState::Waiting]
                .map(Into::into)
                .to_vec(),
            ..ListCallsRequest::default()
        };
        let calls = match client.list_calls(request).await {
            Ok(calls) => calls,
            Err(error) => {
                // Whether the service is gone is found by who waits for its prompts.
                tracing::warn!(%error, "the calls of a cancelled turn are not found");
                continue;
            }
        };
        for call in calls {
            if let Err(error) = client.cancel_call(call.call_id).await {
                // It has ended, or its service has.
                tracing::debug!(%error, "a call is not cancelled");
            }
        }
    }
    std::future::pending().await
}

/// Says what became of a reply that does not count.
fn tell(result: &PromptReplyResult, terminal: &Terminal, elsewhere: &str) {
    let (why, message) = (words::reply_result(result.result), visible(&result.message));
    match result.result() {
        // Of what somebody else has settled, the editor is told.
        ReplyResult::Accepted
        | ReplyResult::AlreadyResolved
        | ReplyResult::Expired
        | ReplyResult::Withdrawn
        | ReplyResult::NotFound => {}
        ReplyResult::NotAllowed | ReplyResult::SecondApprovalNeeded => terminal.inform(&format!(
            "the answer does not settle {}: {why}: {message}. It waits for another approver: {elsewhere}",
            result.prompt_id
        )),
        ReplyResult::Invalid | ReplyResult::DigestMismatch | ReplyResult::OtherInstance | ReplyResult::Unspecified => {
            terminal.inform(&format!("the answer was not accepted: {why}: {message}"));
        }
    }
}

/// Keeps a prompt from being shown twice.
struct Shown<'d> {
    desk: &'d Desk,
    prompt: String,
}

impl<'d> Shown<'d> {
    fn new(desk: &'d Desk, prompt: &str) -> Option<Self> {
        let is_new = desk.state().shown.insert(prompt.to_owned());
        is_new.then(|| Self {
            desk,
            prompt: prompt.to_owned(),
        })
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.desk.state().shown.remove(&self.prompt);
    }
}

/// A request that the editor shows. Dropped before its answer, it is withdrawn.
struct Dialog<'d> {
    desk: &'d Desk,
    card: Card,
    session: String,
    version: Version,
    id: String,
    answer: Option<oneshot::Receiver<Answer>>,
    /// How often the work of the session was cancelled, and had been when this was asked.
    cancelled: (watch::Receiver<u64>, u64),
    end: Option<End>,
}

impl<'d> Dialog<'d> {
    async fn open(desk: &'d Desk, bound: &Bound, card: Card, (session, version): (&str, Version)) -> Self {
        let id = format!("{OWN}{}", uuid::Uuid::now_v7().simple());
        let (sender, answer) = oneshot::channel();
        let receiver = bound.cancelled.subscribe();
        let before = *receiver.borrow();
        desk.state().answers.insert(id.clone(), sender);
        let dialog = Self {
            desk,
            card,
            session: session.to_owned(),
            version,
            id,
            answer: Some(answer),
            cancelled: (receiver, before),
            end: None,
        };
        let announced = dialog.card.announced(session, version);
        let announced = announced.map(|params| notification("session/update", params));
        let request = json!({
            "jsonrpc": "2.0",
            "id": dialog.id,
            "method": "session/request_permission",
            "params": dialog.card.asked(session, version),
        });
        for message in announced.into_iter().chain([request]) {
            // An editor that is gone ends all of it.
            let _ = desk.own.send(message).await;
        }
        dialog
    }

    /// Waits for the answer.
    async fn answer(mut self) -> (Answer, Self) {
        let answer = match &mut self.answer {
            Some(answer) => answer.await,
            None => std::future::pending().await,
        };
        self.answer = None;
        let gone = |_| Answer::Failed("it is gone".to_owned());
        (answer.unwrap_or_else(gone), self)
    }

    /// Says what it means that nothing was chosen: no, unless the call is cancelled with the work of the session.
    fn dismissed(&self) -> Decision {
        let (counter, before) = &self.cancelled;
        match *counter.borrow() == *before {
            true => Decision::reject(""),
            false => Decision::Leave,
        }
    }

    fn close(mut self, end: End) {
        self.end = Some(end);
    }
}

impl Drop for Dialog<'_> {
    fn drop(&mut self) {
        if self.answer.is_some() {
            self.desk.state().answers.remove(&self.id);
            // Who does not know this goes on showing it; what is answered then is for nobody.
            self.desk.tell_editor("$/cancel_request", json!({"requestId": self.id}));
        }
        let end = self.end.unwrap_or(End::Over);
        let ended = self.card.ended(&self.session, end, self.version);
        self.desk.tell_editor("session/update", ended);
    }
}
