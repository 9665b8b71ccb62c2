//! Merging two changes of one text, line by line.
//!
//! *Invariant:* pure, and bounded like [`super::diff`]. Two changes are merged only if at least one unchanged line lies
//! between them, or if they are the same change; what is in doubt is refused, never guessed.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

/// Three texts together above this are not merged.
const MAX_MERGED: usize = 16 << 20;

/// The search for the shortest difference ends here; the rest then counts as changed, and is refused rather than merged.
const DEADLINE: Duration = Duration::from_millis(500);

/// Why texts cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// One of them is not text.
    #[error("it is not text")]
    NotText,
    /// They are too large.
    #[error("it is too large")]
    TooLarge,
    /// Both sides changed the same lines, or lines beside each other.
    #[error("{}", lines_text(lines))]
    Overlap {
        /// The lines of `ours` that are in the way, counted from 0.
        lines: Vec<Range<usize>>,
    },
}

fn lines_text(lines: &[Range<usize>]) -> String {
    let place = |lines: &Range<usize>| match lines.len() {
        0 => format!("after line {}", lines.start),
        1 => format!("line {}", lines.end),
        _ => format!("lines {} to {}", lines.start + 1, lines.end),
    };
    lines.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// Returns `ours` with what leads from `base` to `theirs` done to it as well.
///
/// # Errors
/// One is not UTF-8 text, they are too large, or the changes overlap or touch.
pub fn three_way(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<String, MergeError> {
    if base.len() + ours.len() + theirs.len() > MAX_MERGED {
        return Err(MergeError::TooLarge);
    }
    let base = lines(base)?;
    let ours = Side::new(&base, lines(ours)?);
    let theirs = Side::new(&base, lines(theirs)?);
    merge(&base, &ours, &theirs)
}

fn lines(bytes: &[u8]) -> Result<Vec<&str>, MergeError> {
    let text = std::str::from_utf8(bytes).map_err(|_| MergeError::NotText)?;
    if text.contains('\0') {
        return Err(MergeError::NotText);
    }
    Ok(text.split_inclusive('\n').collect())
}

/// Lines of the base, and those that stand in their place.
#[derive(Clone, Debug)]
struct Hunk {
    base: Range<usize>,
    new: Range<usize>,
}

impl Hunk {
    fn touches(&self, other: &Self) -> bool {
        self.base.start <= other.base.end && other.base.start <= self.base.end
    }
}

struct Side<'a> {
    lines: Vec<&'a str>,
    /// In order; between two of them lies at least one line of the base.
    hunks: Vec<Hunk>,
}

impl<'a> Side<'a> {
    fn new(base: &[&str], lines: Vec<&'a str>) -> Self {
        let deadline = Some(Instant::now() + DEADLINE);
        let ops = capture_diff_slices_deadline(Algorithm::Myers, base, &lines, deadline);
        let mut hunks: Vec<Hunk> = Vec::new();
        for op in ops.iter().filter(|op| op.tag() != DiffTag::Equal) {
            let (base, new) = (op.old_range(), op.new_range());
            match hunks.last_mut() {
                Some(last) if last.base.end == base.start => {
                    last.base.end = base.end;
                    last.new.end = new.end;
                }
                _ => hunks.push(Hunk { base, new }),
            }
        }
        Self { lines, hunks }
    }

    fn new_lines(&self, hunk: &Hunk) -> &[&'a str] {
        &self.lines[hunk.new.clone()]
    }
}

fn merge(base: &[&str], ours: &Side<'_>, theirs: &Side<'_>) -> Result<String, MergeError> {
    let (mut merged, mut at) = (String::new(), 0);
    let mut put = |side: &Side<'_>, hunk: &Hunk| {
        merged.extend(base[at..hunk.base.start].iter().copied());
        merged.extend(side.new_lines(hunk).iter().copied());
        at = hunk.base.end;
    };
    let mut overlaps: Vec<Range<usize>> = Vec::new();
    let (mut our_hunks, mut their_hunks) = (ours.hunks.iter().peekable(), theirs.hunks.iter().peekable());
    loop {
        match (our_hunks.peek(), their_hunks.peek()) {
            (None, None) => break,
            (Some(&our), Some(&their)) if our.touches(their) => {
                let is_same = our.base == their.base && ours.new_lines(our) == theirs.new_lines(their);
                if is_same {
                    put(ours, our);
                } else if overlaps.last() != Some(&our.new) {
                    overlaps.push(our.new.clone());
                }
                // The one that reaches further may touch the next of the other side as well.
                let (our_end, their_end) = (our.base.end, their.base.end);
                if our_end <= their_end {
                    our_hunks.next();
                }
                if their_end <= our_end {
                    their_hunks.next();
                }
            }
            (Some(&our), their) if their.is_none_or(|their| our.base.start < their.base.start) => {
                if overlaps.is_empty() {
                    put(ours, our);
                }
                our_hunks.next();
            }
            (_, their) => {
                if let (true, Some(their)) = (overlaps.is_empty(), their) {
                    put(theirs, their);
                }
                their_hunks.next();
            }
        }
    }
    if !overlaps.is_empty() {
        return Err(MergeError::Overlap { lines: overlaps });
    }
    merged.extend(base[at..].iter().copied());
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each letter is a line.
    fn text(letters: &str) -> Vec<u8> {
        letters.chars().flat_map(|letter| [letter as u8, b'\n']).collect()
    }

    #[test]
    fn merges_what_is_apart() {
        let check = |base: &str, ours: &str, theirs: &str, expected: &str| {
            let merged = three_way(&text(base), &text(ours), &text(theirs)).map(String::into_bytes);
            assert_eq!(merged, Ok(text(expected)), "{base} to {ours} and {theirs}");
        };
        check("abcde", "abcde", "abcde", "abcde");
        check("abcde", "Abcde", "abcdE", "AbcdE");
        check("abcde", "xabcde", "abcdex", "xabcdex");
        check("abcde", "bcde", "abcd", "bcd");
        check("abcde", "abXde", "abcde", "abXde");
        check("abcde", "abXde", "abXde", "abXde");
        check("abcdefg", "aBcdefG", "abcDefg", "aBcDefG");
        check("", "", "a", "a");
    }

    #[test]
    fn refuses_what_overlaps_or_touches() {
        let check = |base: &str, ours: &str, theirs: &str, expected: &str| {
            let error = three_way(&text(base), &text(ours), &text(theirs)).unwrap_err();
            assert_eq!(error.to_string(), expected, "{base} to {ours} and {theirs}");
        };
        check("abcde", "abXde", "abYde", "line 3");
        check("abcde", "abXde", "abcYe", "line 3");
        check("abcde", "abcYe", "abXde", "line 4");
        check("abcde", "abxyzcde", "abde", "lines 3 to 5");
        check("abcde", "abde", "abxcde", "after line 2");
        check("ab", "axb", "ayb", "line 2");
        check("abcdefgh", "XbcdeXYh", "YbcdefZh", "line 1, lines 6 to 7");
        check("abcdefgh", "Xh", "abYdefZh", "line 1");
    }

    #[test]
    fn merges_text_only() {
        let check = |ours: &[u8], expected: MergeError| {
            assert_eq!(three_way(b"a\nb\n", ours, b"a\n"), Err(expected));
        };
        check(b"a\xff\n", MergeError::NotText);
        check(b"a\0\n", MergeError::NotText);
        check(&vec![b'a'; MAX_MERGED], MergeError::TooLarge);
    }

    #[test]
    fn keeps_the_end_of_the_text() {
        let check = |base: &str, ours: &str, theirs: &str, expected: Option<&str>| {
            let merged = three_way(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
            assert_eq!(merged.ok().as_deref(), expected, "{base:?} to {ours:?} and {theirs:?}");
        };
        check("a\nb\nc", "A\nb\nc", "a\nb\nc\n", Some("A\nb\nc\n"));
        check(
            "a\r\nb\r\nc\r\n",
            "a\r\nb\r\nC\r\n",
            "A\r\nb\r\nc\r\n",
            Some("A\r\nb\r\nC\r\n"),
        );
        check("a\nb", "a\nb\nc", "a\nb\n", None);
    }

    proptest! {
        #[test]
        fn one_side_alone_is_taken(base in "[a-c]{0,12}", other in "[a-c]{0,12}") {
            let (base, other) = (text(&base), text(&other));
            let expected = Ok(String::from_utf8(other.clone()).unwrap());
            prop_assert_eq!(three_way(&base, &other, &base), expected.clone());
            prop_assert_eq!(three_way(&base, &base, &other), expected.clone());
            prop_assert_eq!(three_way(&base, &other, &other), expected);
        }

        #[test]
        fn sides_do_not_matter(base in "[a-d]{0,12}", ours in "[a-d]{0,12}", theirs in "[a-d]{0,12}") {
            let [base, ours, theirs] = [base, ours, theirs].map(|letters| text(&letters));
            let (one, other) = (three_way(&base, &ours, &theirs), three_way(&base, &theirs, &ours));
            prop_assert_eq!(one.ok(), other.ok());
        }
    }
}
