//! A connection to a server: the handshake, its list of tools, calls, and what it says unasked.
//!
//! A server that asks for a model or for a person's answers is told that there is none; asked for the folders of the
//! project it is told the workspace's.
//!
//! *Invariant:* every request has an end: the answer, the time limit, the cancellation or the end of the connection.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, ListToolsRequest, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService};
use rmcp::transport::IntoTransport;
use rmcp::{ClientHandler, ErrorData, Peer, RoleClient, ServiceError, ServiceExt as _};
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::wire::{self, CONNECTION_ERROR, Progress};

/// Pages of a list that are read.
const MAX_PAGES: usize = 1000;

/// Tools of one server.
const MAX_TOOLS: usize = 2000;

/// How long progress may put off the end of one request.
const MAX_CALL: Duration = Duration::from_secs(60 * 60);

const REQUEST_TIMEOUT: i32 = -32001;

/// What a server says unasked, and what its transport has to say.
#[derive(Default)]
pub(super) struct Inbox {
    /// Who waits for the progress of which request. Never held across an await.
    progress: Mutex<HashMap<ProgressToken, watch::Sender<Option<Progress>>>>,
    /// The list of tools has changed.
    pub(super) tools_changed: Notify,
    /// Why the transport gave up. Never held across an await.
    problem: Mutex<Option<String>>,
}

impl Inbox {
    /// Takes in how far a request has come; the latest counts.
    pub(super) fn progressed(&self, progress: Progress) {
        let waiting = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = waiting.get(&progress.progress_token) {
            waiting.send_replace(Some(progress));
        }
    }

    /// Notes why the transport gives up; the first reason counts.
    pub(super) fn give_up(&self, problem: impl Into<String>) {
        let mut known = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert(problem.into());
    }

    /// Returns why the transport gave up, if it did.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn follow(self: &Arc<Self>, token: &ProgressToken) -> Following {
        let (sender, receiver) = watch::channel(None);
        let mut waiting = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(token.clone(), sender);
        Following {
            inbox: Arc::clone(self),
            token: token.clone(),
            receiver,
        }
    }
}

/// Follows the progress of one request until it is dropped.
struct Following {
    inbox: Arc<Inbox>,
    token: ProgressToken,
    receiver: watch::Receiver<Option<Progress>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut waiting = self.inbox.progress.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&self.token);
    }
}

/// What the service is to a server.
pub(super) struct Handler {
    inbox: Arc<Inbox>,
    /// The workspace's folder, as a URL.
    root: String,
}

impl Handler {
    pub(super) fn new(inbox: Arc<Inbox>, root: String) -> Self {
        Self { inbox, root }
    }
}

#[allow(deprecated)] // the folders are on their way out of the protocol, and servers still ask for them
impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = rmcp::model::ClientCapabilities::default();
        capabilities.roots = Some(rmcp::model::RootsCapabilities::default());
        let client = rmcp::model::Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        let root = rmcp::model::Root::new(self.root.clone());
        Ok(rmcp::model::ListRootsResult::new(vec![root]))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.inbox.progressed(Progress {
            progress_token: params.progress_token,
            progress: params.progress,
            total: params.total,
            message: params.message,
        });
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.inbox.tools_changed.notify_one();
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The server answers that somebody has to log in.
    NeedsAuth,
    /// It does not work; the text says why.
    Failed(String),
}

