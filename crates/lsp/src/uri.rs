//! Files as the addresses that the protocol names them by.
//!
//! *Invariant:* pure.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

const SCHEME: &str = "file://";

/// Returns the URI of an absolute path.
pub(super) fn from_path(path: &Path) -> String {
    let mut uri = SCHEME.to_owned();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// Returns the path that a URI of a file names, normalized; none for other URIs.
pub(super) fn to_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix(SCHEME)?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let bytes = OsString::from_vec(decoded(path.as_bytes())?);
    Some(toolgate_fs::path::normalize(Path::new(&bytes)))
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text;
    while let Some((&first, rest)) = left.split_first() {
        left = rest;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, rest) = left.split_at_checked(2)?;
        // The parser of numbers takes signs too.
        let digits = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|&byte| byte != 0)?);
        left = rest;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_uris() {
        let check = |uri: &str, expected: Option<&str>| {
            assert_eq!(to_path(uri).as_deref(), expected.map(Path::new), "{uri}");
        };
        check("file:///w/a.rs", Some("/w/a.rs"));
        check("file:///w/a%20b/%C3%A9.rs", Some("/w/a b/é.rs"));
        check("file://localhost/w", Some("/w"));
        check("file:///w/a.rs#L1", Some("/w/a.rs"));
        check("file:///w/../x", Some("/x"));
        check("file://host/w", None);
        check("file:///w%2", None);
        check("file:///w%00", None);
        check("file:///w%+1", None);
        check("untitled:1", None);
        check("", None);
    }

    proptest! {
        #[test]
        fn a_path_comes_back(path in "(/[^/\\x00]{1,10}){1,4}") {
            prop_assume!(!path.split('/').any(|part| part == "." || part == ".."));
            let uri = from_path(Path::new(&path));
            prop_assert!(uri.is_ascii());
            prop_assert_eq!(to_path(&uri), Some(PathBuf::from(path)));
        }
    }
}
