//! `websearch` and `codesearch`: what both do to ask a search service (`docs/spec/web-tools.md` §2 and §3).
//!
//! The service is one that answers a call of a tool of the Model Context Protocol without a session before it, in the shape
//! of Exa's; the operator may name another one of that shape.
//!
//! *Invariants:* one deadline is for the whole exchange, and no more is read than is needed for the first answer. The key is
//! in the request and nowhere else: whatever the service says passes [`Service::hide`].

pub mod codesearch;
pub mod websearch;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_model::{JsonMap, OutputText, ToolOutput};
use toolgate_tool::{Offer, ToolContext, ToolError};
use toolgate_web::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use toolgate_web::{Network, Reply, Request, RequestError, Url};

/// The provider whose models may search without a switch: its users have an agreement with the service.
const PROVIDER: &str = "opencode";

/// Bytes of the largest answer.
const MOST_BYTES: usize = 5 << 20;
/// Bytes of a refusal that are shown.
const MOST_SHOWN: usize = 16 << 10;
/// Letters of what the service says instead of an answer that are logged.
const MOST_LOGGED: usize = 500;
/// A shorter key would be found in texts that have nothing to do with it.
const LEAST_HIDDEN: usize = 6;

/// The way to a search service. Cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    network: Network,
    /// With the key, if there is one.
    url: Url,
    /// What must be shown to nobody: the key as it is, and as it stands in the URL.
    secrets: Vec<String>,
    for_every_model: bool,
}

/// What is asked.
struct Query {
    /// What failures begin with.
    name: &'static str,
    tool: &'static str,
    arguments: JsonMap,
    /// How long the answer may take, whole.
    limit: Duration,
}

impl Service {
    /// Makes the way to the service at an endpoint, with a key if there is one. Models of other providers than
    /// `opencode` are told of it only if it is for every model.
    pub fn new(network: Network, endpoint: Url, key: Option<&str>, for_every_model: bool) -> Self {
        let mut url = endpoint;
        let mut secrets = Vec::new();
        if let Some(key) = key {
            url.query_pairs_mut().append_pair("exaApiKey", key);
            let written = url
                .query()
                .and_then(|query| query.rsplit('=').next())
                .map(str::to_owned);
            secrets.extend(written.into_iter().chain([key.to_owned()]));
            secrets.retain(|secret| secret.len() >= LEAST_HIDDEN);
        }
        Self(Arc::new(Inner {
            network,
            url,
            secrets,
            for_every_model,
        }))
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        self.0.for_every_model || offer.model.provider_id == PROVIDER
    }

    /// Returns the first text that the service answers, if there is any.
    async fn ask(&self, query: &Query, ctx: &ToolContext) -> Result<Option<String>, ToolError> {
        let answer = tokio::select! {
            biased;
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
            answer = self.exchange(query) => answer,
        };
        self.found(query.name, answer)
    }

    /// Returns what the model sees of an answer. A service that says why it has none has found nothing; the reason is for
    /// the operator, who can do something about it.
    fn found(&self, name: &str, answer: Result<Option<String>, Failure>) -> Result<Option<String>, ToolError> {
        match answer {
            Ok(text) => Ok(text.map(|text| self.hide(&text))),
            Err(Failure::Refused(text)) => {
                let reason: String = self.hide(&text).chars().take(MOST_LOGGED).collect();
                tracing::warn!(reason, "{name}: the service has no answer");
                Ok(None)
            }
            Err(failure @ (Failure::Request(_) | Failure::Status { .. } | Failure::Malformed)) => {
                Err(ToolError::Failed(self.hide(&failure.text(name))))
            }
        }
    }

    async fn exchange(&self, query: &Query) -> Result<Option<String>, Failure> {
        let Query { tool, arguments, .. } = query;
        let body = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        });
        let headers = [
            (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ];
        let request = Request {
            url: self.0.url.clone(),
            headers: HeaderMap::from_iter(headers),
            body: Some(body.to_string().into()),
            deadline: Instant::now() + query.limit,
        };
        let mut reply = self.0.network.request_named(request).await?;
        if !reply.is_success() {
            let status = reply.status();
            let text = beginning(&mut reply).await?;
            return Err(Failure::Status { status, text });
        }
        Answer::default().read(&mut reply).await
    }

    /// Takes the key out of a text that comes from elsewhere.
    fn hide(&self, text: &str) -> String {
        let secrets = self.0.secrets.iter();
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(secret.as_str(), "[redacted]")
        })
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the service refused with status {status}")]
    Status { status: u16, text: String },
    #[error("{0}")]
    Refused(String),
    #[error("the answer of the service cannot be read")]
    Malformed,
}

