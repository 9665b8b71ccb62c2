//! The loose strategies once more, transcribed from `docs/spec/file-tools.md` §4.1 without regard to cost, and held
//! against the real ones.

use std::sync::LazyLock;

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::effort::Effort;
use super::lines::{Lines, trim};
use super::search::{Matcher, Place, Search};
use super::{blocks, escapes, trimmed, whitespace};
use crate::text::is_js_whitespace;

struct Case<'a> {
    text: &'a str,
    old: &'a str,
    lines: Lines<'a>,
    old_lines: Vec<&'a str>,
}

impl<'a> Case<'a> {
    fn new(text: &'a str, old: &'a str) -> Self {
        Self {
            text,
            old,
            lines: Lines::new(text),
            old_lines: old.split('\n').collect(),
        }
    }

    fn without_tail(&self) -> &[&'a str] {
        match self.old_lines.as_slice() {
            [lines @ .., ""] if !lines.is_empty() => lines,
            lines => lines,
        }
    }

    /// A place of whole lines, with the corrections for CR and the final newline.
    fn block(&self, first: usize, height: usize) -> Option<Place> {
        let place = self.window(first, height)?;
        let takes_newline = self.old.ends_with('\n');
        Some(if takes_newline {
            self.lines.with_ending(place)
        } else {
            place
        })
    }

    fn window(&self, first: usize, height: usize) -> Option<Place> {
        self.lines.span(first, first + height - 1)
    }

    fn windows(&self, height: usize) -> std::ops::Range<usize> {
        0..(self.lines.len() + 1).saturating_sub(height)
    }

    fn line_trimmed(&self) -> Vec<Place> {
        let old = self.without_tail();
        let is_match = |&first: &usize| (0..old.len()).all(|n| trim(self.lines.raw(first + n)) == trim(old[n]));
        let starts = self.windows(old.len()).filter(is_match);
        starts.filter_map(|first| self.block(first, old.len())).collect()
    }

    fn anchored(&self) -> Vec<(usize, usize)> {
        let old = self.without_tail();
        if old.len() < 3 {
            return Vec::new();
        }
        let line = |n: usize| trim(self.lines.raw(n));
        let firsts = (0..self.lines.len()).filter(|&first| line(first) == trim(old[0]));
        let end = |first: usize| (first + 2..self.lines.len()).find(|&last| line(last) == trim(old[old.len() - 1]));
        firsts
            .filter_map(|first| Some((first, end(first)? - first + 1)))
            .collect()
    }

    fn block_anchor(&self) -> Vec<Place> {
        let old = self.without_tail();
        let mut best: Option<(f64, Place)> = None;
        let mut all = Vec::new();
        for (first, height) in self.anchored() {
            if height.abs_diff(old.len()) > (old.len() / 4).max(1) {
                continue;
            }
            let inner = old.len().min(height) - 2;
            let mut sum = 0.0;
            for (n, wanted) in old.iter().enumerate().skip(1).take(inner) {
                let units = |text: &str| trim(text).encode_utf16().collect::<Vec<u16>>();
                let (a, b) = (units(wanted), units(self.lines.raw(first + n)));
                let longer = a.len().max(b.len());
                if longer > 0 {
                    sum += 1.0 - strsim::generic_levenshtein(&a, &b) as f64 / longer as f64;
                }
            }
            let similarity = sum / inner as f64;
            let Some(place) = self.block(first, height) else {
                continue;
            };
            all.push(place.clone());
            if similarity >= 0.65 - 1e-9 && best.as_ref().is_none_or(|(best, _)| similarity > best + 1e-9) {
                best = Some((similarity, place));
            }
        }
        // The text of the best block, wherever it is a block.
        let Some((_, best)) = best else { return Vec::new() };
        all.retain(|place| self.text[place.clone()] == self.text[best.clone()]);
        all
    }

    fn context_aware(&self) -> Vec<Place> {
        let old = self.without_tail();
        let is_match = |&(first, height): &(usize, usize)| {
            let pairs: Vec<(&str, &str)> = (1..height.min(old.len()) - 1)
                .map(|n| (trim(old[n]), trim(self.lines.raw(first + n))))
                .filter(|pair| *pair != ("", ""))
                .collect();
            let equal = pairs.iter().filter(|(a, b)| a == b).count();
            height == old.len() && (pairs.is_empty() || equal as f64 / pairs.len() as f64 >= 0.5)
        };
        let blocks = self.anchored().into_iter().filter(is_match);
        blocks.filter_map(|(first, height)| self.block(first, height)).collect()
    }

