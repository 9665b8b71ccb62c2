//! Messages of a server, read from text that may be anything.
//!
//! Results are taken over as they are ([`ServerResult::CustomResult`]): hooks see what the server sent, keys that the
//! protocol does not know included, and a large result is not tried against the type of every other one.
//!
//! *Invariant:* pure. What is not a message is none, never a panic.

use std::borrow::Cow;

use rmcp::model::{
    CustomResult, ErrorCode, ErrorData, InitializeResult, JsonRpcMessage, ProgressToken, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The key under which a result that is to be left alone travels through a transport that is not our own.
const WRAPPED: &str = "toolgate/raw";

/// Values of the largest message that is taken.
const MAX_VALUES: usize = 500_000;

/// Of a message that is too large this much is looked at, at either end, to find out what it answers.
pub(super) const KEPT: usize = 512;

/// The code of errors that a transport makes up, as in other clients.
pub(super) const CONNECTION_ERROR: i32 = -32000;

/// What a server sends.
pub(super) enum Incoming {
    /// Something for the protocol's own machinery.
    Message(Box<ServerJsonRpcMessage>),
    /// How far a request has come.
    Progress(Progress),
    /// The list of tools has changed.
    ToolsChanged,
    /// Something that nobody here needs.
    Unneeded,
}

/// How far a request has come.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    /// Which request.
    pub(super) progress_token: ProgressToken,
    /// How far.
    pub(super) progress: f64,
    /// How far it will be when it is done.
    #[serde(default)]
    pub(super) total: Option<f64>,
    /// What it is doing.
    #[serde(default)]
    pub(super) message: Option<String>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
}

/// Why a text is no message, and for whom it was meant, as far as that can be told.
struct Unreadable {
    problem: String,
    id: Option<RequestId>,
}

impl Unreadable {
    fn new(problem: impl ToString) -> Self {
        Self {
            problem: problem.to_string(),
            id: None,
        }
    }
}

/// Reads a message. `initializes` says that the next result is the answer to `initialize`. An answer that cannot be read
/// is one that says so, since somebody waits for it.
///
/// # Errors
/// It is none; the text says why.
pub(super) fn decode(text: &[u8], initializes: bool) -> Result<Incoming, String> {
    if let Some(problem) = excess(text) {
        let ends = (&text[..text.len().min(KEPT)], &text[text.len().saturating_sub(KEPT)..]);
        let id = id_in(ends.0, ends.1).ok_or_else(|| problem.clone())?;
        return Ok(Incoming::Message(Box::new(failure(id, &problem))));
    }
    let unreadable = match read(text, initializes) {
        Ok(incoming) => return Ok(incoming),
        Err(unreadable) => unreadable,
    };
    match read(&repaired(text), initializes) {
        Ok(incoming) => Ok(incoming),
        Err(Unreadable { id: Some(id), problem }) => {
            let problem = format!("The server sent a result that cannot be read: {problem}");
            Ok(Incoming::Message(Box::new(failure(id, &problem))))
        }
        Err(Unreadable { id: None, .. }) => Err(unreadable.problem),
    }
}

fn read(text: &[u8], initializes: bool) -> Result<Incoming, Unreadable> {
    let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(Unreadable::new)?;
    match (&envelope.method, envelope.id, envelope.result) {
        (None, Some(id), Some(result)) => response(id, result, initializes),
        (Some(method), None, None) => notification(method, envelope.params).map_err(Unreadable::new),
        _ => {
            let message = serde_json::from_slice(text).map_err(Unreadable::new)?;
            Ok(Incoming::Message(Box::new(message)))
        }
    }
}

fn response(id: &RawValue, result: &RawValue, initializes: bool) -> Result<Incoming, Unreadable> {
    let id: RequestId = serde_json::from_str(id.get()).map_err(|error| Unreadable::new(format!("the id: {error}")))?;
    let unreadable = |error: serde_json::Error| Unreadable {
        problem: error.to_string(),
        id: Some(id.clone()),
    };
    let result = if initializes {
        let result: InitializeResult = serde_json::from_str(result.get()).map_err(unreadable)?;
        ServerResult::InitializeResult(result)
    } else {
        let result: Value = serde_json::from_str(result.get()).map_err(unreadable)?;
        ServerResult::CustomResult(CustomResult::new(result))
    };
    Ok(Incoming::Message(Box::new(JsonRpcMessage::response(result, id))))
}

/// Says why a text is not even looked into: values that are a byte or two each take a hundred times that in memory.
fn excess(text: &[u8]) -> Option<String> {
    const LOOKED_AT: usize = 1 << 20;
    if text.len() < LOOKED_AT {
        return None;
    }
    let (mut values, mut is_text, mut is_escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => values += 1,
            _ => {}
        }
    }
    (values > MAX_VALUES).then(|| format!("The server sent a message of more than {MAX_VALUES} values"))
}

