//! What a server answers, as the result of a call (`docs/spec/extensions.md` §3.4).
//!
//! *Invariant:* pure. An answer may be anything: what is not understood is left out, and a call fails only if the server
//! says so or nothing is left.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};
use toolgate_model::{Attachment, AttachmentContent, OutputText, ToolOutput};
use toolgate_tool::ToolError;
use uuid::Uuid;

use super::message;

/// Bytes of the largest embedded file that is handed on.
const MAX_RESOURCE: usize = 10 << 20;

/// The types of embedded files that are handed on.
const RESOURCE_TYPES: [&str; 5] = ["application/pdf", "image/gif", "image/jpeg", "image/png", "image/webp"];

/// Files of one result that are handed on.
pub(super) const MAX_FILES: usize = 64;

/// Bytes of metadata that are handed on; of more, none is.
const MAX_METADATA: usize = 256 << 10;

/// Bytes of an error that a model reads: unlike an output it is kept nowhere else.
const MAX_ERROR: usize = 64 << 10;

/// Servers leave the padding away.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads bytes as servers write them; none if they are not written so.
pub fn bytes_of(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Converts the raw result of `tools/call`.
///
/// # Errors
/// The server says that the call failed, or what it sent is no result.
pub(super) fn convert(result: &Value) -> Result<ToolOutput, ToolError> {
    let Value::Object(result) = result else {
        return Err(ToolError::failed("The MCP server sent something that is not a result."));
    };
    let items = match result.get("content") {
        Some(Value::Array(items)) => items.as_slice(),
        Some(_) | None => &[],
    };
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    let mut left_out = 0;
    for part in items.iter().filter_map(part) {
        match part {
            Part::Text(text) => texts.push(text),
            Part::File(file) if attachments.len() < MAX_FILES => attachments.push(file),
            Part::File(_) => left_out += 1,
        }
    }
    if left_out > 0 {
        texts.push(files_left_out(left_out));
    }
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(ToolError::failed(problem(&texts)));
    }
    let output = match result.get("structuredContent") {
        Some(structured) if items.is_empty() && !structured.is_null() => structured.to_string(),
        Some(_) | None => texts.join("\n\n"),
    };
    Ok(ToolOutput {
        title: String::new(),
        output: OutputText::Text(output),
        metadata: metadata(result),
        attachments,
        result: None,
    })
}

/// Says that there were too many files.
pub(super) fn files_left_out(count: usize) -> String {
    format!("[{count} more files are left out: a result may have {MAX_FILES}]")
}

/// A tool that pages its own output says so in the key `truncated`; a server has no say in that.
fn metadata(result: &Map<String, Value>) -> Map<String, Value> {
    let mut metadata = match result.get("metadata") {
        Some(metadata) if message::size(metadata) > MAX_METADATA => Map::new(),
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(_) | None => Map::new(),
    };
    metadata.shift_remove("truncated");
    metadata.shift_remove("outputPath");
    metadata
}

fn problem(texts: &[String]) -> String {
    let said: Vec<&str> = texts
        .iter()
        .map(String::as_str)
        .filter(|text| !text.trim().is_empty())
        .collect();
    if said.is_empty() {
        return "MCP tool returned an error".to_owned();
    }
    shortened(said.join("\n\n"))
}

/// Returns an error that is short enough for a model.
pub(super) fn shortened(mut text: String) -> String {
    let end = text.floor_char_boundary(MAX_ERROR);
    if end < text.len() {
        let left_out = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("… ({left_out} bytes are left out)"));
    }
    text
}

enum Part {
    Text(String),
    File(Attachment),
}

fn part(item: &Value) -> Option<Part> {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    match text("type")? {
        "text" => Some(Part::Text(text("text")?.to_owned())),
        "image" | "audio" => {
            let bytes = bytes_of(text("data")?)?;
            Some(Part::File(file(mime(text("mimeType")), None, bytes)))
        }
        "resource" => resource(item.get("resource")?),
        "resource_link" => Some(Part::Text(link(item))),
        _ => None,
    }
}