    /// The first place in each line only, and every window.
    fn whitespace_normalised(&self) -> (Vec<Place>, Vec<Place>) {
        let wanted = normalised(self.old);
        let words: Vec<String> = wanted.split(' ').map(regex::escape).collect();
        let space =
            r"[\t\n\x0b\x0c\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}]+";
        let pattern = regex::Regex::new(&words.join(space)).unwrap();
        let mut within = Vec::new();
        for line in 0..self.lines.len() {
            let raw = self.lines.raw(line);
            if normalised(raw) == wanted {
                within.extend(self.block(line, 1));
            } else if normalised(raw).contains(&wanted) {
                let found = pattern.find(raw).unwrap();
                let start = self.lines.start(line);
                let place = start + found.start()..start + found.end();
                if !place.is_empty() {
                    let takes_newline = self.old.ends_with('\n');
                    within.push(if takes_newline {
                        self.lines.with_ending(place)
                    } else {
                        place
                    });
                }
            }
        }
        let height = self.old_lines.len();
        let is_match = |&first: &usize| {
            let window: Vec<&str> = (first..first + height).map(|n| self.lines.raw(n)).collect();
            normalised(&window.join("\n")) == wanted
        };
        let starts = self.windows(height).filter(|_| height > 1).filter(is_match);
        (within, starts.filter_map(|first| self.window(first, height)).collect())
    }

    fn indentation_flexible(&self) -> Vec<usize> {
        let height = self.old_lines.len();
        let is_match = |&first: &usize| {
            let window: Vec<&str> = (first..first + height).map(|n| self.lines.raw(n)).collect();
            without_indentation(&window) == without_indentation(&self.old_lines)
        };
        self.windows(height).filter(is_match).collect()
    }

    fn escape_normalised(&self) -> Vec<Place> {
        let find = |wanted: &str| {
            let mut places = everywhere(self.text, wanted);
            let height = wanted.split('\n').count();
            for first in self.windows(height) {
                let place = self.window(first, height);
                places.extend(place.filter(|place| unescaped(&self.text[place.clone()]) == wanted));
            }
            places
        };
        let wanted = unescaped(self.old);
        let places = find(&wanted);
        if places.is_empty() && self.text.contains("\r\n") {
            find(&wanted.replace("\r\n", "\n").replace('\n', "\r\n"))
        } else {
            places
        }
    }

    fn trimmed_boundary(&self) -> (Vec<Place>, Vec<Place>) {
        let trimmed = trim(self.old);
        if trimmed == self.old {
            return (Vec::new(), Vec::new());
        }
        let height = self.old_lines.len();
        let windows = self.windows(height).filter_map(|first| self.window(first, height));
        let windows = windows.filter(|place| trim(&self.text[place.clone()]) == trimmed);
        (everywhere(self.text, trimmed), windows.collect())
    }
}

fn normalised(text: &str) -> String {
    let words: Vec<&str> = text.split(is_js_whitespace).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn without_indentation(lines: &[&str]) -> Vec<String> {
    let indentation = |line: &str| line.chars().take_while(|&c| is_js_whitespace(c)).count();
    let written = lines.iter().filter(|line| !trim(line).is_empty());
    let Some(least) = written.map(|line| indentation(line)).min() else {
        return lines.iter().map(|line| (*line).to_owned()).collect();
    };
    let cut = |line: &&str| {
        if trim(line).is_empty() {
            (*line).to_owned()
        } else {
            line.chars().skip(least).collect()
        }
    };
    lines.iter().map(cut).collect()
}

fn unescaped(text: &str) -> String {
    static PATTERN: LazyLock<regex::Regex> = LazyLock::new(|| regex::Regex::new(r#"\\([ntr'"`\\\n$])"#).unwrap());
    let replace = |found: &regex::Captures<'_>| match &found[1] {
        "n" => "\n".to_owned(),
        "t" => "\t".to_owned(),
        "r" => "\r".to_owned(),
        other => other.to_owned(),
    };
    PATTERN.replace_all(text, replace).into_owned()
}

/// Every place, overlapping ones included.
fn everywhere(text: &str, wanted: &str) -> Vec<Place> {
    let starts = text.char_indices().map(|(at, _)| at);
    let places = starts.filter(|&at| !wanted.is_empty() && text[at..].starts_with(wanted));
    places.map(|at| at..at + wanted.len()).collect()
}

fn sorted(mut places: Vec<Place>) -> Vec<Place> {
    places.sort_by_key(|place| (place.start, place.end));
    places.dedup();
    places
}

fn real(matcher: Matcher, text: &str, old: &str) -> Vec<Place> {
    let token = CancellationToken::new();
    let mut effort = Effort::new(&token);
    let search = Search::new(text, old, "", &mut effort).unwrap();
    sorted(matcher(&search, &mut effort).unwrap())
}

/// Few different lines, so that much is almost found.
fn some_lines(most: usize) -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "", " ", "a", " a", "a b", "a  b", " b\ta ", "b", "{", "{ ", "\t}", "}", "ab", "abc", "a\\nb", "\\$a", "$a",
        "a\\", "\\\"", "\"", "\u{e9}", "a\\\\",
    ]);
    let ending = prop::sample::select(vec!["\n", "\n", "\r\n"]);
    let all_crlf = prop::bool::weighted(0.3);
    (prop::collection::vec((line, ending), 0..most), all_crlf, any::<bool>()).prop_map(
        |(lines, all_crlf, ends_line)| {
            let pieces = lines
                .iter()
                .map(|(line, ending)| format!("{line}{}", if all_crlf { "\r\n" } else { ending }));
            let text = pieces.collect::<String>();
            match text.strip_suffix('\n') {
                Some(text) if !ends_line => text.trim_end_matches('\r').to_owned(),
                Some(_) | None => text,
            }
        },
    )
}

