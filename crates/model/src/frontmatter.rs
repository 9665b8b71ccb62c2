//! Front matter: the YAML between two lines of `---` at the top of a Markdown file.
//!
//! *Invariant:* a leaf, and pure. Whatever the text is, the work is bounded: neither its size nor its aliases multiply.

use serde_json::Value;

use crate::JsonMap;

/// Bytes of the largest front matter.
pub const MAX_BYTES: usize = 256 * 1024;

/// What is wrong with front matter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FrontMatterError {
    /// Line and column in the file, from 1, where they are known.
    pub place: Option<(usize, usize)>,
    /// What is wrong.
    pub message: String,
}

/// Splits a text into the front matter between two lines of `---`, and the rest.
pub fn split(text: &str) -> (&str, &str) {
    let Some(start) = text
        .split_inclusive('\n')
        .next()
        .filter(|line| line.trim_end() == "---")
    else {
        return ("", text);
    };
    let mut end = start.len();
    for line in text[start.len()..].split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (&text[start.len()..end], &text[end + line.len()..]);
        }
        end += line.len();
    }
    ("", text)
}

/// Reads front matter. A plain value with a colon in it, which is no YAML, is taken as text.
///
/// # Errors
/// It is no YAML, no map, or larger than [`MAX_BYTES`] or than what its aliases may expand to.
pub fn parse(front: &str) -> Result<JsonMap, FrontMatterError> {
    if front.len() > MAX_BYTES {
        let message = format!("the front matter is larger than {MAX_BYTES} bytes");
        return Err(FrontMatterError { place: None, message });
    }
    match yaml(front) {
        Ok(map) => Ok(map),
        // What people write as `description: Use it when: always` is no YAML, and is meant as text. So is
        // `[draft] Use when: always`, but what may be YAML by itself is taken for that as long as it can be.
        Err(problem) => yaml(&quote_colons(front, is_plain_value))
            .or_else(|_| yaml(&quote_colons(front, is_unquoted)))
            .map_err(|_| problem),
    }
}

fn yaml(front: &str) -> Result<JsonMap, FrontMatterError> {
    if front.trim().is_empty() {
        return Ok(JsonMap::new());
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 10_000, max_events: 40_000, max_aliases: 100 },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
        // As in YAML 1.2, which skills and agents are written in: a skill may be called `yes`.
        strict_booleans: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Value>(front, options) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(JsonMap::new()),
        Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => Err(FrontMatterError {
            place: None,
            message: "expected keys and values in the front matter".to_owned(),
        }),
        Err(error) => {
            // The front matter begins on the second line of the file.
            let place = error.location().map(|place| {
                let line = usize::try_from(place.line()).unwrap_or(usize::MAX);
                let column = usize::try_from(place.column()).unwrap_or(usize::MAX);
                (line.saturating_add(1), column)
            });
            let message = format!("the front matter is not YAML: {error}");
            Err(FrontMatterError { place, message })
        }
    }
}

/// Quotes those values of top-level keys that have a colon in them and are meant as text.
fn quote_colons(front: &str, is_text: impl Fn(&str) -> bool) -> String {
    let quoted = front.lines().map(|line| match line.split_once(": ") {
        Some((key, value)) if is_plain_key(key) && value.contains(':') && is_text(value.trim()) => {
            format!("{key}: {}\n", Value::from(value.trim()))
        }
        Some(_) | None => format!("{line}\n"),
    });
    quoted.collect()
}

fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

fn is_plain_value(value: &str) -> bool {
    is_unquoted(value) && !value.starts_with(['{', '[', '&', '*', '!'])
}

fn is_unquoted(value: &str) -> bool {
    !value.starts_with(['"', '\'', '|', '>'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn splits_at_lines_of_dashes() {
        let check = |text: &str, front: &str, rest: &str| assert_eq!(split(text), (front, rest), "{text:?}");
        check("---\na: 1\n---\nx\n---\ny", "a: 1\n", "x\n---\ny");
        check("---\r\na: 1\r\n---\r\nx", "a: 1\r\n", "x");
        check("---\n---", "", "");
        check("---\na: 1\n", "", "---\na: 1\n");
        check("x\n---\na: 1\n---\n", "", "x\n---\na: 1\n---\n");
    }

    #[test]
    fn takes_plain_text_with_colons() {
        let check = |front: &str, expected: Value| assert_eq!(Value::Object(parse(front).unwrap()), expected);
        check("a: Use when: b, c: d\n", json!({"a": "Use when: b, c: d"}));
        check("a: \"b: c\"\nd: |\n  e: f\n", json!({"a": "b: c", "d": "e: f\n"}));
        check(
            "a: [draft] Use when: b\nc: *note*: d\ne: @f: g",
            json!({"a": "[draft] Use when: b", "c": "*note*: d", "e": "@f: g"}),
        );
        check("a: b: c\nd: {e: false}", json!({"a": "b: c", "d": {"e": false}}));
        check("", json!({}));
    }

    #[test]
    fn only_true_and_false_are_booleans() {
        for word in ["yes", "No", "ON", "off", "y", "N"] {
            let text = format!("a: {word}\n{word}: [{word}]\n");
            assert_eq!(Value::Object(parse(&text).unwrap()), json!({"a": word, word: [word]}));
        }
        for (word, value) in [("true", true), ("True", true), ("FALSE", false)] {
            assert_eq!(
                Value::Object(parse(&format!("a: {word}")).unwrap()),
                json!({"a": value})
            );
        }
    }

    #[test]
    fn refuses_what_is_too_large() {
        let error = parse(&format!("a: {}", "x".repeat(MAX_BYTES))).unwrap_err();
        assert!(error.message.contains("larger than"), "{error}");
        assert_eq!(
            parse("a: \"b\nc: d").unwrap_err().place.map(|(line, _)| line > 1),
            Some(true)
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in "(---\n)?[a-c:\\-\\[\\]{}&*!|>'\" \n]{0,40}(\n---\n)?x?") {
            let _ = parse(split(&text).0);
        }
    }
}