/// Says in words what a link leads to: a model that wants it can ask for it.
fn link(item: &Value) -> String {
    let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = if text("title").is_empty() {
        text("name")
    } else {
        text("title")
    };
    let mut said = format!("[Resource {name}: {}", text("uri"));
    if !text("mimeType").is_empty() {
        said.push_str(&format!(" ({})", text("mimeType")));
    }
    if !text("description").is_empty() {
        said.push_str(&format!(", {}", text("description")));
    }
    said.push(']');
    said
}

/// Returns the text that a model reads of a result: whoever has the result as the server sent it can tell by this whether
/// it still is what the model was shown.
pub fn text_of(result: &Value) -> Option<String> {
    match convert(result).ok()?.output {
        OutputText::Text(text) => Some(text),
        OutputText::Stored => None,
    }
}

fn resource(resource: &Value) -> Option<Part> {
    let text = |key: &str| resource.get(key).and_then(Value::as_str);
    if let Some(text) = text("text") {
        return Some(Part::Text(text.to_owned()));
    }
    let (blob, uri) = (text("blob")?, text("uri").unwrap_or_default());
    let mime = mime(text("mimeType"));
    let bytes = bytes_of(blob)?;
    let size = size(bytes.len());
    if !RESOURCE_TYPES.contains(&mime.as_str()) {
        return Some(Part::Text(format!(
            "[Binary MCP resource omitted: {uri} ({mime}, {size}) is not a supported attachment type]"
        )));
    }
    if bytes.len() > MAX_RESOURCE {
        return Some(Part::Text(format!(
            "[Binary MCP resource omitted: {uri} ({mime}, {size}) exceeds 10 MB]"
        )));
    }
    Some(Part::File(file(mime, Some(uri.to_owned()), bytes)))
}

fn file(mime: String, filename: Option<String>, bytes: Vec<u8>) -> Attachment {
    Attachment {
        id: Uuid::now_v7().to_string(),
        mime,
        filename,
        content: AttachmentContent::Bytes(bytes.into()),
    }
}

/// Returns a media type that can stand in a header and in a URL.
fn mime(written: Option<&str>) -> String {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= 127
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let plain = written.map(|mime| mime.split(';').next().unwrap_or_default().trim());
    plain
        .filter(|mime| {
            mime.split_once('/')
                .is_some_and(|(kind, of)| is_part(kind) && is_part(of))
        })
        .map_or_else(|| UNKNOWN_TYPE.to_owned(), str::to_ascii_lowercase)
}

