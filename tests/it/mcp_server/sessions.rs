//! How many sessions there are, and what becomes of those whose client is gone.

use std::time::Duration;

use reqwest::{Method, Response, StatusCode};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::{Client, Form, Person, call, text};
use super::hostile::{initialize, open, request};
use crate::support::*;

/// As many as are open at once.
const MOST: usize = 256;

/// Begins to listen in a session; listens until what is returned is dropped.
async fn listen(server: &Server, session: &str) -> Response {
    let get = request(server, Method::GET).header("mcp-session-id", session);
    let response = get.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response
}

async fn lists(server: &Server, session: &str) -> StatusCode {
    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).to_string();
    let post = request(server, Method::POST)
        .header("mcp-session-id", session)
        .body(body);
    post.send().await.unwrap().status()
}

async fn initialized(server: &Server) -> String {
    let (id, response) = open(server).await;
    drop(response);
    let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let post = request(server, Method::POST).header("mcp-session-id", &id).body(body);
    assert_eq!(post.send().await.unwrap().status(), StatusCode::ACCEPTED);
    id
}

#[test]
fn sessions_are_bounded_and_those_in_use_stay() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let used = initialized(&server).await;
        let _used = listen(&server, &used).await;
        let unused = initialized(&server).await;
        // Sessions that nobody uses make room, the one that was left first.
        for _ in 0..MOST - 1 {
            drop(open(&server).await);
        }
        assert_eq!(lists(&server, &unused).await, StatusCode::NOT_FOUND);
        assert_eq!(lists(&server, &used).await, StatusCode::OK);

        // When all are used there is no room, and it is said so.
        let mut listeners = Vec::new();
        let refused = loop {
            assert!(listeners.len() <= MOST);
            let body = initialize("2025-11-25").to_string();
            let response = request(&server, Method::POST).body(body).send().await.unwrap();
            if response.status() != StatusCode::OK {
                break response;
            }
            let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
            drop(response);
            listeners.push(listen(&server, &id).await);
        };
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()["retry-after"], "5");
        assert_eq!(listeners.len(), MOST - 1);
        assert_eq!(lists(&server, &used).await, StatusCode::OK);
        listeners.pop();
        eventually("there is room again", async || {
            let body = initialize("2025-11-25").to_string();
            let response = request(&server, Method::POST).body(body).send().await.unwrap();
            response.status() == StatusCode::OK
        })
        .await;
        server.assert_calm();
    });
}

/// Calls `bash` and returns the beginning of the answer: its stream, and the id of its first event.
async fn begin(server: &Server, session: &str, command: &str) -> (Response, String) {
    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "bash", "arguments": {"command": command, "description": "Tests"},
                   "_meta": {"progressToken": 1}},
    });
    let post = request(server, Method::POST)
        .header("mcp-session-id", session)
        .body(call.to_string());
    let mut response = post.send().await.unwrap();
    let mut text = String::new();
    loop {
        let chunk = response.chunk().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        let mut ids = text.lines().filter_map(|line| line.strip_prefix("id:"));
        if let (Some(id), true) = (ids.next_back(), text.contains("notifications/progress")) {
            return (response, id.trim().to_owned());
        }
    }
}

#[test]
fn a_call_whose_client_is_gone_ends_unless_it_comes_back() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let (lost, back) = (initialized(&server).await, initialized(&server).await);
        let marker = "600.3001";
        let (stream, _) = begin(&server, &lost, &format!("echo begun; sleep {marker}")).await;
        let (other, last) = begin(&server, &back, "echo begun; sleep 13; echo back").await;
        eventually("it runs", async || !processes(marker).is_empty()).await;
        let started = Instant::now();
        drop((stream, other));
        // One client comes back in time, with the last event that it has seen.
        let get = request(&server, Method::GET)
            .header("mcp-session-id", &back)
            .header("last-event-id", last);
        let resumed = get.send().await.unwrap();
        assert_eq!(resumed.status(), StatusCode::OK);
        gone(marker).await;
        let took = started.elapsed();
        assert!(
            (Duration::from_secs(8)..Duration::from_secs(20)).contains(&took),
            "{took:?}"
        );
        let mut resumed = resumed;
        let mut text = String::new();
        while !text.contains("\"id\":2") {
            let chunk = resumed.chunk().await.unwrap();
            let chunk = chunk.unwrap_or_else(|| panic!("no result after {text}"));
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        assert!(text.contains("back\\n"), "{text}");
        server.assert_calm();
    });
}

