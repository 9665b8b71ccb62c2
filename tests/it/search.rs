//! `websearch` and `codesearch` against a search service of the tests: what it is asked, what it cannot do, and that the
//! key is shown to nobody.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use toolgate_contract::*;

use crate::support::*;

const KEY: &str = "key+of/the-tests";
/// The key as it stands in a URL.
const WRITTEN: &str = "key%2Bof%2Fthe-tests";

type Handler = Arc<dyn Fn(BufReader<TcpStream>, Asked) -> BoxFuture<'static, io::Result<()>> + Send + Sync>;

/// What the service was asked.
#[derive(Clone, Debug)]
struct Asked {
    /// The first line.
    target: String,
    body: Value,
}

/// A search service that is there until it is dropped.
struct Exa {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    _serving: JoinSet<()>,
}

impl Exa {
    /// Answers every question with these bytes and closes the connection.
    async fn answering(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::with(move |mut stream, _| {
            let answer = answer.clone();
            async move {
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await
            }
        })
        .await
    }

    /// Does as the test says with each question.
    async fn with<F>(handle: impl Fn(BufReader<TcpStream>, Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let handle: Handler = Arc::new(move |stream, asked| handle(stream, asked).boxed());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, handle, Arc::clone(&asked)));
        Self {
            port,
            asked,
            _serving: serving,
        }
    }

    fn setup(&self) -> Setup {
        Setup::default()
            .env("OPENCODE_ENABLE_EXA", "1")
            .env("EXA_API_KEY", KEY)
            .env(
                "TOOLGATE_SEARCH_ENDPOINT",
                &format!("http://127.0.0.1:{}/mcp?a=b", self.port),
            )
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(listener: TcpListener, handle: Handler, asked: Arc<Mutex<Vec<Asked>>>) {
    let mut open = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (handle, asked) = (Arc::clone(&handle), Arc::clone(&asked));
        open.spawn(async move {
            let mut stream = BufReader::new(stream);
            if let Some(question) = question(&mut stream).await {
                asked.lock().unwrap().push(question.clone());
                // A client that goes away has seen what it wanted.
                drop(handle(stream, question).await);
            }
        });
    }
}

async fn question(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let (mut lines, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let line = line.trim().to_owned();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Asked {
        target: lines.swap_remove(0),
        body: serde_json::from_slice(&body).unwrap(),
    })
}

