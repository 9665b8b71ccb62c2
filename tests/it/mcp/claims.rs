//! What servers say of their tools: told to clients, held against results, believed only where it makes things louder; and tools
//! that run as tasks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::web::{self, Reply, Request, Web};
use super::*;

/// A server with tasks, whose tools are these; `answer` is asked for all other methods.
fn with_tasks(request: &Request, tools: &Value, answer: impl FnOnce(&str, &Value) -> Value) -> Reply {
    let message = request.message();
    match message["method"].as_str() {
        Some("initialize") => web::result(
            &message,
            &json!({
                "protocolVersion": message["params"]["protocolVersion"], "serverInfo": {"name": "own", "version": "1"},
                "capabilities": {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
            }),
        ),
        Some("tools/list") => web::result(&message, &json!({ "tools": tools })),
        Some(method) if message.get("id").is_some() => web::result(&message, &answer(method, &message["params"])),
        Some(_) => Reply::status(202),
        None => Reply::status(405),
    }
}

async fn definition(server: &Server, name: &str) -> ToolDefinition {
    let listed = server.tools().list_tools(ListToolsRequest::default()).await.unwrap();
    let mut tools = listed.into_inner().tools.into_iter();
    tools
        .find(|tool| tool.name == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn what_a_server_claims_is_told_and_held_against_it() {
    test(async {
        let tools = json!([
            {"name": "quiet", "title": "Looks", "inputSchema": {"type": "object"},
             "annotations": {"readOnlyHint": true, "openWorldHint": false},
             "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
            {"name": "loud", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": true, "idempotentHint": true}},
            {"name": "plain", "inputSchema": {"type": "object"}},
        ]);
        let data = Arc::new(Mutex::new(json!({"n": 1})));
        let returned = data.clone();
        let web = Web::start(move |request| {
            with_tasks(request, &tools, |_, _| {
                json!({"content": [{"type": "text", "text": "n"}], "structuredContent": *returned.lock().unwrap()})
            })
        })
        .await;
        let server = service(&[("s", json!({"type": "remote", "url": web.url("/mcp")}))]).await;
        ready(&server, "s").await;

        let quiet = definition(&server, "s_quiet").await;
        assert_eq!(quiet.title, "Looks");
        // It may say that it changes nothing: it is asked for and marked as any.
        assert_eq!(quiet.effects, [i32::from(ToolEffect::Network)]);
        assert_eq!(quiet.permissions, ["s_quiet"]);
        let claims = quiet.claims.unwrap();
        assert_eq!((claims.read_only, claims.open_world), (Some(true), Some(false)));
        assert_eq!((claims.destructive, claims.idempotent), (None, None));
        let schema: Value = serde_json::from_str(&claims.output_schema_json).unwrap();
        assert_eq!(schema["required"], json!(["n"]));
        let loud = definition(&server, "s_loud").await;
        assert_eq!(
            loud.effects,
            [i32::from(ToolEffect::Writes), i32::from(ToolEffect::Network)]
        );
        assert_eq!(loud.claims.unwrap().destructive, Some(true));
        let plain = definition(&server, "s_plain").await;
        assert_eq!((plain.title.as_str(), plain.claims), ("", None));

        let problem = async || {
            let call = server.run("s_quiet", json!({})).await;
            let ended = completed(&call);
            assert_eq!(ended.output, "n");
            let metadata = ended.metadata.as_ref();
            metadata.is_some_and(|metadata| metadata.fields.contains_key("output_schema_problem"))
        };
        assert!(!problem().await);
        for misfit in [json!({"n": "x"}), json!(null)] {
            *data.lock().unwrap() = misfit;
            assert!(problem().await);
        }
    });
}

#[test]
fn a_tool_that_wants_it_runs_as_a_task() {
    test(async {
        let tools = json!([
            {"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
            {"name": "either", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
        ]);
        let looks = Arc::new(AtomicUsize::new(0));
        let (counted, ends) = (looks.clone(), Arc::new(Mutex::new("completed")));
        let end = ends.clone();
        let web = Web::start(move |request| {
            with_tasks(request, &tools, |method, params| match method {
                "tools/call" if params.get("task").is_some() => {
                    json!({"task": {"taskId": "t1", "status": "working", "pollInterval": 100}})
                }
                "tools/call" => json!({"content": [{"type": "text", "text": "at once"}]}),
                "tasks/get" => {
                    let status = match counted.fetch_add(1, Ordering::Relaxed) {
                        0 => "working",
                        _ => *end.lock().unwrap(),
                    };
                    json!({"taskId": params["taskId"], "status": status, "statusMessage": "half", "pollInterval": 100})
                }
                "tasks/result" => json!({"content": [{"type": "text", "text": "late"}]}),
                _ => json!({}),
            })
        })
        .await;
        let server = service(&[("s", json!({"type": "remote", "url": web.url("/mcp")}))]).await;
        ready(&server, "s").await;
        let methods = |name: &str| {
            let seen = web.seen("/mcp");
            seen.iter()
                .filter(|request| request.message()["method"] == name)
                .count()
        };
        assert_eq!(completed(&server.run("s_either", json!({})).await).output, "at once");
        assert_eq!(methods("tasks/get"), 0);
        assert_eq!(completed(&server.run("s_slow", json!({})).await).output, "late");
        assert_eq!((methods("tasks/get"), methods("tasks/result")), (2, 1));

        *ends.lock().unwrap() = "cancelled";
        let call = server.run("s_slow", json!({})).await;
        assert!(failed(&call).error.contains("has cancelled the task: half"), "{call:?}");

        // Somebody cancels the call, and the server is told.
        *ends.lock().unwrap() = "working";
        let before = methods("tasks/get");
        let call = kept("c1", request("s_slow", json!({})));
        let _running = server.tools().execute_tool(call).await.unwrap();
        eventually("it is asked about", async || methods("tasks/get") > before + 1).await;
        assert_eq!(failed(&server.cancel("c1").await).reason(), FailureReason::Cancelled);
        eventually("it is cancelled there", async || methods("tasks/cancel") == 1).await;
        server.assert_calm();
    });
}
