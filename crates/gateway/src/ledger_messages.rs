//! What the ledger over gRPC is asked, read; and what it answers, written.
//!
//! *Invariant:* nothing of the store is asked here. What a worker says is not believed: what cannot be read is its error.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Status;
use toolgate_contract::cluster::Page;
use toolgate_ledger::wire;
use toolgate_model::{OutputId, SessionId, SessionKey};
use toolgate_server::grpc::status;
use toolgate_store::ledger::Part;
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

/// Reads a model type.
pub(crate) fn read<T: DeserializeOwned>(field: &str, json: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(json).map_err(|error| status::bad_field(field, format!("it cannot be read: {error}")))
}

/// Reads what may be missing.
pub(crate) fn read_optional<T: DeserializeOwned>(field: &str, json: &[u8]) -> Result<Option<T>, Status> {
    match json.is_empty() {
        true => Ok(None),
        false => read(field, json).map(Some),
    }
}

/// Writes a model type.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Status> {
    wire::json("an answer", value).map_err(refused)
}

/// Writes what may be missing.
pub(crate) fn write_optional<T: Serialize>(value: Option<&T>) -> Result<Vec<u8>, Status> {
    wire::optional("an answer", value).map_err(refused)
}

/// Reads which page is wanted.
pub(crate) fn page(page: Option<Page>) -> Result<PageRequest, Status> {
    let page = page.ok_or_else(|| status::bad_field("page", "expected one"))?;
    Ok(wire::of_page(page))
}

/// Reads how much is wanted, of so much at most.
pub(crate) fn count(number: u32, most: usize) -> usize {
    usize::try_from(number).unwrap_or(most).min(most)
}

/// Says that something is not there.
pub(crate) fn missing(what: &str, id: &str) -> Status {
    wire::refusal(&StoreError::NotFound(format!("{what} {id}")))
}

/// Reads which session is meant.
pub(crate) fn session(workspace: String, session: String) -> SessionKey {
    SessionKey {
        workspace,
        session: SessionId::new(session),
    }
}

/// Reads which part of which output is meant.
pub(crate) fn part(output: String, start: u64, sha256: String) -> (OutputId, Part) {
    (OutputId::new(output), Part { start, sha256 })
}
