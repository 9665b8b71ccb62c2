//! The dialect of Gemini: choices are strings, a node has one type, and what describes a type stands beside that type.
//!
//! Two things go beyond `docs/spec/framework.md` §13, because the request is refused otherwise: where a list of types
//! becomes alternatives, the keywords of one type go with it ([`OF_ONE_TYPE`]); and a node that has alternatives
//! already keeps them in the place of the list.
//!
//! *Invariant:* whatever stands in a schema, the result names no list of types.

use std::collections::HashSet;

use serde_json::{Value, json};
use toolgate_model::{JsonMap, json_map};

use super::places::{has_combiner, visit_objects};

/// The keywords that only a node of that type may have. When a list of types becomes alternatives they go with theirs: the
/// API answers 400 to the whole request if they stay behind, and also to an array without items.
const OF_ONE_TYPE: [(&str, &[&str]); 3] = [
    ("array", &["items"]),
    ("object", &["properties", "required"]),
    ("string", &["enum"]),
];

/// The keywords that say something about the type of a node.
const TELLING: [&str; 14] = [
    "type",
    "properties",
    "items",
    "prefixItems",
    "enum",
    "const",
    "$ref",
    "additionalProperties",
    "patternProperties",
    "required",
    "not",
    "if",
    "then",
    "else",
];

pub(super) fn rewrite(schema: &mut Value) {
    visit_objects(schema, |node| {
        choices_are_strings(node);
        types_are_single(node);
        required_are_properties(node);
        arrays_have_items(node);
        only_objects_have_properties(node);
    });
}

/// Arguments that answer to such a choice are strings; they are converted by the tool's own schema.
fn choices_are_strings(node: &mut JsonMap) {
    let Some(Value::Array(choices)) = node.get_mut("enum") else {
        return;
    };
    for choice in choices {
        if !choice.is_string() {
            *choice = Value::String(text_of(choice));
        }
    }
    match node.get_mut("type") {
        Some(Value::Array(names)) => names.iter_mut().for_each(number_becomes_string),
        Some(name) => number_becomes_string(name),
        None => {}
    }
}

fn number_becomes_string(name: &mut Value) {
    if *name == "integer" || *name == "number" {
        *name = json!("string");
    }
}

