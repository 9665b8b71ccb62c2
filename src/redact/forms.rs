//! The forms in which programs print a secret without meaning to hide it.
//!
//! *Invariant:* pure. Every form is as hard to meet by chance as the secret is: pieces of an encoding are not among them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Returns every form of a secret other than the secret itself, each once.
pub(super) fn of(secret: &str) -> Vec<String> {
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    let debug = format!("{secret:?}");
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![
        unquoted(&quoted),
        unquoted(&debug),
        // A log in JSON quotes what was quoted before.
        unquoted(&serde_json::to_string(&unquoted(&quoted)).unwrap_or_default()),
        unquoted(&serde_json::to_string(&unquoted(&debug)).unwrap_or_default()),
        hex.to_ascii_uppercase(),
        hex,
        percent(secret, |byte| format!("%{byte:02X}")),
        percent(secret, |byte| format!("%{byte:02x}")),
    ];
    forms.extend((0..3).flat_map(|offset| base64(secret.as_bytes(), offset)));
    forms.sort();
    forms.dedup();
    forms.retain(|form| form != secret && form.len() >= super::MIN_SECRET_BYTES);
    forms
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
