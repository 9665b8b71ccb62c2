//! The core's definitions and ends of calls as an MCP client gets them.
//!
//! *Invariant:* pure. What a model has to read is in the content. What a server of tools has sent is handed on as it was, unless
//! it was cut. Many clients show a model nothing else once a result has
//! `structuredContent`, so only a tool that announces an `outputSchema` has any, and none here does. What is for the
//! client is in `_meta`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource, ResourceContents, Tool, ToolAnnotations};
use serde_json::{Value, json};
use toolgate_model::{Attachment, AttachmentContent, CallId, Definition, Effect, EndReason, Ending, INVALID, Outcome};

use super::resources;

/// Returns a tool as it is listed.
pub(super) fn tool(definition: Definition) -> Tool {
    let Definition {
        name,
        title,
        description,
        input_schema,
        effects,
        ..
    } = definition;
    let title = if title.is_empty() { title_of(&name) } else { title };
    let schema = match input_schema {
        Value::Object(schema) => schema,
        // A client needs an object; `true` stands for any.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let mut schema = serde_json::Map::new();
            schema.insert("type".to_owned(), "object".into());
            schema
        }
    };
    let tool = Tool::new(name, description, schema).with_title(title);
    tool.with_annotations(annotations(&effects))
}

/// Makes a name for people of one for programs.
fn title_of(name: &str) -> String {
    let words = name.replace(['_', '-'], " ");
    let mut letters = words.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Puts what a server of tools has sent in the place of what was made of it for the record.
pub(super) fn as_sent(result: &mut CallToolResult, sent: Option<Value>) {
    let Some(Value::Array(blocks)) = sent.and_then(|mut sent| sent.get_mut("content").map(Value::take)) else {
        return;
    };
    // A kind that is not known here stays what was made of it.
    match serde_json::from_value::<Vec<ContentBlock>>(Value::Array(blocks)) {
        Ok(blocks) if !blocks.is_empty() => result.content = blocks,
        Ok(_) | Err(_) => {}
    }
}

/// Says what a tool may do in the words of MCP.
fn annotations(effects: &[Effect]) -> ToolAnnotations {
    let may = |effect: Effect| effects.contains(&effect);
    let changes = may(Effect::Writes) || may(Effect::RunsPrograms);
    ToolAnnotations::new()
        .read_only(!changes)
        .destructive(changes)
        .open_world(may(Effect::Network) || may(Effect::RunsPrograms))
}

/// Returns the result of a call. `ran` is the tool that the call ran: an answer that the service gave in place of a tool
/// is an error to a client, whatever the record says for the model.
pub(super) fn result(id: &CallId, ran: &str, ending: Ending) -> CallToolResult {
    let state = ending.state().as_str();
    let Ending {
        outcome,
        title,
        mut metadata,
        attachments,
        truncation,
        timing,
        // Clients of MCP read the metadata.
        result: _,
        resources: _,
    } = ending;
    // What is shown of the output while it grows: the output itself is there.
    metadata.remove("output");
    let mut about = json!({
        "callId": id.as_str(),
        "state": state,
        "title": title,
        "metadata": metadata,
        "truncation": {
            "truncated": truncation.truncated,
            "bytes": truncation.bytes,
            "lines": truncation.lines,
        },
        "ranMs": u64::try_from(timing.ran.as_millis()).unwrap_or(u64::MAX),
        "waitedMs": u64::try_from(timing.waited.as_millis()).unwrap_or(u64::MAX),
    });
    if let Some(output) = &truncation.output {
        about["truncation"]["outputId"] = output.as_str().into();
        about["truncation"]["uri"] = resources::uri(output).into();
    }
    let (text, reason) = match outcome {
        Outcome::Completed { output } if ran == INVALID => (output, Some(EndReason::InvalidArguments)),
        Outcome::Completed { output } => (output, None),
        Outcome::Failed { reason, error } => (error, Some(reason)),
    };
    if let Some(reason) = reason {
        about["reason"] = json!(reason);
    }
    let mut content = vec![ContentBlock::text(text)];
    content.extend(attachments.into_iter().map(attachment));
    let mut result = match reason {
        Some(_) => CallToolResult::error(content),
        None => CallToolResult::success(content),
    };
    if let Value::Object(about) = about {
        result.meta = Some(MetaObject(about));
    }
    result
}

fn attachment(attachment: Attachment) -> ContentBlock {
    let Attachment {
        id,
        mime,
        filename,
        content,
    } = attachment;
    match content {
        AttachmentContent::Url(url) => {
            let name = filename.unwrap_or_else(|| id.clone());
            ContentBlock::resource_link(Resource::new(url, name).with_mime_type(mime))
        }
        AttachmentContent::Bytes(bytes) => {
            let data = STANDARD.encode(&bytes);
            match mime.split('/').next() {
                Some("image") => ContentBlock::image(data, mime),
                Some("audio") => ContentBlock::audio(data, mime),
                Some(_) | None => {
                    let uri = format!("toolgate://attachments/{id}");
                    ContentBlock::resource(ResourceContents::blob(data, uri).with_mime_type(mime))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_model::{Claims, OutputId, Source, Truncation};

    use super::*;

    #[test]
    fn effects_are_hints() {
        let check = |effects: &[Effect], expected: [bool; 3]| {
            let found = annotations(effects);
            let found = [found.read_only_hint, found.destructive_hint, found.open_world_hint];
            assert_eq!(found, expected.map(Some), "{effects:?}");
        };
        check(&[], [true, false, false]);
        check(&[Effect::Reads], [true, false, false]);
        check(&[Effect::Reads, Effect::Writes], [false, true, false]);
        check(&[Effect::RunsPrograms], [false, true, true]);
        check(&[Effect::Network], [true, false, true]);
        check(&[Effect::AsksUser], [true, false, false]);
    }

    #[test]
    fn what_a_server_has_sent_is_handed_on() {
        let made = || CallToolResult::success(vec![ContentBlock::text("made")]);
        let check = |sent: Option<Value>, expected: Value| {
            let mut result = made();
            as_sent(&mut result, sent);
            assert_eq!(serde_json::to_value(&result.content).unwrap(), expected);
        };
        let made = json!([{"type": "text", "text": "made"}]);
        check(None, made.clone());
        check(Some(json!({"structuredContent": 1})), made.clone());
        check(Some(json!({"content": []})), made.clone());
        check(Some(json!({"content": [{"type": "new"}]})), made);
        let sent = json!([
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "u", "mimeType": "text/plain", "text": "t"}},
        ]);
        check(Some(json!({"content": sent})), sent);
        assert_eq!(title_of("apply_patch"), "Apply patch");
    }

    #[test]
    fn a_schema_is_an_object() {
        let definition = Definition {
            name: "any".to_owned(),
            title: String::new(),
            description: "Takes anything".to_owned(),
            input_schema: Value::Bool(true),
            source: Source::Custom,
            effects: Vec::new(),
            permissions: Vec::new(),
            experimental: false,
            advertised: true,
            claims: Claims::default(),
        };
        assert_eq!(tool(definition).schema_as_json_value(), json!({"type": "object"}));
    }

    #[test]
    fn ends_are_results() {
        let bytes = |mime: &str| Attachment {
            id: "a1".to_owned(),
            mime: mime.to_owned(),
            filename: None,
            content: AttachmentContent::Bytes("x".into()),
        };
        let link = Attachment {
            content: AttachmentContent::Url("https://example.com/x".to_owned()),
            ..bytes("text/html")
        };
        let ending = Ending {
            outcome: Outcome::Completed {
                output: "done".to_owned(),
            },
            title: "Title".to_owned(),
            attachments: vec![bytes("image/png"), bytes("application/pdf"), link],
            truncation: Truncation {
                truncated: true,
                output: Some(OutputId::from("tool_1")),
                ..Truncation::default()
            },
            ..Ending::failed(EndReason::Internal, "")
        };
        let found = serde_json::to_value(result(&CallId::from("c1"), "read", ending)).unwrap();
        assert_eq!(found["isError"], false);
        assert_eq!(found["content"][0]["text"], "done");
        assert_eq!(
            found["content"][1],
            json!({"type": "image", "data": "eA==", "mimeType": "image/png"})
        );
        assert_eq!(found["content"][2]["resource"]["uri"], "toolgate://attachments/a1");
        assert_eq!(found["content"][3]["uri"], "https://example.com/x");
        assert!(
            found.get("structuredContent").is_none(),
            "it would hide the text: {found}"
        );
        let about = &found["_meta"];
        assert_eq!(about["truncation"]["uri"], "toolgate://outputs/tool_1");
        assert_eq!([&about["callId"], &about["state"]], ["c1", "completed"]);

        let failed = result(
            &CallId::from("c2"),
            "read",
            Ending::failed(EndReason::Denied, "a rule forbids it"),
        );
        let failed = serde_json::to_value(failed).unwrap();
        assert_eq!(failed["isError"], true);
        assert_eq!(failed["content"][0]["text"], "a rule forbids it");
        assert_eq!(failed["_meta"]["reason"], "denied");

        let ending = Ending {
            outcome: Outcome::Completed {
                output: "no such tool".to_owned(),
            },
            ..Ending::failed(EndReason::Internal, "")
        };
        let repaired = serde_json::to_value(result(&CallId::from("c3"), INVALID, ending)).unwrap();
        assert_eq!(repaired["isError"], true);
        assert_eq!(repaired["content"][0]["text"], "no such tool");
        assert_eq!(repaired["_meta"]["reason"], "invalid_arguments");
    }
}
