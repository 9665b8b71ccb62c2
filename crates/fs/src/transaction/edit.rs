//! Making one file into another where that may take its time.
//!
//! *Invariant:* pure but for the thread that it runs on.

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::Draft;
use crate::blocking::blocking;
use crate::diff::{self, FileDiff};
use crate::patch::{self, ApplyError, Chunk};
use crate::text::{BOM, BOM_BYTES, split_bom};
use crate::{FileError, ResolvedPath};

/// Returns what the chunks make of a file.
///
/// # Errors
/// Within: they do not fit. Without: [`FileError::Interrupted`] only.
pub async fn apply(
    file: Draft,
    chunks: Vec<Chunk>,
    cancelled: CancellationToken,
) -> Result<Result<Draft, ApplyError>, FileError> {
    blocking(move || Ok(patch::apply(file.bytes(), &chunks, &cancelled).map(|text| file.with_bytes(text)))).await
}

/// Compares what was at the path with what is to be there. Byte order marks are left out, and what is not UTF-8 is shown
/// as U+FFFD.
///
/// # Errors
/// [`FileError::Interrupted`] only.
pub async fn diff(path: &ResolvedPath, old: Option<&Draft>, new: Option<&Draft>) -> Result<FileDiff, FileError> {
    let bytes = |draft: Option<&Draft>| draft.map(|draft| draft.bytes().clone()).unwrap_or_default();
    let (path, old, new): (_, Bytes, Bytes) = (path.display_path().to_path_buf(), bytes(old), bytes(new));
    blocking(move || {
        let (old, new) = (String::from_utf8_lossy(&old), String::from_utf8_lossy(&new));
        Ok(diff::unified(&path, split_bom(&old).1, split_bom(&new).1))
    })
    .await
}

/// Returns the new content with one byte order mark if the old or the new one has one, and else without.
pub fn keep_bom(old: &[u8], content: String) -> String {
    if old.starts_with(BOM_BYTES) && !content.starts_with(BOM) {
        format!("{BOM}{content}")
    } else {
        content
    }
}
