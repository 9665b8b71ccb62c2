//! Lists of tools and results of calls: the same in every language, and in the forms that model APIs take.

use serde_json::{Value, json};
use toolgate_contract::{Call, ListToolsRequest, ModelRef, ToolDefinition, json::from_json};

use super::driver::{pack, unpack};
use super::{Client, languages};
use crate::support::*;

#[test]
fn every_library_lists_the_same() {
    test(async {
        let server = Server::start().await;
        let request = ListToolsRequest::default();
        let all = server
            .tools()
            .list_tools(request.clone())
            .await
            .unwrap()
            .into_inner()
            .tools;
        for language in languages() {
            let client = Client::of(language, &server).await;
            for page_size in [0, 3] {
                let paged = ListToolsRequest {
                    page_size,
                    ..request.clone()
                };
                let done = client.ask("tools", json!({"request": pack(&paged)})).await.unwrap();
                let listed: Vec<ToolDefinition> = done["tools"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|it| unpack(it).unwrap())
                    .collect();
                assert_eq!(listed, all, "{language}, {page_size} a page");
            }
        }
    });
}

/// What each form is to be, made from the listed definitions.
async fn expected(server: &Server, provider: &str, model: &str, form: fn(&ToolDefinition) -> Value) -> Vec<Value> {
    let request = ListToolsRequest {
        model: Some(ModelRef {
            provider_id: provider.to_owned(),
            model_id: model.to_owned(),
            ..ModelRef::default()
        }),
        ..ListToolsRequest::default()
    };
    let listed = server.tools().list_tools(request).await.unwrap().into_inner().tools;
    listed.iter().map(form).collect()
}

fn schema(tool: &ToolDefinition) -> Value {
    serde_json::from_str(&tool.input_schema_json).unwrap()
}

#[test]
fn model_apis_get_the_forms_that_they_take() {
    test(async {
        let server = Server::start().await;
        let model = |provider: &str, model: &str| ListToolsRequest {
            model: Some(ModelRef {
                provider_id: provider.to_owned(),
                model_id: model.to_owned(),
                ..ModelRef::default()
            }),
            ..ListToolsRequest::default()
        };
        let openai = expected(&server, "openai", "gpt-5", |tool| {
            let function = json!({"name": tool.name, "description": tool.description, "parameters": schema(tool)});
            json!({"type": "function", "function": function})
        });
        let responses = expected(&server, "openai", "gpt-5", |tool| {
            let (name, description, parameters) = (&tool.name, &tool.description, schema(tool));
            json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
        });
        let anthropic = expected(
            &server,
            "anthropic",
            "claude-sonnet-4-5",
            |tool| json!({"name": tool.name, "description": tool.description, "input_schema": schema(tool)}),
        );
        let gemini = expected(
            &server,
            "google",
            "gemini-3-pro",
            |tool| json!({"name": tool.name, "description": tool.description, "parameters": schema(tool)}),
        );
        let forms = [
            ("openai", model("openai", "gpt-5"), json!(openai.await)),
            ("openai_responses", model("openai", "gpt-5"), json!(responses.await)),
            (
                "anthropic",
                model("anthropic", "claude-sonnet-4-5"),
                json!(anthropic.await),
            ),
            (
                "gemini",
                model("google", "gemini-3-pro"),
                json!([{"functionDeclarations": gemini.await}]),
            ),
        ];
        for language in languages() {
            let client = Client::of(language, &server).await;
            for (name, request, expected) in &forms {
                let done = client.ask("formats", json!({"request": pack(request)})).await.unwrap();
                assert_eq!(&done[name], expected, "{language}: {name}");
            }
        }
    });
}

#[test]
fn model_apis_get_results_in_the_forms_that_they_take() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../../clients/forms.json")).unwrap();
    test(async {
        let server = Server::start().await;
        for language in languages() {
            let client = Client::of(language, &server).await;
            for case in &cases {
                let call: Call = from_json(&case["call"].to_string()).unwrap();
                let command = json!({"call": pack(&call), "tool": case["tool"], "model_call": case["model_call"]});
                let done = client.ask("forms", command).await.unwrap();
                for form in ["openai", "openai_responses", "anthropic", "gemini"] {
                    assert_eq!(done[form], case[form], "{language}, {form}: {}", case["what"]);
                }
            }
        }
    });
}
