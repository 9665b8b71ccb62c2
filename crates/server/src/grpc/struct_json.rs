//! Between the wire's values and the core's: JSON, times, numbers.

use std::time::Duration;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as WireValue};
use serde_json::{Number, Value};
use tonic::Status;
use toolgate_model::{JsonMap, Timestamp};

use super::status::bad_field;

/// How deeply what is shown is nested. Readers take messages nested 100 deep, each level of JSON is up to three of them, and
/// a struct stands inside others.
const MAX_LEVELS: usize = 28;

/// Below [`MAX_LEVELS`], what is nested deeper is written as JSON text: a client that could not read one value could not read
/// the list or the stream that it stands in.
pub(crate) fn to_struct(map: JsonMap) -> Struct {
    fields_to_wire(map, MAX_LEVELS)
}

fn fields_to_wire(map: JsonMap, levels: usize) -> Struct {
    let fields = map.into_iter();
    Struct {
        fields: fields.map(|(key, value)| (key, to_wire(value, levels - 1))).collect(),
    }
}

fn to_wire(value: Value, levels: usize) -> WireValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        deep @ (Value::Array(_) | Value::Object(_)) if levels == 0 => Kind::StringValue(deep.to_string()),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items.into_iter().map(|item| to_wire(item, levels - 1)).collect(),
        }),
        Value::Object(map) => Kind::StructValue(fields_to_wire(map, levels)),
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

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde_json::json;
    use toolgate_contract::{ChannelResponse, Prompt, PromptAdded, channel_response, prompt};
    use toolgate_contract::{ListPromptsResponse, PermissionRequest};
    use toolgate_model::json_map;

    use super::*;

    #[test]
    fn what_is_nested_too_deeply_is_text() {
        let nested = |levels: usize| (1..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        let check = |levels: usize, comes_back: bool| {
            let map = json_map([("a", nested(levels))]);
            assert_eq!(from_struct(to_struct(map.clone())) == map, comes_back, "{levels}");
        };
        check(MAX_LEVELS, true);
        check(MAX_LEVELS + 1, false);
        check(100, false);
        let lists = (0..100).fold(json!(1), |inner, _| json!([inner]));
        let shown = from_struct(to_struct(json_map([("a", lists)])));
        assert!(shown["a"].to_string().contains("\"["), "{shown:?}");
    }

    #[test]
    fn every_reader_can_read_what_is_shown() {
        let deep = (0..120).fold(json!("x"), |inner, _| json!({ "a": inner }));
        let prompt = Prompt {
            request: Some(prompt::Request::Permission(PermissionRequest {
                metadata: Some(to_struct(json_map([("a", deep)]))),
                ..Default::default()
            })),
            ..Default::default()
        };
        let list = ListPromptsResponse {
            prompts: vec![prompt.clone()],
            ..Default::default()
        };
        assert!(ListPromptsResponse::decode(&*list.encode_to_vec()).is_ok());
        let added = PromptAdded { prompt: Some(prompt) };
        let sent = ChannelResponse {
            message: Some(channel_response::Message::PromptAdded(added)),
        };
        assert!(ChannelResponse::decode(&*sent.encode_to_vec()).is_ok());
    }
}
