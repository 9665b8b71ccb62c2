//! Arguments that a server wants in headers as well, so that what stands before it can tell calls apart: properties that it
//! marks with `x-mcp-header`.
//!
//! *Invariant:* pure. A name or a value of a server or a model never makes a header of its own: names are checked, values are
//! encoded where they are sent.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

const MARK: &str = "x-mcp-header";

/// Says whether the marks of a schema are such that a call can be made: names of headers, each once, of properties whose values
/// can be in a header. Tools for which it is not so are left out.
pub(super) fn are_fine(schema: &Value) -> bool {
    let mut seen = BTreeSet::new();
    let Some(properties) = schema["properties"].as_object() else {
        return true;
    };
    properties
        .values()
        .filter(|schema| schema.get(MARK).is_some())
        .all(|schema| {
            let name = schema[MARK].as_str().filter(|name| is_token(name));
            let is_plain = matches!(schema["type"].as_str(), Some("string" | "integer" | "boolean"));
            is_plain && name.is_some_and(|name| seen.insert(name.to_ascii_lowercase()))
        })
}

/// Returns the headers for arguments, without what all their names begin with.
pub(super) fn headers(schema: &Value, arguments: &Map<String, Value>) -> Vec<(String, String)> {
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let marked = properties.iter().filter_map(|(property, schema)| {
        let name = schema[MARK].as_str().filter(|name| is_token(name))?;
        let value = match arguments.get(property)? {
            Value::String(text) => text.clone(),
            value @ (Value::Bool(_) | Value::Number(_)) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((name.to_ascii_lowercase(), value))
    });
    marked.collect()
}

/// Says whether a text can be a part of the name of a header.
fn is_token(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_fine)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_model::json_map;

    use super::*;

    #[test]
    fn marked_arguments_are_headers() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "odd": {"type": "string", "x-mcp-header": "a b"},
            "absent": {"type": "string", "x-mcp-header": "Absent"},
            "plain": {"type": "string"},
        }});
        let arguments = json_map([
            ("region", json!("eu")),
            ("n", json!(3)),
            ("odd", json!("x")),
            ("plain", json!("x")),
        ]);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers(&schema, &arguments), [pair("region", "eu"), pair("n", "3")]);
        assert_eq!(headers(&json!(true), &arguments), []);
    }

    #[test]
    fn marks_that_make_no_headers_are_found() {
        let check = |properties: Value, expected: bool| {
            assert_eq!(are_fine(&json!({ "properties": properties })), expected, "{properties}");
        };
        let marked = |kind: &str, name: &str| json!({"type": kind, "x-mcp-header": name});
        check(json!({}), true);
        check(
            json!({"a": marked("string", "A"), "b": marked("boolean", "B"), "c": {"type": "array"}}),
            true,
        );
        check(json!({"a": marked("string", "A"), "b": marked("string", "a")}), false);
        for (kind, name) in [
            ("object", "A"),
            ("number", "A"),
            ("string", ""),
            ("string", "a b"),
            ("string", "ä"),
        ] {
            check(json!({"a": marked(kind, name)}), false);
        }
        assert!(are_fine(&json!(null)));
    }
}
