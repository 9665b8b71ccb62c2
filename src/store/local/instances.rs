//! Which runs of the service live: each holds a lock on a file of its own in `instances/` until it ends.
//!
//! *Invariant:* the kernel drops the lock with the process, so a run whose lock can be taken, or has no file, is dead.
//! Who only looks takes the lock shared, so that two who look at once do not see each other as the owner.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::{failed, io};
use crate::call::InstanceId;
use crate::store::StoreError;

/// How long another process may be about to open the data directory.
const OPENING: Duration = Duration::from_secs(10);
/// How long somebody may look at a lock.
const LOOKING: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// The folder of the lock files.
pub(super) struct Instances {
    folder: PathBuf,
}

/// The lock of one living run; its file goes when this is dropped.
pub(super) struct Held {
    path: PathBuf,
    _file: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the lock of this run");
        }
    }
}

impl Instances {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Keeps others from opening the same data directory until the file is dropped.
    pub(super) fn lock_folder(&self) -> Result<File, StoreError> {
        let file = File::open(&self.folder).map_err(|error| io("open", &self.folder, error))?;
        lock(
            &file,
            &self.folder,
            OPENING,
            "another process has been opening this data directory for too long",
        )?;
        Ok(file)
    }

    /// Takes the lock of this run.
    pub(super) fn hold(&self, instance: &InstanceId) -> Result<Held, StoreError> {
        let Some(path) = self.path(instance.as_str()) else {
            let context = format!("take the lock of instance {:?}", instance.as_str());
            return Err(failed(context, "an instance id has 1 to 100 letters, digits, - or _"));
        };
        loop {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(&path)
                .map_err(|error| io("create", &path, error))?;
            lock(&file, &path, LOOKING, "an instance of the same id is running")?;
            // Somebody who took the file for a dead run's may have removed it between the two steps.
            if same_file(&file, &path) {
                return Ok(Held { path, _file: file });
            }
        }
    }

    /// Says whether a run lives. One that cannot be looked at counts as living.
    pub(super) fn is_alive(&self, instance: &str) -> bool {
        let Some(path) = self.path(instance) else { return false };
        match File::open(path) {
            Ok(file) => file.try_lock_shared().is_err(),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// Removes the lock files of dead runs. Only under [`Self::lock_folder`].
    pub(super) fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(instance) = name.and_then(|name| name.strip_suffix(".lock")) else {
                continue;
            };
            if !self.is_alive(instance)
                && let Err(error) = fs::remove_file(&path)
            {
                tracing::warn!(path = %path.display(), %error, "cannot remove the lock of a dead run");
            }
        }
    }

    fn path(&self, instance: &str) -> Option<PathBuf> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let valid = (1..=100).contains(&instance.len()) && instance.bytes().all(plain);
        valid.then(|| self.folder.join(format!("{instance}.lock")))
    }
}

/// Locks a file, waiting a bounded time for those who only look, or are about to be done.
fn lock(file: &File, path: &Path, patience: Duration, held: &str) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(io("lock", path, error)),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(failed(format!("lock {}", path.display()), held)),
        }
    }
}

fn same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.dev() == named.dev() && held.ino() == named.ino(),
        _ => false,
    }
}