/// What comes to every strategy: oldString is not empty, has the file's line endings, and is not there exactly.
fn usable(text: &str, old: &str) -> Option<String> {
    let old = super::replace::with_endings(old, text.contains("\r\n")).into_owned();
    (!old.is_empty() && !text.contains(&old)).then_some(old)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn matchers_do_what_the_specification_says(text in some_lines(10), old in some_lines(5)) {
        let Some(old) = usable(&text, &old) else { return Ok(()) };
        let case = Case::new(&text, &old);
        let trimmed = case.line_trimmed();
        prop_assert_eq!(real(trimmed::line_trimmed, &text, &old), sorted(trimmed.clone()));
        prop_assert_eq!(real(blocks::block_anchor, &text, &old), sorted(case.block_anchor()));
        prop_assert_eq!(real(blocks::context_aware, &text, &old), sorted(case.context_aware()));
        if !case.indentation_flexible().is_empty() {
            prop_assert!(!trimmed.is_empty(), "strategy 2 finds what strategy 5 does");
        }
    }

    #[test]
    fn words_are_found_where_the_specification_says(text in some_lines(10), old in some_lines(4)) {
        let Some(old) = usable(&text, &old) else { return Ok(()) };
        let case = Case::new(&text, &old);
        let (within, windows) = case.whitespace_normalised();
        let found = real(whitespace::whitespace_normalised, &text, &old);
        for place in &within {
            prop_assert!(found.contains(place), "{:?} in {:?}", place, found);
        }
        // Blank lines aside, every window is found once, and nothing else is.
        let core = |place: &Place| trim(&text[place.clone()]).to_owned();
        for window in windows.iter().filter(|window| !core(window).is_empty()) {
            prop_assert!(found.iter().any(|place| core(place) == core(window)), "{:?} in {:?}", window, found);
        }
        for place in &found {
            let is_known = normalised(&core(place)) == normalised(&old);
            prop_assert!(is_known && (!within.is_empty() || !windows.is_empty()), "{:?}", place);
        }
        let cores: Vec<usize> = found.iter().map(|place| {
            let blank = text[place.clone()].len() - text[place.clone()].trim_start_matches(is_js_whitespace).len();
            place.start + blank
        }).collect();
        prop_assert!(normalised(&old).is_empty() || cores.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", found);
    }

    #[test]
    fn escapes_are_found_where_the_specification_says(text in some_lines(8), old in some_lines(4)) {
        let Some(old) = usable(&text, &old) else { return Ok(()) };
        let case = Case::new(&text, &old);
        let (expected, found) = (sorted(case.escape_normalised()), real(escapes::escape_normalised, &text, &old));
        prop_assert_eq!(expected.is_empty(), found.is_empty(), "{:?} {:?}", &expected, &found);
        prop_assert_eq!(expected.len() > 1, found.len() > 1, "{:?} {:?}", &expected, &found);
        prop_assert_eq!(expected.first(), found.first());
    }

    #[test]
    fn trimmed_text_is_found_where_the_specification_says(text in some_lines(8), old in some_lines(4)) {
        let Some(old) = usable(&text, &old) else { return Ok(()) };
        let (places, windows) = Case::new(&text, &old).trimmed_boundary();
        let found = real(trimmed::trimmed_boundary, &text, &old);
        prop_assert_eq!(places.is_empty(), found.is_empty());
        prop_assert_eq!(places.len() > 1, found.len() > 1);
        prop_assert_eq!(places.first(), found.first());
        prop_assert!(trim(&old).is_empty() || windows.is_empty() || !places.is_empty(), "windows add nothing");
    }
}
