//! Schemas of others' tools that are not quite JSON Schema, made such: a keyword that cannot be read is read as what it was
//! meant to be, or left out, so that the tool can be used.
//!
//! What most libraries for JSON Schema pass over, providers of models refuse, together with the whole request. Lists for
//! tuples become `prefixItems`, so that the result is of the draft 2020-12 throughout.
//!
//! *Invariant:* pure and total. What is changed is named; what is fine stays as it is. Below [`MAX_DEPTH`] nothing is looked
//! at.

use serde_json::{Map, Number, Value, json};

/// How deep schemas are repaired; deeper ones are left out.
const MAX_DEPTH: usize = 64;

/// Changes that are named one by one.
const MAX_NAMED: usize = 5;

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// What other languages call the types.
const ALIASES: [(&str, &[&str]); 7] = [
    (
        "string",
        &[
            "str", "text", "char", "uuid", "date", "datetime", "email", "url", "uri", "path",
        ],
    ),
    (
        "number",
        &["float", "double", "decimal", "real", "numeric", "float32", "float64"],
    ),
    (
        "integer",
        &[
            "int", "long", "short", "int32", "int64", "uint", "uint32", "uint64", "bigint",
        ],
    ),
    ("boolean", &["bool"]),
    ("object", &["dict", "map", "struct", "record", "hash"]),
    ("array", &["list", "tuple", "set", "sequence", "vector"]),
    ("null", &["none", "nil", "undefined", "void"]),
];

/// Repairs a schema, and says what was changed. What is no object stays as it is.
pub fn repair(schema: &mut Value) -> Vec<String> {
    let mut repair = Repair::default();
    if let Value::Object(node) = schema {
        // It names a draft that may not be the one of the result.
        node.shift_remove("$schema");
        repair.node(node, "", 0);
    }
    repair.named()
}

#[derive(Default)]
struct Repair {
    changes: Vec<String>,
    more: usize,
}

/// What becomes of a keyword.
enum Fate {
    Stays,
    /// It is read as this.
    Becomes(Value),
    Goes,
}

impl Repair {
    fn named(mut self) -> Vec<String> {
        if self.more > 0 {
            self.changes.push(format!("{} more are repaired", self.more));
        }
        self.changes
    }

    fn name(&mut self, change: String) {
        if self.changes.len() < MAX_NAMED {
            self.changes.push(change);
        } else {
            self.more += 1;
        }
    }

    /// Repairs the keywords of a schema and the schemas in it.
    fn node(&mut self, node: &mut Map<String, Value>, path: &str, depth: usize) {
        let required = node.get("properties").and_then(Value::as_object).map(required_in);
        let keys: Vec<String> = node.keys().cloned().collect();
        for key in keys {
            let Some(value) = node.get_mut(&key) else { continue };
            let place = join(path, &key);
            match fate(&key, value) {
                Fate::Stays => {}
                Fate::Becomes(new) => {
                    self.name(format!("{place} ({}) is read as {}", excerpt(value), excerpt(&new)));
                    *value = new;
                }
                Fate::Goes => {
                    self.name(format!("{place} ({}) is left out", excerpt(value)));
                    node.shift_remove(&key);
                }
            }
        }
        self.exclusive(node, path);
        self.tuple(node, path);
        for (key, value) in node.iter_mut() {
            let place = join(path, key);
            match kind(key) {
                Kind::Schema => self.schema(value, &place, depth),
                Kind::Schemas => {
                    for (at, value) in value.as_array_mut().into_iter().flatten().enumerate() {
                        self.schema(value, &join(&place, &at.to_string()), depth);
                    }
                }
                Kind::Named => {
                    let schemas = value.as_object_mut().into_iter().flatten();
                    // What depends on a property may be a list of names.
                    for (name, value) in schemas.filter(|(_, value)| key != "dependencies" || !value.is_array()) {
                        self.schema(value, &join(&place, name), depth);
                    }
                }
                Kind::Else => {}
            }
        }
        require(node, required.unwrap_or_default());
    }

    fn schema(&mut self, value: &mut Value, path: &str, depth: usize) {
        match value {
            Value::Object(_) if depth >= MAX_DEPTH => {
                self.name(format!("{path} is left out: it is too deep"));
                *value = json!({});
            }
            Value::Object(node) => self.node(node, path, depth + 1),
            Value::Bool(_) => {}
            Value::String(_) | Value::Null | Value::Number(_) | Value::Array(_) => {
                let known = value.as_str().and_then(type_of);
                let new = known.map_or_else(|| json!({}), |name| json!({ "type": name }));
                self.name(format!("{path} ({}) is read as {new}", excerpt(value)));
                *value = new;
            }
        }
    }

