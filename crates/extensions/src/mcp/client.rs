//! The client of a server: the handshake, its list of tools, and calls.
//!
//! *Invariant:* every request has an end: the answer, the time limit, the cancellation or the end of the connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_model::{ITSELF, REACHES_ITSELF, STARTS_ITSELF, introduction, is_own_introduction};

use super::dispatcher::{About, Disconnect, Dispatcher, shortened_line};
use super::message::{self, CONNECTION_ERROR, ErrorObject, Outgoing, Progress};
use super::result;

pub(super) const INITIALIZE: &str = "initialize";
pub(super) const INITIALIZED: &str = "notifications/initialized";

/// The versions of the protocol that a server may answer with; the one before the last is asked for. The last has no
/// handshake, and servers that speak it all the same are taken at their word.
const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Pages of a list that are read.
const MAX_PAGES: usize = 1000;

/// Tools of one server, and bytes of what it says of them all.
const MAX_TOOLS: usize = 2000;
const MAX_LIST: usize = 8 << 20;

/// Bytes of the longest name of a tool.
const MAX_NAME: usize = 256;

/// How long progress may put off the end of one request.
const MAX_CALL: Duration = Duration::from_secs(60 * 60);

/// The way of messages to a server.
#[async_trait]
pub(super) trait Outlet: Send + Sync {
    /// Sends a message. An answer may arrive before this is done; dropped, it no longer waits for one.
    ///
    /// # Errors
    /// It cannot be sent; the text says why.
    async fn send(self: Arc<Self>, message: &Outgoing) -> Result<(), String>;

    /// Takes leave of the server.
    async fn close(&self) {}
}

/// Why a request has no result. The text is the one that the model reads.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("MCP error {}: {}", .0.code, .0.message)]
    Server(ErrorObject),
    #[error("MCP error {CONNECTION_ERROR}: {0}")]
    Closed(String),
    #[error("MCP error -32001: Request timed out")]
    TimedOut,
    #[error("Tool execution aborted")]
    Cancelled,
}

impl RequestError {
    pub(super) fn closed(problem: Option<String>) -> Self {
        Self::Closed(problem.unwrap_or_else(|| "Connection closed".to_owned()))
    }
}

/// What a server says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerInfo {
    protocol_version: String,
    #[serde(default)]
    capabilities: Value,
}

impl ServerInfo {
    /// Says what a server is that must not be connected to.
    fn refusal(&self, about: &About) -> Option<Disconnect> {
        if let Some(introduction) = self.capabilities["experimental"][ITSELF].as_object() {
            // One that was started has read the same configuration, and starts what this service starts.
            return match is_own_introduction(introduction, &about.instance) {
                true => Some(Disconnect::Itself(REACHES_ITSELF)),
                false => about.is_started.then_some(Disconnect::Itself(STARTS_ITSELF)),
            };
        }
        let version = &self.protocol_version;
        (!VERSIONS.contains(&version.as_str())).then(|| {
            let problem = format!("Server's protocol version is not supported: {version}");
            Disconnect::Failed(shortened_line(&problem))
        })
    }
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
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) outlet: Arc<dyn Outlet>,
}

impl Link {
    /// Shakes hands with the server.
    ///
    /// # Errors
    /// It does not, or must not be connected to. The connection is lost.
    pub(super) async fn connect(&self) -> Result<HasTools, Disconnect> {
        let shaken = self.shake_hands().await;
        shaken.map_err(|problem| {
            self.dispatcher.lose(problem.clone());
            self.dispatcher.loss().unwrap_or(problem)
        })
    }

    async fn shake_hands(&self) -> Result<HasTools, Disconnect> {
        let about = &self.dispatcher.about;
        let params = json!({
            "protocolVersion": VERSIONS[VERSIONS.len() - 2],
            "capabilities": {"roots": {}, "experimental": {ITSELF: introduction(&about.instance)}},
            "clientInfo": {"name": "toolgate", "version": env!("CARGO_PKG_VERSION")},
        });
        let answer = self.request(INITIALIZE, params, about.connect_limit).await;
        let info: ServerInfo = match answer {
            Ok(info) => serde_json::from_value(info)
                .map_err(|error| failed(&format!("The server sent a result that cannot be read: {error}")))?,
            // A service that was started below this one refuses, whatever it was started through.
            Err(RequestError::Server(error)) if error.data.get(ITSELF).is_some() => {
                return Err(Disconnect::Itself(STARTS_ITSELF));
            }
            Err(RequestError::TimedOut) => {
                let why = self
                    .dispatcher
                    .problem()
                    .map_or_else(String::new, |why| format!(": {why}"));
                return Err(self.timed_out(&why));
            }
            Err(RequestError::Closed(problem)) => return Err(failed(&problem)),
            Err(error @ (RequestError::Server(_) | RequestError::Cancelled)) => return Err(failed(&error.to_string())),
        };
        if let Some(refusal) = info.refusal(about) {
            return Err(refusal);
        }
        self.dispatcher.agree(info.protocol_version);
        let initialized = Outgoing::notification(INITIALIZED, None);
        let sent = tokio::time::timeout(about.connect_limit, Arc::clone(&self.outlet).send(&initialized)).await;
        match sent {
            Ok(sent) => sent.map_err(|problem| failed(&problem))?,
            Err(_) => return Err(self.timed_out("")),
        }
        Ok(HasTools(!info.capabilities["tools"].is_null()))
    }

