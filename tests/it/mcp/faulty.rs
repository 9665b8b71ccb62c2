//! Servers that do what they should not: each harms its own calls only.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::*;

/// How a call of a faulty server's tool `work` ends.
const CALLS: [(&str, &str); 8] = [
    ("hang_call", "MCP error -32001: Request timed out"),
    ("crash_call", "MCP error -32000: Connection closed"),
    (
        "huge",
        "MCP error -32000: The server sent a message of more than 16 MiB",
    ),
    (
        "huge_unknown",
        "MCP error -32000: The server sent a message of more than 16 MiB",
    ),
    ("garbage", "MCP error -32001: Request timed out"),
    ("strange_result", "The MCP server sent something that is not a result."),
    ("wrong_id", "MCP error -32001: Request timed out"),
    ("deep", "MCP error -32000: The server sent a result that cannot be read"),
];

/// What is said of a server that cannot be used.
const FAILING: [(&str, &str); 6] = [
    ("hang_start", "Operation timed out after 2000ms"),
    ("hang_list", "Failed to get tools: MCP error -32001: Request timed out"),
    ("exit", "the program ended with code 3"),
    ("version", "protocol version is not supported: 1999-01-01"),
    ("same_cursor", "a cursor came twice"),
    ("huge_list", "they take more than 8 MiB"),
];

/// Servers whose tools work whatever else they do.
const WORKING: [&str; 6] = [
    "fine",
    "lies",
    "flood_stderr",
    "flood_notifications",
    "flood_changes",
    "garbage_start",
];

fn all() -> Vec<(&'static str, Value)> {
    let calls = CALLS.iter().map(|(name, _)| *name);
    let failing = FAILING.iter().map(|(name, _)| *name);
    let entry = |name: &'static str| {
        let mut entry = faulty_server(name);
        let ends = CALLS.iter().chain(&FAILING).find(|(faulty, _)| *faulty == name);
        if ends.is_some_and(|(_, end)| end.contains("timed out")) {
            entry["timeout"] = json!(2000);
        }
        (name, entry)
    };
    let mut all: Vec<_> = calls.chain(failing).chain(WORKING).map(entry).collect();
    all.push(("flood_requests", faulty_server("flood_requests")));
    all.push(("missing", local(&["no-such-program-anywhere"])));
    all
}

/// Everything that has nothing to do with faulty servers goes on.
pub(super) async fn is_healthy(server: &Server) {
    let started = Instant::now();
    let fine = server.run("fine_work", json!({})).await;
    assert_eq!(completed(&fine).output, "fine");
    let echo = server
        .run("bash", json!({"command": "echo well", "description": "d"}))
        .await;
    assert_eq!(completed(&echo).output, "well\n");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

pub(super) fn memory_of(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn faulty_servers_harm_nobody_else() {
    test(async {
        let mut server = service(&all()).await;
        ready(&server, "fine").await;
        is_healthy(&server).await;
        for name in WORKING {
            ready(&server, name).await;
            let call = server.run(&format!("{name}_work"), json!({})).await;
            assert_eq!(completed(&call).output, "fine", "{name}");
        }

        let listed = names(&server).await;
        let lies: Vec<&String> = listed.iter().filter(|name| name.starts_with("lies_")).collect();
        assert_eq!(lies, ["lies_work", "lies_broken"]);
        assert!(source(&server, "lies").await.1.contains("lies_broken"));

        for (name, problem) in FAILING {
            // On a busy machine a server may be slow before it is faulty; it is tried again.
            eventually(&format!("{name} fails with {problem:?}"), async || {
                let (state, said) = source(&server, name).await;
                state == ToolSourceState::Failed && said.contains(problem)
            })
            .await;
        }
        assert!(
            source(&server, "missing")
                .await
                .1
                .contains("\"no-such-program-anywhere\" is not found")
        );

        for (name, error) in CALLS {
            ready(&server, name).await;
            let call = server.run(&format!("{name}_work"), json!({})).await;
            assert!(
                failed(&call).error.starts_with(error),
                "{name}: {:?}",
                failed(&call).error
            );
            is_healthy(&server).await;
        }
        let call = server.run("flood_requests_work", json!({})).await;
        assert!(
            failed(&call).error.contains("does not read what it is sent"),
            "{call:?}"
        );
        is_healthy(&server).await;
        let memory = memory_of(&server);
        assert!(memory < 400, "{memory} MiB");
        assert!(
            server.log().len() < 2_000_000,
            "{} bytes were logged",
            server.log().len()
        );

        server.stop().await;
    });
}

#[test]
fn a_server_that_crashed_works_again() {
    test(async {
        let server = service(&[("crash_call", faulty_server("crash_call"))]).await;
        ready(&server, "crash_call").await;
        let call = server.run("crash_call_work", json!({})).await;
        assert_eq!(failed(&call).error, "MCP error -32000: Connection closed");
        eventually("the crash is seen", async || {
            source(&server, "crash_call").await.0 == ToolSourceState::Failed
        })
        .await;
        let (_, problem) = source(&server, "crash_call").await;
        assert!(problem.contains("the program ended with code 9"), "{problem}");
        assert!(problem.contains("(tried again in 1 s)"), "{problem}");
        ready(&server, "crash_call").await;
        assert!(names(&server).await.contains(&"crash_call_work".to_owned()));
    });
}
