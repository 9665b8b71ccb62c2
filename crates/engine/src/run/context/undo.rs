//! What a call does to files, kept so that it can be reverted.
//!
//! *Invariant:* nothing changes before what it was is stored, or the call has said that it cannot be reverted.

use serde_json::json;
use toolgate_fs::changes::{PlannedChange, Version};
use toolgate_fs::marks;
use toolgate_model::{FileChange, FileVersion, WarningKind, json_map};
use toolgate_store::StoreError;
use toolgate_tool::OutputHandle as _;

use super::RunContext;

impl RunContext {
    /// Keeps a content, or only its hash, and returns what a change says of it.
    async fn keep(&self, version: Option<Version>, whole: bool) -> Result<Option<FileVersion>, StoreError> {
        let Some(Version { bytes, mode }) = version else {
            return Ok(None);
        };
        let length = bytes.len() as u64;
        let sha256 = if whole {
            self.parts.store.put_blob(bytes).await?
        } else {
            let hashing = tokio::task::spawn_blocking(move || marks::sha256(&bytes));
            // Interrupted only when the service ends; no content has an empty hash.
            hashing.await.unwrap_or_default()
        };
        Ok(Some(FileVersion {
            sha256,
            bytes: length,
            mode,
        }))
    }

    /// Says whether the contents are kept; if they are too large, that is told now, and stands in the result.
    async fn fits_undo(&self, planned: &[PlannedChange]) -> bool {
        let versions = planned.iter().flat_map(|change| [&change.before, &change.after]);
        let total = versions
            .flatten()
            .fold(0_u64, |total, version| total.saturating_add(version.bytes.len() as u64));
        if total <= self.parts.limits.max_undo_bytes {
            return true;
        }
        if planned.iter().all(|change| change.before.is_none()) {
            // Files that it only created are known by their hashes when they are to be deleted again.
            return false;
        }
        let text = format!(
            "This call cannot be reverted: its files have {total} bytes before and after, and limits.max_undo_bytes is {}.",
            self.parts.limits.max_undo_bytes
        );
        self.warn(WarningKind::NoUndo, text.clone()).await;
        self.progress(None, json_map([("undo", json!(text))])).await;
        false
    }

    /// Records what the call is about to do to files, with the contents if they are not too large together.
    pub(super) async fn keep_all(&self, planned: Vec<PlannedChange>) -> Result<(), StoreError> {
        let whole = self.fits_undo(&planned).await;
        let mut changes = Vec::with_capacity(planned.len());
        for change in planned.into_iter().filter(|change| change.before != change.after) {
            changes.push(FileChange {
                path: change.path,
                shown: change.shown,
                before: self.keep(change.before, whole).await?,
                after: self.keep(change.after, whole).await?,
            });
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.parts.store.record_changes(&self.record.id, changes).await
    }
}
