//! Bytes as text for the model: what is not UTF-8 is replaced, and the result says that it was.
//!
//! *Invariant:* pure. Everything that is UTF-8 passes unchanged, control characters included.

use serde_json::{Value, json};

/// The key under which a result's metadata says that its text is not exactly what was printed.
pub(crate) const KEY: &str = "lossy";

/// Bytes decoded as text.
pub(crate) struct Decoded {
    /// The text, with a replacement character for each piece that is not UTF-8.
    pub(crate) text: String,
    /// Where in the text the replacement characters are that were put in.
    replaced: Vec<usize>,
}

impl Decoded {
    /// Decodes bytes.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let (mut text, mut replaced) = (String::with_capacity(bytes.len()), Vec::new());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                replaced.push(text.len());
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Self { text, replaced }
    }

    /// Returns how many replacements are in the first `length` bytes of the text.
    pub(crate) fn replaced_in(&self, length: usize) -> usize {
        self.replaced.partition_point(|position| *position < length)
    }
}

/// Returns what the metadata says of a text with so many replacements.
pub(crate) fn label(replaced: usize) -> Value {
    json!({ "replaced": replaced })
}

/// Returns the warning for a person.
pub(crate) fn warning(replaced: &Value, path: &str) -> String {
    format!(
        "the output has bytes that are not UTF-8: in the text for the model {replaced} replacement characters stand for \
         them; the bytes as they were printed are kept in {path}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_it_replaces() {
        let check = |bytes: &[u8], text: &str, replaced: usize| {
            let decoded = Decoded::new(bytes);
            assert_eq!(
                (decoded.text.as_str(), decoded.replaced.len()),
                (text, replaced),
                "{bytes:x?}"
            );
            assert_eq!(decoded.text, String::from_utf8_lossy(bytes));
        };
        check(b"", "", 0);
        check(
            "plain \u{fffd} \u{1b}[31m\r\0\n".as_bytes(),
            "plain \u{fffd} \u{1b}[31m\r\0\n",
            0,
        );
        check(b"a\xff\xfeb\n", "a\u{fffd}\u{fffd}b\n", 2);
        check(b"\xe2\x82", "\u{fffd}", 1);
        check(b"\xf0\x9f\x98x\xe2", "\u{fffd}x\u{fffd}", 2);
    }

    #[test]
    fn counts_in_a_part() {
        let decoded = Decoded::new(b"a\xffb\xffc");
        let counts: Vec<usize> = (0..=decoded.text.len()).map(|end| decoded.replaced_in(end)).collect();
        assert_eq!(counts, [0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    }
}
