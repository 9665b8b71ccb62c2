//! The files and folders that a configuration was read from, or would have been, and whether any of them has changed.
//!
//! *Invariant:* a file that is replaced, or written in place, has another stamp, unless that happens twice within one tick
//! of the file system's clock; hence [`Stamps::are_recent`].

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long after a change another one may have the same time.
const TIMESTAMP_GRANULARITY: Duration = Duration::from_secs(2);

/// What was looked for, whether it was there or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(BTreeSet<PathBuf>);

/// What is at one path; none if there is nothing.
type Stamp = (u64, u64, u32, u64, (i64, i64), (i64, i64));

/// How what was looked for is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamps(Vec<Option<Stamp>>);

impl Seen {
    pub(super) fn add(&mut self, path: &Path) {
        self.0.insert(path.to_path_buf());
    }

    /// Returns every path.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    /// Looks at every path.
    pub fn stamps(&self) -> Stamps {
        let stamps = self.0.iter().map(|path| std::fs::metadata(path).ok().map(stamp));
        Stamps(stamps.collect())
    }
}

fn stamp(found: Metadata) -> Stamp {
    (
        found.dev(),
        found.ino(),
        found.uid(),
        found.size(),
        (found.mtime(), found.mtime_nsec()),
        (found.ctime(), found.ctime_nsec()),
    )
}

impl Stamps {
    /// Says whether something changed such a short time ago that the next change may look the same.
    pub fn are_recent(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.iter().flatten().any(|(.., (seconds, _))| {
            let changed = Duration::from_secs(u64::try_from(*seconds).unwrap_or_default());
            now.abs_diff(changed) <= TIMESTAMP_GRANULARITY
        })
    }
}
