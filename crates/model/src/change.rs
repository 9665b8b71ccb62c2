//! What a call leaves behind: changed files, and processes that still run; and what those listen on.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A process that an ended call left running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundProcess {
    /// Its number on the service's machine.
    pub pid: u32,
    /// Its command line on one line, possibly cut.
    pub command: String,
}

/// A TCP port that a program of a call listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListeningPort {
    /// The port.
    pub port: u16,
    /// The address that it listens on; the unspecified one for all.
    pub address: IpAddr,
    /// A process that listens there, by its number on the service's machine.
    pub pid: u32,
    /// Its command line on one line, possibly cut.
    pub command: String,
}

/// One change that a call made to a file, with what is needed to take it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The absolute path with every link followed.
    pub path: PathBuf,
    /// The absolute path as the call named it; permissions are asked for this one.
    pub shown: PathBuf,
    /// The file before the change; none if there was none.
    pub before: Option<FileVersion>,
    /// The file after the change; none if there is none. A file that was moved is a change of either path.
    pub after: Option<FileVersion>,
}

/// A file as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// SHA-256 of the content, hexadecimal; names its blob in the store.
    pub sha256: String,
    /// Bytes of the content.
    pub bytes: u64,
    /// The permission bits; none for a new file, which gets what the system gives to new files.
    pub mode: Option<u32>,
}
