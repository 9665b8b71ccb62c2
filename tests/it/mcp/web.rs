//! Servers of HTTP that answer as a test says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// What it is of MCP.
    pub(super) fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// A value of the form that it holds.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let url = reqwest::Url::parse(&format!("http://form/?{}", self.body)).unwrap();
        let pair = url.query_pairs().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.into_owned())
    }
}

/// An answer.
pub(super) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    start: String,
    /// Sent so many times after the start, and never if that is too much to take.
    rest: (Vec<u8>, usize),
    hangs: bool,
}

impl Reply {
    pub(super) fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            start: String::new(),
            rest: (Vec::new(), 0),
            hangs: false,
        }
    }

    pub(super) fn json(body: &Value) -> Self {
        Self::status(200).text("application/json", body.to_string())
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn text(mut self, kind: &str, body: impl Into<String>) -> Self {
        self.start = body.into();
        self.header("content-type", kind)
    }

    pub(super) fn then(mut self, chunk: &str, times: usize) -> Self {
        self.rest = (chunk.as_bytes().to_vec(), times);
        self
    }

    /// Does not end.
    pub(super) fn hanging(mut self) -> Self {
        self.hangs = true;
        self
    }

    async fn write(self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(self.start.as_bytes()).await?;
        for _ in 0..self.rest.1 {
            stream.write_all(&self.rest.0).await?;
        }
        if self.hangs {
            // Until the client goes.
            let _ = stream.read(&mut [0]).await;
        }
        stream.shutdown().await
    }
}

/// A running server.
pub(super) struct Web {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
    /// Ends with it.
    _tasks: JoinSet<()>,
}

impl Web {
    pub(super) async fn start(handle: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", handle).await
    }

    pub(super) async fn at(address: &str, handle: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (handle, log, mut tasks) = (Arc::new(handle), seen.clone(), JoinSet::new());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (handle, log) = (handle.clone(), log.clone());
                connections.spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read(&mut stream).await else { return };
                    log.lock().unwrap().push(request.clone());
                    let reply = handle(&request);
                    // The client may be gone.
                    let _ = reply.write(stream.get_mut()).await;
                });
            }
        });
        Self {
            address,
            seen,
            _tasks: tasks,
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far for a path.
    pub(super) fn seen(&self, path: &str) -> Vec<Request> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|request| request.path == path).cloned().collect()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.first()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers = lines[1..].iter().filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    let headers: HashMap<String, String> = headers.collect();
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        method,
        path,
        headers,
        body: String::from_utf8(body).unwrap(),
    })
}

/// Answers as a server of MCP with the tool `work`; `call` makes the answer to a call from the request and its message.
pub(super) fn mcp(request: &Request, call: impl FnOnce(&Value) -> Reply) -> Reply {
    let message = request.message();
    match message["method"].as_str() {
        Some("initialize") => result(
            &message,
            &json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "own", "version": "1"},
            }),
        ),
        Some("tools/list") => listed(&message, &["work"]),
        Some("tools/call") => call(&message),
        Some(_) => Reply::status(202),
        None => Reply::status(405),
    }
}

pub(super) fn listed(message: &Value, names: &[&str]) -> Reply {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    let tools: Vec<Value> = names.iter().map(tool).collect();
    result(message, &json!({ "tools": tools }))
}

pub(super) fn result(message: &Value, result: &Value) -> Reply {
    Reply::json(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

pub(super) fn fine(message: &Value) -> Reply {
    result(message, &json!({"content": [{"type": "text", "text": "fine"}]}))
}
