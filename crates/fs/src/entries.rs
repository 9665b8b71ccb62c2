//! Entries of folders as a whole: a folder is made, and a file, a link or a folder with all that is in it renamed or deleted.
//!
//! *Invariant:* what is renamed or deleted was looked at, all of it, within bounds, and is compared with that once more before
//! it is touched. Nothing that stands at the new name is covered.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::changes::{PlannedChange, Replacement};
use super::error::FileError;
use super::files::{Files, LockedFile, Snapshot};
use super::place::Folders;
use super::target::Target;
use super::tree::{self, EntryKind, MAX_DEPTH, Wanted};
use super::{ResolvedPath, Workspace, path, snapshot};

/// What is renamed or deleted at once has at most so many entries.
pub const MAX_ENTRIES: usize = 2000;

/// And so many bytes.
pub const MAX_BYTES: u64 = 128 << 20;

/// Makes a folder, and those above it that are missing. Says whether it was not there.
///
/// # Errors
/// Something else is there, or what the operating system says.
pub async fn make_folder(path: &ResolvedPath) -> Result<bool, FileError> {
    let path = path.clone();
    blocking(move || {
        let mut folders = Folders::default();
        let place = folders.make(&path, &mut drop)?;
        let made = place.make_folder();
        match made {
            Ok(()) => {
                place.folder().sync();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match place.metadata() {
                Ok(metadata) if metadata.is_dir() => Ok(false),
                Ok(_) | Err(_) => Err(FileError::ParentIsFile {
                    path: path.display_path().into(),
                    parent: path.display_path().into(),
                }),
            },
            Err(source) => Err(FileError::io("create", path.display_path(), source)),
        }
    })
    .await
}

/// Something that stands in a folder, with all that is in it, locked and loaded.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The entry itself: the link where the path names one.
    entry: ResolvedPath,
    /// Its files and links.
    files: Vec<(LockedFile, Arc<Snapshot>)>,
    /// Its folders, each after the one that it lies in; itself first if it is one.
    folders: Vec<ResolvedPath>,
}

/// What was found, before it is locked.
#[derive(Clone, Debug)]
pub struct Found {
    entry: ResolvedPath,
    files: Vec<ResolvedPath>,
    folders: Vec<ResolvedPath>,
}

impl Found {
    /// Returns the entry itself.
    pub fn entry(&self) -> &ResolvedPath {
        &self.entry
    }

    /// Returns its files and links.
    pub fn files(&self) -> &[ResolvedPath] {
        &self.files
    }

    /// Says whether it is a folder.
    pub fn is_folder(&self) -> bool {
        !self.folders.is_empty()
    }
}

/// Resolves a path to what stands there: to the link itself, if it is one. It may lie outside.
///
/// # Errors
/// The path is too long.
pub async fn entry(workspace: &Arc<Workspace>, written: String) -> Result<ResolvedPath, FileError> {
    let targets = Target::resolve_all(workspace, vec![written]).await?;
    let mut entries = targets.into_iter().map(Target::entry_or_file);
    Ok(entries.next().expect("one path has one target"))
}

/// Finds all that an entry is and has in it.
///
/// # Errors
/// Nothing is there, a part of it is neither a file, a folder nor a link, it is more than [`MAX_ENTRIES`] and [`MAX_BYTES`] take,
/// or what the operating system says.
pub async fn find(
    workspace: &Arc<Workspace>,
    entry: ResolvedPath,
    cancelled: &CancellationToken,
) -> Result<Found, FileError> {
    let missing = || FileError::NotFound {
        path: entry.display_path().into(),
        suggestions: Vec::new(),
    };
    let facts = match entry.names_link() {
        true => None,
        false => Some(tree::look(&entry).await?.ok_or_else(missing)?),
    };
    match facts.map(|facts| (facts.kind, facts.size)) {
        None | Some((EntryKind::Link, _)) => Ok(Found::file(entry)),
        Some((EntryKind::File, size)) if size <= MAX_BYTES => Ok(Found::file(entry)),
        Some((EntryKind::File, size)) => Err(too_large(&entry, size)),
        Some((EntryKind::Other, _)) => Err(special(&entry)),
        Some((EntryKind::Folder, _)) => folder(workspace, entry, cancelled).await,
    }
}

impl Found {
    fn file(entry: ResolvedPath) -> Self {
        Self {
            files: vec![entry.clone()],
            folders: Vec::new(),
            entry,
        }
    }

    /// Locks the files and loads them.
    ///
    /// # Errors
    /// One of them cannot be loaded.
    pub async fn load(self, files: &Files) -> Result<Whole, FileError> {
        let mut loaded = Vec::with_capacity(self.files.len());
        for file in files.lock_all(self.files).await {
            let snapshot = file.load().await?;
            if !snapshot.exists() {
                return Err(FileError::Swapped {
                    path: file.path().display_path().into(),
                });
            }
            loaded.push((file, snapshot));
        }
        Ok(Whole {
            entry: self.entry,
            files: loaded,
            folders: self.folders,
        })
    }
}