#[allow(clippy::cast_precision_loss)] // shown with one decimal
fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{:.1} KB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MB", bytes as f64 / 1024.0 / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text_of(result: Value) -> Result<String, String> {
        match convert(&result) {
            Ok(ToolOutput {
                output: OutputText::Text(text),
                ..
            }) => Ok(text),
            Ok(_) => panic!("a result is a text"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn texts_are_joined() {
        let check = |content: Value, expected: &str| {
            assert_eq!(
                text_of(json!({"content": content})),
                Ok(expected.to_owned()),
                "{content}"
            );
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        check(json!([text("one"), text(""), text("two")]), "one\n\n\n\ntwo");
        check(
            json!([text("a"), {"type": "resource", "resource": {"uri": "u", "text": "b"}}]),
            "a\n\nb",
        );
        check(
            json!([text("a"), {"type": "audio", "data": "", "mimeType": "audio/wav"}, {"type": "new"}, 1]),
            "a",
        );
        check(
            json!([{"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain"}]),
            "[Resource x: file:///x (text/plain)]",
        );
        check(json!([{"type": "text"}, {"type": "image", "data": "!"}]), "");
        check(json!("no list"), "");
    }

    #[test]
    fn structured_content_stands_for_missing_content_only() {
        let structured = json!({"a": [1, "x"]});
        assert_eq!(
            text_of(json!({"structuredContent": structured})),
            Ok(structured.to_string())
        );
        assert_eq!(
            text_of(json!({"content": [], "structuredContent": structured})),
            Ok(structured.to_string())
        );
        let both = json!({"content": [{"type": "text", "text": "t"}], "structuredContent": structured});
        assert_eq!(text_of(both), Ok("t".to_owned()));
        assert_eq!(text_of(json!({})), Ok(String::new()));
    }

    #[test]
    fn errors_carry_their_texts() {
        let check = |content: Value, expected: &str| {
            let result = json!({"isError": true, "content": content});
            assert_eq!(text_of(result), Err(expected.to_owned()));
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        check(
            json!([text("it failed"), text(" \n"), text("badly")]),
            "it failed\n\nbadly",
        );
        check(json!([text(" ")]), "MCP tool returned an error");
        check(json!([]), "MCP tool returned an error");
        assert!(text_of(json!([])).is_err());
        assert!(text_of(json!(null)).is_err());
    }

    #[test]
    fn files_are_attached() {
        let blob = |mime: &str, bytes: usize| {
            let blob = STANDARD.encode(vec![0; bytes]);
            json!({"content": [{"type": "resource", "resource": {"uri": "file:///c", "mimeType": mime, "blob": blob}}]})
        };
        let output = convert(&blob("application/pdf", 2)).unwrap();
        assert_eq!(output.attachments.len(), 1);
        assert_eq!(output.attachments[0].filename.as_deref(), Some("file:///c"));
        assert_eq!(
            text_of(blob("application/zip", 1536)).unwrap(),
            "[Binary MCP resource omitted: file:///c (application/zip, 1.5 KB) is not a supported attachment type]"
        );
        assert_eq!(
            text_of(blob("image/png", MAX_RESOURCE + 1)).unwrap(),
            "[Binary MCP resource omitted: file:///c (image/png, 10.0 MB) exceeds 10 MB]"
        );
        let image = convert(&json!({"content": [{"type": "image", "mimeType": "image/png", "data": "aGk="}]})).unwrap();
        assert_eq!(image.attachments[0].mime, "image/png");
        assert_eq!(image.attachments[0].content, AttachmentContent::Bytes("hi".into()));
    }

    #[test]
    fn media_types_are_plain() {
        let check = |written: Option<&str>, expected: &str| assert_eq!(mime(written), expected, "{written:?}");
        check(Some("image/png"), "image/png");
        check(Some("Image/PNG; q=1"), "image/png");
        check(Some("image/svg+xml"), "image/svg+xml");
        check(Some("image/png\r\nX: y"), UNKNOWN_TYPE);
        check(Some("image"), UNKNOWN_TYPE);
        check(Some(""), UNKNOWN_TYPE);
        check(None, UNKNOWN_TYPE);
    }

    #[test]
    fn a_server_says_nothing_about_truncation() {
        let output =
            convert(&json!({"content": [], "metadata": {"a": 1, "truncated": true, "outputPath": "/x"}})).unwrap();
        assert_eq!(Value::Object(output.metadata), json!({"a": 1}));
    }

    #[test]
    fn a_result_is_bounded() {
        let text = "ä".repeat(MAX_ERROR);
        let error = text_of(json!({"isError": true, "content": [{"type": "text", "text": text}]})).unwrap_err();
        assert!(error.len() < MAX_ERROR + 100, "{}", error.len());
        assert!(error.ends_with(&format!("ä… ({MAX_ERROR} bytes are left out)")));
        let image = json!({"type": "image", "mimeType": "image/png", "data": "aGk"});
        let output = convert(&json!({"content": vec![image; MAX_FILES + 2]})).unwrap();
        assert_eq!(output.attachments.len(), MAX_FILES);
        assert_eq!(
            output.output,
            OutputText::Text("[2 more files are left out: a result may have 64]".to_owned())
        );
        let output = convert(&json!({"metadata": {"a": "x".repeat(MAX_METADATA)}})).unwrap();
        assert!(output.metadata.is_empty());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "text|image|resource|aGk=|.{0,8}".prop_map(Value::from),
        ];
        let key = "content|type|text|data|mimeType|resource|blob|uri|isError|structuredContent|metadata|[a-z]";
        leaf.prop_recursive(4, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((key, inner), 0..6).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn anything_is_converted(result in any_json()) {
            let _ = convert(&result);
        }
    }
}
