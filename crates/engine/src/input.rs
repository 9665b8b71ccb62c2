//! From what a model wrote to the frozen input: parsing, conversion by the schema, validation, canonical form.
//!
//! *Invariant:* pure. The same text and schema always give the same frozen input.

use std::borrow::Cow;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use toolgate_fs::marks;
use toolgate_model::{Origin, RawInput};
use toolgate_tool::InputProblem;

/// How deeply an input may be nested. Protobuf takes 100 levels, a `Struct` uses three for each of ours, and an input
/// travels inside prompts and events.
const MAX_DEPTH: usize = 24;

/// How many problems of an input are reported: every item of a long list may have one.
const MAX_PROBLEMS: usize = 200;

/// The input that runs: its canonical text (RFC 8785), the value read back from that text with its keys in the order in
/// which they were written, and the text's SHA-256.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frozen {
    pub(crate) value: Value,
    pub(crate) json: String,
    pub(crate) digest: String,
}

impl Frozen {
    /// Freezes a value. Numbers become what RFC 8785 writes: integral ones lose their fraction, and beyond 2^53 the
    /// precision of a double is all there is.
    pub(crate) fn new(value: &Value, origin: &Origin) -> Self {
        let json = canonical(value);
        let mut value = value.clone();
        read_back(&mut value);
        let digest = digest_with(&json, origin);
        Self { value, json, digest }
    }
}

/// Makes of each number what is read from its canonical text; nothing else changes there but the order of keys. Returns how
/// many values it has looked at: each once, because an input may have as many as a message has room for.
fn read_back(value: &mut Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values_mut().map(read_back).sum::<usize>(),
        Value::Array(items) => 1 + items.iter_mut().map(read_back).sum::<usize>(),
        Value::Number(_) => {
            if let Ok(read) = serde_json::from_str(&canonical(value)) {
                *value = read;
            }
            1
        }
        Value::Null | Value::Bool(_) | Value::String(_) => 1,
    }
}

/// Writes a value as canonical JSON.
pub(crate) fn canonical(value: &Value) -> String {
    // The canonical writer fails only on numbers that are not finite, which a `Value` cannot hold.
    serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| value.to_string())
}

/// Returns the digest that an approval is for: of the canonical input, and of the folder that the call works in and the
/// variables that it sets, if it says any.
pub(crate) fn digest_with(json: &str, origin: &Origin) -> String {
    let mut settings = serde_json::Map::new();
    if !origin.directory.is_empty() {
        settings.insert("directory".to_owned(), origin.directory.as_str().into());
    }
    if !origin.environment.is_empty() {
        settings.insert("environment".to_owned(), serde_json::json!(origin.environment));
    }
    if settings.is_empty() {
        return marks::sha256(json.as_bytes());
    }
    marks::sha256(format!("{json}\n{}", canonical(&Value::Object(settings))).as_bytes())
}

/// Returns the SHA-256 of a value's canonical JSON (RFC 8785), 64 hexadecimal digits.
pub fn digest_of(value: &Value) -> String {
    marks::sha256(canonical(value).as_bytes())
}

