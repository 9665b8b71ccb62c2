//! Changing files: look at a file under its lock, decide, and replace it if it is still what was looked at.
//!
//! *Invariant:* nothing is replaced but through a [`LockedFile`], and never if the file is not what the decision was
//! made from. The folder that it stands in is opened once, before that last comparison, and everything after it is done
//! in that folder. Between the comparison and the rename another program could still change the file itself; closing that
//! gap would need the cooperation of that program.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use serde_json::Value;

use super::blocking::blocking;
use super::diff::{self, FileDiff};
use super::error::{FileError, MAX_PATH};
use super::locks::{FileGuard, FileLocks};
use super::marks::{self, ReadMark};
use super::open::{self, Kind};
use super::place::{Folders, Place};
use super::snapshot;
pub use super::snapshot::{MAX_LOADED, Snapshot};
use super::text::split_bom;
use super::{ResolvedPath, Workspace, atomic};

/// A tree of more empty folders than this is somebody's.
const MAX_EMPTY_FOLDERS: usize = 64;

/// A path as written by a model, resolved, with what was there at that moment.
#[derive(Clone, Debug)]
pub struct Located {
    /// The path.
    pub path: ResolvedPath,
    /// What is there.
    pub kind: Kind,
    /// Whether it lies in the workspace, and that on this machine's own disks.
    pub is_local: bool,
}

/// Resolves a path that a model wrote and looks what is there, without opening it. Nothing of what it finds may be
/// told to the model before the path is approved.
///
/// # Errors
/// The path is too long.
pub async fn locate(workspace: &Arc<Workspace>, written: String) -> Result<Located, FileError> {
    if written.len() > MAX_PATH {
        return Err(FileError::PathTooLong { length: written.len() });
    }
    let look = |workspace: &Workspace, written: &str| {
        let path = workspace.resolve(written);
        Located {
            kind: open::kind_of(&path),
            is_local: workspace.is_local() && path.root().is_some(),
            path,
        }
    };
    // Handing it to a thread that may wait, and back, takes ten times as long as looking.
    if open::is_at_hand(&workspace.display_path(&written)) {
        return Ok(look(workspace, &written));
    }
    let workspace = Arc::clone(workspace);
    blocking(move || Ok(look(&workspace, &written))).await
}

/// The files that tools change: their locks and the read-before-write rule. One for the whole service.
#[derive(Debug)]
pub struct Files {
    locks: FileLocks,
    check_reads: bool,
}

impl Files {
    /// Makes it. Without `check_reads` files may be overwritten unread; they are still compared before they are
    /// replaced.
    pub fn new(check_reads: bool) -> Self {
        Self {
            locks: FileLocks::default(),
            check_reads,
        }
    }

    /// Waits for the lock of a file.
    pub async fn lock(&self, path: ResolvedPath) -> LockedFile {
        let guard = self.locks.lock(path.real()).await;
        LockedFile {
            path: Arc::new(path),
            _guard: Arc::new(guard),
        }
    }

    /// Waits for the locks of several files, in the order of their real paths so that two callers never wait for each
    /// other. A real path that comes twice is locked once, under its first spelling.
    pub async fn lock_all(&self, mut paths: Vec<ResolvedPath>) -> Vec<LockedFile> {
        paths.sort_by(|a, b| a.real().cmp(b.real()));
        paths.dedup_by(|a, b| a.real() == b.real());
        let mut locked = Vec::with_capacity(paths.len());
        for path in paths {
            locked.push(self.lock(path).await);
        }
        locked
    }

