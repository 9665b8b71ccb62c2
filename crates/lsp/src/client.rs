//! One server as its clients see it: requests, open files, what it has reported.
//!
//! *Invariant:* nothing here waits for the server but a request, and that for a limited time: notifications are queued, and a
//! server that does not read them is given up before they take much memory.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use toolgate_fs::path::file_url;

use super::answers::{self, cut};
use super::documents::Documents;
use super::limits::Limits;
use super::position::Encoding;
use super::reports::{Published, Reports};
use super::wire::{self, Message, Refusal};

/// Bytes that may wait for a server to read them.
const MAX_WAITING: usize = 32 << 20;

/// What a server tells of at once as being under way.
const MAX_PROGRESS: usize = 64;

/// How long nothing must be under way for a server to count as calm: one thing often follows another.
const CALM_AFTER: Duration = Duration::from_millis(300);

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The server refused it.
    #[error("the language server {server} refused {method}: {message} ({code})")]
    Refused {
        /// The server.
        server: String,
        /// The method.
        method: String,
        /// The protocol's number for it.
        code: i64,
        /// What the server said.
        message: String,
    },
    /// The server took too long.
    #[error("the language server {server} did not answer {method} within {} s", limit.as_secs())]
    TimedOut {
        /// The server.
        server: String,
        /// The method.
        method: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The server has ended.
    #[error("the language server {server} has ended: {problem}")]
    Ended {
        /// The server.
        server: String,
        /// Why.
        problem: String,
    },
}

type Answer = Result<Option<Box<RawValue>>, Refusal>;

/// How a server is used, so that one that nobody needs can be ended.
#[derive(Debug)]
pub(super) struct Uses {
    running: AtomicUsize,
    last: Mutex<Instant>,
}

/// One use of a server, while it lasts.
pub(super) struct Use<'a>(&'a Uses);

