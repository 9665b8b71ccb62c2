//! How failures of SQLite and of files become a [`StoreError`].
//!
//! *Invariant:* every error says what was attempted and names the file; a full disk is always `Full`.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use crate::StoreError;
pub(super) use crate::codec::{again, decode, encode, failed, limit, signed, unsigned};

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
