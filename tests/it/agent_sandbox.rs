//! What SDKs of agent-sandbox are served: their two APIs by HTTP and `process.v1` by gRPC, at the real program. The published SDKs
//! themselves are played by `tests/ecosystem/agent-sandbox.sh`.

mod files;
mod process;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use toolgate_contract::*;

use crate::support::*;

/// Everything is allowed but `touch`, about which people are asked, and `forbidden`.
fn setup() -> Setup {
    let rules = json!({"bash": {"*": "allow", "touch *": "ask", "forbidden*": "deny"}, "read": {"*": "allow", "hidden": "deny"}});
    Setup {
        tcp: true,
        ..Setup::permission(rules).env("TOOLGATE_LISTEN_AGENT_SANDBOX", "true")
    }
}

async fn served() -> Server {
    Server::with(setup()).await
}

/// An answer by HTTP/1.1.
struct Answer {
    status: u16,
    /// In lower case.
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Fails unless it is a refusal with such a text.
    fn refuses(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        let message = self.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(text), "{message}");
    }
}

/// Sends a request and returns the answer; `headers` are lines with their ends.
async fn ask(server: &Server, line: &str, headers: &str, body: &[u8]) -> Answer {
    let address = server.tcp.as_ref().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request =
        format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut bytes = Vec::new();
    timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes))
        .await
        .expect("an answer")
        .unwrap();
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..split]).to_lowercase();
    let body = &bytes[split + 4..];
    Answer {
        status: head[9..12].parse().unwrap(),
        body: match head.contains("transfer-encoding: chunked") {
            true => of_chunks(body),
            false => body.to_vec(),
        },
        head,
    }
}

/// Puts the chunks of a body together; all of them have to be there.
fn of_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("a length");
        let length = std::str::from_utf8(&rest[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 2 + length + 2..];
    }
}

async fn execute(server: &Server, headers: &str, wanted: Value) -> Answer {
    ask(server, "POST /execute", headers, wanted.to_string().as_bytes()).await
}

/// Returns the calls of `bash`.
async fn commands(server: &Server) -> Vec<Call> {
    let request = ListCallsRequest {
        tools: vec!["bash".to_owned()],
        ..ListCallsRequest::default()
    };
    let calls = server.tools().list_calls(request).await.unwrap();
    calls.into_inner().calls
}

#[test]
fn nothing_is_served_unless_it_is_wanted() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        std::fs::write(server.work().join("a"), "a").unwrap();
        for line in ["GET /download/a", "GET /list/.", "GET /v1/files/a"] {
            assert_eq!(ask(&server, line, "", b"").await.status, 404, "{line}");
        }
        let answer = execute(&server, "", json!({"command": "touch made"})).await;
        assert_ne!(answer.status, 200);
        assert!(!server.work().join("made").exists());
    });
}

#[test]
fn a_command_is_a_call() {
    test(async {
        let server = served().await;
        let sandbox = "X-Sandbox-ID: box-1\r\nX-Sandbox-Namespace: default\r\n";
        let ran = execute(&server, sandbox, json!({"command": "echo out; echo err >&2; exit 3"})).await;
        let expected = json!({"stdout": "out\nerr\n", "stderr": "", "exit_code": 3, "timed_out": false});
        assert_eq!((ran.status, ran.json()), (200, expected));
        let silent = execute(&server, sandbox, json!({"command": "true"})).await;
        assert_eq!(silent.json()["stdout"], "");
        let limited = execute(&server, sandbox, json!({"command": "sleep 60", "timeout_seconds": 0.2})).await;
        assert_eq!(
            (&limited.json()["exit_code"], &limited.json()["timed_out"]),
            (&json!(124), &json!(true))
        );
        execute(&server, "X-Sandbox-ID: box-2\r\n", json!({"command": "true"})).await;
        let calls = commands(&server).await;
        let contexts: Vec<_> = calls.iter().filter_map(|call| call.context.clone()).collect();
        assert!(contexts.iter().all(|context| context.client_kind == "agent-sandbox"));
        let sessions: std::collections::BTreeSet<_> = contexts.iter().map(|context| &context.session_id).collect();
        assert_eq!((calls.len(), sessions.len()), (4, 2), "{sessions:?}");
        for body in [
            "",
            "[]",
            "{}",
            r#"{"command": 1}"#,
            r#"{"command": "true", "timeout_seconds": -1}"#,
        ] {
            assert_eq!(
                ask(&server, "POST /execute", "", body.as_bytes()).await.status,
                400,
                "{body}"
            );
        }
        assert_eq!(ask(&server, "GET /execute", "", b"").await.status, 400);
        server.assert_calm();
    });
}

