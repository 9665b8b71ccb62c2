//! The file and oldString as lines, compared by number instead of by text.
//!
//! *Invariant:* made in one pass over both texts. A line is what lies between two LFs; a CR before an LF belongs to the
//! line ending (`docs/spec/file-tools.md` §4.1).

use std::collections::HashMap;
use std::ops::Range;

use super::effort::{Effort, Halt};
use crate::text::is_js_whitespace;

/// Returns `text` without white space at its ends, as JavaScript trims.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(is_js_whitespace)
}

/// A text that knows where its lines begin.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let after_lf = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(after_lf).collect(),
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn start(&self, line: usize) -> usize {
        self.starts[line]
    }

    /// Returns a line without its LF.
    pub(super) fn raw(&self, line: usize) -> &'a str {
        &self.text[self.starts[line]..self.raw_end(line)]
    }

    /// Returns a line without its line ending.
    pub(super) fn content(&self, line: usize) -> &'a str {
        &self.text[self.starts[line]..self.content_end(line)]
    }

    /// Returns where the lines `first` to `last` stand, without the last line ending; none if they hold no text.
    pub(super) fn span(&self, first: usize, last: usize) -> Option<Range<usize>> {
        let range = self.starts[first]..self.content_end(last);
        (!range.is_empty()).then_some(range)
    }

    /// Returns the place with the line ending that follows it, if one does.
    pub(super) fn with_ending(&self, place: Range<usize>) -> Range<usize> {
        let rest = &self.text.as_bytes()[place.end..];
        let ending = [&b"\n"[..], b"\r\n"]
            .into_iter()
            .find(|&ending| rest.starts_with(ending));
        place.start..place.end + ending.map_or(0, <[u8]>::len)
    }

    fn raw_end(&self, line: usize) -> usize {
        self.starts.get(line + 1).map_or(self.text.len(), |next| next - 1)
    }

    fn content_end(&self, line: usize) -> usize {
        let end = self.raw_end(line);
        let ends_in_crlf = line + 1 < self.len() && self.text[self.starts[line]..end].ends_with('\r');
        if ends_in_crlf { end - 1 } else { end }
    }
}

/// Numbers for texts, the same for equal ones. Only what oldString holds is kept, so the table stays as small as that.
#[derive(Debug, Default)]
pub(super) struct Numbers<'a>(HashMap<&'a str, u32>);

impl<'a> Numbers<'a> {
    /// The number of a text that oldString does not hold.
    pub(super) const UNKNOWN: u32 = u32::MAX;

    pub(super) fn assign(&mut self, text: &'a str) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(Self::UNKNOWN);
        *self.0.entry(text).or_insert(next)
    }

    pub(super) fn get(&self, text: &str) -> u32 {
        self.0.get(text).copied().unwrap_or(Self::UNKNOWN)
    }
}

/// Returns every place, overlapping ones included, where `needle` stands in `haystack` (Knuth, Morris, Pratt).
pub(super) fn find_runs(haystack: &[u32], needle: &[u32], effort: &mut Effort<'_>) -> Result<Vec<usize>, Halt> {
    if needle.is_empty() {
        return Ok((0..=haystack.len()).collect());
    }
    effort.spend(2 * (haystack.len() + needle.len()))?;
    let borders = borders(needle);
    let mut places = Vec::new();
    let mut matched = 0;
    for (at, item) in haystack.iter().enumerate() {
        while matched > 0 && needle.get(matched) != Some(item) {
            matched = borders[matched - 1];
        }
        if needle[matched] == *item {
            matched += 1;
        }
        if matched == needle.len() {
            places.push(at + 1 - matched);
        }
    }
    Ok(places)
}

/// For every start of `needle` the length of the longest shorter start that it ends with.
fn borders(needle: &[u32]) -> Vec<usize> {
    let mut borders = vec![0; needle.len()];
    let mut length = 0;
    for at in 1..needle.len() {
        while length > 0 && needle[at] != needle[length] {
            length = borders[length - 1];
        }
        if needle[at] == needle[length] {
            length += 1;
        }
        borders[at] = length;
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio_util::sync::CancellationToken;

    #[test]
    fn a_cr_before_lf_is_no_content() {
        let lines = Lines::new("a\r\n\r\nb\r");
        let contents: Vec<&str> = (0..lines.len()).map(|line| lines.content(line)).collect();
        assert_eq!(contents, ["a", "", "b\r"]);
        assert_eq!(lines.raw(0), "a\r");
        assert_eq!(lines.span(0, 1), Some(0..3));
        assert_eq!(lines.span(1, 1), None);
        assert_eq!(lines.with_ending(0..1), 0..3);
        assert_eq!(lines.with_ending(5..7), 5..7);
    }

    proptest! {
        #[test]
        fn runs_are_all_windows_that_are_equal(
            haystack in prop::collection::vec(0_u32..3, 0..30),
            needle in prop::collection::vec(0_u32..3, 1..5),
        ) {
            let cancelled = CancellationToken::new();
            let found = find_runs(&haystack, &needle, &mut Effort::new(&cancelled)).unwrap();
            let expected: Vec<usize> = haystack
                .windows(needle.len())
                .enumerate()
                .filter_map(|(at, window)| (window == needle).then_some(at))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
