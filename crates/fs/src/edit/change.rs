//! From edits to what a person is asked about: the new content of a file and how it differs.
//!
//! *Invariant:* nothing is written here. All edits of a change are made one after the other on one text in memory; if one
//! cannot be made there is no change (`docs/spec/file-tools.md` §5).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use tokio_util::sync::CancellationToken;

use super::replace::replace;
use super::request::{Edit, EditError};
use crate::blocking::blocking;
use crate::diff::{self, FileDiff};
use crate::files::{Files, LockedFile};
use crate::snapshot::Snapshot;
use crate::text::BOM_BYTES;
use crate::{FileError, ResolvedPath};

/// The diffs of single edits are kept up to this size together; the diff of the whole change is kept in any case.
const MAX_STEP_DIFFS: usize = 1 << 20;

/// What edits make of a file.
#[derive(Clone, Debug)]
pub struct Change {
    /// The whole new content.
    pub bytes: Bytes,
    /// How it differs from the old one.
    pub diff: FileDiff,
    /// How the file differs after each edit from what it was before it.
    pub steps: Vec<FileDiff>,
}

/// Waits for the lock of a file that is to be edited, and looks what is there; `creates` says that nothing should be.
///
/// # Errors
/// [`EditError::EmptyOld`] or [`EditError::Missing`] if that is not so; or the file cannot be read.
pub async fn open(files: &Files, path: ResolvedPath, creates: bool) -> Result<(LockedFile, Arc<Snapshot>), EditError> {
    let file = files.lock(path).await;
    let missing = || EditError::Missing {
        path: file.path().display_path().into(),
    };
    let snapshot = match file.load().await {
        Err(FileError::ParentIsFile { .. }) if !creates => return Err(missing()),
        loaded => loaded?,
    };
    match (snapshot.exists(), creates) {
        (true, true) => Err(EditError::EmptyOld),
        (false, false) => Err(missing()),
        (true, false) | (false, true) => Ok((file, snapshot)),
    }
}

/// Makes the edits in memory, in their order, and compares. A byte order mark stays where there was one.
///
/// # Errors
/// An edit cannot be made, or the call was cancelled.
pub async fn compute(
    file: &LockedFile,
    old: &Arc<Snapshot>,
    edits: Vec<Edit>,
    cancelled: &CancellationToken,
) -> Result<Change, EditError> {
    let (path, old, cancelled) = (file.path().clone(), Arc::clone(old), cancelled.clone());
    blocking(move || Ok(make(&path, &old, &edits, &cancelled))).await?
}

fn make(
    path: &ResolvedPath,
    old: &Snapshot,
    edits: &[Edit],
    cancelled: &CancellationToken,
) -> Result<Change, EditError> {
    let original = without_mark(old.bytes());
    let mut content = old.exists().then(|| original.to_vec());
    let mut steps = Vec::with_capacity(edits.len());
    let mut printed = 0;
    for edit in edits {
        if cancelled.is_cancelled() {
            return Err(FileError::Stopped.into());
        }
        let edited = match &content {
            None if !edit.old.is_empty() => {
                return Err(EditError::Missing {
                    path: path.display_path().into(),
                });
            }
            None if edit.new.is_empty() => return Err(EditError::Identical),
            None => edit.new.clone().into_bytes(),
            Some(content) => replace(content, edit, cancelled)?,
        };
        if edits.len() > 1 {
            let mut step = compare(path, content.as_deref().unwrap_or_default(), &edited);
            printed += step.text.len();
            if printed > MAX_STEP_DIFFS {
                step.text = "(not shown: the diffs of all edits together are too long)\n".to_owned();
            }
            steps.push(step);
        }
        content = Some(edited);
    }
    let content = content.unwrap_or_default();
    let diff = compare(path, original, &content);
    if steps.is_empty() {
        steps.push(diff.clone());
    }
    Ok(Change {
        bytes: with_mark(old.has_bom(), content),
        diff,
        steps,
    })
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM_BYTES).unwrap_or(bytes)
}

fn with_mark(had_mark: bool, content: Vec<u8>) -> Bytes {
    if had_mark && !content.starts_with(BOM_BYTES) {
        Bytes::from([BOM_BYTES, &content].concat())
    } else {
        Bytes::from(content)
    }
}

/// Compares two contents by their lines, whatever those end with.
fn compare(path: &ResolvedPath, old: &[u8], new: &[u8]) -> FileDiff {
    diff::unified(path.display_path(), &text_of(old), &text_of(new))
}

/// Returns a content as text with LF, without a copy where there is nothing to change.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = without_mark(bytes);
    let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
    if memmem::find(bytes, b"\r\n").is_some() {
        Cow::Owned(text.replace("\r\n", "\n"))
    } else {
        text
    }
}
