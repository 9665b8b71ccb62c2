//! What does not speak the contract, through a gateway: MCP clients, SDKs of agent-sandbox and opened ports.

use std::path::Path;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tonic::transport::Channel;
use toolgate_contract::port_service_client::PortServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::watch_prompts_response::Message as Told;
use toolgate_contract::*;

use super::registered::{Door, assert_calm};
use super::setup::*;
use crate::auth::Issuer;
use crate::mcp_server::{Client, Form, Person, call, http, text};
use crate::support::{completed, eventually, everybody, is_output, next_such, test};

const SERVE: &str = include_str!("../ports/serve.py");

/// Connects the SDK's client to the gateway.
async fn connect(fleet: &Fleet, person: Person, token: &str, query: &str) -> Client {
    let url = format!("http://{}/mcp{query}", fleet.gateway.address);
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(token);
    let transport = StreamableHttpClientTransport::with_client(http(), config);
    person.start(transport).await
}

/// A request of a client that no SDK is.
fn request(fleet: &Fleet, method: Method, token: &str, query: &str) -> RequestBuilder {
    let url = format!("http://{}/mcp{query}", fleet.gateway.address);
    http()
        .request(method, url)
        .bearer_auth(token)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
}

async fn post(fleet: &Fleet, token: &str, query: &str, session: &str, message: Value) -> Response {
    let request = request(fleet, Method::POST, token, query).body(message.to_string());
    let request = match session {
        "" => request,
        session => request.header("mcp-session-id", session),
    };
    request.send().await.unwrap()
}

fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    })
}

/// Opens a session and returns its id.
async fn open(fleet: &Fleet, token: &str, query: &str) -> String {
    let response = post(fleet, token, query, "", initialize()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let begun = post(fleet, token, query, &id, begun).await;
    assert_eq!(begun.status(), StatusCode::ACCEPTED);
    id
}

fn list() -> Value {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})
}

fn run(command: &str) -> Value {
    json!({"command": command, "description": "Tests"})
}

#[test]
fn mcp_clients_work_where_their_workspace_is() {
    test(async {
        let fleet = Fleet::start().await;
        for (token, query, folder) in [
            (ANNA, "", "a/own"),
            (ANNA, "?workspace=wc", "c/own"),
            // The default is the first that one may see.
            (BEN, "", "b/own"),
        ] {
            let client = connect(&fleet, Person::new(Form::None), token, query).await;
            let tools = client.list_all_tools().await.unwrap();
            assert!(tools.iter().any(|tool| tool.name == "bash"));
            let result = call(&client, "bash", run("pwd")).await;
            assert_eq!(text(&result).trim(), fleet.path(folder).display().to_string());
            let id = json!(result.meta)["callId"].as_str().unwrap().to_owned();
            let made = fleet.tools(ANNA).get_call(GetCallRequest { call_id: id }).await;
            let context = made.unwrap().into_inner().call.unwrap().context.unwrap();
            assert_eq!(context.client_kind, "mcp");
            client.cancel().await.unwrap();
        }
        fleet.assert_calm();
    });
}

