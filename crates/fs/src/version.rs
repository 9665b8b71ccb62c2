//! A file's content with its permission bits, and what is about to be done to it.
//!
//! *Invariant:* plain data.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// A file's content, with its permission bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The content.
    pub bytes: Bytes,
    /// The permission bits; none for those that the system gives to new files; [`LINK_MODE`] for a link.
    pub mode: Option<u32>,
}

/// The mode of a symbolic link, as git has it. Its content is where it leads.
pub const LINK_MODE: u32 = 0o120_000;

impl Version {
    /// Makes a symbolic link.
    pub fn link(to: &Path) -> Self {
        Self {
            bytes: Bytes::copy_from_slice(to.as_os_str().as_bytes()),
            mode: Some(LINK_MODE),
        }
    }
}

/// What is about to be done to a file: recorded before it is done, so that it can be taken back whatever happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// The path with every link followed.
    pub path: PathBuf,
    /// The path as written.
    pub shown: PathBuf,
    /// What is there; none if there is no file.
    pub before: Option<Version>,
    /// What will be there; none if there will be no file.
    pub after: Option<Version>,
}
