//! How failures of the database become a [`StoreError`], and which of them pass when the same is tried again.
//!
//! *Invariant:* every error says what was attempted; a full disk is always `Full`.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

/// Says what was attempted with the database.
pub(crate) fn doing(what: &str, error: tokio_postgres::Error) -> StoreError {
    let context = format!("{what} in PostgreSQL");
    let full = [SqlState::DISK_FULL, SqlState::CONFIGURATION_LIMIT_EXCEEDED];
    match error.as_db_error() {
        Some(told) if full.contains(told.code()) => StoreError::Full(format!("{context}: {}", told.message())),
        Some(_) | None => failed(context, error),
    }
}

pub(crate) fn too_late(what: &str, limit: Duration) -> StoreError {
    let context = format!("{what} in PostgreSQL");
    failed(context, format!("there was no answer for {} ms", limit.as_millis()))
}

fn state(error: &StoreError) -> Option<&SqlState> {
    let StoreError::Failed { source, .. } = error else {
        return None;
    };
    source.downcast_ref::<tokio_postgres::Error>()?.code()
}

/// Says whether a transaction was given up in favour of another one, and nothing of it is there.
pub(crate) fn gave_way(error: &StoreError) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
        .iter()
        .any(|given_up| state(error) == Some(given_up))
}

/// Says whether a row had no partition to go to.
pub(crate) fn lacks_partition(error: &StoreError) -> bool {
    // The code of a condition of a table as well; the tables that are partitioned have none.
    state(error) == Some(&SqlState::CHECK_VIOLATION)
}

/// Says whether others held what was to be locked, for as long as was to be waited.
pub(crate) fn was_locked(error: &StoreError) -> bool {
    state(error) == Some(&SqlState::LOCK_NOT_AVAILABLE)
}
