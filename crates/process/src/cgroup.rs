//! Control groups, version 2: one for each call where the kernel lets us, so that ending a call is one write and its
//! emptiness one read.
//!
//! The groups lie in a folder of this service below its own group. They hold processes and no limits, so no controller
//! is needed, and nothing changes for the group that the service is in. Where any of it is refused the tags do alone.
//!
//! *Invariant:* a group that is handed out is empty and was never killed: Linux 6.18 kills whatever is born in a group
//! that once was. The folder is locked while its service lives, which tells the next
//! service, in whatever process namespace, what a dead one left.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Pid;

/// What the name of every service's folder begins with.
const PREFIX: &str = "toolgate-";

/// Empty groups that are kept for the next call.
const MAX_IDLE: usize = 8;

/// How deep groups that programs made inside theirs are removed: as deep as a path can name them.
const MAX_DEPTH: usize = 128;

/// How often and how far apart the folder of a dead service is tried, once what was in it has been killed.
const REMOVALS: (u32, Duration) = (50, Duration::from_millis(10));

/// The groups of one service.
pub(super) struct Groups {
    folder: PathBuf,
    /// Held for its lock.
    _lock: File,
    next: AtomicU32,
    idle: Mutex<Vec<Arc<Group>>>,
    /// Groups that could not be removed yet: the kernel takes a moment to see that they are empty.
    spent: Mutex<Vec<PathBuf>>,
    is_refused: AtomicBool,
}

/// The group of one call.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    folder: File,
    was_killed: AtomicBool,
}

impl Groups {
    /// Makes the folder below this process's own group, if there is one that can be written.
    pub(super) fn find() -> Option<Self> {
        let own = own_group()?;
        match Self::below(&own) {
            Ok(groups) => Some(groups),
            Err(error) => {
                tracing::debug!(group = %own.display(), %error, "no control groups; programs are found by their marks");
                None
            }
        }
    }

    /// Makes the folder below a group.
    pub(super) fn below(parent: &Path) -> io::Result<Self> {
        let random = RandomState::new().build_hasher().finish();
        let folder = parent.join(format!("{PREFIX}{}-{random:016x}", std::process::id()));
        fs::create_dir(&folder)?;
        let made = File::open(&folder).and_then(|lock| {
            lock.try_lock().map_err(io::Error::from)?;
            // Gone if another service took it for a dead one's before it was locked.
            fs::metadata(folder.join("cgroup.kill"))?;
            Ok(lock)
        });
        match made {
            Ok(lock) => Ok(Self {
                folder,
                _lock: lock,
                next: AtomicU32::new(0),
                idle: Mutex::default(),
                spent: Mutex::default(),
                is_refused: AtomicBool::new(false),
            }),
            Err(error) => {
                remove(&folder, 0);
                Err(error)
            }
        }
    }

    /// Returns the folder of all groups.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Hands out an empty group.
    pub(super) fn take(&self) -> Option<Arc<Group>> {
        if self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(group) = self.idle().pop() {
            return Some(group);
        }
        let path = self.folder.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        match fs::create_dir(&path).and_then(|()| File::open(&path)) {
            Ok(folder) => {
                let was_killed = AtomicBool::new(false);
                Some(Arc::new(Group {
                    path,
                    folder,
                    was_killed,
                }))
            }
            Err(error) => {
                self.refuse(&error);
                None
            }
        }
    }

    /// Takes back a group that is empty, or about to be.
    pub(super) fn give_back(&self, group: Arc<Group>) {
        let is_new = !group.was_killed.load(Ordering::Acquire);
        let is_plain = || group.folder.metadata().is_ok_and(|folder| folder.nlink() <= 2);
        let mut idle = self.idle();
        if is_new && idle.len() < MAX_IDLE && !group.is_populated() && is_plain() {
            idle.push(group);
        } else {
            drop(idle);
            let mut spent = self.spent.lock();
            spent.push(group.path.clone());
            spent.retain(|group| !remove(group, 0));
        }
    }

