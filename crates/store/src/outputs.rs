//! Stored outputs: the trait, and the data that it takes and returns.
//!
//! *Invariant:* a writer has its output alone; readers see what it has written up to a moment, and never other bytes.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use toolgate_model::{CallId, CallRecord, OutputId, SessionId, Timestamp, WorkspaceSet};

use crate::{Page, PageRequest, StoreError};

/// To whom a stored output belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputOwner {
    /// The call that writes it.
    pub call: CallId,
    /// Its session.
    pub session: SessionId,
    /// Its workspace.
    pub workspace: String,
}

impl From<&CallRecord> for OutputOwner {
    fn from(record: &CallRecord) -> Self {
        Self {
            call: record.id.clone(),
            session: record.origin.session.clone(),
            workspace: record.origin.workspace.clone(),
        }
    }
}

/// What is known of a stored output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputInfo {
    /// The output's id; the name of its file.
    pub id: OutputId,
    /// To whom it belongs.
    pub owner: OutputOwner,
    /// Where the service's own tools can read it.
    pub path: String,
    /// Bytes so far.
    pub bytes: u64,
    /// Lines, as editors count them: a last line without a line feed counts. 0 while the output is being written.
    pub lines: u64,
    /// SHA-256, hexadecimal; empty while the output is being written, and until the first [`Outputs::stat`] after that:
    /// to compute it takes longer than to write the output.
    pub sha256: String,
    /// Whether nothing is added any more.
    pub complete: bool,
    /// Whether its writer died before it was done: what it had not stored is missing, and never comes.
    #[serde(default)]
    pub cut: bool,
    /// When it was begun.
    pub created: Timestamp,
}

/// Which outputs to list. `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputFilter {
    /// The workspaces.
    #[serde(skip)]
    pub workspaces: WorkspaceSet,
    /// The session.
    pub session: Option<SessionId>,
    /// The call.
    pub call: Option<CallId>,
}

/// What a clean-up keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRetention {
    /// Outputs last written before this moment go.
    pub before: Timestamp,
    /// Beyond this total the oldest go.
    pub max_total_bytes: u64,
}

/// The truncation store: whole outputs, readable by range while and after they are written.
#[async_trait]
pub trait Outputs: Send + Sync + 'static {
    /// Begins an output.
    async fn create_output(&self, owner: OutputOwner) -> Result<Box<dyn OutputWriter>, StoreError>;

    /// Returns what is known of an output without reading it: of a complete one, what would have to be counted first may
    /// be 0 or empty.
    async fn look(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError>;

    /// Returns what is known of an output; for a complete one that is everything. The first time takes as long as it takes
    /// to read the output.
    async fn stat(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError>;

    /// Returns at most `max` bytes from `offset` on; possibly fewer, and empty only at the end.
    ///
    /// # Errors
    /// `NotFound` if there is no such output.
    async fn read(&self, id: &OutputId, offset: u64, max: usize) -> Result<Bytes, StoreError>;

    /// Lists outputs, newest first; what would have to be counted first may be 0 or empty.
    async fn list_outputs(&self, filter: &OutputFilter, page: &PageRequest) -> Result<Page<OutputInfo>, StoreError>;

    /// Deletes an output; `false` if there is none. An output being written is a `Conflict`.
    async fn delete(&self, id: &OutputId) -> Result<bool, StoreError>;

    /// Deletes what `keep` does not keep; outputs being written stay, and so do files that are not outputs. Returns how many went.
    async fn sweep_outputs(&self, keep: OutputRetention) -> Result<usize, StoreError>;
}

/// The one writer of an output. Dropped without `finish`, what was written stays readable and becomes complete.
#[async_trait]
pub trait OutputWriter: Send + Sync {
    /// Returns the output's id.
    fn id(&self) -> &OutputId;

    /// Returns where the service's own tools can read it.
    fn path(&self) -> &str;

    /// Appends bytes; when it returns they are readable at the offset that was the length before.
    ///
    /// # Errors
    /// `Full` if there is no space left. What was there before stays, and a shorter piece may still have room.
    async fn append(&mut self, bytes: Bytes) -> Result<(), StoreError>;

    /// Ends the output and returns what is known of it.
    async fn finish(self: Box<Self>) -> Result<OutputInfo, StoreError>;
}
