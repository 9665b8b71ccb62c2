//! The dialect of Moonshot: nothing beside a reference, and one schema for all items of an array.
//!
//! A reference of the root is resolved, beyond `docs/spec/framework.md` §13: alone, without the definitions beside it,
//! it would lead nowhere.
//!
//! *Invariant:* a reference that can be followed before can be followed afterwards.

use serde_json::{Value, json};
use toolgate_model::JsonMap;

use super::places::visit_objects;

/// How many references of the root are followed, each to the next; more is a circle or nonsense.
const MAX_HOPS: usize = 16;

const MAX_DEPTH: usize = 128;

const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

pub(super) fn rewrite(schema: &mut Value) {
    root_is_no_reference(schema);
    visit_objects(schema, |node| {
        references_stand_alone(node);
        items_are_one_schema(node);
    });
}

/// Puts what the root refers to in its place. Generators write a recursive type as a reference beside its definitions,
/// which standing alone would point to nothing.
fn root_is_no_reference(root: &mut Value) {
    let Some(target @ Value::Object(fields)) = referent(root) else {
        return;
    };
    if is_too_deep_to_copy(target) {
        return;
    }
    let mut resolved = fields.clone();
    for key in DEFINITIONS {
        if let Some(definitions) = root.get_mut(key) {
            resolved.insert(key.to_owned(), definitions.take());
        }
    }
    *root = Value::Object(resolved);
}

fn referent(root: &Value) -> Option<&Value> {
    let mut node = root;
    for _ in 0..MAX_HOPS {
        match node.get("$ref") {
            Some(Value::String(reference)) => node = root.pointer(reference.strip_prefix('#')?)?,
            Some(_) | None => return (!std::ptr::eq(node, root)).then_some(node),
        }
    }
    None
}

/// Copying takes stack for every level. No JSON parser that a schema comes through gives more levels than this.
fn is_too_deep_to_copy(value: &Value) -> bool {
    let mut left = vec![(value, 0)];
    while let Some((value, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return true;
        }
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => left.extend(fields.values().map(|field| (field, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

fn references_stand_alone(node: &mut JsonMap) {
    if node.get("$ref").is_some_and(Value::is_string) {
        node.retain(|key, _| key == "$ref");
    }
}

fn items_are_one_schema(node: &mut JsonMap) {
    if let Some(items @ Value::Array(_)) = node.get_mut("items") {
        let first = items.get_mut(0).map(Value::take);
        *items = first.filter(|schema| !schema.is_null()).unwrap_or_else(|| json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::super::for_model;
    use super::super::tests::{check, moonshot, unchanged};
    use super::*;

    #[test]
    fn has_nothing_beside_a_reference() {
        let check = |written, expected| check(&moonshot(), written, expected);
        check(
            json!({"items": {"$ref": "#/$defs/a", "description": "d", "nullable": true}}),
            json!({"items": {"$ref": "#/$defs/a"}}),
        );
        unchanged(
            &moonshot(),
            [
                json!({"type": "object", "properties": {"$ref": {"type": "string"}, "b": {"type": "string"}}}),
                json!({"$ref": 5, "description": "d"}),
                json!({"default": {"$ref": "a", "b": 1}}),
            ],
        );
    }

    #[test]
    fn has_one_schema_for_all_items() {
        let check = |written, expected| check(&moonshot(), written, expected);
        check(
            json!({"type": "array", "items": [{"type": "string"}, {"type": "number"}]}),
            json!({"type": "array", "items": {"type": "string"}}),
        );
        check(json!({"items": []}), json!({"items": {}}));
        check(json!({"items": [null, {}]}), json!({"items": {}}));
        check(
            json!({"items": [{"items": [{"$ref": "#", "title": "t"}]}]}),
            json!({"items": {"items": {"$ref": "#"}}}),
        );
        unchanged(
            &moonshot(),
            [
                json!({"items": {"type": "string"}}),
                json!({"properties": {"items": {"enum": [[1]]}}}),
                json!({"default": {"items": [1, 2]}}),
            ],
        );
    }

    #[test]
    fn can_follow_every_reference_of_a_recursive_schema() {
        let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}});
        let check = |written: Value, expected: Value| assert_eq!(for_model(written, &moonshot()), expected);
        check(
            json!({"$schema": "s", "$ref": "#/$defs/list", "$defs": {"node": node, "list": {"$ref": "#/$defs/node"}}}),
            json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}},
                "$defs": {"node": node, "list": {"$ref": "#/$defs/node"}}}),
        );
        check(
            json!({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "null"}}}),
            json!({"type": "null", "definitions": {"a/b": {"type": "null"}}}),
        );
        // Circles, and what is not there or not a schema, stay references.
        for reference in ["#", "#/$defs/a", "#/$defs/none", "#/$defs/yes", "http://x.test/s", ""] {
            let defs = json!({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}, "yes": true});
            check(json!({"$ref": reference, "$defs": defs}), json!({"$ref": reference}));
        }
    }
}
