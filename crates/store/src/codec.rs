//! How every store writes things down: JSON, numbers, page tokens, and what it says when that fails.
//!
//! *Invariant:* nothing here touches a store. A page token is the number of the last row that was listed; rows are numbered as
//! they are stored, so new ones never move a page. (The embedded store lists calls by their time, with tokens of its own.)

use std::error::Error;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

/// Items of a page, at most.
pub const MAX_PAGE: usize = 1000;

/// A page of large rows ends after so many bytes: a listing must not take memory by what calls wrote.
pub const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Makes the error of what was attempted and why it failed.
pub fn failed(context: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::Failed {
        context: context.into(),
        source: source.into(),
    }
}

/// Returns an error once more, for the next of many that share its cause.
pub fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Conflict(text) => StoreError::Conflict(text.clone()),
        StoreError::NotFound(text) => StoreError::NotFound(text.clone()),
        StoreError::BadPage(text) => StoreError::BadPage(text.clone()),
        StoreError::Full(text) => StoreError::Full(text.clone()),
        StoreError::Fenced(what) => StoreError::Fenced(what.clone()),
        StoreError::Unavailable(what) => StoreError::Unavailable(what.clone()),
        StoreError::Failed { context, source } => failed(context.clone(), source.to_string()),
    }
}

/// Writes `what` as JSON.
///
/// # Errors
/// It has no JSON.
pub fn encode<T: Serialize>(what: &str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| failed(format!("write {what} as JSON"), error))
}

/// Reads the JSON of `what`.
///
/// # Errors
/// It is not what was to be expected.
pub fn decode<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| failed(format!("read the JSON of {what}"), error))
}

/// Returns a count or number as databases have them; nothing real is above the limit.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns what [`signed`] was given.
pub fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Returns how many rows a database is to return.
pub fn limit(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}

/// Returns the token of the page behind a row.
pub fn token(number: i64) -> String {
    format!("p{number:016x}")
}

/// Reads what [`token`] made.
///
/// # Errors
/// `BadPage` if it was never given out.
pub fn parse_token(text: &str) -> Result<i64, StoreError> {
    let digits = text.strip_prefix('p').filter(|digits| digits.len() == 16);
    let number = digits.and_then(|digits| i64::from_str_radix(digits, 16).ok());
    // Made again: signs and capitals parse as well, but were never given out.
    number.filter(|number| token(*number) == text).ok_or_else(bad_token)
}

/// Refuses a token that was never given out, or by an earlier version.
pub(crate) fn bad_token() -> StoreError {
    StoreError::BadPage("this version of the service did not issue this token: begin the list again".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        for number in [1, 15, 16, 4096, i64::MAX] {
            assert_eq!(parse_token(&token(number)).expect("own token"), number);
        }
        for bad in [
            "",
            "p",
            "1",
            "p1",
            "p+00000000000000f",
            "pFFFFFFFFFFFFFFFF",
            "p000000000000000F",
            "p\u{e9}00000000000000",
        ] {
            assert!(matches!(parse_token(bad), Err(StoreError::BadPage(_))), "{bad:?}");
        }
    }
}
