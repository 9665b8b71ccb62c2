//! Messages of the contract as JSON.
//!
//! *Invariant:* a message looks as every library for protobuf writes it: names in `lowerCamelCase`, enums by name, 64-bit integers as
//! text, bytes in Base64, fields with their default value left out.

use std::io;
use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as WireValue};
use serde::Serialize as _;
use serde_json::ser::{CompactFormatter, Formatter};
use serde_json::{Deserializer, Error, Map, Number, Serializer, Value};

/// Up to here, 64-bit floating point has all integers.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// How deeply a `Struct` is nested. Readers take messages nested 100 deep, each level of JSON is up to three of them, and a
/// `Struct` stands inside others.
const MAX_LEVELS: usize = 28;

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(crate::cluster::DESCRIPTORS).unwrap_or_default());

fn descriptor<M: Name>() -> Result<MessageDescriptor, Error> {
    let name = M::full_name();
    let found = DESCRIPTOR_POOL.get_message_by_name(&name);
    found.ok_or_else(|| serde::ser::Error::custom(format!("the contract has no message {name}")))
}

/// Writes a message as protobuf JSON, on one line.
///
/// # Errors
///
/// The message has a number or a time for which JSON has no form.
pub fn to_json<M: Message + Name>(message: &M) -> Result<String, Error> {
    let mut dynamic = DynamicMessage::new(descriptor::<M>()?);
    dynamic.transcode_from(message).map_err(serde::ser::Error::custom)?;
    let mut text = Vec::new();
    dynamic.serialize(&mut Serializer::with_formatter(&mut text, WholeNumbers))?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

/// Reads a message from protobuf JSON. Field names may also be those of the `.proto` files.
///
/// # Errors
///
/// The text is not JSON, or not this message.
pub fn from_json<M: Message + Name + Default>(text: &str) -> Result<M, Error> {
    let mut reader = Deserializer::from_str(text);
    let dynamic = DynamicMessage::deserialize(descriptor::<M>()?, &mut reader)?;
    reader.end()?;
    dynamic.transcode_to().map_err(serde::de::Error::custom)
}

/// Writes a whole number without a fraction, whatever its type.
struct WholeNumbers;

impl Formatter for WholeNumbers {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, number: f64) -> io::Result<()> {
        if is_exact_integer(number) {
            write!(writer, "{number}")
        } else {
            CompactFormatter.write_f64(writer, number)
        }
    }
}

fn is_exact_integer(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER
}

/// Writes a JSON object as a message. Its numbers become 64-bit floating point, and what is nested deeper than [`MAX_LEVELS`]
/// becomes JSON text: a client that could not read one value could not read the list or the stream that it stands in.
pub fn struct_from_json(object: Map<String, Value>) -> Struct {
    fields_from_json(object, MAX_LEVELS)
}

fn fields_from_json(object: Map<String, Value>, levels: usize) -> Struct {
    let fields = object.into_iter();
    Struct {
        fields: fields
            .map(|(key, value)| (key, value_from_json(value, levels - 1)))
            .collect(),
    }
}

fn value_from_json(value: Value, levels: usize) -> WireValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        deep @ (Value::Array(_) | Value::Object(_)) if levels == 0 => Kind::StringValue(deep.to_string()),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items
                .into_iter()
                .map(|item| value_from_json(item, levels - 1))
                .collect(),
        }),
        Value::Object(object) => Kind::StructValue(fields_from_json(object, levels)),
    };
    WireValue { kind: Some(kind) }
}

/// Reads a message as a JSON object. Whole numbers become integers again, as they were before the message made them doubles.
pub fn struct_to_json(message: Struct) -> Map<String, Value> {
    let fields = message.fields.into_iter();
    fields.map(|(key, value)| (key, value_to_json(value))).collect()
}

fn value_to_json(value: WireValue) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        // In this range every whole number is an i64.
        Some(Kind::NumberValue(number)) if is_exact_integer(number) => Value::from(number as i64),
        Some(Kind::NumberValue(number)) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(value_to_json).collect(),
        Some(Kind::StructValue(message)) => Value::Object(struct_to_json(message)),
    }
}

#[cfg(test)]
mod tests;
