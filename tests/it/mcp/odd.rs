//! Servers that are reached by HTTP and do what they should not, or what few do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::faulty::{is_healthy, memory_of};
use super::web::{self, Reply, Web};
use super::*;

const EVENTS: &str = "text/event-stream";
const MIB: usize = 1 << 20;

fn remote(web: &Web) -> Value {
    json!({"type": "remote", "url": web.url("/mcp")})
}

/// A server whose answers to calls are these.
async fn answering(call: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Web {
    Web::start(move |request| web::mcp(request, &call)).await
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

#[test]
fn results_arrive_as_they_were_sent() {
    test(async {
        let sent = json!({"content": [{"type": "text", "text": "done"}], "metadata": {"own": 1}, "x-other": true});
        let answer = {
            let sent = sent.clone();
            move |message: &Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": sent})
        };
        let half = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"cut \ud83d"}]}}"#;
        let half = |message: &Value| half.replace("ID", &message["id"].to_string());
        let (as_json, as_event) = (answer.clone(), answer);
        let servers = [
            ("json", answering(move |message| Reply::json(&as_json(message))).await),
            (
                "event",
                answering(move |message| Reply::status(200).text(EVENTS, event(&as_event(message)))).await,
            ),
            (
                "half",
                answering(move |message| Reply::status(200).text("application/json", half(message))).await,
            ),
            (
                "half_event",
                answering(move |message| Reply::status(200).text(EVENTS, format!("data: {}\n\n", half(message)))).await,
            ),
        ];
        let entries: Vec<_> = servers.iter().map(|(name, web)| (*name, remote(web))).collect();
        let server = service(&entries).await;
        for (name, _) in &servers {
            ready(&server, name).await;
            let call = server.run(&format!("{name}_work"), json!({})).await;
            let end = completed(&call);
            if name.starts_with("half") {
                assert_eq!(end.output, "cut \u{fffd}", "{name}");
            } else {
                assert_eq!(end.output, "done", "{name}");
                assert!(
                    end.metadata.as_ref().unwrap().fields.contains_key("own"),
                    "{name}: {end:?}"
                );
            }
        }
        server.assert_calm();
    });
}

#[test]
fn faulty_servers_harm_nobody_else() {
    test(async {
        let too_large = "MCP error -32000: The server sent a message of more than 16 MiB";
        let begun = |message: &Value| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":""#,
                message["id"]
            )
        };
        let many = |message: &Value| {
            let zeros = "0,".repeat(4 * MIB);
            format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{zeros}0]}}}}"#,
                message["id"]
            )
        };
        let x = "x".repeat(MIB);
        let (x_json, x_event) = (x.clone(), x);
        let servers = [
            (
                "huge",
                too_large,
                answering(move |message| {
                    Reply::status(200)
                        .text("application/json", begun(message))
                        .then(&x_json, 100)
                })
                .await,
            ),
            (
                "huge_event",
                too_large,
                answering(move |message| {
                    let start = format!("data: {}", begun(message));
                    Reply::status(200).text(EVENTS, start).then(&x_event, 100)
                })
                .await,
            ),
            (
                "many",
                "MCP error -32000: The server sent a message of more than 500000 values",
                answering(move |message| Reply::status(200).text("application/json", many(message))).await,
            ),
            (
                "many_event",
                "MCP error -32000: The server sent a message of more than 500000 values",
                answering(move |message| Reply::status(200).text(EVENTS, format!("data: {}\n\n", many(message)))).await,
            ),
            (
                "garbage",
                "MCP error -32000: The server's answer cannot be read",
                answering(|_| Reply::status(200).text("application/json", "{oops")).await,
            ),
            (
                "other",
                "MCP error -32000: The server's answer is none to what it was asked",
                answering(|_| Reply::json(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})))
                    .await,
            ),
            (
                "page",
                "MCP error -32000",
                answering(|_| Reply::status(200).text("text/html", "<p>Hello")).await,
            ),
            ("broken", "MCP error -32000", answering(|_| Reply::status(500)).await),
            (
                "refuses",
                "MCP error -32602: not so",
                answering(|_| {
                    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "not so"}});
                    Reply::status(400).text("application/json", error.to_string())
                })
                .await,
            ),
            (
                "cut",
                "MCP error",
                answering(|_| Reply::status(200).text(EVENTS, "data: {\"jsonrpc\"")).await,
            ),
            (
                "asks",
                "MCP error -32000: The server does not read what it is sent",
                Web::start(|request| {
                    let message = request.message();
                    if message.get("result").is_some() {
                        return Reply::status(202).hanging();
                    }
                    web::mcp(request, |_| {
                        let ping = event(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
                        Reply::status(200).text(EVENTS, "").then(&ping, 100_000).hanging()
                    })
                })
                .await,
            ),
        ];
        let mut entries: Vec<_> = servers.iter().map(|(name, _, web)| (*name, remote(web))).collect();
        entries.push(("fine", faulty_server("fine")));
        let mut server = service(&entries).await;
        ready(&server, "fine").await;
        for (name, error, _) in &servers {
            ready(&server, name).await;
            let call = server.run(&format!("{name}_work"), json!({})).await;
            assert!(
                failed(&call).error.starts_with(error),
                "{name}: {:?}",
                failed(&call).error
            );
            is_healthy(&server).await;
        }
        let memory = memory_of(&server);
        assert!(memory < 400, "{memory} MiB");
        assert!(
            server.log().len() < 1_000_000,
            "{} bytes were logged",
            server.log().len()
        );
        server.stop().await;
    });
}

