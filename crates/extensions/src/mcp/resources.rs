//! Resources of servers for models: what there is, and one of them (`docs/spec/extensions.md` §3.5). The tools are those that
//! OpenCode has, under its names.
//!
//! *Invariant:* nothing is listed or read before the permission is given. They are offered as long as a server has resources.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use toolgate_model::{Ask, Definition, Effect, OutputText, Source, ToolOutput};
use toolgate_tool::{Offer, Properties, Tool, ToolContext, ToolError};

use super::Servers;
use super::attending::{Attending, Method};
use super::passed::pattern_of_resource;
use super::result::{self, MAX_FILES};
use super::settings::CALL_LIMIT;
use super::shared::{List, Shared};

/// What a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Lists(List),
    Reads,
}

/// One of the tools.
struct OfResources {
    name: &'static str,
    description: &'static str,
    does: Does,
    workspace: String,
    servers: Arc<Servers>,
}

/// Makes the tools for a workspace.
pub fn resource_tools(servers: &Arc<Servers>, workspace: &str) -> Vec<Arc<dyn Tool>> {
    let tools = [
        (
            "list_mcp_resources",
            "Lists the resources of MCP servers, or of one of them: addresses that read_mcp_resource reads",
            Does::Lists(List::Resources),
        ),
        (
            "list_mcp_resource_templates",
            "Lists the templates of MCP servers, or of one of them, that addresses of resources can be made from",
            Does::Lists(List::Templates),
        ),
        (
            "read_mcp_resource",
            "Reads a resource of an MCP server by its address",
            Does::Reads,
        ),
    ];
    let tool = |(name, description, does)| {
        Arc::new(OfResources {
            name,
            description,
            does,
            workspace: workspace.to_owned(),
            servers: Arc::clone(servers),
        }) as Arc<dyn Tool>
    };
    tools.into_iter().map(tool).collect()
}

impl OfResources {
    /// Returns the servers that have resources, or the one that is named.
    fn servers(&self, named: Option<&str>) -> Result<Vec<Arc<Shared>>, ToolError> {
        let all = self.servers.known.of(&self.workspace);
        let has = |server: &Arc<Shared>| server.open().is_some_and(|(_, offers)| offers.resources);
        let Some(named) = named else {
            return Ok(all.into_iter().filter(has).collect());
        };
        let server = all.into_iter().find(|server| server.name() == named);
        match server.filter(|server| server.open().is_some()) {
            None => Err(ToolError::failed(format!("MCP server \"{named}\" is not connected"))),
            Some(server) if !has(&server) => Err(ToolError::failed(format!(
                "MCP server \"{named}\" does not support resources"
            ))),
            Some(server) => Ok(vec![server]),
        }
    }

    async fn list(&self, list: List, named: Option<&str>, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let asked: Vec<String> = match named {
            Some(named) => vec![named.to_owned()],
            None => self
                .servers(None)?
                .iter()
                .map(|server| server.name().to_owned())
                .collect(),
        };
        let mut patterns: Vec<String> = asked.iter().map(|server| pattern_of_resource(server, "*")).collect();
        if patterns.is_empty() {
            patterns.push("mcp:*".to_owned());
        }
        let ask = Ask {
            title: self.name.to_owned(),
            always: patterns.clone(),
            ..Ask::new("read", patterns)
        };
        ctx.permission.ask(ask).await?;
        let mut servers = self.servers(named)?;
        // One may have come meanwhile that nobody was asked about.
        servers.retain(|server| asked.iter().any(|name| name == server.name()));
        let mut all = Vec::new();
        for server in servers {
            let listed = ctx.cancelled.run_until_cancelled(server.listed(list, CALL_LIMIT)).await;
            for mut item in listed.ok_or(ToolError::Cancelled)?.iter().cloned() {
                if let Value::Object(entries) = &mut item {
                    entries.insert("server".to_owned(), json!(server.name()));
                    all.push(item);
                }
            }
        }
        let listed = json!({ list.key(): all });
        Ok(ToolOutput {
            title: self.name.to_owned(),
            output: OutputText::Text(serde_json::to_string_pretty(&listed).unwrap_or_default()),
            ..ToolOutput::default()
        })
    }