#[test]
fn a_gateway_says_where_its_clients_get_tokens() {
    test(async {
        let (issuer, keys) = (Issuer::new("one"), TempDir::new().unwrap());
        let file = keys.path().join("keys.json");
        put(&file, &json!({"keys": [issuer.jwk()]}).to_string());
        let settings = format!(
            "auth.jwt.jwks_file = {:?}\nauth.jwt.issuer = \"https://issuer\"\nauth.jwt.audience = \"toolgate\"\n\
             auth.jwt.workspace_claim = \"workspaces\"",
            file.display().to_string()
        );
        let fleet = Fleet::with(&settings).await;
        let base = format!("http://{}", fleet.gateway.address);
        // It is the gateway that refuses, and it names itself: a client never learns of the workers.
        for (token, query) in [
            ("no-token", ""),
            ("no-token", "?workspace=wb"),
            (issuer.sign(json!({"aud": "x"})), ""),
        ] {
            let refused = post(&fleet, token, query, "", initialize()).await;
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
            let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
            let metadata = format!("resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
            assert!(challenge.contains(&metadata), "{challenge}");
        }
        let read = async |path: &str, forwarded: &str| {
            let request = http().get(format!("{base}/.well-known/oauth-protected-resource{path}"));
            let read = request.header("x-forwarded-proto", forwarded).send().await.unwrap();
            assert_eq!(read.status(), StatusCode::OK);
            serde_json::from_str::<Value>(&read.text().await.unwrap()).unwrap()
        };
        for path in ["", "/mcp"] {
            let about = read(path, "http").await;
            assert_eq!(about["resource"], format!("{base}{path}"), "{about}");
            assert_eq!(about["authorization_servers"], json!(["https://issuer"]), "{about}");
        }
        // What ends TLS in front of it says so.
        let about = read("/mcp", "https").await;
        assert_eq!(about["resource"], format!("https://{}/mcp", fleet.gateway.address));
        // With such a token the client works where its workspace is.
        let token = issuer.sign(json!({"workspaces": ["wb"], "scope": "calls.execute calls.read"}));
        let client = connect(&fleet, Person::new(Form::None), token, "").await;
        let result = call(&client, "bash", run("pwd")).await;
        assert_eq!(text(&result).trim(), fleet.path("b/own").display().to_string());
        client.cancel().await.unwrap();
        let elsewhere = post(&fleet, token, "?workspace=wa", "", initialize()).await;
        assert_eq!(elsewhere.status(), StatusCode::NOT_FOUND);

        // Without signed tokens nobody issues any.
        let fleet = Fleet::start().await;
        let none = format!(
            "http://{}/.well-known/oauth-protected-resource/mcp",
            fleet.gateway.address
        );
        assert_eq!(http().get(none).send().await.unwrap().status(), StatusCode::NOT_FOUND);
        fleet.assert_calm();
    });
}

#[test]
fn what_an_mcp_client_asks_is_answered_by_its_form_or_by_an_approver() {
    test(async {
        let mut fleet = Fleet::start().await;
        // Otherwise nobody answers for their own calls.
        let file = fleet.path("b/toolgate.toml");
        let settings = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("permission.self_approval = true\n{settings}")).unwrap();
        let home = fleet.home();
        fleet.workers[1].kill9().await;
        fleet.workers[1].run(&home).await;
        let person = Person::new(Form::Fill(json!({"decision": "once"})));
        let log = person.log.clone();
        let client = connect(&fleet, person, ANNA, "?workspace=wb").await;
        let result = call(&client, "bash", run("echo ask by form")).await;
        assert_eq!(text(&result), "ask by form\n", "{result:?}");
        assert_eq!(log.forms().len(), 1);
        client.cancel().await.unwrap();

        let client = connect(&fleet, Person::new(Form::None), ANNA, "?workspace=wb").await;
        let filter = Some(everybody());
        let watched = fleet.prompts(CARL).watch_prompts(WatchPromptsRequest { filter }).await;
        let mut watched = watched.unwrap().into_inner();
        let answered = async {
            let prompt = loop {
                if let Told::PromptAdded(added) = watched.message().await.unwrap().unwrap().message.unwrap() {
                    break added.prompt.unwrap();
                }
            };
            assert_eq!(answer(&fleet, CARL, &prompt).await.result(), ReplyResult::Accepted);
        };
        let (result, ()) = tokio::join!(call(&client, "bash", run("echo ask somebody")), answered);
        assert_eq!(text(&result), "ask somebody\n", "{result:?}");
        client.cancel().await.unwrap();
        fleet.assert_calm();
    });
}

