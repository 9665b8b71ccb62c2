//! How much of the disk the store may take, and how much must stay free: outputs and contents of files, the database and
//! its log.
//!
//! *Invariant:* what is about to be written is taken from the space first and given back if it was not written; so the
//! bound holds however many write at once. The counts are made when something is first written, and made anew at every
//! clean-up: other processes may write to the same folders. A call that was admitted is recorded to its end, whatever is
//! left; so calls are refused while there is room for the ends of those that run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolgate_model::Timestamp;
use toolgate_telemetry::Metrics;

use super::checkpoint::{Files, MAX_LOG_BYTES};
use super::error::io;
use crate::{OutputRetention, StoreError};

/// After a clean-up, another one for want of space has to wait this long: a full disk must not keep the service busy
/// looking for what it can delete.
const MIN_CLEAN_INTERVAL: Duration = Duration::from_secs(1);

/// A clean-up for want of space makes room for this part of the bound, so that the next one is not due at once.
const HEADROOM_PARTS: u64 = 16;

/// Below so many free bytes nothing new is recorded, as what is under way may need as much.
const MIN_FREE_FOR_RECORDS_BYTES: u64 = MAX_LOG_BYTES;

/// What the store may take of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Bytes of outputs, of contents before and after changes, and of the database with its log, together.
    pub max_bytes: u64,
    /// Bytes that must be free on the disk after every write.
    pub min_free_bytes: u64,
    /// How long outputs are kept: older ones go first when there is no space.
    pub keep_outputs: Duration,
}

impl QuotaLimits {
    /// As much as there is.
    pub const UNLIMITED: Self = Self {
        max_bytes: u64::MAX,
        min_free_bytes: 0,
        keep_outputs: Duration::MAX,
    };
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

/// What takes up space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Output,
    Blob,
}

/// What one data directory takes of the disk, and may take.
pub(super) struct Quota {
    limits: QuotaLimits,
    outputs: PathBuf,
    blobs: PathBuf,
    files: Arc<Files>,
    used: OnceLock<Used>,
    cleaned: Mutex<Option<Instant>>,
    metrics: OnceLock<Arc<Metrics>>,
}

struct Used {
    outputs: AtomicU64,
    blobs: AtomicU64,
}

impl Used {
    fn counter(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Output => &self.outputs,
            Kind::Blob => &self.blobs,
        }
    }

    fn total(&self) -> u64 {
        let count = |kind| self.counter(kind).load(Ordering::Acquire);
        count(Kind::Output).saturating_add(count(Kind::Blob))
    }
}

impl Quota {
    pub(super) fn new(limits: QuotaLimits, outputs: PathBuf, blobs: PathBuf, files: Arc<Files>) -> Self {
        Self {
            limits,
            outputs,
            blobs,
            files,
            used: OnceLock::new(),
            cleaned: Mutex::default(),
            metrics: OnceLock::new(),
        }
    }

    fn used(&self) -> &Used {
        self.used.get_or_init(|| Used {
            outputs: AtomicU64::new(bytes_in(&self.outputs, 2)),
            blobs: AtomicU64::new(bytes_in(&self.blobs, 1)),
        })
    }

    /// Takes space for what is about to be written. Blocks for a moment, the first time for as long as it takes to look
    /// at every file.
    pub(super) fn take(&self, kind: Kind, bytes: u64) -> Result<(), StoreError> {
        let used = self.used();
        used.counter(kind).fetch_add(bytes, Ordering::AcqRel);
        let total = used.total().saturating_add(self.files.bytes());
        let checked = self.check(total, bytes);
        if checked.is_err() {
            self.give_back(kind, bytes);
        }
        checked
    }

    fn check(&self, total: u64, bytes: u64) -> Result<(), StoreError> {
        let QuotaLimits {
            max_bytes,
            min_free_bytes,
            ..
        } = self.limits;
        self.check_total(total, max_bytes, bytes)?;
        if min_free_bytes == 0 {
            return Ok(());
        }
        let free = self.free()?;
        if free.saturating_sub(bytes) < min_free_bytes {
            self.count_refusal("limits.min_free_bytes", bytes);
            return Err(StoreError::Full(format!(
                "the disk has {free} free bytes, and {min_free_bytes} must stay free (limits.min_free_bytes)"
            )));
        }
        Ok(())
    }

