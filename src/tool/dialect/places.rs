//! The places of a schema where a schema stands.
//!
//! *Invariant:* does not recurse, so that depth costs no stack. Names below `properties` and its like are names, whatever
//! they are.

use serde_json::Value;

use crate::call::JsonMap;

/// Keywords whose lists mean that a node is one of several, or several at once.
const COMBINERS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Calls `visit` with a schema and then with every schema below it, also with those that a visit has put there.
pub(super) fn visit_all(root: &mut Value, visit: impl Fn(&mut Value)) {
    let mut left = vec![root];
    while let Some(node) = left.pop() {
        visit(&mut *node);
        push_children(node, &mut left);
    }
}

/// Calls `visit` with every schema that is an object.
pub(super) fn visit_objects(root: &mut Value, visit: impl Fn(&mut JsonMap)) {
    visit_all(root, |node| {
        if let Value::Object(fields) = node {
            visit(fields);
        }
    });
}

/// Says whether a node has a list of alternatives or parts.
pub(super) fn has_combiner(node: &JsonMap) -> bool {
    COMBINERS.iter().any(|key| node.get(*key).is_some_and(Value::is_array))
}

fn push_children<'a>(node: &'a mut Value, left: &mut Vec<&'a mut Value>) {
    let Value::Object(fields) = node else { return };
    for (key, value) in fields {
        match (key.as_str(), value) {
            // Open or closed: no schema.
            ("additionalProperties", Value::Bool(_)) => {}
            ("items" | "prefixItems" | "anyOf" | "oneOf" | "allOf", Value::Array(schemas)) => left.extend(schemas),
            (
                "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions",
                Value::Object(schemas),
            ) => left.extend(schemas.values_mut()),
            (
                "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames"
                | "contentSchema"
                | "not"
                | "if"
                | "then"
                | "else",
                schema,
            ) => left.push(schema),
            _ => {}
        }
    }
}
