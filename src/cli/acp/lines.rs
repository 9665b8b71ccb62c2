//! The messages of the protocol, one on a line.
//!
//! *Invariant:* a line is handed on as it came, in parts if it is longer than [`MAX_LINE`].

use std::io;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, BufReader};

/// The longest message that is looked at: one may carry pictures.
pub(super) const MAX_LINE: usize = 64 * 1024 * 1024;

/// Reads lines.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    longest: usize,
    /// Whether the last one was longer, and its end is still to come.
    is_within: bool,
    /// Whether the rest of it is not wanted.
    is_skipping: bool,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// A part of one that is too long to be kept as a whole.
    Part {
        bytes: Vec<u8>,
        is_first: bool,
        is_last: bool,
    },
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, reader),
            longest: MAX_LINE,
            is_within: false,
            is_skipping: false,
        }
    }

    /// Passes over the rest of the line of which a part was returned.
    pub(super) fn skip(&mut self) {
        self.is_skipping = self.is_within;
    }

    /// Returns the next line that is not empty, or a part of one; none at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let is_first = !self.is_within;
            let mut bytes = Vec::new();
            let mut ending = None;
            while ending.is_none() && (bytes.is_empty() || (is_first && bytes.len() <= self.longest)) {
                ending = take(&mut self.reader, &mut bytes).await?;
            }
            self.is_within = ending.is_none();
            if self.is_skipping {
                self.is_skipping = self.is_within;
                continue;
            }
            if !is_first || self.is_within {
                let is_last = !self.is_within;
                return Ok(Some(Line::Part {
                    bytes,
                    is_first,
                    is_last,
                }));
            }
            match (bytes.trim_ascii().is_empty(), ending) {
                (false, _) => return Ok(Some(Line::Whole(bytes))),
                (true, Some(Ending::Input)) => return Ok(None),
                (true, _) => {}
            }
        }
    }
}

/// What a line ends with.
enum Ending {
    LineFeed,
    Input,
}

/// Takes more of a line. Returns its end, if that came.
async fn take(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<Option<Ending>> {
    let read = reader.fill_buf().await?;
    if read.is_empty() {
        return Ok(Some(Ending::Input));
    }
    let end = read.iter().position(|byte| *byte == b'\n');
    line.extend_from_slice(&read[..end.unwrap_or(read.len())]);
    let taken = end.map_or(read.len(), |end| end + 1);
    reader.consume(taken);
    Ok(end.map(|_| Ending::LineFeed))
}

/// Says whether a line may be a message, by how it begins.
pub(super) fn may_be_message(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// The id of a request, as it is told apart from others: a text may be written in several ways, all else is compared as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id(String);

impl Id {
    fn new(raw: &RawValue) -> Self {
        let text = serde_json::from_str::<String>(raw.get());
        Self(text.map_or_else(|_| raw.get().to_owned(), |text| Value::String(text).to_string()))
    }

    /// Returns the id if it is a text.
    pub(super) fn text(&self) -> Option<String> {
        serde_json::from_str(&self.0).ok()
    }
}

/// What a message is, as far as it matters to who hands it on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A request, by its id and method.
    Request(Id, String),
    /// What nobody answers, by its method.
    Notification(String),
    /// The answer to the request of this id.
    Answer(Id),
    /// JSON, and none of these.
    Other,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
}

/// Reads what a line is; none if it is not JSON.
pub(super) fn read(line: &[u8]) -> Option<Message> {
    // A list would be read as the fields in their order.
    if line.trim_ascii_start().first() == Some(&b'{')
        && let Ok(Envelope { id, method }) = serde_json::from_slice(line)
    {
        return Some(match (id.map(Id::new), method) {
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
    use super::*;

    #[tokio::test]
    async fn long_lines_come_in_parts() {
        let check = async |text: &str, expected: &[&str]| {
            let mut lines = Lines {
                reader: BufReader::with_capacity(3, text.as_bytes()),
                longest: 8,
                is_within: false,
                is_skipping: false,
            };
            let (mut read, mut is_within) = (Vec::new(), false);
            while let Some(line) = lines.next().await.unwrap() {
                let (bytes, mark) = match line {
                    Line::Whole(bytes) => (bytes, ""),
                    Line::Part {
                        bytes,
                        is_first,
                        is_last,
                    } => {
                        assert_eq!(is_first, !is_within, "{text}");
                        is_within = !is_last;
                        if bytes.starts_with(b"skip") {
                            lines.skip();
                            is_within = false;
                        }
                        (bytes, if is_last { "$" } else { "+" })
                    }
                };
                read.push(String::from_utf8(bytes).unwrap() + mark);
            }
            assert_eq!(read, expected, "{text}");
        };
        check("one\n\n  \nfour\nlast", &["one", "four", "last"]).await;
        check("much too long\nfour\n", &["much too +", "lon+", "g$", "four"]).await;
        check("12345678\n123456789\nx", &["12345678", "123456789+", "$", "x"]).await;
        check("much too long", &["much too +", "lon+", "g+", "$"]).await;
        check("", &[]).await;
        check("skip this line\nfour", &["skip this+", "four"]).await;
        check("skip this line", &["skip this+"]).await;
    }

    #[test]
    fn messages_are_told_apart() {
        let check = |line: &str, expected: Option<Message>| assert_eq!(read(line.as_bytes()), expected, "{line}");
        let id = |text: &str| Id(text.to_owned());
        let request = Message::Request(id("1"), "a/b".to_owned());
        check(
            r#"  {"jsonrpc": "2.0", "id": 1, "method": "a/b", "params": {"id": 2}}"#,
            Some(request),
        );
        check(r#"{"method": "a"}"#, Some(Message::Notification("a".to_owned())));
        check(
            r#"{"id": null, "method": "a"}"#,
            Some(Message::Notification("a".to_owned())),
        );
        check(r#"{"id": "x", "result": null}"#, Some(Message::Answer(id(r#""x""#))));
        check(
            r#"{"id": "\u0078", "error": {"code": 1e999}}"#,
            Some(Message::Answer(id(r#""x""#))),
        );
        // Told apart, though they are one number to who computes with them.
        for large in ["12345678901234567890123", "12345678901234567890124", "1e999"] {
            check(&format!(r#"{{"id": {large}}}"#), Some(Message::Answer(id(large))));
        }
        let deep = format!(r#"{{"id": 1, "result": {}{}}}"#, "[".repeat(1000), "]".repeat(1000));
        check(&deep, Some(Message::Answer(id("1"))));
        check(r#"{"method": 7}"#, Some(Message::Other));
        check(r#"[1, "a"]"#, Some(Message::Other));
        check("{}", Some(Message::Other));
        check("Listening on 8080", None);
        check("{\"id\": 1", None);
    }
}