/// Writes a choice as text: `1.0` as `1`, but a large integer with all its digits.
fn text_of(choice: &Value) -> String {
    let canonical = match choice {
        Value::Number(number) if number.is_f64() => serde_json_canonicalizer::to_string(number).ok(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    };
    canonical.unwrap_or_else(|| choice.to_string())
}

/// Makes a list of types alternatives. Alternatives that the node has already say more than the list, and stay.
fn types_are_single(node: &mut JsonMap) {
    let Some(Value::Array(listed)) = node.get("type") else {
        return;
    };
    let mut seen = HashSet::new();
    let names = listed.iter().filter_map(Value::as_str);
    let mut types: Vec<String> = names.filter(|name| seen.insert(*name)).map(str::to_owned).collect();
    let is_nullable = seen.contains("null");
    types.retain(|name| name != "null");
    let has_alternatives = node.get("anyOf").is_some_and(Value::is_array);
    match types.as_slice() {
        [] => {
            node.insert("type".to_owned(), json!("null"));
            return;
        }
        [single] if has_alternatives => {
            node.insert("type".to_owned(), json!(single));
        }
        several => {
            node.shift_remove("type");
            if !has_alternatives {
                let alternatives = several.iter().map(|name| alternative(node, name)).collect();
                node.insert("anyOf".to_owned(), Value::Array(alternatives));
            }
        }
    }
    if is_nullable {
        node.insert("nullable".to_owned(), json!(true));
    }
}

/// Makes an alternative of one type, and moves the keywords of that type there.
fn alternative(node: &mut JsonMap, name: &str) -> Value {
    let of_type = OF_ONE_TYPE.iter().find(|(kind, _)| name == *kind);
    let mut made = json_map([("type", json!(name))]);
    for key in of_type.into_iter().flat_map(|(_, keys)| *keys) {
        if let Some(value) = node.shift_remove(*key) {
            made.insert((*key).to_owned(), value);
        }
    }
    Value::Object(made)
}

fn required_are_properties(node: &mut JsonMap) {
    if !is_of_type(node, "object") {
        return;
    }
    let Some(Value::Array(names)) = node.get("required") else {
        return;
    };
    let properties = node.get("properties").and_then(Value::as_object);
    let mut known = names.clone();
    known.retain(|name| {
        let name = name.as_str().unwrap_or_default();
        properties.is_some_and(|properties| properties.contains_key(name))
    });
    node.insert("required".to_owned(), Value::Array(known));
}

fn arrays_have_items(node: &mut JsonMap) {
    if !is_of_type(node, "array") || has_combiner(node) {
        return;
    }
    let items = node.entry("items").or_insert(Value::Null);
    if items.is_null() {
        *items = json!({});
    }
    if let Value::Object(items) = items
        && !has_combiner(items)
        && !TELLING.iter().any(|key| items.contains_key(*key))
    {
        items.insert("type".to_owned(), json!("string"));
    }
}

fn only_objects_have_properties(node: &mut JsonMap) {
    let is_other = node
        .get("type")
        .is_some_and(|name| name.is_string() && name != "object");
    if is_other && !has_combiner(node) {
        node.shift_remove("properties");
        node.shift_remove("required");
    }
}

fn is_of_type(node: &JsonMap, kind: &str) -> bool {
    node.get("type").is_some_and(|name| name == kind)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, gemini, unchanged};
    use super::*;

    #[test]
    fn chooses_among_strings() {
        let check = |written, expected| check(&gemini(), written, expected);
        let choices = json!({"enum": [1, 2.5, 1.0, 1e21, 9_007_199_254_740_993_u64, true, null, "x", [1], {"a": 1}]});
        let texts =
            json!({"enum": ["1", "2.5", "1", "1e+21", "9007199254740993", "true", "null", "x", "[1]", "{\"a\":1}"]});
        check(choices, texts);
        check(
            json!({"type": "integer", "enum": [1]}),
            json!({"type": "string", "enum": ["1"]}),
        );
        check(
            json!({"enum": [1], "type": "number"}),
            json!({"enum": ["1"], "type": "string"}),
        );
        check(
            json!({"type": "boolean", "enum": [true]}),
            json!({"type": "boolean", "enum": ["true"]}),
        );
        unchanged(
            &gemini(),
            [
                json!({"type": "integer", "enum": "1"}),
                json!({"type": "integer", "const": 1, "default": {"enum": [1]}}),
                json!({"type": "object", "properties": {"enum": {"type": "integer"}, "type": {"type": "integer"}}}),
            ],
        );
    }

    #[test]
    fn requires_properties() {
        let check = |written, expected| check(&gemini(), written, expected);
        check(
            json!({"type": "object", "properties": {"a": {}}, "required": ["a", "b", 1]}),
            json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}),
        );
        check(
            json!({"type": "object", "required": ["a"]}),
            json!({"type": "object", "required": []}),
        );
        unchanged(
            &gemini(),
            [
                json!({"required": ["a"], "properties": {}}),
                json!({"type": "object", "required": "a"}),
            ],
        );
    }

    #[test]
    fn knows_what_arrays_hold() {
        let check = |written, expected| check(&gemini(), written, expected);
        let strings = json!({"type": "array", "items": {"type": "string"}});
        check(json!({"type": "array"}), strings.clone());
        check(json!({"type": "array", "items": null}), strings.clone());
        check(json!({"type": "array", "items": {}}), strings.clone());
        check(
            json!({"type": "array", "items": {"description": "d", "format": "f"}}),
            json!({"type": "array", "items": {"description": "d", "format": "f", "type": "string"}}),
        );
        check(
            json!({"type": "array", "items": {"type": "array"}}),
            json!({"type": "array", "items": strings}),
        );
        for told in TELLING {
            let mut items = json!({});
            items[told] = json!("x");
            unchanged(&gemini(), [json!({"type": "array", "items": items})]);
        }
        unchanged(
            &gemini(),
            [
                json!({"type": "array", "items": {"anyOf": [{"type": "string"}]}}),
                json!({"type": "array", "anyOf": [{"minItems": 1}]}),
                json!({"type": "array", "items": true}),
                json!({"items": {}}),
            ],
        );
    }

    #[test]
    fn has_properties_in_objects_only() {
        let check = |written, expected| check(&gemini(), written, expected);
        check(
            json!({"type": "string", "properties": {"a": {}}, "required": ["a"]}),
            json!({"type": "string"}),
        );
        unchanged(
            &gemini(),
            [
                json!({"properties": {"a": {}}, "required": ["a"]}),
                json!({"type": "string", "properties": {}, "oneOf": []}),
                // Names of properties, which no keyword is meant by.
                json!({"type": "object", "required": ["type", "properties", "required"], "properties": {
                    "type": {"type": "string"}, "properties": {"type": "string"}, "required": {"type": "boolean"},
                }}),
            ],
        );
    }

    #[test]
    fn has_one_type_each() {
        let check = |written, expected| check(&gemini(), written, expected);
        let alternatives = |kinds: &[&str]| kinds.iter().map(|kind| json!({"type": kind})).collect::<Value>();
        check(
            json!({"type": ["string", "null"], "description": "d"}),
            json!({"description": "d", "anyOf": alternatives(&["string"]), "nullable": true}),
        );
        check(
            json!({"type": ["string", "integer", "string"]}),
            json!({"anyOf": alternatives(&["string", "integer"])}),
        );
        check(json!({"type": ["null"]}), json!({"type": "null"}));
        check(json!({"type": []}), json!({"type": "null"}));
        check(
            json!({"type": ["integer", "string", "null"], "enum": [1, "a"]}),
            json!({"anyOf": [{"type": "string", "enum": ["1", "a"]}], "nullable": true}),
        );
        check(
            json!({"type": ["array", "null"], "items": {"type": "integer", "enum": [1]}}),
            json!({"anyOf": [{"type": "array", "items": {"type": "string", "enum": ["1"]}}], "nullable": true}),
        );
        check(
            json!({"type": ["string", "array"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        );
        check(
            json!({"type": ["object", "null"], "properties": {"a": {"type": "array"}}, "required": ["a", "b"]}),
            json!({"nullable": true, "anyOf": [{"type": "object", "required": ["a"],
                "properties": {"a": {"type": "array", "items": {"type": "string"}}}}]}),
        );
        let own = json!([{"type": "string", "format": "date"}, {"type": "number"}]);
        check(
            json!({"type": ["string", "number", "null"], "anyOf": own}),
            json!({"anyOf": own, "nullable": true}),
        );
        check(
            json!({"type": ["string", "null"], "anyOf": [{"format": "date"}]}),
            json!({"type": "string", "anyOf": [{"format": "date"}], "nullable": true}),
        );
    }
}
