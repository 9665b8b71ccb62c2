//! Cleaning of the spool folders: by the time of the last write, then by the total size.
//!
//! *Invariant:* only regular files whose name is an output's are touched, and none that a living run writes. One file
//! that cannot be deleted does not keep the others.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_model::{OutputId, Timestamp};

use super::error::io;
use super::output_file;
use super::output_rows::Stored;
use super::spool::Spool;
use crate::output::is_name;
use crate::{OutputRetention, StoreError};

/// Another process may have made a file without having stored its row yet.
const ROW_MAY_FOLLOW: Duration = Duration::from_secs(60);

/// What a clean-up found.
pub(super) struct Swept {
    /// How many files went.
    pub(super) files: usize,
    /// The rows that must go: their file is not there.
    pub(super) rows: Vec<OutputId>,
}

struct Found {
    id: OutputId,
    path: PathBuf,
    written: Timestamp,
    bytes: u64,
}

/// Deletes what `keep` does not keep. Blocks.
pub(super) fn sweep(spool: &Spool, stored: &[Stored], keep: OutputRetention) -> Result<Swept, StoreError> {
    let rows: HashMap<&OutputId, &Stored> = stored.iter().map(|stored| (&stored.id, stored)).collect();
    let busy = |id: &OutputId| spool.live(id).is_some() || rows.get(id).is_some_and(|row| spool.is_being_written(row));
    let now = Timestamp::now();
    let awaits_row = |found: &Found| !rows.contains_key(&found.id) && found.written.after(ROW_MAY_FOLLOW) > now;
    let mut found = Vec::new();
    for folder in spool.folders()? {
        list(&folder, &mut found)?;
    }
    found.sort_by(|a, b| (a.written, a.id.as_str()).cmp(&(b.written, b.id.as_str())));

    let mut present: HashSet<OutputId> = found.iter().map(|found| found.id.clone()).collect();
    let awaited: HashSet<OutputId> = found
        .iter()
        .filter(|found| awaits_row(found))
        .map(|found| found.id.clone())
        .collect();
    let gone = remove(found, keep, |id| busy(id) || awaited.contains(id));
    let files = gone.len();
    for id in &gone {
        present.remove(id);
    }
    let rows = stored
        .iter()
        .map(|stored| &stored.id)
        .filter(|id| !present.contains(*id) && !busy(id))
        .cloned()
        .collect();
    Ok(Swept { files, rows })
}

/// As [`sweep`], where no rows are kept. Blocks.
pub(super) fn sweep_files(
    folders: &[PathBuf],
    keep: OutputRetention,
    busy: impl Fn(&OutputId) -> bool,
) -> Result<usize, StoreError> {
    let mut found = Vec::new();
    for folder in folders {
        list(folder, &mut found)?;
    }
    found.sort_by(|a, b| (a.written, a.id.as_str()).cmp(&(b.written, b.id.as_str())));
    Ok(remove(found, keep, busy).len())
}

/// Deletes the files that `keep` does not keep, the oldest first; returns the outputs that went.
fn remove(found: Vec<Found>, keep: OutputRetention, stays: impl Fn(&OutputId) -> bool) -> Vec<OutputId> {
    let sizes = found.iter().map(|found| found.bytes);
    let mut total = sizes.fold(0_u64, u64::saturating_add);
    let mut gone = Vec::new();
    for found in found {
        let goes = found.written < keep.before || total > keep.max_total_bytes;
        if !goes || stays(&found.id) {
            continue;
        }
        let Found { id, path, bytes, .. } = found;
        match output_file::remove_file(&path) {
            Ok(()) => {
                total -= bytes;
                gone.push(id);
            }
            Err(error) => tracing::warn!(%error, "an old output stays"),
        }
    }
    gone
}

fn list(folder: &Path, found: &mut Vec<Found>) -> Result<(), StoreError> {
    let what = "list the outputs in";
    for entry in fs::read_dir(folder).map_err(|error| io(what, folder, error))? {
        let entry = entry.map_err(|error| io(what, folder, error))?;
        let Some(id) = entry
            .file_name()
            .to_str()
            .filter(|name| is_name(name))
            .map(OutputId::from)
        else {
            continue;
        };
        // A file that vanishes meanwhile, or whose time cannot be read, is left alone.
        let Ok(metadata) = entry.metadata() else { continue };
        if let (true, Ok(written)) = (metadata.is_file(), metadata.modified()) {
            found.push(Found {
                id,
                path: entry.path(),
                written: Timestamp::from(written),
                bytes: metadata.len(),
            });
        }
    }
    Ok(())
}