fn response(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn event(text: &str) -> String {
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
    format!("event: message\ndata: {answer}\n\n")
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

async fn search(server: &Server) -> Call {
    server.run("websearch", json!({"query": "what"})).await
}

#[test]
fn a_question_is_one_request_and_its_answer_the_first_text() {
    test(async {
        let exa = Exa::answering(response("200 OK", "text/event-stream", &event("found"))).await;
        let server = Server::with(exa.setup()).await;
        let call = search(&server).await;
        assert_eq!(
            (completed(&call).output.as_str(), completed(&call).title.as_str()),
            ("found", "Web search: what")
        );
        let call = server
            .run("codesearch", json!({"query": "how", "tokensNum": 2000}))
            .await;
        assert_eq!(
            (completed(&call).output.as_str(), completed(&call).title.as_str()),
            ("found", "Code search: how")
        );
        let bodies = exa
            .asked()
            .into_iter()
            .map(|asked| asked.body["params"].clone())
            .collect::<Vec<_>>();
        let web = json!({"query": "what", "type": "auto", "numResults": 8, "livecrawl": "fallback"});
        assert_eq!(
            bodies,
            [
                json!({"name": "web_search_exa", "arguments": web}),
                json!({"name": "get_code_context_exa", "arguments": {"query": "how", "tokensNum": 2000}}),
            ]
        );
        for asked in exa.asked() {
            assert_eq!(asked.target, format!("POST /mcp?a=b&exaApiKey={WRITTEN} HTTP/1.1"));
        }
        let wrong = server
            .run("codesearch", json!({"query": "how", "tokensNum": 999}))
            .await;
        assert_eq!(failed(&wrong).reason(), FailureReason::InvalidArguments);
        let none = server.run("websearch", json!({"query": "what", "numResults": 0})).await;
        assert_eq!(completed(&none).output, "found");
        assert_eq!(exa.asked()[2].body["params"]["arguments"]["numResults"], 8);
    });
}

#[test]
fn a_document_is_an_answer_too() {
    test(async {
        let document = json!({"result": {"content": [{"type": "text", "text": "found"}]}, "jsonrpc": "2.0", "id": 1});
        let exa = Exa::answering(response("200 OK", "application/json", &format!("{document:#}\n"))).await;
        let server = Server::with(exa.setup()).await;
        assert_eq!(completed(&search(&server).await).output, "found");
    });
}

#[test]
fn what_goes_wrong_is_said_without_the_key() {
    test(async {
        let echo = format!("no: {KEY} at ?exaApiKey={WRITTEN}");
        let hidden = "no: [redacted] at ?exaApiKey=[redacted]";
        let refusal = format!("data: {}\n\n", json!({"error": {"code": -32000, "message": echo}}));
        let of_status = format!("Search error (500): {hidden}");
        let large = format!("{STREAM}data: {}", "x".repeat(6 << 20));
        for (answer, expected) in [
            (
                response("429 Too Many", "text/plain", "slow down\n"),
                "Search error (429): slow down",
            ),
            (response("500 Oops", "text/plain", &echo), of_status.as_str()),
            (
                response("302 Found\r\nLocation: http://127.0.0.1:9/x", "text/plain", ""),
                "Search error (302): ",
            ),
            (
                response("200 OK", "text/event-stream", "data: {oops\n\n"),
                "Search error: the answer of the service cannot be read",
            ),
            (large, "Search error: the answer has more than 5242880 bytes"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort".to_owned(),
                "Search error: the answer of 127.0.0.1 broke off",
            ),
            (
                "nonsense\r\n\r\n".to_owned(),
                "Search error: 127.0.0.1 cannot be reached",
            ),
        ] {
            let exa = Exa::answering(answer).await;
            let server = Server::with(exa.setup().env("TOOLGATE_LOG_FILTER", "trace")).await;
            let call = search(&server).await;
            let error = &failed(&call).error;
            assert!(error.starts_with(expected), "{error} instead of {expected}");
            assert_eq!(failed(&call).reason(), FailureReason::ToolError, "{call:?}");
            assert_hidden(&server, &call).await;
        }
        for (answer, expected) in [
            (event(&echo), hidden),
            (refusal, "No search results found. Please try a different query."),
        ] {
            let exa = Exa::answering(response("200 OK", "text/event-stream", &answer)).await;
            let server = Server::with(exa.setup().env("TOOLGATE_LOG_FILTER", "trace")).await;
            let call = search(&server).await;
            assert_eq!(completed(&call).output, expected);
            assert_hidden(&server, &call).await;
            // What the service says instead of an answer is for the operator.
            assert_eq!(server.log().contains("no: [redacted]"), answer.contains("error"));
        }
        let exa = Exa::answering(String::new()).await;
        let gone = exa.setup();
        drop(exa);
        let server = Server::with(gone).await;
        let call = search(&server).await;
        assert!(
            failed(&call)
                .error
                .starts_with("Search error: 127.0.0.1 cannot be reached"),
            "{call:?}"
        );
        assert_hidden(&server, &call).await;
    });
}

/// Checks that neither the record and the events of a call nor the log has the key.
async fn assert_hidden(server: &Server, call: &Call) {
    let events = server.watch(&call.call_id, 0).await.unwrap();
    let shown = format!("{call:?}{events:?}{}", server.log());
    for secret in [KEY, WRITTEN] {
        assert!(!shown.contains(secret), "{secret} is in {shown}");
    }
}

#[test]
fn a_stream_that_stays_open_holds_up_nobody() {
    test(async {
        let exa = Exa::with(|mut stream, _| async move {
            stream
                .write_all(format!("{STREAM}: hello\n\n{}", event("found")).as_bytes())
                .await?;
            // Until the client closes the connection.
            stream.read_to_end(&mut Vec::new()).await.map(drop)
        })
        .await;
        let server = Server::with(exa.setup()).await;
        let start = Instant::now();
        assert_eq!(completed(&search(&server).await).output, "found");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    });
}

#[test]
fn a_cancelled_search_ends_at_once() {
    test(async {
        let closed = Arc::new(Semaphore::new(0));
        let seen = Arc::clone(&closed);
        let exa = Exa::with(move |mut stream, _| {
            let seen = Arc::clone(&seen);
            async move {
                // Events without an end, none of which is an answer.
                stream.write_all(STREAM.as_bytes()).await?;
                let (mut reading, mut writing) = tokio::io::split(stream);
                let mut end = [0; 1];
                loop {
                    tokio::select! {
                        _ = reading.read(&mut end) => break,
                        written = writing.write_all(b"data: {\"jsonrpc\": \"2.0\"}\n\n") => if written.is_err() { break },
                    }
                    tokio::task::yield_now().await;
                }
                seen.add_permits(1);
                Ok(())
            }
        })
        .await;
        let server = Server::with(exa.setup()).await;
        let searching = kept("c", request("codesearch", json!({"query": "q"})));
        let stream = server.tools().execute_tool(searching).await.unwrap().into_inner();
        eventually("the service is asked", async || exa.asked().len() == 1).await;
        let call = server.cancel("c").await;
        assert_eq!(failed(&call).reason(), FailureReason::Cancelled);
        let _permit = timeout(Duration::from_secs(20), closed.acquire())
            .await
            .expect("the connection is closed");
        collect(stream).await.unwrap();
    });
}

#[test]
fn a_person_sees_what_is_asked_for() {
    test(async {
        let exa = Exa::answering(response("200 OK", "text/event-stream", &event("found"))).await;
        let setup = Setup {
            config: Some(json!({"permission": {"websearch": "ask"}})),
            ..exa.setup()
        };
        let server = Server::with(setup).await;
        let input = json!({"query": "what", "numResults": 3, "type": "deep"});
        let searching = kept("c", request("websearch", input));
        let mut stream = server.tools().execute_tool(searching).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        let Some(prompt::Request::Permission(permission)) = &prompt.request else {
            panic!("{prompt:?}");
        };
        assert_eq!(
            (permission.patterns.clone(), permission.always.clone()),
            (vec!["what".to_owned()], vec!["*".to_owned()])
        );
        let metadata = json_of(permission.metadata.as_ref().unwrap());
        assert_eq!(metadata["query"], "what");
        assert_eq!(metadata["type"], "deep");
        assert!(metadata.get("livecrawl").is_none(), "{metadata}");
        assert!(exa.asked().is_empty(), "nothing is sent before the answer");
    });
}

#[test]
fn models_are_told_of_the_tools_by_provider_or_switch() {
    test(async {
        let offered = async |server: &Server, provider: &str| -> Vec<String> {
            let request = ListToolsRequest {
                model: Some(ModelRef {
                    provider_id: provider.to_owned(),
                    model_id: "m".to_owned(),
                    ..ModelRef::default()
                }),
                ..ListToolsRequest::default()
            };
            let tools = server.tools().list_tools(request).await.unwrap().into_inner().tools;
            let today = tools
                .iter()
                .find(|tool| tool.name == "websearch")
                .map(|tool| tool.description.clone());
            if let Some(description) = today {
                let date = regex::Regex::new(r"Today is 20\d\d-\d\d-\d\d\.").unwrap();
                assert!(date.is_match(&description), "{description}");
            }
            let names = tools.into_iter().map(|tool| tool.name);
            names.filter(|name| name.ends_with("search")).collect()
        };
        let server = Server::start().await;
        assert_eq!(offered(&server, "other").await, Vec::<String>::new());
        assert_eq!(offered(&server, "opencode").await, ["websearch", "codesearch"]);
        for (switch, value) in [("OPENCODE_EXPERIMENTAL_EXA", "TRUE"), ("OPENCODE_EXPERIMENTAL", "1")] {
            let server = Server::with(Setup::default().env(switch, value)).await;
            assert_eq!(offered(&server, "other").await, ["websearch", "codesearch"], "{switch}");
        }
        let server = Server::with(Setup::default().env("OPENCODE_ENABLE_EXA", "yes")).await;
        assert_eq!(offered(&server, "other").await, Vec::<String>::new());
    });
}
