//! Reading one configuration file.
//!
//! *Invariant:* regular files of bounded size only. A project may hold anything under a name that is read here, so a
//! FIFO must not hang the start and a device must not fill the memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::Path;

use super::error::{ConfigError, Problem};
pub(super) use toolgate_fs::open::is_own;

/// Bytes of the largest file, also after substitution.
pub(super) const MAX_BYTES: usize = 1 << 20;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the text of a file without its byte order mark, or none if there is no such file.
pub(super) fn text(path: &Path) -> Result<Option<String>, ConfigError> {
    let bytes = match bounded(path) {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(source) => {
            let path = path.to_path_buf();
            return Err(ConfigError::Unreadable { path, source });
        }
    };
    let text = str::from_utf8(&bytes).map_err(|error| {
        let message = format!("the text is not UTF-8 from byte {} on", error.valid_up_to());
        ConfigError::invalid(path.display(), Problem::new(None, "", message))
    })?;
    Ok(Some(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).to_owned()))
}

/// Reads a regular file of at most [`MAX_BYTES`].
pub(super) fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_at_most(file, MAX_BYTES)
}

/// Says whether others than the owner and the group may read a file, or others than the owner change it.
pub(super) fn is_open_to_others(path: &Path) -> io::Result<bool> {
    Ok(path.metadata()?.mode() & 0o027 != 0)
}

/// Says whether an error means that there is nothing at the path.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read_at_most(file: File, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("file");
        assert!(matches!(text(&path), Ok(None)));
        assert!(matches!(text(&path.join("below")), Ok(None)));
        std::fs::write(&path, "\u{feff}{}").expect("the folder is ours");
        assert_eq!(text(&path).expect("it is a small file").as_deref(), Some("{}"));
        std::fs::write(&path, [b'a', 0xff]).expect("the folder is ours");
        assert!(text(&path).is_err());
        std::fs::write(&path, vec![b' '; MAX_BYTES + 1]).expect("the folder is ours");
        assert!(text(&path).is_err());
        assert!(text(folder.path()).is_err(), "a folder is not a file");
        assert!(text(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn a_fifo_does_not_hang() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("fifo");
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        );
        made.expect("a FIFO can be made");
        assert!(text(&path).is_err());
    }
}
