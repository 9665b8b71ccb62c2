//! Resources of servers that MCP clients follow: each is asked for once, and again when the server is back.

#![expect(
    deprecated,
    reason = "clients of revisions before 2026-07-28 follow a resource by a request"
)]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rmcp::model::{SubscribeRequestParams, UnsubscribeRequestParams};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::json;

use super::web::{self, Reply, Request, Web};
use super::*;
use crate::mcp_server::{Client, Form, Person, http};

const URI: &str = "own://a";

/// Answers as a server whose resources can be followed. `is_good` says whether it lets a resource be.
fn answer(request: &Request, is_good: bool) -> Reply {
    let message = request.message();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}, "resources": {"subscribe": true}},
            "serverInfo": {"name": "own", "version": "1"},
        }),
        Some("tools/list") => return web::listed(&message, &["work"]),
        Some("tools/call") => return web::fine(&message),
        Some("resources/list") => json!({"resources": [{"uri": URI, "name": "a"}, {"uri": "own://b", "name": "b"}]}),
        Some("resources/templates/list") => json!({"resourceTemplates": []}),
        Some("resources/subscribe") if !is_good => {
            return Reply::json(&json!({
                "jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "not this one"},
            }));
        }
        Some("resources/subscribe" | "resources/unsubscribe") => json!({}),
        Some(_) => return Reply::status(202),
        None => return Reply::status(405),
    };
    web::result(&message, &result)
}

/// How often a method was called, for any resource.
fn count(web: &Web, method: &str) -> usize {
    let is_it = |request: &&Request| request.message()["method"] == method;
    web.seen("/mcp").iter().filter(is_it).count()
}

async fn connect(server: &Server, workspace: &str) -> Client {
    let url = format!("http://{}/mcp?workspace={workspace}", server.tcp.as_ref().unwrap());
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    Person::new(Form::None)
        .start(StreamableHttpClientTransport::with_client(http(), config))
        .await
}

async fn subscribe(client: &Client) {
    client.subscribe(SubscribeRequestParams::new(URI)).await.unwrap();
}

async fn unsubscribe(client: &Client) {
    client.unsubscribe(UnsubscribeRequestParams::new(URI)).await.unwrap();
}

async fn in_two_workspaces(url: &str) -> Server {
    let setup = Setup {
        config: Some(json!({"mcp": {"s": {"type": "remote", "url": url}}})),
        tcp: true,
        more: vec!["other"],
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    eventually("both workspaces have the server", async || {
        let info = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
        let workspaces = info.into_inner().workspaces;
        workspaces.iter().all(|workspace| {
            let sources = &workspace.tool_sources;
            sources
                .iter()
                .any(|source| source.name == "s" && source.state() == ToolSourceState::Ready)
        })
    })
    .await;
    server
}

#[test]
fn a_resource_is_followed_once_for_each_workspace_until_nobody_does() {
    test(async {
        let web = Web::start(|request| answer(request, true)).await;
        let server = in_two_workspaces(&web.url("/mcp")).await;
        let (first, second) = (connect(&server, "default").await, connect(&server, "default").await);
        let elsewhere = connect(&server, "other").await;
        let asked = |subscribed: usize, unsubscribed: usize| {
            (count(&web, "resources/subscribe"), count(&web, "resources/unsubscribe")) == (subscribed, unsubscribed)
        };
        subscribe(&first).await;
        subscribe(&first).await;
        subscribe(&second).await;
        assert!(asked(1, 0), "one workspace, one request");
        subscribe(&elsewhere).await;
        assert!(asked(2, 0), "the server knows each workspace's connection alone");
        unsubscribe(&first).await;
        // The one that still follows keeps it; a client that goes without a word does not.
        second.cancel().await.unwrap();
        eventually("the last of a workspace has gone", async || asked(2, 1)).await;
        elsewhere.cancel().await.unwrap();
        eventually("the last of the other has gone", async || asked(2, 2)).await;
        subscribe(&first).await;
        assert!(asked(3, 2), "it can be followed again");
        first.cancel().await.unwrap();
        server.assert_calm();
    });
}

#[test]
fn what_a_server_refuses_is_not_followed() {
    test(async {
        let web = Web::start(|request| answer(request, false)).await;
        let server = in_two_workspaces(&web.url("/mcp")).await;
        let client = connect(&server, "default").await;
        for _ in 0..2 {
            let refused = client.subscribe(SubscribeRequestParams::new(URI)).await.unwrap_err();
            assert!(refused.to_string().contains("not this one"), "{refused}");
        }
        assert_eq!(count(&web, "resources/subscribe"), 2, "it is asked each time");
        client.cancel().await.unwrap();
    });
}

#[test]
fn what_is_followed_is_asked_for_again_when_the_server_is_back() {
    test(async {
        let web = Web::start(|request| answer(request, true)).await;
        let (address, url) = (web.address, web.url("/mcp"));
        let server = in_two_workspaces(&url).await;
        let client = connect(&server, "default").await;
        let log = client.service().log.clone();
        subscribe(&client).await;
        drop(web);
        // Whoever asks now finds it gone.
        let lost = server.run("s_work", json!({})).await;
        assert!(lost.ending.is_some());
        let web = again(address).await;
        eventually("it is asked for again", async || {
            count(&web, "resources/subscribe") == 1
        })
        .await;
        eventually("the client looks at it again", async || log.updates() == [URI]).await;
        client.cancel().await.unwrap();
        eventually("nobody follows it", async || count(&web, "resources/unsubscribe") == 1).await;
        server.assert_calm();
    });
}

/// Starts the server once more where it was.
async fn again(address: SocketAddr) -> Web {
    Web::at(&address.to_string(), |request| answer(request, true)).await
}

/// A server that knows no handshake. What it is asked to tell of is kept, the newest last.
fn without_handshake(request: &Request, asked: &Mutex<Vec<BTreeSet<String>>>) -> Reply {
    let message = request.message();
    let event = |message: Value| Reply::status(200).text("text/event-stream", format!("data: {message}\n\n"));
    let result = match message["method"].as_str() {
        Some("initialize") => {
            return Reply::json(&json!({
                "jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"},
            }));
        }
        Some("server/discover") => json!({
            "supportedVersions": ["2026-07-28"], "capabilities": {"resources": {"subscribe": true}},
        }),
        Some("resources/list") => json!({"resources": [{"uri": URI, "name": "a"}, {"uri": "own://b", "name": "b"}]}),
        Some("resources/templates/list") => json!({"resourceTemplates": []}),
        Some("subscriptions/listen") => {
            let uris = message["params"]["notifications"]["resourceSubscriptions"].clone();
            asked
                .lock()
                .unwrap()
                .push(serde_json::from_value(uris).unwrap_or_default());
            let updated =
                json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": URI}});
            return event(updated).hanging();
        }
        Some(_) => return Reply::status(202),
        None => return Reply::status(405),
    };
    web::result(&message, &result)
}

