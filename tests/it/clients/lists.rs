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

/// A form: its name, a provider and a model that take it, and how a tool looks in it.
type Form = (&'static str, &'static str, &'static str, fn(&ToolDefinition) -> Value);

const FORMS: [Form; 4] = [
    (
        "openai",
        "openai",
        "gpt-5",
        |tool| json!({"type": "function", "function": function(tool, "parameters")}),
    ),
    ("openai_responses", "openai", "gpt-5", |tool| {
        let mut function = function(tool, "parameters");
        function["type"] = json!("function");
        function["strict"] = json!(false);
        function
    }),
    ("anthropic", "anthropic", "claude-sonnet-4-5", |tool| {
        function(tool, "input_schema")
    }),
    ("gemini", "google", "gemini-3-pro", |tool| function(tool, "parameters")),
];

fn function(tool: &ToolDefinition, schema_key: &str) -> Value {
    let schema: Value = serde_json::from_str(&tool.input_schema_json).unwrap();
    json!({"name": tool.name, "description": tool.description, schema_key: schema})
}

/// The request that lists for a model of a provider, and what it is to give in a form.
async fn listed(server: &Server, &(name, provider, _, form): &Form, model: &str) -> (ListToolsRequest, Value) {
    let request = ListToolsRequest {
        model: Some(ModelRef {
            provider_id: provider.to_owned(),
            model_id: model.to_owned(),
            ..ModelRef::default()
        }),
        ..ListToolsRequest::default()
    };
    let response = server.tools().list_tools(request.clone()).await.unwrap().into_inner();
    let tools: Value = response.tools.iter().map(form).collect();
    let is_one_list = name == "gemini";
    let list = if is_one_list {
        json!([{"functionDeclarations": tools}])
    } else {
        tools
    };
    (request, list)
}

#[test]
fn model_apis_get_the_forms_that_they_take() {
    test(async {
        let server = Server::start().await;
        let mut cases = Vec::new();
        for form in &FORMS {
            let (request, list) = listed(&server, form, form.2).await;
            cases.push((form.0, request, list));
            // Who names no model gets the list for the provider's models.
            let (_, list) = listed(&server, form, "").await;
            cases.push((form.0, ListToolsRequest::default(), list));
        }
        for language in languages() {
            let client = Client::of(language, &server).await;
            for (name, request, expected) in &cases {
                let done = client.ask("formats", json!({"request": pack(request)})).await.unwrap();
                assert_eq!(&done[name], expected, "{language}: {name} of {request:?}");
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