    /// Makes no more groups: the kernel does not let programs be born in them.
    pub(super) fn refuse(&self, error: &dyn std::fmt::Display) {
        if !self.is_refused.swap(true, Ordering::Relaxed) {
            tracing::info!(%error, "control groups cannot be used; programs are found by their marks");
        }
    }

    /// Kills what dead services left in the neighbouring folders and removes those. Blocking.
    pub(super) fn sweep_dead(&self) {
        let Some(parent) = self.folder.parent() else { return };
        let Ok(entries) = fs::read_dir(parent) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if path == self.folder || !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            // Locked as long as its service lives.
            let Ok(lock) = File::open(&path) else { continue };
            if lock.try_lock().is_ok() {
                tracing::debug!(group = %path.display(), "a service ended without removing its control groups");
                end(&path);
            }
        }
    }

    /// Removes the folder, at the end of a service whose programs have all ended.
    pub(super) fn close(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
        remove(&self.folder, 0);
    }

    fn idle(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<Group>>> {
        self.idle.lock()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        remove(&self.folder, 0);
    }
}

impl Group {
    /// Returns the descriptor by which a program is born in the group.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Kills everything in the group, whatever it forks meanwhile.
    pub(super) fn kill(&self) {
        self.was_killed.store(true, Ordering::Release);
        kill(&self.path);
    }

    /// Says whether anything lives in the group; false if that cannot be known.
    pub(super) fn is_populated(&self) -> bool {
        is_populated(&self.path)
    }

    /// Returns the processes in the group.
    pub(super) fn processes(&self) -> Vec<Pid> {
        let list = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        let pids = list.lines().filter_map(|line| line.parse().ok());
        pids.filter_map(Pid::from_raw).collect()
    }
}

/// Kills everything in a group and below it. Linux 5.14 and newer.
pub(super) fn kill(group: &Path) {
    // Fails where the group is gone, and nothing is left then.
    let _ = fs::write(group.join("cgroup.kill"), "1");
}

/// Says whether anything lives in a group or below it.
pub(super) fn is_populated(group: &Path) -> bool {
    let events = fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
    events.lines().any(|line| line == "populated 1")
}

/// Kills everything in a folder of groups and removes it. Blocking, for half a second at most.
pub(super) fn end(folder: &Path) {
    let (times, apart) = REMOVALS;
    for _ in 0..times {
        kill(folder);
        if !is_populated(folder) && remove(folder, 0) {
            return;
        }
        std::thread::sleep(apart);
    }
}

/// Removes an empty group and the groups in it. The files in a group are the kernel's and go with it.
fn remove(group: &Path, depth: usize) -> bool {
    if depth < MAX_DEPTH {
        for inner in fs::read_dir(group).into_iter().flatten().flatten() {
            if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&inner.path(), depth + 1);
            }
        }
    }
    match fs::remove_dir(group) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Finds the folder of this process's own group in the hierarchy of version 2, where that is mounted.
fn own_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    locate(&mounts, &membership)
}

fn locate(mounts: &str, membership: &str) -> Option<PathBuf> {
    let own = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // What is mounted may be a part of the hierarchy, as in a container without a namespace for groups.
        let inside = Path::new(own).strip_prefix(root).ok()?;
        (!point.contains('\\')).then(|| Path::new(point).join(inside))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_its_own_group() {
        let check = |mounts: &str, membership: &str, expected: Option<&str>| {
            assert_eq!(
                locate(mounts, membership).as_deref(),
                expected.map(Path::new),
                "{mounts} {membership}"
            );
        };
        let pure = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
        let hybrid = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let part = "33 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw";
        check(pure, "0::/a.slice/b.service", Some("/sys/fs/cgroup/a.slice/b.service"));
        check(pure, "0::/", Some("/sys/fs/cgroup/"));
        check(hybrid, "4:memory:/x\n0::/", Some("/sys/fs/cgroup/unified/"));
        check(part, "0::/docker/abc/c", Some("/sys/fs/cgroup/c"));
        check(part, "0::/other", None);
        check(pure, "4:memory:/x", None);
        check("", "0::/", None);
        check("nonsense\n - \n1 2 3 - cgroup2", "0::/", None);
    }
}
