//! Sessions of MCP clients: whose they are, who is connected, and when they end.
//!
//! A client of streamable HTTP may lose a connection and come back, so one that is gone is noticed only by its absence:
//! a session that nobody is connected to ends after a while, soon if calls run in it.
//!
//! A session of the protocol is a connection, and some clients make one for each call. What the service remembers, which
//! files were read for instance, belongs to the client's conversation, which goes on from one connection to the next.
//!
//! *Invariant:* a session ends once: its token is cancelled, and its calls with it. What the service remembers of a
//! conversation that no client has named is forgotten when none of its sessions has been there for a while. The numbers of
//! sessions and of conversations are bounded.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;
use toolgate_engine::Engine;
use toolgate_model::SessionKey;

use super::notes::USUAL_LEVEL;
use super::parked::Parked;
use super::shares::{self, Most};

/// Sessions at once; beyond that the one that has been left alone for longest makes room.
const MAX_SESSIONS: usize = 256;

/// How long a session without connections is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long a conversation without sessions is remembered, and how many such are: one principal may work in many workspaces.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const MAX_REMEMBERED: Most = Most {
    of_one: 256,
    of_all: 1024,
};

/// How long a call goes on whose client has no connection.
const RECONNECT_GRACE: Duration = Duration::from_secs(10);

/// Resources that one session follows, or one request of a client without sessions.
pub(super) const MAX_SUBSCRIPTIONS: usize = 256;

/// How often that is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

struct Session {
    /// Who opened it.
    principal: String,
    /// Cancelled when it ends.
    gone: CancellationToken,
    /// Responses that are being sent.
    connections: usize,
    /// Calls under way.
    calls: usize,
    /// When the last connection ended.
    alone_since: Instant,
    /// The conversations that calls were made in and that no client has named.
    conversations: HashSet<SessionKey>,
    /// From which level on it wants lines for a log.
    log_level: usize,
    /// The resources that it follows, each with its workspace.
    subscriptions: HashMap<(String, String), CancellationToken>,
}

/// A conversation without sessions.
struct Remembered {
    /// Whose it is.
    principal: String,
    /// Since when it has none.
    since: Instant,
}

impl Remembered {
    fn of(principal: &str) -> Self {
        Self {
            principal: principal.to_owned(),
            since: Instant::now(),
        }
    }
}

/// The sessions of one server.
pub(super) struct Sessions {
    engine: Arc<Engine>,
    manager: Arc<LocalSessionManager>,
    /// Never held across an await.
    open: Mutex<HashMap<String, Session>>,
    /// The conversations without sessions. Locked after `open`, and never across an await.
    remembered: Mutex<HashMap<SessionKey, Remembered>>,
    /// Conversations of clients without sessions in which calls run, and how many; none that a client has named. Locked after
    /// `remembered`.
    visited: Mutex<HashMap<SessionKey, usize>>,
    /// The calls that wait for such a client to come back.
    pub(super) parked: Parked,
    /// Cancelled when all of them have ended.
    ended: CancellationToken,
    /// What looks after them.
    tasks: TaskTracker,
    /// Answers on their way to clients.
    answers: TaskTracker,
    /// Ends what looks after them.
    over: CancellationToken,
}

/// What a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// The answer to a request; it has an end.
    Answer,
    /// Anything else.
    Other,
}

