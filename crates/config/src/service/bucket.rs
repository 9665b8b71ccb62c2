//! Where a gateway keeps what is long of outputs: a bucket, its server, and who uses it.
//!
//! *Invariant:* keys are shown to nobody, and go over no line that is not encrypted, but on this machine.

use std::fmt;

use super::addresses::{is_local, is_server};

/// The longest key.
const MAX_KEY_BYTES: usize = 1_024;

/// Who uses a bucket.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketKeys {
    /// The public half.
    pub id: String,
    /// The secret half.
    pub secret: String,
}

impl BucketKeys {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_plain =
            |half: &str| (1..=MAX_KEY_BYTES).contains(&half.len()) && half.chars().all(|c| c.is_ascii_graphic());
        // Not repeated: it holds a secret.
        match text.trim().split_once(':') {
            Some((id, secret)) if is_plain(id) && is_plain(secret) => Ok(Self {
                id: id.to_owned(),
                secret: secret.to_owned(),
            }),
            Some(_) | None => Err("expected one line ID:SECRET, the two halves of an access key".to_owned()),
        }
    }
}

impl fmt::Debug for BucketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BucketKeys")
    }
}

/// Reads which bucket it is, and what the names of all objects begin with.
pub(super) fn address(text: &str) -> Result<String, String> {
    let expected = || format!("expected a bucket such as s3://outputs or s3://outputs/toolgate, found {text:?}");
    let rest = text.strip_prefix("s3://").ok_or_else(expected)?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.=".contains(c);
    let is_folder = |part: &str| !part.is_empty() && part != "." && part != ".." && part.chars().all(is_plain);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let fits = (3..=63).contains(&bucket.len())
        && bucket.chars().all(is_name)
        && (prefix.is_empty() || prefix.split('/').all(is_folder));
    if fits { Ok(text.to_owned()) } else { Err(expected()) }
}

/// Reads where the server of a bucket is.
pub(super) fn endpoint(text: &str) -> Result<String, String> {
    if !is_server(text) {
        return Err(format!(
            "expected a server such as https://s3.example:9000, found {text:?}"
        ));
    }
    if !text.starts_with("https://") && !is_local(text) {
        return Err("the line to this server is not encrypted: write https://".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Reads the name of a region.
pub(super) fn region(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    match (1..=63).contains(&text.len()) && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected a region such as eu-central-1, found {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_bucket_is_refused() {
        for good in ["s3://outputs", "s3://my.outputs-1/a/b", "s3://outputs/a/"] {
            assert_eq!(address(good).as_deref(), Ok(good));
        }
        for bad in [
            "outputs",
            "s3://",
            "s3://ab",
            "s3://Outputs",
            "s3://outputs//a",
            "s3://outputs/../a",
            "s3://outputs/a b",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn servers_of_buckets_are_encrypted() {
        for (text, expected) in [
            ("https://s3.example:9000/", Ok("https://s3.example:9000".to_owned())),
            ("http://127.0.0.1:9000", Ok("http://127.0.0.1:9000".to_owned())),
        ] {
            assert_eq!(endpoint(text), expected);
        }
        for bad in [
            "http://s3.example",
            "s3.example",
            "https://u@s3.example",
            "https://s3.example/outputs",
        ] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let keys = BucketKeys::parse("AKIA:hunter2\n").unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.as_str()), ("AKIA", "hunter2"));
        assert_eq!(format!("{keys:?}"), "BucketKeys");
        for bad in ["", "AKIA", "AKIA:", ":hunter2", "AKIA:hun ter2", "AKIA:hunter2\nmore"] {
            let error = BucketKeys::parse(bad).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
