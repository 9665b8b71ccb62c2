//! What is written on the command line as the values that a tool takes: `key=value`, ranges, durations, names.
//!
//! *Invariant:* pure; errors are sentences that say what would have been right.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use toolgate_contract::ModelRef;
use toolgate_permission::hints::nearest;

/// Which values a property takes, as far as it matters for reading one from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Text,
    Json,
    Either,
}

/// Adds `key=value` and `key:=JSON` arguments to the input. A value is text where the schema wants text, else JSON;
/// where the schema leaves it open, JSON if it parses and text otherwise. Returns the keys.
pub(super) fn add_pairs(
    input: &mut Map<String, Value>,
    pairs: &[String],
    schema: &Value,
) -> Result<Vec<String>, String> {
    let mut seen = Vec::new();
    for pair in pairs {
        let (key, value) = parse_pair(pair, schema)?;
        if seen.contains(&key) {
            return Err(format!("`{key}` is given twice; a list is written {key}:='[…]'"));
        }
        seen.push(key.clone());
        input.insert(key, value);
    }
    Ok(seen)
}

fn parse_pair(pair: &str, schema: &Value) -> Result<(String, Value), String> {
    let Some((key, text)) = pair.split_once('=') else {
        return Err(format!("`{pair}` is not an argument; write key=value or key:=JSON"));
    };
    let (key, explicit) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() {
        return Err(format!("`{pair}` has no key; write key=value or key:=JSON"));
    }
    let parsed = serde_json::from_str::<Value>(text);
    let shape = if explicit {
        Shape::Json
    } else {
        shape_of(schema, &schema["properties"][key], 0)
    };
    let value = match (shape, parsed) {
        (Shape::Text, _) | (Shape::Either, Err(_)) => Value::String(text.to_owned()),
        (Shape::Json | Shape::Either, Ok(value)) => value,
        (Shape::Json, Err(error)) => {
            let wanted = schema["properties"][key]["type"]
                .as_str()
                .map(|word| format!(" ({word})"))
                .unwrap_or_default();
            return Err(format!("`{key}` takes JSON{wanted}, which `{text}` is not: {error}"));
        }
    };
    Ok((key.to_owned(), value))
}

/// Returns what a property takes; `depth` bounds references that go in circles.
fn shape_of(schema: &Value, property: &Value, depth: u8) -> Shape {
    if depth > 16 {
        return Shape::Either;
    }
    if let Some(pointer) = property["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix('#'))
    {
        return schema
            .pointer(pointer)
            .map_or(Shape::Either, |target| shape_of(schema, target, depth + 1));
    }
    for alternatives in [&property["anyOf"], &property["oneOf"]] {
        if let Some(list) = alternatives.as_array() {
            let real = list.iter().filter(|one| one["type"] != "null");
            return common(real.map(|one| shape_of(schema, one, depth + 1)));
        }
    }
    if let Some(list) = property["enum"].as_array() {
        return common(
            list.iter()
                .map(|one| if one.is_string() { Shape::Text } else { Shape::Json }),
        );
    }
    match &property["type"] {
        Value::Array(types) => common(types.iter().filter(|word| **word != "null").map(shape_of_type)),
        word @ Value::String(_) => shape_of_type(word),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Shape::Either,
    }
}

fn shape_of_type(word: &Value) -> Shape {
    if word == "string" { Shape::Text } else { Shape::Json }
}

fn common(shapes: impl Iterator<Item = Shape>) -> Shape {
    shapes
        .reduce(|one, other| if one == other { one } else { Shape::Either })
        .unwrap_or(Shape::Either)
}

/// Says which arguments a tool does not take, where its schema takes no others than it lists, and which are missing then. What is only
/// missing the service says: a hook may add it.
pub(super) fn wrong(tool: &str, schema: &Value, given: &[String], input: &Map<String, Value>) -> Option<String> {
    let properties = schema["properties"].as_object()?;
    if schema["additionalProperties"] != Value::Bool(false) {
        return None;
    }
    let odd: Vec<&String> = given.iter().filter(|key| !properties.contains_key(*key)).collect();
    if odd.is_empty() {
        return None;
    }
    let missing = required_and_missing(schema, input);
    let names = || properties.keys().map(String::as_str);
    let mut is_explained = false;
    let mut parts: Vec<String> = Vec::new();
    for key in odd {
        let hint = match nearest(key, names()) {
            // It is told below that it is missing.
            Some(meant) if missing.contains(&meant) => {
                is_explained = true;
                String::new()
            }
            Some(meant) => {
                is_explained = true;
                format!(", did you mean `{meant}`?")
            }
            None => String::new(),
        };
        parts.push(format!("`{key}` is unknown{hint}"));
    }
    parts.extend(missing.into_iter().map(required));
    if !is_explained {
        parts.push(format!("it takes {}", names().collect::<Vec<_>>().join(", ")));
    }
    Some(format!("{tool}: {}", parts.join("; ")))
}

/// Says which arguments a tool requires that are not there, for when the service has refused the call for its arguments.
pub(super) fn missing(tool: &str, schema: &Value, input: &Map<String, Value>) -> Option<String> {
    let parts: Vec<String> = required_and_missing(schema, input).into_iter().map(required).collect();
    let is_complete = parts.is_empty();
    (!is_complete).then(|| format!("{tool}: {}", parts.join("; ")))
}

fn required_and_missing<'a>(schema: &'a Value, input: &Map<String, Value>) -> Vec<&'a str> {
    let required = schema["required"].as_array().into_iter().flatten();
    let required = required.filter_map(Value::as_str);
    required.filter(|key| !input.contains_key(*key)).collect()
}

