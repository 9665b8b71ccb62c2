//! How what a store has is written for the way between a worker and a gateway, and read again.
//!
//! *Invariant:* both sides use this file. Why a store refused is told by an entry beside the status, not by its code alone: a gateway
//! that is not reached, or that refuses for another reason, is never taken for a store that has answered.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::codegen::http::HeaderMap;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use toolgate_contract::cluster::{Change, Holding, Page as WantedPage, PartHeader, PartUpload, Version};
use toolgate_model::{FileChange, FileVersion, InstanceId};
use toolgate_store::codec::failed;
use toolgate_store::ledger::{Hold, Upload};
use toolgate_store::{PageRequest, StoreError};

/// The entry beside a status that says why a store refused.
pub const REASON: &str = "toolgate-ledger";

/// Bytes of the largest message between a worker and a gateway: an end of a call may be as large as its output.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// How many requests of one principal may be under way at a gateway, and as many renewals. More wait for a moment and are refused then.
pub const MAX_REQUESTS: usize = 128;

/// Bytes of one piece of an output.
pub const MAX_PIECE_BYTES: usize = 1 << 20;

/// Notes of one request.
pub const MAX_NOTES: usize = 1_000;

/// Letters of what a refusal says: it travels in a header, and ids that are part of it may be long.
const MAX_TEXT: usize = 1_000;

/// How often a gateway says something on a stream that a worker follows.
pub const HEARTBEAT: std::time::Duration = std::time::Duration::from_secs(5);

/// Writes a model type.
///
/// # Errors
/// It has no JSON.
pub fn json<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| failed(format!("write {what} as JSON"), error))
}

/// Reads a model type.
///
/// # Errors
/// It is not what was to be expected.
pub fn of_json<T: DeserializeOwned>(what: &str, json: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(json).map_err(|error| failed(format!("read the JSON of {what}"), error))
}

/// Writes what may be missing: nothing is no bytes.
///
/// # Errors
/// It has no JSON.
pub fn optional<T: Serialize>(what: &str, value: Option<&T>) -> Result<Vec<u8>, StoreError> {
    value.map_or(Ok(Vec::new()), |value| json(what, value))
}

/// Reads what may be missing.
///
/// # Errors
/// It is not what was to be expected.
pub fn of_optional<T: DeserializeOwned>(what: &str, json: &[u8]) -> Result<Option<T>, StoreError> {
    match json.is_empty() {
        true => Ok(None),
        false => of_json(what, json).map(Some),
    }
}

/// Writes how to put a part of an output.
pub fn part_upload(upload: Upload) -> PartUpload {
    let headers = upload.headers.into_iter();
    PartUpload {
        object: upload.object,
        url: upload.url,
        headers: headers.map(|(name, value)| PartHeader { name, value }).collect(),
        expires_in_millis: u64::try_from(upload.expires_in.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Writes that a run has a workspace.
pub fn holding(hold: &Hold) -> Holding {
    Holding {
        workspace: hold.workspace.clone(),
        run: hold.run.to_string(),
        epoch: hold.epoch,
    }
}

/// Reads what [`holding`] wrote, of a run of this principal: it is not on the way, and a worker need not know it.
pub fn of_holding(holding: Holding, principal: String) -> Hold {
    Hold {
        workspace: holding.workspace,
        run: InstanceId::new(holding.run),
        principal,
        epoch: holding.epoch,
    }
}

/// Writes which page is wanted.
pub fn page(page: &PageRequest) -> WantedPage {
    WantedPage {
        size: u32::try_from(page.size).unwrap_or(u32::MAX),
        after: page.after.clone(),
    }
}

/// Reads what [`page`] wrote.
pub fn of_page(page: WantedPage) -> PageRequest {
    PageRequest {
        size: usize::try_from(page.size).unwrap_or(usize::MAX).max(1),
        after: page.after,
    }
}

fn version(version: FileVersion) -> Version {
    Version {
        sha256: version.sha256,
        bytes: version.bytes,
        mode: version.mode,
    }
}

fn of_version(version: Version) -> FileVersion {
    FileVersion {
        sha256: version.sha256,
        bytes: version.bytes,
        mode: version.mode,
    }
}

/// Writes a change of a file.
pub fn change(change: FileChange) -> Change {
    Change {
        path: change.path.as_os_str().as_bytes().to_vec(),
        shown: change.shown.as_os_str().as_bytes().to_vec(),
        before: change.before.map(version),
        after: change.after.map(version),
    }
}

/// Reads what [`change`] wrote.
pub fn of_change(change: Change) -> FileChange {
    let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
    FileChange {
        path: path(change.path),
        shown: path(change.shown),
        before: change.before.map(of_version),
        after: change.after.map(of_version),
    }
}

/// Says to a worker why a store refused. What only operators are to know stays in the log of the gateway.
pub fn refusal(error: &StoreError) -> Status {
    let (code, reason, text) = match error {
        StoreError::Conflict(text) => (Code::Aborted, "conflict", text),
        StoreError::Fenced(text) => (Code::FailedPrecondition, "fenced", text),
        StoreError::NotFound(text) => (Code::NotFound, "missing", text),
        StoreError::BadPage(text) => (Code::InvalidArgument, "page", text),
        StoreError::Full(text) => (Code::ResourceExhausted, "full", text),
        StoreError::Unavailable(text) => (Code::Unavailable, "away", text),
        StoreError::Failed { context, .. } => (Code::Internal, "failed", context),
    };
    let mut headers = HeaderMap::new();
    headers.insert(REASON, tonic::codegen::http::HeaderValue::from_static(reason));
    let text: String = text.chars().take(MAX_TEXT).collect();
    Status::with_metadata(code, text, MetadataMap::from_headers(headers))
}

/// Reads what [`refusal`] wrote; none if the status is not a store's.
pub fn of_refusal(status: &Status) -> Option<StoreError> {
    let text = status.message().to_owned();
    Some(match status.metadata().get(REASON)?.to_str().ok()? {
        "conflict" => StoreError::Conflict(text),
        "fenced" => StoreError::Fenced(text),
        "missing" => StoreError::NotFound(text),
        "page" => StoreError::BadPage(text),
        "full" => StoreError::Full(text),
        "away" => StoreError::Unavailable(text),
        _ => failed(text, "the log of the gateway has more"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_as_they_were_written() {
        let text = || "what".to_owned();
        let errors = [
            StoreError::Conflict(text()),
            StoreError::Fenced(text()),
            StoreError::NotFound(text()),
            StoreError::BadPage(text()),
            StoreError::Full(text()),
            StoreError::Unavailable(text()),
            failed("what", "a secret"),
        ];
        for error in errors {
            let status = refusal(&error);
            assert!(!format!("{status:?}").contains("secret"), "{status:?}");
            let read = of_refusal(&status).expect("it is a store's");
            assert_eq!(
                std::mem::discriminant(&read),
                std::mem::discriminant(&error),
                "{status:?}"
            );
            assert_eq!(read.to_string(), error.to_string());
        }
        assert!(of_refusal(&Status::unavailable("no connection")).is_none());
    }

    #[test]
    fn paths_need_not_be_text() {
        let path = PathBuf::from(OsString::from_vec(vec![b'/', 0xff, b'a']));
        let version = FileVersion {
            sha256: "00".to_owned(),
            bytes: 7,
            mode: Some(0o644),
        };
        let written = FileChange {
            path: path.clone(),
            shown: path,
            before: None,
            after: Some(version),
        };
        assert_eq!(of_change(change(written.clone())), written);
    }
}
