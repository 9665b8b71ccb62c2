//! JSON with comments and trailing commas: parsing, and finding the line of a key.
//!
//! *Invariant:* bounded by the size of the text: depth by the parser, and number of values and length of keys here, so
//! that whatever is derived from a file stays in proportion to it.

use std::collections::HashSet;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;
use toolgate_model::JsonMap;

use super::error::{Position, Problem};

const MAX_VALUES: usize = 50_000;
const MAX_KEY_BYTES: usize = 4096;
/// Keys written twice that are told of one text.
const MAX_REPEATED: usize = 10;
/// Characters of the longest line that an error shows.
const MAX_SHOWN: usize = 160;

/// Comments and trailing commas, and nothing else that JSON does not have.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses a text whose root is an object. A text of nothing but comments is an empty one.
pub(super) fn parse(text: &str) -> Result<JsonMap, Problem> {
    let mut left = MAX_VALUES;
    let Some(root) = tree(text)? else {
        return Ok(JsonMap::new());
    };
    let Value::Object(map) = convert(text, &root, &mut left)? else {
        return Err(Problem::new(
            Some(Position::at(text, root.start())),
            "",
            "expected an object",
        ));
    };
    Ok(map)
}

/// Says whether a text holds nothing, or nothing but comments.
pub(super) fn is_blank(text: &str) -> bool {
    matches!(tree(text), Ok(None))
}

/// Returns keys that are written twice in one object, as keys with dots; at most a few.
pub(super) fn repeated(text: &str) -> Vec<String> {
    let mut repeated = Vec::new();
    if let Ok(Some(root)) = tree(text) {
        find_repeated(&root, "", &mut repeated);
    }
    repeated
}

/// As deep as the parser's limit on nesting.
fn find_repeated(node: &ast::Value<'_>, above: &str, repeated: &mut Vec<String>) {
    if let Some(object) = node.as_object() {
        let mut seen = HashSet::new();
        for property in &object.properties {
            let name = property.name.as_str();
            let path = match above {
                "" => name.to_owned(),
                above => format!("{above}.{name}"),
            };
            if !seen.insert(name) && repeated.len() < MAX_REPEATED && !repeated.contains(&path) {
                repeated.push(path.clone());
            }
            find_repeated(&property.value, &path, repeated);
        }
    }
    if let Some(array) = node.as_array() {
        let elements = array.elements.iter();
        elements.for_each(|element| find_repeated(element, above, repeated));
    }
}

/// Returns the place of the value that a JSON pointer leads to, or of what is there of the way to it.
pub(super) fn locate(text: &str, pointer: &str) -> Option<Position> {
    let root = tree(text).ok()??;
    let (mut node, mut offset) = (&root, root.start());
    for segment in pointer.split('/').skip(1) {
        let segment = unescape(segment);
        let property = node.as_object().and_then(|object| {
            let mut last_first = object.properties.iter().rev();
            last_first.find(|property| property.name.as_str() == segment)
        });
        let element = || node.as_array()?.elements.get(segment.parse::<usize>().ok()?);
        let next = property.map(|property| (&property.value, property.start()));
        let next = next.or_else(|| element().map(|element| (element, element.start())));
        let Some(found) = next else { break };
        (node, offset) = found;
    }
    Some(Position::at(text, offset))
}

/// Adds the line of a problem, with a caret below the place. The line is shown as it was written: what was inserted
/// in it may be secret.
pub(super) fn with_excerpt(mut problem: Problem, written: &str, parsed: &str) -> Problem {
    let Some(at) = problem.position else { return problem };
    let line = |text: &str| text.lines().nth(at.line - 1).map(str::to_owned);
    if let Some(shown) = line(written).filter(|shown| shown.chars().count() <= MAX_SHOWN) {
        problem.message.push_str(&format!("\n    {shown}"));
        if line(parsed).is_some_and(|parsed| parsed == shown) {
            problem.message.push_str(&format!("\n    {:>1$}", '^', at.column));
        }
    }
    problem
}

/// Escapes one segment of a JSON pointer.
pub(super) fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

/// Takes the escapes out of one segment of a JSON pointer.
pub(super) fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

fn tree(text: &str) -> Result<Option<ast::Value<'_>>, Problem> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS);
    parsed.map(|result| result.value).map_err(|error| {
        let position = Position::at(text, error.range().start);
        Problem::new(Some(position), "", error.kind().to_string())
    })
}