    /// The fourth draft said of a limit whether it is itself excluded.
    fn exclusive(&mut self, node: &mut Map<String, Value>, path: &str) {
        for (key, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            let Some(Value::Bool(is_exclusive)) = node.get(key) else {
                continue;
            };
            let is_exclusive = *is_exclusive;
            node.shift_remove(key);
            if let Some(number) = is_exclusive.then(|| node.shift_remove(limit)).flatten() {
                self.name(format!("{} is read as the number {number}", join(path, key)));
                node.insert(key.to_owned(), number);
            } else {
                self.name(format!("{} is left out", join(path, key)));
            }
        }
    }

    /// Up to the draft 2019-09 a list of items was a tuple.
    fn tuple(&mut self, node: &mut Map<String, Value>, path: &str) {
        if !node.get("items").is_some_and(Value::is_array) {
            return;
        }
        let (Some(items), rest) = (node.shift_remove("items"), node.shift_remove("additionalItems")) else {
            return;
        };
        self.name(format!("{} is read as \"prefixItems\"", join(path, "items")));
        node.entry("prefixItems").or_insert(items);
        if let Some(rest) = rest {
            node.insert("items".to_owned(), rest);
        }
    }
}

/// Puts properties among those that a node requires.
fn require(node: &mut Map<String, Value>, properties: Vec<String>) {
    if properties.is_empty() {
        return;
    }
    let required = node.entry("required").or_insert_with(|| json!([]));
    let Value::Array(required) = required else { return };
    for name in properties {
        if !required.iter().any(|known| known == name.as_str()) {
            required.push(name.into());
        }
    }
}

/// Returns the properties that say of themselves that they are required, as drafts before the fourth had it.
fn required_in(properties: &Map<String, Value>) -> Vec<String> {
    let says_so = properties
        .iter()
        .filter(|(_, property)| property.get("required") == Some(&Value::Bool(true)));
    says_so.map(|(name, _)| name.clone()).collect()
}

/// What stands under a keyword.
enum Kind {
    Schema,
    Schemas,
    Named,
    Else,
}

fn kind(key: &str) -> Kind {
    match key {
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contains"
        | "propertyNames"
        | "contentSchema"
        | "not"
        | "if"
        | "then"
        | "else" => Kind::Schema,
        "prefixItems" | "anyOf" | "oneOf" | "allOf" => Kind::Schemas,
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions" => {
            Kind::Named
        }
        _ => Kind::Else,
    }
}

/// Says what becomes of a keyword by its value alone.
fn fate(key: &str, value: &Value) -> Fate {
    let is_schema = value.is_object() || value.is_boolean();
    match key {
        "type" => types(value),
        "required" => names(value),
        "enum" | "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            stays_if(value.as_array().is_some_and(|all| !all.is_empty()))
        }
        "items" => stays_if(is_schema || value.is_string() || value.as_array().is_some_and(|all| !all.is_empty())),
        "title" | "description" | "$comment" if value.is_number() || value.is_boolean() => {
            Fate::Becomes(value.to_string().into())
        }
        "title" | "description" | "$comment" | "pattern" | "format" | "$ref" | "$dynamicRef" | "contentEncoding"
        | "contentMediaType" => stays_if(value.is_string()),
        "$id" => stays_if(value.as_str().is_some_and(|id| !id.trim_end_matches('#').contains('#'))),
        "$anchor" | "$dynamicAnchor" => stays_if(value.as_str().is_some_and(is_anchor)),
        "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => Fate::Stays,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => number(value),
        "multipleOf" => stays_if(value.as_f64().is_some_and(|by| by > 0.0)),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => count(value),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => word_of_truth(value, value.is_boolean()),
        "examples" if value.is_array() => Fate::Stays,
        "examples" if !value.is_null() => Fate::Becomes(json!([value])),
        "examples" => Fate::Goes,
        // As languages write an empty map that do not tell it from an empty list.
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions"
            if value.as_array().is_some_and(Vec::is_empty) =>
        {
            Fate::Becomes(json!({}))
        }
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
            stays_if(value.is_object())
        }
        "additionalProperties"
        | "additionalItems"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contains"
        | "propertyNames"
        | "contentSchema"
        | "not"
        | "if"
        | "then"
        | "else" => word_of_truth(value, is_schema),
        "dependencies" => stays_if(value.as_object().is_some_and(|all| {
            all.values()
                .all(|one| one.is_object() || one.is_boolean() || is_names(one))
        })),
        "dependentRequired" => stays_if(value.as_object().is_some_and(|all| all.values().all(is_names))),
        "$vocabulary" => stays_if(value.as_object().is_some_and(|all| all.values().all(Value::is_boolean))),
        _ => Fate::Stays,
    }
}

