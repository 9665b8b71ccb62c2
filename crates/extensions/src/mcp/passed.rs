//! Prompts and resources of a server, as a tool that is not advertised: what a client reads of a server is a call like any
//! other, with a record and a permission (`docs/spec/extensions.md` §3.5).
//!
//! *Invariant:* nothing is read before the permission is given. What a client gets is what the hooks have left, once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use toolgate_model::{Ask, Definition, Effect, OutputText, Source, ToolOutput};
use toolgate_tool::{Offer, Properties, Tool, ToolContext, ToolError};

use super::attending::{Attending, Method};
use super::names::full_name;
use super::result;
use super::shared::Shared;

const READ: &str = "resources/read";
const PROMPT: &str = "prompts/get";

/// Returns the name of the tool by which a server's prompts and resources are read.
pub(super) fn name_of(server: &str) -> String {
    full_name("mcp-read", server)
}

/// Returns the pattern that the permission to read a resource has.
pub(super) fn pattern_of_resource(server: &str, uri: &str) -> String {
    format!("mcp:{server}:{uri}")
}

/// Returns the pattern that the permission to read a prompt has.
pub(super) fn pattern_of_prompt(server: &str, prompt: &str) -> String {
    format!("mcp:{server}:prompt:{prompt}")
}

/// The tool.
pub(super) struct Passed {
    name: String,
    limit: Duration,
    server: Arc<Shared>,
}

impl Passed {
    pub(super) fn new(limit: Duration, server: Arc<Shared>) -> Self {
        Self {
            name: name_of(server.name()),
            limit,
            server,
        }
    }
}

#[async_trait]
impl Tool for Passed {
    fn name(&self) -> &str {
        &self.name
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "The server that is meant, if others have names alike"},
                "uri": {"type": "string", "description": "The address of a resource"},
                "prompt": {"type": "string", "description": "The name of a prompt"},
                "arguments": {"type": "object", "description": "Arguments of the prompt"},
            },
            "additionalProperties": false,
        })
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        let description = "Reads a resource or a prompt of an MCP server";
        Definition {
            permissions: vec!["read".to_owned()],
            advertised: false,
            ..Definition::foreign(
                &self.name,
                description,
                &self.input_schema(),
                Source::Mcp,
                &[Effect::Network],
            )
        }
    }

    fn properties(&self) -> Properties {
        Properties {
            resumable: true,
            runs_after_hooks: true,
            ..Properties::NONE
        }
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let text = |key: &str| input[key].as_str();
        let server = self.server.name();
        if let Some(other) = text("server").filter(|named| *named != server) {
            return Err(ToolError::failed(format!(
                "This tool reads what the MCP server \"{server}\" has, not \"{other}\"."
            )));
        }
        let (method, what, params) = match (text("uri"), text("prompt")) {
            (Some(uri), None) => (READ, pattern_of_resource(server, uri), json!({ "uri": uri })),
            (None, Some(prompt)) => {
                let mut params = json!({ "name": prompt });
                if let Some(arguments) = input.get("arguments") {
                    params["arguments"] = arguments.clone();
                }
                (PROMPT, pattern_of_prompt(server, prompt), params)
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err(ToolError::failed(
                    "Name either a resource (`uri`) or a prompt (`prompt`).",
                ));
            }
        };
        let ask = Ask {
            title: what.clone(),
            always: vec![format!("mcp:{server}:*")],
            ..Ask::new("read", vec![what.clone()])
        };
        ctx.permission.ask(ask).await?;
        let Value::Object(params) = params else {
            return Err(ToolError::failed("The arguments are not an object."));
        };
        let raw = Attending::new(ctx, &self.server)
            .run(Method::Plain(method), params, &[], self.limit)
            .await?;
        Ok(ToolOutput {
            title: what,
            output: OutputText::Text(read(&raw)),
            ..result::convert(&json!({"content": blocks(&raw)}))?
        })
    }
}

/// Returns the blocks of what was read: contents of a resource, or messages of a prompt.
fn blocks(raw: &Value) -> Vec<Value> {
    let contents = raw["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let messages = raw["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let contents = contents
        .iter()
        .map(|content| json!({"type": "resource", "resource": content}));
    contents
        .chain(messages.iter().map(|message| message["content"].clone()))
        .collect()
}

/// Returns what was read as text for a record.
fn read(raw: &Value) -> String {
    let mut shown = Map::new();
    for key in ["contents", "messages", "description"] {
        if let Some(value) = raw.get(key) {
            shown.insert(key.to_owned(), without_bytes(value));
        }
    }
    Value::Object(shown).to_string()
}

/// What is attached is not text as well.
fn without_bytes(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_bytes).collect(),
        Value::Object(entries) => {
            let kept = entries
                .iter()
                .filter(|(key, _)| !["blob", "data"].contains(&key.as_str()));
            kept.map(|(key, value)| (key.clone(), without_bytes(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_text_without_files() {
        let raw =
            json!({"contents": [{"uri": "u", "mimeType": "image/png", "blob": "AAAA"}], "resultType": "complete"});
        assert_eq!(read(&raw), r#"{"contents":[{"uri":"u","mimeType":"image/png"}]}"#);
        assert_eq!(blocks(&raw).len(), 1);
        let raw = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "t"}}]});
        assert_eq!(blocks(&raw), [json!({"type": "text", "text": "t"})]);
    }

    #[test]
    fn a_server_has_one_such_tool() {
        assert_eq!(name_of("my srv"), "mcp-read_my_srv");
    }
}
