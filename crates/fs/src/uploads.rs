//! Contents that clients have sent for calls that are to write them.
//!
//! *Invariant:* a content is found only by the workspace and the call that it was sent for, and by its digest; what is found
//! is compared with that digest again. Nothing but the service's user may read it. What no call has taken goes after a day.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::blocking::blocking;
use super::error::FileError;
use super::marks;

/// A content has no more bytes than this: larger files are not written.
pub const MAX_UPLOAD: u64 = marks::MAX_HASHED;

/// How long a content waits for its call, which may wait for a person.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Contents that are looked at in search of old ones, whenever a new one comes.
const MAX_SWEPT: usize = 1024;

/// Where contents wait.
#[derive(Clone, Debug)]
pub struct Uploads {
    folder: PathBuf,
    min_free_bytes: u64,
}

impl Uploads {
    /// Makes it; the folder is made when it is needed. `min_free_bytes` of its disk stay free.
    pub fn new(folder: PathBuf, min_free_bytes: u64) -> Self {
        Self { folder, min_free_bytes }
    }

    /// Begins to take a content.
    ///
    /// # Errors
    /// [`ErrorKind::StorageFull`](io::ErrorKind::StorageFull) if the disk has no room for the largest content, or what the
    /// operating system says.
    pub async fn begin(&self) -> Result<Upload, FileError> {
        let Self { folder, min_free_bytes } = self.clone();
        blocking(move || {
            let failed = |source| FileError::io("write", &folder, source);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.map_err(failed)?;
            sweep(&folder, SystemTime::now() - KEPT);
            let disk = rustix::fs::statvfs(&folder).map_err(|error| failed(error.into()))?;
            if disk.f_bavail.saturating_mul(disk.f_frsize) < min_free_bytes.saturating_add(MAX_UPLOAD) {
                return Err(failed(io::ErrorKind::StorageFull.into()));
            }
            let path = folder.join(format!("{}.part", uuid::Uuid::now_v7().simple()));
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            Ok(Upload {
                file: Some(file.map_err(failed)?),
                hash: Sha256::new(),
                bytes: 0,
                folder: folder.clone(),
                path,
            })
        })
        .await
    }

    /// Returns the content that was sent for a call; `None` if it is not there.
    ///
    /// # Errors
    /// It is not what was sent, or what the operating system says.
    pub async fn content(&self, workspace: &str, call: &str, sha256: &str) -> Result<Option<Bytes>, FileError> {
        let path = place(&self.folder, workspace, call, sha256);
        let sha256 = sha256.to_owned();
        blocking(move || {
            let failed = |source| FileError::io("read", &path, source);
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed(error)),
            };
            let mut bytes = Vec::new();
            file.take(MAX_UPLOAD + 1).read_to_end(&mut bytes).map_err(failed)?;
            if marks::sha256(&bytes) == sha256 {
                Ok(Some(bytes.into()))
            } else {
                Err(failed(io::ErrorKind::InvalidData.into()))
            }
        })
        .await
    }

    /// Forgets the content that was sent for a call.
    pub async fn forget(&self, workspace: &str, call: &str, sha256: &str) {
        let path = place(&self.folder, workspace, call, sha256);
        let removed = blocking(move || {
            let _ = fs::remove_file(path);
            Ok(())
        });
        // What stays goes after a day.
        let _ = removed.await;
    }
}

/// A content on its way. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Upload {
    file: Option<File>,
    hash: Sha256,
    bytes: u64,
    folder: PathBuf,
    path: PathBuf,
}