fn required(key: &str) -> String {
    format!("`{key}` is required")
}

/// Reads a duration: `30s`, `1.5m`, `250ms`, `2h`, `7d`; a bare number counts seconds. The configuration reads its own, which
/// are whole numbers.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write 250ms, 30s, 1.5m, 2h or 7d");
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

/// Reads a variable: `NAME=VALUE`.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Reads an address to listen on: `HOST:PORT`.
pub(super) fn address(text: &str) -> Result<String, String> {
    let is_address = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let address = is_address.then(|| text.to_owned());
    address.ok_or_else(|| "write HOST:PORT, such as 127.0.0.1:18125".to_owned())
}

/// Reads a number of things to show.
pub(super) fn at_least_one(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("expected a whole number, at least 1, and at most {}", u32::MAX))
}

/// Reads a time: RFC 3339, or how long ago it was.
pub(super) fn moment(text: &str) -> Result<prost_types::Timestamp, String> {
    let ago = duration(text).ok().and_then(|ago| SystemTime::now().checked_sub(ago));
    let time = ago.map(prost_types::Timestamp::from).or_else(|| text.parse().ok());
    time.ok_or_else(|| format!("`{text}` is not a time; write 2026-05-01T12:00:00Z, or 2h for two hours ago"))
}

/// Reads `provider/model`; the model's name may contain slashes.
pub(super) fn model(text: &str) -> Result<ModelRef, String> {
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(ModelRef {
            provider_id: provider.to_owned(),
            model_id: model.to_owned(),
            package: String::new(),
        }),
        Some(_) | None => Err(format!("`{text}` is not a model; write provider/model")),
    }
}

