//! Messages of JSON-RPC: those of a server, read from text that may be anything, and those that it is sent.
//!
//! Results are taken over as they are: hooks see what the server sent, keys that the protocol does not know included.
//!
//! *Invariant:* pure. What is not a message is none, never a panic.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Values of the largest message that is taken.
const MAX_VALUES: usize = 500_000;

/// Of a message that is too large this much is looked at, at either end, to find out what it answers.
pub(super) const KEPT_BYTES: usize = 512;

/// The code of errors that are the connection's, as in other clients.
pub(super) const CONNECTION_ERROR: i64 = -32000;

/// The code of the answer to a request that nobody here knows.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// What servers may ask for in the midst of a call.
pub(super) const ELICITATION: &str = "elicitation/create";
pub(super) const SAMPLING: &str = "sampling/createMessage";
pub(super) const ROOTS: &str = "roots/list";

/// A message to a server.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub(super) text: Bytes,
    pub(super) method: &'static str,
    /// Of a request.
    pub(super) id: Option<u64>,
    /// What a request is about: the name of a tool or a prompt, the address of a resource.
    pub(super) name: Option<String>,
    /// What of the arguments of a call goes into headers, under these names.
    pub(super) headers: Vec<(String, String)>,
}

/// The keys of a request's `_meta` in the revision without a handshake.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Who a client is and what it can, as each request says it where there is no handshake.
#[derive(Clone, Debug)]
pub(super) struct Introduction {
    pub(super) version: &'static str,
    pub(super) client: Value,
    pub(super) capabilities: Value,
}

impl Outgoing {
    /// Makes a request, which asks for progress under its own number, and introduces the client if that is wanted.
    pub(super) fn request(
        id: u64,
        method: &'static str,
        mut params: Value,
        introduction: Option<&Introduction>,
    ) -> Self {
        params["_meta"] = json!({ "progressToken": id });
        if let Some(Introduction {
            version,
            client,
            capabilities,
        }) = introduction
        {
            params["_meta"][META_VERSION] = json!(version);
            params["_meta"][META_CLIENT] = client.clone();
            params["_meta"][META_CAPABILITIES] = capabilities.clone();
        }
        let name = params.get("name").or_else(|| params.get("uri"));
        let name = name.and_then(Value::as_str).map(str::to_owned);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Self {
            text: message.to_string().into(),
            method,
            id: Some(id),
            name,
            headers: Vec::new(),
        }
    }

    /// Answers a request of the server.
    pub(super) fn answer(id: &Value, result: Result<Value, ErrorObject>) -> Self {
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        match result {
            Ok(result) => message["result"] = result,
            Err(error) => message["error"] = json!({"code": error.code, "message": error.message}),
        }
        Self::plain(&message, "")
    }

    fn plain(message: &Value, method: &'static str) -> Self {
        Self {
            text: message.to_string().into(),
            method,
            id: None,
            name: None,
            headers: Vec::new(),
        }
    }

    /// Makes a notification.
    pub(super) fn notification(method: &'static str, params: Option<Value>) -> Self {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        Self::plain(&message, method)
    }

    /// Answers a request that the server makes outside of any call: there is no model here, and nobody knows whom to ask.
    /// The folder of the project is the workspace's (`root`).
    pub(super) fn reply(id: &Value, method: &str, root: &str) -> Self {
        let result = match method {
            "ping" => Ok(json!({})),
            ROOTS => Ok(roots(root)),
            ELICITATION => Ok(json!({"action": "decline"})),
            _ => Err(ErrorObject {
                code: METHOD_NOT_FOUND,
                message: "Method not found".to_owned(),
                data: Value::Null,
            }),
        };
        Self::answer(id, result)
    }
}

/// What a server is told that asks for the folders of the project.
pub(super) fn roots(root: &str) -> Value {
    json!({"roots": [{"uri": root}]})
}

