//! Strategy 6, escape-normalised: oldString was escaped once too often, or once too seldom.
//!
//! *Invariant:* linear in the file. newString is never unescaped.

use std::borrow::Cow;

use super::effort::{Effort, Halt};
use super::exact::occurrences;
use super::lines::{Numbers, find_runs};
use super::search::{Place, Search};

/// Finds the unescaped oldString, and windows of as many lines that are the same once they are unescaped.
pub(super) fn escape_normalised(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    let text = search.lines.text();
    effort.spend(2 * text.len())?;
    let wanted = unescape(search.old);
    // A window without an escape is found once more as plain text, which is still one place.
    let mut places = windows(search, &wanted, effort)?;
    if matches!(wanted, Cow::Owned(_)) {
        places.extend(occurrences(text, &wanted));
        if places.is_empty() && text.contains("\r\n") {
            // An escaped newline stands for the file's own.
            let wanted = wanted.replace("\r\n", "\n").replace('\n', "\r\n");
            effort.spend(2 * text.len())?;
            places = windows(search, &wanted, effort)?;
            places.extend(occurrences(text, &wanted));
        }
    }
    Ok(places)
}

/// Returns `text` with every escape replaced by what it stands for.
fn unescape(text: &str) -> Cow<'_, str> {
    let mut unescaped = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let after = &rest[at + 1..];
        let stands_for = match after.chars().next() {
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            Some('r') => Some('\r'),
            Some(c @ ('\'' | '"' | '`' | '\\' | '\n' | '$')) => Some(c),
            Some(_) | None => None,
        };
        unescaped.push_str(&rest[..at]);
        unescaped.push(stands_for.unwrap_or('\\'));
        rest = &after[usize::from(stands_for.is_some())..];
    }
    if rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    unescaped.push_str(rest);
    Cow::Owned(unescaped)
}

/// Finds windows by their lines: unescaped, a window has as many lines as before only if none of its lines has an escaped
/// newline, so each line must equal its counterpart.
fn windows(search: &Search<'_>, wanted: &str, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    if !search.lines.text().contains('\\') {
        return Ok(Vec::new());
    }
    let mut wanted_lines: Vec<&str> = wanted.split('\n').collect();
    let wanted_last = wanted_lines.pop().unwrap_or_default();
    let height = wanted_lines.len();
    let mut numbers = Numbers::default();
    let wanted_ids: Vec<u32> = wanted_lines.into_iter().map(|line| numbers.assign(line)).collect();
    let count = search.lines.len();
    let ids: Vec<u32> = (0..count - 1)
        .map(|line| {
            let raw = search.lines.raw(line);
            // A backslash before the line's end escapes it: the newline stays, the backslash does not.
            match unescape(raw) {
                Cow::Borrowed(raw) => numbers.get(raw),
                Cow::Owned(unescaped) if escapes_its_end(raw) => numbers.get(&unescaped[..unescaped.len() - 1]),
                Cow::Owned(unescaped) => numbers.get(&unescaped),
            }
        })
        .collect();
    let starts = find_runs(&ids, &wanted_ids, effort)?;
    let is_whole = |first: &usize| unescape(search.lines.content(first + height)) == wanted_last;
    let windows = starts.into_iter().filter(is_whole);
    Ok(windows
        .filter_map(|first| search.lines.span(first, first + height))
        .collect())
}

/// Says whether the last backslash of a line belongs to no other escape.
fn escapes_its_end(line: &str) -> bool {
    let backslashes = line.bytes().rev().take_while(|&byte| byte == b'\\').count();
    backslashes % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::super::search::testing::found;
    use super::*;

    #[test]
    fn unescapes_from_left_to_right() {
        let check = |text: &str, expected: &str| assert_eq!(unescape(text), expected);
        check(r"a\nb\tc\rd", "a\nb\tc\rd");
        check(r#"\'\"\`\$\\"#, "'\"`$\\");
        check(r"\\n", r"\n");
        check("a\\\nb", "a\nb");
        check(r"\d\é\", r"\d\é\");
        check("plain", "plain");
    }

    #[test]
    fn finds_what_was_escaped_too_often_or_too_seldom() {
        let check = |text: &str, old: &str, expected: &[&str]| {
            assert_eq!(found(escape_normalised, text, old), expected, "{old:?}");
        };
        check("a\nb\nc", r"a\nb", &["a\nb"]);
        check("a\r\nb\r\nc\r\n", r"a\nb", &["a\r\nb"]);
        check("say(\"hi\")\tnow", r#"say(\"hi\")\tnow"#, &["say(\"hi\")\tnow"]);
        check("b\nb", r"\b", &[]);
        check("x\nsay(\\\"hi\\\")\ny", "say(\"hi\")", &["say(\\\"hi\\\")"]);
        check("\\`a\r\n\\$b\r\n", "`a\r\n$b", &["\\`a\r\n\\$b"]);
        check("\\`a\r\n\\$b\r\n", "`a\r\n$b\r\n", &["\\`a\r\n\\$b\r\n"]);
        check("\\$a\\\nb", "$a\nb", &["\\$a\\\nb"]);
        check("\\$a\\\\\nb", "$a\\\\\nb", &["\\$a\\\\\nb"]);
        check("\\$a\\\\\nb", "$a\\\nb", &[]);
        check("\\$a\\nb", "$a\nb", &[]);
        check("\\$\n\\$", "$", &["\\$", "\\$"]);
        check("a\\$\na$\n", "\\a\\$", &[]);
        check("a\\$'\na$'\n", "a$\\'", &["a\\$'", "a$'", "a$'"]);
        check(
            "a\\$\r\nb\r\na$\r\nb\r\n",
            r"a$\nb",
            &["a\\$\r\nb", "a$\r\nb", "a$\r\nb"],
        );
    }
}