/// Reads a stream of events until it has said this, and returns all of it with the id of the last event.
async fn until(response: &mut Response, part: &str) -> (String, String) {
    let mut read = String::new();
    while !read.contains(part) {
        let chunk = response.chunk().await.unwrap();
        let chunk = chunk.unwrap_or_else(|| panic!("it ended after {read}"));
        read.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let mut ids = read.lines().filter_map(|line| line.strip_prefix("id:"));
    let last = ids.next_back().unwrap_or_default().trim().to_owned();
    (read, last)
}

#[test]
fn a_stream_of_an_mcp_client_is_taken_up_again() {
    test(async {
        let mut fleet = Fleet::start().await;
        let session = open(&fleet, ANNA, "?workspace=wc").await;
        let gate = fleet.path("c/own/gate");
        let waits = format!(
            "echo begun; until [ -e {} ]; do sleep 0.1; done; echo ended",
            gate.display()
        );
        let message = json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "bash", "arguments": run(&waits), "_meta": {"progressToken": 1}},
        });
        let mut stream = post(&fleet, ANNA, "?workspace=wc", &session, message).await;
        let (_, last) = until(&mut stream, "notifications/progress").await;
        drop(stream);
        // Another gateway would do as well as this one when it has started again: neither remembers anything.
        let home = fleet.home();
        fleet.gateway.kill9().await;
        fleet.gateway.run(&home).await;
        let get = request(&fleet, Method::GET, ANNA, "?workspace=wc")
            .header("mcp-session-id", &session)
            .header("last-event-id", last);
        let mut resumed = get.send().await.unwrap();
        assert_eq!(resumed.status(), StatusCode::OK);
        std::fs::write(gate, "").unwrap();
        let (read, _) = until(&mut resumed, "\"id\":2").await;
        assert!(read.contains("begun\\nended\\n"), "{read}");
        fleet.assert_calm();
    });
}

#[test]
fn an_mcp_client_gets_no_further_than_it_may() {
    test(async {
        let mut fleet = Fleet::start().await;
        let status = async |token: &str, query: &str, session: &str, message: Value| {
            post(&fleet, token, query, session, message).await.status().as_u16()
        };
        assert_eq!(status("nobody-nobody-nobody", "", "", initialize()).await, 401);
        assert_eq!(status(ANNA, "?workspace=nowhere", "", initialize()).await, 404);
        assert_eq!(status(ANNA, "?workspace=%zz", "", initialize()).await, 400);
        assert_eq!(status(ANNA, "?workspace=-", "", initialize()).await, 404);
        assert_eq!(status(BEN, "?workspace=wa", "", initialize()).await, 404);
        // Without a scope nothing is reached.
        assert_eq!(status(DORA, "?workspace=wa", "", initialize()).await, 403);
        let session = open(&fleet, ANNA, "?workspace=wb").await;
        let (id, _) = session.rsplit_once('~').unwrap();
        // It goes on in the workspace that it began in.
        assert_eq!(status(ANNA, "", &session, list()).await, 200);
        assert_eq!(status(ANNA, "?workspace=wb", &session, list()).await, 200);
        // Nobody else's, at no other worker, and none that a client makes up.
        assert_eq!(status(BEN, "", &session, list()).await, 404);
        assert_eq!(status(ANNA, "?workspace=wa", &session, list()).await, 404);
        assert_eq!(status(ANNA, "", &format!("{id}~wa"), list()).await, 404);
        assert_eq!(status(ANNA, "", &format!("{id}~nowhere"), list()).await, 404);
        assert_eq!(status(ANNA, "", "made-up", list()).await, 404);
        let page = request(&fleet, Method::POST, ANNA, "").header("origin", "http://evil.example");
        assert_eq!(page.body(initialize().to_string()).send().await.unwrap().status(), 403);
        assert_eq!(
            request(&fleet, Method::PUT, ANNA, "").send().await.unwrap().status(),
            405
        );

        // A worker that is away is told as such; with it go its sessions, and their clients begin again.
        let home = fleet.home();
        fleet.workers[1].kill9().await;
        let away = post(&fleet, ANNA, "", &session, list()).await;
        assert_eq!(away.status(), 503);
        assert!(away.headers().contains_key("retry-after"));
        fleet.workers[1].run(&home).await;
        eventually("the session is over", async || {
            post(&fleet, ANNA, "", &session, list()).await.status() == 404
        })
        .await;
        let again = open(&fleet, ANNA, "?workspace=wb").await;
        assert_eq!(post(&fleet, ANNA, "", &again, list()).await.status(), 200);
        let ended = request(&fleet, Method::DELETE, ANNA, "").header("mcp-session-id", &again);
        assert_eq!(ended.send().await.unwrap().status(), 200);
        assert_eq!(post(&fleet, ANNA, "", &again, list()).await.status(), 404);
        fleet.assert_calm();
    });
}

