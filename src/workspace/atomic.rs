//! Replacing the content of a file in one step.
//!
//! *Invariant:* whoever looks sees the old content or the new one, whole, also after a crash or with the disk full.
//! The new file is written beside the old one, made durable and renamed over it, with the old one's mode and, where
//! the system lets us, owner. Only where the folder does not take a new file is the old one rewritten in place.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, AtFlags, CWD, FallocateFlags, Gid, OFlags, Uid, XattrFlags};
use rustix::io::Errno;
use tempfile::{NamedTempFile, PathPersistError, TempPath};

use super::changes::LINK_MODE;
use super::error::FileError;
use super::files::Snapshot;
use super::{ResolvedPath, open};

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
    bytes: &'a [u8],
    old: &'a Snapshot,
    mode: Option<u32>,
    /// None where the folder does not take a new file.
    temp: Option<TempPath>,
}

/// Prepares that `bytes` come to the real path, which now holds `old`; makes the folders above it. The file gets `mode`,
/// or keeps its own; a new file has the one that the system gives to new files. Dropped, it leaves no file behind.
pub(super) fn stage<'a>(
    path: &'a ResolvedPath,
    bytes: &'a [u8],
    old: &'a Snapshot,
    mode: Option<u32>,
) -> Result<Staged<'a>, FileError> {
    open::check_not_swapped(path)?;
    let failed = |source| FileError::io("write", path.shown(), source);
    let real = path.real();
    let folder = real.parent().ok_or_else(|| FileError::IsFolder { path: real.into() })?;
    let temp = |like| match mode {
        Some(LINK_MODE) => link_temp(folder, bytes),
        mode => stage_temp(folder, bytes, like, mode).map(NamedTempFile::into_temp_path),
    };
    let temp = match old.metadata() {
        None => {
            std::fs::create_dir_all(folder).map_err(failed)?;
            Some(temp(None).map_err(failed)?)
        }
        // A link has no rights of its own, and nothing of it comes to a file that takes its place.
        Some(metadata) if metadata.is_symlink() => Some(temp(None).map_err(failed)?),
        Some(metadata) => {
            refuse_read_only(real).map_err(failed)?;
            match temp(Some((real, metadata))) {
                Err(error) if folder_does_not_take(&error) && mode != Some(LINK_MODE) => None,
                staged => Some(staged.map_err(failed)?),
            }
        }
    };
    Ok(Staged {
        path,
        bytes,
        old,
        mode,
        temp,
    })
}

impl Staged<'_> {
    /// Puts the content in its place and returns the new file's metadata.
    pub(super) fn commit(self) -> Result<Metadata, FileError> {
        let real = self.path.real();
        let may_be_rewritten = self.may_be_rewritten();
        let in_place = || write_in_place(real, self.bytes, self.old.bytes(), self.mode);
        let done = match self.temp {
            None => in_place(),
            // Fails if the file appeared meanwhile: what nobody has looked at is not overwritten.
            Some(temp) if !self.old.exists() => finish(real, temp.persist_noclobber(real)),
            Some(temp) => match finish(real, temp.persist(real)) {
                Err(error) if folder_does_not_take(&error) && may_be_rewritten => in_place(),
                done => done,
            },
        };
        done.map_err(|source| FileError::io("write", self.path.shown(), source))
    }

    /// Links are only ever replaced.
    fn may_be_rewritten(&self) -> bool {
        let is_link = self.old.metadata().is_some_and(Metadata::is_symlink);
        !is_link && self.mode != Some(LINK_MODE)
    }
}

/// Makes a link under a temporary name.
fn link_temp(folder: &Path, to: &[u8]) -> io::Result<TempPath> {
    let link = tempfile::Builder::new()
        .prefix(&format!("{TEMP_PREFIX}{}-", std::process::id()))
        .suffix(TEMP_SUFFIX)
        .make_in(folder, |name| std::os::unix::fs::symlink(OsStr::from_bytes(to), name))
        .map_err(|error| io::Error::from(error.kind()))?;
    Ok(link.into_temp_path())
}

/// Writes `bytes` to a durable temporary file in `folder`, ready to be renamed. `like` is the file whose attributes,
/// owner and mode it gets, with its metadata; without one it gets what any program's new file gets. `mode` is stronger.
pub(super) fn stage_temp(
    folder: &Path,
    bytes: &[u8],
    like: Option<(&Path, &Metadata)>,
    mode: Option<u32>,
) -> io::Result<NamedTempFile> {
    // The umask applies to a new file's mode.
    let file = temp_file(folder, if like.is_some() { 0o600 } else { 0o666 }, bytes)?;
    match (like, mode) {
        (Some((real, metadata)), mode) => resemble(file.as_file(), real, metadata, mode)?,
        // The file belongs to the service now, so the rights of another owner must not come back with it.
        (None, Some(mode)) => file.as_file().set_permissions(Permissions::from_mode(mode & 0o1777))?,
        (None, None) => {}
    }
    file.as_file().sync_all()?;
    Ok(file)
}

fn resemble(file: &File, real: &Path, old: &Metadata, mode: Option<u32>) -> io::Result<()> {
    copy_attributes(real, file);
    // The owner first, because changing it clears set-user-id bits. Only root may give files away; for everybody
    // else the new file is theirs, as with any editor that renames.
    let owner = Uid::from_raw(old.uid());
    let group = Gid::from_raw(old.gid());
    let mut mode = mode.unwrap_or(old.mode()) & 0o7777;
    if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
        let _ = rustix::fs::fchown(file, None, Some(group));
        // Under another owner these bits would give somebody else's rights to what a model wrote.
        mode &= 0o1777;
    }
    file.set_permissions(Permissions::from_mode(mode))
}

