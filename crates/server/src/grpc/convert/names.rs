//! Ids, names and moments as requests have them, checked.
//!
//! *Invariant:* an error names the field.

use tonic::Status;
use toolgate_model as call;

use crate::grpc::status::bad_field;

/// The longest id, name or token that a request may carry, in bytes.
const MAX_NAME: usize = 256;

/// Reads a call id: 1 to 128 letters, digits and `-_.:`.
pub(crate) fn call_id(field: &str, id: &str) -> Result<call::CallId, Status> {
    let mut bytes = id.bytes();
    if !(1..=128).contains(&id.len()) || !bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)) {
        let problem = "a call id is 1 to 128 letters, digits, or any of -_.:";
        return Err(bad_field(field, problem));
    }
    Ok(call::CallId::from(id))
}

/// Reads the id of a call that is there; `~` and a workspace after it tell calls of the same id apart.
pub(crate) fn known_call_id(field: &str, id: &str) -> Result<call::CallId, Status> {
    match id.split_once('~') {
        None => call_id(field, id),
        Some((id, workspace)) => Ok(call_id(field, id)?.within(workspace)),
    }
}

/// Reads a short text that names something.
pub(crate) fn name(field: &str, text: String) -> Result<String, Status> {
    if text.len() > MAX_NAME {
        return Err(bad_field(field, format!("longer than {MAX_NAME} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(bad_field(field, "contains a control character"));
    }
    Ok(text)
}

/// Reads a moment, if one is given.
pub(crate) fn moment(field: &str, time: Option<prost_types::Timestamp>) -> Result<Option<call::Timestamp>, Status> {
    let Some(time) = time else { return Ok(None) };
    let millis = time.seconds.checked_mul(1000);
    let millis = millis.and_then(|millis| millis.checked_add(i64::from(time.nanos / 1_000_000)));
    let millis = millis.ok_or_else(|| bad_field(field, "not a time that this service knows"))?;
    Ok(Some(call::Timestamp(millis)))
}

pub(crate) fn session_id(field: &str, text: String) -> Result<call::SessionId, Status> {
    let text = name(field, text)?;
    if text.is_empty() {
        return Err(bad_field(field, "a session id is needed"));
    }
    Ok(call::SessionId::new(text))
}
