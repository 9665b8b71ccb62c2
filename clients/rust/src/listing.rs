//! Lists: tools, also in the forms that model APIs take, and calls.
//!
//! *Invariant:* a list has all pages.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_contract::{Call, ListCallsRequest, ListToolsRequest, ModelRef, ToolDefinition};

use crate::client::{Client, list};
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
        let functions = tools.iter().map(|tool| function(tool, "parameters"));
        functions
            .map(|function| Ok(json!({"type": "function", "function": function?})))
            .collect()
    }

    /// Lists the tools in the form of OpenAI's responses.
    pub async fn openai_responses_tools(&self, request: ListToolsRequest) -> Result<Vec<Value>, Error> {
        let tools = self.tools_for("openai", request).await?;
        let functions = tools.iter().map(|tool| function(tool, "parameters"));
        functions
            .map(|function| {
                let mut function = function?;
                function["type"] = json!("function");
                // Strict mode, the default there, takes only schemas that require every property.
                function["strict"] = json!(false);
                Ok(function)
            })
            .collect()
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
        for (value, base) in [
            (&mut request.workspace, &context.workspace),
            (&mut request.agent, &context.agent),
            (&mut request.client_kind, &context.client_kind),
            (&mut request.parent_call_id, &context.parent_call_id),
        ] {
            if value.is_empty() {
                value.clone_from(base);
            }
        }
        let model = request.model.take();
        let model = model.filter(|model| !model.provider_id.is_empty() || !model.model_id.is_empty());
        let model = model.or_else(|| context.model.clone());
        request.model = model.or_else(|| {
            (!provider.is_empty()).then(|| ModelRef {
                provider_id: provider.to_owned(),
                ..ModelRef::default()
            })
        });
        Ok(list!(self, tool_service.list_tools, request, tools))
    }

    /// Lists calls, newest first, all pages.
    pub async fn list_calls(&self, request: ListCallsRequest) -> Result<Vec<Call>, Error> {
        Ok(list!(self, tool_service.list_calls, request, calls))
    }
}

fn function(tool: &ToolDefinition, schema_key: &str) -> Result<Value, Error> {
    let schema: Box<RawValue> = serde_json::from_str(&tool.input_schema_json)?;
    Ok(json!({"name": tool.name, "description": tool.description, schema_key: schema}))
}
