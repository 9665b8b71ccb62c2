//! A connection to a server: the handshake, its list of tools, calls, and what it says unasked.
//!
//! A server that asks for a model or for a person's answers is told that there is none; asked for the folders of the
//! project it is told the workspace's.
//!
//! *Invariant:* every request has an end: the answer, the time limit, the cancellation or the end of the connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, ListToolsRequest, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService};
use rmcp::transport::IntoTransport;
use rmcp::{ClientHandler, ErrorData, Peer, RoleClient, ServiceError, ServiceExt as _};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_model::{ITSELF, InstanceId, JsonMap, REACHES_ITSELF, STARTS_ITSELF, introduction, is_own_introduction};

use super::result;
use super::signals::{Disconnect, ServerSignals, chain, cut};
use super::wire::{self, CONNECTION_ERROR, Progress};

/// Pages of a list that are read.
const MAX_PAGES: usize = 1000;

/// Tools of one server, and bytes of what it says of them all.
const MAX_TOOLS: usize = 2000;
const MAX_LIST: usize = 8 << 20;

/// Bytes of the longest name of a tool.
const MAX_NAME: usize = 256;

/// How long progress may put off the end of one request.
const MAX_CALL: Duration = Duration::from_secs(60 * 60);

const REQUEST_TIMEOUT: i32 = -32001;

/// What the service is to a server.
pub(super) struct Handler {
    signals: Arc<ServerSignals>,
    about: About,
}

/// Who connects.
#[derive(Clone)]
pub(super) struct About {
    /// The workspace's folder, as a URL.
    pub(super) root: String,
    /// This run of the service.
    pub(super) instance: InstanceId,
    /// Whether the server is a program that was started for this.
    pub(super) started: bool,
}

impl About {
    /// Says what a server is that must not be connected to.
    fn recognize(&self, introduction: Option<&JsonMap>) -> Option<Disconnect> {
        let introduction = introduction?;
        if is_own_introduction(introduction, &self.instance) {
            Some(Disconnect::Itself(REACHES_ITSELF))
        } else {
            // It has read the same configuration, and starts what this service starts.
            self.started.then_some(Disconnect::Itself(STARTS_ITSELF))
        }
    }
}

impl Handler {
    pub(super) fn new(signals: Arc<ServerSignals>, about: About) -> Self {
        Self { signals, about }
    }
}

#[allow(deprecated)] // the folders are on their way out of the protocol, and servers still ask for them
impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = rmcp::model::ClientCapabilities::default();
        capabilities.roots = Some(rmcp::model::RootsCapabilities::default());
        let introduction = introduction(&self.about.instance);
        capabilities.experimental = Some(BTreeMap::from([(ITSELF.to_owned(), introduction)]));
        let client = rmcp::model::Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        let root = rmcp::model::Root::new(self.about.root.clone());
        Ok(rmcp::model::ListRootsResult::new(vec![root]))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.signals.progressed(Progress {
            progress_token: params.progress_token,
            progress: params.progress,
            total: params.total,
            message: params.message,
        });
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.signals.tools_changed.notify_one();
    }
}

/// Shakes hands with a server within a time limit.
pub(super) async fn connect<T, E, A>(
    transport: T,
    handler: Handler,
    limit: Duration,
) -> Result<RunningService<RoleClient, Handler>, Disconnect>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let signals = Arc::clone(&handler.signals);
    let about = handler.about.clone();
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(limit, handler.serve(transport)) => shaken,
        loss = signals.lost() => return Err(loss),
    };
    let failed = |problem: String| signals.loss().unwrap_or(Disconnect::Failed(problem));
    let running = match shaken {
        Err(_) => {
            let why = signals
                .problem()
                .map_or_else(String::new, |problem| format!(": {problem}"));
            return Err(failed(format!("{}{why}", timed_out(limit))));
        }
        Ok(Err(rmcp::service::ClientInitializeError::ConnectionClosed(_))) => {
            return Err(failed(
                signals.problem().unwrap_or_else(|| "Connection closed".to_owned()),
            ));
        }
        // A service that was started below this one refuses, whatever it was started through.
        Ok(Err(rmcp::service::ClientInitializeError::JsonRpcError(error)))
            if error.data.as_ref().is_some_and(|data| data.get(ITSELF).is_some()) =>
        {
            return Err(Disconnect::Itself(STARTS_ITSELF));
        }
        Ok(Err(error)) => return Err(failed(chain(&error))),
        Ok(Ok(running)) => running,
    };
    let info = running.peer().peer_info();
    let capabilities = info.as_ref().and_then(|info| info.capabilities.experimental.as_ref());
    if let Some(loss) = about.recognize(capabilities.and_then(|known| known.get(ITSELF))) {
        return Err(loss);
    }
    let version = info.map(|info| info.protocol_version.clone());
    match version {
        Some(version) if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) => Err(Disconnect::Failed(cut(&format!(
            "Server's protocol version is not supported: {version}"
        )))),
        Some(_) | None => {
            signals.works();
            Ok(running)
        }
    }
}

pub(super) fn timed_out(limit: Duration) -> String {
    format!("Operation timed out after {}ms", limit.as_millis())
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
    signals: Arc<ServerSignals>,
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
    pub(super) fn new(peer: Peer<RoleClient>, signals: Arc<ServerSignals>) -> Self {
        Self { peer, signals }
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
        let (mut tools, mut cursor, mut seen, mut bytes) = (Vec::new(), None, BTreeSet::new(), 0);
        let deadline = Instant::now() + limit;
        let give_up = CancellationToken::new();
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
            let left = deadline.saturating_duration_since(Instant::now());
            let page = self.request(request, left, &give_up, None::<fn(Progress) -> std::future::Ready<()>>);
            let page = page.await.map_err(|error| format!("Failed to get tools: {error}"))?;
            bytes += wire::size(&page);
            if bytes > MAX_LIST {
                return Err(format!(
                    "Failed to get tools: they take more than {} MiB",
                    MAX_LIST >> 20
                ));
            }
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
        let mut handle = tokio::select! {
            sent = tokio::time::timeout(limit, sent) => match sent {
                Ok(handle) => handle.map_err(|error| self.error(error))?,
                Err(_) => return Err(timeout()),
            },
            () = cancelled.cancelled() => return Err(RequestError::Cancelled),
        };
        let mut following = self.signals.follow(&handle.progress_token);
        let last = Instant::now() + MAX_CALL.max(limit);
        let mut deadline = Instant::now() + limit;
        loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    let answer = answer.map_err(|_| RequestError::closed(self.signals.problem()))?;
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
                _ = self.signals.lost() => return Err(RequestError::closed(self.signals.problem())),
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
                message: result::shortened(error.message.into_owned()),
            };
        }
        let is_plain = matches!(error, ServiceError::TransportClosed);
        let problem = self.signals.problem();
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
    let name = tool.get("name")?.as_str().filter(|name| name.len() <= MAX_NAME)?;
    Some(Described {
        name: name.to_owned(),
        description: tool
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        schema: tool.get("inputSchema").cloned().unwrap_or(Value::Null),
    })
}
