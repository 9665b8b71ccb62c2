//! How requests of workers and the answers to them have what the store takes and gives.
//!
//! *Invariant:* what only operators are to know of a failure goes to the log, and to nobody else.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Status;
use toolgate_contract::cluster::Page;
use toolgate_ledger::wire;
use toolgate_server::grpc::status;
use toolgate_store::{PageRequest, StoreError};

/// Says why the store refused; what only operators are to know goes to the log.
pub(crate) fn refused(error: StoreError) -> Status {
    if let StoreError::Failed { context, .. } = &error {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            context,
            "the store failed for a worker"
        );
    }
    wire::refusal(&error)
}

/// Reads JSON of a request.
pub(crate) fn read<T: DeserializeOwned>(field: &str, json: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(json).map_err(|error| status::bad_field(field, format!("it cannot be read: {error}")))
}

/// As [`read`], of what may be missing.
pub(crate) fn read_optional<T: DeserializeOwned>(field: &str, json: &[u8]) -> Result<Option<T>, Status> {
    match json.is_empty() {
        true => Ok(None),
        false => read(field, json).map(Some),
    }
}

/// Writes JSON of an answer.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Status> {
    wire::json("an answer", value).map_err(refused)
}

/// As [`write`], of what may be missing.
pub(crate) fn write_optional<T: Serialize>(value: Option<&T>) -> Result<Vec<u8>, Status> {
    wire::optional("an answer", value).map_err(refused)
}

/// Reads which page is wanted.
pub(crate) fn page(page: Option<Page>) -> Result<PageRequest, Status> {
    let page = page.ok_or_else(|| status::bad_field("page", "expected one"))?;
    Ok(wire::of_page(page))
}

/// Reads how many are wanted, at most so many.
pub(crate) fn count(number: u32, most: usize) -> usize {
    usize::try_from(number).unwrap_or(most).min(most)
}

/// Says that something is not there.
pub(crate) fn missing(what: &str, id: &str) -> Status {
    wire::refusal(&StoreError::NotFound(format!("{what} {id}")))
}
