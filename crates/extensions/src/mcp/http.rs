//! A server that is reached by streamable HTTP, the present kind: each message is a request, whose answer is the answer
//! or a stream of events that ends with it.
//!
//! *Invariant:* bodies and events are bounded (16 MiB). A session that the server has forgotten is begun anew once for
//! all who notice.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tracing::Instrument as _;

use super::client::{INITIALIZE, INITIALIZED, Link, Outlet};
use super::dispatcher::{Disconnect, Queue, with_causes};
use super::endpoint::Endpoint;
use super::events::{self, EventsError, MAX_EVENT, too_large};
use super::message::{self, ErrorObject, Incoming, Outgoing};

/// Bytes of an answer that says what is wrong.
const MAX_PROBLEM: usize = 64 << 10;

/// The pause before a stream is taken up again, at first and at most, unless the server says otherwise.
const RESUME_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// The pause before a stream is taken up again that broke off, and the shortest that a server can ask for.
const BROKEN_PAUSE: Duration = Duration::from_millis(100);

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const BOTH: &str = "application/json, text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// A session with a server; some servers have none.
#[derive(Default)]
struct Session(Option<HeaderValue>);

/// The connection to a server.
struct Streamable {
    endpoint: Endpoint,
    /// Never held across an await.
    session: Mutex<Arc<Session>>,
    renewing: tokio::sync::Mutex<()>,
}

/// Makes the connection; nothing is sent yet.
pub(super) fn open(endpoint: Endpoint, queue: Queue) -> Link {
    let dispatcher = Arc::clone(&endpoint.dispatcher);
    let outlet = Arc::new(Streamable {
        endpoint,
        session: Mutex::default(),
        renewing: tokio::sync::Mutex::default(),
    });
    dispatcher.spawn(send_queued(Arc::clone(&outlet), queue));
    Link { dispatcher, outlet }
}

/// Sends what nobody waits for.
pub(super) async fn send_queued(outlet: Arc<impl Outlet>, mut queue: Queue) {
    while let Some(queued) = queue.recv().await {
        if let Err(problem) = Arc::clone(&outlet).send(&queued.message).await {
            tracing::debug!(problem, "a message cannot be sent");
        }
    }
}

#[async_trait]
impl Outlet for Streamable {
    async fn send(self: Arc<Self>, message: &Outgoing) -> Result<(), String> {
        let is_first = message.method == INITIALIZE;
        let mut session = match is_first {
            true => Arc::default(),
            false => self.session(),
        };
        let mut response = self.post(message, &session).await?;
        if response.status() == StatusCode::NOT_FOUND && session.0.is_some() && message.id.is_some() {
            session = self.session_after(&session).await?;
            response = self.post(message, &session).await?;
        }
        if is_first {
            session = Arc::new(Session(response.headers().get(SESSION).cloned()));
            *self.session.lock() = Arc::clone(&session);
        }
        self.take(response, message.id, &session).await?;
        if message.method == INITIALIZED && session.0.is_some() {
            self.listen(session);
        }
        Ok(())
    }

    async fn close(&self) {
        let session = self.session();
        if session.0.is_some() {
            let _ = self.endpoint.send(self.request(Method::DELETE, &session)).await;
        }
    }
}

