//! Putting newString into the places that were found, and refusing places that cannot have been meant.
//!
//! *Invariant:* newString is literal, and every byte outside the places stays (`docs/spec/file-tools.md` §4.1, §4.3).

use std::ops::Range;

use super::lines::trim;
use super::request::EditError;
use crate::snapshot::MAX_LOADED;

/// Replaces the one place, or all of them; of two that overlap the first.
pub(super) fn replace(
    text: &str,
    mut places: Vec<Range<usize>>,
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<Vec<u8>, EditError> {
    places.sort_unstable_by_key(|place| (place.start, usize::MAX - place.end));
    places.dedup();
    if !replace_all && places.len() > 1 {
        let first = &places[0];
        return Err(if is_far_larger(&text[first.clone()], old) {
            EditError::FarLarger
        } else {
            EditError::Ambiguous
        });
    }
    let mut end = 0;
    places.retain(|place| {
        let is_free = place.start >= end;
        if is_free {
            end = place.end;
        }
        is_free
    });
    if places.iter().any(|place| is_far_larger(&text[place.clone()], old)) {
        return Err(EditError::FarLarger);
    }
    let kept = text.len() - places.iter().map(ExactSizeIterator::len).sum::<usize>();
    let mut replaced = Vec::with_capacity(check_size(kept, places.len(), new.len())?);
    let mut rest = 0;
    for place in places {
        replaced.extend_from_slice(&text.as_bytes()[rest..place.start]);
        replaced.extend_from_slice(new.as_bytes());
        rest = place.end;
    }
    replaced.extend_from_slice(&text.as_bytes()[rest..]);
    Ok(replaced)
}

/// Returns the size of a file with `count` insertions of `size` bytes, if a file may become that large.
pub(super) fn check_size(kept: usize, count: usize, size: usize) -> Result<usize, EditError> {
    count
        .checked_mul(size)
        .and_then(|inserted| inserted.checked_add(kept))
        .filter(|&size| size as u64 <= MAX_LOADED)
        .ok_or(EditError::ResultTooLarge)
}

/// Says whether a place is so much larger than oldString that it cannot be what was meant.
fn is_far_larger(place: &str, old: &str) -> bool {
    let lines = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    let old_lines = lines(old);
    if lines(place) >= (old_lines + 3).max(2 * old_lines) {
        return true;
    }
    let units = |text: &str| trim(text).encode_utf16().count();
    old_lines > 1 && {
        let old_units = units(old);
        units(place) > (old_units + 500).max(4 * old_units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_allows_up_to_its_limits() {
        let check = |place: &str, old: &str, expected: bool| assert_eq!(is_far_larger(place, old), expected);
        check("1\n2\n3", "1", false);
        check("1\n2\n3\n4", "1", true);
        check(&"x\n".repeat(8), "1\n2\n3\n4\n5", false);
        check(&"x\n".repeat(9), "1\n2\n3\n4\n5", true);
        check(&"x".repeat(10_000), "1", false);
        check(&format!("{}\n ", "x".repeat(503)), "1\n2", false);
        check(&format!("{}\n ", "x".repeat(504)), "1\n2", true);
        let long = format!("{}\n{}", "y".repeat(200), "y".repeat(199));
        check(&"🚀".repeat(800), &long, false);
        check(&format!("{}x", "🚀".repeat(800)), &long, true);
    }

    #[test]
    fn of_two_places_that_overlap_the_first_is_replaced() {
        let replaced = replace("abcdef", vec![4..5, 1..3, 0..2, 0..2], "xx", "-", true).unwrap();
        assert_eq!(replaced, b"-cd-f");
        let result = replace("abcdef", vec![1..3, 0..2], "xx", "-", false);
        assert!(matches!(result, Err(EditError::Ambiguous)));
    }

    #[test]
    fn a_file_does_not_grow_without_limit() {
        assert!(check_size(10, 3, 5).is_ok_and(|size| size == 25));
        assert!(check_size(0, usize::MAX, 2).is_err());
        assert!(check_size(1, 1 << 20, 64).is_err());
    }
}
