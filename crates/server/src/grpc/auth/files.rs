//! The files that say who may call, read again when they change.
//!
//! *Invariant:* regular files of bounded size; what others may read is no secret and is refused. A file that cannot be
//! read or understood changes nothing: what was in force stays, and the log says why. No content is ever shown.

#![allow(clippy::disallowed_methods)] // the service's own files, not those of a workspace

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::error::AuthError;

const MAX_FILE_BYTES: u64 = 1 << 20;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// Its owner and its group: secrets of Kubernetes are root's, and read by the group of the pod.
    Group,
    /// Anybody.
    Anybody,
}

/// A file to look after.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) readers: Readers,
}

impl Source {
    /// Reads the file. Blocking.
    pub(super) fn read(&self) -> Result<Vec<u8>, AuthError> {
        let failed = |source| AuthError::Read {
            path: self.path.clone(),
            source,
        };
        // A pipe must not hang the start.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&self.path)
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(wrong(&self.path, "it is not a regular file"));
        }
        let open_to = metadata.mode() & 0o077;
        match self.readers {
            Readers::Group if open_to & 0o027 != 0 => {
                let problem = "others may read or change it: `chmod 600` it";
                return Err(wrong(&self.path, problem));
            }
            Readers::Group | Readers::Anybody => {}
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(wrong(&self.path, "it is larger than 1 MiB"));
        }
        Ok(bytes)
    }
}

pub(super) fn wrong(path: &Path, problem: impl Into<String>) -> AuthError {
    AuthError::Content {
        path: path.to_path_buf(),
        problem: problem.into(),
    }
}

/// Understands the contents of the files, in their order.
type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, AuthError> + Send + Sync>;

/// What files say, as long as they say something that makes sense.
pub(super) struct Reloading<T> {
    sources: Vec<Source>,
    parse: Parse<T>,
    /// What is in force, and which contents were looked at last. Never held across an await.
    state: Mutex<State<T>>,
}

struct State<T> {
    current: Arc<T>,
    /// The digest of the contents, or the text of why they could not be had.
    seen: Result<[u8; 32], String>,
}

impl<T> Reloading<T> {
    /// Reads the files for the first time. Blocking.
    pub(super) fn load(
        sources: Vec<Source>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, AuthError> + Send + Sync + 'static,
    ) -> Result<Self, AuthError> {
        let contents = read_all(&sources)?;
        let current = Arc::new(parse(&contents)?);
        let seen = Ok(digest(&contents));
        Ok(Self {
            sources,
            parse: Box::new(parse),
            state: Mutex::new(State { current, seen }),
        })
    }

    /// Returns what is in force.
    pub(super) fn current(&self) -> Arc<T> {
        self.state.lock().current.clone()
    }

    /// Reads the files again; says whether something else is in force now. Blocking.
    pub(super) fn refresh(&self) -> bool {
        let contents = read_all(&self.sources);
        let seen = contents
            .as_ref()
            .map(|contents| digest(contents))
            .map_err(ToString::to_string);
        if self.state.lock().seen == seen {
            return false;
        }
        let parsed = contents.and_then(|contents| (self.parse)(&contents));
        let mut state = self.state.lock();
        state.seen = seen;
        let files = || {
            self.sources
                .iter()
                .map(|one| one.path.display().to_string())
                .collect::<Vec<_>>()
        };
        match parsed {
            Ok(new) => {
                state.current = Arc::new(new);
                drop(state);
                tracing::info!(files = ?files(), "read again");
                true
            }
            Err(error) => {
                drop(state);
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, files = ?files(), "a changed file cannot be used; what was read before stays in force");
                false
            }
        }
    }
}

fn read_all(sources: &[Source]) -> Result<Vec<Vec<u8>>, AuthError> {
    sources.iter().map(Source::read).collect()
}

fn digest(contents: &[Vec<u8>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for content in contents {
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn length(contents: &[Vec<u8>]) -> Result<usize, AuthError> {
        match contents[0].len() {
            0 => Err(wrong(Path::new("f"), "empty")),
            length => Ok(length),
        }
    }

    #[test]
    fn a_broken_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "12").unwrap();
        let source = Source {
            path: path.clone(),
            readers: Readers::Anybody,
        };
        let kept = Reloading::load(vec![source], length).unwrap();
        assert!(!kept.refresh());
        fs::write(&path, "").unwrap();
        assert!(!kept.refresh());
        assert_eq!(*kept.current(), 2);
        fs::remove_file(&path).unwrap();
        assert!(!kept.refresh());
        fs::write(&path, "123").unwrap();
        assert!(kept.refresh());
        assert_eq!(*kept.current(), 3);
    }

    #[test]
    fn what_others_read_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "x").unwrap();
        let check = |mode, readers, good: bool| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let source = Source {
                path: path.clone(),
                readers,
            };
            assert_eq!(source.read().is_ok(), good, "{mode:o} {readers:?}");
        };
        check(0o600, Readers::Group, true);
        check(0o620, Readers::Group, false);
        check(0o604, Readers::Group, false);
        check(0o640, Readers::Group, true);
        check(0o644, Readers::Group, false);
        check(0o644, Readers::Anybody, true);
        let source = Source {
            path: folder.path().to_path_buf(),
            readers: Readers::Anybody,
        };
        assert!(source.read().is_err());
    }
}
