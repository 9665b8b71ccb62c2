//! The dialect of OpenAI and Azure: a small set of keywords, and a type wherever one can be told.
//!
//! *Invariant:* the result has the keywords of [`is_known`] and no others, and no boolean where a schema stands.

use serde_json::{Value, json};
use toolgate_model::JsonMap;

use super::places::{has_combiner, visit_all};

const TYPES: [&str; 7] = ["string", "number", "boolean", "integer", "object", "array", "null"];

/// The keywords that only values of one type have, where the first type that has one of its keywords is meant. `enum` is
/// looked at once it is known to be a list.
const TELLING: [(&str, &[&str]); 4] = [
    ("object", &["properties", "required", "additionalProperties"]),
    ("array", &["items", "prefixItems"]),
    ("string", &["enum", "format"]),
    (
        "number",
        &[
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ],
    ),
];

pub(super) fn rewrite(schema: &mut Value) {
    visit_all(schema, |node| match node {
        Value::Bool(_) => *node = json!({"type": "string"}),
        Value::Object(fields) => rebuild(fields),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
    });
}

fn rebuild(node: &mut JsonMap) {
    const_becomes_enum(node);
    let mut types = known_types(node);
    if types.is_empty() && !may_lack_a_type(node) {
        types.extend(inferred_type(node));
        if types.is_empty() {
            node.clear();
        }
    }
    keep_what_is_known(node);
    set_types(node, &types);
    complete(node, &types);
}

/// A constant is a choice of one, and wins over other choices.
fn const_becomes_enum(node: &mut JsonMap) {
    if let Some(constant) = node.shift_remove("const") {
        node.insert("enum".to_owned(), Value::Array(vec![constant]));
    }
    if node.get("enum").is_some_and(|choices| !choices.is_array()) {
        node.shift_remove("enum");
    }
}

fn known_types(node: &JsonMap) -> Vec<&'static str> {
    let names = match node.get("type") {
        Some(Value::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
        None => &[],
    };
    let mut types = Vec::new();
    for kind in names
        .iter()
        .filter_map(|name| TYPES.into_iter().find(|kind| name == kind))
    {
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    types
}

/// A reference or alternatives say what the type is.
fn may_lack_a_type(node: &JsonMap) -> bool {
    has_combiner(node) || node.get("$ref").is_some_and(Value::is_string)
}

fn inferred_type(node: &JsonMap) -> Option<&'static str> {
    TELLING
        .iter()
        .find(|(_, keys)| keys.iter().any(|key| node.contains_key(*key)))
        .map(|(kind, _)| *kind)
}

fn keep_what_is_known(node: &mut JsonMap) {
    node.retain(|key, value| is_known(key, value));
    if let Some(Value::Array(names)) = node.get_mut("required") {
        names.retain(Value::is_string);
    }
}

fn is_known(key: &str, value: &Value) -> bool {
    match key {
        "type" => true,
        "$ref" | "description" => value.is_string(),
        "enum" | "required" | "anyOf" | "oneOf" | "allOf" => value.is_array(),
        "properties" | "$defs" | "definitions" => value.is_object(),
        "items" => value.is_object() || value.is_array() || value.is_boolean(),
        "additionalProperties" => value.is_object() || value.is_boolean(),
        _ => false,
    }
}

fn set_types(node: &mut JsonMap, types: &[&str]) {
    match types {
        [] => node.shift_remove("type"),
        [single] => node.insert("type".to_owned(), json!(single)),
        several => node.insert("type".to_owned(), json!(several)),
    };
}

