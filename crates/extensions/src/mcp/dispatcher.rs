//! One connection to a server, whatever carries it: who waits for which answer, what the server is sent, and why the
//! connection is lost.
//!
//! *Invariant:* every message of a server is dealt with at once, so that none piles up here; what waits to be sent is
//! bounded, and a server that does not read it is lost. What is kept of a server's words is short, and so is the number of its
//! questions that are open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::InstanceId;
use tracing::Instrument as _;

use super::message::{self, ErrorObject, Incoming, Introduction, Outgoing, Progress};

/// Bytes that may wait for the server to read them.
const MAX_UNREAD: usize = 32 << 20;

/// What one message counts at least and at most: 512 small ones may wait, and two of any size.
const MESSAGE_COST: (usize, usize) = (MAX_UNREAD / 512, MAX_UNREAD / 2);

const DOES_NOT_READ: &str = "The server does not read what it is sent";

const CLOSED: &str = "Connection closed";

/// Says how to log in at a server.
pub(super) fn log_in(server: &str) -> String {
    format!("Run `toolgate mcp login {server}` in the workspace's folder.")
}

/// Why there is no connection, or none any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Disconnect {
    /// The server wants a login that there is none of, or not any more.
    NeedsAuth {
        /// What it said when it refused.
        challenge: String,
    },
    /// It wants one that cannot be had before somebody registers this client.
    NeedsRegistration,
    /// It does not work; the text says why.
    Failed(String),
    /// It is the service itself, and is not tried again.
    Itself(&'static str),
}

impl Disconnect {
    pub(super) fn closed() -> Self {
        Self::Failed(CLOSED.to_owned())
    }

    /// Returns what a person is to know of it.
    pub(super) fn text(&self, server: &str) -> String {
        let how = log_in(server);
        match self {
            Self::NeedsAuth { .. } => format!(
                "The server wants a login. {how} Or set `headers.Authorization` in the server's entry of the configuration."
            ),
            Self::NeedsRegistration => format!(
                "The server wants a login, and lets no client register by itself. Register one there and set `oauth.clientId` \
                 (and `oauth.clientSecret`, if it has one) in the server's entry of the configuration; then log in: {how}"
            ),
            Self::Failed(problem) => problem.clone(),
            Self::Itself(problem) => (*problem).to_owned(),
        }
    }
}

/// Somebody who waits for an answer.
struct Pending {
    answer: oneshot::Sender<Result<Value, ErrorObject>>,
    progress: watch::Sender<Option<Progress>>,
    /// Takes what the server says and asks in the midst of the call; none if nobody listens.
    listener: Option<Listener>,
}

/// The way to whoever hears what a server says in the midst of a call.
#[derive(Clone)]
struct Listener {
    asides: mpsc::Sender<Aside>,
    /// How many more requests may be without an answer.
    unanswered: Arc<Semaphore>,
}

/// What a server says in the midst of a call.
#[derive(Debug)]
pub(super) enum Aside {
    /// It is further with the call.
    Progressed(Progress),
    /// A line for the log, with its level.
    Logged(Value),
    /// A request, which has an answer.
    Asked {
        id: Value,
        method: String,
        params: Value,
        /// Kept until there is an answer.
        place: OwnedSemaphorePermit,
    },
}

/// What a server has announced beside its list of tools.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Its prompts or its resources are others.
    Lists,
    /// The content of a resource is another.
    Resource(String),
}

/// Changes that nobody has looked at yet, of which the oldest are forgotten.
const MAX_CHANGES: usize = 64;

/// Asides of one call that may wait; logs beyond that are dropped, requests refused.
const MAX_ASIDES: usize = 64;

/// Requests in the midst of one call that may be without an answer; those beyond are refused.
const MAX_UNANSWERED: usize = 8;

/// Bytes of a line for the log, and of an address that is announced. They may wait long for whoever follows a call.
const MAX_WORDS: usize = 64 << 10;

/// A message that waits for the server to read it.
pub(super) struct Queued {
    pub(super) message: Outgoing,
    _room: OwnedSemaphorePermit,
}

/// What is sent one after the other.
pub(super) type Queue = mpsc::UnboundedReceiver<Queued>;

