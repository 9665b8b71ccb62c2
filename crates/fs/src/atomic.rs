//! Replacing the content of a file in one step.
//!
//! *Invariant:* whoever looks sees the old content or the new one, whole, also after a crash or with the disk full.
//! The new file is written beside the old one, made durable and renamed over it, with the old one's mode and, where
//! the system lets us, owner. Only where the folder does not take a new file is the old one rewritten in place.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{FallocateFlags, Gid, OFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::ResolvedPath;
use super::error::FileError;
use super::place::{Folder, Place, Temp, set_mode};
use super::snapshot::Snapshot;
use super::version::LINK_MODE;

/// Names of temporary files begin with this. One that is left over belongs to a service that was killed while it
/// wrote, and may be deleted.
pub const TEMP_PREFIX: &str = ".toolgate-";

/// Names of temporary files end with this.
pub const TEMP_SUFFIX: &str = ".tmp";

/// Temporary files live for the moments between two renames. One that nobody has touched for this long belongs to a process
/// that is gone; the age and not a process id says so, because services on several machines may share a folder.
const LEFT_OVER_AFTER: Duration = Duration::from_secs(10 * 60);

/// Entries of a folder that are looked at in search of left-over files; it is a courtesy, not a duty.
const MAX_SWEPT: usize = 4096;

/// The kernel's limit for the names of all extended attributes of a file, and for one value.
const MAX_ATTRIBUTES: usize = 64 << 10;

/// New content for a file, written and durable beside it: what is left to fail is a rename.
pub(super) struct Staged<'a> {
    path: &'a ResolvedPath,
    place: Place,
    bytes: &'a [u8],
    old: &'a Snapshot,
    mode: Option<u32>,
    /// None where the folder does not take a new file.
    temp: Option<Temp>,
}

/// The file whose attributes, owner and mode another one gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Like<'a> {
    /// The file; none if it cannot be opened.
    pub(super) file: Option<&'a File>,
    /// Its metadata.
    pub(super) metadata: &'a Metadata,
}

/// Prepares that `bytes` come to the place of a path, which now holds `old`. The file gets `mode`, or keeps its own; a new
/// file has the one that the system gives to new files. Dropped, it leaves no file behind.
pub(super) fn stage<'a>(
    place: Place,
    path: &'a ResolvedPath,
    bytes: &'a [u8],
    old: &'a Snapshot,
    mode: Option<u32>,
) -> Result<Staged<'a>, FileError> {
    let failed = |source| FileError::io("write", path.display_path(), source);
    let temp = |like| match mode {
        Some(LINK_MODE) => Temp::link(place.folder(), temp_name(), bytes).map_err(plain),
        mode => stage_temp(place.folder(), bytes, like, mode),
    };
    let temp = match old.metadata() {
        None => Some(temp(None).map_err(failed)?),
        // A link has no rights of its own, and nothing of it comes to a file that takes its place.
        Some(metadata) if metadata.is_symlink() => Some(temp(None).map_err(failed)?),
        Some(metadata) => {
            refuse_read_only(&place).map_err(failed)?;
            let file = place.open(OFlags::RDONLY).ok();
            let like = Like {
                file: file.as_ref(),
                metadata,
            };
            match temp(Some(like)) {
                Err(error) if folder_does_not_take(&error) && mode != Some(LINK_MODE) => None,
                staged => Some(staged.map_err(failed)?),
            }
        }
    };
    Ok(Staged {
        path,
        place,
        bytes,
        old,
        mode,
        temp,
    })
}

impl Staged<'_> {
    /// Puts the content in its place and returns the new file's metadata.
    pub(super) fn commit(self) -> Result<Metadata, FileError> {
        let may_be_rewritten = self.may_be_rewritten();
        let place = &self.place;
        let in_place = || write_in_place(place, self.bytes, self.old.bytes(), self.mode);
        let done = match self.temp {
            None => in_place(),
            // Fails if the file appeared meanwhile: what nobody has looked at is not overwritten.
            Some(temp) if !self.old.exists() => temp.persist_new(place).and_then(|()| finish(place)),
            Some(temp) => match temp.persist(place) {
                Err(error) if folder_does_not_take(&error) && may_be_rewritten => in_place(),
                done => done.and_then(|()| finish(place)),
            },
        };
        done.map_err(|source| FileError::io("write", self.path.display_path(), source))
    }

    /// Links are only ever replaced.
    fn may_be_rewritten(&self) -> bool {
        let is_link = self.old.metadata().is_some_and(Metadata::is_symlink);
        !is_link && self.mode != Some(LINK_MODE)
    }
}