fn complete(node: &mut JsonMap, types: &[&str]) {
    if types.contains(&"object") {
        node.entry("properties").or_insert_with(|| json!({}));
    }
    if types.contains(&"array") {
        node.entry("items").or_insert_with(|| json!({"type": "string"}));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, openai, unchanged};
    use super::*;

    #[test]
    fn has_no_boolean_schemas() {
        let check = |written, expected| check(&openai(), written, expected);
        check(json!(true), json!({"type": "string"}));
        check(json!(false), json!({"type": "string"}));
        check(
            json!({"type": "array", "items": true}),
            json!({"type": "array", "items": {"type": "string"}}),
        );
        check(
            json!({"anyOf": [true, {"type": "null"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        );
        let open = |flag: bool| json!({"type": "object", "properties": {}, "additionalProperties": flag});
        unchanged(&openai(), [open(true), open(false)]);
    }

    #[test]
    fn keeps_a_small_set_of_keywords() {
        let check = |written, expected| check(&openai(), written, expected);
        check(
            json!({"$schema": "s", "$id": "i", "title": "t", "type": "string", "description": "d", "default": "x",
                "examples": ["x"], "format": "uri", "pattern": "^x", "minLength": 1, "maxLength": 9, "deprecated": true}),
            json!({"type": "string", "description": "d"}),
        );
        check(
            json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a", 1, null],
                "patternProperties": {"x": {}}, "minProperties": 1, "additionalProperties": {"type": "number", "maximum": 1}}),
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
                "additionalProperties": {"type": "number"}}),
        );
        check(
            json!({"oneOf": [{"type": "string", "minLength": 1}], "allOf": [{"type": "string"}], "not": {"type": "null"}}),
            json!({"oneOf": [{"type": "string"}], "allOf": [{"type": "string"}]}),
        );
        check(
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string", "format": "x"}}, "definitions": {"b": {"type": "null"}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}, "definitions": {"b": {"type": "null"}}}),
        );
        check(
            json!({"type": "object", "properties": [], "required": "a", "description": 5, "enum": "a", "anyOf": {}}),
            json!({"type": "object", "properties": {}}),
        );
        check(
            json!({"type": "array", "items": [{"type": "string", "pattern": "x"}, false]}),
            json!({"type": "array", "items": [{"type": "string"}, {"type": "string"}]}),
        );
    }

    #[test]
    fn writes_constants_as_choices() {
        let check = |written, expected| check(&openai(), written, expected);
        check(json!({"const": "x"}), json!({"enum": ["x"], "type": "string"}));
        check(
            json!({"type": "integer", "const": 5, "enum": [1, 2]}),
            json!({"type": "integer", "enum": [5]}),
        );
        check(
            json!({"type": "null", "const": null}),
            json!({"type": "null", "enum": [null]}),
        );
        // What looks like a schema is a value here.
        let choice = json!({"title": "t", "const": true});
        check(
            json!({"type": "object", "const": choice}),
            json!({"type": "object", "enum": [choice], "properties": {}}),
        );
    }

    #[test]
    fn keeps_the_types_that_exist() {
        let check = |written, expected| check(&openai(), written, expected);
        check(json!({"type": ["string", "null"]}), json!({"type": ["string", "null"]}));
        check(json!({"type": ["string", "file", "string"]}), json!({"type": "string"}));
        check(
            json!({"type": "file", "enum": ["a"]}),
            json!({"type": "string", "enum": ["a"]}),
        );
        check(
            json!({"type": ["object", "null"]}),
            json!({"type": ["object", "null"], "properties": {}}),
        );
        check(
            json!({"type": ["array", "null"]}),
            json!({"type": ["array", "null"], "items": {"type": "string"}}),
        );
        check(json!({"type": 5, "description": "d"}), json!({}));
    }

    #[test]
    fn is_told_what_keywords_mean() {
        let check = |written, expected| check(&openai(), written, expected);
        let object = json!({"type": "object", "properties": {}});
        check(json!({"properties": {}}), object.clone());
        check(
            json!({"required": []}),
            json!({"required": [], "type": "object", "properties": {}}),
        );
        check(
            json!({"additionalProperties": false, "items": {"type": "null"}}),
            json!({"additionalProperties": false, "items": {"type": "null"}, "type": "object", "properties": {}}),
        );
        let array = json!({"type": "array", "items": {"type": "string"}});
        check(json!({"prefixItems": [{"type": "number"}], "enum": [1]}), {
            let mut array = array.clone();
            array["enum"] = json!([1]);
            array
        });
        check(json!({"items": {"type": "string"}}), array);
        check(json!({"format": "date", "minimum": 1}), json!({"type": "string"}));
        for bound in [
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ] {
            let mut written = json!({});
            written[bound] = json!(1);
            check(written, json!({"type": "number"}));
        }
        check(json!({"description": "anything", "minLength": 1}), json!({}));
        check(json!({"description": "d", "type": "object"}), {
            let mut object = object;
            object["description"] = json!("d");
            object
        });
    }

    #[test]
    fn infers_no_type_beside_references_and_alternatives() {
        unchanged(
            &openai(),
            [
                json!({"$ref": "#/$defs/a", "description": "d"}),
                json!({"anyOf": [{"type": "string"}], "enum": ["a"]}),
                json!({"oneOf": [{"type": "string"}], "properties": {"a": {}}}),
                json!({"allOf": []}),
                json!({"allOf": [{"$ref": "#"}], "type": "object", "properties": {}}),
            ],
        );
        check(
            &openai(),
            json!({"$ref": 5, "anyOf": "x", "enum": ["a"]}),
            json!({"enum": ["a"], "type": "string"}),
        );
    }
}