/// Returns a text with replacements for what is no character: halves of pairs, which servers in JavaScript make when they
/// cut a text, and bytes that are not UTF-8.
fn repaired(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut rest = text.as_bytes();
    let mut repaired = Vec::with_capacity(rest.len());
    while let Some(start) = memchr::memchr(b'\\', rest) {
        repaired.extend_from_slice(&rest[..start]);
        rest = &rest[start..];
        let (taken, is_half) = match unit(rest) {
            Some(0xd800..=0xdbff) if matches!(unit(&rest[6..]), Some(0xdc00..=0xdfff)) => (12, false),
            Some(0xd800..=0xdfff) => (6, true),
            Some(_) => (6, false),
            None => (rest.len().min(2), false),
        };
        repaired.extend_from_slice(if is_half { b"\\ufffd" } else { &rest[..taken] });
        rest = &rest[taken..];
    }
    repaired.extend_from_slice(rest);
    repaired
}

/// Returns the number of an escape like `\u0041` at the start of a text.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let is_hexadecimal = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hexadecimal)?;
    u16::from_str_radix(digits, 16).ok()
}

/// Returns about how many bytes a value takes as text.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| key.len() + 4 + size(value));
            entries.sum::<usize>() + 2
        }
    }
}

fn notification(method: &str, params: Option<&RawValue>) -> Result<Incoming, String> {
    match method {
        "notifications/progress" => {
            let params = params.ok_or("progress of nothing")?;
            let progress = serde_json::from_str(params.get()).map_err(|error| error.to_string())?;
            Ok(Incoming::Progress(progress))
        }
        "notifications/tools/list_changed" => Ok(Incoming::ToolsChanged),
        _ => Ok(Incoming::Unneeded),
    }
}

/// Makes the answer to a request that a transport has to give in the place of the server.
pub(super) fn failure(id: RequestId, problem: &str) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode(CONNECTION_ERROR), problem.to_owned(), None);
    JsonRpcMessage::error(error, Some(id))
}

/// A message on its way through a transport that reads it by itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrapped {
    pub(super) text: String,
    /// Whether the server asks something.
    pub(super) is_request: bool,
}

/// Wraps the result of a message, so that it comes through a transport that reads it as it is; other messages are left
/// alone.
pub(super) fn wrap(text: String) -> Wrapped {
    let other = |text: String, is_request: bool| Wrapped { text, is_request };
    if excess(text.as_bytes()).is_some() {
        // What it answers fails, and says why.
        let failure = match decode(text.as_bytes(), false) {
            Ok(Incoming::Message(failure)) => serde_json::to_string(&failure).unwrap_or_default(),
            Ok(Incoming::Progress(_) | Incoming::ToolsChanged | Incoming::Unneeded) | Err(_) => String::new(),
        };
        return other(failure, false);
    }
    let halves = memchr::memmem::find(text.as_bytes(), b"\\ud").or(memchr::memmem::find(text.as_bytes(), b"\\uD"));
    let text = match halves {
        Some(_) => String::from_utf8(repaired(text.as_bytes())).unwrap_or(text),
        None => text,
    };
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(&text) else {
        return other(text, false);
    };
    match (&envelope.method, envelope.id, envelope.result) {
        (None, Some(id), Some(result)) => {
            let (id, result) = (id.get(), result.get());
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"{WRAPPED}":{result}}}}}"#);
            other(text, false)
        }
        (method, id, _) => {
            let is_request = method.is_some() && id.is_some();
            other(text, is_request)
        }
    }
}

/// Returns a result as the server sent it, as far as the transport lets it be known.
pub(super) fn raw(result: ServerResult) -> Value {
    let mut value = if let ServerResult::CustomResult(custom) = result {
        custom.0
    } else {
        serde_json::to_value(result).unwrap_or(Value::Null)
    };
    match value.as_object_mut().filter(|object| object.len() == 1) {
        Some(object) if object.contains_key(WRAPPED) => object.remove(WRAPPED).unwrap_or(Value::Null),
        Some(_) | None => value,
    }
}