fn stays_if(is_fine: bool) -> Fate {
    if is_fine { Fate::Stays } else { Fate::Goes }
}

/// What is fine stays; of the rest, a truth in quotes is read as one.
fn word_of_truth(value: &Value, is_fine: bool) -> Fate {
    match value.as_str() {
        Some(word @ ("true" | "false")) => Fate::Becomes((word == "true").into()),
        Some(_) | None => stays_if(is_fine),
    }
}

fn is_anchor(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Returns the type that a word means.
fn type_of(word: &str) -> Option<&'static str> {
    let word = word.trim().to_ascii_lowercase();
    let known = TYPES.into_iter().find(|name| *name == word);
    known.or_else(|| {
        let alias = ALIASES.iter().find(|(_, words)| words.contains(&word.as_str()));
        alias.map(|(name, _)| *name)
    })
}

fn types(value: &Value) -> Fate {
    if let Some(word) = value.as_str() {
        return type_of(word).map_or(Fate::Goes, |name| unless_same(value, name.into()));
    }
    let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    match distinct(words.filter_map(type_of)) {
        names if names.is_empty() => Fate::Goes,
        names => unless_same(value, names.into()),
    }
}

fn is_names(value: &Value) -> bool {
    let Some(all) = value.as_array() else { return false };
    let names = distinct(all.iter().filter_map(Value::as_str));
    names == *all
}

fn names(value: &Value) -> Fate {
    if value.is_string() {
        return Fate::Becomes(json!([value]));
    }
    let Some(all) = value.as_array() else { return Fate::Goes };
    unless_same(value, distinct(all.iter().filter_map(Value::as_str)).into())
}

fn distinct<'w>(words: impl Iterator<Item = &'w str>) -> Vec<Value> {
    let mut distinct: Vec<Value> = Vec::new();
    for word in words {
        if !distinct.iter().any(|known| known == word) {
            distinct.push(word.into());
        }
    }
    distinct
}

fn unless_same(value: &Value, new: Value) -> Fate {
    if new == *value { Fate::Stays } else { Fate::Becomes(new) }
}

fn number(value: &Value) -> Fate {
    if value.is_number() {
        return Fate::Stays;
    }
    let number = value.as_str().and_then(|text| text.trim().parse::<Number>().ok());
    number.map_or(Fate::Goes, |number| Fate::Becomes(number.into()))
}

fn count(value: &Value) -> Fate {
    if let Some(text) = value.as_str() {
        let count = text.trim().parse::<u64>();
        return count.map_or(Fate::Goes, |count| Fate::Becomes(count.into()));
    }
    // A whole number, however it is written.
    stays_if(
        value.is_u64()
            || value
                .as_f64()
                .is_some_and(|number| number >= 0.0 && number.fract() == 0.0),
    )
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}/{key}")
    }
}

