//! Strategy 1, exact: oldString as it stands, byte for byte. Strategy 9 (every occurrence) is part of it.
//!
//! *Invariant:* works on bytes, so a file that is not valid UTF-8 keeps every byte that is not replaced. Linear in the
//! file, whatever oldString is.

use std::ops::Range;

use memchr::memmem;

use super::request::EditError;
use super::splice::check_size;

/// Replaces `old` by `new`, or returns `None` if `old` is not there.
pub(super) fn replace(content: &[u8], old: &[u8], new: &[u8], replace_all: bool) -> Result<Option<Vec<u8>>, EditError> {
    let finder = memmem::Finder::new(old);
    let Some(first) = finder.find(content) else {
        return Ok(None);
    };
    if !replace_all && memmem::rfind(content, old) != Some(first) {
        return Err(EditError::Ambiguous);
    }
    // Counted first and copied second: the places of a short text in a large file would take more memory than both.
    let count = finder.find_iter(content).count();
    let size = check_size(content.len() - count * old.len(), count, new.len())?;
    let mut replaced = Vec::with_capacity(size);
    let mut rest = 0;
    for at in finder.find_iter(content) {
        replaced.extend_from_slice(&content[rest..at]);
        replaced.extend_from_slice(new);
        rest = at + old.len();
    }
    replaced.extend_from_slice(&content[rest..]);
    Ok(Some(replaced))
}

/// Returns where `wanted` stands in `text`, one after the other; two places that overlap count as two if there is no
/// other.
pub(super) fn occurrences(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let mut places: Vec<Range<usize>> = memmem::find_iter(text.as_bytes(), wanted)
        .map(|at| at..at + wanted.len())
        .collect();
    if let [only] = places.as_slice()
        && let Some(last) = memmem::rfind(text.as_bytes(), wanted.as_bytes())
        && last != only.start
    {
        places.push(last..last + wanted.len());
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_one_or_all() {
        let check = |content: &[u8], old: &str, all: bool, expected: Option<&[u8]>| {
            let replaced = replace(content, old.as_bytes(), b"$&", all).unwrap();
            assert_eq!(replaced.as_deref(), expected, "{old}");
        };
        check(b"abc", "b", false, Some(b"a$&c"));
        check(b"abcb", "b", true, Some(b"a$&c$&"));
        check(b"aaa", "aa", true, Some(b"$&a"));
        check(b"abc", "d", true, None);
        check(b"\xff\xfea\x80", "a", false, Some(b"\xff\xfe$&\x80"));
        for (content, old) in [("aba", "a"), ("aaa", "aa")] {
            let result = replace(content.as_bytes(), old.as_bytes(), b"", false);
            assert!(matches!(result, Err(EditError::Ambiguous)));
        }
    }

    #[test]
    fn overlapping_occurrences_are_two() {
        assert_eq!(occurrences("aaa", "aa"), [0..2, 1..3]);
        assert_eq!(occurrences("aXa", "a"), [0..1, 2..3]);
        assert!(occurrences("a", "b").is_empty());
    }
}
