//! The places of a schema where a schema stands.
//!
//! *Invariant:* does not recurse, so that depth costs no stack. Names below `properties` and its like are names, whatever
//! they are.

use serde_json::Value;
use toolgate_model::JsonMap;

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

/// Returns every schema right below a node, with the keyword under which it stands.
pub(super) fn schemas_in(node: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = node.as_object().into_iter().flatten();
    fields.flat_map(|(key, value)| {
        let schemas: Vec<&Value> = match (holds(key), value) {
            (Some(Holds::Open), Value::Bool(_)) | (None, _) => Vec::new(),
            (Some(Holds::List | Holds::OneOrList), Value::Array(schemas)) => schemas.iter().collect(),
            (Some(Holds::Named), Value::Object(schemas)) => schemas.values().collect(),
            (Some(Holds::One | Holds::OneOrList | Holds::Open), schema) => vec![schema],
            (Some(Holds::List | Holds::Named), _) => Vec::new(),
        };
        schemas.into_iter().map(|schema| (key.as_str(), schema))
    })
}

fn push_children<'a>(node: &'a mut Value, left: &mut Vec<&'a mut Value>) {
    let Value::Object(fields) = node else { return };
    for (key, value) in fields {
        match (holds(key), value) {
            (Some(Holds::Open), Value::Bool(_)) | (None, _) => {}
            (Some(Holds::List | Holds::OneOrList), Value::Array(schemas)) => left.extend(schemas),
            (Some(Holds::Named), Value::Object(schemas)) => left.extend(schemas.values_mut()),
            (Some(Holds::One | Holds::OneOrList | Holds::Open), schema) => left.push(schema),
            (Some(Holds::List | Holds::Named), _) => {}
        }
    }
}

/// What stands under a keyword.
enum Holds {
    One,
    List,
    OneOrList,
    /// By names that mean nothing.
    Named,
    /// One, or only whether more is allowed.
    Open,
}

fn holds(key: &str) -> Option<Holds> {
    match key {
        "items" => Some(Holds::OneOrList),
        "prefixItems" | "anyOf" | "oneOf" | "allOf" => Some(Holds::List),
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions" => {
            Some(Holds::Named)
        }
        "additionalProperties" => Some(Holds::Open),
        "additionalItems"
        | "unevaluatedItems"
        | "contains"
        | "unevaluatedProperties"
        | "propertyNames"
        | "contentSchema"
        | "not"
        | "if"
        | "then"
        | "else" => Some(Holds::One),
        _ => None,
    }
}
