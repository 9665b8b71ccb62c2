//! Between the wire's values and the core's: JSON, times, durations, numbers, page sizes.

use std::time::Duration;

use tonic::Status;
pub(crate) use toolgate_contract::json::{struct_from_json as to_struct, struct_to_json as from_struct};
use toolgate_model::Timestamp;

use super::status::bad_field;

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

/// Reads a page size: 0 means `default`, more than `max` means `max`.
pub(crate) fn page_size(size: i32, default: usize, max: usize) -> Result<usize, Status> {
    match usize::try_from(size) {
        Ok(0) => Ok(default),
        Ok(size) => Ok(size.min(max)),
        Err(_) => Err(bad_field("page_size", format!("{size} is below 0"))),
    }
}

/// Reads where a page of a list begins that is whole in the token's `etag`: `ETAG.NUMBER`, or nothing for the first.
pub(crate) fn page_start(token: &str, etag: &str) -> Result<usize, Status> {
    let unknown = || bad_field("page_token", "this service did not issue this token");
    match token.split_once('.') {
        None if token.is_empty() => Ok(0),
        Some((of, first)) if of == etag => first.parse().map_err(|_| unknown()),
        Some(_) => Err(bad_field(
            "page_token",
            "the list has changed since; begin again without a token",
        )),
        None => Err(unknown()),
    }
}

pub(crate) fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