    /// Fails if the session may not change the file: it has not read it, or it read something else. `mark` is the
    /// session's fact [`ReadMark::key`] of the real path. What does not exist needs no reading.
    ///
    /// # Errors
    /// [`FileError::Unread`], [`FileError::Modified`].
    pub fn check_read(&self, mark: Option<Value>, path: &ResolvedPath, current: &Snapshot) -> Result<(), FileError> {
        let Some(metadata) = current.metadata().filter(|_| self.check_reads) else {
            return Ok(());
        };
        // A mark that cannot be understood is as good as none: the model reads the file again.
        let Some(mark) = mark.and_then(|mark| serde_json::from_value::<ReadMark>(mark).ok()) else {
            return Err(FileError::Unread {
                path: path.display_path().into(),
            });
        };
        if mark.matches(current.sha256(), metadata) {
            Ok(())
        } else {
            Err(snapshot::modified(path, Some(metadata), mark.read_at()))
        }
    }
}

/// A file whose lock is held; the only way to change one. Clones share the lock.
#[derive(Clone, Debug)]
pub struct LockedFile {
    path: Arc<ResolvedPath>,
    _guard: Arc<FileGuard>,
}

impl LockedFile {
    /// Returns the file's path.
    pub fn path(&self) -> &ResolvedPath {
        &self.path
    }

    /// Returns what is at the path now.
    ///
    /// # Errors
    /// It is a folder, a pipe or a device, above [`MAX_LOADED`], not readable, or cannot be created where it is.
    pub async fn load(&self) -> Result<Arc<Snapshot>, FileError> {
        let path = Arc::clone(&self.path);
        blocking(move || Snapshot::take(&path).map(Arc::new)).await
    }

    /// As [`Self::load`], but a folder that holds nothing, or only such folders, counts as no file, and is told.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub async fn load_or_empty_folder(&self) -> Result<(Arc<Snapshot>, bool), FileError> {
        let path = Arc::clone(&self.path);
        blocking(move || {
            let place = Folders::default().find(&path)?;
            let is_empty = place.as_ref().is_some_and(|place| empty_folders(place).is_some());
            let snapshot = if is_empty {
                Snapshot::nothing()
            } else {
                Snapshot::take_at(&path, place.as_ref())?
            };
            Ok((Arc::new(snapshot), is_empty))
        })
        .await
    }

    /// Deletes the folder at the path if it holds nothing, or only such folders.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn remove_empty_folder(&self) -> Result<(), FileError> {
        let path = Arc::clone(&self.path);
        blocking(move || {
            let place = Folders::default().find(&path)?;
            let folders = place.as_ref().and_then(empty_folders).unwrap_or_default();
            for folder in folders.iter().rev() {
                let removed = folder.remove_folder();
                removed.map_err(|source| FileError::io("delete", path.display_path(), source))?;
            }
            Ok(())
        })
        .await
    }

    /// Compares what was at the path with what is to be there, for the person who is asked. Byte order marks are left
    /// out, and what is not UTF-8 is shown as U+FFFD.
    ///
    /// # Errors
    /// [`FileError::Interrupted`] only.
    pub async fn diff(&self, old: &Arc<Snapshot>, new: &Bytes) -> Result<FileDiff, FileError> {
        let (path, old, new) = (Arc::clone(&self.path), Arc::clone(old), new.clone());
        blocking(move || {
            let (old, new) = (String::from_utf8_lossy(old.bytes()), String::from_utf8_lossy(&new));
            Ok(diff::unified(path.display_path(), split_bom(&old).1, split_bom(&new).1))
        })
        .await
    }

    /// Writes `bytes` to the path, atomically, folders above included, and returns the mark for the session; provided
    /// that the path still holds what `expected` has. Once begun it goes on to the end, and keeps the lock until
    /// then, even if the caller goes away.
    ///
    /// # Errors
    /// [`FileError::Modified`], or what the operating system says; the file then is what it was before.
    pub async fn replace(&self, expected: Arc<Snapshot>, bytes: Bytes) -> Result<ReadMark, FileError> {
        let this = self.clone();
        blocking(move || {
            open::check_leads_there(&this.path)?;
            let mut folders = Folders::default();
            let place = folders.find(&this.path)?;
            snapshot::expect_at(&this.path, place.as_ref(), &expected)?;
            let place = place.map_or_else(|| folders.make(&this.path, &mut drop), Ok)?;
            let metadata = atomic::stage(place, &this.path, &bytes, &expected, None)?.commit()?;
            Ok(ReadMark::new(&metadata, Some(marks::sha256(&bytes)), SystemTime::now()))
        })
        .await
    }

    /// Deletes the file; provided that it still is what `expected` has.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub async fn remove(&self, expected: Arc<Snapshot>) -> Result<(), FileError> {
        let this = self.clone();
        blocking(move || {
            open::check_leads_there(&this.path)?;
            let place = Folders::default().find(&this.path)?;
            snapshot::expect_at(&this.path, place.as_ref(), &expected)?;
            this.delete_at(place.as_ref())
        })
        .await
    }

    /// Deletes the file at its place, whatever it is now.
    pub(super) fn delete_at(&self, place: Option<&Place>) -> Result<(), FileError> {
        let removed = place.map_or_else(|| Err(io::ErrorKind::NotFound.into()), Place::remove);
        removed.map_err(|source| FileError::io("delete", self.path.display_path(), source))
    }
}

