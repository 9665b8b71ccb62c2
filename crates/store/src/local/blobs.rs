//! Contents of files, each under the name of its digest.
//!
//! *Invariant:* a blob's file has the whole content or does not exist: it is written under another name and renamed. Who
//! puts a blob that is there already makes it young again; who deletes one holds the folder's lock alone, so that no blob
//! goes between being found and being referred to.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, DirEntry, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::error::{failed, io};
use super::quota::{Kind, Quota};
use crate::StoreError;

/// A blob is younger than this when its change is recorded, so a younger one is kept whoever refers to it.
const CHANGE_MAY_FOLLOW: Duration = Duration::from_secs(60 * 60);

/// The folder of the blobs.
pub(super) struct Blobs {
    folder: PathBuf,
    quota: Arc<Quota>,
}

impl Blobs {
    pub(super) fn new(folder: PathBuf, quota: Arc<Quota>) -> Self {
        Self { folder, quota }
    }

    /// Keeps a content. Blocks.
    pub(super) fn put(&self, bytes: &[u8]) -> Result<String, StoreError> {
        let sha256 = digest(bytes);
        let path = self.path(&sha256);
        let lock = self.lock_file()?;
        lock.lock_shared().map_err(|error| io("lock", &self.folder, error))?;
        if !is_renewed(&path, bytes.len() as u64) {
            let length = bytes.len() as u64;
            self.quota.take(Kind::Blob, length)?;
            write(&path, bytes).inspect_err(|_| self.quota.give_back(Kind::Blob, length))?;
        }
        Ok(sha256)
    }

    /// Returns a content. Blocks.
    pub(super) fn get(&self, sha256: &str) -> Result<Option<Bytes>, StoreError> {
        if !is_digest(sha256) {
            return Ok(None);
        }
        let path = self.path(sha256);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io("read", &path, error)),
        };
        // A machine that lost its power may have lost part of the file.
        if digest(&bytes) != sha256 {
            return Err(failed(
                format!("read {}", path.display()),
                "its content is not what its name says",
            ));
        }
        Ok(Some(Bytes::from(bytes)))
    }

    /// Deletes the blobs that `referenced` does not name and that are old enough; it is asked once for each prefix of two
    /// digits. Returns how many went. Blocks.
    pub(super) fn sweep(
        &self,
        referenced: impl Fn(&str) -> Result<HashSet<String>, StoreError>,
    ) -> Result<usize, StoreError> {
        let lock = self.lock_file()?;
        let mut count = 0;
        for folder in entries(&self.folder)? {
            let Some(prefix) = folder
                .file_name()
                .to_str()
                .filter(|name| is_prefix(name))
                .map(str::to_owned)
            else {
                continue;
            };
            let needed = referenced(&prefix)?;
            for entry in entries(&folder.path())? {
                let is_needed = entry.file_name().to_str().is_some_and(|name| needed.contains(name));
                if is_needed || !is_old(&entry.path()) {
                    continue;
                }
                lock.lock().map_err(|error| io("lock", &self.folder, error))?;
                // Somebody may have put it once more since.
                if is_old(&entry.path()) {
                    match fs::remove_file(entry.path()) {
                        Ok(()) => count += 1,
                        Err(error) => tracing::warn!(path = %entry.path().display(), %error, "an old content stays"),
                    }
                }
                lock.unlock().map_err(|error| io("unlock", &self.folder, error))?;
            }
        }
        if count > 0 {
            self.quota.recount();
        }
        Ok(count)
    }

    fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(&sha256[..2]).join(sha256)
    }

    /// Opened anew each time: a lock belongs to an open file, not to a process.
    fn lock_file(&self) -> Result<File, StoreError> {
        File::open(&self.folder).map_err(|error| io("open", &self.folder, error))
    }
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && is_hexadecimal(text)
}

fn is_prefix(text: &str) -> bool {
    text.len() == 2 && is_hexadecimal(text)
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Makes a blob that is there young again; false if it is not there, or not whole.
fn is_renewed(path: &Path, bytes: u64) -> bool {
    let Ok(file) = File::open(path) else { return false };
    file.metadata().is_ok_and(|metadata| metadata.len() == bytes) && file.set_modified(SystemTime::now()).is_ok()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let what = "keep a content in";
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| io("create the folder", folder, error))?;
    // Such files are readable by their owner only.
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(folder)
        .map_err(|error| io(what, folder, error))?;
    file.write_all(bytes).map_err(|error| io(what, folder, error))?;
    file.persist(path)
        .map(drop)
        .map_err(|error| io(what, path, error.error))
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>, StoreError> {
    fs::read_dir(folder)
        .and_then(Iterator::collect)
        .map_err(|error| io("list", folder, error))
}

/// A file whose time cannot be read counts as young.
fn is_old(path: &Path) -> bool {
    let modified = path.symlink_metadata().and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > CHANGE_MAY_FOLLOW))
}
