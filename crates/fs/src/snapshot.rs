//! What was at a path at one moment, and whether it still is.
//!
//! *Invariant:* only reads.

use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use bytes::Bytes;

use super::ResolvedPath;
use super::error::FileError;
use super::marks;
use super::open;
use super::place::{Folders, Place};
use super::text::BOM_BYTES;
use super::version::{LINK_MODE, Version};

/// Files above this size are neither loaded nor overwritten.
pub const MAX_LOADED: u64 = marks::MAX_HASHED;

/// What was at a path at one moment: a regular file's content, or nothing.
#[derive(Debug)]
pub struct Snapshot {
    taken: SystemTime,
    file: Option<Content>,
    /// SHA-256 of the content; made where hashing may take its time.
    sha256: String,
}

#[derive(Debug)]
struct Content {
    bytes: Bytes,
    metadata: Metadata,
}

impl Snapshot {
    /// Says whether there was a file.
    pub fn exists(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the file's bytes; none if there was no file.
    pub fn bytes(&self) -> &[u8] {
        self.file.as_ref().map_or(&[], |file| &file.bytes)
    }

    /// Says whether the file begins with a byte order mark.
    pub fn has_bom(&self) -> bool {
        self.bytes().starts_with(BOM_BYTES)
    }

    /// Returns the SHA-256 of the file's bytes, hexadecimal; empty if there was no file.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the file's bytes and permission bits; none if there was no file.
    pub fn version(&self) -> Option<Version> {
        self.file.as_ref().map(|file| Version {
            bytes: file.bytes.clone(),
            mode: Some(if file.metadata.is_symlink() {
                LINK_MODE
            } else {
                file.metadata.mode() & 0o7777
            }),
        })
    }

    pub(super) fn metadata(&self) -> Option<&Metadata> {
        self.file.as_ref().map(|file| &file.metadata)
    }

    /// Returns the snapshot of a path where there is no file.
    pub(super) fn nothing() -> Self {
        Self {
            taken: SystemTime::now(),
            file: None,
            sha256: String::new(),
        }
    }

    pub(super) fn take(path: &ResolvedPath) -> Result<Self, FileError> {
        let place = Folders::default().find(path)?;
        Self::take_at(path, place.as_ref())
    }

    pub(super) fn take_at(path: &ResolvedPath, place: Option<&Place>) -> Result<Self, FileError> {
        let taken = SystemTime::now();
        let file = load_at(path, place)?;
        let sha256 = file.as_ref().map(|file| marks::sha256(&file.bytes)).unwrap_or_default();
        Ok(Self { taken, file, sha256 })
    }
}

/// Loads what is at the place of a path; none is where its folder is missing.
fn load_at(path: &ResolvedPath, place: Option<&Place>) -> Result<Option<Content>, FileError> {
    let shown = path.display_path();
    let Some(place) = place else {
        refuse_file_above(path)?;
        return Ok(None);
    };
    if let Some((to, metadata)) = open::read_link_at(path, place)? {
        let bytes = to.into_os_string().into_vec().into();
        return Ok(Some(Content { bytes, metadata }));
    }
    let Some(opened) = open::open_at(path, place)? else {
        return Ok(None);
    };
    if opened.is_folder {
        return Err(FileError::IsFolder { path: shown.into() });
    }
    let too_large = |size| FileError::TooLarge {
        attempt: "change",
        path: shown.into(),
        size,
        limit: MAX_LOADED,
    };
    if opened.metadata.len() > MAX_LOADED {
        return Err(too_large(opened.metadata.len()));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed, to notice a file that has grown since.
    (&opened.file)
        .take(MAX_LOADED + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| FileError::io("read", shown, source))?;
    if bytes.len() as u64 > MAX_LOADED {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(Some(Content {
        bytes: bytes.into(),
        metadata: opened.metadata,
    }))
}

/// Makes the "modified" error for a path that now holds the file `current` and was last read at `read`.
pub(super) fn modified(path: &ResolvedPath, current: Option<&Metadata>, read: SystemTime) -> FileError {
    let modified = current.and_then(|metadata| metadata.modified().ok());
    FileError::Modified {
        path: path.display_path().into(),
        // A file that is gone was modified just now, as far as anybody can tell.
        modified: modified.unwrap_or_else(SystemTime::now),
        read,
    }
}

/// Fails if the path cannot be created because a file stands where one of its folders should be.
fn refuse_file_above(path: &ResolvedPath) -> Result<(), FileError> {
    let above = path.real().ancestors().skip(1);
    for folder in above {
        match folder.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => return Ok(()),
            Ok(_) => {
                return Err(FileError::ParentIsFile {
                    path: path.display_path().into(),
                    parent: folder.into(),
                });
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Fails if the place of a path does not hold what `expected` has; no place is where its folder is missing.
pub(super) fn expect_at(path: &ResolvedPath, place: Option<&Place>, expected: &Snapshot) -> Result<(), FileError> {
    let current = load_at(path, place)?;
    let same = match (&current, &expected.file) {
        (None, None) => true,
        (Some(now), Some(then)) => now.bytes == then.bytes && now.metadata.is_symlink() == then.metadata.is_symlink(),
        (None, Some(_)) | (Some(_), None) => false,
    };
    if same {
        Ok(())
    } else {
        Err(modified(
            path,
            current.as_ref().map(|file| &file.metadata),
            expected.taken,
        ))
    }
}
