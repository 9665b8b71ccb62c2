//! The files of outputs, and the one that is being written.
//!
//! *Invariant:* a file holds whole appends only: one that failed half-way is cut off again.
//!
//! The digest is not kept up while an output is written: it takes longer than the writing, and few ever ask for it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use toolgate_model::{OutputId, Timestamp};

use super::error::{failed, io};
use super::folders::create_folder;
use super::quota::{Kind, Quota};
use crate::output::Lines;
use crate::{OutputInfo, OutputOwner, StoreError};

/// Moves a file to another folder of the same disk; nothing if it is not there. Blocks.
pub(super) fn move_file(from: &Path, to: &Path) -> Result<(), StoreError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io("move the output", from, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// An output that this process writes.
pub(super) struct Live {
    pub(super) id: OutputId,
    pub(super) owner: OutputOwner,
    pub(super) path: PathBuf,
    pub(super) created: Timestamp,
    /// The length up to the last whole append.
    bytes: AtomicU64,
    /// The file, held while a piece is written; only blocking threads wait for it.
    content: Mutex<Content>,
    ended: OnceLock<OutputInfo>,
    quota: Arc<Quota>,
}

#[derive(Default)]
struct Content {
    file: Option<File>,
    bytes: u64,
    lines: Lines,
    closed: bool,
}

impl Live {
    pub(super) fn new(id: OutputId, owner: OutputOwner, path: PathBuf, created: Timestamp, quota: Arc<Quota>) -> Self {
        let (bytes, content, ended) = (AtomicU64::new(0), Mutex::default(), OnceLock::new());
        Self {
            id,
            owner,
            path,
            created,
            bytes,
            content,
            ended,
            quota,
        }
    }

    /// Returns the length up to the last whole append.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Returns what is known now.
    pub(super) fn info(&self) -> OutputInfo {
        self.ended
            .get()
            .cloned()
            .unwrap_or_else(|| self.describe(self.bytes(), None))
    }

    /// Creates the file if it is not there yet. Blocks.
    pub(super) fn begin(&self) -> Result<(), StoreError> {
        let mut content = self.content.lock();
        self.file(&mut content).map(drop)
    }

    /// Writes one piece behind the others. Blocks.
    pub(super) fn append(&self, piece: &[u8]) -> Result<(), StoreError> {
        let mut content = self.content.lock();
        let before = content.bytes;
        let mut file = self.file(&mut content)?;
        self.quota.take(Kind::Output, piece.len() as u64)?;
        if let Err(error) = file.write_all(piece) {
            self.quota.give_back(Kind::Output, piece.len() as u64);
            // Without this a reader of the file would see part of a piece that the call's log does not have.
            if let Err(error) = file.set_len(before) {
                tracing::error!(path = %self.path.display(), %error, "cannot cut off a piece that was not written whole");
            }
            return Err(io("write to the output", &self.path, error));
        }
        content.lines.add(piece);
        content.bytes = before + piece.len() as u64;
        self.bytes.store(content.bytes, Ordering::Release);
        Ok(())
    }

    /// Ends the output: nothing is written after this. Waits for a piece that is being written.
    pub(super) fn end(&self) -> OutputInfo {
        let mut content = self.content.lock();
        content.closed = true;
        content.file = None;
        self.ended
            .get_or_init(|| self.describe(content.bytes, Some(content.lines)))
            .clone()
    }

    fn file<'a>(&self, content: &'a mut Content) -> Result<&'a File, StoreError> {
        if content.closed {
            return Err(failed(
                format!("write to the output {}", self.path.display()),
                "it was ended",
            ));
        }
        let file = match content.file.take() {
            Some(file) => file,
            None => {
                if let Some(folder) = self.path.parent() {
                    create_folder(folder.to_path_buf())?;
                }
                let made = OpenOptions::new()
                    .append(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&self.path);
                made.map_err(|error| io("create the output", &self.path, error))?
            }
        };
        Ok(content.file.insert(file))
    }

    fn describe(&self, bytes: u64, ended: Option<Lines>) -> OutputInfo {
        OutputInfo {
            id: self.id.clone(),
            owner: self.owner.clone(),
            path: self.path.display().to_string(),
            bytes,
            lines: ended.map_or(0, Lines::count),
            sha256: String::new(),
            complete: ended.is_some(),
            cut: false,
            created: self.created,
        }
    }
}

/// Opens an output for reading. Commands know its path: what they put in its place is neither waited for nor followed.
fn open_regular(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::other("it is no longer a regular file"))
    }
}

/// Counts the lines of a file and computes its digest. Blocks.
pub(super) fn count_file(path: &Path) -> Result<(u64, String), StoreError> {
    let mut file = open_regular(path).map_err(|error| io("open the output", path, error))?;
    let mut buffer = vec![0; 256 * 1024];
    let (mut lines, mut digest) = (Lines::default(), Sha256::new());
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                lines.add(&buffer[..read]);
                digest.update(&buffer[..read]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(io("read the output", path, error)),
        }
    }
    Ok((lines.count(), hex::encode(digest.finalize())))
}

/// Returns at most `max` bytes of a file from `offset` on, none of them at or after `end`; nothing if the file is gone.
/// Blocks.
pub(super) fn read_file(path: &Path, offset: u64, end: u64, max: usize) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("open the output", path, error)),
    };
    let length = usize::try_from(end.saturating_sub(offset))
        .unwrap_or(usize::MAX)
        .min(max);
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(io("read the output", path, error)),
        }
    }
    bytes.truncate(filled);
    Ok(Some(bytes))
}

/// Returns the length of an output's file, if there is one.
pub(super) fn file_length(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("look at the output", path, error)),
    }
}

/// Waits until an output's file, and its place in its folder, are on the disk; it may be gone already. Blocks.
pub(super) fn sync(path: &Path) -> Result<(), StoreError> {
    let synced = match open_regular(path) {
        Ok(file) => file.sync_data(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
    };
    let folder = path.parent().unwrap_or(path);
    let synced = synced.and_then(|()| File::open(folder)?.sync_all());
    synced.map_err(|error| io("bring to the disk the output", path, error))
}

/// Deletes an output's file; it may be gone already. Blocks.
pub(super) fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io("delete the output", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::checkpoint::Files;
    use super::super::quota::QuotaLimits;
    use super::*;

    #[test]
    fn a_full_device_is_full() {
        let owner = OutputOwner {
            call: "c".into(),
            session: "s".into(),
            workspace: String::new(),
        };
        let quota = Quota::new(
            QuotaLimits::UNLIMITED,
            PathBuf::from("/dev"),
            PathBuf::from("/nowhere"),
            Arc::new(Files::new(Path::new("/nowhere/toolgate.db"))),
        );
        let path = PathBuf::from("/dev/full");
        let live = Live::new("tool_".into(), owner, path, Timestamp(0), Arc::new(quota));
        let device = File::options().append(true).open("/dev/full").expect("the device");
        live.content.lock().file = Some(device);
        let result = live.append(b"text");
        assert!(matches!(result, Err(StoreError::Full(_))), "{result:?}");
        assert_eq!((live.bytes(), live.end().bytes), (0, 0));
        assert!(live.append(b"text").is_err(), "it was ended");
    }
}
