//! The client of a server: the handshake, its list of tools, and calls.
//!
//! *Invariant:* every request has an end: the answer, the time limit, the cancellation or the end of the connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_model::{Claims, ITSELF, REACHES_ITSELF, STARTS_ITSELF, introduction, is_own_introduction};

use super::dispatcher::{About, Aside, Disconnect, Dispatcher, Expected, shortened_line};
use super::marked;
use super::message::{self, CONNECTION_ERROR, ErrorObject, Introduction, METHOD_NOT_FOUND, Outgoing, Progress};
use super::result;

pub(super) const INITIALIZE: &str = "initialize";
pub(super) const INITIALIZED: &str = "notifications/initialized";

const DISCOVER: &str = "server/discover";

/// The versions of the protocol that a server may answer with; the one before the last is asked for. The last has no
/// handshake: a server that knows only that refuses it, and is asked what it offers instead. Servers that answer the
/// handshake with it all the same are taken at their word.
const VERSIONS: [&str; 5] = [
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    WITHOUT_HANDSHAKE,
];
pub(super) const WITHOUT_HANDSHAKE: &str = "2026-07-28";

/// What servers say to a handshake that know none: no such method, no such version, or headers that are missing.
const WITHOUT_HANDSHAKES: [i64; 3] = [METHOD_NOT_FOUND, -32022, -32020];

/// Asks a server without a handshake to tell what changes; answered when it does so no more.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// The pause before that is asked again.
pub(super) const LISTEN_PAUSE: Duration = Duration::from_secs(5);

/// Pages of a list that are read.
const MAX_PAGES: usize = 1000;

/// Tools of one server, and bytes of what it says of them all.
const MAX_TOOLS: usize = 2000;
const MAX_LIST: usize = 8 << 20;

/// Bytes of the longest name of a tool.
const MAX_NAME: usize = 256;

/// How long progress may put off the end of one request.
pub(super) const MAX_CALL: Duration = Duration::from_secs(60 * 60);

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

/// Who listens to a server in the midst of a call.
#[async_trait]
pub(super) trait Attendant: Send + Sync {
    /// The call has come further.
    async fn progressed(&self, progress: Progress);

    /// The server says something for a log.
    async fn logged(&self, line: Value);

    /// The server asks for something, and waits.
    ///
    /// # Errors
    /// It cannot have that; the error is what it is told.
    async fn asked(&self, method: &str, params: Value) -> Result<Value, ErrorObject>;
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
    #[serde(default)]
    protocol_version: String,
    /// Of one that knows no handshake.
    #[serde(default)]
    supported_versions: Vec<String>,
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

/// A tool as a server describes it. None of it is to be trusted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    pub(super) name: String,
    /// A name for people.
    pub(super) title: String,
    pub(super) description: String,
    /// Whatever the server calls a schema.
    pub(super) schema: Value,
    /// What else it says of it.
    pub(super) claims: Claims,
    /// Whether it runs as a task only.
    pub(super) is_task: bool,
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
    pub(super) async fn connect(&self) -> Result<Offers, Disconnect> {
        let shaken = self.shake_hands().await;
        shaken.map_err(|problem| {
            self.dispatcher.lose(problem.clone());
            self.dispatcher.loss().unwrap_or(problem)
        })
    }