async fn folder(
    workspace: &Arc<Workspace>,
    entry: ResolvedPath,
    cancelled: &CancellationToken,
) -> Result<Found, FileError> {
    let wanted = Wanted {
        depth: MAX_DEPTH,
        ignored: true,
        after: None,
        most: MAX_ENTRIES,
    };
    let page = tree::list(&entry, wanted, |_| false, cancelled.clone()).await?;
    if page.more {
        return Err(FileError::TooManyEntries {
            path: entry.display_path().into(),
            limit: MAX_ENTRIES,
        });
    }
    let mut bytes = 0_u64;
    let written = page.entries.iter().map(|below| {
        let path = entry.display_path().join(&below.relative);
        path.into_os_string().into_string()
    });
    let written: Result<Vec<String>, _> = written.collect();
    let written = written.map_err(|path| FileError::Special {
        path: path.into(),
        kind: "file whose name is not UTF-8",
    })?;
    let targets = Target::resolve_all(workspace, written).await?;
    let (mut files, mut folders) = (Vec::new(), vec![entry.clone()]);
    for (below, target) in page.entries.iter().zip(targets) {
        let path = target.entry_or_file();
        // A folder that was left out, or one that nobody has looked into, would go unseen.
        if below.closed || (below.facts.kind == EntryKind::Folder && below.relative.iter().count() >= MAX_DEPTH) {
            return Err(FileError::io(
                "list",
                path.display_path(),
                io::ErrorKind::PermissionDenied.into(),
            ));
        }
        if !path.real().starts_with(entry.real()) {
            return Err(FileError::Swapped {
                path: path.display_path().into(),
            });
        }
        match below.facts.kind {
            EntryKind::Other => return Err(special(&path)),
            EntryKind::Folder => folders.push(path),
            EntryKind::File | EntryKind::Link => {
                bytes = bytes.saturating_add(below.facts.size);
                files.push(path);
            }
        }
    }
    if bytes > MAX_BYTES {
        return Err(too_large(&entry, bytes));
    }
    Ok(Found { entry, files, folders })
}

fn special(path: &ResolvedPath) -> FileError {
    FileError::Special {
        path: path.display_path().into(),
        kind: "pipe, socket or device",
    }
}

fn too_large(path: &ResolvedPath, size: u64) -> FileError {
    FileError::TooLarge {
        attempt: "change",
        path: path.display_path().into(),
        size,
        limit: MAX_BYTES,
    }
}

impl Whole {
    /// Returns the entry itself.
    pub fn entry(&self) -> &ResolvedPath {
        &self.entry
    }

    /// Returns its files and links with their contents.
    pub fn files(&self) -> &[(LockedFile, Arc<Snapshot>)] {
        &self.files
    }

    /// Returns what deletes its files.
    pub fn removal(&self) -> Vec<Replacement> {
        let gone = |(file, old): &(LockedFile, Arc<Snapshot>)| Replacement {
            file: file.clone(),
            old: old.clone(),
            new: None,
        };
        self.files.iter().map(gone).collect()
    }

    /// Deletes its folders, whose files are gone.
    ///
    /// # Errors
    /// Something has come into one of them; it stays, and those above it.
    pub async fn remove_folders(&self) -> Result<(), FileError> {
        let folders = self.folders.clone();
        blocking(move || {
            for folder in folders.iter().rev() {
                let place = Folders::default().find(folder)?;
                let removed = place.map_or(Ok(()), |place| place.remove_folder());
                removed.map_err(|source| FileError::io("delete", folder.display_path(), source))?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the paths of its files as they are called when it is renamed, in the order of [`Self::files`].
    ///
    /// # Errors
    /// [`FileError::Interrupted`] only.
    pub async fn renamed(&self, workspace: &Arc<Workspace>, to: &ResolvedPath) -> Result<Vec<ResolvedPath>, FileError> {
        let (entry, to) = (self.entry.real().to_path_buf(), to.display_path().to_path_buf());
        let files: Vec<PathBuf> = self.files.iter().map(|(file, _)| file.path().real().into()).collect();
        let workspace = Arc::clone(workspace);
        blocking(move || {
            let renamed = files.iter().map(|file| {
                let below = file.strip_prefix(&entry).unwrap_or(file);
                let to = if below.as_os_str().is_empty() {
                    to.clone()
                } else {
                    to.join(below)
                };
                workspace.resolve(to)
            });
            Ok(renamed.collect())
        })
        .await
    }

    /// Says what [`Self::rename`] will do: each file goes from one path and comes to another.
    pub fn planned_changes(&self, renamed: &[ResolvedPath]) -> Vec<PlannedChange> {
        let both = self.files.iter().zip(renamed).flat_map(|((file, old), to)| {
            let went = file.planned(old.version(), None);
            let came = PlannedChange {
                path: to.real().into(),
                shown: to.display_path().into(),
                before: None,
                after: old.version(),
            };
            [went, came]
        });
        both.collect()
    }

    /// Renames it to a path where nothing is, folders above that included.
    ///
    /// # Errors
    /// Something is there, it is no more what it was, or what the operating system says.
    pub async fn rename(&self, to: &ResolvedPath) -> Result<(), FileError> {
        let (this, to) = (self.clone(), to.clone());
        blocking(move || {
            let mut folders = Folders::default();
            for (file, old) in &this.files {
                let place = folders.find(file.path())?;
                snapshot::expect_at(file.path(), place.as_ref(), old)?;
            }
            let shown = this.entry.display_path();
            if !this.entry.names_link() && path::follow(shown) != this.entry.real() {
                return Err(FileError::Swapped { path: shown.into() });
            }
            let from = folders.find(&this.entry)?;
            let gone = || FileError::io("move", shown, io::ErrorKind::NotFound.into());
            let from = from.ok_or_else(gone)?;
            let place = folders.make(&to, &mut drop)?;
            let renamed = from.rename_new(&place);
            renamed.map_err(|source| FileError::io("move", to.display_path(), source))?;
            from.folder().sync();
            place.folder().sync();
            Ok(())
        })
        .await
    }
}
