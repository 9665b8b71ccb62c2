//! Which strategy decides, what is left alone, and what a search may cost.

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::effort::Effort;
use super::replace::{find_loosely, with_endings};
use super::*;
use crate::FileError;

fn edit(old: &str, new: &str) -> Edit {
    Edit {
        old: old.to_owned(),
        new: new.to_owned(),
        replace_all: false,
    }
}

fn edited(text: &str, edit: &Edit) -> Result<String, String> {
    let replaced = replace(text.as_bytes(), edit, &CancellationToken::new());
    replaced
        .map(|bytes| String::from_utf8(bytes).unwrap())
        .map_err(|error| error.to_string())
}

const AMBIGUOUS: &str =
    "Found multiple matches for oldString. Provide more surrounding context to make the match unique.";
const NOT_FOUND: &str =
    "Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line endings.";

#[test]
fn the_first_strategy_that_finds_anything_decides() {
    let check = |text: &str, old: &str, expected: Result<&str, &str>| {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(edited(text, &edit(old, "NEW")), expected, "{text:?} {old:?}");
    };
    check("  foo\nfoo\n", "foo", Err(AMBIGUOUS));
    check("  foo\n\tfoo\n", "foo ", Err(AMBIGUOUS));
    check("  foo\nfoobar\n", "foo ", Ok("NEW\nfoobar\n"));
    check("{\n{\n{", "{ \n{", Err(AMBIGUOUS));
    check("a\nb\nc\n", "a\nb\nd", Err(NOT_FOUND));
    check("ab\ncd\n", "\t\t", Err(NOT_FOUND));
    check("a b, a  b", "a   b", Err(AMBIGUOUS));
    check("a\n", "\n\n", Err(NOT_FOUND));
    check("", "a", Err(NOT_FOUND));
    check("a\r\nb\r\n", "\r\na", Ok("NEW\r\nb\r\n"));
    check("x\"y\"\nq\nx\\\"y\\\"\n", "x\\\"y\"", Err(AMBIGUOUS));
}

#[test]
fn line_endings_are_the_files() {
    let check = |text: &str, old: &str, new: &str, expected: &str| {
        assert_eq!(
            edited(text, &edit(old, new)).as_deref(),
            Ok(expected),
            "{text:?} {old:?}"
        );
    };
    check("a\r\nb\r\n", "a\nb", "c\nd", "c\r\nd\r\n");
    check("a\nb\n", "a\r\nb", "c\r\nd", "c\nd\n");
    check(
        "one\r\n  two\r\n  three\r\nfour\r\n",
        "two\nthree",
        "2\n3",
        "one\r\n2\r\n3\r\nfour\r\n",
    );
    check("a\r\n b\r\nc", "b \n", "B\n", "a\r\nB\r\nc");
    check("a\r\nb\nc\r\n", "a\nb\nc", "x", "x\r\n");
    check("a\nb \nc", "b\n", "", "a\nc");
    check("f(x\n y)\nz", "\n f(x\n y)\n", "g\n", "g\nz");
    check("w f(x\n y)\nz", "\n f(x\n y)\n", "g\n", "w g\nz");
    check("w f(x\n y)\nz", "\n f(x\n y)\n", "g", "w g\nz");
    assert_eq!(
        edited("a\r\n", &edit("a\n", "a\r\n")),
        Err("No changes to apply: oldString and newString are identical.".to_owned())
    );
}

#[test]
fn all_places_of_the_strategy_are_replaced() {
    let check = |text: &str, old: &str, expected: &str| {
        let all = Edit {
            replace_all: true,
            ..edit(old, "$&")
        };
        assert_eq!(edited(text, &all).as_deref(), Ok(expected), "{text:?} {old:?}");
    };
    check("aaa", "aa", "$&a");
    check("  foo\n\tfoo\nfoobar", "foo ", "$&\n$&\nfoobar");
    check("{\n{\n{", "{ \n{", "$&\n{");
    check("a  b, a   b", "a b", "$&, $&");
}

#[test]
fn a_far_larger_place_is_refused() {
    let far = "Refusing replacement because the matched span is much larger than oldString. Re-read the file and \
               provide the full exact oldString for the intended replacement.";
    let text = format!("open()\nsame\n{}\nclose()\n", "A".repeat(2000));
    let old = edit("open()\nsame\nzz\nclose()", "x");
    assert_eq!(edited(&text, &old), Err(far.to_owned()));
    assert_eq!(edited(&text.repeat(2), &old), Err(far.to_owned()));
}

