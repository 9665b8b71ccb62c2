//! What MCP servers say, as messages of the contract.
//!
//! *Invariant:* pure. An entry may be anything: what is not understood of it is left out, but no content is.

use serde_json::Value;
use toolgate_contract::*;
use toolgate_extensions::mcp::bytes_of;

const NOT_BASE64: &str = "what should be Base64 is not";

fn text(item: &Value, key: &str) -> String {
    item[key].as_str().unwrap_or_default().to_owned()
}

fn list<'v>(item: &'v Value, key: &str) -> &'v [Value] {
    item[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn role(role: &Value) -> McpRole {
    match role.as_str() {
        Some("user") => McpRole::User,
        Some("assistant") => McpRole::Assistant,
        Some(_) | None => McpRole::Unspecified,
    }
}

fn annotations(item: &Value) -> Option<McpAnnotations> {
    let said = item.get("annotations").filter(|said| said.is_object())?;
    Some(McpAnnotations {
        audience: list(said, "audience").iter().map(|whose| role(whose).into()).collect(),
        priority: said["priority"].as_f64(),
        last_modified: text(said, "lastModified"),
    })
}

pub(super) fn resource(server: &str, item: &Value) -> McpResource {
    McpResource {
        server: server.to_owned(),
        uri: text(item, "uri"),
        name: text(item, "name"),
        title: text(item, "title"),
        description: text(item, "description"),
        mime_type: text(item, "mimeType"),
        size_bytes: item["size"].as_i64(),
        annotations: annotations(item),
    }
}

pub(super) fn template(server: &str, item: &Value) -> McpResourceTemplate {
    McpResourceTemplate {
        server: server.to_owned(),
        uri_template: text(item, "uriTemplate"),
        name: text(item, "name"),
        title: text(item, "title"),
        description: text(item, "description"),
        mime_type: text(item, "mimeType"),
        annotations: annotations(item),
    }
}

pub(super) fn prompt(server: &str, item: &Value) -> McpPrompt {
    let argument = |item: &Value| McpPromptArgument {
        name: text(item, "name"),
        title: text(item, "title"),
        description: text(item, "description"),
        required: item["required"] == true,
    };
    McpPrompt {
        server: server.to_owned(),
        name: text(item, "name"),
        title: text(item, "title"),
        description: text(item, "description"),
        arguments: list(item, "arguments").iter().map(argument).collect(),
    }
}

/// Reads the answer to `resources/read`.
///
/// # Errors
/// It is none; the text says why.
pub(super) fn contents(answer: &Value) -> Result<Vec<McpResourceContents>, &'static str> {
    let contents = answer["contents"].as_array().ok_or("it has no contents")?;
    contents.iter().map(content).collect()
}

fn content(item: &Value) -> Result<McpResourceContents, &'static str> {
    let content = match (item["text"].as_str(), item["blob"].as_str()) {
        (Some(text), _) => mcp_resource_contents::Content::Text(text.to_owned()),
        (None, Some(blob)) => mcp_resource_contents::Content::Blob(bytes_of(blob).ok_or(NOT_BASE64)?.into()),
        (None, None) => return Err("a content has neither a text nor bytes"),
    };
    Ok(McpResourceContents {
        uri: text(item, "uri"),
        mime_type: text(item, "mimeType"),
        content: Some(content),
    })
}

/// Reads the answer to `prompts/get`.
///
/// # Errors
/// It is none; the text says why.
pub(super) fn messages(server: &str, answer: &Value) -> Result<Vec<McpPromptMessage>, &'static str> {
    let messages = answer["messages"].as_array().ok_or("it has no messages")?;
    messages.iter().map(|item| message(server, item)).collect()
}

fn message(server: &str, item: &Value) -> Result<McpPromptMessage, &'static str> {
    use mcp_prompt_message::Content;

    let said = &item["content"];
    let media = || {
        let data = said["data"].as_str().and_then(bytes_of).ok_or(NOT_BASE64)?;
        Ok::<_, &'static str>(McpMedia {
            mime_type: text(said, "mimeType"),
            data: data.into(),
        })
    };
    let content = match said["type"].as_str() {
        Some("text") => Content::Text(text(said, "text")),
        Some("image") => Content::Image(media()?),
        Some("audio") => Content::Audio(media()?),
        Some("resource") => Content::Resource(content(&said["resource"])?),
        Some("resource_link") => Content::Link(resource(server, said)),
        Some(_) | None => Content::OtherJson(said.to_string()),
    };
    Ok(McpPromptMessage {
        role: role(&item["role"]).into(),
        content: Some(content),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contents_are_read_whole_or_not_at_all() {
        let answer = json!({"contents": [
            {"uri": "a://1", "mimeType": "text/plain", "text": "one"},
            {"uri": "a://2", "blob": "aGk"},
        ]});
        let read = contents(&answer).unwrap();
        assert_eq!(
            read[0].content,
            Some(mcp_resource_contents::Content::Text("one".to_owned()))
        );
        assert_eq!(read[1].content, Some(mcp_resource_contents::Content::Blob("hi".into())));
        for wrong in [
            json!({}),
            json!({"contents": [{"uri": "a"}]}),
            json!({"contents": [{"blob": "!"}]}),
        ] {
            assert!(contents(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_kind_of_message_is_there() {
        use mcp_prompt_message::Content;

        let check = |said: Value, expected: Content| {
            let answer = json!({"messages": [{"role": "assistant", "content": said}]});
            let read = messages("s", &answer).unwrap().remove(0);
            assert_eq!((read.role(), read.content), (McpRole::Assistant, Some(expected)));
        };
        let media = McpMedia {
            mime_type: "image/png".to_owned(),
            data: "hi".into(),
        };
        check(json!({"type": "text", "text": "t"}), Content::Text("t".to_owned()));
        let picture = json!({"type": "image", "mimeType": "image/png", "data": "aGk="});
        check(picture, Content::Image(media));
        let link = json!({"type": "resource_link", "uri": "a://1", "name": "n", "size": 3});
        let expected = McpResource {
            server: "s".to_owned(),
            uri: "a://1".to_owned(),
            name: "n".to_owned(),
            size_bytes: Some(3),
            ..McpResource::default()
        };
        check(link, Content::Link(expected));
        check(
            json!({"type": "new"}),
            Content::OtherJson(r#"{"type":"new"}"#.to_owned()),
        );
    }

    #[test]
    fn what_servers_say_of_a_prompt_is_kept() {
        let item = json!({"name": "p", "title": "P", "arguments": [
            {"name": "a", "required": true}, {"name": "b", "description": "B"}, {"name": 7},
        ]});
        let read = prompt("s", &item);
        let arguments: Vec<(&str, bool)> = read.arguments.iter().map(|one| (&*one.name, one.required)).collect();
        assert_eq!(arguments, [("a", true), ("b", false), ("", false)]);
        let item = json!({"uri": "u", "annotations": {"audience": ["user", "x"], "priority": 0.5}});
        let said = resource("s", &item).annotations.unwrap();
        assert_eq!(said.audience, [1, 0]);
        assert_eq!(said.priority, Some(0.5));
    }
}