/// Recursion is as deep as the parser's limit on nesting. A key written twice keeps its first place and its last value,
/// as in every JSON parser that keeps order.
fn convert(text: &str, node: &ast::Value<'_>, left: &mut usize) -> Result<Value, Problem> {
    let problem = |message: String| Problem::new(Some(Position::at(text, node.start())), "", message);
    *left = left
        .checked_sub(1)
        .ok_or_else(|| problem(format!("more than {MAX_VALUES} values")))?;
    Ok(match node {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::StringLit(literal) => Value::String(literal.value.to_string()),
        ast::Value::NumberLit(literal) => {
            serde_json::from_str(literal.value).map_err(|_| problem(format!("{} is not a number", literal.value)))?
        }
        ast::Value::Array(array) => {
            let elements = array.elements.iter().map(|element| convert(text, element, left));
            Value::Array(elements.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => {
            let mut map = JsonMap::new();
            for property in &object.properties {
                let key = property.name.as_str();
                if key.len() > MAX_KEY_BYTES {
                    return Err(problem(format!("a key is longer than {MAX_KEY_BYTES} bytes")));
                }
                map.insert(key.to_owned(), convert(text, &property.value, left)?);
            }
            Value::Object(map)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_trailing_commas() {
        let text = "{\n// a\n\"b\": [1, 2.5, true, null,], /* c */ \"d\": {\"e\": \"\\u00e9\",},\n}";
        assert_eq!(
            parse(text).map(Value::Object),
            Ok(json!({"b": [1, 2.5, true, null], "d": {"e": "é"}}))
        );
        assert_eq!(parse(" // nothing\n"), Ok(JsonMap::new()));
        let twice = parse(r#"{"a": 1, "b": 2, "a": 3}"#).map(|map| Value::Object(map).to_string());
        assert_eq!(twice, Ok(r#"{"a":3,"b":2}"#.to_owned()));
    }

    #[test]
    fn what_is_written_twice_is_found() {
        let check = |text: &str, expected: &[&str]| assert_eq!(repeated(text), expected, "{text}");
        check(r#"{"a": {"b": 1, "c": 2}, "d": {"b": 1}}"#, &[]);
        check(
            r#"{"a": {"b": 1, "b": {"x": 1, "x": 2}}, "e": [{"f": 1, "f": 2}, {"f": 1}], "a": 1}"#,
            &["a.b", "a.b.x", "e.f", "a"],
        );
        check("{", &[]);
        for (text, expected) in [("", true), (" // a\n/* b */", true), ("{}", false), ("{", false)] {
            assert_eq!(is_blank(text), expected, "{text:?}");
        }
    }

    #[test]
    fn errors_have_line_and_column() {
        for (text, line, column) in [
            ("{\n  \"a\" 1\n}", 2, 7),
            ("[1]", 1, 1),
            ("{\"a\": 'x'}", 1, 7),
            ("{a: 1}", 1, 2),
            ("{\"é\": 01}", 1, 8),
            ("{\"a\": 1e999}", 1, 7),
        ] {
            let problem = parse(text).expect_err("the text is wrong");
            assert_eq!(problem.position, Some(Position { line, column }), "{text}: {problem}");
        }
    }

    #[test]
    fn places_are_found() {
        let text = "{\n \"permission\": {\n  \"a/b\": {\"x\": 1},\n  \"c\": [\n   1,\n   2]\n } }";
        for (pointer, line) in [
            ("", 1),
            ("/permission", 2),
            ("/permission/a~1b/x", 3),
            ("/permission/c/1", 6),
            ("/permission/none/x", 2),
        ] {
            assert_eq!(locate(text, pointer).map(|place| place.line), Some(line), "{pointer}");
        }
    }

    #[test]
    fn hostile_sizes_are_refused() {
        assert!(parse(&format!("{{\"a\": {}", "[".repeat(100_000))).is_err());
        assert!(parse(&format!("{{\"a\": [{}]}}", "1,".repeat(MAX_VALUES))).is_err());
        assert!(parse(&format!("{{\"{}\": 1}}", "k".repeat(MAX_KEY_BYTES + 1))).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in r#"[{}\[\]":,a1\\/*\n é'+.-]{0,60}"#, pointer in "(/[a-z~0-9]{0,3}){0,3}") {
            let _ = parse(&text);
            locate(&text, &pointer);
            repeated(&text);
        }

        #[test]
        fn plain_json_is_read_as_by_everybody(keys in prop::collection::vec("[a-z\"\\\\ é]{0,4}", 0..6)) {
            let map: JsonMap = keys.iter().map(|key| (key.clone(), json!([key, 1, {"x": null}]))).collect();
            prop_assert_eq!(parse(&serde_json::to_string(&map).expect("a map serialises")), Ok(map));
        }
    }
}
