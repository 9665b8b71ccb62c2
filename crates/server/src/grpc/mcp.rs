//! `/mcp`: the same tools for any MCP client, over streamable HTTP, on the port that serves the contract.
//!
//! A tool call of a client is a call of the engine like any other: judged, recorded, audited. It is made in the session that
//! the client names, else in one that all its connections share. Clients of the revision 2026-07-28 have no sessions of the
//! protocol: each request stands for itself, and what a call needs of its client is the answer to it.
//!
//! In reading order: `endpoint` and `context` (what a request says beside its body), `clients` (what those can do), `sessions`, `handler` (what the SDK asks),
//! `call` and `following` with `notes`, `wanted` and `parked` (`shares`: who makes room); `elicitation` and `content` (prompts and results as the client gets
//! them); `resources` (outputs) and `passing` (prompts and resources of servers of tools).
//!
//! *Invariant:* nothing passes without a [`Caller`] that may execute calls; a session is used only by whoever opened it,
//! and the number of sessions is bounded. The calls of a connection end with it.

mod call;
mod clients;
mod content;
mod context;
mod elicitation;
mod endpoint;
mod following;
mod handler;
mod notes;
mod parked;
mod passing;
mod resources;
mod sessions;
mod shares;
mod wanted;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::header::{ALLOW, RETRY_AFTER};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use tower::{Layer, Service};

use self::context::McpContext;
pub use self::endpoint::{PATH, SESSION, named};
use self::handler::Handler;
use self::sessions::{Sessions, Stream};
use super::Shared;
use super::answers::{plain, refused};
use super::auth::{Caller, Gate, GateLayer};
use super::door::DoorLayer;

/// Says which revision a request is of.
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Bytes of JSON around the input of a call.
const MESSAGE_OVERHEAD_BYTES: usize = 1024 * 1024;

/// Messages that one stream of a session may be behind.
const MAX_STREAM_BACKLOG: usize = 64;

/// How long answers that are on their way may take when the service ends.
const ANSWERS_GRACE: Duration = Duration::from_secs(2);

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// What is served at [`PATH`], behind its gate.
#[derive(Clone)]
pub(crate) struct McpDoor(Gate<Mcp>);

impl McpDoor {
    /// Makes the service, which ends when the streams of the server do.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let gate = GateLayer::refusing(shared.authenticator.clone(), shared.traffic.clone(), refused);
        Self(gate.layer(Mcp::new(shared)))
    }

    /// Takes the requests for it out of those for a service.
    pub(crate) fn layer(&self) -> Option<DoorLayer> {
        Some(DoorLayer::new(|path| path == PATH, self.0.clone()))
    }

    /// Waits for what ended sessions left to do.
    pub(crate) async fn finish(&self) {
        self.0.inner().sessions.finish().await;
    }
}

/// The service behind the gate.
#[derive(Clone)]
pub(crate) struct Mcp {
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
    sdk: StreamableHttpService<Handler, LocalSessionManager>,
}

impl Mcp {
    fn new(shared: Arc<Shared>) -> Self {
        let mut config = SessionConfig::default();
        config.channel_capacity = MAX_STREAM_BACKLOG;
        // Which sessions have had nobody for too long is decided here.
        config.keep_alive = None;
        let mut manager = LocalSessionManager::default();
        manager.session_config = config;
        let manager = Arc::new(manager);
        let sessions = Sessions::new(shared.engine.clone(), manager.clone(), shared.closing.at_once());
        let ended = CancellationToken::new();
        sessions.watch(ended.clone(), ANSWERS_GRACE);
        let make = {
            let (shared, sessions) = (shared.clone(), sessions.clone());
            move || Ok(Handler::new(shared.clone(), sessions.clone()))
        };
        let input = shared.engine.limits().max_input_bytes;
        let config = StreamableHttpServerConfig::default()
            // Both headers are looked at before: by the gate and the layer for origins.
            .disable_allowed_hosts()
            .with_sse_keep_alive(Some(shared.heartbeat))
            .with_max_request_body_bytes(input.saturating_mul(2).saturating_add(MESSAGE_OVERHEAD_BYTES))
            .with_cancellation_token(ended);
        Self {
            sdk: StreamableHttpService::new(make, manager, config),
            shared,
            sessions,
        }
    }

    async fn serve(self, mut request: Request<Body>) -> Response<Body> {
        let (context, caller) = match read(&request) {
            Ok(read) => read,
            Err(response) => return *response,
        };
        let method = request.method().clone();
        // What only listens, or leaves, resumes no workspace.
        let checked = context.check(&caller, &self.shared.engine, method == Method::POST);
        if let Err(status) = checked.await {
            return refused(status);
        }
        let session = match self.session(&request, &caller) {
            Ok(session) => session,
            Err(response) => return *response,
        };
        request.extensions_mut().insert(context);
        let mut response = self.sdk.handle(request).await.map(Body::new);
        if method == Method::DELETE && response.status() == StatusCode::ACCEPTED {
            // The session is gone by now. The SDK for Python takes any other answer for a failure, and says so.
            *response.status_mut() = StatusCode::OK;
        }
        let Some(id) = session.or_else(|| text_of(response.headers(), &SESSION)) else {
            return self.sessions.let_out(response);
        };
        if method == Method::DELETE {
            self.sessions.end(&id);
            return response;
        }
        if !self.sessions.register(&id, &caller.principal().id()) {
            return full();
        }
        let kind = match (&method, response.status()) {
            (&Method::POST, StatusCode::OK) => Stream::Answer,
            _ => Stream::Other,
        };
        self.sessions.attach(&id, kind, response)
    }

    /// Returns the session, if a request names one; a caller has only its own.
    fn session(&self, request: &Request<Body>, caller: &Caller) -> Result<Option<String>, Box<Response<Body>>> {
        let session = text_of(request.headers(), &SESSION);
        match &session {
            Some(id) if !self.sessions.is_of(id, &caller.principal().id()) => {
                Err(plain(StatusCode::NOT_FOUND, "there is no such session: initialize again\n").into())
            }
            None if request.method() == Method::POST
                && !is_sessionless(request.headers())
                && !self.sessions.make_room() =>
            {
                Err(full().into())
            }
            Some(_) | None => Ok(session),
        }
    }
}

/// Reads what a request says beside its body: for whom tools are shown, and who asks.
fn read(request: &Request<Body>) -> Result<(McpContext, Arc<Caller>), Box<Response<Body>>> {
    if ![Method::POST, Method::GET, Method::DELETE].contains(request.method()) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "MCP uses POST, GET and DELETE\n");
        let allowed = HeaderValue::from_static("GET, POST, DELETE");
        response.headers_mut().insert(ALLOW, allowed);
        return Err(response.into());
    }
    let caller = Caller::from_extensions(request.extensions()).map_err(|status| Box::new(refused(status)))?;
    let context = McpContext::read(request.uri().query().unwrap_or_default(), request.headers())
        .map_err(|problem| Box::new(plain(StatusCode::BAD_REQUEST, &format!("{problem}\n"))))?;
    Ok((context, caller))
}

fn full() -> Response<Body> {
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "too many sessions are open\n");
    let later = HeaderValue::from_static("5");
    response.headers_mut().insert(RETRY_AFTER, later);
    response
}

impl Service<Request<Body>> for Mcp {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mcp = self.clone();
        Box::pin(async move { Ok(mcp.serve(request).await) })
    }
}

/// Says whether a request is one of a client that has no session, and so opens none.
fn is_sessionless(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION).and_then(|version| version.to_str().ok());
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Returns a header, if it is text.
fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