/// Who connects.
#[derive(Clone)]
pub(super) struct About {
    /// The server's name in the configuration.
    pub(super) server: String,
    /// The workspace's folder, as a URL.
    pub(super) root: String,
    /// This run of the service.
    pub(super) instance: InstanceId,
    /// Whether the server is a program that was started for this.
    pub(super) is_started: bool,
    /// How long the handshake may take.
    pub(super) connect_limit: Duration,
}

/// A connection.
pub(super) struct Dispatcher {
    pub(super) about: About,
    pub(super) tasks: TaskTracker,
    pending: Mutex<HashMap<u64, Pending>>,
    last_id: AtomicU64,
    queue: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    /// The list of tools has changed.
    pub(super) tools_changed: Notify,
    /// What else has changed.
    pub(super) changes: broadcast::Sender<Change>,
    /// Who this client is, since it is known that each request has to say it.
    introduction: OnceLock<Introduction>,
    /// The version of the protocol, since the handshake.
    version: Mutex<Option<String>>,
    /// What is wrong, should the connection end.
    problem: Mutex<Option<String>>,
    loss: OnceLock<Disconnect>,
    is_lost: CancellationToken,
    stop: CancellationToken,
}

impl Dispatcher {
    /// Makes a connection. What it works on ends with `stop` at the latest.
    pub(super) fn new(about: About, tasks: TaskTracker, stop: CancellationToken) -> (Arc<Self>, Queue) {
        let (queue, queued) = mpsc::unbounded_channel();
        let dispatcher = Self {
            about,
            tasks,
            pending: Mutex::default(),
            last_id: AtomicU64::new(0),
            queue,
            room: Arc::new(Semaphore::new(MAX_UNREAD)),
            tools_changed: Notify::new(),
            changes: broadcast::Sender::new(MAX_CHANGES),
            introduction: OnceLock::new(),
            version: Mutex::default(),
            problem: Mutex::default(),
            loss: OnceLock::new(),
            is_lost: CancellationToken::new(),
            stop,
        };
        (Arc::new(dispatcher), queued)
    }