/// Shows a value in a few characters.
fn excerpt(value: &Value) -> String {
    const MAX_EXCERPT_CHARS: usize = 40;
    let text = value.to_string();
    match text.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn repaired(mut schema: Value) -> (Value, Vec<String>) {
        let changes = repair(&mut schema);
        (schema, changes)
    }

    #[test]
    fn what_is_not_quite_a_schema_becomes_one() {
        // Each is the property `a` of a tool that the official libraries take.
        let check = |property: Value, expected: Value, named: &str| {
            let (found, changes) = repaired(json!({"type": "object", "properties": {"a": property}}));
            assert_eq!(found["properties"]["a"], expected, "{property}");
            assert!(jsonschema::draft202012::meta::is_valid(&found), "{property}: {found}");
            let text = changes.join("; ");
            assert!(text.contains(named), "{property}: {text}");
            assert_eq!(named.is_empty(), changes.is_empty(), "{property}: {text}");
        };
        check(json!({"type": "string"}), json!({"type": "string"}), "");
        check(
            json!({"type": "int"}),
            json!({"type": "integer"}),
            "properties/a/type (\"int\") is read as \"integer\"",
        );
        check(
            json!({"type": "STRING"}),
            json!({"type": "string"}),
            "properties/a/type",
        );
        check(
            json!({"type": "any"}),
            json!({}),
            "properties/a/type (\"any\") is left out",
        );
        check(json!({"type": 7}), json!({}), "properties/a/type (7) is left out");
        check(
            json!({"type": ["str", null, "null"]}),
            json!({"type": ["string", "null"]}),
            "properties/a/type",
        );
        check(json!({"type": []}), json!({}), "properties/a/type");
        check(
            json!({"required": false}),
            json!({}),
            "properties/a/required (false) is left out",
        );
        check(json!({"items": []}), json!({}), "properties/a/items ([]) is left out");
        check(
            json!({"items": "string"}),
            json!({"items": {"type": "string"}}),
            "properties/a/items",
        );
        check(json!({"enum": {}}), json!({}), "properties/a/enum ({}) is left out");
        check(json!({"enum": []}), json!({}), "properties/a/enum");
        check(
            json!({"description": 12}),
            json!({"description": "12"}),
            "properties/a/description (12) is read as \"12\"",
        );
        check(json!({"description": null}), json!({}), "properties/a/description");
        check(json!({"minimum": "1"}), json!({"minimum": 1}), "properties/a/minimum");
        check(
            json!({"minimum": 1, "exclusiveMinimum": true}),
            json!({"exclusiveMinimum": 1}),
            "exclusiveMinimum",
        );
        check(json!({"maxLength": -1}), json!({}), "properties/a/maxLength");
        check(
            json!({"properties": []}),
            json!({"properties": {}}),
            "properties/a/properties",
        );
        check(
            json!({"additionalProperties": "false"}),
            json!({"additionalProperties": false}),
            "additionalProperties",
        );
        check(json!({"anyOf": []}), json!({}), "properties/a/anyOf");
        check(json!({"format": null}), json!({}), "properties/a/format");
        check(
            json!({"examples": "x"}),
            json!({"examples": ["x"]}),
            "properties/a/examples",
        );
        check(
            json!("number"),
            json!({"type": "number"}),
            "properties/a (\"number\") is read as",
        );
        check(json!(null), json!({}), "properties/a (null)");
        let tuple = json!({"items": [{"type": "string"}, {"type": "int"}], "additionalItems": false});
        let prefix = json!({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false});
        check(tuple, prefix, "properties/a/items is read as \"prefixItems\"");
    }

    #[test]
    fn a_property_that_says_it_is_required_is() {
        let (found, _) = repaired(json!({"properties": {
            "a": {"type": "string", "required": true},
            "b": {"type": "object", "properties": {"c": {"required": true}, "d": {}}, "required": ["d", "d"]},
        }}));
        assert_eq!(
            found,
            json!({"properties": {
                "a": {"type": "string"},
                "b": {"type": "object", "properties": {"c": {}, "d": {}}, "required": ["d", "c"]},
            }, "required": ["a"]})
        );
    }

    #[test]
    fn a_bounded_number_of_changes_is_named() {
        let properties: Map<String, Value> = (0..50).map(|at| (format!("p{at}"), json!({"type": "int"}))).collect();
        let (_, changes) = repaired(json!({ "properties": properties }));
        assert_eq!(changes.len(), MAX_NAMED + 1);
        assert_eq!(changes[MAX_NAMED], "45 more are repaired");
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2i64..5).prop_map(Value::from),
            "int|string|true|x".prop_map(Value::from),
        ];
        let key = "type|required|items|additionalItems|enum|description|properties|anyOf|minimum|exclusiveMinimum|\
                   maxLength|\\$ref|\\$defs|not|const|default|pattern|format|uniqueItems|a";
        leaf.prop_recursive(5, 64, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key, inner), 0..5).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_object_becomes_a_schema_and_stays_one(schema in any_schema()) {
            let Value::Object(node) = schema else { return Ok(()) };
            let (once, _) = repaired(Value::Object(node));
            prop_assert!(jsonschema::draft202012::meta::is_valid(&once), "{once}");
            let (twice, changes) = repaired(once.clone());
            prop_assert_eq!((once, changes), (twice, Vec::new()));
        }
    }
}