#[test]
fn a_call_that_hangs_ends_with_its_time_and_with_its_cancellation() {
    test(async {
        let web = answering(|_| Reply::status(200).text(EVENTS, ": wait\n\n").hanging()).await;
        let mut limited = remote(&web);
        limited["timeout"] = json!(1000);
        let server = service(&[("limited", limited), ("patient", remote(&web))]).await;
        ready(&server, "limited").await;
        let call = server.run("limited_work", json!({})).await;
        assert_eq!(failed(&call).error, "MCP error -32001: Request timed out");

        ready(&server, "patient").await;
        let mut stream = server
            .tools()
            .execute_tool(kept("c1", request("patient_work", json!({}))))
            .await
            .unwrap()
            .into_inner();
        next_such(&mut stream, |event| matches!(event, call_event::Event::Running(_))).await;
        let cancel = CancelCallRequest {
            call_id: "c1".to_owned(),
        };
        server.tools().cancel_call(cancel).await.unwrap();
        assert_eq!(failed(&server.get("c1").await).reason(), FailureReason::Cancelled);
        eventually("the server is told of both", async || {
            let told = web.seen("/mcp");
            let told = told
                .iter()
                .filter(|request| request.body.contains("notifications/cancelled"));
            told.count() == 2
        })
        .await;
    });
}

#[test]
fn a_server_that_forgets_its_sessions_is_listed_anew() {
    test(async {
        let session = Arc::new(AtomicUsize::new(1));
        let of_server = session.clone();
        let web = Web::start(move |request| {
            let message = request.message();
            let now = of_server.load(Ordering::Relaxed);
            let id = format!("session-{now}");
            match message["method"].as_str() {
                Some("initialize") => web::mcp(request, web::fine).header("mcp-session-id", id),
                _ if request.method == "POST" && request.header("mcp-session-id") != id => Reply::status(404),
                Some("tools/list") if now > 1 => web::listed(&message, &["work", "more"]),
                _ => web::mcp(request, web::fine),
            }
        })
        .await;
        let server = service(&[("s", remote(&web))]).await;
        ready(&server, "s").await;
        assert!(!names(&server).await.contains(&"s_more".to_owned()));
        session.store(2, Ordering::Relaxed);
        let call = server.run("s_work", json!({})).await;
        assert_eq!(completed(&call).output, "fine");
        eventually("the new tool", async || {
            names(&server).await.contains(&"s_more".to_owned())
        })
        .await;
    });
}

#[test]
fn tools_with_imperfect_schemas_are_kept() {
    test(async {
        let server = service(&[("s", faulty_server("shapes"))]).await;
        ready(&server, "s").await;
        let listed = server.tools().list_tools(ListToolsRequest::default()).await.unwrap();
        let tools = listed.into_inner().tools;
        let schema = |name: &str| -> Value {
            let tool = tools.iter().find(|tool| tool.name == name);
            let tool = tool.unwrap_or_else(|| panic!("{name} is missing"));
            let schema: Value = serde_json::from_str(&tool.input_schema_json).unwrap();
            assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}: {schema}");
            schema
        };
        let check = |name: &str, expected: Value| assert_eq!(schema(name)["properties"]["a"], expected, "{name}");
        check("s_fine", json!({"type": "string"}));
        check("s_alias", json!({"type": "integer"}));
        check("s_upper", json!({"type": "string"}));
        check("s_required", json!({"type": "string"}));
        assert_eq!(schema("s_required")["required"], json!(["a"]));
        check("s_no_items", json!({"type": "array"}));
        let tuple = json!([{"type": "string"}, {"type": "integer"}]);
        check("s_tuple", json!({"type": "array", "prefixItems": tuple}));
        check("s_word_items", json!({"type": "array", "items": {"type": "string"}}));
        check("s_enum", json!({"type": "string"}));
        check("s_number_text", json!({"type": "string", "description": "12"}));
        check("s_no_text", json!({"type": "string"}));
        check("s_no_choice", json!({}));
        check("s_quoted", json!({"type": "integer", "minimum": 1}));
        check("s_nothing", json!({}));
        check("s_word", json!({"type": "string"}));
        check("s_list", json!({"type": "object", "properties": {}}));
        check("s_unknown", json!({}));

        let (state, problem) = source(&server, "s").await;
        assert_eq!(state, ToolSourceState::Ready);
        for named in [
            "s_alias: properties/a/type (\"int\") is read as \"integer\"",
            "s_enum: properties/a/enum ({}) is left out",
            "s_tuple: properties/a/",
        ] {
            assert!(problem.contains(named), "{named}: {problem}");
        }
        assert!(!problem.contains("s_fine"), "{problem}");
        let call = server.run("s_alias", json!({"a": 1})).await;
        assert_eq!(completed(&call).output, "fine");
    });
}