#[test]
fn what_is_not_utf8_is_edited_exactly_or_not_at_all() {
    let token = CancellationToken::new();
    let latin = b"caf\xe9 = 1\nx  y\n";
    assert_eq!(
        replace(latin, &edit("= 1", "= 2"), &token).unwrap(),
        b"caf\xe9 = 2\nx  y\n"
    );
    assert!(matches!(
        replace(latin, &edit("x y", "z"), &token),
        Err(EditError::NotUtf8)
    ));
    assert!(matches!(
        replace(latin, &edit("caf\u{fffd}", "z"), &token),
        Err(EditError::NotUtf8)
    ));
}

/// Returns what a search that finds nothing costs, per byte of the file.
fn cost(text: &str, old: &str) -> u64 {
    let token = CancellationToken::new();
    let mut effort = Effort::new(&token);
    assert_eq!(
        find_loosely(text, old, "", &mut effort),
        Ok(Vec::new()),
        "nothing is found"
    );
    effort.spent() / text.len() as u64
}

#[test]
fn a_search_costs_a_few_looks_at_every_byte() {
    let braces = "{\n".repeat(20_000);
    assert!(cost(&braces, "{\n  a\n  b\n}") < 20);
    assert!(cost(&braces, "{\n  a\n  b\n  c\n  {") < 20);
    let lines: String = (0..10_000).map(|n| format!("    line number {n}\n")).collect();
    let absent: String = (0..1000).map(|n| format!("    line number {}\n", 2 * n)).collect();
    assert!(cost(&lines, &absent) < 20);
    assert!(cost(&lines, "    line number 5\n    line number 7\n    line number 9\n") < 20);
    let inner = |text: &str| format!("{{\n{}\n}}\n", text.repeat(5000));
    assert!(cost(&inner("ab"), &inner("cd")) < 200);
    let many: String = (0..2000).map(|n| format!("begin\n  call_{n}(x, y);\nend\n")).collect();
    assert!(cost(&many, "begin\n  something entirely different\nend") < 20);
}

#[test]
fn lines_that_are_too_long_for_one_strategy_are_left_to_the_next() {
    let block = |line: &str| format!("{{\n same\n{}\n}}\n", line.repeat(20_000));
    assert_eq!(edited(&block("a"), &edit(&block("b"), "NEW\n")).as_deref(), Ok("NEW\n"));
}

#[test]
fn a_search_stops_when_its_call_is_cancelled() {
    let token = CancellationToken::new();
    token.cancel();
    let result = replace(b"a\nb\n", &edit("x", "y"), &token);
    assert!(matches!(result, Err(EditError::File(FileError::Stopped))));
}

/// Texts of a few short lines, with any line endings.
fn some_text() -> impl Strategy<Value = String> {
    let line = "[ab {}\\\\\t\u{e9}🚀$]{0,6}";
    let ending = prop::sample::select(vec!["\n", "\r\n", "\r", ""]);
    prop::collection::vec((line, ending), 0..8)
        .prop_map(|lines| lines.into_iter().map(|(line, ending)| line + ending).collect())
}

proptest! {
    #[test]
    fn a_unique_text_is_replaced_and_nothing_else(
        text in some_text(),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        new in "[a$&\u{e9}]{0,4}",
    ) {
        let bounds: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let (from, to) = (*from.get(&bounds), *to.get(&bounds));
        let (from, to) = (from.min(to), from.max(to));
        let old = &text[from..to];
        let is_crlf = text.contains("\r\n");
        prop_assume!(!old.is_empty() && old != new && with_endings(old, is_crlf) == old);
        prop_assume!(text.find(old) == text.rfind(old));
        let expected = format!("{}{new}{}", &text[..from], &text[to..]);
        prop_assert_eq!(edited(&text, &edit(old, &new)), Ok(expected));
    }

    #[test]
    fn no_input_panics(
        text in prop_oneof![some_text(), any::<String>()],
        old in prop_oneof![some_text(), any::<String>()],
        new in some_text(),
        replace_all in any::<bool>(),
    ) {
        let edit = Edit { old, new, replace_all };
        let _ = edited(&text, &edit);
        let _ = replace(&text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(), &edit, &CancellationToken::new());
    }
}
