//! `webfetch`: asks a web server for a page and returns it as Markdown, text or markup (`docs/spec/web-tools.md` §1).
//!
//! Where the specification decodes every body as UTF-8, a declared character set is honoured here.
//!
//! *Invariant:* what a rule denies is not asked for, by no spelling of its URL and by no redirect. One deadline is for the
//! whole exchange; a body is read as far as it may be, and no further.

mod charset;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_model::{
    Ask, Attachment, AttachmentContent, Effect, FetchResult, JsonMap, OutputText, ToolOutput, ToolResult, json_map,
};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, blocking};
use toolgate_web::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT,
};
use toolgate_web::html;
use toolgate_web::{Network, Reply, Request, RequestError, Url};

const NAME: &str = "webfetch";

/// Bytes of the largest body, decompressed.
const MOST_BYTES: usize = 5 << 20;
const TOO_LARGE: &str = "Response too large (exceeds 5MB limit)";
const TIMED_OUT: &str = "Request timed out";

/// Seconds that an exchange may take unless the call says otherwise, and at most.
const DEFAULT_SECONDS: f64 = 30.0;
const MOST_SECONDS: f64 = 120.0;

const MAX_REDIRECTS: usize = 10;

/// Servers treat those well that look like what most people use.
const BROWSER: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36";
/// What those want to see that take a browser without its scripts for a robot.
const HONEST: &str = "opencode";

/// How bodies may be compressed, in the order that the specification fixes: the client undoes all of them.
const ENCODINGS: &str = "gzip, deflate, br, zstd";

/// Pictures that models cannot look at.
const NO_PICTURES: [&str; 2] = ["image/svg+xml", "image/vnd.fastbidsheet"];

/// The tool.
#[derive(Clone)]
pub struct WebFetch {
    network: Network,
}

/// What a successful request brought.
struct Page {
    /// The status of the answer.
    status: u16,
    /// The header as it came; empty for none.
    content_type: String,
    body: Bytes,
    /// Where redirects led.
    hops: Vec<Url>,
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The address to fetch; it begins with http:// or https://
    pub url: String,
    /// What to make of a web page: markdown, text, or html for the markup itself
    #[serde(default)]
    pub format: Format,
    /// Seconds that it may take, at most 120; 30 if you leave it out
    pub timeout: Option<f64>,
}

/// What becomes of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // a text for each would make the schema's list of words a list of schemas
pub enum Format {
    Text,
    #[default]
    Markdown,
    Html,
}

impl Format {
    fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markdown => "markdown",
            Self::Html => "html",
        }
    }

    /// Returns what a server is told of what is wanted.
    fn accept(self) -> &'static str {
        match self {
            Self::Text => "text/plain;q=1.0, text/markdown;q=0.9, text/html;q=0.8, */*;q=0.1",
            Self::Markdown => {
                "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, text/html;q=0.7, */*;q=0.1"
            }
            Self::Html => {
                "text/html;q=1.0, application/xhtml+xml;q=0.9, text/plain;q=0.8, text/markdown;q=0.7, */*;q=0.1"
            }
        }
    }
}

impl WebFetch {
    /// Makes the tool.
    pub fn new(network: Network) -> Self {
        Self { network }
    }

    async fn fetch(&self, url: &Url, format: Format, deadline: Instant, ctx: &ToolContext) -> Result<Page, ToolError> {
        let mut walk = Walk {
            network: &self.network,
            ctx,
            deadline,
            hops: Vec::new(),
        };
        let mut reply = walk.ask(url, format, BROWSER).await?;
        if is_challenge(&reply) {
            reply = walk.ask(url, format, HONEST).await?;
        }
        if !reply.is_success() {
            let status = reply.status();
            return Err(ToolError::Failed(format!("Request failed with status code: {status}")));
        }
        let content_type = reply
            .headers()
            .get(CONTENT_TYPE)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        Ok(Page {
            status: reply.status(),
            content_type: content_type.unwrap_or_default(),
            body: reply.body(MOST_BYTES).await.map_err(|error| failed(url, &error))?,
            hops: walk.hops,
        })
    }
}

/// One URL and where redirects lead from there.
struct Walk<'a> {
    network: &'a Network,
    ctx: &'a ToolContext,
    deadline: Instant,
    hops: Vec<Url>,
}

impl Walk<'_> {
    async fn ask(&mut self, url: &Url, format: Format, agent: &'static str) -> Result<Reply, ToolError> {
        self.hops.clear();
        let mut at = url.clone();
        loop {
            check_rules(self.ctx, &at).await?;
            let request = Request {
                url: at.clone(),
                headers: headers(format, agent),
                body: None,
                deadline: self.deadline,
            };
            let reply = self
                .network
                .request(request)
                .await
                .map_err(|error| failed(&at, &error))?;
            let Some(next) = reply.redirect().map_err(|error| failed(&at, &error))? else {
                return Ok(reply);
            };
            if self.hops.len() == MAX_REDIRECTS {
                let text = format!("Cannot fetch {url}: it redirects more than {MAX_REDIRECTS} times, last to {next}");
                return Err(ToolError::Failed(text));
            }
            self.hops.push(next.clone());
            at = next;
        }
    }
}

/// Refuses what a rule denies. The person was asked about the URL as the model wrote it; this is what it means, or where a
/// redirect leads. Nobody is asked again.
async fn check_rules(ctx: &ToolContext, url: &Url) -> Result<(), ToolError> {
    if ctx.permission.denies(NAME, url.as_str()) {
        ctx.permission
            .ask(Ask {
                title: url.to_string(),
                ..Ask::new(NAME, vec![url.to_string()])
            })
            .await?;
    }
    Ok(())
}

