//! The JSON Schema of a tool's input, made from its type.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Returns the schema of an input type: JSON Schema 2020-12, without references, closed, and without `null` for what
/// may be absent (`docs/spec/framework.md` §4 and §13).
pub fn schema_of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    refine_schema(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.remove("title");
        root.insert("additionalProperties".to_owned(), json!(false));
    }
    schema
}

/// Takes `null` out of types and lists of values, and Rust's own number formats, which no model knows.
fn refine_schema(schema: &mut Value) {
    match schema {
        Value::Object(node) => {
            if let Some(Value::Array(types)) = node.get_mut("type") {
                types.retain(|name| name != "null");
                if let [single] = types.as_slice() {
                    let single = single.clone();
                    node.insert("type".to_owned(), single);
                }
                // Strict providers refuse a value that is not of the type.
                if let Some(Value::Array(values)) = node.get_mut("enum") {
                    values.retain(|value| !value.is_null());
                }
            }
            let format = node.get("format").and_then(Value::as_str);
            if format.is_some_and(|name| name.starts_with("uint") || name.starts_with("int") || name == "double") {
                node.remove("format");
            }
            if node.get("default") == Some(&Value::Null) {
                node.remove("default");
            }
            node.values_mut().for_each(refine_schema);
        }
        Value::Array(items) => items.iter_mut().for_each(refine_schema),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
        Two,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)] // only its schema is of interest
    struct Input {
        given: Word,
        word: Option<Word>,
        words: Option<Vec<Word>>,
        number: Option<u32>,
    }

    #[test]
    fn what_may_be_absent_is_never_null() {
        let words = json!({"type": "string", "enum": ["one", "two"]});
        let expected = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "given": words,
                "word": words,
                "words": {"type": "array", "items": words},
                "number": {"type": "integer", "minimum": 0},
            },
            "required": ["given"],
            "additionalProperties": false,
        });
        assert_eq!(schema_of::<Input>(), expected);
    }

    #[test]
    fn null_stays_where_it_is_a_value() {
        let mut schema = json!({"enum": ["a", null]});
        refine_schema(&mut schema);
        assert_eq!(schema, json!({"enum": ["a", null]}));
    }
}