/// Looks for the id of a response in what is left of a message that is too long to be kept: its beginning and its end.
pub(super) fn id_in(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    let digits = |text: &[u8]| -> Option<i64> {
        let text = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
        std::str::from_utf8(&text[..end]).ok()?.parse().ok()
    };
    let key = b"\"id\"";
    // Before the result, the first one is the message's own; after it, the last one.
    let first =
        memchr::memmem::find(head, key).filter(|at| memchr::memmem::find(&head[..*at], b"\"result\"").is_none());
    let last = memchr::memmem::rfind(tail, key);
    let id = first
        .and_then(|at| digits(&head[at + key.len()..]))
        .or_else(|| last.and_then(|at| digits(&tail[at + key.len()..])))?;
    Some(RequestId::Number(id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn kind(text: &str) -> &'static str {
        match decode(text.as_bytes(), false) {
            Ok(Incoming::Message(message)) => match *message {
                JsonRpcMessage::Request(_) => "request",
                JsonRpcMessage::Response(_) => "response",
                JsonRpcMessage::Notification(_) => "notification",
                JsonRpcMessage::Error(_) => "error",
            },
            Ok(Incoming::Progress(_)) => "progress",
            Ok(Incoming::ToolsChanged) => "changed",
            Ok(Incoming::Unneeded) => "unneeded",
            Err(_) => "none",
        }
    }

    #[test]
    fn messages_are_told_apart() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"x":1}}"#, "response"),
            (r#"{"jsonrpc":"2.0","id":"1","result":[]}"#, "response"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#, "error"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, "request"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"any/thing"}"#, "request"),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
                "changed",
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#,
                "unneeded",
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}"#,
                "progress",
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":2}}"#,
                "none",
            ),
            (r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#, "none"),
            (r#"{"jsonrpc":"2.0","id":{},"result":1}"#, "none"),
            ("Server listening on stdio", "none"),
            ("[]", "none"),
            ("", "none"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn a_wrapped_result_comes_out_as_it_was() {
        for result in [
            json!({"content": [], "metadata": {"a": 1}}),
            json!([1]),
            json!({"tools": []}),
            json!({}),
        ] {
            let text = json!({"jsonrpc": "2.0", "id": 7, "result": result}).to_string();
            let message: ServerJsonRpcMessage = serde_json::from_str(&wrap(text).text).unwrap();
            let JsonRpcMessage::Response(response) = message else {
                panic!("a response");
            };
            assert_eq!(raw(response.result), result);
        }
        for text in [r#"{"method":"x"}"#, "no message", r#"{"id":1,"error":{}}"#] {
            assert_eq!(wrap(text.to_owned()).text, text);
        }
        assert!(wrap(r#"{"id":1,"method":"ping"}"#.to_owned()).is_request);
    }

    fn answer(text: &[u8]) -> Result<Value, String> {
        match decode(text, false) {
            Ok(Incoming::Message(message)) => match *message {
                JsonRpcMessage::Response(response) => Ok(raw(response.result)),
                JsonRpcMessage::Error(error) => Err(format!("{:?}: {}", error.id, error.error.message)),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => panic!("an answer"),
            },
            Ok(_) => panic!("an answer"),
            Err(problem) => Err(problem),
        }
    }

    #[test]
    fn what_is_no_character_is_replaced() {
        let check = |written: &[u8], expected: &str| {
            let text = [br#"{"id":1,"result":""#, written, br#""}"#].concat();
            assert_eq!(answer(&text), Ok(json!(expected)), "{}", String::from_utf8_lossy(&text));
            if let Ok(text) = String::from_utf8(text) {
                let message: ServerJsonRpcMessage = serde_json::from_str(&wrap(text).text).unwrap();
                let JsonRpcMessage::Response(response) = message else {
                    panic!("a response");
                };
                assert_eq!(raw(response.result), json!(expected));
            }
        };
        check(br"a \ud83d", "a \u{fffd}");
        check(br"\uDE00 b", "\u{fffd} b");
        check(br"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}");
        check(br"\\ud83d \n \u0041", "\\ud83d \n A");
        check(b"\xff\xfe", "\u{fffd}\u{fffd}");
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_one() {
        let deep = format!(r#"{{"id":7,"result":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        let error = answer(deep.as_bytes()).unwrap_err();
        assert!(
            error.contains("Number(7)") && error.contains("cannot be read"),
            "{error}"
        );
        let many = format!(r#"{{"id":8,"result":[{}0]}}"#, "0,".repeat(600_000));
        let error = answer(many.as_bytes()).unwrap_err();
        assert!(
            error.contains("Number(8)") && error.contains("500000 values"),
            "{error}"
        );
        let wrapped = wrap(many).text;
        assert!(wrapped.len() < 1000 && wrapped.contains("500000 values"), "{wrapped}");
        let table = format!(r#"{{"id":9,"result":"{}"}}"#, "a,\\\"[{".repeat(600_000));
        assert!(answer(table.as_bytes()).is_ok());
    }

    #[test]
    fn an_id_is_found_at_either_end() {
        let check = |head: &str, tail: &str, expected: Option<i64>| {
            let expected = expected.map(RequestId::Number);
            assert_eq!(id_in(head.as_bytes(), tail.as_bytes()), expected, "{head} … {tail}");
        };
        check(r#"{"jsonrpc":"2.0","id":12,"result":{"#, "xxx\"}]}}", Some(12));
        check(r#"{"result":{"content":"#, r#"]},"jsonrpc":"2.0","id": 3}"#, Some(3));
        check(r#"{"result":{"a":[{"id":9,"#, r#"]},"jsonrpc":"2.0","id":3}"#, Some(3));
        check(r#"{"result":{"content":"#, "xxx", None);
        check("", "", None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(text.as_bytes(), true);
            let _ = decode(&bytes, false);
            let _ = id_in(&bytes, text.as_bytes());
            let _ = repaired(&bytes);
            let _ = wrap(text);
        }
    }
}