/// Shakes hands with a server within a time limit.
pub(super) async fn connect<T, E, A>(
    transport: T,
    handler: Handler,
    limit: Duration,
) -> Result<RunningService<RoleClient, Handler>, ConnectError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let inbox = Arc::clone(&handler.inbox);
    let shaken = tokio::time::timeout(limit, handler.serve(transport)).await;
    let running = match shaken {
        Err(_) => return Err(ConnectError::Failed(timed_out(limit))),
        Ok(Err(error)) if asks_to_log_in(&error) => return Err(ConnectError::NeedsAuth),
        Ok(Err(rmcp::service::ClientInitializeError::ConnectionClosed(_))) => {
            let problem = inbox.problem().unwrap_or_else(|| "Connection closed".to_owned());
            return Err(ConnectError::Failed(problem));
        }
        Ok(Err(error)) => return Err(ConnectError::Failed(chain(&error))),
        Ok(Ok(running)) => running,
    };
    let version = running.peer().peer_info().map(|info| info.protocol_version.clone());
    match version {
        Some(version) if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) => Err(ConnectError::Failed(format!(
            "Server's protocol version is not supported: {version}"
        ))),
        Some(_) | None => Ok(running),
    }
}

fn asks_to_log_in(error: &rmcp::service::ClientInitializeError) -> bool {
    error.is_authorization_required() || error.auth_challenge().is_some() || chain(error).contains("HTTP 401")
}

pub(super) fn timed_out(limit: Duration) -> String {
    format!("Operation timed out after {}ms", limit.as_millis())
}

/// Returns an error and its causes on one line of bounded length. An address may hold secrets, so it is left out.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
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
    cut(&text)
}

fn without_address(mut text: String) -> String {
    if let Some(start) = text.find(" for url (")
        && let Some(length) = text[start..].find(')')
    {
        text.replace_range(start..=start + length, "");
    }
    text
}

/// Returns a text of a server on one line of bounded length.
pub(super) fn cut(text: &str) -> String {
    const MOST: usize = 500;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST)
        .collect();
    if line.len() < text.len() && text.chars().nth(MOST).is_some() {
        return format!("{line}…");
    }
    line
}

/// A tool as a server describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) description: String,
    /// Whatever the server calls a schema.
    pub(super) schema: Value,
}

/// A connection that requests can be sent over, for as long as it is there.
#[derive(Clone)]
pub(super) struct Link {
    peer: Peer<RoleClient>,
    inbox: Arc<Inbox>,
}

/// Why a request has no result. The text is the one that the model reads.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("MCP error {code}: {message}")]
    Server { code: i32, message: String },
    #[error("Tool execution aborted")]
    Cancelled,
}

impl RequestError {
    pub(super) fn closed(problem: Option<String>) -> Self {
        Self::Server {
            code: CONNECTION_ERROR,
            message: problem.unwrap_or_else(|| "Connection closed".to_owned()),
        }
    }
}

impl Link {
    pub(super) fn new(peer: Peer<RoleClient>, inbox: Arc<Inbox>) -> Self {
        Self { peer, inbox }
    }

    /// Says whether the server has tools at all.
    pub(super) fn has_tools(&self) -> bool {
        self.peer
            .peer_info()
            .is_none_or(|info| info.capabilities.tools.is_some())
    }

