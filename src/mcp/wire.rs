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

/// Reads a message. `initializes` says that the next result is the answer to `initialize`.
///
/// # Errors
/// It is none; the text says why.
pub(super) fn decode(text: &[u8], initializes: bool) -> Result<Incoming, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match (&envelope.method, envelope.id, envelope.result) {
        (None, Some(id), Some(result)) => response(id, result, initializes),
        (Some(method), None, None) => notification(method, envelope.params),
        _ => {
            let message = serde_json::from_slice(text).map_err(|error| error.to_string())?;
            Ok(Incoming::Message(Box::new(message)))
        }
    }
}

fn response(id: &RawValue, result: &RawValue, initializes: bool) -> Result<Incoming, String> {
    let id: RequestId = serde_json::from_str(id.get()).map_err(|error| format!("the id: {error}"))?;
    let result = if initializes {
        let result: InitializeResult =
            serde_json::from_str(result.get()).map_err(|error| format!("the answer to `initialize`: {error}"))?;
        ServerResult::InitializeResult(result)
    } else {
        let result: Value = serde_json::from_str(result.get()).map_err(|error| error.to_string())?;
        ServerResult::CustomResult(CustomResult::new(result))
    };
    Ok(Incoming::Message(Box::new(JsonRpcMessage::response(result, id))))
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

/// Wraps the result of a message, so that it comes through a transport that reads it as it is; other messages are left
/// alone.
pub(super) fn wrap(text: String) -> String {
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(&text) else {
        return text;
    };
    let (None, Some(id), Some(result)) = (&envelope.method, envelope.id, envelope.result) else {
        return text;
    };
    let (id, result) = (id.get(), result.get());
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"{WRAPPED}":{result}}}}}"#)
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
            let message: ServerJsonRpcMessage = serde_json::from_str(&wrap(text)).unwrap();
            let JsonRpcMessage::Response(response) = message else {
                panic!("a response");
            };
            assert_eq!(raw(response.result), result);
        }
        for text in [r#"{"method":"x"}"#, "no message", r#"{"id":1,"error":{}}"#] {
            assert_eq!(wrap(text.to_owned()), text);
        }
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
        }
    }
}
