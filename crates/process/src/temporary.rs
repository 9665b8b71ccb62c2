//! Temporary folders of a service, and the removal of those that killed services left.
//!
//! *Invariant:* a folder is locked while its service lives. What is removed belongs to this user, has the name and the lock
//! file of such a folder, and nobody holds the lock: nothing else in the folder for temporary files is touched.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

/// What the name of every folder begins with, and how many characters follow.
const PREFIX: &str = "toolgate-";
const RANDOM: usize = 6;

/// The file that is locked.
const LOCK: &str = ".lock";

/// How long a folder without a lock file is left alone. One is locked right after it is made.
const UNLOCKED: Duration = Duration::from_secs(60);

/// How often a folder is made anew that another service took for a dead one's before it was locked.
const ATTEMPTS: usize = 10;

/// A folder that only this user can enter, removed when this is dropped, or by a later service.
#[derive(Debug)]
pub struct Temporary {
    folder: TempDir,
    /// Held for its lock.
    _lock: File,
}

impl Temporary {
    /// Makes one where temporary files belong. Blocking.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> io::Result<Self> {
        let mut last = io::Error::other("no attempt was made");
        for _ in 0..ATTEMPTS {
            // Made with mode 0700.
            let folder = tempfile::Builder::new()
                .prefix(PREFIX)
                .rand_bytes(RANDOM)
                .tempdir_in(parent)?;
            match locked(&folder) {
                Ok(lock) => return Ok(Self { folder, _lock: lock }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes it.
    ///
    /// # Errors
    /// Something in it cannot be removed.
    pub fn close(self) -> io::Result<()> {
        self.folder.close()
    }
}

fn locked(folder: &TempDir) -> io::Result<File> {
    let path = folder.path().join(LOCK);
    let lock = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    lock.try_lock().map_err(io::Error::from)?;
    // Gone if another service took it for a dead one's meanwhile.
    fs::metadata(&path)?;
    Ok(lock)
}

/// Removes the folders that dead services left where temporary files belong. Returns how many. Blocking.
pub fn sweep_temporary() -> usize {
    sweep(&std::env::temp_dir())
}

fn sweep(parent: &Path) -> usize {
    let user = rustix::process::getuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let names = entries.filter(|entry| is_ours(entry.file_name().as_encoded_bytes()));
    names.filter(|entry| remove_dead(&entry.path(), user)).count()
}

fn is_ours(name: &[u8]) -> bool {
    let random = name.strip_prefix(PREFIX.as_bytes());
    random.is_some_and(|random| random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric))
}

fn remove_dead(folder: &Path, user: u32) -> bool {
    let is_own = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == user);
    if !is_own {
        return false;
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let lock = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(folder.join(LOCK));
    match lock {
        Ok(lock) if lock.try_lock().is_err() => return false,
        // Killed before it could lock its folder: then there is nothing in it yet. A young one may be about to be locked.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return is_old(folder) && fs::remove_dir(folder).is_ok();
        }
        Err(_) => return false,
        // Held until the folder is gone.
        Ok(lock) => match fs::remove_dir_all(folder) {
            Ok(()) => drop(lock),
            Err(error) => {
                tracing::debug!(folder = %folder.display(), %error, "a folder of a dead service stays");
                return false;
            }
        },
    }
    tracing::debug!(folder = %folder.display(), "removed the temporary folder of a dead service");
    true
}

fn is_old(folder: &Path) -> bool {
    let made = fs::symlink_metadata(folder).and_then(|found| found.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age >= UNLOCKED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_services_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let alive = Temporary::below(parent.path()).unwrap();
        fs::write(alive.path().join("toolgate.sock"), "").unwrap();
        let dead = Temporary::below(parent.path()).unwrap();
        fs::create_dir_all(dead.path().join("0/deep")).unwrap();
        fs::write(dead.path().join("0/deep/file"), "").unwrap();
        // As after SIGKILL: the lock is gone and the folder is not.
        let Temporary {
            mut folder,
            _lock: lock,
        } = dead;
        folder.disable_cleanup(true);
        drop(lock);
        fs::create_dir(path("toolgate-abcdef")).unwrap();
        let long_ago = std::time::SystemTime::now() - UNLOCKED * 2;
        let unlocked = File::open(path("toolgate-abcdef")).unwrap();
        unlocked.set_modified(long_ago).unwrap();
        // May be about to be locked.
        fs::create_dir(path("toolgate-ghijkl")).unwrap();
        // Others' things.
        fs::create_dir(path("toolgate-backup")).unwrap();
        fs::write(path("toolgate-backup/kept"), "").unwrap();
        fs::create_dir(path("toolgate-123456")).unwrap();
        fs::write(path("toolgate-123456/kept"), "").unwrap();
        let target = tempfile::tempdir().unwrap();
        fs::write(target.path().join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(target.path(), path("toolgate-linked")).unwrap();
        std::os::unix::fs::symlink(target.path(), path("toolgate-linkxx")).unwrap();

        assert_eq!(sweep(parent.path()), 2);
        assert!(alive.path().join("toolgate.sock").exists());
        assert!(!folder.path().exists() && !path("toolgate-abcdef").exists());
        assert!(path("toolgate-ghijkl").exists());
        assert!(path("toolgate-backup/kept").exists() && path("toolgate-123456/kept").exists());
        assert!(target.path().join(LOCK).exists() && path("toolgate-linked").exists());
        alive.close().unwrap();
        assert_eq!(sweep(parent.path()), 0);
    }
}
