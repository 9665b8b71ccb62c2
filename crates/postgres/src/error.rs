//! How failures of the database become a [`StoreError`], and which of them pass when the same is tried again.
//!
//! *Invariant:* every error says what was attempted; a full disk is always `Full`, and a database that gives no answer, for whatever
//! reason, is always `Unavailable`. Of what was asked of such a one nobody knows whether it is done.

use std::error::Error;
use std::io;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

/// What a server says that ends, begins, or has no place for one more connection; and that it has given up what took too long.
const AWAY: [SqlState; 6] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::TOO_MANY_CONNECTIONS,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    SqlState::QUERY_CANCELED,
];

/// The class of codes that tell of connections.
const CONNECTIONS: &str = "08";

/// Says what was attempted with the database.
pub(crate) fn doing(what: &str, error: tokio_postgres::Error) -> StoreError {
    let context = format!("{what} in PostgreSQL");
    match error.as_db_error() {
        Some(told) if *told.code() == SqlState::DISK_FULL => StoreError::Full(format!("{context}: {}", told.message())),
        Some(told) if AWAY.contains(told.code()) || told.code().code().starts_with(CONNECTIONS) => {
            StoreError::Unavailable(format!("{context}: {}", told.message()))
        }
        None if is_lost(&error) => StoreError::Unavailable(format!("{context}: {}", causes(&error))),
        Some(_) | None => failed(context, error),
    }
}

/// Says whether there is no connection, or none any more.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    let mut cause = error.source();
    while let Some(deeper) = cause {
        if deeper.is::<io::Error>() {
            return true;
        }
        cause = deeper.source();
    }
    error.is_closed()
}

/// Writes an error with what it came from.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}

pub(crate) fn too_late(what: &str, limit: Duration) -> StoreError {
    StoreError::Unavailable(format!(
        "{what} in PostgreSQL: there was no answer for {} ms",
        limit.as_millis()
    ))
}

/// Says whether it is not known what became of what was asked.
pub(crate) fn is_unanswered(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_))
}

fn state(error: &StoreError) -> Option<&SqlState> {
    let StoreError::Failed { source, .. } = error else {
        return None;
    };
    source.downcast_ref::<tokio_postgres::Error>()?.code()
}

/// Says what an operator can do about a database that cannot be used; none if the error says all there is to say.
pub fn remedy(error: &StoreError) -> Option<&'static str> {
    if let StoreError::Unavailable(_) = error {
        return Some("see that the server runs and listens at this host and port, and that this machine can reach it");
    }
    let StoreError::Failed { source, .. } = error else {
        return None;
    };
    let Some(code) = source.downcast_ref::<tokio_postgres::Error>()?.code() else {
        // It is not the server that says so.
        return Some(
            "write the address as postgres://USER:PASSWORD@HOST:5432/DATABASE, with ?sslmode=verify-full where the server speaks TLS",
        );
    };
    let remedies = [
        (
            &SqlState::INVALID_PASSWORD,
            "put the right user and password into the address of the database",
        ),
        (
            &SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "put the right user into the address of the database, and see that pg_hba.conf of the server lets it in from here, with the \
             TLS that the address asks for",
        ),
        (
            &SqlState::INVALID_CATALOG_NAME,
            "create the database, or put the right name into its address",
        ),
        (
            &SqlState::INSUFFICIENT_PRIVILEGE,
            "give the user the right to create and change tables: make it the owner of the database and of its tables",
        ),
        (
            &SqlState::INVALID_SCHEMA_NAME,
            "the search path of the user names no schema that is there: create one that it owns",
        ),
        (
            &SqlState::UNDEFINED_TABLE,
            "some of the tables are missing: restore the database, or make an empty one and run `toolgate store migrate`",
        ),
        (
            &SqlState::UNDEFINED_COLUMN,
            "the tables are not those that a release has made: restore the database, or make an empty one and run \
             `toolgate store migrate`",
        ),
        (
            &SqlState::OUT_OF_MEMORY,
            "if it is shared memory that is out, calls of more days are kept than the server can lock the tables of at once: raise \
             max_locks_per_transaction of the server, or shorten retention.calls",
        ),
        (
            &SqlState::READ_ONLY_SQL_TRANSACTION,
            "this is a copy that only reads: name the primary server",
        ),
    ];
    let found = remedies.into_iter().find(|(known, _)| *known == code);
    found.map(|(_, remedy)| remedy)
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
