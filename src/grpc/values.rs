//! Between the wire's values and the core's: JSON, times, numbers.

use std::time::Duration;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as WireValue};
use serde_json::{Number, Value};
use tonic::Status;

use super::status::bad_field;
use crate::call::{JsonMap, Timestamp};

pub(crate) fn to_struct(map: JsonMap) -> Struct {
    Struct {
        fields: map.into_iter().map(|(key, value)| (key, to_wire(value))).collect(),
    }
}

fn to_wire(value: Value) -> WireValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items.into_iter().map(to_wire).collect(),
        }),
        Value::Object(map) => Kind::StructValue(to_struct(map)),
    };
    WireValue { kind: Some(kind) }
}

/// Integral numbers become integers again, as they were before the wire made them doubles.
pub(crate) fn from_struct(fields: Struct) -> JsonMap {
    fields
        .fields
        .into_iter()
        .map(|(key, value)| (key, from_wire(value)))
        .collect()
}

fn from_wire(value: WireValue) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::NumberValue(number)) => from_double(number),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => Value::Array(list.values.into_iter().map(from_wire).collect()),
        Some(Kind::StructValue(fields)) => Value::Object(from_struct(fields)),
    }
}

fn from_double(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        // In this range every integral double is an i64.
        return Value::Number(Number::from(number as i64));
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

pub(crate) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let millis = time.millis();
    prost_types::Timestamp {
        seconds: millis.div_euclid(1000),
        nanos: i32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap_or_default(),
    }
}

pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}

pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn int32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Reads a number that must not be negative.
pub(crate) fn unsigned(field: &str, number: i64) -> Result<u64, Status> {
    u64::try_from(number).map_err(|_| bad_field(field, format!("{number} is negative")))
}

/// Reads a page size: 0 means `default`, and more than `max` is refused.
pub(crate) fn page_size(size: i32, default: usize, max: usize) -> Result<usize, Status> {
    match usize::try_from(size) {
        Ok(0) => Ok(default),
        Ok(size) if size <= max => Ok(size),
        Ok(_) | Err(_) => Err(bad_field("page_size", format!("{size} is not between 0 and {max}"))),
    }
}

pub(crate) fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
