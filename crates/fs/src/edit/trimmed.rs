//! Strategies 2 and 7: what differs only in white space at the ends.
//!
//! *Invariant:* linear in the file. Strategy 5 (the same but for a common indentation) finds nothing that strategy 2
//! has not found before, and strategy 7's windows of lines nothing that does not hold its trimmed text: neither is built,
//! and a test holds both claims to the specification's words.

use super::effort::{Effort, Halt};
use super::exact::occurrences;
use super::lines::{find_runs, trim};
use super::search::{Place, Search};

/// Strategy 2, line-trimmed: whole lines that equal those of oldString, each trimmed.
pub(super) fn line_trimmed(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    let starts = find_runs(&search.file_ids, &search.old_ids, effort)?;
    let height = search.old_ids.len();
    let blocks = starts.into_iter();
    Ok(blocks
        .filter_map(|first| search.block(first, first + height - 1))
        .collect())
}

/// Strategy 7, trimmed-boundary: oldString without the white space at its two ends, also within lines.
pub(super) fn trimmed_boundary(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    let text = search.lines.text();
    let trimmed = trim(search.old);
    if trimmed.is_empty() || trimmed == search.old {
        return Ok(Vec::new());
    }
    effort.spend(text.len())?;
    let places = occurrences(text, trimmed).into_iter();
    if search.old_ends_line && search.new_ends_line {
        // Two newlines would follow each other.
        return Ok(places.map(|place| search.lines.with_ending(place)).collect());
    }
    Ok(places.collect())
}

#[cfg(test)]
mod tests {
    use super::super::search::testing::found;
    use super::*;

    #[test]
    fn lines_may_differ_at_their_ends() {
        let check = |text: &str, old: &str, expected: &[&str]| {
            assert_eq!(found(line_trimmed, text, old), expected, "{old:?}");
        };
        check("  a\n\tb \nc", "a\n  b", &["  a\n\tb "]);
        check("  a\n\tb \nc", "a\n  b\n", &["  a\n\tb \n"]);
        check("  a\n\tb ", "a\n  b\n", &["  a\n\tb "]);
        check("a\r\n b\r\nc\r\n", "b", &[" b"]);
        check("a\r\n b\r\nc\r\n", "b\r\n", &[" b\r\n"]);
        check(" a\nb\n\ta", "a ", &[" a", "\ta"]);
        check("{\n{\n{", "{ \n{", &["{\n{", "{\n{"]);
        check("a\n\nb\n", "\t", &[]);
        check("\u{feff}a\u{3000}\nb", "a", &["\u{feff}a\u{3000}"]);
        check("a\u{85}\nb", "a ", &[]);
        check("ab", "a ", &[]);
    }

    #[test]
    fn white_space_around_old_string_may_be_absent() {
        let check = |text: &str, old: &str, expected: &[&str]| {
            assert_eq!(found(trimmed_boundary, text, old), expected, "{old:?}");
        };
        check("x = wrap(first(\n 1))", "\n  first(\n 1)\n", &["first(\n 1)"]);
        check("ab ab", " ab\n", &["ab", "ab"]);
        check("a\n", "a", &[]);
        check("a\n", " \n ", &[]);
    }
}