/// Returns the places of a folder and of those in it, from the outside in, if there is nothing else in them.
fn empty_folders(folder: &Place) -> Option<Vec<Place>> {
    let mut folders = vec![folder.clone()];
    let mut at = 0;
    while let Some(place) = folders.get(at) {
        // Only a folder can be entered.
        let folder = Arc::new(place.enter().ok()?);
        let room = MAX_EMPTY_FOLDERS - folders.len();
        let names = folder.names(room + 1).ok()?;
        if names.len() > room {
            return None;
        }
        folders.extend(names.into_iter().map(|name| Place::new(&folder, name)));
        at += 1;
    }
    Some(folders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    struct Place {
        folder: tempfile::TempDir,
        workspace: Arc<Workspace>,
        files: Files,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            let workspace = Arc::new(Workspace::open("w", &root, None).unwrap());
            Self {
                folder,
                workspace,
                files: Files::new(true),
            }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn text(&self, name: &str) -> String {
            std::fs::read_to_string(self.at(name)).unwrap()
        }

        async fn lock(&self, name: &str) -> LockedFile {
            self.files.lock(self.workspace.resolve(name)).await
        }

        async fn replace(&self, name: &str, text: &'static str) -> Result<ReadMark, FileError> {
            let file = self.lock(name).await;
            let old = file.load().await?;
            file.replace(old, Bytes::from_static(text.as_bytes())).await
        }

        fn leftovers(&self) -> usize {
            let names = self.folder.path().read_dir().unwrap();
            names
                .filter(|entry| {
                    let name = entry.as_ref().unwrap().file_name();
                    name.to_string_lossy().starts_with(atomic::TEMP_PREFIX)
                })
                .count()
        }
    }

    #[tokio::test]
    async fn creates_and_replaces() {
        let place = Place::new();
        place.replace("a/b/c.txt", "one").await.unwrap();
        assert_eq!(place.text("a/b/c.txt"), "one");
        std::fs::set_permissions(place.at("a/b/c.txt"), std::fs::Permissions::from_mode(0o4751)).unwrap();
        place.replace("a/b/c.txt", "two").await.unwrap();
        assert_eq!(place.text("a/b/c.txt"), "two");
        let mode = place.at("a/b/c.txt").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o4751);
        assert_eq!(place.leftovers(), 0);
    }

    #[tokio::test]
    async fn writes_through_links() {
        let place = Place::new();
        std::fs::write(place.at("target"), "old").unwrap();
        std::os::unix::fs::symlink("target", place.at("link")).unwrap();
        std::os::unix::fs::symlink("fresh", place.at("dangling")).unwrap();
        place.replace("link", "new").await.unwrap();
        place.replace("dangling", "made").await.unwrap();
        assert_eq!(
            (place.text("target"), place.text("fresh")),
            ("new".to_owned(), "made".to_owned())
        );
        assert!(place.at("link").is_symlink() && place.at("dangling").is_symlink());
    }

    #[tokio::test]
    async fn refuses_what_is_no_file() {
        let place = Place::new();
        std::fs::create_dir(place.at("folder")).unwrap();
        std::fs::write(place.at("file"), "").unwrap();
        assert!(matches!(
            place.replace("folder", "").await,
            Err(FileError::IsFolder { .. })
        ));
        let below = place.replace("file/a/b", "").await;
        assert!(matches!(below, Err(FileError::ParentIsFile { parent, .. }) if parent.ends_with("file")));
        assert!(matches!(
            place.replace("/dev/null", "").await,
            Err(FileError::Special { .. })
        ));
        let written = "x/".repeat(3000);
        let located = locate(&place.workspace, written).await;
        assert!(matches!(located, Err(FileError::PathTooLong { length: 6000 })));
    }

    #[tokio::test]
    async fn writes_only_over_what_was_looked_at() {
        let place = Place::new();
        let file = place.lock("a").await;
        let nothing = file.load().await.unwrap();
        std::fs::write(place.at("a"), "appeared").unwrap();
        let result = file.replace(Arc::clone(&nothing), Bytes::from_static(b"mine")).await;
        assert!(matches!(result, Err(FileError::Modified { .. })));
        let appeared = file.load().await.unwrap();
        std::fs::write(place.at("a"), "changed").unwrap();
        let result = file.replace(appeared, Bytes::from_static(b"mine")).await;
        assert!(matches!(result, Err(FileError::Modified { .. })));
        assert_eq!(place.text("a"), "changed");
        let changed = file.load().await.unwrap();
        // Touched, and even replaced by a file with the same content: still the same.
        std::fs::remove_file(place.at("a")).unwrap();
        std::fs::write(place.at("a"), "changed").unwrap();
        file.remove(Arc::clone(&changed)).await.unwrap();
        assert!(matches!(file.remove(changed).await, Err(FileError::Modified { .. })));
        file.replace(nothing, Bytes::from_static(b"new")).await.unwrap();
        assert_eq!(place.text("a"), "new");
    }

    #[tokio::test]
    async fn a_mark_allows_what_it_was_made_from() {
        let place = Place::new();
        let mark = serde_json::to_value(place.replace("a", "one").await.unwrap()).unwrap();
        let check = async |mark: Option<Value>| {
            let file = place.lock("a").await;
            place.files.check_read(mark, file.path(), &file.load().await.unwrap())
        };
        assert!(check(Some(mark.clone())).await.is_ok());
        assert!(matches!(check(None).await, Err(FileError::Unread { .. })));
        assert!(matches!(
            check(Some(Value::from("?"))).await,
            Err(FileError::Unread { .. })
        ));
        std::fs::write(place.at("a"), "two").unwrap();
        assert!(matches!(
            check(Some(mark.clone())).await,
            Err(FileError::Modified { .. })
        ));
        let unchecked = Files::new(false);
        let file = unchecked.lock(place.workspace.resolve("a")).await;
        assert!(
            unchecked
                .check_read(None, file.path(), &file.load().await.unwrap())
                .is_ok()
        );
        std::fs::remove_file(place.at("a")).unwrap();
        assert!(check(None).await.is_ok(), "what does not exist needs no reading");
    }

    #[tokio::test]
    async fn several_files_are_locked_once_each_in_one_order() {
        let place = Place::new();
        std::fs::write(place.at("a"), "").unwrap();
        std::os::unix::fs::symlink("a", place.at("link")).unwrap();
        let paths = ["b", "link", "a"].map(|name| place.workspace.resolve(name));
        let locked = place.files.lock_all(paths.to_vec()).await;
        let names: Vec<_> = locked
            .iter()
            .map(|file| file.path().real().file_name().unwrap())
            .collect();
        assert_eq!(names, ["a", "b"]);
    }
}