/// Parses the arguments of a call. Empty text counts as `{}`.
///
/// # Errors
/// The text and the parser's words, if the text is not JSON or is nested too deeply.
pub(crate) fn parse(raw: &RawInput) -> Result<Value, (Cow<'_, str>, String)> {
    let (value, text) = match raw {
        RawInput::Value(value) => (value.clone(), None),
        RawInput::Json(text) if text.trim().is_empty() => (Value::Object(serde_json::Map::new()), None),
        RawInput::Json(text) => {
            let value = serde_json::from_str(text).map_err(|error| (Cow::from(text.as_str()), error.to_string()))?;
            (value, Some(text.as_str()))
        }
    };
    if is_deeper_than(&value, MAX_DEPTH) {
        let text = text.map_or_else(|| Cow::from(value.to_string()), Cow::from);
        return Err((text, format!("the value is nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(value)
}

/// Says why a value cannot be an input, whatever its schema says: for values that no model wrote.
pub(crate) fn unfit(value: &Value, max_bytes: usize) -> Option<String> {
    if is_deeper_than(value, MAX_DEPTH) {
        return Some(format!("they are nested deeper than {MAX_DEPTH} levels"));
    }
    let size = value.to_string().len();
    (size > max_bytes).then(|| format!("they have {size} bytes, and at most {max_bytes} are allowed"))
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return true;
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper_than(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_deeper_than(field, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Converts what the schema makes unmistakable: a number or a boolean that was sent as a string
/// (`docs/spec/framework.md` §16 F2). Anything else is left for the validation to name.
pub(crate) fn convert(value: &mut Value, schema: &Value) {
    let expects = |name: &str| match schema.get("type") {
        Some(Value::Array(kinds)) => {
            kinds.iter().any(|kind| kind == name) && !kinds.iter().any(|kind| kind == "string")
        }
        Some(kind) => kind == name,
        None => false,
    };
    match value {
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            for (name, field) in fields {
                if let Some(schema) = properties.get(name) {
                    convert(field, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| convert(item, schema));
            }
        }
        Value::String(text) if expects("integer") || expects("number") => {
            if let Ok(number) = serde_json::from_str::<serde_json::Number>(text.trim()) {
                *value = Value::Number(number);
            }
        }
        Value::String(text) if expects("boolean") => {
            if let Ok(flag) = text.trim().parse::<bool>() {
                *value = Value::Bool(flag);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns what is wrong with an input, one entry for every offending argument.
pub(crate) fn problems(validator: &Validator, value: &Value) -> Vec<InputProblem> {
    let errors = validator.iter_errors(value).take(MAX_PROBLEMS);
    errors.map(|error| describe(&error)).collect()
}

fn describe(error: &jsonschema::ValidationError<'_>) -> InputProblem {
    let keyword = error.kind().keyword().to_owned();
    let path = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
    if let ValidationErrorKind::Required { property } = error.kind() {
        let name = property.as_str().unwrap_or_default();
        let full = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        };
        return InputProblem {
            argument: full,
            keyword,
            message: "this argument is required".to_owned(),
        };
    }
    InputProblem {
        argument: path,
        keyword,
        // It quotes the offending value, which may be as large as a file.
        message: shorten(&error.to_string(), 300),
    }
}

fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_tool::registry::open_schema;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer", "minimum": 0},
                "all": {"type": "boolean"},
                "most": {"type": ["integer", "null"]},
                "any": {"type": ["integer", "string"]},
                "edits": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}}
            },
            "required": ["path"],
            "additionalProperties": false
        })
    }

    #[test]
    fn converts_what_is_unmistakable() {
        let check = |input: Value, expected: Value| {
            let mut value = input;
            convert(&mut value, &schema());
            assert_eq!(value, expected);
        };
        check(json!({"limit": "5", "all": "true"}), json!({"limit": 5, "all": true}));
        check(json!({"limit": " 7 ", "all": "yes"}), json!({"limit": 7, "all": "yes"}));
        check(json!({"path": "5"}), json!({"path": "5"}));
        check(json!({"most": "5", "any": "5"}), json!({"most": 5, "any": "5"}));
        check(json!({"edits": [{"n": "1.5"}]}), json!({"edits": [{"n": 1.5}]}));
        check(json!({"limit": "0x10"}), json!({"limit": "0x10"}));
    }

    #[test]
    fn refuses_what_is_nested_too_deeply() {
        let nested = |levels: usize| RawInput::Json(format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert!(parse(&nested(MAX_DEPTH + 1)).is_err());
        assert!(parse(&nested(100_000)).is_err());
    }

    #[test]
    fn names_every_offending_argument() {
        let validator = jsonschema::validator_for(&open_schema(&schema())).unwrap();
        let check = |input: Value, expected: &[&str]| {
            let found = problems(&validator, &input);
            let text = found.iter().map(InputProblem::to_string).collect::<Vec<_>>().join("; ");
            for part in expected {
                assert!(text.contains(part), "{input}: {text}");
            }
            assert_eq!(text.is_empty(), expected.is_empty(), "{input}: {text}");
        };
        check(json!({"path": "a", "unknown": 1}), &[]);
        check(json!({"limit": -1}), &["path: this argument is required", "limit: "]);
        check(
            json!({"path": null, "all": 3}),
            &["path: null is not of type", "all: 3 is not of type"],
        );
        check(json!([1, 2]), &["is not of type \"object\""]);
        check(json!({"path": {"x": "y".repeat(5000)}}), &["path: ", "…"]);
    }

    #[test]
    fn each_value_is_looked_at_once() {
        for keys in [10, 20_000, 80_000] {
            let fields = (0..keys).map(|key| (key.to_string(), json!([key])));
            let mut value = Value::Object(fields.collect());
            assert_eq!(read_back(&mut value), 1 + 2 * keys);
            let names = value.as_object().unwrap().keys();
            assert!(
                names.enumerate().all(|(index, name)| *name == index.to_string()),
                "their order stays"
            );
        }
    }

    fn origin(more: Value) -> Origin {
        let mut fields = json!({"workspace": "main", "session": "s", "agent": "build"});
        let all = fields.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn the_digest_covers_the_folder_and_the_variables() {
        let check = |more: Value, digested: &str| {
            let frozen = Frozen::new(&json!({"n": 5}), &origin(more));
            assert_eq!(frozen.digest, marks::sha256(digested.as_bytes()), "{digested}");
        };
        check(json!({}), r#"{"n":5}"#);
        check(json!({"directory": "a"}), "{\"n\":5}\n{\"directory\":\"a\"}");
        check(
            json!({"environment": {"B": "2", "A": "1"}}),
            "{\"n\":5}\n{\"environment\":{\"A\":\"1\",\"B\":\"2\"}}",
        );
        check(
            json!({"environment": {"A": "1"}, "directory": "a"}),
            "{\"n\":5}\n{\"directory\":\"a\",\"environment\":{\"A\":\"1\"}}",
        );
    }

    #[test]
    fn freezes_canonically() {
        let plain = origin(json!({}));
        let check = |input: Value, expected: &str| assert_eq!(Frozen::new(&input, &plain).json, expected);
        check(json!({"b": 1.0, "a": [true, null]}), r#"{"a":[true,null],"b":1}"#);
        check(json!("ü\u{1}"), "\"ü\\u0001\"");
        let frozen = Frozen::new(&json!({"n": 5.0}), &plain);
        assert_eq!(frozen.value, json!({"n": 5}));
        let frozen = Frozen::new(&json!({"b": [{"z": 1, "a": 2}], "a": 1}), &plain);
        assert_eq!(frozen.value.to_string(), r#"{"b":[{"z":1,"a":2}],"a":1}"#);
        assert_eq!(frozen.json, r#"{"a":1,"b":[{"a":2,"z":1}]}"#);
        let frozen = Frozen::new(
            &json!({"z": [1e3, -0.0, 0.5, 1e300, 9_007_199_254_740_993_u64, 7], "a": "1.0"}),
            &plain,
        );
        assert_eq!(
            frozen.value.to_string(),
            r#"{"z":[1000,0,0.5,1e+300,9007199254740992,7],"a":"1.0"}"#
        );
    }
}