    /// Works on something until the connection is lost.
    pub(super) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let (is_lost, stop) = (self.is_lost.clone(), self.stop.clone());
        let work = async move {
            stop.run_until_cancelled(is_lost.run_until_cancelled(work)).await;
        };
        self.tasks.spawn(work.in_current_span());
    }

    /// Takes a number for a request, and waits for its answer from now on. `listens` says whether somebody also hears what
    /// the server says meanwhile.
    pub(super) fn expect(self: &Arc<Self>, listens: bool) -> Expected {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = oneshot::channel();
        let (progress, progressed) = watch::channel(None);
        let (aside, asides) = mpsc::channel(MAX_ASIDES);
        let pending = Pending {
            answer,
            progress,
            listener: listens.then(|| Listener {
                asides: aside,
                unanswered: Arc::new(Semaphore::new(MAX_UNANSWERED)),
            }),
        };
        self.pending.lock().insert(id, pending);
        Expected {
            id,
            answer: answered,
            progress: progressed,
            asides,
            dispatcher: Arc::clone(self),
        }
    }

    /// Returns whether somebody still waits for an answer.
    pub(super) fn awaits(&self, id: u64) -> bool {
        self.pending.lock().contains_key(&id)
    }

    /// Takes in what the server has sent.
    ///
    /// # Errors
    /// It is no message; the text says why.
    pub(super) fn receive(&self, text: &[u8]) -> Result<(), String> {
        self.dispatch(message::decode(text)?);
        Ok(())
    }

    pub(super) fn dispatch(&self, incoming: Incoming) {
        match incoming {
            Incoming::Answer { id, result } => {
                if let Some(pending) = self.pending.lock().remove(&id) {
                    let _ = pending.answer.send(result);
                }
            }
            Incoming::Request { id, method, params } => self.asked(id, method, params),
            Incoming::Logged(params) => {
                if let Some(call) = self.only_call() {
                    let _ = call.asides.try_send(Aside::Logged(short_line(params)));
                }
            }
            Incoming::Progress(mut progress) => {
                progress.message = progress.message.map(|message| shortened_line(&message));
                let pending = self.pending.lock();
                let waiting = progress.progress_token.as_u64().and_then(|id| pending.get(&id));
                if let Some(waiting) = waiting {
                    // Whoever listens hears each step, unless there are too many.
                    let step = Aside::Progressed(progress.clone());
                    let heard = waiting
                        .listener
                        .as_ref()
                        .is_some_and(|listener| listener.asides.try_send(step).is_ok());
                    if !heard {
                        waiting.progress.send_replace(Some(progress));
                    }
                }
            }
            Incoming::ToolsChanged => self.tools_changed.notify_one(),
            // Nobody may be interested.
            Incoming::ListChanged => drop(self.changes.send(Change::Lists)),
            Incoming::ResourceUpdated(uri) if uri.len() > MAX_WORDS => {
                tracing::debug!(bytes = uri.len(), "a server tells of an address that is too long");
            }
            Incoming::ResourceUpdated(uri) => drop(self.changes.send(Change::Resource(uri))),
            Incoming::Unneeded => {}
        }
    }

    /// Hands a request of the server to the call that it belongs to. Which that is, the protocol does not say: with several
    /// calls under way nobody could tell whom to ask, and the wrong person would see it.
    fn asked(&self, id: Value, method: String, params: Value) {
        let reply = Outgoing::reply(&id, &method, &self.about.root);
        let is_for_call = matches!(method.as_str(), message::ELICITATION | message::SAMPLING);
        let call = self.only_call().filter(|_| is_for_call);
        let taken = call.is_some_and(|call| {
            let Ok(place) = Arc::clone(&call.unanswered).try_acquire_owned() else {
                return false;
            };
            let asked = Aside::Asked {
                id,
                method,
                params,
                place,
            };
            call.asides.try_send(asked).is_ok()
        });
        if !taken {
            self.enqueue(reply);
        }
    }

    /// Returns the one call under way.
    fn only_call(&self) -> Option<Listener> {
        let pending = self.pending.lock();
        let mut calls = pending.values().filter_map(|pending| pending.listener.as_ref());
        let only = calls.next().cloned();
        only.filter(|_| calls.next().is_none())
    }

    /// Notes that each request has to say who this client is.
    pub(super) fn introduce(&self, introduction: Introduction) {
        let _ = self.introduction.set(introduction);
    }

    /// Returns who this client is, if each request has to say it.
    pub(super) fn introduction(&self) -> Option<&Introduction> {
        self.introduction.get()
    }

    /// Sends a message when the server has read the earlier ones. A server that does not read them is given up.
    pub(super) fn enqueue(&self, message: Outgoing) {
        let cost = message.text.len().clamp(MESSAGE_COST.0, MESSAGE_COST.1);
        let room = u32::try_from(cost)
            .ok()
            .and_then(|cost| Arc::clone(&self.room).try_acquire_many_owned(cost).ok());
        match room {
            Some(_room) => {
                let _ = self.queue.send(Queued { message, _room });
            }
            None => self.lose(Disconnect::Failed(DOES_NOT_READ.to_owned())),
        }
    }

    /// Says that the handshake is over, and which version of the protocol it has led to. What was wrong until now turned
    /// out not to matter.
    pub(super) fn agree(&self, version: String) {
        *self.version.lock() = Some(version);
        *self.problem.lock() = None;
    }

    /// Returns the version of the protocol, once there was a handshake.
    pub(super) fn version(&self) -> Option<String> {
        self.version.lock().clone()
    }

    /// Keeps what is wrong with the connection, should it end; the first reason counts.
    pub(super) fn report_problem(&self, problem: impl Into<String>) {
        let problem = shortened_line(&problem.into());
        self.problem.lock().get_or_insert(problem);
    }

    /// Returns what is wrong with the connection, if something is.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// Gives the connection up; the first reason counts, and a problem that was reported before.
    pub(super) fn lose(&self, loss: Disconnect) {
        let problem = match &loss {
            // There may be words of the server in it.
            Disconnect::Failed(problem) => shortened_line(problem),
            Disconnect::NeedsAuth { .. } | Disconnect::NeedsRegistration => {
                format!("The server wants a login. {}", log_in(&self.about.server))
            }
            Disconnect::Itself(problem) => (*problem).to_owned(),
        };
        let first = self.problem.lock().get_or_insert(problem).clone();
        let _ = self.loss.set(match loss {
            Disconnect::Failed(_) => Disconnect::Failed(first),
            Disconnect::NeedsAuth { .. } | Disconnect::NeedsRegistration | Disconnect::Itself(_) => loss,
        });
        self.is_lost.cancel();
    }

    /// Waits until the connection is given up, and returns why.
    pub(super) async fn lost(&self) -> Disconnect {
        self.is_lost.cancelled().await;
        self.loss().unwrap_or_else(Disconnect::closed)
    }

    /// Returns why the connection is given up, if it is.
    pub(super) fn loss(&self) -> Option<Disconnect> {
        self.loss.get().cloned()
    }
}

