//! How failures of the database become a [`StoreError`], and which of them pass when the same is tried again.
//!
//! *Invariant:* every error says what was attempted; a full disk is always `Full`.

use std::fmt;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

/// Says what was attempted with the database.
pub(crate) fn doing(what: &str, error: tokio_postgres::Error) -> StoreError {
    let context = format!("{what} in PostgreSQL");
    match error.as_db_error() {
        Some(told) if *told.code() == SqlState::DISK_FULL => StoreError::Full(format!("{context}: {}", told.message())),
        Some(_) | None => failed(context, error),
    }
}

pub(crate) fn too_late(what: &str, limit: Duration) -> StoreError {
    let context = format!("{what} in PostgreSQL");
    failed(context, format!("there was no answer for {} ms", limit.as_millis()))
}

/// Why there was no answer: what was asked may be done or not, now or in a moment.
#[derive(Debug)]
struct Unanswered(String);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unanswered {}

/// As [`too_late`], of what the server was asked to do.
pub(crate) fn unanswered(what: &str, limit: Duration) -> StoreError {
    let why = format!("there was no answer for {} ms", limit.as_millis());
    failed(format!("{what} in PostgreSQL"), Unanswered(why))
}

/// As [`doing`], of what the server was asked to do: a connection that is lost meanwhile says nothing about it.
pub(crate) fn outcome_of(what: &str, error: tokio_postgres::Error) -> StoreError {
    let ended = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    match error.code() {
        Some(code) if !ended.contains(code) => doing(what, error),
        _ => failed(format!("{what} in PostgreSQL"), Unanswered(error.to_string())),
    }
}

/// Says whether it is not known what became of what was asked.
pub(crate) fn is_unanswered(error: &StoreError) -> bool {
    matches!(error, StoreError::Failed { source, .. } if source.is::<Unanswered>())
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