/// Starts the program that listens, in the workspace `wc`, and opens its port.
async fn opened(fleet: &Fleet) -> OpenPortResponse {
    opened_at(&fleet.channel, &fleet.path("c/own/serve.py")).await
}

/// The same at the gateway of this channel.
async fn opened_at(channel: &Channel, script: &Path) -> OpenPortResponse {
    std::fs::write(script, SERVE).unwrap();
    let command = format!("exec python3 {} web", script.display());
    let start = ExecuteToolRequest {
        tool: "background".to_owned(),
        on_disconnect: OnDisconnect::Keep.into(),
        ..bash("wc", &command)
    };
    let mut tools = ToolServiceClient::with_interceptor(channel.clone(), Shown(ANNA, None));
    let mut stream = tools.execute_tool(start).await.unwrap().into_inner();
    let printed = next_such(&mut stream, is_output).await;
    let Some(call_event::Event::Output(output)) = printed.event else {
        unreachable!("it is output")
    };
    let text = String::from_utf8(output.data.to_vec()).unwrap();
    let mut ports = PortServiceClient::with_interceptor(channel.clone(), Shown(ANNA, None));
    let open = OpenPortRequest {
        call: None,
        call_id: printed.call_id,
        port: text.trim().strip_prefix("port ").unwrap().parse().unwrap(),
    };
    let opened = ports.open_port(open.clone()).await.unwrap().into_inner();
    let named = ports.open_port(OpenPortRequest {
        call: Some(CallStart {
            call_id: "mine".to_owned(),
            ..CallStart::default()
        }),
        ..open
    });
    assert_ne!(named.await.unwrap().into_inner().http_path, opened.http_path);
    opened
}

