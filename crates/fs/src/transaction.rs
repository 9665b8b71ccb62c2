//! Changing several files together: all of them or none.
//!
//! *Invariant:* nothing is changed before everything that can be prepared is prepared, and every file has been found to be
//! what the decision was made from. Each step replaces one file in one instant and can be undone; when one fails, those
//! before it are. A process that is killed in between leaves each file old or new, never mixed, and what it put aside
//! under names that [`super::atomic::sweep_folder`] knows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::blocking::blocking;
use super::error::FileError;
use super::files::{Files, LockedFile};
use super::marks::ReadMark;
use super::snapshot::Snapshot;
pub use super::target::Target;
use super::version::{PlannedChange, Version};
use super::{ResolvedPath, open};

mod commit;
pub mod edit;
#[cfg(test)]
mod tests;

/// The files of one transaction have no more bytes than this together.
const MAX_TOTAL: u64 = 128 << 20;

/// A file as it will be.
#[derive(Clone, Debug)]
pub struct Draft {
    bytes: Bytes,
    /// The file whose mode, owner and attributes it has.
    like: Option<Like>,
}

#[derive(Clone, Debug)]
struct Like {
    path: ResolvedPath,
    snapshot: Arc<Snapshot>,
}

impl Draft {
    /// Makes a file that is like no other.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            like: None,
        }
    }

    /// Returns the same file with another content.
    pub fn with_bytes(self, bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            ..self
        }
    }

    /// Returns its content.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// What was there.
#[derive(Debug)]
enum Before {
    /// A file, or nothing.
    Content(Arc<Snapshot>),
    /// A link, and where it led.
    Link(PathBuf),
}

/// A path that the transaction has to do with: what was there, and what will be.
#[derive(Debug)]
struct Slot {
    file: LockedFile,
    before: Before,
    now: Option<Draft>,
}

/// A path that was changed.
#[derive(Debug)]
pub struct Changed {
    /// The path.
    pub path: ResolvedPath,
    /// The mark for the session; none if the file is gone.
    pub mark: Option<ReadMark>,
}

/// Why several files were not changed.
#[derive(Debug, thiserror::Error)]
#[error("{cause}\n\n{}", what_is_left(unrestored))]
pub struct TransactionError {
    /// What went wrong first.
    #[source]
    pub cause: FileError,
    /// What could not be made what it was; nothing, unless putting it back failed too.
    pub unrestored: Vec<Unrestored>,
}

/// A path that is not what it was, although it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrestored {
    /// The path.
    pub path: PathBuf,
    /// Where the file is that stood there.
    pub saved: Option<PathBuf>,
}

fn what_is_left(unrestored: &[Unrestored]) -> String {
    if unrestored.is_empty() {
        return "No file was changed.".to_owned();
    }
    let describe = |left: &Unrestored| match &left.saved {
        Some(saved) => format!("{} (the old file is {})", left.path.display(), saved.display()),
        None => left.path.display().to_string(),
    };
    let paths: Vec<_> = unrestored.iter().map(describe).collect();
    format!("These could not be put back as they were: {}", paths.join(", "))
}

/// Several files, locked, as they will be. Sees its own changes: what was removed is gone for it.
#[derive(Debug)]
pub struct Transaction {
    locked: HashMap<PathBuf, LockedFile>,
    slots: Vec<Slot>,
    loaded: u64,
}

impl Transaction {
    /// Waits for the locks of all targets, in an order that keeps two transactions from waiting for each other.
    pub async fn begin(files: &Files, targets: &[Target]) -> Self {
        let paths = targets
            .iter()
            .flat_map(|target| [Some(target.path()), target.link()])
            .flatten();
        let locked = files.lock_all(paths.cloned().collect()).await;
        Self {
            locked: (locked.into_iter())
                .map(|file| (file.path().real().to_path_buf(), file))
                .collect(),
            slots: Vec::new(),
            loaded: 0,
        }
    }

    /// Returns the file as it will be; `None` if nothing is there.
    ///
    /// # Errors
    /// It cannot be loaded, or all files together are too large.
    pub async fn read(&mut self, target: &Target) -> Result<Option<Draft>, FileError> {
        Ok(self.slot(target).await?.now.clone())
    }