    async fn shake_hands(&self) -> Result<Offers, Disconnect> {
        let about = &self.dispatcher.about;
        let params = json!({
            "protocolVersion": VERSIONS[VERSIONS.len() - 2],
            "capabilities": capabilities(about),
            "clientInfo": client_info(),
        });
        let answer = self.request(INITIALIZE, params, about.connect_limit).await;
        let info: ServerInfo = match answer {
            Err(RequestError::Server(error)) if WITHOUT_HANDSHAKES.contains(&error.code) => {
                return self.discover(&error).await;
            }
            answer => self.read_info(answer)?,
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
        Ok(Offers::read(&info.capabilities))
    }

    /// Asks a server that knows no handshake what it offers. `refusal` is what it said to the handshake.
    async fn discover(&self, refusal: &ErrorObject) -> Result<Offers, Disconnect> {
        let about = &self.dispatcher.about;
        self.dispatcher.introduce(Introduction {
            version: WITHOUT_HANDSHAKE,
            client: client_info(),
            capabilities: capabilities(about),
        });
        let answer = self.request(DISCOVER, json!({}), about.connect_limit).await;
        if let Err(RequestError::Server(_)) = &answer {
            // It knows neither: what it said first is the reason.
            return Err(failed(&RequestError::Server(refusal.clone()).to_string()));
        }
        let mut info: ServerInfo = self.read_info(answer)?;
        if info
            .supported_versions
            .iter()
            .any(|version| version == WITHOUT_HANDSHAKE)
        {
            info.protocol_version = WITHOUT_HANDSHAKE.to_owned();
        }
        if let Some(refusal) = info.refusal(about) {
            return Err(refusal);
        }
        self.dispatcher.agree(info.protocol_version);
        let offers = Offers::read(&info.capabilities);
        if offers.announces {
            self.dispatcher.spawn(self.clone().listen(offers));
        }
        Ok(offers)
    }

    /// Hears of changes as long as there is a connection: without a handshake they have to be asked for.
    async fn listen(self, offers: Offers) {
        let notifications = json!({
            "toolsListChanged": offers.tools,
            "promptsListChanged": offers.prompts,
            "resourcesListChanged": offers.resources,
        });
        loop {
            let params = json!({ "notifications": notifications });
            let listened = self.request(LISTEN, params, MAX_CALL).await;
            if let Err(RequestError::Server(problem)) = listened {
                return tracing::debug!(problem = problem.message, "the server tells of no changes");
            }
            tokio::time::sleep(LISTEN_PAUSE).await;
        }
    }

    fn read_info(&self, answer: Result<Value, RequestError>) -> Result<ServerInfo, Disconnect> {
        match answer {
            Ok(info) => serde_json::from_value(info)
                .map_err(|error| failed(&format!("The server sent a result that cannot be read: {error}"))),
            // A service that was started below this one refuses, whatever it was started through.
            Err(RequestError::Server(error)) if error.data.get(ITSELF).is_some() => {
                Err(Disconnect::Itself(STARTS_ITSELF))
            }
            Err(RequestError::TimedOut) => {
                let why = self
                    .dispatcher
                    .problem()
                    .map_or_else(String::new, |why| format!(": {why}"));
                Err(self.timed_out(&why))
            }
            Err(RequestError::Closed(problem)) => Err(failed(&problem)),
            Err(error @ (RequestError::Server(_) | RequestError::Cancelled)) => Err(failed(&error.to_string())),
        }
    }

    fn timed_out(&self, why: &str) -> Disconnect {
        failed(&format!("{}{why}", timed_out(self.dispatcher.about.connect_limit)))
    }

    /// Reads the whole list of tools.
    ///
    /// # Errors
    /// The server does not answer with a list; the text says why.
    pub(super) async fn list(&self, limit: Duration) -> Result<Vec<Described>, String> {
        let listed = self.list_all("tools/list", "tools", limit).await;
        let listed = listed.map_err(|problem| format!("Failed to get tools: {problem}"))?;
        let listed = listed.iter().filter_map(described);
        let fine = listed.filter(|tool| {
            let is_fine = marked::are_fine(&tool.schema);
            if !is_fine {
                tracing::warn!(
                    tool = tool.name,
                    "a tool is left out: what it wants in headers cannot be there"
                );
            }
            is_fine
        });
        Ok(fine.collect())
    }

    /// Reads all pages of a list, which are below `key` in the answers.
    ///
    /// # Errors
    /// The server does not answer with a list; the text says why.
    pub(super) async fn list_all(
        &self,
        method: &'static str,
        key: &str,
        limit: Duration,
    ) -> Result<Vec<Value>, String> {
        let (mut all, mut params, mut seen, mut bytes) = (Vec::new(), json!({}), BTreeSet::new(), 0);
        let deadline = Instant::now() + limit;
        for _ in 0..MAX_PAGES {
            let left = deadline.saturating_duration_since(Instant::now());
            let page = self.request(method, params, left).await;
            let mut page = page.map_err(|error| error.to_string())?;
            bytes += message::size(&page);
            if bytes > MAX_LIST {
                return Err(format!("they take more than {} MiB", MAX_LIST >> 20));
            }
            let listed = page.get_mut(key).map(Value::take);
            let Some(Value::Array(listed)) = listed else {
                return Err("the answer is not a list".to_owned());
            };
            all.extend(listed);
            if all.len() > MAX_TOOLS {
                return Err(format!("there are more than {MAX_TOOLS}"));
            }
            match page.get("nextCursor").and_then(Value::as_str) {
                None => return Ok(all),
                Some(next) if !seen.insert(next.to_owned()) => return Err("a cursor came twice".to_owned()),
                Some(next) => params = json!({ "cursor": next }),
            }
        }
        Err(format!("there are more than {MAX_PAGES} pages"))
    }

    /// Makes a request that may take long, calls a tool for instance, and returns the raw result. `attendant` hears what the
    /// server says meanwhile. Progress begins the time limit anew, and while the server waits for an answer it does not run.
    pub(super) async fn call(
        &self,
        asked: Asked<'_>,
        limit: Duration,
        cancelled: &CancellationToken,
        attendant: &dyn Attendant,
    ) -> Result<Value, RequestError> {
        self.request_with(asked, limit, cancelled, Some(attendant)).await
    }

    /// Makes a request that is answered at once.
    pub(super) async fn request(
        &self,
        method: &'static str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, RequestError> {
        self.request_until(method, params, limit, &CancellationToken::new())
            .await
    }

    /// Makes a request that may be given up.
    pub(super) async fn request_until(
        &self,
        method: &'static str,
        params: Value,
        limit: Duration,
        cancelled: &CancellationToken,
    ) -> Result<Value, RequestError> {
        let asked = Asked {
            method,
            params,
            headers: &[],
        };
        self.request_with(asked, limit, cancelled, None).await
    }

    async fn request_with(
        &self,
        asked: Asked<'_>,
        limit: Duration,
        cancelled: &CancellationToken,
        attendant: Option<&dyn Attendant>,
    ) -> Result<Value, RequestError> {
        let Asked {
            method,
            params,
            headers,
        } = asked;
        let dispatcher = &self.dispatcher;
        let mut expected = dispatcher.expect(attendant.is_some());
        let mut message = Outgoing::request(expected.id, method, params, dispatcher.introduction());
        message.headers = headers.to_vec();
        let mut sending = Arc::clone(&self.outlet).send(&message);
        let mut is_sent = false;
        let mut answers = FuturesUnordered::new();
        let mut last = Instant::now() + MAX_CALL.max(limit);
        let mut deadline = Instant::now() + limit;
        let mut waits_since = None;
        let (reason, error) = loop {
            tokio::select! {
                biased;
                answer = &mut expected.answer => {
                    if let Some(attendant) = attendant {
                        hear_rest(&mut expected, attendant).await;
                    }
                    return match answer {
                        Ok(Ok(result)) => Ok(result),
                        Ok(Err(error)) => Err(RequestError::Server(ErrorObject {
                            message: result::shortened(error.message),
                            ..error
                        })),
                        Err(_) => Err(RequestError::closed(dispatcher.problem())),
                    };
                }
                () = cancelled.cancelled() => break ("The call was cancelled.", RequestError::Cancelled),
                () = tokio::time::sleep_until(deadline), if answers.is_empty() => {
                    break ("Request timed out", RequestError::TimedOut);
                }
                _ = dispatcher.lost() => return Err(RequestError::closed(dispatcher.problem())),
                sent = &mut sending, if !is_sent => {
                    sent.map_err(RequestError::Closed)?;
                    is_sent = true;
                }
                Some((id, answer)) = answers.next(), if !answers.is_empty() => {
                    // What is refused at once puts nothing off: only the time counts in which somebody was waited for.
                    if answers.is_empty() {
                        let waited = waits_since.take().map_or(Duration::ZERO, |since: Instant| since.elapsed());
                        last += waited;
                        deadline = last.min(deadline + waited);
                    }
                    dispatcher.enqueue(Outgoing::answer(&id, answer));
                }
                Some(aside) = expected.asides.recv() => {
                    let Some(attendant) = attendant else { continue };
                    match aside {
                        Aside::Progressed(progress) => {
                            deadline = last.min(Instant::now() + limit);
                            attendant.progressed(progress).await;
                        }
                        Aside::Logged(line) => attendant.logged(line).await,
                        Aside::Asked { id, method, params, place } => {
                            waits_since.get_or_insert_with(Instant::now);
                            answers.push(async move {
                                let answer = attendant.asked(&method, params).await;
                                drop(place);
                                (id, answer)
                            });
                        }
                    }
                }
                Ok(()) = expected.progress.changed() => {
                    let latest = expected.progress.borrow_and_update().clone();
                    if let (Some(latest), Some(attendant)) = (latest, attendant) {
                        deadline = last.min(Instant::now() + limit);
                        attendant.progressed(latest).await;
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

/// Hears what a server has said before its answer. What it has asked for needs none any more.
async fn hear_rest(expected: &mut Expected, attendant: &dyn Attendant) {
    while let Ok(aside) = expected.asides.try_recv() {
        match aside {
            Aside::Progressed(progress) => attendant.progressed(progress).await,
            Aside::Logged(line) => attendant.logged(line).await,
            Aside::Asked { .. } => {}
        }
    }
}

/// A request.
pub(super) struct Asked<'a> {
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// What of it goes into headers as well.
    pub(super) headers: &'a [(String, String)],
}

/// What a server says that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offers {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    /// Resources can be watched.
    pub(super) watched: bool,
    /// It completes arguments.
    pub(super) completions: bool,
    /// Its tools can run as tasks.
    pub(super) tasks: bool,
    /// It tells when one of its lists is another.
    announces: bool,
}

impl Offers {
    fn read(capabilities: &Value) -> Self {
        let has = |name: &str| !capabilities[name].is_null();
        let announces = |name: &str| capabilities[name]["listChanged"] == true;
        Self {
            tools: has("tools"),
            prompts: has("prompts"),
            resources: has("resources"),
            watched: capabilities["resources"]["subscribe"] == true,
            completions: has("completions"),
            tasks: !capabilities["tasks"]["requests"]["tools"]["call"].is_null(),
            announces: ["tools", "prompts", "resources"].into_iter().any(announces),
        }
    }
}

fn client_info() -> Value {
    json!({"name": "toolgate", "version": env!("CARGO_PKG_VERSION")})
}

/// What servers may ask for: people answer their forms; models and folders are those of an MCP client that follows the
/// call, if there is one.
fn capabilities(about: &About) -> Value {
    json!({
        "roots": {},
        "sampling": {},
        "elicitation": {"form": {}, "url": {}},
        "experimental": {ITSELF: introduction(&about.instance)},
    })
}
fn failed(problem: &str) -> Disconnect {
    Disconnect::Failed(shortened_line(problem))
}

pub(super) fn timed_out(limit: Duration) -> String {
    format!("Operation timed out after {}ms", limit.as_millis())
}

fn described(tool: &Value) -> Option<Described> {
    let name = tool.get("name")?.as_str().filter(|name| name.len() <= MAX_NAME)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let title = [&tool["title"], &tool["annotations"]["title"]]
        .into_iter()
        .find(|title| title.is_string());
    Some(Described {
        name: name.to_owned(),
        title: title.map(|title| shortened_line(&text(title))).unwrap_or_default(),
        description: text(&tool["description"]),
        schema: tool.get("inputSchema").cloned().unwrap_or(Value::Null),
        claims: claims(tool),
        is_task: tool["execution"]["taskSupport"] == "required",
    })
}

fn claims(tool: &Value) -> Claims {
    let hint = |name: &str| tool["annotations"][name].as_bool();
    Claims {
        output_schema: tool.get("outputSchema").filter(|schema| schema.is_object()).cloned(),
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}
