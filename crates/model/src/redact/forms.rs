//! The forms in which programs print a secret without meaning to hide it.
//!
//! *Invariant:* pure. Every form is as hard to meet by chance as the secret is: pieces of an encoding are not among them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Returns every form of a secret other than the secret itself, each once.
pub(super) fn encoded(secret: &str) -> Vec<String> {
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    let debug = format!("{secret:?}");
    let mut forms = vec![
        unquoted(&quoted),
        unquoted(&debug),
        // A log in JSON quotes what was quoted before.
        unquoted(&serde_json::to_string(&unquoted(&quoted)).unwrap_or_default()),
        unquoted(&serde_json::to_string(&unquoted(&debug)).unwrap_or_default()),
        percent(secret, |byte| format!("%{byte:02X}")),
        percent(secret, |byte| format!("%{byte:02x}")),
    ];
    for json in [unquoted(&quoted), secret.to_owned()] {
        for upper in [false, true] {
            let ascii = utf16(&json, upper, |letter| !letter.is_ascii());
            // Some writers of JSON escape slashes, too.
            forms.push(ascii.replace('/', "\\/"));
            forms.push(ascii);
        }
    }
    forms.extend([false, true].map(|upper| utf16(secret, upper, |_| true)));
    forms.extend(shell(secret));
    forms.extend(wrapped(secret));
    kept(forms, secret)
}

/// Returns the forms that programs write in lines of a fixed length.
pub(super) fn wrapped(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![hex.to_ascii_uppercase(), hex];
    forms.extend((0..3).flat_map(|offset| base64(secret.as_bytes(), offset)));
    kept(forms, secret)
}

fn kept(mut forms: Vec<String>, secret: &str) -> Vec<String> {
    forms.sort();
    forms.dedup();
    forms.retain(|form| form != secret && form.len() >= super::MIN_SECRET_BYTES);
    forms
}

/// Writes letters as `\uXXXX`, two of them where one takes two units.
fn utf16(text: &str, upper: bool, is_escaped: impl Fn(char) -> bool) -> String {
    let mut units = [0; 2];
    let one = |letter: char| match is_escaped(letter) {
        true => letter
            .encode_utf16(&mut units)
            .iter()
            .map(|unit| escape_unit(*unit, upper))
            .collect(),
        false => letter.to_string(),
    };
    text.chars().map(one).collect()
}

fn escape_unit(unit: u16, upper: bool) -> String {
    match upper {
        true => format!("\\u{unit:04X}"),
        false => format!("\\u{unit:04x}"),
    }
}

/// Returns how shells and their helpers quote a word: `printf %q`, `${x@Q}`, `set -x`, Python's `shlex`.
fn shell(secret: &str) -> Vec<String> {
    let plain = |letter: char| letter.is_alphanumeric() || !letter.is_ascii() || "_@%+=:./-".contains(letter);
    let backslashed = |also: &str| -> String {
        let one = |letter: char| match plain(letter) || also.contains(letter) {
            true => letter.to_string(),
            false => format!("\\{letter}"),
        };
        secret.chars().map(one).collect()
    };
    let ansi = |bytes: bool| -> String {
        let one = |letter: char| match letter {
            '\'' | '\\' => format!("\\{letter}"),
            '\u{7}' => "\\a".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\t' => "\\t".to_owned(),
            '\n' => "\\n".to_owned(),
            '\u{b}' => "\\v".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            '\r' => "\\r".to_owned(),
            '\u{1b}' => "\\E".to_owned(),
            letter if letter.is_ascii_control() || (bytes && !letter.is_ascii()) => {
                let mut buffer = [0; 4];
                letter
                    .encode_utf8(&mut buffer)
                    .bytes()
                    .map(|byte| format!("\\{byte:03o}"))
                    .collect()
            }
            letter => letter.to_string(),
        };
        secret.chars().map(one).collect()
    };
    vec![
        // `~` and `#` are quoted where a word begins, `,` by some versions only.
        backslashed(""),
        backslashed("~#"),
        backslashed(","),
        backslashed("~#,"),
        ansi(false),
        ansi(true),
        secret.replace('\'', "'\\''"),
        secret.replace('\'', "'\"'\"'"),
    ]
}

fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

fn percent(secret: &str, escape: impl Fn(u8) -> String) -> String {
    let one = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => escape(byte),
    };
    secret.bytes().map(one).collect()
}

/// Returns the letters that depend on the secret alone when `offset` bytes stand before it in an encoded group.
fn base64(secret: &[u8], offset: usize) -> [String; 2] {
    let bytes = [&[0_u8; 3][..offset], secret].concat();
    let first = (offset * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    let inner = |encoded: String| encoded.get(first..end).unwrap_or_default().to_owned();
    [
        inner(STANDARD_NO_PAD.encode(&bytes)),
        inner(URL_SAFE_NO_PAD.encode(&bytes)),
    ]
}