/// Returns a name for a temporary file that says whose it is, and that nobody can guess.
fn temp_name() -> String {
    let random = uuid::Uuid::now_v7().simple();
    format!("{TEMP_PREFIX}{}-{random}{TEMP_SUFFIX}", std::process::id())
}

/// Returns a name for a file that was put aside: it is left over only when it is old, whoever has put it there.
pub(super) fn aside_name() -> String {
    format!("{TEMP_PREFIX}{}{TEMP_SUFFIX}", uuid::Uuid::now_v7().simple())
}

/// Leaves the number of an error out of its text, as it is in those that have none.
pub(super) fn plain(error: io::Error) -> io::Error {
    error.kind().into()
}

/// Writes `bytes` to a durable temporary file in `folder`, ready to be renamed. `like` is the file whose attributes,
/// owner and mode it gets; without one it gets what any program's new file gets. `mode` is stronger.
pub(super) fn stage_temp(
    folder: &Arc<Folder>,
    bytes: &[u8],
    like: Option<Like<'_>>,
    mode: Option<u32>,
) -> io::Result<Temp> {
    // The umask applies to a new file's mode.
    let created = if like.is_some() { 0o600 } else { 0o666 };
    let (temp, mut file) = Temp::file(folder, temp_name(), created).map_err(plain)?;
    file.write_all(bytes)?;
    match (like, mode) {
        (Some(like), mode) => resemble(&file, like, mode)?,
        // The file belongs to the service now, so the rights of another owner must not come back with it.
        (None, Some(mode)) => set_mode(&file, mode & 0o1777)?,
        (None, None) => {}
    }
    file.sync_all()?;
    Ok(temp)
}

fn resemble(file: &File, like: Like<'_>, mode: Option<u32>) -> io::Result<()> {
    if let Some(old) = like.file {
        copy_attributes(old, file);
    }
    // The owner first, because changing it clears set-user-id bits. Only root may give files away; for everybody
    // else the new file is theirs, as with any editor that renames.
    let owner = Uid::from_raw(like.metadata.uid());
    let group = Gid::from_raw(like.metadata.gid());
    let mut mode = mode.unwrap_or(like.metadata.mode()) & 0o7777;
    if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
        let _ = rustix::fs::fchown(file, None, Some(group));
        // Under another owner these bits would give somebody else's rights to what a model wrote.
        mode &= 0o1777;
    }
    set_mode(file, mode)
}

fn finish(place: &Place) -> io::Result<Metadata> {
    place.folder().sync();
    place.metadata()
}

/// Copies extended attributes, access control lists among them, as far as the system lets us. Capabilities belong to the
/// content that they were given for, so those stay behind, as they do when a file is written in place.
fn copy_attributes(from: &File, to: &File) {
    let mut names = vec![0; MAX_ATTRIBUTES];
    let mut value = vec![0; MAX_ATTRIBUTES];
    let Ok(length) = rustix::fs::flistxattr(from, names.as_mut_slice()) else {
        return;
    };
    for name in names[..length].split(|&byte| byte == 0) {
        if name.is_empty() || name == b"security.capability" {
            continue;
        }
        if let Ok(length) = rustix::fs::fgetxattr(from, name, value.as_mut_slice()) {
            let _ = rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty());
        }
    }
}

