//! Finding lines in a file: the first place where they stand, by four standards, each looser than the one before.
//!
//! *Invariant:* a search costs at most the lines of the file, once per standard; all searches of a file together are
//! charged to one [`Budget`]. Every line of the file is normalised once per standard, and only when a standard is
//! needed; what is kept of it is a number.

use std::borrow::Cow;
use std::collections::HashMap;

use tokio_util::sync::CancellationToken;

use super::apply::ApplyError;
use crate::text::is_js_whitespace;

/// Lines that may be compared on behalf of one file: some seconds at most.
const MAX_WORK: u64 = 1 << 30;

/// The cancellation is looked at so often.
const CHECK_EVERY: u64 = 1 << 16;

/// A line of the file that is no line of any pattern.
const OTHER: u32 = u32::MAX;

/// What the searches of one file may cost, and whether anybody still wants them.
pub(super) struct Budget<'a> {
    left: u64,
    cancelled: &'a CancellationToken,
}

impl<'a> Budget<'a> {
    pub(super) fn new(cancelled: &'a CancellationToken) -> Self {
        Self {
            left: MAX_WORK,
            cancelled,
        }
    }

    #[cfg(test)]
    pub(super) fn with_work(left: u64, cancelled: &'a CancellationToken) -> Self {
        Self { left, cancelled }
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    fn spend(&mut self, work: u64) -> Result<(), ApplyError> {
        let before = self.left / CHECK_EVERY;
        self.left = self.left.checked_sub(work).ok_or(ApplyError::TooCostly)?;
        if self.left / CHECK_EVERY != before && self.cancelled.is_cancelled() {
            return Err(ApplyError::Stopped);
        }
        Ok(())
    }
}

/// When two lines count as equal, strictest first.
#[derive(Clone, Copy)]
enum Standard {
    Exact,
    TrimmedEnd,
    Trimmed,
    Punctuation,
}

const STANDARDS: [Standard; 4] = [
    Standard::Exact,
    Standard::TrimmedEnd,
    Standard::Trimmed,
    Standard::Punctuation,
];

impl Standard {
    fn normalize(self, line: &str) -> Cow<'_, str> {
        match self {
            Self::Exact => Cow::Borrowed(line),
            Self::TrimmedEnd => Cow::Borrowed(line.trim_end_matches(is_js_whitespace)),
            Self::Trimmed => Cow::Borrowed(line.trim_matches(is_js_whitespace)),
            Self::Punctuation => plain_punctuation(line.trim_matches(is_js_whitespace)),
        }
    }
}

/// Puts ASCII in the place of typographic quotes, dashes, ellipses and no-break spaces.
fn plain_punctuation(line: &str) -> Cow<'_, str> {
    let is_typographic = |c: char| matches!(c, '\u{2010}'..='\u{2015}' | '\u{2018}'..='\u{201f}' | '…' | '\u{a0}');
    if !line.contains(is_typographic) {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\u{2018}'..='\u{201b}' => plain.push('\''),
            '\u{201c}'..='\u{201f}' => plain.push('"'),
            '\u{2010}'..='\u{2015}' => plain.push('-'),
            '…' => plain.push_str("..."),
            '\u{a0}' => plain.push(' '),
            _ => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

/// The lines of a file, ready to be searched for lines out of `patterns`.
pub(super) struct Seeker<'a> {
    lines: &'a [&'a str],
    patterns: Vec<&'a str>,
    passes: [Option<Pass<'a>>; 4],
}

/// The file by one standard.
struct Pass<'a> {
    /// The numbers of the lines that patterns have.
    known: HashMap<Cow<'a, str>, u32>,
    /// The file, line by line.
    numbers: Vec<u32>,
    /// Where each number stands, in order.
    places: Vec<Vec<u32>>,
}