impl Streamable {
    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.lock())
    }

    /// Begins a session in the place of one that the server does not know any more. Not given up with the request that
    /// wants it: others would go on in one that is half begun.
    async fn session_after(self: &Arc<Self>, old: &Arc<Session>) -> Result<Arc<Session>, String> {
        let renewal = Arc::clone(self).renew(Arc::clone(old)).in_current_span();
        let renewed = self.endpoint.dispatcher.tasks.spawn(renewal).await;
        renewed.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn renew(self: Arc<Self>, old: Arc<Session>) -> Result<Arc<Session>, String> {
        let _alone = self.renewing.lock().await;
        if Arc::ptr_eq(&old, &self.session()) {
            let dispatcher = Arc::clone(&self.endpoint.dispatcher);
            let link = Link {
                dispatcher: Arc::clone(&dispatcher),
                outlet: Arc::clone(&self) as Arc<dyn Outlet>,
            };
            if link.connect().await.is_err() {
                return Err(dispatcher.problem().unwrap_or_default());
            }
            // Perhaps it has other tools now.
            dispatcher.tools_changed.notify_one();
        }
        Ok(self.session())
    }

    fn request(&self, method: Method, session: &Session) -> RequestBuilder {
        let mut request = self.endpoint.request(method);
        if let Some(session) = &session.0 {
            request = request.header(SESSION, session);
        }
        match self.endpoint.dispatcher.version() {
            Some(version) => request.header(VERSION, version),
            None => request,
        }
    }

    async fn post(&self, message: &Outgoing, session: &Session) -> Result<Response, String> {
        let request = match message.method {
            INITIALIZE => self.endpoint.request(Method::POST),
            _ => self.request(Method::POST, session),
        };
        let request = self.labelled(request, message).header(ACCEPT, BOTH);
        let request = request.header(CONTENT_TYPE, JSON).body(message.text.clone());
        self.endpoint.send(request).await
    }

    /// Says in headers what a message is: servers without a handshake want that, and others do not mind.
    fn labelled(&self, mut request: RequestBuilder, message: &Outgoing) -> RequestBuilder {
        let dispatcher = &self.endpoint.dispatcher;
        if let Some(introduction) = dispatcher.introduction().filter(|_| dispatcher.version().is_none()) {
            request = request.header(VERSION, introduction.version);
        }
        if !message.method.is_empty() {
            request = request.header(METHOD, message.method);
        }
        if let Some(name) = &message.name {
            request = request.header(NAME, in_header(name));
        }
        for (name, value) in &message.headers {
            request = request.header(format!("mcp-param-{name}"), in_header(value));
        }
        request
    }

    /// Takes in how the server responds to a message.
    async fn take(&self, response: Response, id: Option<u64>, session: &Arc<Session>) -> Result<(), String> {
        let status = response.status();
        if !status.is_success() {
            return self.take_refusal(response, id).await;
        }
        // Only a request has an answer, whatever a server says to other messages.
        let Some(id) = id else { return Ok(()) };
        if has_type(&response, EVENT_STREAM) {
            return self.follow(response, Some(id), session).await;
        }
        if has_type(&response, JSON) {
            let answer = match body(response, MAX_EVENT).await? {
                None => Incoming::failure(id, &too_large()),
                Some(body) => match message::decode(&body) {
                    Ok(answer @ Incoming::Answer { id: of, .. }) if of == id => answer,
                    Ok(_) => Incoming::failure(id, "The server's answer is none to what it was asked"),
                    Err(problem) => Incoming::failure(id, &format!("The server's answer cannot be read: {problem}")),
                },
            };
            self.endpoint.dispatcher.dispatch(answer);
            return Ok(());
        }
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(()),
            _ => Err(unexpected_type(&response)),
        }
    }

    /// Takes in what a server says that does not do what it is asked.
    async fn take_refusal(&self, response: Response, id: Option<u64>) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Refusal {
            error: ErrorObject,
        }
        let (status, is_json) = (response.status(), has_type(&response, JSON));
        let body = body(response, MAX_PROBLEM).await.ok().flatten().unwrap_or_default();
        let is_about_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        match (serde_json::from_slice(&body), id) {
            // Servers that did not read the request do not know its id.
            (Ok(Refusal { error }), Some(id)) if is_json && !is_about_login => {
                let result = Err(error);
                self.endpoint.dispatcher.dispatch(Incoming::Answer { id, result });
                Ok(())
            }
            _ => Err(refusal(status, &body)),
        }
    }

    /// Listens to what the server says unasked, as long as the session is this one.
    fn listen(self: &Arc<Self>, session: Arc<Session>) {
        let streamable = Arc::clone(self);
        self.endpoint.dispatcher.spawn(async move {
            let listened = match streamable.resume(None, &session).await {
                Ok(response) => streamable.follow(response, None, &session).await,
                Err(NotResumed::Unsupported) => Ok(()),
                Err(NotResumed::Failed(problem)) => Err(problem),
            };
            if let Err(problem) = listened {
                tracing::debug!(problem, "the server's own events are not read");
            }
        });
    }

    /// Reads the events of a stream, and takes it up again where it ends: that of a request if the server numbers its
    /// events, until the answer is there; the server's own one until there is another session.
    async fn follow(&self, response: Response, id: Option<u64>, session: &Arc<Session>) -> Result<(), String> {
        let dispatcher = &self.endpoint.dispatcher;
        let (mut response, mut last_event, mut retry) = (response, None, None);
        loop {
            let mut events = events::read(response);
            let (problem, mut pause) = loop {
                let event = match events.next().await {
                    Some(Ok(event)) => event,
                    None => break ("Connection closed".to_owned(), pause_of(retry)),
                    Some(Err(EventsError::Broken(problem))) => break (problem, BROKEN_PAUSE),
                    Some(Err(EventsError::TooLarge)) => {
                        match id {
                            Some(id) => dispatcher.dispatch(Incoming::failure(id, &too_large())),
                            None => dispatcher.lose(Disconnect::Failed(too_large())),
                        }
                        return Ok(());
                    }
                };
                last_event = event.id.or(last_event);
                retry = event.retry.or(retry);
                let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
                if let (true, Some(data)) = (is_message, event.data)
                    && let Err(problem) = dispatcher.receive(data.as_bytes())
                {
                    tracing::debug!(problem, "not a message");
                }
            };
            if let Some(id) = id {
                if !dispatcher.awaits(id) {
                    return Ok(());
                }
                if last_event.is_none() {
                    return Err(problem);
                }
            }
            response = loop {
                tokio::time::sleep(pause).await;
                if id.is_none() && !Arc::ptr_eq(session, &self.session()) {
                    return Ok(());
                }
                match self.resume(last_event.as_deref(), session).await {
                    Ok(response) => break response,
                    Err(NotResumed::Unsupported) => return Err(problem),
                    Err(NotResumed::Failed(_)) => pause = (pause * 2).clamp(RESUME_PAUSE.0, RESUME_PAUSE.1),
                }
            };
        }
    }

    /// Opens a stream of events, after the last one that was read.
    async fn resume(&self, last_event: Option<&str>, session: &Session) -> Result<Response, NotResumed> {
        let mut request = self.request(Method::GET, session).header(ACCEPT, BOTH);
        if let Some(last_event) = last_event {
            request = request.header(LAST_EVENT, last_event);
        }
        let response = self.endpoint.send(request).await.map_err(NotResumed::Failed)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(NotResumed::Unsupported),
            _ => check_events(response).await.map_err(NotResumed::Failed),
        }
    }
}

