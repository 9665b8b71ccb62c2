//! Opening what a path was resolved to, and nothing else, without ever waiting for it.
//!
//! *Invariant:* only regular files and folders are opened, and the opened descriptor is checked, not the path. A real
//! path holds no links, so none is followed ([`super::beneath`]): a link put in the way after the path was resolved and
//! approved is an error, not a way out of the workspace.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::error::FileError;
use super::place::{Folders, Place};
use super::{ResolvedPath, beneath, path};

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing, as far as the service can see.
    Missing,
    /// A regular file.
    Regular,
    /// A folder.
    Folder,
    /// A pipe, socket or device; the word for it.
    Special(&'static str),
}

impl Kind {
    fn from_metadata(metadata: &Metadata) -> Self {
        let file_type = metadata.file_type();
        if file_type.is_file() {
            Self::Regular
        } else if file_type.is_dir() {
            Self::Folder
        } else if file_type.is_fifo() {
            Self::Special("named pipe")
        } else if file_type.is_socket() {
            Self::Special("socket")
        } else if file_type.is_symlink() {
            Self::Special("link that leads nowhere")
        } else {
            Self::Special("device")
        }
    }
}

/// A regular file or a folder, open for reading.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) metadata: Metadata,
    pub(super) is_folder: bool,
}

/// Says whether a file or folder belongs to the service's user or to root; if it is a link, both ends must.
pub fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let own = |metadata: Metadata| metadata.uid() == user || metadata.uid() == 0;
    path.symlink_metadata().is_ok_and(own) && path.metadata().is_ok_and(own)
}

/// Says whether the kernel knows the way to something from memory, so that looking at it waits for no disk and no server.
pub fn is_at_hand(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).is_ok()
}

/// Says whether a folder is on a file system that waits for nothing but this machine's own disks. One that another program or
/// another machine serves may wait for them for ever, also to say which one it is: blocking.
pub(super) fn is_local(folder: &Path) -> bool {
    // ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs, overlayfs.
    const LOCAL: [u32; 7] = [
        0xEF53,
        0x5846_5342,
        0x9123_683E,
        0xF2F5_2010,
        0x2FC1_2FC1,
        0x0102_1994,
        0x794C_7630,
    ];
    rustix::fs::statfs(folder).is_ok_and(|on| LOCAL.iter().any(|kind| i128::from(*kind) == i128::from(on.f_type)))
}

/// Opens a regular file on the file system of its workspace if the kernel has the way to it in memory; none where that would wait.
pub(super) fn open_cached(path: &ResolvedPath) -> Option<(File, Metadata)> {
    let open = |flags| beneath::open_cached(path.root()?, path.real(), flags).map(File::from);
    // Looked at first, as in `open`.
    let is_regular = |metadata: &Metadata| Kind::from_metadata(metadata) == Kind::Regular;
    open(OFlags::PATH)?.metadata().ok().filter(is_regular)?;
    let file = open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let metadata = file.metadata().ok().filter(is_regular)?;
    Some((file, metadata))
}

/// Returns what is at the real path, without opening it.
pub(super) fn kind_of(path: &ResolvedPath) -> Kind {
    match path.real().symlink_metadata() {
        Ok(metadata) => Kind::from_metadata(&metadata),
        Err(_) => Kind::Missing,
    }
}

/// Opens the real path for reading, or returns `None` if nothing is there.
pub(super) fn open(path: &ResolvedPath) -> Result<Option<Opened>, FileError> {
    let shown = path.display_path();
    // Looked at before it is opened because opening alone may already do something to a device or a pipe's writer.
    match path.real().symlink_metadata() {
        Ok(metadata) => refuse_special(shown, &metadata)?,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(source) => return Err(FileError::io("open", shown, source)),
    }
    // O_NONBLOCK: should a pipe take the place of the file at this moment, opening it still returns at once.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = beneath::open(path.root(), path.real(), flags).map(File::from);
    opened(shown, file.map_err(io::Error::from))
}