impl Sessions {
    /// Makes the sessions of one server, none, which are over with `closing`.
    pub(super) fn new(
        engine: Arc<Engine>,
        manager: Arc<LocalSessionManager>,
        closing: &CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            manager,
            open: Mutex::default(),
            remembered: Mutex::default(),
            visited: Mutex::default(),
            parked: Parked::default(),
            ended: CancellationToken::new(),
            tasks: TaskTracker::new(),
            answers: TaskTracker::new(),
            over: closing.child_token(),
        })
    }

    /// Looks after them until they are over; then lets the answers that are on their way out, and cancels `ended`.
    pub(super) fn watch(self: &Arc<Self>, ended: CancellationToken, patience: Duration) {
        let sessions = self.clone();
        self.tasks.spawn(async move {
            while sessions
                .over
                .run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL))
                .await
                .is_some()
            {
                sessions.end_lost().await;
                sessions.forget();
                sessions.parked.end_left();
            }
            sessions.answers.close();
            let _ = tokio::time::timeout(patience, sessions.answers.wait()).await;
            ended.cancel();
            sessions.ended.cancel();
            sessions.parked.end();
            for session in sessions.open().values() {
                session.gone.cancel();
            }
        });
    }

    /// Runs what belongs to a session, until it ends.
    pub(super) fn spawn(&self, session: &str, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(gone) = self.gone(Some(session)) {
            self.tasks.spawn(async move { gone.run_until_cancelled(task).await });
        }
    }

    /// Waits for what ended sessions left to do. The server has ended.
    pub(super) async fn finish(&self) {
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Says whether a session is open, and this principal's.
    pub(super) fn is_of(&self, id: &str, principal: &str) -> bool {
        self.open()
            .get(id)
            .is_some_and(|session| session.principal == principal)
    }

    /// Says whether one more session can be opened, and ends one that nobody uses for it.
    pub(super) fn make_room(self: &Arc<Self>) -> bool {
        let unused = {
            let open = self.open();
            if open.len() < MAX_SESSIONS {
                return true;
            }
            longest_unused(&open, "")
        };
        match unused {
            Some(id) => {
                self.close(id);
                true
            }
            None => false,
        }
    }

    /// Takes up a session that the SDK has opened. Says whether it may stay: requests that came together may have opened
    /// more than there is room for.
    pub(super) fn register(self: &Arc<Self>, id: &str, principal: &str) -> bool {
        let ends = {
            let mut open = self.open();
            open.entry(id.to_owned()).or_insert_with(|| Session {
                principal: principal.to_owned(),
                gone: CancellationToken::new(),
                connections: 0,
                calls: 0,
                alone_since: Instant::now(),
                conversations: HashSet::new(),
                log_level: USUAL_LEVEL,
                subscriptions: HashMap::new(),
            });
            if open.len() <= MAX_SESSIONS {
                return true;
            }
            longest_unused(&open, id).unwrap_or_else(|| id.to_owned())
        };
        let stays = ends != id;
        self.close(ends);
        stays
    }

    /// Returns what is cancelled when a session ends; none if it has. Without a session, that is the end of all.
    pub(super) fn gone(&self, id: Option<&str>) -> Option<CancellationToken> {
        match id {
            Some(id) => self.open().get(id).map(|session| session.gone.clone()),
            None => Some(self.ended.child_token()),
        }
    }

    /// Says from which level on a session wants lines for a log.
    pub(super) fn log_level(&self, id: Option<&str>) -> usize {
        let open = self.open();
        let session = id.and_then(|id| open.get(id));
        session.map_or(USUAL_LEVEL, |session| session.log_level)
    }

    /// Sets that.
    pub(super) fn set_log_level(&self, id: &str, level: usize) {
        self.change(id, |session| session.log_level = level);
    }

    /// Follows a resource of a workspace for a session, until what is returned is cancelled.
    pub(super) fn subscribe(&self, id: &str, resource: (String, String)) -> Option<CancellationToken> {
        let mut open = self.open();
        let session = open.get_mut(id)?;
        let is_new = !session.subscriptions.contains_key(&resource);
        if is_new && session.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return None;
        }
        let token = session.gone.child_token();
        if let Some(earlier) = session.subscriptions.insert(resource, token.clone()) {
            earlier.cancel();
        }
        Some(token)
    }

    /// Follows it no more.
    pub(super) fn unsubscribe(&self, id: &str, resource: &(String, String)) {
        self.change(id, |session| {
            if let Some(token) = session.subscriptions.remove(resource) {
                token.cancel();
            }
        });
    }

    /// Ends a session: its calls are cancelled.
    pub(super) fn end(self: &Arc<Self>, id: &str) {
        let mut open = self.open();
        let Some(session) = open.remove(id) else { return };
        session.gone.cancel();
        let mut remembered = self.remembered.lock();
        for key in session.conversations {
            if !open.values().any(|other| other.conversations.contains(&key)) {
                remembered.insert(key, Remembered::of(&session.principal));
            }
        }
    }

    /// Notes in which conversation a session makes a call. Without a session the client comes back to it, or does not.
    pub(super) fn works_in(&self, id: Option<&str>, conversation: SessionKey, principal: &str) {
        let mut open = self.open();
        let Some(id) = id else {
            if !open
                .values()
                .any(|session| session.conversations.contains(&conversation))
            {
                let remembered = Remembered::of(principal);
                self.remembered.lock().insert(conversation, remembered);
            }
            return;
        };
        let Some(session) = open.get_mut(id) else { return };
        self.remembered.lock().remove(&conversation);
        session.conversations.insert(conversation);
    }

    /// Forgets the conversations that have been without sessions for long, and old ones of too many; none with a call.
    fn forget(&self) {
        let over = {
            let mut remembered = self.remembered.lock();
            let visited = self.visited.lock();
            for key in visited.keys() {
                if let Some(remembered) = remembered.get_mut(key) {
                    remembered.since = Instant::now();
                }
            }
            let unused = remembered.iter().filter(|(key, _)| !visited.contains_key(key));
            let those = unused.map(|(key, remembered)| (key, remembered.principal.as_str(), remembered.since));
            let mut over = shares::too_many(those, MAX_REMEMBERED);
            drop(visited);
            for key in &over {
                remembered.remove(key);
            }
            let late = remembered.extract_if(|_, remembered| remembered.since.elapsed() >= MEMORY_TIMEOUT);
            over.extend(late.map(|(key, _)| key));
            over
        };
        for key in over {
            let engine = self.engine.clone();
            self.tasks.spawn(async move {
                if let Err(error) = engine.end_session(&key).await {
                    tracing::error!(session = %key.session, error = &error as &dyn std::error::Error, "a session could not be ended");
                }
            });
        }
    }

    /// Ends a session that the SDK does not know to be over.
    fn close(self: &Arc<Self>, id: String) {
        self.end(&id);
        let manager = self.manager.clone();
        self.tasks.spawn(async move {
            if let Err(error) = manager.close_session(&id.into()).await {
                tracing::debug!(%error, "a session was closed already");
            }
        });
    }

    async fn end_lost(self: &Arc<Self>) {
        let known: Vec<(String, bool)> = {
            let open = self.open();
            open.iter()
                .map(|(id, session)| (id.clone(), session.is_lost()))
                .collect()
        };
        for (id, is_lost) in known {
            let is_known = self.manager.has_session(&id.as_str().into()).await.unwrap_or(false);
            if !is_known || is_lost {
                tracing::debug!(session = id, "a session of an MCP client is over");
                self.close(id);
            }
        }
    }

    /// Counts a response as a connection for as long as it is being sent.
    pub(super) fn attach(self: &Arc<Self>, id: &str, stream: Stream, response: Response<Body>) -> Response<Body> {
        self.change(id, |session| session.connections += 1);
        let attached = Attached {
            sessions: self.clone(),
            id: id.to_owned(),
            _answer: (stream == Stream::Answer).then(|| self.answers.token()),
        };
        response.map(|body| {
            Body::new(Watched {
                body,
                attached: Some(attached),
            })
        })
    }

    /// Lets an answer to a client without a session out before the end.
    pub(super) fn let_out(&self, response: Response<Body>) -> Response<Body> {
        let token = self.answers.token();
        response.map(|body| Body::new(Leaving { body, _answer: token }))
    }

    /// Counts a call until what is returned is dropped. Without a session, its conversation is not forgotten meanwhile; there
    /// is none if the client has named it, for then it is not forgotten here at all.
    pub(super) fn call(self: &Arc<Self>, id: Option<&str>, conversation: Option<SessionKey>) -> CountedCall {
        let of = match (id, conversation) {
            (Some(id), _) => {
                self.change(id, |session| session.calls += 1);
                Of::Session(id.to_owned())
            }
            (None, Some(conversation)) => {
                *self.visited.lock().entry(conversation.clone()).or_default() += 1;
                Of::Conversation(conversation)
            }
            (None, None) => Of::Nothing,
        };
        let sessions = self.clone();
        CountedCall { sessions, of }
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Session)) {
        if let Some(session) = self.open().get_mut(id) {
            change(session);
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        // Nothing panics while it is held; should it ever, the map is still whole.
        self.open.lock()
    }
}