    fn check_total(&self, total: u64, max_bytes: u64, bytes: u64) -> Result<(), StoreError> {
        if total <= max_bytes {
            return Ok(());
        }
        self.count_refusal("limits.max_total_output_bytes", bytes);
        Err(StoreError::Full(format!(
            "all that is kept, with the database, may take {max_bytes} bytes together (limits.max_total_output_bytes)"
        )))
    }

    /// Says whether a new call can be recorded, which takes so many bytes at first. Never waits: what outputs take counts
    /// once something has counted it.
    pub(super) fn check_records(&self, bytes: u64) -> Result<(), StoreError> {
        let outputs = self.used.get().map_or(0, Used::total);
        let total = outputs.saturating_add(self.files.bytes()).saturating_add(bytes);
        self.check_total(total, self.limits.max_bytes, bytes)?;
        let must_stay = self.limits.min_free_bytes.min(MIN_FREE_FOR_RECORDS_BYTES);
        if must_stay == 0 {
            return Ok(());
        }
        let free = self.free()?;
        if free.saturating_sub(bytes) < must_stay {
            self.count_refusal("limits.min_free_bytes", bytes);
            return Err(StoreError::Full(format!(
                "the disk has {free} free bytes, and calls that run may need {must_stay} (limits.min_free_bytes)"
            )));
        }
        Ok(())
    }

    /// Returns the bytes that are free on the disk.
    pub(super) fn free(&self) -> Result<u64, StoreError> {
        let disk = rustix::fs::statvfs(&self.outputs)
            .map_err(|error| io("look at the free space of", &self.outputs, error.into()))?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Says whether the disk has as much free space as it must keep.
    pub(super) fn check_disk(&self) -> Result<(), StoreError> {
        self.check(0, 0)
    }

    /// Counts what is refused from now on.
    pub(super) fn measure(&self, metrics: &Arc<Metrics>) {
        let _ = self.metrics.set(metrics.clone());
    }

    /// Counts a refusal; who only asks whether there is room is refused nothing.
    fn count_refusal(&self, limit: &'static str, bytes: u64) {
        if let Some(metrics) = self.metrics.get().filter(|_| bytes > 0) {
            metrics.refused(limit);
        }
    }

    /// Says that bytes were not written, or were deleted.
    pub(super) fn give_back(&self, kind: Kind, bytes: u64) {
        // The function always returns a value, so this cannot fail.
        let _ = self
            .used()
            .counter(kind)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
                Some(count.saturating_sub(bytes))
            });
    }

    /// Says that an output has ended, which the next clean-up may delete.
    pub(super) fn output_ended(&self) {
        *self.cleaned.lock() = None;
    }

    /// Counts anew. Blocks.
    pub(super) fn recount(&self) {
        let used = self.used();
        used.outputs.store(bytes_in(&self.outputs, 2), Ordering::Release);
        used.blobs.store(bytes_in(&self.blobs, 1), Ordering::Release);
    }

    /// Returns what to keep of the outputs so that `bytes` more have room; none if a clean-up was just made. What is
    /// older than its time goes in any case; younger ones only for the bound, never for a disk that others fill.
    pub(super) fn retention(&self, bytes: u64) -> Option<OutputRetention> {
        {
            let mut cleaned = self.cleaned.lock();
            if cleaned.is_some_and(|last| last.elapsed() < MIN_CLEAN_INTERVAL) {
                return None;
            }
            *cleaned = Some(Instant::now());
        }
        let QuotaLimits {
            max_bytes,
            keep_outputs,
            ..
        } = self.limits;
        let (used, records) = (self.used(), self.files.bytes());
        let is_bound = used.total().saturating_add(records).saturating_add(bytes) > max_bytes;
        let wanted = bytes
            .max(max_bytes / HEADROOM_PARTS)
            .saturating_add(used.blobs.load(Ordering::Acquire))
            .saturating_add(records);
        let age = i64::try_from(keep_outputs.as_millis()).unwrap_or(i64::MAX);
        Some(OutputRetention {
            before: Timestamp(Timestamp::now().millis().saturating_sub(age)),
            max_total_bytes: if is_bound {
                max_bytes.saturating_sub(wanted)
            } else {
                u64::MAX
            },
        })
    }
}

