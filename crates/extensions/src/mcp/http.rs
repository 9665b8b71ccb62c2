//! A server that is reached by HTTP: its requests, and what the protocol's own machinery makes of them.
//!
//! That machinery looks after sessions and streams. What is sent and read is done here, so that results arrive as they
//! were sent, a login is renewed when it has to be, and a server that is gone is noticed.
//!
//! *Invariant:* bodies and events are bounded (16 MiB). Headers and tokens are sent to the configured server only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use toolgate_web::Network;

use super::events::{self, MAX_EVENT, too_large};
use super::login::{Credentials, LoginError};
use super::signals::{Disconnect, ServerSignals, chain};
use super::wire::{self, Incoming};

/// Bytes of an answer that says what is wrong.
const MAX_PROBLEM: usize = 64 << 10;

const BOTH: &str = "application/json, text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

pub(super) type Headers = HashMap<HeaderName, HeaderValue>;
type HttpError = StreamableHttpError<reqwest::Error>;

/// Returns headers as they are sent.
///
/// # Errors
/// The first one that cannot be a header.
pub(super) fn headers(configured: &BTreeMap<String, String>) -> Result<Headers, String> {
    let mut headers = Headers::new();
    for (name, value) in configured {
        let bad = || format!("The header {name:?} of the configuration cannot be sent");
        let name: HeaderName = name.parse().map_err(|_| bad())?;
        let mut value: HeaderValue = value.parse().map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Says whether the configuration logs in by itself.
pub(super) fn logs_in(headers: &Headers) -> bool {
    headers.contains_key(&AUTHORIZATION)
}

/// A server that is reached by HTTP.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) client: Client,
    /// The way to who gives out tokens.
    pub(super) network: Network,
    pub(super) url: Arc<str>,
    pub(super) headers: Headers,
    /// The stored login, unless the headers have one.
    pub(super) credentials: Option<Arc<Credentials>>,
    pub(super) signals: Arc<ServerSignals>,
}

impl Endpoint {
    /// Makes a transport of streamable HTTP.
    pub(super) fn streamable(&self) -> StreamableHttpClientTransport<Http> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.clone());
        config.custom_headers = self.headers.clone();
        config.max_sse_event_size = MAX_EVENT;
        let http = Http {
            endpoint: self.clone(),
            is_initialized: Arc::default(),
        };
        StreamableHttpClientTransport::with_client(http, config)
    }

    /// Opens a stream of events.
    pub(super) async fn events(&self, extra: &[(HeaderName, &str)], headers: &Headers) -> Result<Response, HttpError> {
        let accept = (ACCEPT, BOTH);
        let response = self
            .send(headers, || {
                let request = self.client.get(&*self.url);
                extra
                    .iter()
                    .chain([&accept])
                    .fold(request, |request, (name, value)| request.header(name, *value))
            })
            .await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(HttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(problem(response).await),
            _ if is_of(&response, "text/event-stream") => Ok(response),
            _ => Err(HttpError::UnexpectedContentType(kind_of(&response))),
        }
    }

    /// Sends a request with the login of the moment, and once more if the server wants another one.
    pub(super) async fn send(
        &self,
        headers: &Headers,
        make: impl Fn() -> RequestBuilder + Send + Sync,
    ) -> Result<Response, HttpError> {
        let mut token = match &self.credentials {
            Some(credentials) => credentials
                .token(&self.network)
                .await
                .map_err(|error| self.no_login(error))?,
            None => None,
        };
        let mut is_renewed = false;
        loop {
            let mut request = make();
            for (name, value) in headers {
                request = request.header(name, value);
            }
            if let Some(token) = &token {
                request = request.bearer_auth(token);
            }
            let response = request.send().await.map_err(|error| self.not_sent(error))?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return Ok(response);
            }
            let challenge = response.headers().get(WWW_AUTHENTICATE);
            let challenge = challenge
                .and_then(|challenge| challenge.to_str().ok())
                .unwrap_or_default()
                .to_owned();
            if let (Some(credentials), false) = (&self.credentials, is_renewed) {
                let other = credentials
                    .instead_of(token.as_deref(), &challenge, &self.network)
                    .await;
                token = other.map_err(|error| self.no_login(error))?;
                is_renewed = true;
                if token.is_some() {
                    continue;
                }
            }
            self.signals.lose(Disconnect::NeedsAuth {
                challenge: challenge.clone(),
            });
            return Err(HttpError::AuthRequired(AuthRequiredError::new(challenge)));
        }
    }

    /// A server that nobody can connect to is gone, and with it what it was asked.
    fn not_sent(&self, error: reqwest::Error) -> HttpError {
        if error.is_connect() {
            self.signals.lose(Disconnect::Failed(chain(&error)));
        }
        HttpError::Client(error)
    }

    fn no_login(&self, error: LoginError) -> HttpError {
        let text = error.to_string();
        self.signals.lose(match error {
            LoginError::Over => Disconnect::NeedsAuth {
                challenge: String::new(),
            },
            LoginError::Unregistered => Disconnect::NeedsRegistration,
            LoginError::Failed(_) => Disconnect::Failed(text.clone()),
        });
        HttpError::UnexpectedServerResponse(text.into())
    }
}

/// The client of the protocol's machinery.
#[derive(Clone)]
pub(super) struct Http {
    endpoint: Endpoint,
    is_initialized: Arc<AtomicBool>,
}