    /// Reads the whole list of tools.
    ///
    /// # Errors
    /// The server does not answer with a list; the text says why.
    pub(super) async fn list(&self, limit: Duration) -> Result<Vec<Described>, String> {
        let (mut tools, mut cursor, mut seen) = (Vec::new(), None, BTreeSet::new());
        let deadline = Instant::now() + limit;
        let give_up = CancellationToken::new();
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
            let left = deadline.saturating_duration_since(Instant::now());
            let page = self.request(request, left, &give_up, None::<fn(Progress) -> std::future::Ready<()>>);
            let page = page.await.map_err(|error| format!("Failed to get tools: {error}"))?;
            let listed = page.get("tools").and_then(Value::as_array);
            let listed = listed.ok_or("Failed to get tools: the answer is not a list")?;
            tools.extend(listed.iter().filter_map(described));
            if tools.len() > MAX_TOOLS {
                return Err(format!("Failed to get tools: there are more than {MAX_TOOLS}"));
            }
            match page.get("nextCursor").and_then(Value::as_str) {
                None => return Ok(tools),
                Some(next) if !seen.insert(next.to_owned()) => {
                    return Err("Failed to get tools: a cursor came twice".to_owned());
                }
                Some(next) => cursor = Some(next.to_owned()),
            }
        }
        Err(format!("Failed to get tools: there are more than {MAX_PAGES} pages"))
    }

    /// Calls a tool and returns the raw result. Progress begins the time limit anew.
    pub(super) async fn call<F: Future<Output = ()>>(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        limit: Duration,
        cancelled: &CancellationToken,
        progress: impl FnMut(Progress) -> F,
    ) -> Result<Value, RequestError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        self.request(request, limit, cancelled, Some(progress)).await
    }

    async fn request<F: Future<Output = ()>>(
        &self,
        request: ClientRequest,
        limit: Duration,
        cancelled: &CancellationToken,
        mut progress: Option<impl FnMut(Progress) -> F>,
    ) -> Result<Value, RequestError> {
        let sent = self
            .peer
            .send_request_with_option(request, PeerRequestOptions::no_options());
        let mut handle = match tokio::time::timeout(limit, sent).await {
            Ok(handle) => handle.map_err(|error| self.error(error))?,
            Err(_) => return Err(timeout()),
        };
        let mut following = self.inbox.follow(&handle.progress_token);
        let last = Instant::now() + MAX_CALL.max(limit);
        let mut deadline = Instant::now() + limit;
        loop {
            tokio::select! {
                answer = &mut handle.rx => {
                    let answer = answer.map_err(|_| RequestError::closed(self.inbox.problem()))?;
                    return answer.map(wire::raw).map_err(|error| self.error(error));
                }
                () = cancelled.cancelled() => {
                    abandon(handle, "The call was cancelled.").await;
                    return Err(RequestError::Cancelled);
                }
                () = tokio::time::sleep_until(deadline) => {
                    abandon(handle, "Request timed out").await;
                    return Err(timeout());
                }
                Ok(()) = following.receiver.changed() => {
                    let latest = following.receiver.borrow_and_update().clone();
                    if let (Some(latest), Some(progress)) = (latest, &mut progress) {
                        deadline = last.min(Instant::now() + limit);
                        progress(latest).await;
                    }
                }
            }
        }
    }

    fn error(&self, error: ServiceError) -> RequestError {
        if let ServiceError::McpError(error) = error {
            return RequestError::Server {
                code: error.code.0,
                message: error.message.into_owned(),
            };
        }
        let is_plain = matches!(error, ServiceError::TransportClosed);
        let problem = self.inbox.problem();
        RequestError::closed(problem.or_else(|| (!is_plain).then(|| chain(&error))))
    }
}

fn timeout() -> RequestError {
    RequestError::Server {
        code: REQUEST_TIMEOUT,
        message: "Request timed out".to_owned(),
    }
}

/// Tells the server that nobody waits for a request any more. One that does not read is not waited for.
async fn abandon(handle: RequestHandle<RoleClient>, reason: &str) {
    const LIMIT: Duration = Duration::from_millis(500);
    let _ = tokio::time::timeout(LIMIT, handle.cancel(Some(reason.to_owned()))).await;
}

fn described(tool: &Value) -> Option<Described> {
    Some(Described {
        name: tool.get("name")?.as_str()?.to_owned(),
        description: tool
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        schema: tool.get("inputSchema").cloned().unwrap_or(Value::Null),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_left_out_of_errors() {
        let check = |text: &str, expected: &str| assert_eq!(without_address(text.to_owned()), expected);
        check(
            "error sending request for url (http://a/?key=1): refused",
            "error sending request: refused",
        );
        check("error for url (http://a/?key=1)", "error");
        check("error for url (", "error for url (");
        check("error", "error");
    }

    #[test]
    fn texts_of_servers_are_short_lines() {
        assert_eq!(cut("a\nb\u{1b}c"), "a b c");
        assert_eq!(cut(&"é".repeat(500)), "é".repeat(500));
        assert_eq!(cut(&"é".repeat(501)), format!("{}…", "é".repeat(500)));
    }
}
