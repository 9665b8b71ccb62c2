//! Lists: tools, also in the forms that model APIs take, and calls.
//!
//! *Invariant:* a list has all pages.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_contract::{Call, ListCallsRequest, ListToolsRequest, ModelRef, ToolDefinition};

use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Lists the tools that an agent on a model may use, in the order in which models are told of them. What the request
    /// leaves out is taken from the client.
    pub async fn list_tools(&self, request: ListToolsRequest) -> Result<Vec<ToolDefinition>, Error> {
        self.tools_for("", request).await
    }

    /// Lists the tools in the form of OpenAI's chat completions, which most other model servers take as well.
    pub async fn openai_tools(&self, request: ListToolsRequest) -> Result<Vec<Value>, Error> {
        let tools = self.tools_for("openai", request).await?;
        let form = |tool: &ToolDefinition| Ok(json!({"type": "function", "function": function(tool, "parameters")?}));
        tools.iter().map(form).collect()
    }

    /// Lists the tools in the form of Anthropic's messages.
    pub async fn anthropic_tools(&self, request: ListToolsRequest) -> Result<Vec<Value>, Error> {
        let tools = self.tools_for("anthropic", request).await?;
        tools.iter().map(|tool| function(tool, "input_schema")).collect()
    }

    /// Lists the tools in the form of Gemini's contents: one list of function declarations.
    pub async fn gemini_tools(&self, request: ListToolsRequest) -> Result<Vec<Value>, Error> {
        let tools = self.tools_for("google", request).await?;
        let declarations: Result<Vec<Value>, Error> = tools.iter().map(|tool| function(tool, "parameters")).collect();
        Ok(vec![json!({"functionDeclarations": declarations?})])
    }

    /// Lists tools for a model of a provider, unless the request or the client names a model.
    async fn tools_for(&self, provider: &str, mut request: ListToolsRequest) -> Result<Vec<ToolDefinition>, Error> {
        let context = self.context();
        let fill = |value: &mut String, base: &String| {
            if value.is_empty() {
                value.clone_from(base);
            }
        };
        fill(&mut request.workspace, &context.workspace);
        fill(&mut request.agent, &context.agent);
        fill(&mut request.client, &context.client);
        fill(&mut request.parent_call_id, &context.parent_call_id);
        let is_named = |model: &ModelRef| !model.provider_id.is_empty() || !model.model_id.is_empty();
        let model = request.model.take().filter(is_named).or_else(|| context.model.clone());
        request.model = model.or_else(|| {
            (!provider.is_empty()).then(|| ModelRef {
                provider_id: provider.to_owned(),
                ..ModelRef::default()
            })
        });
        let service = self.tool_service();
        let mut tools = Vec::new();
        loop {
            let page = self
                .unary(request.clone(), |request| {
                    let mut service = service.clone();
                    async move { service.list_tools(request).await }
                })
                .await?;
            tools.extend(page.tools);
            if page.next_page_token.is_empty() {
                return Ok(tools);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Lists calls, newest first, all pages.
    pub async fn list_calls(&self, request: ListCallsRequest) -> Result<Vec<Call>, Error> {
        let (mut request, service) = (request, self.tool_service());
        let mut calls = Vec::new();
        loop {
            let page = self
                .unary(request.clone(), |request| {
                    let mut service = service.clone();
                    async move { service.list_calls(request).await }
                })
                .await?;
            calls.extend(page.calls);
            if page.next_page_token.is_empty() {
                return Ok(calls);
            }
            request.page_token = page.next_page_token;
        }
    }
}

fn function(tool: &ToolDefinition, schema_key: &str) -> Result<Value, Error> {
    let schema: Box<RawValue> = serde_json::from_str(&tool.input_schema_json)?;
    Ok(json!({"name": tool.name, "description": tool.description, schema_key: schema}))
}