/// Returns the session that nobody has used for longest, of those that nobody uses, but not `other`.
fn longest_unused(open: &HashMap<String, Session>, other: &str) -> Option<String> {
    let unused = open
        .iter()
        .filter(|(id, session)| session.is_alone() && session.calls == 0 && *id != other);
    unused
        .min_by_key(|(_, session)| session.alone_since)
        .map(|(id, _)| id.clone())
}

impl Session {
    fn is_alone(&self) -> bool {
        self.connections == 0
    }

    fn is_lost(&self) -> bool {
        let patience = if self.calls > 0 { RECONNECT_GRACE } else { IDLE_TIMEOUT };
        self.is_alone() && self.alone_since.elapsed() >= patience
    }
}

/// A call under way.
pub(super) struct CountedCall {
    sessions: Arc<Sessions>,
    of: Of,
}

/// What a call is counted for.
enum Of {
    Session(String),
    Conversation(SessionKey),
    Nothing,
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        match &self.of {
            Of::Session(id) => {
                self.sessions
                    .change(id, |session| session.calls = session.calls.saturating_sub(1));
            }
            Of::Conversation(conversation) => {
                let mut visited = self.sessions.visited.lock();
                if let Some(calls) = visited.get_mut(conversation) {
                    *calls -= 1;
                    if *calls == 0 {
                        visited.remove(conversation);
                    }
                }
            }
            Of::Nothing => {}
        }
    }
}

/// A body that is let out before the end.
struct Leaving {
    body: Body,
    _answer: TaskTrackerToken,
}

impl http_body::Body for Leaving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection of a session.
struct Attached {
    sessions: Arc<Sessions>,
    id: String,
    _answer: Option<TaskTrackerToken>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.sessions.change(&self.id, |session| {
            session.connections = session.connections.saturating_sub(1);
            session.alone_since = Instant::now();
        });
    }
}

/// A body that is a connection while it is sent.
struct Watched {
    body: Body,
    /// None when it is over.
    attached: Option<Attached>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.attached = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
