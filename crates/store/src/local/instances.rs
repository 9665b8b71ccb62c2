//! Which runs of the service live: each holds a lock on a file of its own in `instances/` until it ends.
//!
//! *Invariant:* the kernel drops the lock with the last process that has the file open, so a run whose lock can be taken, or
//! has no file, is dead. A child that was being born when a run was killed may hold its lock for a while: the file also
//! says which process the run is, and one that is gone is dead, whoever holds the lock.
//! Who only looks takes the lock shared, so that two who look at once do not see each other as the owner.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use toolgate_model::InstanceId;

use super::error::{failed, io};
use crate::StoreError;

/// How long another process may be about to open the data directory.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long somebody may look at a lock.
const LOCK_CHECK_TIMEOUT: Duration = Duration::from_millis(500);
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(5);

/// The folder of the lock files.
pub(super) struct Instances {
    folder: PathBuf,
}

/// The lock of one living run; its file goes when this is dropped.
pub(super) struct Held {
    path: PathBuf,
    file: File,
}

impl Held {
    /// Takes the lock of a file that says which process has it. An older content of the file goes.
    pub(super) fn take(path: PathBuf, taken: &str) -> Result<Self, StoreError> {
        loop {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(&path)
                .map_err(|error| io("create", &path, error))?;
            lock(&file, &path, LOCK_CHECK_TIMEOUT, taken)?;
            // Somebody who took the file for a dead run's may have removed it between the two steps.
            if same_file(&file, &path) {
                let held = Self { path, file };
                held.file.set_len(0).map_err(|error| io("empty", &held.path, error))?;
                // Without it the lock alone counts.
                if let Some(process) = Process::current() {
                    held.add(&process.0)?;
                }
                return Ok(held);
            }
        }
    }

    /// Adds to what the file says.
    pub(super) fn add(&self, text: &str) -> Result<(), StoreError> {
        let written = (&self.file).write_all(text.as_bytes());
        written.map_err(|error| io("write", &self.path, error))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the lock of this run");
        }
    }
}

impl Instances {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Keeps others from opening the same data directory until the file is dropped.
    pub(super) fn lock_folder(&self) -> Result<File, StoreError> {
        let file = File::open(&self.folder).map_err(|error| io("open", &self.folder, error))?;
        lock(
            &file,
            &self.folder,
            OPEN_TIMEOUT,
            "another process has been opening this data directory for too long",
        )?;
        Ok(file)
    }

    /// Takes the lock of this run.
    pub(super) fn hold(&self, instance: &InstanceId) -> Result<Held, StoreError> {
        let Some(path) = self.path(instance.as_str()) else {
            let context = format!("take the lock of instance {:?}", instance.as_str());
            return Err(failed(context, "an instance id has 1 to 100 letters, digits, - or _"));
        };
        Held::take(path, "an instance of the same id is running")
    }

    /// Says whether a run lives. One that cannot be looked at counts as living.
    pub(super) fn is_alive(&self, instance: &str) -> bool {
        let Some(path) = self.path(instance) else { return false };
        is_held(&path)
    }

    /// Says whether a run has died that nobody has looked after.
    pub(super) fn has_dead(&self) -> bool {
        self.all().iter().any(|(instance, _)| !self.is_alive(instance))
    }

    /// Says whether any run lives.
    pub(super) fn has_living(&self) -> bool {
        self.all().iter().any(|(instance, _)| self.is_alive(instance))
    }

    /// Removes the lock files of dead runs. Only under [`Self::lock_folder`].
    pub(super) fn tidy(&self) {
        for (instance, path) in self.all() {
            if !self.is_alive(&instance)
                && let Err(error) = fs::remove_file(&path)
            {
                tracing::warn!(path = %path.display(), %error, "cannot remove the lock of a dead run");
            }
        }
    }

