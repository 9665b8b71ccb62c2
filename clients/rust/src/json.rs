//! `google.protobuf.Struct` as JSON.
//!
//! *Invariant:* a JSON object comes back as it was, except that all its numbers are of 64-bit floating point.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as WireValue};
use serde_json::{Map, Number, Value};

/// The largest integer up to which 64-bit floating point has all integers.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Writes a JSON object as a message of the contract.
pub fn struct_from_json(object: &Map<String, Value>) -> Struct {
    Struct {
        fields: object
            .iter()
            .map(|(key, value)| (key.clone(), value_from_json(value)))
            .collect(),
    }
}

fn value_from_json(value: &Value) -> WireValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(values) => Kind::ListValue(ListValue {
            values: values.iter().map(value_from_json).collect(),
        }),
        Value::Object(object) => Kind::StructValue(struct_from_json(object)),
    };
    WireValue { kind: Some(kind) }
}

/// Reads a message of the contract as a JSON object.
pub fn struct_to_json(message: &Struct) -> Value {
    let fields = message.fields.iter();
    Value::Object(fields.map(|(key, value)| (key.clone(), value_to_json(value))).collect())
}

fn value_to_json(value: &WireValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(*value),
        Some(Kind::NumberValue(number)) => number_to_json(*number),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(value_to_json).collect()),
        Some(Kind::StructValue(message)) => struct_to_json(message),
    }
}

fn number_to_json(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_come_back_as_they_were() {
        let object = json!({"a": [1, 2.5, null, true, "x", {"b": -3}], "c": {}});
        let message = struct_from_json(object.as_object().unwrap());
        assert_eq!(struct_to_json(&message), object);
    }
}