/// A range as it is written: `START:COUNT`, `START:`, `START` or `:COUNT`. A count of 0 means all that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Where it begins, if that is given.
    pub(super) start: Option<i64>,
    /// How many.
    pub(super) count: i64,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| match part.parse::<i64>() {
            Ok(number) if number >= 0 => Ok(number),
            Ok(_) | Err(_) => Err(format!(
                "`{text}` is not a range; write two numbers with a colon between, such as 100:50, or only one: 100: or :50"
            )),
        };
        let (start, count) = text.split_once(':').unwrap_or((text, ""));
        if start.is_empty() && count.is_empty() {
            number("")?;
        }
        Ok(Self {
            start: if start.is_empty() { None } else { Some(number(start)?) },
            count: if count.is_empty() { 0 } else { number(count)? },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "properties": {
                "path": { "type": "string" },
                "limit": { "type": "integer" },
                "all": { "type": ["boolean", "null"] },
                "maybe": { "type": ["string", "null"] },
                "mixed": { "type": ["string", "integer"] },
                "word": { "enum": ["a", "b"] },
                "option": { "anyOf": [{ "$ref": "#/$defs/Text" }, { "type": "null" }] },
                "edits": { "type": "array" },
                "loop": { "$ref": "#/properties/loop" },
            },
            "$defs": { "Text": { "type": "string" } },
        })
    }

    #[test]
    fn pairs_follow_the_schema() {
        fn check(pair: &str, expected: Result<Value, &str>) {
            let mut input = Map::new();
            let added = add_pairs(&mut input, &[pair.to_owned()], &schema());
            match expected {
                Ok(value) => assert_eq!(added.map(|_| Value::Object(input)), Ok(value), "{pair}"),
                Err(part) => assert!(added.clone().unwrap_err().contains(part), "{pair}: {added:?}"),
            }
        }
        check("path=5", Ok(json!({ "path": "5" })));
        check("path=a=b", Ok(json!({ "path": "a=b" })));
        check("path=", Ok(json!({ "path": "" })));
        check("path:=5", Ok(json!({ "path": 5 })));
        check("limit=5", Ok(json!({ "limit": 5 })));
        check("limit=five", Err("takes JSON (integer)"));
        check("all=true", Ok(json!({ "all": true })));
        check("maybe=null", Ok(json!({ "maybe": "null" })));
        check("mixed=7", Ok(json!({ "mixed": 7 })));
        check("mixed=seven", Ok(json!({ "mixed": "seven" })));
        check("word=a", Ok(json!({ "word": "a" })));
        check("option=true", Ok(json!({ "option": "true" })));
        check("edits:=[1, 2]", Ok(json!({ "edits": [1, 2] })));
        check("edits:=[1", Err("takes JSON (array)"));
        check("loop=x", Ok(json!({ "loop": "x" })));
        check("unknown=x y", Ok(json!({ "unknown": "x y" })));
        check("unknown=[1]", Ok(json!({ "unknown": [1] })));
        check("bare", Err("write key=value"));
        check("=x", Err("has no key"));
        check(":=1", Err("has no key"));
    }

    #[test]
    fn pairs_complete_the_input_and_come_once() {
        let mut input = json!({ "path": "a", "limit": 1 }).as_object().cloned().unwrap();
        add_pairs(&mut input, &["limit=2".to_owned()], &schema()).unwrap();
        assert_eq!(Value::Object(input.clone()), json!({ "path": "a", "limit": 2 }));
        let twice = ["path=a".to_owned(), "path=b".to_owned()];
        assert!(add_pairs(&mut input, &twice, &schema()).unwrap_err().contains("twice"));
    }

    #[test]
    fn misspelt_names_are_pointed_out() {
        let schema = json!({
            "properties": {"pattern": {}, "path": {}, "include": {}},
            "required": ["pattern"],
            "additionalProperties": false,
        });
        let check = |given: &[&str], expected: Option<&str>| {
            let input = given.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
            let given: Vec<String> = given.iter().map(|key| (*key).to_owned()).collect();
            assert_eq!(wrong("grep", &schema, &given, &input).as_deref(), expected);
        };
        check(&["patern"], Some("grep: `patern` is unknown; `pattern` is required"));
        check(
            &["pattern", "pth"],
            Some("grep: `pth` is unknown, did you mean `path`?"),
        );
        check(
            &["pattern", "zzzzzz"],
            Some("grep: `zzzzzz` is unknown; it takes pattern, path, include"),
        );
        check(
            &["zzzzzz"],
            Some("grep: `zzzzzz` is unknown; `pattern` is required; it takes pattern, path, include"),
        );
        check(&["pattern"], None);
        check(&["path"], None);
        assert_eq!(
            missing("grep", &schema, &Map::new()).as_deref(),
            Some("grep: `pattern` is required")
        );
        let whole = json!({"pattern": "x"}).as_object().cloned().unwrap();
        assert_eq!(missing("grep", &schema, &whole), None);
        assert_eq!(missing("other", &Value::Null, &whole), None);
        let open = json!({"properties": {"command": {}}});
        assert_eq!(wrong("bash", &open, &["bogus".to_owned()], &Map::new()), None);
    }
    #[test]
    fn durations_have_units() {
        fn check(text: &str, millis: Option<u64>) {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
        check("30s", Some(30_000));
        check("30", Some(30_000));
        check("250ms", Some(250));
        check("1.5m", Some(90_000));
        check("2h", Some(7_200_000));
        check("", None);
        check("s", None);
        check("-1s", None);
        check("1d", Some(86_400_000));
        check("1w", None);
        check("1.2.3s", None);
        check("99999999999999999999999h", None);
    }

    #[test]
    fn ranges_may_leave_a_part_out() {
        fn check(text: &str, expected: Option<(Option<i64>, i64)>) {
            assert_eq!(
                text.parse::<Range>().ok().map(|range| (range.start, range.count)),
                expected,
                "{text}"
            );
        }
        check("100:50", Some((Some(100), 50)));
        check("100:", Some((Some(100), 0)));
        check("100", Some((Some(100), 0)));
        check(":50", Some((None, 50)));
        check("0:0", Some((Some(0), 0)));
        check("", None);
        check(":", None);
        check("-1:5", None);
        check("1:2:3", None);
        check("9223372036854775808", None);
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for text in ["127.0.0.1:0", "localhost:80", "[::1]:65535"] {
            assert_eq!(address(text).as_deref(), Ok(text));
        }
        for text in [
            "",
            "18125",
            "localhost",
            ":80",
            "localhost:",
            "localhost:65536",
            "localhost:http",
        ] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn models_have_a_provider() {
        fn check(text: &str, expected: Option<(&str, &str)>) {
            let model = model(text).ok();
            let parts = model
                .as_ref()
                .map(|model| (model.provider_id.as_str(), model.model_id.as_str()));
            assert_eq!(parts, expected, "{text}");
        }
        check("anthropic/claude", Some(("anthropic", "claude")));
        check("router/meta/llama", Some(("router", "meta/llama")));
        check("claude", None);
        check("/x", None);
        check("x/", None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse_pair(&text, &schema());
            let _ = duration(&text);
            let _ = text.parse::<Range>();
            let _ = model(&text);
        }

        #[test]
        fn text_properties_take_any_text(text in ".*") {
            prop_assert_eq!(parse_pair(&format!("path={text}"), &schema()), Ok(("path".to_owned(), Value::String(text))));
        }
    }
}