    /// Returns the runs that have a lock file, dead or alive.
    fn all(&self) -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let named = entries.map(|entry| entry.path()).filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".lock")?;
            Some((name.to_owned(), path))
        });
        named.collect()
    }

    fn path(&self, instance: &str) -> Option<PathBuf> {
        let valid = (1..=100).contains(&instance.len())
            && instance
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        valid.then(|| self.folder.join(format!("{instance}.lock")))
    }
}

/// Says whether the process that took the lock of a file lives. A file that cannot be looked at counts as held.
pub(super) fn is_held(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => file.try_lock_shared().is_err() && !Process::read(&file).is_some_and(|process| process.is_gone()),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Returns the id of the process that the text of a lock file names, if it runs where its id means the same.
pub(super) fn process_of(text: &str) -> Option<u32> {
    let mut parts = text.lines().next()?.split_whitespace();
    let is_here = place()? == format!("{} {}", parts.next()?, parts.next()?);
    parts.next()?.parse().ok().filter(|_| is_here)
}

/// Which process a run is: the system's start, the namespace of process ids, the id, and when the process began.
struct Process(String);

impl Process {
    fn current() -> Option<Self> {
        let id = std::process::id();
        let began = began(id)?;
        Some(Self(format!("{} {id} {began}\n", place()?)))
    }

    fn read(file: &File) -> Option<Self> {
        const MAX_BYTES: u64 = 256;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let (first, _) = text.split_once('\n')?;
        Some(Self(format!("{first}\n")))
    }

    /// Says whether it is known to have ended. Of another machine or container nothing is known from here.
    fn is_gone(&self) -> bool {
        let parts: Vec<&str> = self.0.split_whitespace().collect();
        let [system, namespace, id, begun] = parts[..] else {
            return false;
        };
        let is_here = place().is_some_and(|place| place == format!("{system} {namespace}"));
        match id.parse() {
            Ok(id) if is_here => began(id).is_none_or(|began| began != begun),
            Ok(_) | Err(_) => false,
        }
    }
}

/// The start of the system and the namespace of process ids.
fn place() -> Option<String> {
    let system = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", system.trim(), namespace.display()))
}

/// When a process began, in ticks of the system; none if it has ended, waited for or not.
fn began(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in brackets, may hold anything. Fields count from the one after it: the state, and the time as the 20th.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?;
    let is_alive = !matches!(state, "Z" | "X");
    fields.nth(18).filter(|_| is_alive).map(str::to_owned)
}

/// Locks a file, waiting a bounded time for those who only look, or are about to be done.
fn lock(file: &File, path: &Path, patience: Duration, held: &str) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(io("lock", path, error)),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(LOCK_RETRY_DELAY),
            Err(TryLockError::WouldBlock) => return Err(failed(format!("lock {}", path.display()), held)),
        }
    }
}

fn same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.dev() == named.dev() && held.ino() == named.ino(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_process_is_gone_is_dead_whoever_holds_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let instances = Instances::new(folder.path().to_path_buf());
        let own = Process::current().unwrap().0;
        let began = own.trim_end().rsplit(' ').next().unwrap();
        let earlier = own.replace(&format!(" {began}\n"), " 1\n");
        let check = |name: &str, content: &str, alive: bool| {
            let path = instances.path(name).unwrap();
            fs::write(&path, content).unwrap();
            let held = File::open(&path).unwrap();
            held.lock().unwrap();
            assert_eq!(instances.is_alive(name), alive, "{content:?}");
            drop(held);
            assert!(!instances.is_alive(name), "nobody holds the lock of {content:?}");
        };
        check("own", &own, true);
        check("earlier", &earlier, false);
        check(
            "elsewhere",
            &earlier.replacen(|c: char| c.is_ascii_hexdigit(), "x", 1),
            true,
        );
        check("empty", "", true);
        check("cut", earlier.trim_end(), true);
        check("strange", "a b c d\n", true);
        let held = instances.hold(&InstanceId::generate()).unwrap();
        assert_eq!(fs::read_to_string(&held.path).unwrap(), own);
    }
}