#[test]
fn the_path_of_a_port_says_whose_worker_it_is() {
    test(async {
        let door = Door::open("").await;
        std::fs::create_dir_all(door.path("c/wc")).unwrap();
        put(&door.path("c/wc/opencode.json"), r#"{"permission": "allow"}"#);
        let worker = door.worker("c", &["wc"]).await;
        door.ready(&[("c", &["wc"])]).await;
        let opened = opened_at(&door.channel, &door.path("c/wc/serve.py")).await;
        let (before, _) = opened.http_path.split_once("~c.").expect("it says more than the name");
        let client = crate::ports::client();
        for (path, expected) in [
            (opened.http_path.clone(), StatusCode::OK),
            (format!("{before}~c/"), StatusCode::NOT_FOUND),
            (format!("{before}~c.0000000000000000/"), StatusCode::NOT_FOUND),
        ] {
            let url = format!("http://{}{path}headers", door.gateway.address);
            assert_eq!(client.get(url).send().await.unwrap().status(), expected, "{path}");
        }
        assert_calm(&[&door.gateway, &worker]);
    });
}

#[test]
fn a_port_is_reached_at_the_address_of_the_gateway() {
    test(async {
        let mut fleet = Fleet::start().await;
        let opened = opened(&fleet).await;
        assert!(opened.http_path.ends_with("~c/"), "{opened:?}");
        // A gateway that has just started finds it, too.
        let home = fleet.home();
        fleet.gateway.kill9().await;
        fleet.gateway.run(&home).await;
        let base = format!("http://{}{}", fleet.gateway.address, opened.http_path);
        let client = crate::ports::client();
        let answer = client
            .get(format!("{base}headers?a=b"))
            .header("origin", "null")
            .header("cookie", "a=b")
            .header("referer", &base)
            .header("x-own", "1")
            .bearer_auth(ANNA);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let policy = answer.headers().get_all("content-security-policy").iter();
        assert!(
            policy
                .into_iter()
                .any(|policy| policy.to_str().unwrap().starts_with("sandbox "))
        );
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        let seen: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(seen["path"], "/headers?a=b");
        let headers = seen["headers"].as_object().unwrap();
        let mut names: Vec<String> = headers.keys().map(|name| name.to_lowercase()).collect();
        names.retain(|name| !["accept", "accept-encoding", "user-agent"].contains(&name.as_str()));
        names.sort();
        assert_eq!(names, ["host", "origin", "x-own"], "{seen}");
        let secret = opened.http_path.trim_end_matches("~c/").trim_start_matches("/ports/");
        assert!(!seen.to_string().contains(secret), "{seen}");

        let moved = client.get(format!("{base}moved")).send().await.unwrap();
        assert_eq!(moved.status(), StatusCode::FOUND);
        let place = moved.headers()["location"].to_str().unwrap();
        assert_eq!(place, format!("{}headers?moved", opened.http_path));
        let slash = client.get(base.trim_end_matches('/')).send().await.unwrap();
        assert_eq!(slash.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(slash.headers()["location"], opened.http_path);
        let body = vec![b'x'; 3 * 1024 * 1024];
        let posted = client.post(format!("{base}x")).body(body).send().await.unwrap();
        assert_eq!(posted.text().await.unwrap().len(), 64);
        let mut pieces = client.get(format!("{base}pieces")).send().await.unwrap();
        assert_eq!(pieces.chunk().await.unwrap().unwrap(), "one");
        client.get(format!("{base}go-on")).send().await.unwrap();
        assert_eq!(pieces.chunk().await.unwrap().unwrap(), "two");

        for wrong in [
            "/ports/".to_owned(),
            format!("/ports/{secret}/"),
            format!("/ports/{secret}~b/"),
            format!("/ports/{secret}~d/"),
            format!("/ports/{}~c/", "0".repeat(64)),
        ] {
            let answer = client
                .get(format!("http://{}{wrong}", fleet.gateway.address))
                .send()
                .await
                .unwrap();
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{wrong}");
            assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
        }
        for process in fleet.workers.iter().chain([&fleet.gateway]) {
            assert!(!process.log().contains(secret), "a secret is in a log");
        }
        fleet.assert_calm();
    });
}

#[test]
fn websockets_go_through_and_end_with_the_port() {
    test(async {
        let fleet = Fleet::start().await;
        let opened = opened(&fleet).await;
        let base = format!("http://{}{}", fleet.gateway.address, opened.http_path);
        let dial = async || {
            let request = crate::ports::client()
                .get(format!("{base}socket"))
                .header("connection", "Upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
            assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
            assert!(!answer.headers().contains_key("toolgate-upgrade"));
            answer.upgrade().await.unwrap()
        };
        let mut socket = dial().await;
        for size in [1, 1000, 1024 * 1024] {
            let sent = vec![b'x'; size];
            let (mut reads, mut writes) = tokio::io::split(&mut socket);
            let mut received = vec![0; size];
            let (read, written) = tokio::join!(reads.read_exact(&mut received), writes.write_all(&sent));
            read.unwrap();
            written.unwrap();
            assert!(received == sent);
        }
        // One that leaves takes nothing with it.
        drop(dial().await);
        socket.write_all(b"y").await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), b'y');
        let cancel = CancelCallRequest {
            call_id: opened.call_id.clone(),
        };
        fleet.tools(ANNA).cancel_call(cancel).await.unwrap();
        let read = timeout(Duration::from_secs(20), socket.read_u8()).await.unwrap();
        assert!(read.is_err(), "with the port goes the tunnel");
        let ended = async || {
            let call_id = opened.call_id.clone();
            let call = fleet.tools(ANNA).get_call(GetCallRequest { call_id }).await;
            call.unwrap().into_inner().call.unwrap()
        };
        eventually("the call has ended", async || ended().await.ending.is_some()).await;
        assert!(completed(&ended().await).output.contains("Connections: 2"));
        fleet.assert_calm();
    });
}

#[test]
fn sdks_of_agent_sandbox_work_where_their_workspace_is() {
    test(async {
        let fleet = Fleet::with_both("", "listen.agent_sandbox = true").await;
        let send = async |method: Method, path: &str, (token, workspace): (&str, &str), body: Vec<u8>| {
            let url = format!("http://{}{path}", fleet.gateway.address);
            let request = http().request(method, url).bearer_auth(token).body(body);
            match workspace {
                "" => request.send().await.unwrap(),
                name => request.header("toolgate-workspace", name).send().await.unwrap(),
            }
        };
        let run = |command: &str| json!({ "command": command }).to_string().into_bytes();
        for (token, workspace, folder) in [(ANNA, "", "a/own"), (ANNA, "wc", "c/own"), (BEN, "", "b/own")] {
            let whom = (token, workspace);
            let ran = send(Method::POST, "/execute", whom, run("pwd; exit 3")).await;
            let ran: Value = serde_json::from_str(&ran.text().await.unwrap()).unwrap();
            let expected = format!("{}\n", fleet.path(folder).display());
            assert_eq!(
                (&ran["stdout"], &ran["exit_code"]),
                (&json!(expected), &json!(3)),
                "{ran}"
            );
            let content: Vec<u8> = (0..=255).cycle().take(300_000).collect();
            let put = send(Method::PUT, "/v1/files/x%2Fy", whom, content.clone()).await;
            assert_eq!(put.status(), StatusCode::NO_CONTENT);
            assert_eq!(std::fs::read(fleet.path(folder).join("x/y")).unwrap(), content);
            let got = send(Method::GET, "/download/x%2Fy", whom, Vec::new()).await;
            assert_eq!(got.bytes().await.unwrap(), content);
        }
        let refused = send(Method::POST, "/execute", (DORA, ""), run("true")).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        let unseen = send(Method::POST, "/execute", (BEN, "wa"), run("true")).await;
        assert_eq!(unseen.status(), StatusCode::NOT_FOUND);
        let nobody = send(Method::POST, "/execute", ("nobody-nobody-nobody", ""), run("true")).await;
        assert_eq!(nobody.status(), StatusCode::UNAUTHORIZED);
        fleet.assert_calm();
    });
}

#[test]
fn a_gateway_that_serves_no_sdks_passes_none_on() {
    test(async {
        let fleet = Fleet::with_each("", "listen.agent_sandbox = true").await;
        // What comes over HTTP/1.1 the console answers.
        for path in ["/process.v1.ProcessService/Execute", "/execute", "/upload"] {
            let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
            let mut grpc = tonic::client::Grpc::new(fleet.channel.clone());
            grpc.ready().await.unwrap();
            let mut request = tonic::Request::new(());
            let token = format!("Bearer {ANNA}").parse().unwrap();
            request.metadata_mut().insert("authorization", token);
            let codec = tonic_prost::ProstCodec::<(), ()>::default();
            let answer = grpc.unary(request, path, codec).await;
            assert_eq!(answer.unwrap_err().code(), tonic::Code::Unimplemented);
        }
        fleet.assert_calm();
    });
}