/// An answer that is waited for until this is dropped.
pub(super) struct Expected {
    pub(super) id: u64,
    pub(super) answer: oneshot::Receiver<Result<Value, ErrorObject>>,
    pub(super) progress: watch::Receiver<Option<Progress>>,
    pub(super) asides: mpsc::Receiver<Aside>,
    dispatcher: Arc<Dispatcher>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.dispatcher.pending.lock().remove(&self.id);
    }
}

/// Returns an error and its causes on one line of bounded length. An address may hold secrets, so it is left out.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = without_address(error.to_string());
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = without_address(cause.to_string());
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    shortened_line(&text)
}

/// An address may hold a bracket itself, so everything up to the last one goes.
fn without_address(mut text: String) -> String {
    const MARK: &str = " for url (";
    if let Some(start) = text.find(MARK) {
        let end = text[start..].rfind(')').map_or(text.len(), |length| start + length + 1);
        text.replace_range(start..end, "");
    }
    text
}

/// Returns a line for the log; in place of one that is too long, one that says so.
fn short_line(line: Value) -> Value {
    let bytes = message::size(&line);
    if bytes <= MAX_WORDS {
        return line;
    }
    let level = shortened_line(line["level"].as_str().unwrap_or_default());
    json!({"level": level, "data": format!("A line of {bytes} bytes is left out: it is too long.")})
}

