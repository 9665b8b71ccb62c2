//! Texts that somebody else chose, as PostgreSQL can keep, find and sort them.
//!
//! PostgreSQL has no U+0000 in a text, and no entry of an index above some 2,700 bytes. So U+0000 is written as U+0001 U+0002
//! and U+0001 as U+0001 U+0003, which keeps texts apart and in the order of their bytes; and where a text is looked for, one of
//! more than [`MAX_KEY_BYTES`] is its beginning and its digest.
//!
//! *Invariant:* of two texts [`escaped`] and [`key`] make the same only if they are the same. Keys have the order of their
//! texts as far as those differ before the cut: ids and names that the service accepts are never cut.

use sha2::{Digest as _, Sha256};

const LEAD: char = '\u{1}';
const NUL: char = '\u{2}';
const LEAD_ITSELF: char = '\u{3}';
/// Follows [`LEAD`] in no escaped text.
const CUT: char = '\u{4}';

/// The longest key: three of them in one entry of an index are still far from its limit.
const MAX_KEY_BYTES: usize = 512;

/// What a longer one begins with, before its digest.
const BEGINNING_BYTES: usize = 400;

/// Returns a text as PostgreSQL can keep it.
pub(crate) fn escaped(text: &str) -> String {
    if !text.contains(['\0', LEAD]) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([LEAD, NUL]),
            LEAD => escaped.extend([LEAD, LEAD_ITSELF]),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns what [`escaped`] was given.
pub(crate) fn plain(escaped: &str) -> String {
    if !escaped.contains(LEAD) {
        return escaped.to_owned();
    }
    let mut text = String::with_capacity(escaped.len());
    let mut rest = escaped.chars();
    while let Some(c) = rest.next() {
        text.push(match c {
            LEAD if rest.next() == Some(NUL) => '\0',
            other => other,
        });
    }
    text
}

/// Returns what a text is looked for by.
pub(crate) fn key(text: &str) -> String {
    Key::new(text).key
}

/// What a text is looked for by, and the whole of it if that is not the same.
pub(crate) struct Key {
    pub(crate) key: String,
    /// Escaped.
    pub(crate) full: Option<String>,
}

impl Key {
    pub(crate) fn new(text: &str) -> Self {
        let full = escaped(text);
        if full.len() <= MAX_KEY_BYTES {
            return Self { key: full, full: None };
        }
        let mut end = BEGINNING_BYTES;
        while !full.is_char_boundary(end) {
            end -= 1;
        }
        let digest = hex::encode(Sha256::digest(full.as_bytes()));
        Self {
            key: format!("{}{LEAD}{CUT}{digest}", &full[..end]),
            full: Some(full),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 14] = [
        "",
        "\0",
        "\0\0",
        "\0\u{1}",
        "\0\u{2}",
        "\u{1}",
        "\u{1}\0",
        "\u{1}\u{2}",
        "\u{2}",
        "\u{3}",
        "a",
        "a\0",
        "a\u{1}",
        "é",
    ];

    #[test]
    fn texts_come_back_and_keep_their_order() {
        assert!(TEXTS.is_sorted());
        let escaped: Vec<String> = TEXTS.iter().map(|text| super::escaped(text)).collect();
        assert!(escaped.is_sorted_by(|a, b| a < b), "{escaped:?}");
        for (text, escaped) in TEXTS.iter().zip(&escaped) {
            assert!(!escaped.contains('\0'), "{escaped:?}");
            assert_eq!(plain(escaped), *text);
            assert_eq!(key(text), *escaped);
        }
    }

    #[test]
    fn long_texts_are_told_apart() {
        let long = |end: &str| format!("{}{end}", "é".repeat(10_000));
        let keys: Vec<Key> = ["", "a", "b", "\0"].iter().map(|end| Key::new(&long(end))).collect();
        for (at, one) in keys.iter().enumerate() {
            assert!(one.key.len() <= MAX_KEY_BYTES, "{}", one.key.len());
            assert!(keys[at + 1..].iter().all(|other| other.key != one.key));
            assert!(TEXTS.iter().all(|text| key(text) != one.key));
        }
        assert_eq!(plain(keys[3].full.as_deref().unwrap()), long("\0"));
        let (within, after) = (key(&format!("acme/{}", "x".repeat(1_000))), key("acme0"));
        assert!(key("acme/") < within && within < after);
    }
}