    /// Lets the file be `draft`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn write(&mut self, target: &Target, draft: Draft) -> Result<(), FileError> {
        self.slot(target).await?.now = Some(draft);
        Ok(())
    }

    /// Lets the path be gone: of a link the link itself, not the file that it leads to.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn remove(&mut self, target: &Target) -> Result<(), FileError> {
        match target.link() {
            Some(link) if !self.has_slot(link.real()) => {
                let file = self.locked(link).await?;
                let path = link.clone();
                let before = blocking(move || {
                    let found = open::read_link(&path)?;
                    let gone = || FileError::io("delete", path.display_path(), std::io::ErrorKind::NotFound.into());
                    found.map(|(to, _)| to).ok_or_else(gone)
                })
                .await?;
                self.slots.push(Slot {
                    file,
                    before: Before::Link(before),
                    now: None,
                });
            }
            Some(_) | None => self.slot(target).await?.now = None,
        }
        Ok(())
    }

    /// Says what [`Self::commit`] will do to files, and links, that it changes.
    pub fn planned_changes(&self) -> Vec<PlannedChange> {
        let planned = |slot: &Slot| {
            let before = match &slot.before {
                Before::Content(old) => old.version(),
                Before::Link(to) => Some(Version::link(to)),
            };
            let after = slot.now.as_ref().map(|draft| Version {
                bytes: draft.bytes.clone(),
                mode: draft.like.as_ref().and_then(|like| like.snapshot.version()?.mode),
            });
            let change = slot.file.planned(before, after);
            (change.before != change.after).then_some(change)
        };
        self.slots.iter().filter_map(planned).collect()
    }

    /// Changes the files. Once begun it goes on to the end, and keeps the locks until then, even if the caller goes away.
    ///
    /// # Errors
    /// A file is not what it was when it was read, or the operating system refuses a step.
    pub async fn commit(self) -> Result<Vec<Changed>, TransactionError> {
        let committed = tokio::task::spawn_blocking(move || {
            let changed = commit::commit(&self.slots, &mut |_| Ok(()));
            drop(self.locked);
            changed
        });
        committed.await.unwrap_or_else(|error| {
            Err(TransactionError {
                cause: FileError::Interrupted(error),
                unrestored: Vec::new(),
            })
        })
    }

    fn has_slot(&self, real: &Path) -> bool {
        self.slots.iter().any(|slot| slot.file.path().real() == real)
    }

    async fn slot(&mut self, target: &Target) -> Result<&mut Slot, FileError> {
        // A link that was removed leads nowhere any more: the path is free.
        let path = target
            .link()
            .filter(|link| self.has_slot(link.real()))
            .unwrap_or(target.path());
        let at = match self
            .slots
            .iter()
            .position(|slot| slot.file.path().real() == path.real())
        {
            Some(at) => at,
            None => {
                let slot = self.load(path).await?;
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        Ok(&mut self.slots[at])
    }

    async fn load(&mut self, path: &ResolvedPath) -> Result<Slot, FileError> {
        let file = self.locked(path).await?;
        let snapshot = file.load().await?;
        self.loaded += snapshot.bytes().len() as u64;
        if self.loaded > MAX_TOTAL {
            return Err(FileError::TooLarge {
                attempt: "change, together with the files before it,",
                path: path.display_path().into(),
                size: self.loaded,
                limit: MAX_TOTAL,
            });
        }
        let now = snapshot.exists().then(|| Draft {
            bytes: Bytes::copy_from_slice(snapshot.bytes()),
            like: Some(Like {
                path: path.clone(),
                snapshot: Arc::clone(&snapshot),
            }),
        });
        Ok(Slot {
            file,
            before: Before::Content(snapshot),
            now,
        })
    }

    async fn locked(&self, path: &ResolvedPath) -> Result<LockedFile, FileError> {
        // Every target was named at the beginning; one that was not has no lock, and must not wait for one now.
        self.locked.get(path.real()).cloned().ok_or_else(|| FileError::Swapped {
            path: path.display_path().into(),
        })
    }
}