fn finish(real: &Path, persisted: Result<(), PathPersistError>) -> io::Result<Metadata> {
    persisted.map_err(|error| error.error)?;
    if let Some(folder) = real.parent() {
        sync_folder(folder);
    }
    real.symlink_metadata()
}

/// Copies extended attributes, access control lists among them, as far as the system lets us. Capabilities belong to the
/// content that they were given for, so those stay behind, as they do when a file is written in place.
fn copy_attributes(from: &Path, to: &File) {
    let mut names = vec![0; MAX_ATTRIBUTES];
    let mut value = vec![0; MAX_ATTRIBUTES];
    let Ok(length) = rustix::fs::listxattr(from, names.as_mut_slice()) else {
        return;
    };
    for name in names[..length].split(|&byte| byte == 0) {
        if name.is_empty() || name == b"security.capability" {
            continue;
        }
        if let Ok(length) = rustix::fs::getxattr(from, name, value.as_mut_slice()) {
            let _ = rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty());
        }
    }
}

fn temp_file(folder: &Path, mode: u32, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(&format!("{TEMP_PREFIX}{}-", std::process::id()))
        .suffix(TEMP_SUFFIX)
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)
        // The name of a file that was never made would only confuse.
        .map_err(|error| io::Error::from(error.kind()))?;
    file.as_file_mut().write_all(bytes)?;
    Ok(file)
}

/// Makes the rename durable. Some file systems cannot sync a folder; the content is safe either way, so this is only
/// attempted.
pub(super) fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// A rename needs no right to the old file, so a file that was made read-only must be asked for it.
pub(super) fn refuse_read_only(real: &Path) -> io::Result<()> {
    match rustix::fs::accessat(CWD, real, Access::WRITE_OK, AtFlags::EACCESS) {
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
pub(super) fn write_in_place(real: &Path, bytes: &[u8], old: &[u8], mode: Option<u32>) -> io::Result<Metadata> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut file = OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(real)?;
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
        file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
    }
    file.metadata()
}

fn overwrite(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    io::Seek::rewind(file)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

/// Deletes what services that were killed while they wrote have left in `folder`, and returns how many files that were.
pub fn sweep_folder(folder: &Path) -> usize {
    sweep_changed_before(folder, SystemTime::now() - LEFT_OVER_AFTER)
}

/// Deletes what processes of this machine that are gone have left in `folder`, however young: for the folders in which a
/// service was killed that is started again.
pub fn sweep_dead(folder: &Path) -> usize {
    let Ok(entries) = folder.read_dir() else { return 0 };
    let is_dead = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let middle = name
            .strip_prefix(TEMP_PREFIX)
            .and_then(|rest| rest.strip_suffix(TEMP_SUFFIX));
        let pid = middle
            .and_then(|middle| middle.split_once('-'))
            .and_then(|(pid, _)| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    entries
        .take(MAX_SWEPT)
        .flatten()
        .filter(|entry| is_dead(entry) && std::fs::remove_file(entry.path()).is_ok())
        .count()
}

fn sweep_changed_before(folder: &Path, before: SystemTime) -> usize {
    let Ok(entries) = folder.read_dir() else { return 0 };
    let is_ours = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        name.starts_with(TEMP_PREFIX.as_bytes()) && name.ends_with(TEMP_SUFFIX.as_bytes())
    };
    let before = before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // The time of the last change of the inode, which a rename sets too: an old file that was put aside a moment ago
    // still has the time at which its content was written.
    let is_old = |entry: &std::fs::DirEntry| {
        (entry.metadata()).is_ok_and(|found| {
            !found.is_dir() && u64::try_from(found.ctime()).is_ok_and(|time| time < before.as_secs())
        })
    };
    entries
        .take(MAX_SWEPT)
        .flatten()
        .filter(|entry| is_ours(entry) && is_old(entry))
        .filter(|entry| std::fs::remove_file(entry.path()).is_ok())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_place_keeps_the_file_and_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "old content").unwrap();
        let number = file.metadata().unwrap().ino();
        for text in ["new", "something that is longer than before", ""] {
            let old = std::fs::read(&file).unwrap();
            let metadata = write_in_place(&file, text.as_bytes(), &old, None).unwrap();
            assert_eq!((metadata.ino(), metadata.len()), (number, text.len() as u64));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn a_new_file_never_covers_another() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "theirs").unwrap();
        let staged = stage_temp(folder.path(), b"mine", None, None).unwrap().into_temp_path();
        assert!(finish(&file, staged.persist_noclobber(&file)).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn what_fails_before_the_rename_leaves_the_old_file_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "old").unwrap();
        let metadata = file.metadata().unwrap();
        let gone = folder.path().join("gone");
        assert!(stage_temp(&gone, b"new", Some((&file, &metadata)), None).is_err());
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
        let staged = stage_temp(folder.path(), b"new", Some((&file, &file.metadata().unwrap())), None).unwrap();
        finish(&file, staged.into_temp_path().persist(&file)).unwrap();
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
        assert_eq!(sweep_folder(folder.path()), 0, "it may still be written");
        let soon = SystemTime::now() + Duration::from_secs(5);
        assert_eq!(sweep_changed_before(folder.path(), soon), 1);
        assert!(!at(".toolgate-abc.tmp").exists() && at(".toolgate-notes").exists() && at("a.tmp").exists());
        assert!(at(".toolgate-folder.tmp").exists());
    }
}
