//! Reading a file by ranges of bytes, whatever it holds.
//!
//! *Invariant:* all ranges come from the one file that was opened; a file that is replaced meanwhile is still read as it was,
//! and one that is rewritten in place is told.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::blocking::blocking;
use super::error::FileError;
use super::marks::MAX_HASHED;
use super::tree::Facts;
use super::{ResolvedPath, open};

/// Bytes that are hashed at once.
const BLOCK: usize = 256 << 10;

/// A regular file that is open for reading.
#[derive(Clone, Debug)]
pub struct Reader {
    path: Arc<ResolvedPath>,
    file: Arc<File>,
    facts: Facts,
    stamp: Stamp,
}

/// What changes when somebody writes to a file.
type Stamp = (u64, i64, i64, i64, i64);

fn stamp(metadata: &Metadata) -> Stamp {
    (
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    )
}

impl Reader {
    /// Opens the file that a path leads to, or returns `None` if nothing is there.
    ///
    /// # Errors
    /// It is a folder, a pipe or a device, the path leads elsewhere by now, or the operating system refuses.
    pub async fn open(path: ResolvedPath) -> Result<Option<Self>, FileError> {
        blocking(move || {
            let Some(opened) = open::open(&path)? else {
                return Ok(None);
            };
            if opened.is_folder {
                return Err(FileError::IsFolder {
                    path: path.display_path().into(),
                });
            }
            let stat = rustix::fs::fstat(&opened.file);
            let stat = stat.map_err(|error| FileError::io("look at", path.display_path(), error.into()))?;
            Ok(Some(Self {
                path: Arc::new(path),
                facts: Facts::of(&stat),
                stamp: stamp(&opened.metadata),
                file: Arc::new(opened.file),
            }))
        })
        .await
    }

    /// Returns what it was when it was opened.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Reads at most so many bytes from an offset on; nothing at or behind the end.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn read(&self, offset: u64, most: usize) -> Result<Bytes, FileError> {
        let this = self.clone();
        blocking(move || this.read_now(offset, most).map(Bytes::from)).await
    }

    /// Returns the SHA-256 of the content, hexadecimal; none for a file above [`MAX_HASHED`].
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn sha256(&self) -> Result<Option<String>, FileError> {
        let this = self.clone();
        blocking(move || {
            let (mut hash, mut offset) = (Sha256::new(), 0);
            while offset <= MAX_HASHED {
                let piece = this.read_now(offset, BLOCK)?;
                if piece.is_empty() {
                    return Ok(Some(hex::encode(hash.finalize())));
                }
                hash.update(&piece);
                offset += piece.len() as u64;
            }
            Ok(None)
        })
        .await
    }

    /// Says whether nobody has written to the file since it was opened.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn is_unchanged(&self) -> Result<bool, FileError> {
        let this = self.clone();
        blocking(move || {
            let now = this.file.metadata();
            let now = now.map_err(|source| FileError::io("look at", this.path.display_path(), source))?;
            Ok(stamp(&now) == this.stamp)
        })
        .await
    }

    fn read_now(&self, offset: u64, most: usize) -> Result<Vec<u8>, FileError> {
        let mut piece = vec![0; most];
        let mut filled = 0;
        while filled < most {
            let read = self.file.read_at(&mut piece[filled..], offset + filled as u64);
            match read.map_err(|source| FileError::io("read", self.path.display_path(), source))? {
                0 => break,
                read => filled += read,
            }
        }
        piece.truncate(filled);
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workspace;
    use crate::marks::sha256;

    #[tokio::test]
    async fn ranges_are_of_the_file_that_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = Workspace::open("w", &root, None).unwrap();
        let open = async |name: &str| Reader::open(workspace.resolve(name)).await;
        std::fs::write(root.join("a"), b"\0binary\xff").unwrap();
        let reader = open("a").await.unwrap().unwrap();
        assert_eq!(&reader.read(1, 6).await.unwrap()[..], b"binary");
        assert_eq!(&reader.read(7, 100).await.unwrap()[..], b"\xff");
        assert!(reader.read(8, 100).await.unwrap().is_empty());
        assert!(reader.read(u64::MAX / 4, 1).await.unwrap().is_empty());
        assert_eq!(reader.sha256().await.unwrap(), Some(sha256(b"\0binary\xff")));

        std::fs::write(root.join("b"), "other").unwrap();
        std::fs::rename(root.join("b"), root.join("a")).unwrap();
        assert_eq!(&reader.read(1, 6).await.unwrap()[..], b"binary");
        let reader = open("a").await.unwrap().unwrap();
        assert!(reader.is_unchanged().await.unwrap());
        std::fs::write(root.join("a"), "longer than before").unwrap();
        assert!(!reader.is_unchanged().await.unwrap());

        assert!(open("none").await.unwrap().is_none());
        assert!(matches!(open("").await, Err(FileError::IsFolder { .. })));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), mode).unwrap();
        assert!(matches!(open("pipe").await, Err(FileError::Special { .. })));
        assert!(matches!(
            open("../../../../dev/null").await,
            Err(FileError::Special { .. })
        ));
    }

    #[tokio::test]
    async fn what_is_too_large_has_no_hash() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = Workspace::open("w", &root, None).unwrap();
        let file = File::create(root.join("large")).unwrap();
        file.set_len(MAX_HASHED + 1).unwrap();
        let reader = Reader::open(workspace.resolve("large")).await.unwrap().unwrap();
        assert_eq!(reader.sha256().await.unwrap(), None);
    }
}