#[test]
fn a_server_without_a_handshake_is_asked_by_one_request() {
    test(async {
        let asked: Arc<Mutex<Vec<BTreeSet<String>>>> = Arc::default();
        let log = Arc::clone(&asked);
        let web = Web::start(move |request| without_handshake(request, &log)).await;
        let server = in_two_workspaces(&web.url("/mcp")).await;
        let client = connect(&server, "default").await;
        let newest = || asked.lock().unwrap().last().cloned().unwrap_or_default();
        let set = |uris: &[&str]| uris.iter().map(|uri| (*uri).to_owned()).collect::<BTreeSet<_>>();
        subscribe(&client).await;
        eventually("it is asked to tell of it", async || newest() == set(&[URI])).await;
        let log = client.service().log.clone();
        eventually("it does", async || log.updates().contains(&URI.to_owned())).await;
        client.subscribe(SubscribeRequestParams::new("own://b")).await.unwrap();
        eventually("of both", async || newest() == set(&[URI, "own://b"])).await;
        unsubscribe(&client).await;
        eventually("of the other only", async || newest() == set(&["own://b"])).await;
        assert_eq!(count(&web, "resources/subscribe"), 0);
        client.cancel().await.unwrap();
        server.assert_calm();
    });
}

#[test]
fn a_session_follows_so_many_and_no_more() {
    test(async {
        let web = Web::start(|request| {
            let message = request.message();
            match message["method"].as_str() {
                Some("resources/list") => {
                    let resource = |at: usize| json!({"uri": format!("own://{at}"), "name": "a"});
                    let resources: Vec<Value> = (0..300).map(resource).collect();
                    web::result(&message, &json!({ "resources": resources }))
                }
                _ => answer(request, true),
            }
        })
        .await;
        let server = in_two_workspaces(&web.url("/mcp")).await;
        let client = connect(&server, "default").await;
        for at in 0..256 {
            client
                .subscribe(SubscribeRequestParams::new(format!("own://{at}")))
                .await
                .unwrap();
        }
        let one_more = client
            .subscribe(SubscribeRequestParams::new("own://256"))
            .await
            .unwrap_err();
        assert!(one_more.to_string().contains("too many are followed"), "{one_more}");
        eventually("the server need not tell of it", async || {
            count(&web, "resources/unsubscribe") == 1
        })
        .await;
        client.subscribe(SubscribeRequestParams::new("own://7")).await.unwrap();
        // With its session it follows nothing.
        client.cancel().await.unwrap();
        eventually("nothing is followed", async || {
            count(&web, "resources/unsubscribe") == 257
        })
        .await;
    });
}
