//! Saves an output, or a file of a workspace, to a file on this machine.
//!
//! *Invariant:* the file has its name only when everything is there; an output also has the digest that the service stored.

#![allow(clippy::disallowed_methods)] // the user's own file, on the user's machine

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use crate::client::new_id;
use crate::error::Error;
use crate::file_reader::FileReader;
use crate::output::{Output, Part};

/// A file that is removed unless it was given its name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the renaming there is none.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Output {
    /// Writes the output to a file and returns how many bytes it has. The bytes go to a temporary file beside it, which
    /// takes its name when everything is there. An output that is still being written is saved as far as it has come.
    /// `progress` is told how many bytes are there, and of how many.
    pub async fn save(&self, path: impl AsRef<Path>, mut progress: impl FnMut(u64, u64)) -> Result<u64, Error> {
        let path = path.as_ref();
        let failed = |source: io::Error| Error::Save {
            path: path.to_path_buf(),
            source,
        };
        let info = self.info().await?;
        let part = if info.total_bytes > 0 {
            Part::Bytes {
                offset: 0,
                limit: info.total_bytes,
            }
        } else {
            Part::All
        };
        let (mut file, unfinished) = create_beside(path).await.map_err(failed)?;
        let mut reader = self.read(part);
        let mut digest = Sha256::new();
        let (mut written, total) = (0_u64, u64::try_from(info.total_bytes).unwrap_or_default());
        while let Some(piece) = reader.next().await? {
            digest.update(&piece);
            file.write_all(&piece).await.map_err(failed)?;
            written += piece.len() as u64;
            progress(written, total.max(written));
        }
        let found = hex::encode(digest.finalize());
        if info.complete && !info.sha256.is_empty() && found != info.sha256 {
            return Err(Error::Digest {
                output_id: self.id.clone(),
                found,
                expected: info.sha256,
            });
        }
        file.sync_all().await.map_err(failed)?;
        tokio::fs::rename(&unfinished.0, path).await.map_err(failed)?;
        Ok(written)
    }
}

impl FileReader {
    /// Writes all that is left to a file and returns how many bytes that is. They go to a temporary file beside it, which
    /// takes its name when everything is there.
    pub async fn save(mut self, path: impl AsRef<Path>) -> Result<u64, Error> {
        let path = path.as_ref();
        let failed = |source: io::Error| Error::Save {
            path: path.to_path_buf(),
            source,
        };
        let (mut file, unfinished) = create_beside(path).await.map_err(failed)?;
        let mut written = 0;
        while let Some(piece) = self.next().await? {
            file.write_all(&piece).await.map_err(failed)?;
            written += piece.len() as u64;
        }
        file.sync_all().await.map_err(failed)?;
        tokio::fs::rename(&unfinished.0, path).await.map_err(failed)?;
        Ok(written)
    }
}

async fn create_beside(path: &Path) -> io::Result<(File, Unfinished)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let unfinished = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), new_id()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&unfinished)
        .await?;
    Ok((file, Unfinished(unfinished)))
}