/// Reads a file over one connection and edits it over the next. Returns the result of the edit.
async fn edits_what_another_read(
    server: &Server,
    file: &str,
    connect: impl AsyncFn() -> Client,
    other: impl AsyncFn() -> Client,
) -> CallToolResult {
    let path = server.work().join(file);
    std::fs::write(&path, "before\n").unwrap();
    let client = connect().await;
    let read = call(&client, "read", json!({"filePath": path})).await;
    assert_eq!(read.is_error, Some(false), "{read:?}");
    client.cancel().await.unwrap();
    let client = other().await;
    let input = json!({"filePath": path, "oldString": "before", "newString": "after"});
    let edited = call(&client, "edit", input).await;
    client.cancel().await.unwrap();
    edited
}

#[test]
fn a_conversation_goes_on_over_the_next_connection() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let connect = async |name: &'static str, query: &str| {
            Person::new(Form::None).called(name).connect_with(&server, query).await
        };
        let one = async || connect("one", "").await;
        let edited = edits_what_another_read(&server, "a.txt", one, one).await;
        assert_eq!(edited.is_error, Some(false), "a connection for each call: {edited:?}");
        let session = async |result: &CallToolResult| {
            let id = json!(result.meta)["callId"].as_str().unwrap().to_owned();
            server.get(&id).await.context.unwrap().session_id
        };
        assert!(session(&edited).await.starts_with("mcp-one-"));

        let two = async || connect("two", "").await;
        let edited = edits_what_another_read(&server, "b.txt", one, two).await;
        assert_eq!(edited.is_error, Some(true), "another client: {edited:?}");
        assert!(text(&edited).contains("must read"), "{edited:?}");

        let named = async || connect("one", "?session=my%20own").await;
        let same = async || connect("two", "?session=my%20own").await;
        let edited = edits_what_another_read(&server, "c.txt", named, same).await;
        assert_eq!(edited.is_error, Some(false), "a session that clients name: {edited:?}");
        assert_eq!(session(&edited).await, "my own");
        let edited = edits_what_another_read(&server, "d.txt", named, one).await;
        assert_eq!(edited.is_error, Some(true), "{edited:?}");
        server.assert_calm();
    });
}

#[test]
fn every_revision_is_spoken_that_has_sessions() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let body = initialize(version).to_string();
            let response = request(&server, Method::POST).body(body).send().await.unwrap();
            let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
            let text = response.text().await.unwrap();
            assert!(text.contains(&format!("\"protocolVersion\":\"{version}\"")), "{text}");
            let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
            let list = request(&server, Method::POST)
                .header("mcp-session-id", &id)
                .header("mcp-protocol-version", version)
                .body(list);
            let text = list.send().await.unwrap().text().await.unwrap();
            let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let listed: Value = data
                .filter_map(|data| serde_json::from_str::<Value>(data).ok())
                .find(|message| message["id"] == 2)
                .unwrap_or_else(|| panic!("{version}: {text}"));
            assert!(
                listed["result"]["tools"]
                    .as_array()
                    .is_some_and(|tools| !tools.is_empty()),
                "{listed}"
            );
        }
    });
}

#[test]
fn what_is_asked_over_another_connection_is_no_loop() {
    test(async {
        let server = Server::with(Setup::tcp().env("TOOLGATE_PERMISSION_UNATTENDED", "refuse")).await;
        let input = json!({"command": "echo same", "description": "Tests"});
        let connect = async || Person::new(Form::None).connect(&server).await;
        for _ in 0..4 {
            let client = connect().await;
            let result = call(&client, "bash", input.clone()).await;
            assert_eq!(text(&result), "same\n", "{result:?}");
            client.cancel().await.unwrap();
        }
        let client = connect().await;
        let mut looped = false;
        for _ in 0..4 {
            looped |= call(&client, "bash", input.clone()).await.is_error == Some(true);
        }
        assert!(looped, "over one connection it is");
        client.cancel().await.unwrap();
    });
}
