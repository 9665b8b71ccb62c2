//! What every loose matcher looks at: the file, oldString, and both as numbered lines.
//!
//! *Invariant:* made once per edit, in time and memory linear in the file.

use std::ops::Range;

use super::effort::{Effort, Halt};
use super::lines::{Lines, Numbers, trim};

/// Where a matcher found something; never empty.
pub(super) type Place = Range<usize>;

/// Finds places, by one strategy.
pub(super) type Matcher = fn(&Search<'_>, &mut Effort<'_>) -> Result<Vec<Place>, Halt>;

/// The number of lines that hold white space only.
pub(super) const BLANK: u32 = 0;

/// One search for oldString.
pub(super) struct Search<'a> {
    /// The file.
    pub(super) lines: Lines<'a>,
    /// oldString, with the file's line endings.
    pub(super) old: &'a str,
    /// Its lines, trimmed; what follows a final newline is not one.
    pub(super) old_lines: Vec<&'a str>,
    /// The number of each of `old_lines`.
    pub(super) old_ids: Vec<u32>,
    /// The number of each of the file's lines, trimmed; [`Numbers::UNKNOWN`] if oldString does not have it.
    pub(super) file_ids: Vec<u32>,
    /// Whether oldString ends with a newline.
    pub(super) old_ends_line: bool,
    /// Whether newString ends with a newline.
    pub(super) new_ends_line: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(text: &'a str, old: &'a str, new: &str, effort: &mut Effort<'_>) -> Result<Self, Halt> {
        effort.spend(text.len() + old.len())?;
        let lines = Lines::new(text);
        let old_ends_line = old.ends_with('\n');
        let old_lines: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').map(trim).collect();
        let mut numbers = Numbers::default();
        numbers.assign("");
        let old_ids = old_lines.iter().map(|line| numbers.assign(line)).collect();
        let file_ids = (0..lines.len())
            .map(|line| numbers.get(trim(lines.raw(line))))
            .collect();
        Ok(Self {
            lines,
            old,
            old_lines,
            old_ids,
            file_ids,
            old_ends_line,
            new_ends_line: new.ends_with('\n'),
        })
    }

    /// Returns the place of whole lines. The newline that oldString ends with takes part, else the one of the file would
    /// be left over beside newString's.
    pub(super) fn block(&self, first: usize, last: usize) -> Option<Place> {
        let place = self.lines.span(first, last)?;
        Some(if self.old_ends_line {
            self.lines.with_ending(place)
        } else {
            place
        })
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use tokio_util::sync::CancellationToken;

    /// Returns what a matcher finds, as text.
    pub(in crate::edit) fn found(matcher: Matcher, text: &str, old: &str) -> Vec<String> {
        let cancelled = CancellationToken::new();
        let mut effort = Effort::new(&cancelled);
        let search = Search::new(text, old, "", &mut effort).unwrap();
        let places = matcher(&search, &mut effort).unwrap();
        places.into_iter().map(|place| text[place].to_owned()).collect()
    }
}