/// Returns the bytes of the regular files of a folder, and of those so many levels below it. What cannot be looked at is
/// not counted.
fn bytes_in(folder: &Path, levels: usize) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Ok(metadata) if metadata.is_dir() && levels > 0 => bytes_in(&entry.path(), levels - 1),
            _ => 0,
        })
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(limits: QuotaLimits) -> (tempfile::TempDir, Quota) {
        let folder = tempfile::TempDir::new().expect("a folder");
        let [outputs, blobs] = ["outputs", "blobs"].map(|name| folder.path().join(name));
        fs::create_dir_all(&outputs).expect("a folder");
        fs::create_dir_all(blobs.join("ab")).expect("a folder");
        fs::write(outputs.join("one"), [0; 30]).expect("a file");
        fs::write(blobs.join("ab").join("two"), [0; 20]).expect("a file");
        let files = Files::new(&folder.path().join("toolgate.db"));
        (folder, Quota::new(limits, outputs, blobs, Arc::new(files)))
    }

    #[test]
    fn the_bound_counts_what_was_there_and_what_is_taken() {
        let (_folder, quota) = quota(QuotaLimits {
            max_bytes: 100,
            ..QuotaLimits::UNLIMITED
        });
        assert!(matches!(quota.take(Kind::Output, 51), Err(StoreError::Full(_))));
        quota.take(Kind::Output, 50).expect("there is room");
        assert!(quota.take(Kind::Blob, 1).is_err());
        quota.give_back(Kind::Output, 10);
        quota.take(Kind::Blob, 10).expect("there is room again");
        quota.recount();
        quota.take(Kind::Output, 50).expect("nothing was written");
    }

    #[test]
    fn a_disk_must_keep_some_space_free() {
        let (_folder, quota) = quota(QuotaLimits {
            min_free_bytes: u64::MAX,
            ..QuotaLimits::UNLIMITED
        });
        let refused = quota.take(Kind::Output, 1);
        assert!(
            matches!(&refused, Err(StoreError::Full(what)) if what.contains("min_free_bytes")),
            "{refused:?}"
        );
        let keep = quota.retention(1).expect("the first clean-up");
        assert_eq!(keep.max_total_bytes, u64::MAX, "what is young stays");
        assert!(quota.retention(1).is_none(), "not twice in a moment");
    }

    #[test]
    fn the_database_and_its_log_count() {
        let (folder, quota) = quota(QuotaLimits {
            max_bytes: 100,
            min_free_bytes: 1,
            ..QuotaLimits::UNLIMITED
        });
        quota.check_records(50).expect("there is room");
        fs::write(folder.path().join("toolgate.db"), [0; 20]).expect("a file");
        assert!(matches!(quota.take(Kind::Output, 31), Err(StoreError::Full(_))));
        quota.take(Kind::Output, 20).expect("there is room");
        fs::write(folder.path().join("toolgate.db-wal"), [0; 10]).expect("a file");
        assert!(matches!(quota.take(Kind::Blob, 1), Err(StoreError::Full(_))));
        let refused = quota.check_records(1);
        assert!(
            matches!(&refused, Err(StoreError::Full(what)) if what.contains("max_total_output_bytes")),
            "{refused:?}"
        );
    }

    #[test]
    fn a_clean_up_leaves_headroom_beside_the_blobs() {
        let (_folder, quota) = quota(QuotaLimits {
            max_bytes: 64,
            ..QuotaLimits::UNLIMITED
        });
        let keep = quota.retention(15).expect("the first clean-up");
        assert_eq!(keep.max_total_bytes, 64 - 20 - 15);
    }
}
