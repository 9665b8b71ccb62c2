//! Where a file is, or will be: a folder that was opened once, and a name in it.
//!
//! *Invariant:* whatever is done to a place is done in the opened folder, by the name, and a link of that name is never
//! followed. So a folder that is renamed, or swapped for a link, while a file is written takes the file with it; nothing
//! is ever written to where the link leads.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::error::FileError;
use super::{ResolvedPath, beneath, open};

/// Folders that one change has open at once; each takes a file descriptor of the whole service's.
const MAX_FOLDERS: usize = 512;

/// A folder that was opened.
#[derive(Debug)]
pub(super) struct Folder {
    opened: OwnedFd,
    /// What it was called then, for people.
    path: PathBuf,
}

impl Folder {
    /// Opens a folder by a path without links.
    pub(super) fn open(root: Option<&Path>, real: &Path) -> io::Result<Self> {
        Ok(Self {
            opened: beneath::open(root, real, beneath::ON_THE_WAY)?,
            path: real.into(),
        })
    }

    fn enter(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self {
            opened: beneath::open_entry(self.opened.as_fd(), name, beneath::ON_THE_WAY)?,
            path: self.path.join(name),
        })
    }

    fn readable(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.opened, c".", flags, Mode::empty())
    }

    /// Returns the names in it, as many as are wanted.
    pub(super) fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.readable()?)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if names.len() == most {
                break;
            }
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Makes its entries durable. Some file systems cannot sync a folder; contents are safe either way, so this is only
    /// attempted.
    pub(super) fn sync(&self) {
        let _ = self.readable().and_then(rustix::fs::fsync);
    }
}

/// A name in an open folder.
#[derive(Clone, Debug)]
pub(super) struct Place {
    folder: Arc<Folder>,
    name: OsString,
}

impl Place {
    /// Returns the place of a name in a folder.
    pub(super) fn new(folder: &Arc<Folder>, name: impl Into<OsString>) -> Self {
        Self {
            folder: Arc::clone(folder),
            name: name.into(),
        }
    }

    /// Returns the folder.
    pub(super) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Returns what it was called when its folder was opened.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// Returns the metadata of what is there; of a link, its own.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = rustix::fs::openat(&self.folder.opened, &*self.name, flags, Mode::empty())?;
        File::from(entry).metadata()
    }

    /// Opens what is there without waiting for it: should a pipe have come, it returns at once.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = beneath::open_entry(self.folder.opened.as_fd(), &self.name, flags)?;
        Ok(File::from(opened))
    }

    /// Opens the folder that is there.
    pub(super) fn enter(&self) -> io::Result<Folder> {
        self.folder.enter(&self.name)
    }

    /// Returns where the link leads that is there.
    pub(super) fn read_link(&self) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.folder.opened, &*self.name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Fails if the service's user may not write to the file that is there.
    pub(super) fn check_writable(&self) -> rustix::io::Result<()> {
        rustix::fs::accessat(&self.folder.opened, &*self.name, Access::WRITE_OK, AtFlags::EACCESS)
    }

    /// Deletes the file, or the link.
    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.folder.opened,
            &*self.name,
            AtFlags::empty(),
        )?)
    }

    /// Makes a folder there.
    pub(super) fn make_folder(&self) -> io::Result<()> {
        let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        Ok(rustix::fs::mkdirat(&self.folder.opened, &*self.name, mode)?)
    }

    /// Deletes the folder that is there, if it is empty.
    pub(super) fn remove_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.folder.opened,
            &*self.name,
            AtFlags::REMOVEDIR,
        )?)
    }

    fn rename(&self, to: &Self) -> io::Result<()> {
        let (from, into) = (&self.folder.opened, &to.folder.opened);
        Ok(rustix::fs::renameat(from, &*self.name, into, &*to.name)?)
    }

    /// Renames to a place where nothing is.
    pub(super) fn rename_new(&self, to: &Self) -> io::Result<()> {
        let (from, into) = (&self.folder.opened, &to.folder.opened);
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(from, &*self.name, into, &*to.name, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            done => return Ok(done?),
        }
        // A link is made only where nothing is, too. Not every file system has them.
        match rustix::fs::linkat(from, &*self.name, into, &*to.name, AtFlags::empty()) {
            Ok(()) => self.remove(),
            Err(Errno::EXIST) => Err(Errno::EXIST.into()),
            Err(_) if to.metadata().is_ok() => Err(Errno::EXIST.into()),
            Err(_) => self.rename(to),
        }
    }

    /// Exchanges what is here and there.
    pub(super) fn exchange(&self, with: &Self) -> rustix::io::Result<()> {
        let (from, into) = (&self.folder.opened, &with.folder.opened);
        rustix::fs::renameat_with(from, &*self.name, into, &*with.name, RenameFlags::EXCHANGE)
    }
}