/// What a server sends.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    /// The answer to a request.
    Answer {
        id: u64,
        result: Result<Value, ErrorObject>,
    },
    /// A request of the server.
    Request { id: Value, method: String, params: Value },
    /// How far a request has come.
    Progress(Progress),
    /// A line for the log, with its level.
    Logged(Value),
    /// The list of tools has changed.
    ToolsChanged,
    /// The list of prompts or of resources has changed.
    ListChanged,
    /// A resource that is watched has changed.
    ResourceUpdated(String),
    /// Something that nobody here needs.
    Unneeded,
}

impl Incoming {
    /// Makes the answer that is given in the place of the server.
    pub(super) fn failure(id: u64, problem: &str) -> Self {
        let error = ErrorObject {
            code: CONNECTION_ERROR,
            message: problem.to_owned(),
            data: Value::Null,
        };
        Self::Answer { id, result: Err(error) }
    }
}

/// Why a request has failed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct ErrorObject {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Value,
}

/// How far a request has come.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    /// Which request.
    pub(super) progress_token: Value,
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
    #[serde(default)]
    id: Value,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorObject>,
}

/// Reads a message. An answer that cannot be read is one that says so, since somebody waits for it.
///
/// # Errors
/// It is none; the text says why.
pub(super) fn decode(text: &[u8]) -> Result<Incoming, String> {
    if let Some(problem) = excess(text) {
        let (head, tail) = (
            &text[..text.len().min(KEPT_BYTES)],
            &text[text.len().saturating_sub(KEPT_BYTES)..],
        );
        let id = id_in(head, tail).ok_or_else(|| problem.clone())?;
        return Ok(Incoming::failure(id, &problem));
    }
    read(text).or_else(|problem| read(&repaired(text)).map_err(|_| problem))
}

fn read(text: &[u8]) -> Result<Incoming, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match (envelope.method, envelope.id) {
        (Some(method), Value::Null) => notification(&method, envelope.params),
        (Some(method), id) => Ok(Incoming::Request {
            id,
            method: method.into_owned(),
            params: read_params(envelope.params).unwrap_or_default(),
        }),
        (None, Value::Number(id)) => {
            let id = id.as_u64().ok_or("the id is none of a request")?;
            Ok(answer(id, envelope.result, envelope.error))
        }
        (None, Value::String(_)) => Ok(Incoming::Unneeded),
        (None, _) => Err("there is no id and no method".to_owned()),
    }
}

fn answer(id: u64, result: Option<&RawValue>, error: Option<ErrorObject>) -> Incoming {
    let result = match (error, result.map_or("null", RawValue::get).as_bytes()) {
        (Some(error), _) => Err(error),
        (None, text) => match serde_json::from_slice(text).or_else(|_| serde_json::from_slice(&repaired(text))) {
            Ok(result) => Ok(result),
            Err(problem) => {
                return Incoming::failure(id, &format!("The server sent a result that cannot be read: {problem}"));
            }
        },
    };
    Incoming::Answer { id, result }
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
        "notifications/message" => Ok(read_params(params).map_or(Incoming::Unneeded, Incoming::Logged)),
        "notifications/tools/list_changed" => Ok(Incoming::ToolsChanged),
        "notifications/prompts/list_changed" | "notifications/resources/list_changed" => Ok(Incoming::ListChanged),
        "notifications/resources/updated" => {
            let params = read_params(params).unwrap_or_default();
            let uri = params.get("uri").and_then(Value::as_str);
            Ok(uri.map_or(Incoming::Unneeded, |uri| Incoming::ResourceUpdated(uri.to_owned())))
        }
        _ => Ok(Incoming::Unneeded),
    }
}

fn read_params(params: Option<&RawValue>) -> Option<Value> {
    serde_json::from_str(params?.get()).ok()
}

/// Looks for the id of a response in what is left of a message that is too long to be kept: its beginning and its end.
pub(super) fn id_in(head: &[u8], tail: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"id\"";
    // Before the result, the first one is the message's own; after it, the last one.
    let first =
        memchr::memmem::find(head, KEY).filter(|at| memchr::memmem::find(&head[..*at], b"\"result\"").is_none());
    let last = memchr::memmem::rfind(tail, KEY);
    first
        .and_then(|at| number_after_colon(&head[at + KEY.len()..]))
        .or_else(|| last.and_then(|at| number_after_colon(&tail[at + KEY.len()..])))
}