fn headers(format: Format, agent: &'static str) -> HeaderMap {
    HeaderMap::from_iter([
        (USER_AGENT, HeaderValue::from_static(agent)),
        (ACCEPT, HeaderValue::from_static(format.accept())),
        (ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS)),
        (ACCEPT_LANGUAGE, HeaderValue::from_static("en-US,en;q=0.9")),
    ])
}

/// Says whether a server wants to see a browser at work.
fn is_challenge(reply: &Reply) -> bool {
    reply.status() == 403
        && reply
            .headers()
            .get("cf-mitigated")
            .is_some_and(|value| value == "challenge")
}

fn failed(url: &Url, error: &RequestError) -> ToolError {
    ToolError::Failed(match error {
        RequestError::TimedOut => TIMED_OUT.to_owned(),
        RequestError::TooLarge { .. } => TOO_LARGE.to_owned(),
        RequestError::Scheme
        | RequestError::Credentials
        | RequestError::Port(_)
        | RequestError::Refused { .. }
        | RequestError::Client(_)
        | RequestError::Unreachable { .. }
        | RequestError::Broken { .. }
        | RequestError::BadRedirect { .. } => format!("Cannot fetch {}: {error}", without_login(url)),
    })
}

/// Returns a URL without what logs in.
fn without_login(url: &Url) -> Url {
    let mut url = url.clone();
    // Neither fails for a URL with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// Returns how long the exchange may take. No time at all is what a model gets that asks for less than nothing.
fn limit(timeout: Option<f64>) -> Duration {
    Duration::from_secs_f64(timeout.unwrap_or(DEFAULT_SECONDS).clamp(0.0, MOST_SECONDS))
}

#[async_trait]
impl TypedTool for WebFetch {
    type Input = Input;

    const ABOUT: About = About {
        name: NAME,
        effects: &[Effect::Network],
        permissions: &[NAME],
        advertised: true,
        properties: Properties::RESUMABLE,
        example: r#"{"url": "https://example.com/", "format": "markdown"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("webfetch.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["url"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if !input.url.starts_with("http://") && !input.url.starts_with("https://") {
            return Err(ToolError::failed("URL must start with http:// or https://"));
        }
        let url = Url::parse(&input.url);
        ctx.permission
            .ask(Ask {
                always: vec!["*".to_owned()],
                title: match &url {
                    Ok(url) => format!("Fetch {}", without_login(url)),
                    // The pattern shows it as it is; where a login would stand in it nobody can say.
                    Err(_) => "Fetch what is not a URL".to_owned(),
                },
                metadata: metadata(&input),
                ..Ask::new(NAME, vec![input.url.clone()])
            })
            .await?;
        let url = url.map_err(|error| ToolError::Failed(format!("{:?} is not a URL: {error}", input.url)))?;
        let limit = limit(input.timeout);
        if limit.is_zero() {
            return Err(ToolError::failed(TIMED_OUT));
        }
        let deadline = Instant::now() + limit;
        let fetch = self.fetch(&url, input.format, deadline, ctx);
        let page = ctx
            .cancelled
            .run_until_cancelled(fetch)
            .await
            .ok_or(ToolError::Cancelled)??;
        let title = format!("{} ({})", input.url, page.content_type);
        let result = FetchResult {
            url: without_login(page.hops.last().unwrap_or(&url)).to_string(),
            status: page.status,
            media_type: page.content_type.clone(),
            bytes: page.body.len() as u64,
        };
        let result = Some(ToolResult::Fetch(result));
        if let Some(mime) = picture(&page.content_type) {
            return Ok(ToolOutput {
                result,
                ..attached(title, mime, &page)
            });
        }
        let text = blocking(move || text(&page, input.format)).await?;
        Ok(ToolOutput {
            title,
            output: OutputText::Text(text),
            result,
            ..ToolOutput::default()
        })
    }
}

fn metadata(input: &Input) -> JsonMap {
    let mut metadata = json_map([("url", json!(input.url)), ("format", json!(input.format.as_str()))]);
    if let Some(timeout) = input.timeout {
        metadata.insert("timeout".to_owned(), json!(timeout));
    }
    metadata
}

/// Returns the media type of a picture that a model can look at.
fn picture(content_type: &str) -> Option<String> {
    let mime = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    (mime.starts_with("image/") && !NO_PICTURES.contains(&mime.as_str())).then_some(mime)
}

fn attached(title: String, mime: String, page: &Page) -> ToolOutput {
    ToolOutput {
        title,
        output: OutputText::Text("Image fetched successfully".to_owned()),
        attachments: vec![Attachment {
            id: format!("att_{}", uuid::Uuid::now_v7().simple()),
            mime,
            filename: None,
            content: AttachmentContent::Bytes(page.body.clone()),
        }],
        ..ToolOutput::default()
    }
}

/// Returns what the model reads of a page.
fn text(page: &Page, format: Format) -> String {
    let text = charset::decode(&page.content_type, &page.body);
    if !page.content_type.contains("text/html") {
        return text;
    }
    match format {
        Format::Markdown => html::to_markdown(&text),
        Format::Text => html::to_text(&text),
        Format::Html => text,
    }
}

#[cfg(test)]
mod tests;