/// A place that is emptied when this is dropped.
#[derive(Debug)]
pub(super) struct Temp {
    place: Place,
    is_kept: bool,
}

impl Temp {
    fn new(folder: &Arc<Folder>, name: impl Into<OsString>) -> Self {
        Self {
            place: Place::new(folder, name),
            is_kept: false,
        }
    }

    /// Makes a file. Its name and its mode, within the umask, are given.
    pub(super) fn file(folder: &Arc<Folder>, name: String, mode: u32) -> io::Result<(Self, File)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder.opened, &*name, flags, Mode::from_raw_mode(mode))?;
        Ok((Self::new(folder, name), File::from(file)))
    }

    /// Makes a link.
    pub(super) fn link(folder: &Arc<Folder>, name: String, to: &[u8]) -> io::Result<Self> {
        rustix::fs::symlinkat(OsStr::from_bytes(to), &folder.opened, &*name)?;
        Ok(Self::new(folder, name))
    }

    /// Gives what is at a place another name beside it.
    pub(super) fn aside(place: &Place, name: String) -> io::Result<Self> {
        let aside = Place::new(&place.folder, name);
        place.rename_new(&aside)?;
        Ok(Self {
            place: aside,
            is_kept: false,
        })
    }

    /// Returns where it is.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Leaves it where it is.
    pub(super) fn keep(mut self) -> Place {
        self.is_kept = true;
        self.place.clone()
    }

    /// Renames it to a place, and over what is there.
    pub(super) fn persist(mut self, to: &Place) -> io::Result<()> {
        self.place.rename(to)?;
        self.is_kept = true;
        Ok(())
    }

    /// Renames it to a place where nothing is.
    pub(super) fn persist_new(mut self, to: &Place) -> io::Result<()> {
        self.place.rename_new(to)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = self.place.remove();
        }
    }
}

/// The folders that one change of files has to do with, each opened once.
#[derive(Debug, Default)]
pub(super) struct Folders(HashMap<PathBuf, Arc<Folder>>);

impl Folders {
    /// Returns the place of a path; `None` if the folder that it would stand in is not there.
    pub(super) fn find(&mut self, path: &ResolvedPath) -> Result<Option<Place>, FileError> {
        let (above, name) = parts(path)?;
        if let Some(folder) = self.0.get(above) {
            return Ok(Some(Place::new(folder, name)));
        }
        match Folder::open(path.root(), above) {
            Ok(folder) => self.keep(path, folder).map(|folder| Some(Place::new(&folder, name))),
            Err(error) if open::is_missing(&error) => Ok(None),
            Err(source) => Err(FileError::io("open", path.display_path(), source)),
        }
    }

    /// Returns the place of a path and makes the folders that are missing, each told to `made`.
    pub(super) fn make(&mut self, path: &ResolvedPath, made: &mut dyn FnMut(Place)) -> Result<Place, FileError> {
        if let Some(place) = self.find(path)? {
            return Ok(place);
        }
        let (above, name) = parts(path)?;
        let folder = make_folder(path.root(), above, made);
        let folder = folder.map_err(|source| FileError::io("write", path.display_path(), source))?;
        let folder = self.keep(path, folder)?;
        Ok(Place::new(&folder, name))
    }

    /// Makes what was done in all of them durable.
    pub(super) fn sync(&self) {
        self.0.values().for_each(|folder| folder.sync());
    }

    fn keep(&mut self, path: &ResolvedPath, folder: Folder) -> Result<Arc<Folder>, FileError> {
        if self.0.len() >= MAX_FOLDERS {
            return Err(FileError::TooManyFolders {
                path: path.display_path().into(),
                limit: MAX_FOLDERS,
            });
        }
        let folder = Arc::new(folder);
        self.0.insert(folder.path.clone(), Arc::clone(&folder));
        Ok(folder)
    }
}

