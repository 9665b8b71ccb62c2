//! The tools' configuration as it may be shown: where a secret comes from, never the secret.
//!
//! *Invariant:* what is shown of a text with marks is made of the text as it was written, so that nothing of what was
//! inserted can be in it, but below the few keys that hold no secrets.

use serde_json::Value;
use toolgate_model::JsonMap;

use super::{checks, jsonc};

/// Stands for what is not shown, behind the mark that it comes from.
const HIDDEN: &str = "(hidden)";

const MARKS: [&str; 2] = ["{env:", "{file:"];

/// Whatever is below these keys of an MCP server may be a secret: people write it down as it is.
const SECRET_BLOCKS: [&str; 3] = ["headers", "environment", "env"];

/// Keys of secrets, in lower case and without `_` and `-`.
const SECRET_KEYS: [&str; 6] = ["apikey", "token", "secret", "password", "authorization", "credential"];

/// What is inserted below these keys is shown: names of people, models, agents and themes, and paths of files. Everything else may be a
/// secret.
const NO_SECRETS: [&str; 6] = [
    "username",
    "instructions",
    "model",
    "small_model",
    "default_agent",
    "theme",
];

/// Returns what a text with marks means, with the marks in the place of what they stand for. `value` is what it means with
/// everything inserted.
pub(super) fn without_inserted(text: &str, value: &JsonMap) -> JsonMap {
    let shown = jsonc::parse(&marked(text))
        .ok()
        .and_then(|map| checks::normalise(map).ok());
    let is_written = |key: &&String| text.contains(&Value::from(key.as_str()).to_string());
    let Some(shown) = shown else {
        // Without what was inserted, the text is no configuration.
        let hidden = |key: &String| (key.clone(), Value::from(HIDDEN));
        return value.keys().filter(is_written).map(hidden).collect();
    };
    let mut shown = without_secrets(shown);
    for key in NO_SECRETS {
        if let (Some(shown), Some(value)) = (shown.get_mut(key), value.get(key)) {
            *shown = value.clone();
        }
    }
    shown
}

/// Returns the marks of a text, each with what is before it, and what is behind the last one.
fn marks(text: &str) -> (Vec<(&str, &str)>, &str) {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(start) = MARKS.iter().filter_map(|mark| rest.find(mark)).min()
        && let Some(length) = rest[start..].find('}')
    {
        let (until, behind) = rest.split_at(start + length + 1);
        found.push(until.split_at(start));
        rest = behind;
    }
    (found, rest)
}

/// Says behind every mark that what it stands for is hidden.
fn marked(text: &str) -> String {
    let (marks, rest) = marks(text);
    let marks = marks.iter().map(|(before, mark)| format!("{before}{mark} {HIDDEN}"));
    marks.collect::<String>() + rest
}

/// Hides what is a secret by its place, however it was written there.
pub(super) fn without_secrets(mut map: JsonMap) -> JsonMap {
    map.iter_mut().for_each(|(key, value)| mask(key, value));
    map
}

fn mask(key: &str, value: &mut Value) {
    let plain: String = key.to_lowercase().chars().filter(|c| !"_-".contains(*c)).collect();
    let is_secret = SECRET_BLOCKS.contains(&key) || SECRET_KEYS.iter().any(|secret| plain.ends_with(secret));
    if is_secret {
        hide(value);
    } else if let Value::Object(map) = value {
        map.iter_mut().for_each(|(key, value)| mask(key, value));
    } else if let Value::Array(items) = value {
        items.iter_mut().for_each(|item| mask("", item));
    }
}

/// Leaves of a value what says where it comes from.
fn hide(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(hide),
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            let marks = marks(text).0.into_iter().map(|(_, mark)| format!("{mark} "));
            *text = marks.collect::<String>() + HIDDEN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, inserted: &str, expected: &str) {
        let value = jsonc::parse(inserted).expect("what was inserted is JSON");
        let shown = Value::Object(without_inserted(text, &value));
        assert_eq!(shown.to_string(), expected, "{text}");
    }

    #[test]
    fn marks_stand_for_what_they_bring() {
        check(
            r#"{"mcp": {"a": {"type": "remote", "url": "https://h/{env:PART}", "headers": {"X-Key": "Bearer {env:KEY}"}}}}"#,
            r#"{"mcp": {"a": {"type": "remote", "url": "https://h/s3cr3t", "headers": {"X-Key": "Bearer s3cr3t"}}}}"#,
            r#"{"mcp":{"a":{"type":"remote","url":"https://h/{env:PART} (hidden)","headers":{"X-Key":"{env:KEY} (hidden)"}}}}"#,
        );
        check(
            r#"{"share": "{file:{env:FOLDER}/share}", "permission": "ask"}"#,
            r#"{"share": "s3cr3t", "permission": "ask"}"#,
            r#"{"share":"{file:{env:FOLDER} (hidden)/share}","permission":{"*":"ask"}}"#,
        );
    }

    #[test]
    fn names_and_paths_are_shown() {
        check(
            r#"{"username": "{env:USER}", "instructions": ["{file:x}"], "model": "a/{env:USER}", "shell": "{env:USER}"}"#,
            r#"{"username": "bob", "instructions": ["a.md"], "model": "a/bob", "shell": "bob"}"#,
            r#"{"username":"bob","instructions":["a.md"],"model":"a/bob","shell":"{env:USER} (hidden)"}"#,
        );
    }

    #[test]
    fn what_is_no_configuration_without_them_is_hidden() {
        check(
            r#"{"mcp": {env:SERVERS}, "model": "m"}"#,
            r#"{"mcp": {}, "model": "m"}"#,
            r#"{"mcp":"(hidden)","model":"(hidden)"}"#,
        );
        check(
            r#"{"permission": "{env:RULE}"}"#,
            r#"{"permission": "ask"}"#,
            r#"{"permission":"(hidden)"}"#,
        );
        check(r#"{"{env:KEY}": 1}"#, r#"{"s3cr3t": 1}"#, r#"{"{env:KEY} (hidden)":1}"#);
        check(r#"{{env:KEY}: {env:VALUE}}"#, r#"{"s3cr3t": 1}"#, "{}");
    }

    #[test]
    fn places_of_secrets_are_hidden() {
        check(
            r#"{"mcp": {"a": {"type": "local", "command": ["x"], "environment": {"K": "v"}}},
                "provider": {"p": {"options": {"apiKey": "v", "baseURL": "u"}}}}"#,
            "{}",
            concat!(
                r#"{"mcp":{"a":{"type":"local","command":["x"],"environment":{"K":"(hidden)"}}},"#,
                r#""provider":{"p":{"options":{"apiKey":"(hidden)","baseURL":"u"}}}}"#
            ),
        );
    }
}