impl<'a> Seeker<'a> {
    /// Makes it; only lines that are in `patterns` can be found.
    pub(super) fn new(lines: &'a [&'a str], patterns: Vec<&'a str>) -> Self {
        Self {
            lines,
            patterns,
            passes: [const { None }; 4],
        }
    }

    /// Returns the first place from `from` on where `pattern` stands, by the strictest standard that finds one.
    pub(super) fn seek(
        &mut self,
        pattern: &[&str],
        from: usize,
        budget: &mut Budget<'_>,
    ) -> Result<Option<usize>, ApplyError> {
        for (at, standard) in STANDARDS.into_iter().enumerate() {
            let pass = self.pass(at, budget)?;
            if let Some(found) = pass.seek(standard, pattern, from, budget)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Says whether `pattern` stands at `place`, by any standard.
    pub(super) fn stands_at(
        &mut self,
        pattern: &[&str],
        place: usize,
        budget: &mut Budget<'_>,
    ) -> Result<bool, ApplyError> {
        // Equal by a strict standard is equal by every looser one.
        let pass = self.pass(STANDARDS.len() - 1, budget)?;
        budget.spend(pattern.len() as u64)?;
        let wanted = pass.number(STANDARDS[STANDARDS.len() - 1], pattern);
        let lines = pass.numbers.get(place..).unwrap_or_default();
        Ok(wanted.is_some_and(|wanted| lines.starts_with(&wanted)))
    }

    fn pass(&mut self, at: usize, budget: &mut Budget<'_>) -> Result<&Pass<'a>, ApplyError> {
        let pass = match self.passes[at].take() {
            Some(pass) => pass,
            None => Pass::new(STANDARDS[at], self.lines, &self.patterns, budget)?,
        };
        Ok(self.passes[at].insert(pass))
    }
}

impl<'a> Pass<'a> {
    fn new(
        standard: Standard,
        lines: &[&'a str],
        patterns: &[&'a str],
        budget: &mut Budget<'_>,
    ) -> Result<Self, ApplyError> {
        let mut known = HashMap::new();
        for line in patterns {
            let next = u32::try_from(known.len()).map_err(|_| ApplyError::TooCostly)?;
            known.entry(standard.normalize(line)).or_insert(next);
        }
        let mut places = vec![Vec::new(); known.len()];
        let mut numbers = Vec::with_capacity(lines.len());
        for (place, line) in (0..).zip(lines) {
            budget.spend(1)?;
            let number = known.get(&standard.normalize(line)).copied().unwrap_or(OTHER);
            if let Some(places) = places.get_mut(number as usize) {
                places.push(place);
            }
            numbers.push(number);
        }
        Ok(Self { known, numbers, places })
    }

    fn seek(
        &self,
        standard: Standard,
        pattern: &[&str],
        from: usize,
        budget: &mut Budget<'_>,
    ) -> Result<Option<usize>, ApplyError> {
        budget.spend(pattern.len() as u64)?;
        let Some(pattern) = self.number(standard, pattern) else {
            return Ok(None);
        };
        let Some(&first) = pattern.first() else {
            return Ok(None);
        };
        // Most searches that must fail, fail here: some line does not come any more.
        if pattern.iter().any(|&number| self.next(number, from).is_none()) {
            return Ok(None);
        }
        let Some(start) = self.next(first, from) else {
            return Ok(None);
        };
        search(&self.numbers, &pattern, start, budget)
    }

    /// Returns the numbers of the lines of a pattern.
    fn number(&self, standard: Standard, pattern: &[&str]) -> Option<Vec<u32>> {
        let number = |line: &&str| self.known.get(&standard.normalize(line)).copied();
        pattern.iter().map(number).collect()
    }

    /// Returns where a line stands next.
    fn next(&self, number: u32, from: usize) -> Option<usize> {
        let places = self.places.get(number as usize)?;
        let at = places.partition_point(|&place| (place as usize) < from);
        places.get(at).map(|&place| place as usize)
    }
}

/// Searches as Knuth, Morris and Pratt do: no line of the text is looked at twice but to fall back in the pattern.
fn search(text: &[u32], pattern: &[u32], from: usize, budget: &mut Budget<'_>) -> Result<Option<usize>, ApplyError> {
    let borders = borders(pattern);
    let mut matched = 0;
    for (place, number) in text.iter().enumerate().skip(from) {
        budget.spend(1)?;
        while matched > 0 && pattern[matched] != *number {
            matched = borders[matched - 1];
        }
        if pattern[matched] == *number {
            matched += 1;
        }
        if matched == pattern.len() {
            return Ok(Some(place + 1 - matched));
        }
    }
    Ok(None)
}

/// Returns, for each start of the pattern, the length of the longest shorter start that it ends with.
fn borders(pattern: &[u32]) -> Vec<usize> {
    let mut borders = vec![0; pattern.len()];
    let mut length = 0;
    for at in 1..pattern.len() {
        while length > 0 && pattern[length] != pattern[at] {
            length = borders[length - 1];
        }
        if pattern[length] == pattern[at] {
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

    fn seek(lines: &[&str], pattern: &[&str], from: usize) -> Option<usize> {
        let cancelled = CancellationToken::new();
        Seeker::new(lines, pattern.to_vec())
            .seek(pattern, from, &mut Budget::new(&cancelled))
            .unwrap()
    }

    /// The definition, word for word.
    fn seek_slowly(lines: &[&str], pattern: &[&str], from: usize) -> Option<usize> {
        STANDARDS.iter().find_map(|standard| {
            (from..=lines.len().checked_sub(pattern.len())?).find(|&place| {
                (pattern.iter().zip(&lines[place..])).all(|(a, b)| standard.normalize(a) == standard.normalize(b))
            })
        })
    }

    #[test]
    fn the_strictest_standard_decides() {
        let check = |lines: &[&str], pattern: &[&str], from: usize, expected: Option<usize>| {
            assert_eq!(seek(lines, pattern, from), expected, "{pattern:?} in {lines:?}");
        };
        check(&["  a", "b", "a"], &["a"], 0, Some(2));
        check(&["  a", "b ", "a  "], &["a"], 0, Some(2));
        check(&["  a", "b"], &["a"], 0, Some(0));
        check(&["“a” – b…"], &["\"a\" - b..."], 0, Some(0));
        check(&["‘a‛\u{a0}b‑"], &["'a' b-"], 0, Some(0));
        check(&["a", "a", "b"], &["a", "b"], 0, Some(1));
        check(&["a", "b", "a", "b"], &["a", "b"], 1, Some(2));
        check(&["a"], &["a", "b"], 0, None);
        check(&["a"], &["a"], 1, None);
        check(&["a"], &["a"], 9, None);
        check(&[], &["a"], 0, None);
    }

    #[test]
    fn a_search_is_linear_and_all_searches_are_bounded() {
        let cancelled = CancellationToken::new();
        let lines = vec!["{"; 10_000];
        let mut pattern = vec!["{"; 4000];
        pattern.push("x");
        pattern.extend(vec!["{"; 4000]);
        let mut file = lines.clone();
        file.push("x");
        file.extend(vec!["{"; 3000]);
        let mut seeker = Seeker::new(&file, pattern.clone());
        let mut budget = Budget::new(&cancelled);
        assert_eq!(seeker.seek(&pattern, 0, &mut budget), Ok(None));
        assert!(MAX_WORK - budget.left() < 20 * file.len() as u64);
        let mut spent = Budget::with_work(1000, &cancelled);
        assert_eq!(
            Seeker::new(&file, pattern.clone()).seek(&pattern, 0, &mut spent),
            Err(ApplyError::TooCostly)
        );
        cancelled.cancel();
        let stopped = Seeker::new(&file, pattern.clone()).seek(&pattern, 0, &mut budget);
        assert_eq!(stopped, Err(ApplyError::Stopped));
    }

    proptest! {
        #[test]
        fn finds_what_the_definition_finds(
            lines in prop::collection::vec("[ab ]{0,2}", 0..12),
            pattern in prop::collection::vec("[ab ]{0,2}", 1..4),
            from in 0_usize..6,
        ) {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
            prop_assert_eq!(seek(&lines, &pattern, from), seek_slowly(&lines, &pattern, from));
        }
    }
}