impl Upload {
    /// Appends a piece.
    ///
    /// # Errors
    /// The content has more bytes than [`MAX_UPLOAD`], or what the operating system says.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), FileError> {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        if self.bytes > MAX_UPLOAD {
            return Err(FileError::TooLarge {
                attempt: "write",
                path: "the content".into(),
                size: self.bytes,
                limit: MAX_UPLOAD,
            });
        }
        self.hash.update(&piece);
        let Some(mut file) = self.file.take() else {
            return Ok(());
        };
        let path = self.path.clone();
        let written = blocking(move || {
            let written = file.write_all(&piece);
            written.map_err(|source| FileError::io("write", &path, source))?;
            Ok(file)
        });
        self.file = Some(written.await?);
        Ok(())
    }

    /// Keeps the content for a call, and returns its SHA-256 and its bytes.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn keep(self, workspace: &str, call: &str) -> Result<(String, u64), FileError> {
        let sha256 = hex::encode(self.hash.clone().finalize());
        let place = place(&self.folder, workspace, call, &sha256);
        let bytes = self.bytes;
        blocking(move || {
            let failed = |source| FileError::io("write", &place, source);
            if let Some(file) = &self.file {
                file.sync_all().map_err(failed)?;
            }
            fs::rename(&self.path, &place).map_err(failed)
        })
        .await?;
        Ok((sha256, bytes))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // It has another name by now if it was kept.
        let _ = fs::remove_file(&self.path);
    }
}

fn place(folder: &Path, workspace: &str, call: &str, sha256: &str) -> PathBuf {
    folder.join(marks::sha256(format!("{workspace}\0{call}\0{sha256}").as_bytes()))
}

/// Deletes what was last written before a moment.
fn sweep(folder: &Path, before: SystemTime) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().take(MAX_SWEPT) {
        let written = entry.metadata().and_then(|metadata| metadata.modified());
        if written.is_ok_and(|written| written < before) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_disk_without_room_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(folder.path().join("uploads"), u64::MAX);
        let refused = uploads.begin().await.unwrap_err();
        assert!(
            matches!(&refused, FileError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
            "{refused}"
        );
        assert_eq!(fs::read_dir(folder.path().join("uploads")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_content_is_for_one_call() {
        let folder = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(folder.path().join("uploads"), 0);
        let send = async |pieces: &[&'static str], call: &str| {
            let mut upload = uploads.begin().await.unwrap();
            for piece in pieces {
                upload.write(Bytes::from_static(piece.as_bytes())).await.unwrap();
            }
            upload.keep("w", call).await.unwrap()
        };
        let (sha256, bytes) = send(&["one ", "two"], "call").await;
        assert_eq!((sha256.as_str(), bytes), (marks::sha256(b"one two").as_str(), 7));
        let found =
            async |workspace: &str, call: &str, sha256: &str| uploads.content(workspace, call, sha256).await.unwrap();
        assert_eq!(found("w", "call", &sha256).await.as_deref(), Some(&b"one two"[..]));
        assert_eq!(found("v", "call", &sha256).await, None);
        assert_eq!(found("w", "other", &sha256).await, None);
        assert_eq!(found("w", "call", &marks::sha256(b"")).await, None);
        // Another content for the same call does not take the place of the first.
        send(&["three"], "call").await;
        assert_eq!(found("w", "call", &sha256).await.as_deref(), Some(&b"one two"[..]));
        let path = place(&uploads.folder, "w", "call", &sha256);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "forged").unwrap();
        assert!(uploads.content("w", "call", &sha256).await.is_err());
        uploads.forget("w", "call", &sha256).await;
        assert_eq!(found("w", "call", &sha256).await, None);
    }

    #[tokio::test]
    async fn nothing_is_left_of_what_is_given_up_or_old() {
        let folder = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(folder.path().join("uploads"), 0);
        let count = || fs::read_dir(&uploads.folder).unwrap().count();
        let mut upload = uploads.begin().await.unwrap();
        upload.write(Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(count(), 1);
        drop(upload);
        assert_eq!(count(), 0);
        let upload = uploads.begin().await.unwrap();
        upload.keep("w", "call").await.unwrap();
        sweep(&uploads.folder, SystemTime::now() - KEPT);
        assert_eq!(count(), 1);
        sweep(&uploads.folder, SystemTime::now() + KEPT);
        assert_eq!(count(), 0);
    }
}