#[test]
fn a_long_output_is_cut_and_says_so() {
    test(async {
        let server = served().await;
        let ran = execute(
            &server,
            "",
            json!({"command": "head -c 5000000 /dev/zero | tr '\\0' x"}),
        )
        .await;
        let ran = ran.json();
        assert_eq!(ran["exit_code"], 0, "{}", ran["stderr"]);
        let shown = ran["stdout"].as_str().unwrap();
        assert!(shown.len() > 4_000_000 && shown.bytes().all(|byte| byte == b'x'));
        assert!(
            ran["stderr"].as_str().unwrap().contains("5000000 bytes"),
            "{}",
            ran["stderr"]
        );
    });
}

#[test]
fn a_rule_or_a_person_decides() {
    test(async {
        let server = served().await;
        let denied = execute(&server, "", json!({"command": "forbidden"})).await;
        assert_eq!(denied.status, 403, "{}", denied.text());
        let mut approver = Approver::open(server.channel(), "ann").await.unwrap();
        let (ran, ()) = tokio::join!(execute(&server, "", json!({"command": "touch yes"})), async {
            let prompt = approver.added().await;
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        });
        assert_eq!((ran.status, &ran.json()["exit_code"]), (200, &json!(0)));
        assert!(server.work().join("yes").exists());
        let (ran, ()) = tokio::join!(execute(&server, "", json!({"command": "touch no"})), async {
            let prompt = approver.added().await;
            let rejection = PromptReply {
                message: "write a file instead".to_owned(),
                ..reply(&prompt, PromptDecision::Reject)
            };
            assert!(approver.send(rejection).await);
        });
        ran.refuses(403, "write a file instead");
        assert!(!server.work().join("no").exists());
        server.assert_calm();
    });
}

#[test]
fn whoever_hangs_up_is_told_before() {
    test(async {
        let server = served().await;
        let waits = execute(&server, "X-Sandbox-Timeout: 1\r\n", json!({"command": "touch later"})).await;
        // No code for which an SDK sends it again, which would be another call.
        waits.refuses(408, "waits for a person");
        let runs = execute(&server, "X-Sandbox-Timeout: 0.5\r\n", json!({"command": "sleep 300"})).await;
        runs.refuses(408, "deadline");
        eventually("both calls are cancelled", async || {
            let calls = commands(&server).await;
            calls.len() == 2 && calls.iter().all(|call| call.state() == CallState::Failed)
        })
        .await;
        assert!(server.prompts(list_all()).await.is_empty());
    });
}

#[test]
fn what_is_sent_again_runs_once() {
    test(async {
        let server = served().await;
        let wanted = || json!({"command": "touch asked && echo 1 >> counted && cat counted"});
        let first = "X-Request-ID: abc\r\nX-Sandbox-Timeout: 1\r\n";
        let waits = execute(&server, first, wanted()).await;
        waits.refuses(504, "waits for a person");
        let mut approver = Approver::open(server.channel(), "ann").await.unwrap();
        let prompt = match approver.snapshot.pop() {
            Some(prompt) => prompt,
            None => approver.added().await,
        };
        assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        for _ in 0..2 {
            let again = execute(&server, "X-Request-ID: abc\r\nX-Sandbox-Timeout: 30.5\r\n", wanted()).await;
            assert_eq!((again.status, &again.json()["stdout"]), (200, &json!("1\n")));
        }
        assert_eq!(commands(&server).await.len(), 1);
        let other = execute(&server, "X-Request-ID: abc\r\n", json!({"command": "echo other"})).await;
        assert_eq!(other.json()["stdout"], "other\n");
    });
}

#[test]
fn callers_say_who_they_are() {
    test(async {
        let tokens = "sdk sdk-sdk-sdk-sdk-sdk calls.execute\nfiles files-files-files-files files.read\n";
        let setup = Setup {
            files: vec![("tokens", tokens.to_owned())],
            ..setup().env("TOOLGATE_AUTH_TOKENS_FILE", "tokens")
        };
        let server = Server::with(setup).await;
        let wanted = || json!({"command": "echo hello"});
        let nobody = execute(&server, "", wanted()).await;
        nobody.refuses(401, "authenticate");
        assert!(nobody.head.contains("www-authenticate: bearer"), "{}", nobody.head);
        let sdk = "Authorization: Bearer sdk-sdk-sdk-sdk-sdk\r\n";
        let files = "Authorization: Bearer files-files-files-files\r\n";
        assert_eq!(execute(&server, sdk, wanted()).await.json()["stdout"], "hello\n");
        execute(&server, files, wanted()).await.refuses(403, "calls.execute");
        ask(&server, "GET /list/.", sdk, b"").await.refuses(403, "files.read");
        assert_eq!(ask(&server, "GET /list/.", files, b"").await.json(), json!([]));
        ask(&server, "PUT /v1/files/a", files, b"x")
            .await
            .refuses(403, "files.write");
        // A page that a browser shows may not call, whoever asks it to.
        let page = format!("{sdk}Origin: http://page.example\r\n");
        assert_eq!(execute(&server, &page, wanted()).await.status, 403);
        let elsewhere = format!("{sdk}toolgate-workspace: other\r\n");
        execute(&server, &elsewhere, wanted()).await.refuses(404, "other");
    });
}
