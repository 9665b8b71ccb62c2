//! Real servers that are reached by HTTP, of either kind; they go, and come back.

use std::net::TcpListener as StdListener;
use std::process::Stdio;

use serde_json::json;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::*;

/// Starts `server-everything` on a free port.
async fn everything(kind: &str) -> (Child, u16) {
    let port = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    (everything_at(kind, port).await, port)
}

async fn everything_at(kind: &str, port: u16) -> Child {
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
    child
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
    assert_eq!(
        failed(&wrong).reason(),
        FailureReason::ToolError,
        "the server refuses them"
    );

    // The loss of the server is a failure of its calls, and noticed; and so is its return.
    let before = names(&server).await;
    child.kill().await.unwrap();
    let echo = server.run("e_echo", json!({"message": "hello"})).await;
    assert!(
        matches!(echo.ending, Some(call::Ending::Failed(_))) || echo.tool == "invalid",
        "{echo:?}"
    );
    eventually("the loss is noticed", async || {
        source(&server, "e").await.0 == ToolSourceState::Failed
    })
    .await;
    eventually("its tools go when it does not come back", async || {
        !names(&server).await.contains(&"e_echo".to_owned())
    })
    .await;
    let _child = everything_at(kind, port).await;
    ready(&server, "e").await;
    assert_eq!(names(&server).await, before);
    let echo = server.run("e_echo", json!({"message": "again"})).await;
    assert_eq!(completed(&echo).output, "Echo: again");
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
