//! Files as the addresses that the protocol names them by.
//!
//! *Invariant:* pure.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

const SCHEME: &str = "file://";

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
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    let is_written_well = text.split('%').skip(1).all(starts_with_escape);
    (is_written_well && !bytes.contains(&0)).then_some(bytes)
}

fn starts_with_escape(text: &str) -> bool {
    text.get(..2)
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use toolgate_fs::path::file_url;

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
            let uri = file_url(Path::new(&path));
            prop_assert!(uri.is_ascii());
            prop_assert_eq!(to_path(&uri), Some(PathBuf::from(path)));
        }
    }
}
