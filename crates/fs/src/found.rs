//! What a walk finds, and opening it: regular files and folders, and nothing that could make the reader wait.
//!
//! *Invariant:* no link is followed that stands in a path; who wants that follows it before.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::beneath;
use super::newest::Modified;

/// Not blocking: what was a file when it was listed may be a pipe by now.
const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Says whether a path whose links were followed is a folder.
///
/// # Errors
/// It does not exist or cannot be looked at.
pub fn is_folder(real: &Path) -> io::Result<bool> {
    Ok(std::fs::symlink_metadata(real)?.is_dir())
}

/// A file that a walk found.
#[derive(Clone, Copy, Debug)]
pub struct FoundFile<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    pub(super) path: &'a Path,
    pub(super) relative: &'a Path,
    pub(super) is_link: bool,
}

impl FoundFile<'_> {
    /// Returns its path relative to the walk's root.
    pub fn relative(&self) -> &Path {
        self.relative
    }

    /// Says whether it is a link.
    pub fn is_link(&self) -> bool {
        self.is_link
    }

    /// Returns when it was modified; nothing if it is gone or leads to something other than a regular file.
    pub fn modified(&self) -> Option<Modified> {
        let flags = if self.is_link {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        let stat = rustix::fs::statat(self.folder, self.name, flags).ok()?;
        is_regular(&stat).then(|| modified(&stat))
    }

    /// Opens it; nothing if it is gone, is not a regular file, or is a link to a place that `may_follow` refuses.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn open(&self, may_follow: impl Fn(&Path) -> bool) -> io::Result<Option<OpenFile>> {
        if !self.is_link {
            return OpenFile::at(self.folder, self.name);
        }
        match self.path.canonicalize() {
            Ok(target) if may_follow(&target) => OpenFile::open(&target),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

/// A regular file, opened for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub file: File,
    /// Its size in bytes when it was opened.
    pub size: u64,
    /// When it was last modified.
    pub modified: Modified,
}

impl OpenFile {
    /// Opens a path whose links were followed; nothing if it is gone or is not a regular file.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn open(real: &Path) -> io::Result<Option<Self>> {
        Self::from_opened(beneath::open(None, real, READING))
    }

    pub(super) fn at(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Self>> {
        let flags = READING | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::from_opened(rustix::fs::openat(folder, name, flags, Mode::empty()))
    }

    fn from_opened(opened: rustix::io::Result<OwnedFd>) -> io::Result<Option<Self>> {
        let file = match opened {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        Ok(is_regular(&stat).then(|| Self {
            file: File::from(file),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: modified(&stat),
        }))
    }
}

pub(super) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

pub(super) fn modified(stat: &Stat) -> Modified {
    Modified {
        seconds: stat.st_mtime,
        nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    }
}

pub(super) fn open_folder(path: &Path) -> rustix::io::Result<OwnedFd> {
    beneath::open(None, path, OFlags::RDONLY | OFlags::DIRECTORY)
}
