//! Matchers: what a case says about a value, and the sentence that explains a mismatch.
//!
//! *Invariant:* pure. A matcher that could never fail is refused when it is read.

use std::borrow::Cow;

use regex::RegexBuilder;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::vars::Vars;

/// How much of a value a failure shows.
const SHOWN_CHARACTERS: usize = 1500;

/// One or more conditions, all of which must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawMatcher")]
pub(crate) struct Matcher(RawMatcher);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatcher {
    /// Present also for `null`, which is a value like any other.
    #[serde(default, deserialize_with = "present")]
    equals: Option<Value>,
    contains: Option<Vec<String>>,
    not_contains: Option<Vec<String>>,
    matches: Option<String>,
    line_count: Option<usize>,
    max_bytes: Option<usize>,
    exists: Option<bool>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl TryFrom<RawMatcher> for Matcher {
    type Error = String;

    fn try_from(raw: RawMatcher) -> Result<Self, String> {
        let lists = [&raw.contains, &raw.not_contains];
        if lists.into_iter().flatten().any(Vec::is_empty) {
            return Err("a matcher with an empty list never fails".to_owned());
        }
        let is_empty = raw.equals.is_none()
            && raw.contains.is_none()
            && raw.not_contains.is_none()
            && raw.matches.is_none()
            && raw.line_count.is_none()
            && raw.max_bytes.is_none()
            && raw.exists.is_none();
        if is_empty {
            return Err("a matcher without a condition never fails".to_owned());
        }
        if let Some(pattern) = &raw.matches {
            regex(pattern)?;
        }
        Ok(Self(raw))
    }
}

fn regex(pattern: &str) -> Result<regex::Regex, String> {
    let built = RegexBuilder::new(pattern).multi_line(true).build();
    built.map_err(|error| format!("matches: {error}"))
}

impl Matcher {
    /// Returns the matcher with its placeholders replaced.
    pub(crate) fn with(&self, vars: &Vars) -> Self {
        let raw = &self.0;
        let texts = |list: &Option<Vec<String>>| {
            let list = list.as_ref()?;
            Some(list.iter().map(|text| vars.text(text)).collect())
        };
        Self(RawMatcher {
            equals: raw.equals.as_ref().map(|value| vars.json(value)),
            contains: texts(&raw.contains),
            not_contains: texts(&raw.not_contains),
            matches: raw.matches.as_ref().map(|pattern| vars.pattern(pattern)),
            ..raw.clone()
        })
    }

    /// Checks a value, or the absence of one.
    ///
    /// # Errors
    /// One line per condition that does not hold.
    pub(crate) fn check(&self, value: Option<&Value>) -> Result<(), String> {
        let mut problems = Vec::new();
        if let Some(exists) = self.0.exists
            && exists != value.is_some()
        {
            let expected = if exists { "a value" } else { "no value" };
            problems.push(mismatch(expected, value));
        }
        if let Some(expected) = &self.0.equals
            && !value.is_some_and(|value| same(expected, value))
        {
            problems.push(mismatch(&format!("equals {}", show(Some(expected))), value));
        }
        self.check_text(value, &mut problems);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems.join("\n"))
        }
    }

    /// Checks a text, or the absence of one.
    ///
    /// # Errors
    /// One line per condition that does not hold.
    pub(crate) fn check_str(&self, text: Option<&str>) -> Result<(), String> {
        let value = text.map(|text| Value::String(text.to_owned()));
        self.check(value.as_ref())
    }

    fn check_text(&self, value: Option<&Value>, problems: &mut Vec<String>) {
        let text = value.map(text_of);
        let text = text.as_deref();
        for part in self.0.contains.iter().flatten() {
            if !text.is_some_and(|text| text.contains(part.as_str())) {
                problems.push(mismatch(&format!("contains {part:?}"), value));
            }
        }
        for part in self.0.not_contains.iter().flatten() {
            // An absent text contains nothing, but a case that says so means a text that is there.
            if text.is_none_or(|text| text.contains(part.as_str())) {
                problems.push(mismatch(&format!("does not contain {part:?}"), value));
            }
        }
        if let Some(pattern) = &self.0.matches {
            match regex(pattern) {
                Ok(regex) if text.is_some_and(|text| regex.is_match(text)) => {}
                Ok(_) => problems.push(mismatch(&format!("matches {pattern:?}"), value)),
                Err(error) => problems.push(error),
            }
        }
        if let Some(count) = self.0.line_count {
            let lines = text.map(|text| text.lines().count());
            if lines != Some(count) {
                problems.push(mismatch(&format!("has {count} lines, not {lines:?}"), value));
            }
        }
        if let Some(limit) = self.0.max_bytes {
            let bytes = text.map(str::len);
            if bytes.is_none_or(|bytes| bytes > limit) {
                problems.push(mismatch(&format!("has at most {limit} bytes, not {bytes:?}"), value));
            }
        }
    }
}

/// The text that the text conditions look at: a string itself, of anything else its compact JSON.
fn text_of(value: &Value) -> Cow<'_, str> {
    match value.as_str() {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(value.to_string()),
    }
}

/// Compares JSON values: numbers by value (what went through a `Struct` is a double), objects whatever their order.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let found = |(key, value): (&String, &Value)| right.get(key).is_some_and(|other| same(value, other));
            left.len() == right.len() && left.iter().all(found)
        }
        (left, right) => left == right,
    }
}

/// The two lines of a failure.
pub(crate) fn mismatch(expected: &str, got: Option<&Value>) -> String {
    format!("expected: {expected}\ngot:      {}", show(got))
}

/// A value for a person: its JSON, cut in the middle if it is long.
pub(crate) fn show(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "(nothing)".to_owned();
    };
    let text = value.to_string();
    let count = text.chars().count();
    if count <= SHOWN_CHARACTERS {
        return text;
    }
    let half = SHOWN_CHARACTERS / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head} … ({} characters left out) … {tail}", count - 2 * half)
}
