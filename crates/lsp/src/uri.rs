//! Files as the addresses that the protocol names them by.
//!
//! *Invariant:* pure.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

const SCHEME: &str = "file://";

/// What stands in no path of a URI as it is (RFC 3986 §3.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// Returns the URI of an absolute path.
pub(super) fn from_path(path: &Path) -> String {
    format!("{SCHEME}{}", percent_encode(path.as_os_str().as_bytes(), ESCAPED))
}

/// Returns the path that a URI of a file names, normalized; none for other URIs.
pub(super) fn to_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix(SCHEME)?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let bytes = OsString::from_vec(decoded(path)?);
    Some(toolgate_fs::path::normalize(Path::new(&bytes)))
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let is_escape = |rest: &str| {
        rest.get(..2)
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    (text.split('%').skip(1).all(is_escape) && !bytes.contains(&0)).then_some(bytes)
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
