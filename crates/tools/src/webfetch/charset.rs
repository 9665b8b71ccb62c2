//! From the bytes of an answer to its text, in whatever character set it is written.
//!
//! A byte order mark decides, then what the header says, then what the first bytes of a page say of themselves; without
//! any of these it is UTF-8.
//!
//! *Invariant:* pure. Every body has a text: what means nothing becomes U+FFFD.

use std::sync::LazyLock;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use regex::bytes::Regex;

/// How far into a page its character set may stand.
const PROLOGUE_BYTES: usize = 1024;

static META: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?is-u)<meta\s[^>]*?\bcharset\s*=\s*["']?\s*([a-z0-9_:.-]+)"#).ok());

/// Returns the text of a body.
pub(super) fn decode(content_type: &str, body: &[u8]) -> String {
    let declared = parameter(content_type).and_then(|label| labelled(label.as_bytes()));
    let encoding = declared
        .or_else(|| is_markup(content_type).then(|| of_page(body)).flatten())
        .unwrap_or(UTF_8);
    // A byte order mark is stronger, and is dropped.
    let (text, ..) = encoding.decode(body);
    text.into_owned()
}

fn labelled(label: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(label)
}

fn is_markup(content_type: &str) -> bool {
    let content_type = content_type.to_ascii_lowercase();
    content_type.contains("html") || content_type.contains("xml")
}

/// Returns the value of the parameter `charset`.
fn parameter(content_type: &str) -> Option<&str> {
    let parameters = content_type.split(';').skip(1);
    let mut pairs = parameters.filter_map(|parameter| parameter.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches(['"', '\'']))
}

/// Returns what a page says of itself.
fn of_page(body: &[u8]) -> Option<&'static Encoding> {
    let prologue = &body[..body.len().min(PROLOGUE_BYTES)];
    let label = META.as_ref()?.captures(prologue)?.get(1)?;
    let encoding = labelled(label.as_bytes())?;
    // Whoever could read this was not reading UTF-16.
    if encoding == UTF_16LE || encoding == UTF_16BE {
        Some(UTF_8)
    } else {
        Some(encoding)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn character_sets() {
        let check = |content_type: &str, body: &[u8], expected: &str| {
            assert_eq!(decode(content_type, body), expected, "{content_type} {body:?}");
        };
        check("text/html; charset=utf-8", "é".as_bytes(), "é");
        check("text/html", b"\xe9", "\u{fffd}");
        check(
            "text/plain; charset=ISO-8859-1",
            b"caf\xe9 \x93x\x94",
            "caf\u{e9} \u{201c}x\u{201d}",
        );
        check(
            "text/plain;format=flowed; Charset = \"Shift_JIS\" ",
            b"\x93\xfa\x96{",
            "日本",
        );
        check("text/html; charset=windows-1251", b"\xcf\xf0\xe8\xe2\xe5\xf2", "Привет");
        check("text/html; charset=gb18030", b"\xc4\xe3\xba\xc3", "你好");
        check("text/html; charset=euc-kr", b"\xc7\xd1", "한");
        check("text/html; charset=nonsense", "é".as_bytes(), "é");
        check("text/html; charset=iso-2022-kr", "é".as_bytes(), "é");
        check("text/html; charset=", "é".as_bytes(), "é");
        check("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xa9", "é");
        check("", b"\xff\xfea\x00", "a");
        check("", b"\xfe\xff\x00a", "a");
        check("text/html", b"<meta charset='koi8-r'>\xf0", "<meta charset='koi8-r'>П");
        let old = b"<html><META http-equiv=content-type content=\"text/html; charset=windows-1252\">\x80";
        assert!(decode("text/html", old).ends_with('€'));
        assert!(decode("application/xhtml+xml", old).ends_with('€'));
        assert!(decode("text/plain", old).ends_with('\u{fffd}'));
        check(
            "text/html",
            "<meta charset=utf-16>é".as_bytes(),
            "<meta charset=utf-16>é",
        );
        let late = [b" ".repeat(PROLOGUE_BYTES), b"<meta charset=koi8-r>\xf0".to_vec()].concat();
        assert!(decode("text/html", &late).ends_with('\u{fffd}'));
        check(
            "text/html; charset=utf-8",
            b"<meta charset=koi8-r>\xf0",
            "<meta charset=koi8-r>\u{fffd}",
        );
    }

    proptest! {
        #[test]
        fn every_body_has_a_text(content_type in ".{0,40}", body: Vec<u8>) {
            let text = decode(&content_type, &body);
            prop_assert!(text.len() <= body.len() * 3 + 3);
        }

        #[test]
        fn utf_8_stays_as_it_is(text in "[^\u{feff}<].*") {
            prop_assert_eq!(decode("text/html; charset=utf-8", text.as_bytes()), text);
        }
    }
}
