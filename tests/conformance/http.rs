//! The web server of a case: answers what the case says, and keeps what was asked.
//!
//! *Invariant:* invents no header but the length, and listens on this machine only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::case::Pairs;
use crate::vars::Vars;

/// Bytes of the largest body that is taken.
const MOST_BYTES: usize = 16 << 20;

/// One answer.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Response {
    #[serde(default = "success")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_base64: Option<String>,
    body_repeat: Option<Repeated>,
    body_lines: Option<Lines>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    chunked: bool,
}

fn success() -> u16 {
    200
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeated {
    text: String,
    times: usize,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    prefix: String,
    from: u64,
    to: u64,
}

impl Response {
    fn missing() -> Self {
        Self {
            status: 404,
            headers: BTreeMap::new(),
            body: None,
            body_base64: None,
            body_repeat: None,
            body_lines: None,
            delay_ms: 0,
            chunked: false,
        }
    }

    fn body(&self) -> Result<Vec<u8>> {
        if let Some(text) = &self.body {
            return Ok(text.clone().into_bytes());
        }
        if let Some(text) = &self.body_base64 {
            return base64::engine::general_purpose::STANDARD
                .decode(text)
                .context("the body of a response");
        }
        if let Some(Repeated { text, times }) = &self.body_repeat {
            return Ok(text.repeat(*times).into_bytes());
        }
        let line = |Lines { prefix, from, to }: &Lines| {
            let lines = (*from..=*to).map(|number| format!("{prefix}{number}"));
            lines.collect::<Vec<_>>().join("\n")
        };
        Ok(self.body_lines.as_ref().map(line).unwrap_or_default().into_bytes())
    }

    fn head(&self, length: usize) -> String {
        let mut head = format!("HTTP/1.1 {} Case\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.chunked {
            true => head.push_str("Transfer-Encoding: chunked\r\n\r\n"),
            false => head.push_str(&format!("Content-Length: {length}\r\n\r\n")),
        }
        head
    }
}

/// A request that has reached the server.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    /// By their names in lower case.
    pub(crate) headers: Map<String, Value>,
    /// What the body is as JSON, if it is that.
    pub(crate) json: Option<Value>,
}

/// The answers of each path that are still to come, and what was asked so far. The last answer of a path stays.
struct Site {
    answers: Mutex<BTreeMap<String, Vec<Response>>>,
    reached: Mutex<Vec<Reached>>,
}

/// A server that answers until it is dropped.
pub(crate) struct Http {
    address: String,
    site: Arc<Site>,
    _serving: JoinSet<()>,
}

impl Http {
    /// Begins to serve what a case says.
    pub(crate) async fn start(paths: &Map<String, Value>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("the case's web server")?;
        let address = format!("http://{}", listener.local_addr()?);
        let mut vars = Vars::default();
        vars.set("http", address.clone());
        let mut answers = BTreeMap::new();
        for (path, written) in vars.object(paths) {
            let written = match written {
                Value::Array(several) => several,
                one @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                    vec![one]
                }
            };
            let read = written.into_iter().rev().map(serde_json::from_value);
            let read: Vec<Response> = read.collect::<Result<_, _>>().with_context(|| format!("http {path}"))?;
            answers.insert(path, read);
        }
        let site = Arc::new(Site {
            answers: Mutex::new(answers),
            reached: Mutex::default(),
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&site)));
        Ok(Self {
            address,
            site,
            _serving: serving,
        })
    }

    /// Returns the address, without a slash at the end.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns what has been asked so far, in order.
    pub(crate) fn reached(&self) -> Vec<Reached> {
        self.site.reached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, site: Arc<Site>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let site = Arc::clone(&site);
        // A client that goes away has seen what it wanted.
        connections.spawn(async move { drop(answer(stream, &site).await) });
        while connections.try_join_next().is_some() {}
    }
}

impl Site {
    /// Notes a request, and returns what is answered to it.
    fn reach(&self, request: Reached) -> Response {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let response = match answers.get_mut(&request.path).map(|left| (left.len(), left)) {
            Some((2.., left)) => left.pop(),
            Some((_, left)) => left.last().cloned(),
            None => None,
        };
        self.reached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request);
        response.unwrap_or_else(Response::missing)
    }
}

async fn answer(stream: TcpStream, site: &Site) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let request = read(&mut stream).await?;
    let response = site.reach(request);
    let body = response.body()?;
    tokio::time::sleep(Duration::from_millis(response.delay_ms)).await;
    stream.write_all(response.head(body.len()).as_bytes()).await?;
    if response.chunked {
        for chunk in body.chunks(8192) {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
            stream.write_all(chunk).await?;
            stream.write_all(b"\r\n").await?;
        }
        stream.write_all(b"0\r\n\r\n").await?;
    } else {
        stream.write_all(&body).await?;
    }
    Ok(stream.shutdown().await?)
}

async fn read(stream: &mut BufReader<TcpStream>) -> Result<Reached> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut words = line.split_whitespace();
    let method = words.next().context("a request without a method")?.to_owned();
    let target = words.next().context("a request without a path")?;
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let mut headers = Map::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().into());
    }
    let length = headers.get("content-length").and_then(Value::as_str);
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length.min(MOST_BYTES)];
    stream.read_exact(&mut body).await?;
    Ok(Reached {
        method,
        path,
        headers,
        json: serde_json::from_slice(&body).ok(),
    })
}

/// What a request must have been; what is absent is not checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedRequest {
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) headers: Pairs<crate::matcher::Matcher>,
    #[serde(default)]
    pub(crate) json: Pairs<crate::matcher::Matcher>,
}