fn number_after_colon(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&text[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(text: &str) -> &'static str {
        match decode(text.as_bytes()) {
            Ok(Incoming::Answer { result: Ok(_), .. }) => "response",
            Ok(Incoming::Answer { result: Err(_), .. }) => "error",
            Ok(Incoming::Request { .. }) => "request",
            Ok(Incoming::Progress(_)) => "progress",
            Ok(Incoming::ToolsChanged | Incoming::ListChanged) => "changed",
            Ok(Incoming::Logged(_)) => "log",
            Ok(Incoming::ResourceUpdated(_)) => "updated",
            Ok(Incoming::Unneeded) => "unneeded",
            Err(_) => "none",
        }
    }

    #[test]
    fn messages_are_told_apart() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"x":1}}"#, "response"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "response"),
            (r#"{"jsonrpc":"2.0","id":"1","result":[]}"#, "unneeded"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#, "error"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"roots/list"}"#, "request"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"any/thing"}"#, "request"),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
                "changed",
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#,
                "log",
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
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#, "none"),
            ("Server listening on stdio", "none"),
            ("[]", "none"),
            ("", "none"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn a_result_is_taken_over_as_it_is() {
        for result in [
            json!({"content": [], "metadata": {"a": 1}}),
            json!([1]),
            json!({"tools": []}),
            json!({}),
        ] {
            let text = json!({"jsonrpc": "2.0", "id": 7, "result": result}).to_string();
            assert_eq!(
                decode(text.as_bytes()),
                Ok(Incoming::Answer {
                    id: 7,
                    result: Ok(result)
                })
            );
        }
    }

    #[test]
    fn requests_of_a_server_are_answered() {
        let reply = |method: &str| -> Value {
            let reply = Outgoing::reply(&json!("r"), method, "file:///w");
            serde_json::from_slice(&reply.text).unwrap()
        };
        assert_eq!(reply("ping"), json!({"jsonrpc": "2.0", "id": "r", "result": {}}));
        assert_eq!(reply("roots/list")["result"]["roots"], json!([{"uri": "file:///w"}]));
        assert_eq!(reply("elicitation/create")["result"]["action"], "decline");
        for method in ["sampling/createMessage", "no/such"] {
            assert_eq!(reply(method)["error"]["code"], METHOD_NOT_FOUND);
        }
    }

    fn result_of(text: &[u8]) -> Result<Value, String> {
        let Incoming::Answer { id, result } = decode(text)? else {
            panic!("it is no answer")
        };
        result.map_err(|error| format!("{id}: {}", error.message))
    }

    #[test]
    fn what_is_no_character_is_replaced() {
        let check = |written: &[u8], expected: &str| {
            let text = [br#"{"id":1,"result":""#, written, br#""}"#].concat();
            assert_eq!(
                result_of(&text),
                Ok(json!(expected)),
                "{}",
                String::from_utf8_lossy(&text)
            );
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
        let error = result_of(deep.as_bytes()).unwrap_err();
        assert!(error.starts_with("7: ") && error.contains("cannot be read"), "{error}");
        let many = format!(r#"{{"id":8,"result":[{}0]}}"#, "0,".repeat(600_000));
        let error = result_of(many.as_bytes()).unwrap_err();
        assert!(error.starts_with("8: ") && error.contains("500000 values"), "{error}");
        let table = format!(r#"{{"id":9,"result":"{}"}}"#, "a,\\\"[{".repeat(600_000));
        assert!(result_of(table.as_bytes()).is_ok());
    }

    #[test]
    fn an_id_is_found_at_either_end() {
        let check = |head: &str, tail: &str, expected: Option<u64>| {
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
            let _ = decode(text.as_bytes());
            let _ = decode(&bytes);
            let _ = id_in(&bytes, text.as_bytes());
            let _ = repaired(&bytes);
        }
    }
}