/// Returns a text of a server on one line of bounded length.
pub(super) fn shortened_line(text: &str) -> String {
    const MAX_LINE_CHARS: usize = 500;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_LINE_CHARS)
        .collect();
    if line.len() < text.len() && text.chars().nth(MAX_LINE_CHARS).is_some() {
        return format!("{line}…");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dispatcher() -> (Arc<Dispatcher>, Queue) {
        let about = About {
            server: "s".to_owned(),
            root: "file:///w".to_owned(),
            instance: InstanceId::generate(),
            is_started: false,
            connect_limit: Duration::from_secs(1),
        };
        Dispatcher::new(about, TaskTracker::new(), CancellationToken::new())
    }

    #[test]
    fn addresses_are_left_out_of_errors() {
        let check = |text: &str, expected: &str| assert_eq!(without_address(text.to_owned()), expected);
        check(
            "error sending request for url (http://a/?key=1): refused",
            "error sending request: refused",
        );
        check("error for url (http://a/?key=1)", "error");
        check("error for url (http://a/(b)?key=1)", "error");
        check("error for url (http://a/?key=1", "error");
        check("error", "error");
    }

    #[tokio::test]
    async fn texts_of_servers_are_short_lines() {
        assert_eq!(shortened_line("a\nb\u{1b}c"), "a b c");
        assert_eq!(shortened_line(&"é".repeat(500)), "é".repeat(500));
        assert_eq!(shortened_line(&"é".repeat(501)), format!("{}…", "é".repeat(500)));
        let (dispatcher, _queue) = dispatcher();
        let expected = dispatcher.expect(false);
        let params = serde_json::json!({"progressToken": expected.id, "progress": 1, "message": "x".repeat(1 << 20)});
        let progress = Outgoing::notification("notifications/progress", Some(params));
        dispatcher.receive(&progress.text).unwrap();
        let progress = expected.progress.borrow().clone().unwrap();
        assert!(progress.message.unwrap().len() < 1000);
    }

    #[tokio::test]
    async fn an_answer_reaches_who_waits_for_it() {
        let (dispatcher, _queue) = dispatcher();
        let (first, second) = (dispatcher.expect(false), dispatcher.expect(false));
        dispatcher.receive(br#"{"id":2,"result":"two"}"#).unwrap();
        dispatcher.receive(br#"{"id":7,"result":"nobody's"}"#).unwrap();
        let mut second = second;
        assert_eq!((&mut second.answer).await.unwrap(), Ok("two".into()));
        drop((first, second));
        assert!(dispatcher.pending.lock().is_empty());
    }

    #[tokio::test]
    async fn what_a_server_asks_belongs_to_the_only_call() {
        let (dispatcher, mut queue) = dispatcher();
        let ask = br#"{"id":"e","method":"elicitation/create","params":{"message":"m"}}"#;
        dispatcher.receive(ask).unwrap();
        let refused = queue.recv().await.unwrap();
        assert!(String::from_utf8_lossy(&refused.message.text).contains("decline"));
        let mut first = dispatcher.expect(true);
        let _list = dispatcher.expect(false);
        dispatcher.receive(ask).unwrap();
        let asked = first.asides.recv().await.unwrap();
        assert!(matches!(asked, Aside::Asked { params, .. } if params["message"] == "m"));
        let _second = dispatcher.expect(true);
        dispatcher.receive(ask).unwrap();
        assert!(queue.recv().await.is_some(), "nobody knows whom to ask");
        assert!(first.asides.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_a_server_says_in_a_call_is_bounded() {
        let (dispatcher, mut queue) = dispatcher();
        let mut call = dispatcher.expect(true);
        let ask = br#"{"id":"e","method":"elicitation/create","params":{"message":"m"}}"#;
        for _ in 0..MAX_UNANSWERED {
            dispatcher.receive(ask).unwrap();
        }
        assert!(queue.try_recv().is_err());
        dispatcher.receive(ask).unwrap();
        assert!(queue.try_recv().is_ok(), "one too many has no answer");
        let answered = call.asides.try_recv().unwrap();
        drop(answered);
        dispatcher.receive(ask).unwrap();
        assert!(queue.try_recv().is_err(), "an answer makes room");
        while call.asides.try_recv().is_ok() {}
        let line = json!({"level": "info", "data": "x".repeat(MAX_WORDS)});
        dispatcher
            .receive(&Outgoing::notification("notifications/message", Some(line)).text)
            .unwrap();
        let Ok(Aside::Logged(line)) = call.asides.try_recv() else {
            panic!("a line is told of");
        };
        assert!(
            line["level"] == "info" && line["data"].as_str().unwrap().contains("too long"),
            "{line}"
        );
        let mut changes = dispatcher.changes.subscribe();
        let uri = json!({"uri": "x".repeat(MAX_WORDS + 1)});
        let updated = Outgoing::notification("notifications/resources/updated", Some(uri));
        dispatcher.receive(&updated.text).unwrap();
        assert!(changes.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_waits_to_be_read_is_bounded() {
        let does_not_read = Disconnect::Failed(DOES_NOT_READ.to_owned());
        let (small, large) = (
            Outgoing::notification("n", None),
            Outgoing {
                text: vec![b'x'; 20 << 20].into(),
                ..Outgoing::notification("n", None)
            },
        );
        for (message, most) in [(small, 512), (large, 2)] {
            let (dispatcher, mut queue) = dispatcher();
            for _ in 0..3 * most {
                dispatcher.enqueue(message.clone());
                drop(queue.recv().await);
            }
            for _ in 0..most {
                dispatcher.enqueue(message.clone());
            }
            assert_eq!(dispatcher.loss(), None);
            dispatcher.enqueue(message);
            assert_eq!(dispatcher.loss(), Some(does_not_read.clone()));
            assert_eq!(dispatcher.problem().as_deref(), Some(DOES_NOT_READ));
        }
    }

    #[tokio::test]
    async fn a_reason_is_a_short_line_whatever_the_server_said() {
        for is_reported in [false, true] {
            let (dispatcher, _queue) = dispatcher();
            let said = format!("HTTP 500: \u{1b}[2J\nall is well{}", "x".repeat(64 << 10));
            if is_reported {
                dispatcher.report_problem(said.clone());
            }
            dispatcher.lose(Disconnect::Failed(said));
            let Disconnect::Failed(problem) = dispatcher.lost().await else {
                panic!("it failed");
            };
            assert!(problem.len() < 1000 && !problem.contains(char::is_control), "{problem}");
            assert_eq!(dispatcher.problem(), Some(problem));
        }
    }

    #[tokio::test]
    async fn the_first_problem_is_the_reason() {
        let (dispatcher, _queue) = dispatcher();
        dispatcher.report_problem("at first");
        dispatcher.lose(Disconnect::closed());
        dispatcher.lose(Disconnect::Failed("later".to_owned()));
        assert_eq!(dispatcher.lost().await, Disconnect::Failed("at first".to_owned()));
    }
}
