//! Clients that no SDK is: what they send is refused, and nobody else notices.

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::client::{self, Form, Person, call, text};
use crate::support::*;

const BOTH: &str = "application/json, text/event-stream";

/// A request to `/mcp` with what every client sends.
pub(super) fn request(server: &Server, method: Method) -> RequestBuilder {
    let url = format!("http://{}/mcp", server.tcp.as_ref().unwrap());
    client::http()
        .request(method, url)
        .header("accept", BOTH)
        .header("content-type", "application/json")
}

pub(super) fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    })
}

pub(super) async fn open(server: &Server) -> (String, Response) {
    let body = initialize("2025-11-25").to_string();
    let response = request(server, Method::POST).body(body).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    (id, response)
}

#[test]
fn what_is_no_request_is_refused() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let (session, _) = open(&server).await;
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
        let check = async |name: &str, request: RequestBuilder, expected: u16| {
            let response = request.send().await.unwrap();
            assert_eq!(
                response.status().as_u16(),
                expected,
                "{name}: {}",
                response.text().await.unwrap()
            );
        };
        let post = |body: &str| request(&server, Method::POST).body(body.to_owned());
        check("no JSON", post("{\"jsonrpc\":"), 415).await;
        check("another JSON", post("[1, 2]"), 415).await;
        check("no session", post(&list), 400).await;
        let with = |id: &str| post(&list).header("mcp-session-id", id);
        check("a made-up session", with("0af1"), 404).await;
        check("another host", post(&list).header("host", "evil.example"), 403).await;
        check("a page", post(&list).header("origin", "http://evil.example"), 403).await;
        check(
            "a page of this machine",
            post(&list).header("origin", "http://localhost"),
            403,
        )
        .await;
        check("PUT", request(&server, Method::PUT), 405).await;
        let at = |query: &str| {
            let url = format!("http://{}/mcp?{query}", server.tcp.as_ref().unwrap());
            client::http()
                .post(url)
                .header("accept", BOTH)
                .header("content-type", "application/json")
                .body(list.clone())
        };
        check("no workspace", at("workspace=nowhere"), 404).await;
        check("no agent", at("agent=nobody"), 404).await;
        check("no model", at("model=gpt"), 400).await;
        // The answer comes before the end of the request, and the connection is closed then: whoever only writes loses it.
        let address = server.tcp.as_ref().unwrap();
        let connection = tokio::net::TcpStream::connect(address).await.unwrap();
        let (reader, mut writer) = connection.into_split();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAccept: {BOTH}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            64 << 20
        );
        let body = [head.into_bytes(), vec![b' '; 64 << 20]].concat();
        let writing = tokio::spawn(async move { writer.write_all(&body).await });
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).await.unwrap();
        writing.abort();
        assert!(line.contains(" 413 "), "{line}");
        check(
            "a listener",
            request(&server, Method::GET).header("mcp-session-id", "x"),
            404,
        )
        .await;

        // A session that was ended is unknown.
        check(
            "the end",
            request(&server, Method::DELETE).header("mcp-session-id", &session),
            200,
        )
        .await;
        check("after the end", with(&session), 404).await;

        let healthy = Person::new(Form::None).connect(&server).await;
        let result = call(
            &healthy,
            "bash",
            json!({"command": "echo fine", "description": "Tests"}),
        )
        .await;
        assert_eq!(text(&result), "fine\n");
        healthy.cancel().await.unwrap();
        server.assert_calm();
    });
}

#[test]
fn clients_of_newer_revisions_are_told_which_are_spoken() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let body = initialize("2099-01-01").to_string();
        let response = request(&server, Method::POST).body(body).send().await.unwrap();
        assert!(
            response
                .text()
                .await
                .unwrap()
                .contains("\"protocolVersion\":\"2025-11-25\"")
        );

        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
        let response = request(&server, Method::POST)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "server/discover")
            .body(body.to_string())
            .send()
            .await
            .unwrap();
        let text = response.text().await.unwrap();
        assert!(
            text.contains("\"supportedVersions\":[") && text.contains("2026-07-28"),
            "{text}"
        );
    });
}