/// Returns the pause before a stream is taken up again that ended in order; a server may say how many milliseconds.
fn pause_of(retry: Option<u64>) -> Duration {
    let wanted = retry.map_or(RESUME_PAUSE.0, Duration::from_millis);
    wanted.clamp(BROKEN_PAUSE, RESUME_PAUSE.1)
}

/// Why there is no stream of events.
enum NotResumed {
    /// There never is one.
    Unsupported,
    Failed(String),
}

/// Returns a response whose body is events.
///
/// # Errors
/// It is not; the text says what it is.
pub(super) async fn check_events(response: Response) -> Result<Response, String> {
    let status = response.status();
    if !status.is_success() {
        let body = body(response, MAX_PROBLEM).await.ok().flatten().unwrap_or_default();
        return Err(refusal(status, &body));
    }
    match has_type(&response, EVENT_STREAM) {
        true => Ok(response),
        false => Err(unexpected_type(&response)),
    }
}

/// Writes a text as the value of a header: as it is where that is possible, else encoded.
fn in_header(text: &str) -> String {
    const ENCODED: &str = "=?base64?";
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim_matches([' ', '\t']) == text
        && !text.starts_with(ENCODED);
    match is_plain {
        true => text.to_owned(),
        false => format!("{ENCODED}{}?=", STANDARD.encode(text)),
    }
}

fn refusal(status: StatusCode, body: &[u8]) -> String {
    match String::from_utf8_lossy(body).trim() {
        "" => format!("HTTP {status}"),
        said => format!("HTTP {status}: {said}"),
    }
}

fn unexpected_type(response: &Response) -> String {
    match content_type(response) {
        Some(kind) => format!("The server's answer is of an unexpected type: {kind}"),
        None => "The server's answer has no type".to_owned(),
    }
}

fn content_type(response: &Response) -> Option<String> {
    let kind = response.headers().get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(kind.as_bytes()).into_owned())
}

fn has_type(response: &Response, kind: &str) -> bool {
    content_type(response).is_some_and(|found| found.to_ascii_lowercase().starts_with(kind))
}

/// Reads a body; none if it is too large.
async fn body(response: Response, most: usize) -> Result<Option<Vec<u8>>, String> {
    let (mut chunks, mut body) = (response.bytes_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| with_causes(&error))?;
        if chunk.len() > most - body.len() {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_neither_hurries_nor_stops_a_stream() {
        let check = |retry: Option<u64>, expected: u64| assert_eq!(pause_of(retry), Duration::from_millis(expected));
        check(None, 1000);
        check(Some(0), 100);
        check(Some(500), 500);
        check(Some(u64::MAX), 300_000);
    }
}
