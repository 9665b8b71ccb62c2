//! Folders that are removed with all that is in them.
//!
//! *Invariant:* no link is followed. However deep a folder is, only so many are open at a time: what lies deeper is moved up, beside
//! the folder that is being removed, and removed after it.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::place::{self, Folder, Place};

/// Folders in folders, as many as are open at a time.
const MAX_DEPTH: usize = 100;

/// A folder for what is to be removed.
pub(super) struct Bin {
    folder: Arc<Folder>,
    root: PathBuf,
}

impl Bin {
    /// Opens one below a root, which is made if it is missing.
    pub(super) fn open(root: &Path, path: &Path) -> io::Result<Self> {
        Ok(Self {
            folder: Arc::new(place::make_folder(Some(root), path, &mut |_| {})?),
            root: root.to_path_buf(),
        })
    }

    /// Returns a place in it where nothing is.
    pub(super) fn place(&self) -> Place {
        Place::new(&self.folder, uuid::Uuid::now_v7().to_string())
    }

    /// Removes a file or a folder below the same root, with all that is in it, unless `stop` says so. What is not there is removed.
    pub(super) fn remove(&self, path: &Path, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let above = match Folder::open(Some(&self.root), path.parent().unwrap_or(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            above => Arc::new(above?),
        };
        let mut removal = Removal {
            bin: self,
            stop,
            deep: vec![Place::new(&above, path.file_name().unwrap_or_default())],
        };
        while let Some(place) = removal.deep.pop() {
            removal.remove(&place, 0)?;
        }
        Ok(())
    }
}

struct Removal<'a> {
    bin: &'a Bin,
    stop: &'a dyn Fn() -> bool,
    /// What is to be removed yet.
    deep: Vec<Place>,
}

impl Removal<'_> {
    fn remove(&mut self, place: &Place, depth: usize) -> io::Result<()> {
        if (self.stop)() {
            return Err(ErrorKind::Interrupted.into());
        }
        let removed = match place.metadata() {
            Ok(found) if found.is_dir() => self.remove_folder(place, depth),
            Ok(_) => place.remove(),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn remove_folder(&mut self, place: &Place, depth: usize) -> io::Result<()> {
        // Caches of some toolchains are made read-only.
        open_up(place)?;
        if depth == MAX_DEPTH {
            let to = self.bin.place();
            place.rename_new(&to)?;
            self.deep.push(to);
            return Ok(());
        }
        let folder = Arc::new(place.enter()?);
        for name in folder.names(usize::MAX)? {
            self.remove(&Place::new(&folder, name), depth + 1)?;
        }
        place.remove_folder()
    }
}

/// Lets the owner change a folder.
fn open_up(place: &Place) -> io::Result<()> {
    let opened = place.open(OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY)?;
    let mode = opened.metadata()?.permissions().mode();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    // What was opened only as a name is changed by that name alone.
    let opened = format!("/proc/self/fd/{}", opened.as_raw_fd());
    fs::set_permissions(opened, Permissions::from_mode(mode | 0o700))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_goes_however_deep_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("kept")).unwrap();
        fs::write(root.join("kept/file"), "").unwrap();
        fs::create_dir(root.join("tree")).unwrap();
        let mut inner = Arc::new(Folder::open(Some(&root), &root.join("tree")).unwrap());
        for _ in 0..1500 {
            let place = Place::new(&inner, "d".repeat(20));
            place.make_folder().unwrap();
            inner = Arc::new(place.enter().unwrap());
        }
        symlink("../kept", root.join("tree/link")).unwrap();
        fs::write(root.join("tree/file"), "").unwrap();
        fs::create_dir(root.join("tree/closed")).unwrap();
        fs::write(root.join("tree/closed/file"), "").unwrap();
        fs::set_permissions(root.join("tree/closed"), Permissions::from_mode(0o0)).unwrap();
        let bin = Bin::open(&root, &root.join("+gone")).unwrap();
        bin.remove(&root.join("tree"), &|| false).unwrap();
        assert!(!root.join("tree").exists() && root.join("kept/file").exists());
        assert_eq!(fs::read_dir(root.join("+gone")).unwrap().count(), 0);
        bin.remove(&root.join("tree"), &|| false).unwrap();
        bin.remove(&root.join("none/at/all"), &|| false).unwrap();
    }
}