impl Http {
    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: &Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let endpoint = &self.endpoint;
        let (id, initializes) = match message {
            JsonRpcMessage::Request(request) => {
                let initializes = matches!(request.request, ClientRequest::InitializeRequest(_));
                (Some(request.id.clone()), initializes)
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) | JsonRpcMessage::Notification(_) => (None, false),
        };
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        if is_answer {
            endpoint.signals.answered();
        }
        if initializes && self.is_initialized.swap(true, Ordering::Relaxed) {
            // The server has begun anew, perhaps with other tools.
            endpoint.signals.tools_changed.notify_one();
        }
        let sent = endpoint.send(headers, || {
            let request = endpoint.client.post(&*endpoint.url).header(ACCEPT, BOTH).json(message);
            match &session {
                Some(session) => request.header(SESSION, &**session),
                None => request,
            }
        });
        let response = tokio::select! {
            response = sent => response?,
            // There may be many of them, and the machinery waits for each.
            _ = endpoint.signals.lost(), if is_answer => return Err(HttpError::TransportChannelClosed),
        };
        let status = response.status();
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(HttpError::SessionExpired);
        }
        if !status.is_success() {
            return refusal(response, id).await;
        }
        // Only a request has an answer, whatever a server says to other messages.
        let Some(id) = id else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let session = response.headers().get(SESSION);
        let session = session.and_then(|session| session.to_str().ok()).map(str::to_owned);
        if is_of(&response, "text/event-stream") {
            let events = match initializes {
                true => events::plain(response.bytes_stream()),
                false => events::messages(response.bytes_stream(), Some(id), endpoint.signals.clone()),
            };
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        if is_of(&response, "application/json") {
            let answer = answer(response, id, initializes).await?;
            return Ok(StreamableHttpPostResponse::Json(answer, session));
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        Err(HttpError::UnexpectedContentType(kind_of(&response)))
    }
}

/// Reads the answer to a request.
async fn answer(response: Response, id: RequestId, initializes: bool) -> Result<ServerJsonRpcMessage, HttpError> {
    let body = match body(response, MAX_EVENT).await? {
        Some(body) => body,
        None => return Ok(wire::failure(id, &too_large())),
    };
    match wire::decode(&body, initializes) {
        Ok(Incoming::Message(message)) => Ok(*message),
        Ok(Incoming::Progress(_) | Incoming::ToolsChanged | Incoming::Unneeded) => {
            Ok(wire::failure(id, "The server's answer is none to what it was asked"))
        }
        Err(problem) => Ok(wire::failure(
            id,
            &format!("The server's answer cannot be read: {problem}"),
        )),
    }
}

/// Reads what a server says that does not do what it is asked.
async fn refusal(response: Response, id: Option<RequestId>) -> Result<StreamableHttpPostResponse, HttpError> {
    let (status, is_json) = (response.status(), is_of(&response, "application/json"));
    let body = body(response, MAX_PROBLEM).await.ok().flatten().unwrap_or_default();
    let is_about_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if let (true, false, Some(id)) = (is_json, is_about_login, id)
        && let Ok(JsonRpcMessage::Error(mut error)) = serde_json::from_slice::<ServerJsonRpcMessage>(&body)
    {
        // Servers that did not read the request do not know its id.
        error.id = Some(id);
        return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None));
    }
    Err(http_problem(status, &body))
}

async fn problem(response: Response) -> HttpError {
    let status = response.status();
    let body = body(response, MAX_PROBLEM).await.ok().flatten().unwrap_or_default();
    http_problem(status, &body)
}

fn http_problem(status: StatusCode, body: &[u8]) -> HttpError {
    let said = String::from_utf8_lossy(body);
    let text = match said.trim() {
        "" => format!("HTTP {status}"),
        said => format!("HTTP {status}: {said}"),
    };
    HttpError::UnexpectedServerResponse(text.into())
}

/// Reads a body; none if it is too large.
async fn body(response: Response, most: usize) -> Result<Option<Vec<u8>>, HttpError> {
    let (mut chunks, mut body) = (response.bytes_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(HttpError::Client)?;
        if chunk.len() > most - body.len() {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

fn kind_of(response: &Response) -> Option<String> {
    let kind = response.headers().get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(kind.as_bytes()).into_owned())
}

fn is_of(response: &Response, kind: &str) -> bool {
    kind_of(response).is_some_and(|found| found.to_ascii_lowercase().starts_with(kind))
}

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.post(&message, session, &headers).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
        _max_event: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.post(&message, session, &headers).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        let endpoint = &self.endpoint;
        let response = endpoint
            .send(&headers, || {
                endpoint.client.delete(&*endpoint.url).header(SESSION, &*session)
            })
            .await?;
        match response.status() {
            status if status.is_success() => Ok(()),
            StatusCode::METHOD_NOT_ALLOWED => Err(HttpError::ServerDoesNotSupportDeleteSession),
            status => Err(http_problem(status, &[])),
        }
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, HttpError> {
        let session = session.as_deref().map(|session| (SESSION, session));
        let last_event = last_event.as_deref().map(|event| (LAST_EVENT, event));
        let extra: Vec<_> = session.into_iter().chain(last_event).collect();
        let response = self.endpoint.events(&extra, &headers).await?;
        let signals = self.endpoint.signals.clone();
        Ok(events::messages(response.bytes_stream(), None, signals))
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        _max_event: usize,
    ) -> Result<BoxedSseResponse, HttpError> {
        self.get_stream(uri, session, last_event, token, headers).await
    }
}