/// A rename needs no right to the old file, so a file that was made read-only must be asked for it.
pub(super) fn refuse_read_only(place: &Place) -> io::Result<()> {
    match place.check_writable() {
        // Where the system cannot say, the rename decides.
        Ok(()) | Err(Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Says whether the file itself may still be written: the folder is read-only or sticky, or the file is a mount point.
/// By kind, because errors of temporary files carry no number.
pub(super) fn folder_does_not_take(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::ResourceBusy
    )
}

/// Rewrites the file itself. Space is reserved before the first byte changes, and the old content is put back if
/// writing fails all the same.
pub(super) fn write_in_place(place: &Place, bytes: &[u8], old: &[u8], mode: Option<u32>) -> io::Result<Metadata> {
    let mut file = place.open(OFlags::WRONLY)?;
    if !file.metadata()?.is_file() {
        return Err(Errno::LOOP.into());
    }
    if bytes.len() > old.len() {
        match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes.len() as u64) {
            // Not every file system can reserve; writing then finds out.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Err(error) = overwrite(&mut file, bytes) {
        let _ = overwrite(&mut file, old);
        return Err(error);
    }
    if let Some(mode) = mode {
        set_mode(&file, mode & 0o7777)?;
    }
    file.metadata()
}

fn overwrite(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    io::Seek::rewind(file)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

/// Deletes what services that were killed while they wrote have left in a folder, and returns how many files that were.
pub(super) fn sweep_folder(folder: &Arc<Folder>) -> usize {
    sweep_changed_before(folder, SystemTime::now() - LEFT_OVER_AFTER)
}

/// Deletes what processes of this machine that are gone have left in `folder`, however young: for the folders in which a
/// service was killed that is started again. The path holds no links.
pub fn sweep_dead(folder: &Path) -> usize {
    let is_dead = |_: &Place, middle: &str| {
        let pid = middle.split_once('-').and_then(|(pid, _)| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    Folder::open(None, folder).map_or(0, |folder| sweep(&Arc::new(folder), is_dead))
}

fn sweep_changed_before(folder: &Arc<Folder>, before: SystemTime) -> usize {
    let before = before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // The time of the last change of the inode, which a rename sets too: an old file that was put aside a moment ago
    // still has the time at which its content was written.
    sweep(folder, |place, _| {
        (place.metadata()).is_ok_and(|found| {
            !found.is_dir() && u64::try_from(found.ctime()).is_ok_and(|time| time < before.as_secs())
        })
    })
}

/// Deletes the temporary files of a folder that are left over, judged by where they are and the middle of their names.
fn sweep(folder: &Arc<Folder>, is_left_over: impl Fn(&Place, &str) -> bool) -> usize {
    let names = folder.names(MAX_SWEPT).unwrap_or_default();
    let is_deleted = |name: &OsStr| {
        let middle = name.as_bytes().strip_prefix(TEMP_PREFIX.as_bytes());
        let middle = middle.and_then(|rest| rest.strip_suffix(TEMP_SUFFIX.as_bytes()));
        let Some(middle) = middle.and_then(|middle| std::str::from_utf8(middle).ok()) else {
            return false;
        };
        let place = Place::new(folder, name);
        is_left_over(&place, middle) && place.remove().is_ok()
    };
    names.iter().filter(|name| is_deleted(name)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(folder: &tempfile::TempDir) -> Arc<Folder> {
        Arc::new(Folder::open(None, &folder.path().canonicalize().unwrap()).unwrap())
    }

    #[test]
    fn in_place_keeps_the_file_and_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "old content").unwrap();
        let number = file.metadata().unwrap().ino();
        for text in ["new", "something that is longer than before", ""] {
            let old = std::fs::read(&file).unwrap();
            let place = Place::new(&opened(&folder), "a");
            let metadata = write_in_place(&place, text.as_bytes(), &old, None).unwrap();
            assert_eq!((metadata.ino(), metadata.len()), (number, text.len() as u64));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn a_new_file_never_covers_another() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "theirs").unwrap();
        let opened = opened(&folder);
        let staged = stage_temp(&opened, b"mine", None, None).unwrap();
        assert!(staged.persist_new(&Place::new(&opened, "a")).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn what_fails_before_the_rename_leaves_the_old_file_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "old").unwrap();
        let metadata = file.metadata().unwrap();
        let like = Like {
            file: None,
            metadata: &metadata,
        };
        std::fs::create_dir(folder.path().join("gone")).unwrap();
        let gone = Arc::new(Place::new(&opened(&folder), "gone").enter().unwrap());
        std::fs::remove_dir(folder.path().join("gone")).unwrap();
        assert!(stage_temp(&gone, b"new", Some(like), None).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    }

    #[test]
    fn extended_attributes_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "old").unwrap();
        if rustix::fs::setxattr(&file, "user.note", b"kept", XattrFlags::empty()).is_err() {
            return; // This file system has none.
        }
        let place = Place::new(&opened(&folder), "a");
        let like = Like {
            file: Some(&place.open(OFlags::RDONLY).unwrap()),
            metadata: &file.metadata().unwrap(),
        };
        let staged = stage_temp(place.folder(), b"new", Some(like), None).unwrap();
        staged.persist(&place).unwrap();
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&file, "user.note", value.as_mut_slice()).unwrap();
        assert_eq!(&value[..length], b"kept");
    }

    #[test]
    fn left_over_files_are_swept_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [".toolgate-abc.tmp", ".toolgate-notes", "a.tmp"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::create_dir(at(".toolgate-folder.tmp")).unwrap();
        let opened = opened(&folder);
        assert_eq!(sweep_folder(&opened), 0, "it may still be written");
        let soon = SystemTime::now() + Duration::from_secs(5);
        assert_eq!(sweep_changed_before(&opened, soon), 1);
        assert!(!at(".toolgate-abc.tmp").exists() && at(".toolgate-notes").exists() && at("a.tmp").exists());
        assert!(at(".toolgate-folder.tmp").exists());
    }
}