    async fn read(&self, named: &str, uri: &str, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let what = pattern_of_resource(named, uri);
        let ask = Ask {
            title: what.clone(),
            always: vec![pattern_of_resource(named, "*")],
            ..Ask::new("read", vec![what.clone()])
        };
        ctx.permission.ask(ask).await?;
        let servers = self.servers(Some(named))?;
        let Some(server) = servers.first() else {
            return Err(ToolError::failed(format!("MCP server \"{named}\" is not connected")));
        };
        let Value::Object(params) = json!({ "uri": uri }) else {
            return Err(ToolError::failed("The arguments are not an object."));
        };
        let attending = Attending::new(ctx, server);
        let raw = attending
            .run(Method::Plain("resources/read"), params, &[], CALL_LIMIT)
            .await?;
        let output = shown(&raw)?;
        Ok(ToolOutput { title: what, ..output })
    }
}

/// Returns what was read, each content after its address and its type.
fn shown(raw: &Value) -> Result<ToolOutput, ToolError> {
    let (mut texts, mut attachments, mut left_out) = (Vec::new(), Vec::new(), 0);
    for content in raw["contents"].as_array().into_iter().flatten() {
        let block = json!({"type": "resource", "resource": content});
        let converted = result::convert(&json!({ "content": [block] }))?;
        let mut text = format!("Resource: {}", content["uri"].as_str().unwrap_or_default());
        if let Some(mime) = content["mimeType"].as_str() {
            text.push_str(&format!("\nMIME: {mime}"));
        }
        if let OutputText::Text(read) = converted.output
            && !read.is_empty()
        {
            text.push('\n');
            text.push_str(&read);
        }
        texts.push(text);
        for file in converted.attachments {
            match attachments.len() < MAX_FILES {
                true => attachments.push(file),
                false => left_out += 1,
            }
        }
    }
    if left_out > 0 {
        texts.push(result::files_left_out(left_out));
    }
    Ok(ToolOutput {
        output: OutputText::Text(texts.join("\n\n")),
        attachments,
        ..ToolOutput::default()
    })
}

#[async_trait]
impl Tool for OfResources {
    fn name(&self) -> &str {
        self.name
    }

    fn input_schema(&self) -> Value {
        let server = json!({"type": "string", "description": "The name of the MCP server"});
        match self.does {
            Does::Lists(_) => {
                json!({"type": "object", "properties": {"server": server}, "additionalProperties": false})
            }
            Does::Reads => json!({
                "type": "object",
                "properties": {
                    "server": server,
                    "uri": {"type": "string", "description": "The address of the resource"},
                },
                "required": ["server", "uri"],
                "additionalProperties": false,
            }),
        }
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        Definition {
            permissions: vec!["read".to_owned()],
            ..Definition::foreign(
                self.name,
                self.description,
                &self.input_schema(),
                Source::Builtin,
                &[Effect::Network],
            )
        }
    }

    fn is_offered(&self, _offer: &Offer<'_>) -> bool {
        self.servers(None).is_ok_and(|servers| !servers.is_empty())
    }

    fn example(&self) -> &str {
        match self.does {
            Does::Lists(_) => "{}",
            Does::Reads => r#"{"server": "docs", "uri": "docs://index"}"#,
        }
    }

    fn properties(&self) -> Properties {
        Properties {
            resumable: true,
            runs_after_hooks: self.does == Does::Reads,
            ..Properties::NONE
        }
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let server = input["server"].as_str();
        match self.does {
            Does::Lists(list) => self.list(list, server, ctx).await,
            Does::Reads => {
                let uri = input["uri"].as_str().unwrap_or_default();
                self.read(server.unwrap_or_default(), uri, ctx).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_shown_with_its_address() {
        let raw = json!({"contents": [
            {"uri": "a://1", "mimeType": "text/plain", "text": "one"},
            {"uri": "a://2", "mimeType": "image/png", "blob": "AAAA"},
            {"uri": "a://3", "text": "three"},
        ]});
        let read = shown(&raw).unwrap();
        let expected =
            "Resource: a://1\nMIME: text/plain\none\n\nResource: a://2\nMIME: image/png\n\nResource: a://3\nthree";
        assert_eq!(read.output, OutputText::Text(expected.to_owned()));
        assert_eq!(read.attachments.len(), 1);
        assert_eq!(shown(&json!({})).unwrap().output, OutputText::default());
        let many = vec![json!({"uri": "a://2", "mimeType": "image/png", "blob": "AAAA"}); MAX_FILES + 3];
        let read = shown(&json!({ "contents": many })).unwrap();
        assert_eq!(read.attachments.len(), MAX_FILES);
        assert!(
            matches!(read.output, OutputText::Text(text) if text.ends_with("[3 more files are left out: a result may have 64]"))
        );
    }
}
