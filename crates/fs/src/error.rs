//! Why file work failed.
//!
//! *Invariant:* every text but that of an interrupted work is a sentence for the model, and names the path as it was
//! written; some are fixed by `docs/spec/file-tools.md`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::io::Errno;

use super::marks::iso8601;

/// Longer paths are refused unseen; the kernel would refuse them too, but resolving them costs time first.
pub(super) const MAX_PATH: usize = 4096;

/// Why a file was not read or written. The texts are sentences for the model.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is longer than any path can be.
    #[error("The path is too long: {length} bytes, the limit is {MAX_PATH}.")]
    PathTooLong {
        /// Its bytes.
        length: usize,
    },
    /// Nothing is there.
    #[error("File not found: {}{}", path.display(), did_you_mean(suggestions))]
    NotFound {
        /// What was wanted.
        path: PathBuf,
        /// What might have been meant.
        suggestions: Vec<PathBuf>,
    },
    /// A folder is where a file should be.
    #[error("Path is a directory, not a file: {}", path.display())]
    IsFolder {
        /// The path.
        path: PathBuf,
    },
    /// A file is where a folder should be.
    #[error("Cannot create {}: {} is a file, not a directory.", path.display(), parent.display())]
    ParentIsFile {
        /// The path that was to be created.
        path: PathBuf,
        /// The file above it.
        parent: PathBuf,
    },
    /// Neither a regular file nor a folder.
    #[error("Cannot open {}: it is a {kind}. Only regular files and directories can be used.", path.display())]
    Special {
        /// The path.
        path: PathBuf,
        /// The word for what it is.
        kind: &'static str,
    },
    /// The path leads elsewhere than it did when it was resolved.
    #[error(
        "Cannot open {}: its links form a circle, or a folder or link on the way to it has changed meanwhile. Nothing was \
         written to it. Look at the path again and repeat the call.",
        path.display()
    )]
    Swapped {
        /// The path.
        path: PathBuf,
    },
    /// The content is not text.
    #[error("Cannot read binary file: {}", path.display())]
    Binary {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than the operation takes.
    #[error("Cannot {attempt} {}: it has {size} bytes, the limit is {limit}.", path.display())]
    TooLarge {
        /// What was attempted.
        attempt: &'static str,
        /// The path.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// How many bytes it may have.
        limit: u64,
    },
    /// The folder has more entries than are listed.
    #[error("Cannot list {}: it has more than {limit} entries. Use glob with a narrower pattern.", path.display())]
    TooManyEntries {
        /// The folder.
        path: PathBuf,
        /// How many are listed.
        limit: usize,
    },
    /// The files of one change are in too many folders.
    #[error("Cannot change {}: the files are in more than {limit} folders. Change fewer of them in one call.", path.display())]
    TooManyFolders {
        /// The path that was one too many.
        path: PathBuf,
        /// How many folders there may be.
        limit: usize,
    },
    /// The window begins after the end.
    #[error("Offset {offset} is out of range for this file ({lines} lines)")]
    OffsetOutOfRange {
        /// The first line that was wanted.
        offset: u64,
        /// How many there are.
        lines: u64,
    },
    /// The session has not read the file.
    #[error("You must read file {} before overwriting it. Use the Read tool first", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
    },
    /// The file's content is not what the session, or the change, was based on.
    #[error(
        "File {} has been modified since it was last read.\nLast modification: {}\nLast read: {}\n\nPlease read the file again before modifying it.",
        path.display(), iso8601(*modified), iso8601(*read)
    )]
    Modified {
        /// The file.
        path: PathBuf,
        /// When it was modified.
        modified: SystemTime,
        /// When it was read.
        read: SystemTime,
    },
    /// A change of several files failed, and so did undoing what was done of it.
    #[error("{cause}\nWhat was done before that could not be undone: look at {}", names(files))]
    HalfDone {
        /// Why it failed.
        cause: Box<FileError>,
        /// The files that have their new content.
        files: Vec<PathBuf>,
    },
    /// The operating system refused.
    #[error("Cannot {attempt} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The call was cancelled.
    #[error("Tool execution aborted")]
    Stopped,
    /// The work did not come to an end: a fault of the service.
    #[error("file work was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl FileError {
    /// Makes the error of an attempt. Nothing here follows a link, so one that is met has come since the path was resolved.
    pub(super) fn io(attempt: &'static str, path: &Path, source: io::Error) -> Self {
        if source.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            return Self::Swapped { path: path.into() };
        }
        Self::Io {
            attempt,
            path: path.into(),
            source,
        }
    }
}

fn names(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    names.join(", ")
}

fn did_you_mean(suggestions: &[PathBuf]) -> String {
    if suggestions.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = suggestions.iter().map(|path| path.to_string_lossy()).collect();
    format!("\n\nDid you mean one of these?\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_as_specified() {
        let epoch = SystemTime::UNIX_EPOCH;
        let modified = FileError::Modified {
            path: "/w/a".into(),
            modified: epoch + std::time::Duration::from_millis(1500),
            read: epoch,
        };
        assert_eq!(
            modified.to_string(),
            "File /w/a has been modified since it was last read.\nLast modification: 1970-01-01T00:00:01.500Z\n\
             Last read: 1970-01-01T00:00:00.000Z\n\nPlease read the file again before modifying it."
        );
        let missing = FileError::NotFound {
            path: "/w/a".into(),
            suggestions: vec!["/w/A".into(), "/w/aa".into()],
        };
        assert_eq!(
            missing.to_string(),
            "File not found: /w/a\n\nDid you mean one of these?\n/w/A\n/w/aa"
        );
    }
}