impl Failure {
    fn text(&self, name: &str) -> String {
        match self {
            Self::Request(RequestError::TimedOut) => format!("{name} request timed out"),
            Self::Status { status, text } => format!("{name} error ({status}): {text}"),
            Self::Request(_) | Self::Refused(_) | Self::Malformed => format!("{name} error: {self}"),
        }
    }
}

/// Reads what a refusal begins with.
async fn beginning(reply: &mut Reply) -> Result<String, RequestError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = reply.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MOST_SHOWN {
            break;
        }
    }
    Ok(excerpt(bytes))
}

fn excerpt(mut bytes: Vec<u8>) -> String {
    let is_cut = bytes.len() > MOST_SHOWN;
    bytes.truncate(MOST_SHOWN);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_cut {
        text.push_str(&format!("… (cut after {MOST_SHOWN} bytes)"));
    }
    text
}

/// What has been read of an answer: one JSON document, or a stream of events with one in each line of data.
#[derive(Default)]
struct Answer {
    bytes: Vec<u8>,
    /// Where the first line begins that has not ended.
    line: usize,
    refusal: Option<String>,
    is_malformed: bool,
}

impl Answer {
    /// Reads as far as the first text: a service may keep a stream of events open for ever.
    async fn read(mut self, reply: &mut Reply) -> Result<Option<String>, Failure> {
        while let Some(chunk) = reply.chunk().await? {
            if chunk.len() > MOST_BYTES - self.bytes.len() {
                return Err(RequestError::TooLarge { most: MOST_BYTES }.into());
            }
            if let Some(text) = self.add(&chunk) {
                return Ok(Some(text));
            }
        }
        self.end()
    }

    /// Adds some bytes, and returns the text that is in the lines that end with them.
    fn add(&mut self, bytes: &[u8]) -> Option<String> {
        let mut from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        while let Some(length) = memchr::memchr(b'\n', &self.bytes[from..]) {
            let end = from + length;
            let text = self.of_line(self.line..end);
            (self.line, from) = (end + 1, end + 1);
            if text.is_some() {
                return text;
            }
        }
        None
    }

    fn end(mut self) -> Result<Option<String>, Failure> {
        let whole = self.bytes.trim_ascii();
        let of_whole = whole.starts_with(b"{").then(|| Message::parse(whole));
        // What only looks like a document is no answer, and what begins with a brace may still have lines of data.
        let of_whole = of_whole.filter(|message| *message != Message::Malformed);
        let text = of_whole.and_then(|message| self.take_in(message));
        match text.or_else(|| self.of_line(self.line..self.bytes.len())) {
            Some(text) => Ok(Some(text)),
            None if self.refusal.is_some() => Err(Failure::Refused(self.refusal.unwrap_or_default())),
            None if self.is_malformed => Err(Failure::Malformed),
            None => Ok(None),
        }
    }

    /// Returns the text of a line, if it is one of data.
    fn of_line(&mut self, range: std::ops::Range<usize>) -> Option<String> {
        let data = self.bytes[range].strip_prefix(b"data: ")?.trim_ascii();
        let message = data.starts_with(b"{").then(|| Message::parse(data))?;
        self.take_in(message)
    }

    fn take_in(&mut self, message: Message) -> Option<String> {
        match message {
            Message::Text(text) => return Some(text),
            Message::Refusal(text) => self.refusal = Some(text),
            Message::Nothing => {}
            Message::Malformed => self.is_malformed = true,
        }
        None
    }
}

/// What one JSON document says.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Text(String),
    Refusal(String),
    Nothing,
    Malformed,
}

impl Message {
    fn parse(document: &[u8]) -> Self {
        let Ok(document) = serde_json::from_slice::<Value>(document) else {
            return Self::Malformed;
        };
        if let Some(refusal) = document.pointer("/error/message").and_then(Value::as_str) {
            return Self::Refusal(refusal.to_owned());
        }
        let content = document.pointer("/result/content").and_then(Value::as_array);
        let texts = content.into_iter().flatten().filter_map(|item| item["text"].as_str());
        match texts.into_iter().find(|text| !text.is_empty()) {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Nothing,
        }
    }
}

fn output(title: String, text: Option<String>, none: &str) -> ToolOutput {
    ToolOutput {
        title,
        output: OutputText::Text(text.unwrap_or_else(|| none.to_owned())),
        metadata: JsonMap::new(),
        attachments: Vec::new(),
        result: None,
    }
}

/// Returns the arguments of a call as a JSON object, without those that are absent.
fn object<const N: usize>(arguments: [(&str, Option<Value>); N]) -> JsonMap {
    let given = arguments
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    given.collect()
}

#[cfg(test)]
mod tests;
