//! What work costs a process, as the kernel counts it: processor time, bytes on the disk, memory at its peak.
//!
//! *Invariant:* nothing is asked of the process itself. The log of its database is written back before bytes are counted, so that
//! each page counts once.

#![allow(dead_code)] // two benchmarks share this, and each has its own part of it

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rusqlite::Connection;

use crate::processes::own_time;
use crate::service::Memory;

/// How long the log of a database may be in use by others.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a call cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Processor time of the process itself, user and system together, without that of the programs that it starts.
    pub(crate) processor: Duration,
    /// Bytes that stay on the disk, if the process keeps any.
    pub(crate) disk: Option<u64>,
    /// The most memory that the process occupied, for all calls together.
    pub(crate) peak: u64,
}

impl Cost {
    /// Says what would have to stay on the disk.
    pub(crate) fn with_disk(self, bytes: u64) -> Self {
        let disk = Some(bytes);
        Self { disk, ..self }
    }
}

/// Counts from its making on.
pub(crate) struct Meter {
    pid: u32,
    data: Option<PathBuf>,
    bytes: u64,
    processor: Duration,
}

impl Meter {
    /// Begins to count what a process takes, and what it keeps in a folder.
    pub(crate) fn start(pid: u32, data: Option<&Path>) -> Result<Self> {
        Memory::forget_peak(pid)?;
        Ok(Self {
            pid,
            data: data.map(Path::to_owned),
            bytes: data.map(bytes_in).transpose()?.unwrap_or(0),
            processor: own_time(pid)?,
        })
    }

    /// Returns what each of so many calls has cost.
    pub(crate) fn each_of(&self, calls: usize) -> Result<Cost> {
        let processor = own_time(self.pid)?.saturating_sub(self.processor);
        let calls = u32::try_from(calls.max(1)).context("too many calls")?;
        let bytes = self.data.as_deref().map(bytes_in).transpose()?;
        Ok(Cost {
            processor: processor / calls,
            disk: bytes.map(|bytes| bytes.saturating_sub(self.bytes) / u64::from(calls)),
            peak: Memory::of(self.pid)?.peak,
        })
    }
}

/// Writes the log of a service's database back, and returns what the files of its data directory occupy.
pub(crate) fn bytes_in(data: &Path) -> Result<u64> {
    let database = data.join("toolgate.db");
    if database.exists() {
        write_back(&database)?;
    }
    Ok(occupied(data))
}

fn write_back(database: &Path) -> Result<()> {
    let db = Connection::open(database)?;
    let begun = std::time::Instant::now();
    loop {
        let is_busy: bool = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if !is_busy {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("the log of the database is in use all the time");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns what the files of a folder occupy. A file that goes meanwhile occupies nothing.
fn occupied(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let bytes = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        let is_folder = metadata.is_dir();
        Some(if is_folder {
            occupied(&entry.path())
        } else {
            metadata.blocks() * 512
        })
    });
    bytes.sum()
}
