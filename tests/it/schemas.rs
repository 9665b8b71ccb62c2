//! What models are told of a tool's input, and what is checked all the same.

use serde_json::{Value, json};
use toolgate_contract::{
    CallContext, ExecuteToolRequest, FailureReason, ListToolsRequest, ListToolsResponse, ModelRef,
};

use crate::support::{Server, Setup, failed, request, run, run_request, test};

fn model(provider_id: &str, model_id: &str, package: &str) -> ModelRef {
    ModelRef {
        provider_id: provider_id.to_owned(),
        model_id: model_id.to_owned(),
        package: package.to_owned(),
    }
}

async fn list(server: &Server, model: Option<ModelRef>) -> ListToolsResponse {
    let request = ListToolsRequest {
        model,
        ..Default::default()
    };
    server.tools().list_tools(request).await.unwrap().into_inner()
}

fn schema(listed: &ListToolsResponse, name: &str) -> Value {
    let tool = listed.tools.iter().find(|tool| tool.name == name).unwrap();
    serde_json::from_str(&tool.input_schema_json).unwrap()
}

#[test]
fn a_list_is_in_the_dialect_of_its_model() {
    test(async {
        let config = json!({"provider": {
            "openai": {"options": {"baseURL": "http://127.0.0.1:1"}},
            "work": {"npm": "@ai-sdk/azure", "models": {"local": {"provider": {"npm": "@ai-sdk/openai-compatible"}}}},
        }});
        let setup = Setup {
            config: Some(config),
            ..Setup::default()
        };
        let server = Server::with(setup).await;
        let plain = list(&server, None).await;
        let own = schema(&plain, "read");
        assert!(
            own["$schema"].is_string() && own["properties"]["limit"]["minimum"].is_number(),
            "{own}"
        );
        for (of, is_rewritten) in [
            (model("anthropic", "claude", ""), false),
            (model("openai", "o3", ""), true),
            (model("openai", "o3", "@ai-sdk/openai-compatible"), false),
            (model("work", "m", ""), true),
            (model("work", "local", ""), false),
            (model("work", "local", "@ai-sdk/openai"), true),
        ] {
            let listed = list(&server, Some(of.clone())).await;
            assert_eq!(listed.etag != plain.etag, is_rewritten, "{of:?}");
            let told = schema(&listed, "read");
            if is_rewritten {
                let limit = &told["properties"]["limit"];
                assert_eq!(limit["type"], "integer", "{of:?}");
                assert_eq!((told.get("$schema"), limit.get("minimum")), (None, None), "{of:?}");
                assert_eq!(told["required"], own["required"], "{of:?}");
                assert_eq!(told["additionalProperties"], false, "{of:?}");
            } else {
                assert_eq!(told, own, "{of:?}");
            }
        }
        server.assert_calm();
    });
}

#[test]
fn calls_are_checked_by_the_schema_of_the_tool() {
    test(async {
        let server = Server::start().await;
        let of = model("openai", "o3", "@ai-sdk/openai");
        let request = ExecuteToolRequest {
            context: Some(CallContext {
                model: Some(of.clone()),
                ..Default::default()
            }),
            ..request("read", json!({"filePath": "a", "limit": -1}))
        };
        let call = run(&mut server.tools(), run_request(request)).await.unwrap();
        let failed = failed(&call);
        assert_eq!(failed.reason(), FailureReason::InvalidArguments);
        assert!(failed.error.contains("limit"), "{}", failed.error);
        assert_eq!(call.context.unwrap().model, Some(of));
        server.assert_calm();
    });
}