fn parts(path: &ResolvedPath) -> Result<(&Path, &OsStr), FileError> {
    let real = path.real();
    let parts = real.parent().zip(real.file_name());
    parts.ok_or_else(|| FileError::IsFolder {
        path: path.display_path().into(),
    })
}

/// Makes a folder and those above it, one in the other, and opens it.
pub(super) fn make_folder(root: Option<&Path>, real: &Path, made: &mut dyn FnMut(Place)) -> io::Result<Folder> {
    let mut missing = Vec::new();
    let mut at = real;
    let mut folder = loop {
        match (Folder::open(root, at), at.parent().zip(at.file_name())) {
            (Ok(folder), _) => break folder,
            (Err(error), Some((above, name))) if error.kind() == io::ErrorKind::NotFound => {
                missing.push(name);
                at = above;
            }
            (Err(error), _) => return Err(error),
        }
    };
    for name in missing.into_iter().rev() {
        let above = Arc::new(folder);
        match rustix::fs::mkdirat(&above.opened, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
            Ok(()) => made(Place::new(&above, name)),
            // Somebody else was faster, and may keep it.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        folder = above.enter(name)?;
    }
    Ok(folder)
}

/// Sets the permission bits of an open file.
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workspace;

    fn workspace() -> (tempfile::TempDir, PathBuf, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = Workspace::open("w", &root, None).unwrap();
        (folder, root, workspace)
    }

    #[test]
    fn folders_are_made_one_in_the_other_and_told() {
        let (_folder, root, workspace) = workspace();
        std::fs::create_dir(root.join("a")).unwrap();
        let (path, mut made) = (workspace.resolve("a/b/c/file"), Vec::new());
        let mut folders = Folders::default();
        assert!(folders.find(&path).unwrap().is_none());
        let place = folders.make(&path, &mut |folder| made.push(folder.path())).unwrap();
        assert_eq!(made, [root.join("a/b"), root.join("a/b/c")]);
        assert_eq!(place.path(), root.join("a/b/c/file"));
        std::os::unix::fs::symlink("b", root.join("a/link")).unwrap();
        std::fs::rename(root.join("a/b"), root.join("a/moved")).unwrap();
        std::fs::rename(root.join("a/link"), root.join("a/b")).unwrap();
        let swapped = Folders::default().make(&path, &mut drop);
        assert!(matches!(swapped, Err(FileError::Swapped { .. })));
        // What was opened stays what it is.
        Temp::file(place.folder(), "file".to_owned(), 0o600).unwrap().0.keep();
        assert!(root.join("a/moved/c/file").exists());
    }

    #[test]
    fn what_is_there_is_never_covered_by_what_is_new() {
        let (_folder, root, workspace) = workspace();
        std::fs::write(root.join("old"), "old").unwrap();
        let place = Folders::default().find(&workspace.resolve("old")).unwrap().unwrap();
        let (temp, _) = Temp::file(place.folder(), "temp".to_owned(), 0o600).unwrap();
        assert_eq!(
            temp.persist_new(&place).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert!(!root.join("temp").exists(), "what is dropped is gone");
        assert_eq!(std::fs::read(root.join("old")).unwrap(), b"old");
        std::os::unix::fs::symlink("old", root.join("link")).unwrap();
        let link = Place::new(place.folder(), "link");
        assert_eq!(link.read_link().unwrap(), Path::new("old"));
        assert!(link.metadata().unwrap().is_symlink() && link.open(OFlags::RDONLY).is_err());
    }

    #[test]
    fn one_change_has_a_bounded_number_of_folders_open() {
        let (_folder, _, workspace) = workspace();
        let mut folders = Folders::default();
        for index in 0..MAX_FOLDERS {
            let path = workspace.resolve(format!("{index}/file"));
            folders.make(&path, &mut drop).unwrap();
        }
        let one_more = folders.make(&workspace.resolve("more/file"), &mut drop);
        assert!(matches!(one_more, Err(FileError::TooManyFolders { .. })));
        assert!(folders.make(&workspace.resolve("0/other"), &mut drop).is_ok());
    }
}
