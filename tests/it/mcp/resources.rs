//! Resources of servers, by the tools that models have for them.

use serde_json::json;

use super::web::{self, Reply, Request, Web};
use super::*;

const TOOLS: [&str; 3] = ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"];

fn answer(request: &Request) -> Reply {
    let message = request.message();
    let uri = &message["params"]["uri"];
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"resources": {}},
            "serverInfo": {"name": "own", "version": "1"},
        }),
        Some("resources/list") => json!({"resources": [{"uri": "own://a", "name": "a"}]}),
        Some("resources/templates/list") => {
            json!({"resourceTemplates": [{"uriTemplate": "own://{x}", "name": "x"}]})
        }
        Some("resources/read") => json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": "what it says"}]}),
        Some(_) => return Reply::status(202),
        None => return Reply::status(405),
    };
    web::result(&message, &result)
}

#[test]
fn models_have_tools_for_resources_as_long_as_there_are_any() {
    test(async {
        let web = Web::start(answer).await;
        let config = json!({
            "mcp": {"s": {"type": "remote", "url": web.url("/mcp")}, "t": faulty_server("good")},
            "permission": {"read": {"*": "allow", "mcp:s:own://secret": "deny"}},
        });
        let setup = Setup {
            config: Some(config),
            ..Setup::default()
        };
        let server = Server::with(setup).await;
        ready(&server, "s").await;
        ready(&server, "t").await;
        let listed = names(&server).await;
        for tool in TOOLS {
            assert!(listed.iter().any(|name| name == tool), "{tool}: {listed:?}");
        }
        let of = async |tool: &str, input: Value| {
            let call = server.run(tool, input).await;
            serde_json::from_str::<Value>(&completed(&call).output).unwrap()
        };
        let resources = json!({"resources": [{"uri": "own://a", "name": "a", "server": "s"}]});
        assert_eq!(of(TOOLS[0], json!({})).await, resources);
        assert_eq!(of(TOOLS[0], json!({"server": "s"})).await, resources);
        let templates = json!({"resourceTemplates": [{"uriTemplate": "own://{x}", "name": "x", "server": "s"}]});
        assert_eq!(of(TOOLS[1], json!({})).await, templates);
        let call = server.run(TOOLS[2], json!({"server": "s", "uri": "own://a"})).await;
        let read = completed(&call);
        assert_eq!(read.output, "Resource: own://a\nMIME: text/plain\nwhat it says");

        let check = async |tool: &str, input: Value, words: &str| {
            let call = server.run(tool, input).await;
            assert!(failed(&call).error.contains(words), "{call:?}");
        };
        check(TOOLS[0], json!({"server": "t"}), "does not support resources").await;
        check(TOOLS[0], json!({"server": "u"}), "is not connected").await;
        let call = server
            .run(TOOLS[2], json!({"server": "s", "uri": "own://secret"}))
            .await;
        assert_eq!(failed(&call).reason(), FailureReason::Denied);
        assert_eq!(
            web.seen("/mcp")
                .iter()
                .filter(|request| request.body.contains("own://secret"))
                .count(),
            0
        );

        let without = service(&[("t", faulty_server("good"))]).await;
        ready(&without, "t").await;
        let listed = names(&without).await;
        assert!(!listed.iter().any(|name| TOOLS.contains(&name.as_str())), "{listed:?}");
    });
}
