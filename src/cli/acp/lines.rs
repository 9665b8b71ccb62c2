//! The messages of the protocol, one on a line.
//!
//! *Invariant:* a line is handed on as it came, and no longer one is kept than [`MAX_LINE`].

use std::io;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, BufReader};

/// The longest message: one may carry pictures.
pub(super) const MAX_LINE: usize = 64 * 1024 * 1024;

/// Reads lines.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    longest: usize,
}

/// What came on a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// All of it, without its end.
    Whole(Vec<u8>),
    /// So many bytes, which are gone.
    TooLong(usize),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, reader),
            longest: MAX_LINE,
        }
    }

    /// Returns the next line that is not empty; none at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            match next_line(&mut self.reader, self.longest).await? {
                Some(Line::Whole(line)) if line.trim_ascii().is_empty() => {}
                line => return Ok(line),
            }
        }
    }
}

async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Option<Line>> {
    let (mut line, mut length) = (Vec::new(), 0);
    loop {
        let read = reader.fill_buf().await?;
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        length += part.len();
        if length <= longest {
            line.extend_from_slice(part);
        } else {
            line = Vec::new();
        }
        let (is_end, taken) = (read.is_empty(), end.map_or(read.len(), |end| end + 1));
        reader.consume(taken);
        if end.is_some() || is_end {
            return Ok(match (length > longest, is_end && length == 0) {
                (_, true) => None,
                (true, false) => Some(Line::TooLong(length)),
                (false, false) => Some(Line::Whole(line)),
            });
        }
    }
}

/// What a message is, as far as it matters to who hands it on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A request, by its id and method.
    Request(Value, String),
    /// What nobody answers, by its method.
    Notification(String),
    /// The answer to the request of this id.
    Answer(Value),
    /// JSON, and none of these.
    Other,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
}

/// Reads what a line is; none if it is not JSON.
pub(super) fn read(line: &[u8]) -> Option<Message> {
    // A list would be read as the fields in their order.
    if line.trim_ascii_start().first() == Some(&b'{')
        && let Ok(Envelope { id, method }) = serde_json::from_slice(line)
    {
        return Some(match (id, method) {
            (Some(id), Some(method)) => Message::Request(id, method),
            (None, Some(method)) => Message::Notification(method),
            (Some(id), None) => Message::Answer(id),
            (None, None) => Message::Other,
        });
    }
    serde_json::from_slice::<IgnoredAny>(line).ok().map(|_| Message::Other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn long_lines_are_passed_over() {
        let text = b"one\n\n  \nmuch too long\nfour\nlast" as &[u8];
        let mut lines = Lines {
            reader: BufReader::with_capacity(3, text),
            longest: 8,
        };
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(line);
        }
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(read, [whole("one"), Line::TooLong(13), whole("four"), whole("last")]);
    }

    #[test]
    fn messages_are_told_apart() {
        let check = |line: &str, expected: Option<Message>| assert_eq!(read(line.as_bytes()), expected, "{line}");
        let request = Message::Request(json!(1), "a/b".to_owned());
        check(
            r#"  {"jsonrpc": "2.0", "id": 1, "method": "a/b", "params": {"id": 2}}"#,
            Some(request),
        );
        check(r#"{"method": "a"}"#, Some(Message::Notification("a".to_owned())));
        check(
            r#"{"id": null, "method": "a"}"#,
            Some(Message::Notification("a".to_owned())),
        );
        check(r#"{"id": "x", "result": null}"#, Some(Message::Answer(json!("x"))));
        check(
            r#"{"id": "x", "error": {"code": 1}}"#,
            Some(Message::Answer(json!("x"))),
        );
        check(r#"{"method": 7}"#, Some(Message::Other));
        check(r#"[1, "a"]"#, Some(Message::Other));
        check("{}", Some(Message::Other));
        check("Listening on 8080", None);
        check("{\"id\": 1", None);
    }
}