/// Opens what is at the place of a path for reading, or returns `None` if nothing is there.
pub(super) fn open_at(path: &ResolvedPath, place: &Place) -> Result<Option<Opened>, FileError> {
    let shown = path.display_path();
    match place.metadata() {
        Ok(metadata) => refuse_special(shown, &metadata)?,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(source) => return Err(FileError::io("open", shown, source)),
    }
    opened(shown, place.open(OFlags::RDONLY))
}

fn opened(shown: &Path, file: io::Result<File>) -> Result<Option<Opened>, FileError> {
    let file = match file {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(source) => return Err(FileError::io("open", shown, source)),
    };
    let metadata = file
        .metadata()
        .map_err(|source| FileError::io("look at", shown, source))?;
    refuse_special(shown, &metadata)?;
    let is_folder = metadata.is_dir();
    Ok(Some(Opened {
        file,
        metadata,
        is_folder,
    }))
}

/// Returns where the link leads that the path names, with its metadata; `None` if there is none.
pub(super) fn read_link(path: &ResolvedPath) -> Result<Option<(PathBuf, Metadata)>, FileError> {
    let place = Folders::default().find(path)?;
    place.map_or(Ok(None), |place| read_link_at(path, &place))
}

/// As [`read_link`], at the place of the path.
pub(super) fn read_link_at(path: &ResolvedPath, place: &Place) -> Result<Option<(PathBuf, Metadata)>, FileError> {
    if !path.names_link() {
        return Ok(None);
    }
    match place.metadata() {
        Ok(metadata) if metadata.is_symlink() => {
            let to = place.read_link();
            let to = to.map_err(|source| FileError::io("read", path.display_path(), source))?;
            Ok(Some((to, metadata)))
        }
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Fails if the path that people were shown leads elsewhere by now: what they approved was the file behind it.
pub(super) fn check_leads_there(path: &ResolvedPath) -> Result<(), FileError> {
    if path::follow(path.display_path()) == path.real() {
        Ok(())
    } else {
        Err(FileError::Swapped {
            path: path.display_path().into(),
        })
    }
}

fn refuse_special(shown: &Path, metadata: &Metadata) -> Result<(), FileError> {
    match Kind::from_metadata(metadata) {
        Kind::Special(kind) => Err(FileError::Special {
            path: shown.into(),
            kind,
        }),
        Kind::Missing | Kind::Regular | Kind::Folder => Ok(()),
    }
}

/// Says whether the error means that nothing is at the path; a file where a folder should be counts.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workspace;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open("w", &folder.path().canonicalize().unwrap(), None).unwrap();
        (folder, workspace)
    }

    #[test]
    fn pipes_sockets_and_devices_are_refused_at_once() {
        let (folder, workspace) = workspace();
        rustix::fs::mknodat(
            CWD,
            folder.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        let check = |written: &str, expected: &str| match open(&workspace.resolve(written)) {
            Err(FileError::Special { kind, .. }) => assert_eq!(kind, expected, "{written}"),
            other => panic!("{written}: {other:?}"),
        };
        check("pipe", "named pipe");
        check("socket", "socket");
        check("/dev/zero", "device");
    }

    #[test]
    fn a_link_that_came_later_is_not_followed() {
        let (folder, workspace) = workspace();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        std::fs::write(folder.path().join("in/a.txt"), "a").unwrap();
        let path = workspace.resolve("in/a.txt");
        assert!(open(&path).unwrap().is_some());
        std::fs::rename(folder.path().join("in"), folder.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("moved", folder.path().join("in")).unwrap();
        assert!(matches!(open(&path), Err(FileError::Swapped { .. })));
        assert!(matches!(Folders::default().find(&path), Err(FileError::Swapped { .. })));
        assert!(matches!(check_leads_there(&path), Err(FileError::Swapped { .. })));
    }

    #[test]
    fn a_circle_of_links_is_an_error_and_a_hole_is_nothing() {
        let (folder, workspace) = workspace();
        std::os::unix::fs::symlink("b", folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(open(&workspace.resolve("a")).is_err());
        assert!(open(&workspace.resolve("none")).unwrap().is_none());
        assert!(open(&workspace.resolve("file/below")).unwrap().is_none());
    }
}