    fn timed_out(&self, why: &str) -> Disconnect {
        failed(&format!("{}{why}", timed_out(self.dispatcher.about.connect_limit)))
    }

    /// Reads the whole list of tools.
    ///
    /// # Errors
    /// The server does not answer with a list; the text says why.
    pub(super) async fn list(&self, limit: Duration) -> Result<Vec<Described>, String> {
        let (mut tools, mut params, mut seen, mut bytes) = (Vec::new(), json!({}), BTreeSet::new(), 0);
        let deadline = Instant::now() + limit;
        for _ in 0..MAX_PAGES {
            let left = deadline.saturating_duration_since(Instant::now());
            let page = self.request("tools/list", params, left).await;
            let page = page.map_err(|error| format!("Failed to get tools: {error}"))?;
            bytes += message::size(&page);
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
                Some(next) => params = json!({ "cursor": next }),
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
        let params = json!({"name": tool, "arguments": arguments});
        self.request_with("tools/call", params, limit, cancelled, Some(progress))
            .await
    }

    async fn request(&self, method: &'static str, params: Value, limit: Duration) -> Result<Value, RequestError> {
        let never = CancellationToken::new();
        let progress = None::<fn(Progress) -> std::future::Ready<()>>;
        self.request_with(method, params, limit, &never, progress).await
    }

    async fn request_with<F: Future<Output = ()>>(
        &self,
        method: &'static str,
        params: Value,
        limit: Duration,
        cancelled: &CancellationToken,
        mut progress: Option<impl FnMut(Progress) -> F>,
    ) -> Result<Value, RequestError> {
        let dispatcher = &self.dispatcher;
        let mut expected = dispatcher.expect();
        let message = Outgoing::request(expected.id, method, params);
        let mut sending = Arc::clone(&self.outlet).send(&message);
        let mut is_sent = false;
        let last = Instant::now() + MAX_CALL.max(limit);
        let mut deadline = Instant::now() + limit;
        let (reason, error) = loop {
            tokio::select! {
                biased;
                answer = &mut expected.answer => return match answer {
                    Ok(Ok(result)) => Ok(result),
                    Ok(Err(error)) => Err(RequestError::Server(ErrorObject {
                        message: result::shortened(error.message),
                        ..error
                    })),
                    Err(_) => Err(RequestError::closed(dispatcher.problem())),
                },
                () = cancelled.cancelled() => break ("The call was cancelled.", RequestError::Cancelled),
                () = tokio::time::sleep_until(deadline) => break ("Request timed out", RequestError::TimedOut),
                _ = dispatcher.lost() => return Err(RequestError::closed(dispatcher.problem())),
                sent = &mut sending, if !is_sent => {
                    sent.map_err(RequestError::Closed)?;
                    is_sent = true;
                }
                Ok(()) = expected.progress.changed() => {
                    let latest = expected.progress.borrow_and_update().clone();
                    if let (Some(latest), Some(progress)) = (latest, &mut progress) {
                        deadline = last.min(Instant::now() + limit);
                        progress(latest).await;
                    }
                }
            }
        };
        // The server is told that nobody waits any more; the handshake alone must not be cancelled.
        if method != INITIALIZE {
            let params = json!({"requestId": expected.id, "reason": reason});
            dispatcher.enqueue(Outgoing::notification("notifications/cancelled", Some(params)));
        }
        Err(error)
    }
}

/// Whether a server has tools at all.
#[derive(Clone, Copy)]
pub(super) struct HasTools(pub(super) bool);

fn failed(problem: &str) -> Disconnect {
    Disconnect::Failed(shortened_line(problem))
}

pub(super) fn timed_out(limit: Duration) -> String {
    format!("Operation timed out after {}ms", limit.as_millis())
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
