//! Strategy 4, whitespace-normalised: every run of white space equals every other.
//!
//! *Invariant:* linear in the file. Lines are compared as text, windows of lines as sequences of numbered words.

use memchr::memmem;

use super::effort::{Effort, Halt};
use super::exact::occurrences;
use super::lines::{Numbers, find_runs};
use super::search::{Place, Search};
use crate::text::is_js_whitespace;

/// Finds lines that are, or contain, the words of oldString, then windows of as many lines with exactly its words.
pub(super) fn whitespace_normalised(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    let mut places = within_lines(search, effort)?;
    places.extend(windows(search, effort)?);
    Ok(places)
}

/// The words of a text, each with where it begins.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let pieces = text.split_inclusive(is_js_whitespace).scan(0, |end, piece| {
        let start = *end;
        *end += piece.len();
        Some((start, piece.trim_end_matches(is_js_whitespace)))
    });
    pieces.filter(|(_, word)| !word.is_empty())
}

fn normalise(text: &str, normalised: &mut String) {
    normalised.clear();
    for (at, (_, word)) in words(text).enumerate() {
        if at > 0 {
            normalised.push(' ');
        }
        normalised.push_str(word);
    }
}

fn within_lines(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    let mut wanted = String::new();
    normalise(search.old, &mut wanted);
    let finder = memmem::Finder::new(&wanted);
    let mut line_text = String::new();
    let mut places = Vec::new();
    for line in 0..search.lines.len() {
        let raw = search.lines.raw(line);
        effort.spend(raw.len() + 1)?;
        normalise(raw, &mut line_text);
        if line_text == wanted {
            places.extend(search.block(line, line));
        } else if !wanted.is_empty() && finder.find(line_text.as_bytes()).is_some() {
            places.extend(parts(search, line, &line_text, &wanted));
        }
    }
    Ok(places)
}

/// Returns where the words stand within a longer line. Not only the first place: which one is meant must not be guessed.
fn parts(search: &Search<'_>, line: usize, line_text: &str, wanted: &str) -> Vec<Place> {
    // Where each word begins, in the normalised line and in the file.
    let mut normalised = 0;
    let starts: Vec<(usize, usize)> = words(search.lines.raw(line))
        .map(|(at, word)| {
            let start = normalised;
            normalised += word.len() + 1;
            (start, search.lines.start(line) + at)
        })
        .collect();
    let in_file = |at: usize| {
        let word = starts.partition_point(|&(start, _)| start <= at) - 1;
        starts[word].1 + (at - starts[word].0)
    };
    let places = occurrences(line_text, wanted).into_iter().map(|part| {
        // The last byte is looked up instead of the end, which may be another word's beginning.
        let place = in_file(part.start)..in_file(part.end - 1) + 1;
        if search.old_ends_line {
            search.lines.with_ending(place)
        } else {
            place
        }
    });
    places.collect()
}

fn windows(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    let height = search.old.split('\n').count();
    let mut numbers = Numbers::default();
    let old_words: Vec<u32> = words(search.old).map(|(_, word)| numbers.assign(word)).collect();
    if height < 2 || height > search.lines.len() || old_words.is_empty() {
        return Ok(Vec::new());
    }
    effort.spend(search.lines.text().len())?;
    let mut file_words = Vec::new();
    // How many words stand before each line, and in the whole file.
    let mut before = Vec::with_capacity(search.lines.len() + 1);
    for line in 0..search.lines.len() {
        before.push(file_words.len());
        file_words.extend(words(search.lines.raw(line)).map(|(_, word)| numbers.get(word)));
    }
    before.push(file_words.len());
    let mut places = Vec::new();
    for run in find_runs(&file_words, &old_words, effort)? {
        places.extend(window(search, &before, run, run + old_words.len(), height));
    }
    Ok(places)
}

/// Returns the window of `height` lines that holds exactly the words `run` to `end`. Blank lines around the words could be
/// shared out in several ways, which is still one place: the window that begins with the first word is preferred.
fn window(search: &Search<'_>, before: &[usize], run: usize, end: usize, height: usize) -> Option<Place> {
    let begins = lines_after(before, run)?;
    let ends = lines_after(before, end)?;
    if before[begins.last + 1] >= end {
        // All in one line, and found there.
        return None;
    }
    let first = begins.last.min(ends.last.checked_sub(height)?);
    if first < begins.first || first + height < ends.first {
        return None;
    }
    let place = search.lines.span(first, first + height - 1)?;
    // The newline that oldString ends with may already be the one before a last, blank line.
    let has_ending = search.lines.text()[place.clone()].ends_with('\n');
    Some(if search.old_ends_line && !has_ending {
        search.lines.with_ending(place)
    } else {
        place
    })
}

/// The first and the last of some lines.
struct Between {
    first: usize,
    last: usize,
}

/// Returns the lines before which exactly `words` words stand.
fn lines_after(before: &[usize], words: usize) -> Option<Between> {
    let first = before.partition_point(|&count| count < words);
    let end = before.partition_point(|&count| count <= words);
    (first < end).then(|| Between { first, last: end - 1 })
}

#[cfg(test)]
mod tests {
    use super::super::search::testing::found;
    use super::*;

    fn check(text: &str, old: &str, expected: &[&str]) {
        assert_eq!(found(whitespace_normalised, text, old), expected, "{old:?}");
    }

    #[test]
    fn within_lines() {
        check("a\n b  c \n", "b c", &[" b  c "]);
        check("a\n b  c \nd", "b c\n", &[" b  c \n"]);
        check("x b\t c;\n", "b c", &["b\t c"]);
        check("x  b  c\r\nd\r\n", "b c", &["b  c"]);
        check("x  b  c\r\nd\r\n", "b c\r\n", &["b  c\r\n"]);
        check("xb  cy", "b c", &["b  c"]);
        check("b  c, b   c", "b c", &["b  c", "b   c"]);
        check("é  ü\u{3000}ö x", "ü ö", &["ü\u{3000}ö"]);
        check("a\u{85}b", "a b", &[]);
        check("bc", "b c", &[]);
        check("a\n\nb", " \t", &[]);
    }

    #[test]
    fn windows_of_lines() {
        check("x\nSELECT  a,\n   b\nFROM", "SELECT a,\nb", &["SELECT  a,\n   b"]);
        check("x\r\na  b\r\n c\r\nd\r\n", "a b\r\nc", &["a  b\r\n c"]);
        check("a  b\n c\nd", "a\nb c", &["a  b\n c"]);
        check("a  b c", "a\nb c", &["a  b c"]);
        check("y a  b\n c", "a b\nc", &[]);
        check("a  b\n c y", "a b\nc", &[]);
        check("\n\na  b\nc\n\n", "a b\n\nc", &["a  b\nc\n"]);
        check("\na  b\nc", "a b\n\nc", &["\na  b\nc"]);
        check("a  b\n\nc", "a b\nc", &[]);
        // The newline that oldString ends with is the last one of the window.
        check("a  b\nc\n\nd", "a b\nc\n", &["a  b\nc\n"]);
    }

    #[test]
    fn words_keep_their_places() {
        let collected: Vec<(usize, &str)> = words(" a \u{3000}é\r\n").collect();
        assert_eq!(collected, [(1, "a"), (6, "é")]);
    }
}
