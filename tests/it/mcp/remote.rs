//! Servers that are reached by HTTP: a real one of either kind, and one of our own that wants a login.

use std::fs;
use std::net::TcpListener as StdListener;
use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::*;

/// Starts `server-everything` on a free port.
async fn everything(kind: &str) -> (Child, u16) {
    let port = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new("node")
        .arg(npm("server-everything"))
        .arg(kind)
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually("the server listens", async || {
        TcpStream::connect(("127.0.0.1", port)).await.is_ok()
    })
    .await;
    (child, port)
}

async fn works_over(kind: &str, path: &str) {
    let (mut child, port) = everything(kind).await;
    let url = format!("http://127.0.0.1:{port}{path}");
    let mut server = service(&[("e", json!({"type": "remote", "url": url}))]).await;
    ready(&server, "e").await;
    let echo = server.run("e_echo", json!({"message": "hello"})).await;
    assert_eq!(completed(&echo).output, "Echo: hello");
    let long = json!({"duration": 2, "steps": 2});
    let events = server
        .execute(request("e_trigger-long-running-operation", long))
        .await
        .unwrap();
    assert!(matches!(end_of(&events), call::Ending::Completed(_)), "{events:?}");
    let wrong = server.run("e_echo", json!({"message": 1, "other": 2})).await;
    assert_eq!(failed(&wrong).reason(), FailureReason::InvalidArguments);

    // The loss of the server is a failure of its calls, and noticed.
    child.kill().await.unwrap();
    let echo = server.run("e_echo", json!({"message": "hello"})).await;
    assert!(
        matches!(echo.ending, Some(call::Ending::Failed(_))) || echo.tool == "invalid",
        "{echo:?}"
    );
    server.stop().await;
}

#[test]
fn a_real_server_works_over_streamable_http() {
    test(works_over("streamableHttp", "/mcp"));
}

#[test]
fn a_real_server_works_over_the_first_kind_of_http() {
    test(works_over("sse", "/sse"));
}

/// A server that answers with JSON texts and wants `Authorization: <wanted>`.
async fn serve(listener: TcpListener, wanted: &'static str, challenge: &'static str) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(async move {
            let mut stream = BufReader::new(stream);
            while answer(&mut stream, wanted, challenge).await.is_some() {}
        });
    }
}

async fn answer(stream: &mut BufReader<TcpStream>, wanted: &str, challenge: &str) -> Option<()> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        stream.read_line(&mut head).await.ok().filter(|read| *read > 0)?;
        let line = head[start..].trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let is_allowed = head
        .lines()
        .any(|line| line.eq_ignore_ascii_case(&format!("authorization: {wanted}")));
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, body) = match request["method"].as_str() {
        _ if !is_allowed => (format!("401 Unauthorized{challenge}"), Value::Null),
        None => ("405 Method Not Allowed".to_owned(), Value::Null),
        Some("initialize") => {
            let version = &request["params"]["protocolVersion"];
            let info = json!({"name": "own", "version": "1"});
            (
                "200 OK".to_owned(),
                json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}),
            )
        }
        Some("tools/list") => (
            "200 OK".to_owned(),
            json!({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}),
        ),
        Some("tools/call") => (
            "200 OK".to_owned(),
            json!({"content": [{"type": "text", "text": "fine"}]}),
        ),
        Some(_) => ("202 Accepted".to_owned(), Value::Null),
    };
    let body = if body.is_null() {
        String::new()
    } else {
        json!({"jsonrpc": "2.0", "id": request["id"], "result": body}).to_string()
    };
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.get_mut().write_all(answer.as_bytes()).await.ok()
}

const CHALLENGE: &str = "\r\nWWW-Authenticate: Bearer";

#[test]
fn a_server_that_wants_a_login_says_so() {
    test(async {
        for challenge in [CHALLENGE, ""] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let mut own = JoinSet::new();
            own.spawn(serve(listener, "Bearer good", challenge));
            let server = service(&[
                ("without", json!({"type": "remote", "url": url})),
                (
                    "wrong",
                    json!({"type": "remote", "url": url, "headers": {"Authorization": "Bearer bad"}}),
                ),
                (
                    "right",
                    json!({"type": "remote", "url": url, "headers": {"Authorization": "Bearer good"}}),
                ),
            ])
            .await;
            ready(&server, "right").await;
            assert_eq!(completed(&server.run("right_work", json!({})).await).output, "fine");
            for name in ["without", "wrong"] {
                eventually(name, async || {
                    source(&server, name).await.0 == ToolSourceState::NeedsAuth
                })
                .await;
                assert!(source(&server, name).await.1.contains("opencode mcp auth"));
            }
        }
    });
}

#[test]
fn a_login_that_opencode_has_stored_is_used() {
    test(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let mut own = JoinSet::new();
        own.spawn(serve(listener, "Bearer good", CHALLENGE));
        let mut server = service(&[
            ("s", json!({"type": "remote", "url": url})),
            ("off", json!({"type": "remote", "url": url, "oauth": false})),
        ])
        .await;
        eventually("a login is missing", async || {
            source(&server, "s").await.0 == ToolSourceState::NeedsAuth
        })
        .await;
        server.stop().await;
        let folder = server.folder().join("home/.local/share/opencode");
        fs::create_dir_all(&folder).unwrap();
        let login = json!({"serverUrl": url, "tokens": {"accessToken": "good"}});
        fs::write(
            folder.join("mcp-auth.json"),
            json!({"s": login, "off": login}).to_string(),
        )
        .unwrap();
        server.restart().await;
        ready(&server, "s").await;
        assert_eq!(completed(&server.run("s_work", json!({})).await).output, "fine");
        assert_eq!(source(&server, "off").await.0, ToolSourceState::NeedsAuth);
        assert!(!server.log().contains("Bearer good"));
    });
}
