//! Messages as they travel: JSON-RPC with a `Content-Length` in front of each.
//!
//! Only what is wanted of a message is parsed further: results, and the parameters of the few methods that count. All
//! else stays the text that it is.
//!
//! *Invariant:* whatever a server prints, no more than [`MAX_BODY`] bytes of a message and [`MAX_HEADER`] in front of it are
//! kept.

use std::io;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// Bytes of the longest message that is taken.
pub(super) const MAX_BODY: usize = 8 << 20;

/// Bytes that may lie before a message: its header, and what a server printed that belongs into a log.
const MAX_HEADER: usize = 64 << 10;

/// Bytes that are made room for before they have come.
const FIRST_ROOM: usize = 64 << 10;

const LENGTH: &[u8] = b"content-length";

/// Why a server's output is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("it sent a message of more than {} MiB", MAX_BODY >> 20)]
    TooLong,
    #[error("it sent something that is not a message")]
    NoMessage,
    #[error("its output ended within a message")]
    Cut,
    #[error("its output cannot be read: {0}")]
    Unreadable(#[source] io::Error),
}

/// A message of a server.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) id: Option<Value>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) params: Option<Box<RawValue>>,
    /// None for `null` too, which is a result like any other.
    #[serde(default)]
    pub(super) result: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) error: Option<Refusal>,
}

/// A server's answer that it does not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
}

/// Reads the next message; none at the end of the output.
pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Message>, WireError> {
    let Some(length) = read_header(from).await? else {
        return Ok(None);
    };
    if length > MAX_BODY {
        return Err(WireError::TooLong);
    }
    let mut body = Vec::with_capacity(length.min(FIRST_ROOM));
    from.take(length as u64)
        .read_to_end(&mut body)
        .await
        .map_err(WireError::Unreadable)?;
    if body.len() < length {
        return Err(WireError::Cut);
    }
    // The parser takes lists for messages too.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(WireError::NoMessage);
    }
    serde_json::from_slice(&body)
        .map(Some)
        .map_err(|_| WireError::NoMessage)
}

/// Returns the length that a header names. Lines before it that are no header are passed over: some servers greet.
async fn read_header(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<usize>, WireError> {
    let mut length = None;
    let mut left = MAX_HEADER;
    loop {
        let mut line = Vec::new();
        let taken = (&mut *from)
            .take(left as u64)
            .read_until(b'\n', &mut line)
            .await
            .map_err(WireError::Unreadable)?;
        left -= taken;
        if !line.ends_with(b"\n") {
            let is_end = line.is_empty() && left > 0 && length.is_none();
            return if is_end { Ok(None) } else { Err(WireError::NoMessage) };
        }
        let line = line.trim_ascii();
        match (line.is_empty(), length) {
            (true, Some(length)) => return Ok(Some(length)),
            (true, None) => {}
            (false, _) => {
                if let Some(named) = length_in(line) {
                    length = Some(named.ok_or(WireError::NoMessage)?);
                }
            }
        }
    }
}

/// Returns what a header line says of the length; none inside if that is no number.
fn length_in(line: &[u8]) -> Option<Option<usize>> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
    if !name.eq_ignore_ascii_case(LENGTH) {
        return None;
    }
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok());
    // A number that no machine can hold is too long, not strange.
    Some(is_number.then(|| number.flatten().unwrap_or(usize::MAX)))
}

/// Returns a message with its header.
pub(super) fn framed(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    let mut framed = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    framed.extend_from_slice(body.as_bytes());
    framed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Reads everything, and tells it on one line.
    async fn summary_of(bytes: &[u8]) -> String {
        let mut from = bytes;
        let mut told = Vec::new();
        loop {
            match read(&mut from).await {
                Ok(Some(message)) => told.push(format!("{}", message.id.unwrap_or_default())),
                Ok(None) => break,
                Err(error) => {
                    told.push(error.to_string());
                    break;
                }
            }
        }
        told.join(" ")
    }

    fn check(bytes: &[u8], expected: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(runtime.block_on(summary_of(bytes)), expected, "{shown:?}");
    }

    #[test]
    fn reads_what_servers_send() {
        check(b"", "");
        check(
            b"Content-Length: 8\r\n\r\n{\"id\":1}Content-Length: 8\r\n\r\n{\"id\":2}",
            "1 2",
        );
        check(
            b"content-length:8\nContent-Type: application/vscode-jsonrpc; charset=utf-8\n\n{\"id\":1}",
            "1",
        );
        check(b"Content-Type: x\r\nContent-Length: 8\r\n\r\n{\"id\":1}", "1");
        check(b"Listening: yes\n\nReady.\nContent-Length: 8\r\n\r\n{\"id\":1}", "1");
        check("Content-Length: 11\r\n\r\n{\"id\":\"é\"}".as_bytes(), "\"é\"");
    }

    #[test]
    fn refuses_what_no_server_should_send() {
        let strange = "it sent something that is not a message";
        check(b"hello", strange);
        check(b"Content-Length: 2\r\n\r\n{]", strange);
        check(b"Content-Length: 2\r\n\r\n[]", strange);
        check(b"Content-Length: -1\r\n\r\n", strange);
        check(b"Content-Length: 1e3\r\n\r\n", strange);
        check(b"Content-Length:\r\n\r\n", strange);
        check(b"Content-Length: 8\r\n", strange);
        check(&b"x".repeat(MAX_HEADER + 10), strange);
        check(&b"x\n".repeat(MAX_HEADER), strange);
        check(
            b"Content-Length: 9\r\n\r\n{\"id\":1}",
            "its output ended within a message",
        );
        check(
            b"Content-Length: 8388609\r\n\r\n",
            "it sent a message of more than 8 MiB",
        );
        check(
            b"Content-Length: 99999999999999999999999999\r\n\r\n",
            "it sent a message of more than 8 MiB",
        );
        let deep = "[".repeat(100_000);
        check(
            format!("Content-Length: {}\r\n\r\n{deep}", deep.len()).as_bytes(),
            strange,
        );
    }

    proptest! {
        #[test]
        fn what_is_framed_is_read(texts in proptest::collection::vec("\\PC{0,40}", 0..5)) {
            let framed: Vec<u8> = texts.iter().flat_map(|text| framed(&json!({ "id": text }))).collect();
            let expected: Vec<String> = texts.iter().map(|text| json!(text).to_string()).collect();
            check(&framed, &expected.join(" "));
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(summary_of(&bytes));
        }
    }
}
