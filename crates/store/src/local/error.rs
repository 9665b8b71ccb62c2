//! How failures of SQLite, of files and of stored JSON become a [`StoreError`].
//!
//! *Invariant:* every error says what was attempted and names the file; a full disk is always `Full`.

use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;

use rusqlite::{Connection, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

pub(super) fn failed(context: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::Failed {
        context: context.into(),
        source: source.into(),
    }
}

pub(super) fn io(what: &str, path: &Path, error: std::io::Error) -> StoreError {
    let context = format!("{what} {}", path.display());
    let full = [
        ErrorKind::StorageFull,
        ErrorKind::QuotaExceeded,
        ErrorKind::FileTooLarge,
    ];
    if full.contains(&error.kind()) {
        return StoreError::Full(format!("{context}: {error}"));
    }
    failed(context, error)
}

/// Says what was attempted with a database.
pub(super) trait Doing<T> {
    fn doing(self, db: &Connection, what: &str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, db: &Connection, what: &str) -> Result<T, StoreError> {
        self.map_err(|error| {
            let context = format!("{what} in {}", db.path().unwrap_or("the database"));
            match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => StoreError::Full(format!("{context}: {error}")),
                _ => failed(context, error),
            }
        })
    }
}

/// Returns whether a row could not be added because its key is there.
pub(super) fn is_duplicate(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Returns an error once more, for the next of many that share its cause.
pub(super) fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Conflict(text) => StoreError::Conflict(text.clone()),
        StoreError::NotFound(text) => StoreError::NotFound(text.clone()),
        StoreError::BadPage(text) => StoreError::BadPage(text.clone()),
        StoreError::Full(text) => StoreError::Full(text.clone()),
        StoreError::Failed { context, source } => failed(context.clone(), source.to_string()),
    }
}

pub(super) fn encode<T: Serialize>(what: &str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| failed(format!("write {what} as JSON"), error))
}

pub(super) fn decode<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| failed(format!("read the JSON of {what}"), error))
}

/// Returns a count or number as SQLite has them; nothing real is above the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn limit(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}