impl Uses {
    pub(super) fn new() -> Self {
        Self {
            running: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn begin(&self) -> Use<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Use(self)
    }

    /// Returns since when the server is not used; none while it is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let last = *self.last.lock();
        (self.running.load(Ordering::Relaxed) == 0).then_some(last)
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        *self.0.last.lock() = Instant::now();
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The messages that wait to be written to a server.
pub(super) struct Outgoing {
    messages: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl Outgoing {
    /// Returns the next message; none when the client is gone.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.messages.recv().await
    }

    /// Says that a message has been written.
    pub(super) fn written(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A running server.
pub struct Client {
    id: String,
    root: PathBuf,
    /// What its configuration says; `null` for nothing.
    settings: Value,
    limits: Limits,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    next_id: AtomicU64,
    /// The requests that wait for an answer. Never held across an await.
    pending: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    pub(super) documents: tokio::sync::Mutex<Documents>,
    pub(super) reports: Reports,
    under_way: watch::Sender<HashSet<String>>,
    encoding: OnceLock<Encoding>,
    uses: Arc<Uses>,
    published: broadcast::Sender<Published>,
    ended: CancellationToken,
    problem: OnceLock<String>,
}

/// What a client is made of.
pub(super) struct ClientParts {
    pub(super) id: String,
    pub(super) root: PathBuf,
    pub(super) settings: Value,
    pub(super) limits: Limits,
    pub(super) uses: Arc<Uses>,
    pub(super) published: broadcast::Sender<Published>,
}

impl Client {
    pub(super) fn new(parts: ClientParts) -> (Self, Outgoing) {
        let (outgoing, messages) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let client = Self {
            // Its first report of a file has the syntax only.
            reports: Reports::new(parts.id == "typescript"),
            id: parts.id,
            root: parts.root,
            settings: parts.settings,
            limits: parts.limits,
            outgoing,
            waiting: Arc::clone(&waiting),
            next_id: AtomicU64::new(1),
            pending: Mutex::default(),
            documents: tokio::sync::Mutex::default(),
            under_way: watch::Sender::default(),
            encoding: OnceLock::new(),
            uses: parts.uses,
            published: parts.published,
            ended: CancellationToken::new(),
            problem: OnceLock::new(),
        };
        (client, Outgoing { messages, waiting })
    }

    /// Returns the server's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the folder that it works in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Says whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Returns why it has ended.
    pub(super) fn problem(&self) -> String {
        self.problem.get().cloned().unwrap_or_default()
    }

    /// Gives the server up: what waits for it fails. The first reason counts.
    pub(super) fn end(&self, problem: impl Into<String>) {
        // Set already if another reason came first.
        let _ = self.problem.set(problem.into());
        self.ended.cancel();
        self.pending().clear();
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.encoding.get().copied().unwrap_or_default()
    }

    pub(super) fn begin_use(&self) -> Use<'_> {
        self.uses.begin()
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.pending.lock()
    }

    /// Asks the server, and waits for the answer; `null` is one. A caller that goes away takes the request back.
    ///
    /// # Errors
    /// The server refuses, takes longer than [`Limits::request`], or has ended.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, RequestError> {
        self.request_within(method, params, self.limits.request).await
    }

    async fn request_within(&self, method: &str, params: Value, limit: Duration) -> Result<Value, RequestError> {
        let _using = self.uses.begin();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        self.pending().insert(id, answered);
        let question = Question { client: self, id };
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        // Looked at after the insertion: an end in between has not seen it.
        if self.has_ended() {
            return Err(self.lost());
        }
        let answer = timeout(limit, answer).await;
        drop(question);
        let answer = answer.map_err(|_| RequestError::TimedOut {
            server: self.id.clone(),
            method: method.to_owned(),
            limit,
        })?;
        let refused = |code, message: &str| RequestError::Refused {
            server: self.id.clone(),
            method: method.to_owned(),
            code,
            message: cut(message),
        };
        match answer {
            Err(_) => Err(self.lost()),
            Ok(Err(refusal)) => Err(refused(refusal.code, &refusal.message)),
            Ok(Ok(None)) => Ok(Value::Null),
            Ok(Ok(Some(result))) => {
                serde_json::from_str(result.get()).map_err(|_| refused(0, "its answer cannot be read"))
            }
        }
    }

    fn lost(&self) -> RequestError {
        RequestError::Ended {
            server: self.id.clone(),
            problem: self.problem(),
        }
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn send(&self, message: &Value) {
        if self.has_ended() {
            return;
        }
        let framed = wire::framed(message);
        let bytes = framed.len();
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_WAITING {
            self.end("it does not read what it is sent");
            return;
        }
        // Fails when the server has ended, and then nobody waits for it.
        let _ = self.outgoing.send(framed);
    }

    /// Begins the conversation.
    pub(super) async fn initialize(&self) -> Result<(), RequestError> {
        let params = answers::initialize(&self.root, &self.settings);
        let result = self
            .request_within("initialize", params, self.limits.initialize)
            .await?;
        let named = [
            result.pointer("/capabilities/positionEncoding"),
            result.get("offsetEncoding"),
        ];
        let named = named.into_iter().flatten().find_map(Value::as_str);
        // Set once: a server is initialized once.
        let _ = self.encoding.set(named.map(Encoding::named).unwrap_or_default());
        self.notify("initialized", json!({}));
        if !self.settings.is_null() {
            self.notify("workspace/didChangeConfiguration", json!({"settings": self.settings}));
        }
        Ok(())
    }

    /// Takes a message of the server.
    pub(super) fn take(&self, message: Message) {
        match (message.method, message.id) {
            (Some(method), Some(id)) => {
                let answer = match answers::answer(&method, message.params.as_deref(), &self.settings, &self.root) {
                    Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    None => {
                        let error = json!({"code": -32601, "message": format!("Unhandled method {}", cut(&method))});
                        json!({"jsonrpc": "2.0", "id": id, "error": error})
                    }
                };
                self.send(&answer);
            }
            (Some(method), None) => {
                if let Some(params) = message.params {
                    self.take_notification(&method, &params);
                }
            }
            (None, Some(id)) => {
                let waiting = id.as_u64().and_then(|id| self.pending().remove(&id));
                if let Some(waiting) = waiting {
                    let answer = message.error.map_or(Ok(message.result), Err);
                    // Whoever asked may have gone.
                    let _ = waiting.send(answer);
                }
            }
            (None, None) => {}
        }
    }

    fn take_notification(&self, method: &str, params: &RawValue) {
        match method {
            "textDocument/publishDiagnostics" => {
                if let Some((path, found)) = self.reports.take(params) {
                    // Nobody may be listening.
                    let _ = self.published.send(Published {
                        server: self.id.clone(),
                        path,
                        diagnostics: found,
                    });
                }
            }
            "$/progress" => {
                let Some((token, begins)) = answers::progress(params) else {
                    return;
                };
                self.under_way.send_if_modified(|tokens| match begins {
                    true => tokens.len() < MAX_PROGRESS && tokens.insert(token),
                    false => tokens.remove(&token),
                });
            }
            _ => {}
        }
    }

    /// Says whether the server has told that something is under way, such as reading the workspace.
    pub fn is_busy(&self) -> bool {
        !self.under_way.borrow().is_empty()
    }

    /// Waits until nothing that the server tells of is under way any more, but not for longer than `limit`.
    pub async fn calm(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut under_way = self.under_way.subscribe();
        let calm = async {
            loop {
                if under_way.wait_for(HashSet::is_empty).await.is_err() {
                    return;
                }
                if timeout(CALM_AFTER, under_way.wait_for(|tokens| !tokens.is_empty()))
                    .await
                    .is_err()
                {
                    return;
                }
            }
        };
        tokio::select! {
            // An error is the end of the time.
            _ = timeout_at(until, calm) => {}
            () = self.ended() => {}
        }
    }

    /// Returns the parameters of a request about a place in a file, line and character counted from 1.
    pub fn place(&self, path: &Path, text: &str, line: u32, character: u32) -> Value {
        let units = super::position::units_before(text, line, character, self.encoding());
        json!({
            "textDocument": {"uri": file_url(path)},
            "position": {"line": line.saturating_sub(1), "character": units},
        })
    }
}

/// A request that waits for its answer. Dropped before that, it is taken back.
struct Question<'a> {
    client: &'a Client,
    id: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if self.client.pending().remove(&self.id).is_some() {
            self.client.notify("$/cancelRequest", json!({"id": self.id}));
        }
    }
}
