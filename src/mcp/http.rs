//! A server that is reached by streamable HTTP, and what both kinds of HTTP have in common.
//!
//! The protocol's own machinery does the work; here results are wrapped on their way, so that they arrive as they were
//! sent. An answer that is one JSON text and no stream is read by that machinery, which drops keys of a result that the
//! protocol does not know.
//!
//! *Invariant:* bodies and events are bounded (16 MiB). Headers and tokens are sent to the configured server only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::StreamExt as _;
use reqwest::Client;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};

use super::wire;

/// Bytes of the largest event that is taken.
pub(super) const MAX_EVENT: usize = 16 << 20;

pub(super) type Headers = HashMap<HeaderName, HeaderValue>;
type HttpError = StreamableHttpError<reqwest::Error>;

/// A server that is reached by HTTP.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) client: Client,
    pub(super) url: Arc<str>,
    pub(super) headers: Headers,
    /// A stored login, unless the headers have one.
    pub(super) token: Option<String>,
}

impl Endpoint {
    /// Makes a transport of streamable HTTP.
    pub(super) fn streamable(&self) -> StreamableHttpClientTransport<Http> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.clone());
        config.custom_headers = self.headers.clone();
        config.auth_header.clone_from(&self.token);
        config.max_sse_event_size = MAX_EVENT;
        StreamableHttpClientTransport::with_client(Http(self.client.clone()), config)
    }
}

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

/// The client of the protocol's machinery.
#[derive(Clone)]
pub(super) struct Http(Client);

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, MAX_EVENT)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let initializes = matches!(
            &message,
            JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::InitializeRequest(_))
        );
        let answer = self
            .0
            .post_message_with_max_sse_event_size(uri, message, session, token, headers, max_event)
            .await?;
        if let StreamableHttpPostResponse::Sse(events, session) = answer {
            let events = if initializes { events } else { wrapped(events) };
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        Ok(answer)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, HttpError> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, MAX_EVENT)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Result<BoxedSseResponse, HttpError> {
        let events = self
            .0
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, max_event)
            .await?;
        Ok(wrapped(events))
    }
}

fn wrapped(events: BoxedSseResponse) -> BoxedSseResponse {
    let events = events.map(|event| {
        let mut event = event?;
        event.data = event.data.map(wire::wrap);
        Ok(event)
    });
    events.boxed()
}
