//! The gate: what Landlock cannot tell apart is carried out by the service on a program's behalf, or refused.
//!
//! Landlock allows by folder and whatever is below, so whoever may make files in a workspace may make `.opencode` there, and
//! it does not know which Unix socket is connected to. Under a gate Landlock lets nothing be written in the workspace. The
//! calls that would write are handed to the service (see [`notify`]): it copies the path, opens the
//! folder, looks where that really is, and makes the call itself, relative to the open folder and without following a
//! link. Nothing can be swapped in between. What is elsewhere goes on to the kernel, where Landlock decides.
//!
//! *Invariant:* a call that goes on is never one that only the gate would have refused: what is checked by name is
//! carried out here.

mod asked;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::super::notify::{self, Answer, Listener, Notice, own_mask, read_memory};
#[cfg(target_arch = "x86_64")]
use asked::CREAT;
use asked::{AT_FDCWD, Asked, caller, number_of, unix_address};

use super::filter::RENAMEAT;

/// Links in a row, as the kernel has it.
const MAX_LINKS: usize = 40;

/// Refusals that are remembered for the question to a person.
const MAX_REFUSED: usize = 16;

/// How often the other end of a pipe with a name is looked for.
const PIPE_RETRY_DELAY: Duration = Duration::from_millis(5);

/// Folders whose content is not the workspace's own: nothing looks for settings there.
const FOREIGN: [&str; 3] = ["node_modules", "site-packages", "vendor"];

const GIT: &str = ".git";
/// Names the folder that a repository's settings come from. `git worktree add` makes one for each linked worktree.
const COMMON: &str = "commondir";
/// Where a repository keeps what belongs to its linked worktrees.
const LINKED: &str = "worktrees";
/// Where repositories inside a repository's own folder are.
const NESTED: [&str; 2] = ["modules", LINKED];

/// A folder whose writes pass the gate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Root {
    /// Links followed.
    pub(super) path: PathBuf,
    /// Whether it is a repository's own folder, as `.git` is.
    pub(super) is_git: bool,
}

impl Root {
    pub(super) fn plain(path: PathBuf) -> Self {
        Self { path, is_git: false }
    }

    pub(super) fn git(path: PathBuf) -> Self {
        Self { path, is_git: true }
    }
}

/// What the gate of one program lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) roots: Vec<Root>,
    /// The last parts of the paths that may not be written.
    pub(super) protected: Vec<PathBuf>,
    /// The paths that may not be written whatever their names are.
    pub(super) configuration: Vec<PathBuf>,
    /// The folder that stays where it is.
    pub(super) directory: Option<PathBuf>,
    /// What of these a person has opened.
    pub(super) opened: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    /// Folders in which any socket may be connected to.
    pub(super) socket_folders: Vec<PathBuf>,
    pub(super) sockets: Vec<PathBuf>,
}

/// What the gate refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Writing to this path, which is protected; the path that would have to be opened.
    Protected(PathBuf),
    /// Connecting to this socket.
    Socket(PathBuf),
}

/// The gate of one program and its descendants.
#[derive(Debug)]
pub(super) struct Gate {
    policy: Policy,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stopped: Vec<Stopped>,
    /// Device and number of the `.git` that the program made itself, in which it may do anything.
    own: HashSet<(u64, u64)>,
}

/// A place in a folder that is held open.
struct Place {
    folder: OwnedFd,
    /// Where that is, links followed.
    directory: PathBuf,
    name: OsString,
}

impl Place {
    fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// What is to happen to a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Write,
    MakeFile,
    MakeFolder,
    Remove,
    RemoveFolder,
    /// Another name for it, or it for another.
    Move,
}

/// Says whether a path is a folder or lies below it. The case of letters does not matter, because some file systems do not keep
/// it apart; so it is with all names that are protected.
fn is_within(path: &Path, folder: &Path) -> bool {
    let mut parts = path.iter();
    folder
        .iter()
        .all(|part| parts.next().is_some_and(|own| own.eq_ignore_ascii_case(part)))
}

/// Says whether the last parts of a path have these names.
fn ends_with(parts: &[&OsStr], names: &Path) -> bool {
    let names: Vec<&OsStr> = names.iter().collect();
    let last = parts.len().checked_sub(names.len()).map(|start| &parts[start..]);
    last.is_some_and(|last| {
        last.iter()
            .zip(names)
            .all(|(part, name)| part.eq_ignore_ascii_case(name))
    })
}

/// Says whether a path in a repository's own folder is in what it stores, where anything may be named as it likes.
fn is_content(parts: &[&OsStr]) -> bool {
    let stores = ["refs", "logs", "objects"];
    parts.iter().any(|part| stores.iter().any(|store| part == store))
}

/// What the kernel tells of a thread.
struct Caller {
    process: u32,
    mask: u32,
    user: u32,
}

type Outcome = Result<Answer, Errno>;

impl Gate {
    pub(super) fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            policy,
            state: Mutex::default(),
        })
    }

    /// Returns the folders whose writes pass it.
    pub(super) fn roots(&self) -> &[Root] {
        &self.policy.roots
    }

    /// Says whether writes of files pass it, or only connections.
    pub(super) fn has_files(&self) -> bool {
        !self.policy.roots.is_empty()
    }

    /// Returns what was refused so far.
    pub(super) fn stopped(&self) -> Vec<Stopped> {
        self.state.lock().stopped.clone()
    }

    /// Says whether a path, links followed, may not be written although it is in a folder that may.
    pub(super) fn protects(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        let Some(root) = self.root_of(path) else { return false };
        self.protected(root, path).is_some() || root.path.join(GIT) == path && name == GIT && self.guards_git()
    }

    /// Serves the calls that come in until no process is left.
    pub(super) fn serve(self: &Arc<Self>, listener: Listener) -> io::Result<()> {
        let gate = Arc::clone(self);
        let thread = thread::Builder::new()
            .name("sandbox-gate".to_owned())
            .stack_size(256 * 1024);
        thread.spawn(move || {
            let listener = Arc::new(listener);
            if let Err(error) = own_mask() {
                tracing::error!(%error, "a sandbox's gate stays closed");
                return;
            }
            while let Some(notice) = listener.next() {
                gate.look(&listener, &notice);
            }
        })?;
        Ok(())
    }

    fn look(self: &Arc<Self>, listener: &Arc<Listener>, notice: &Notice) {
        let answer = self.decide(listener, notice);
        match answer {
            Ok(Some(answer)) => listener.answer(notice.id, answer),
            // Somebody else answers.
            Ok(None) => {}
            Err(error) => listener.answer(notice.id, Answer::Error(error)),
        }
    }

    fn decide(self: &Arc<Self>, listener: &Arc<Listener>, notice: &Notice) -> Result<Option<Answer>, Errno> {
        let call = libc::c_long::from(notice.call);
        if call == libc::SYS_connect {
            return self.connect(listener, notice);
        }
        let ask = Asked {
            gate: self,
            listener,
            notice,
        };
        let at = |index: usize| notice.arguments[index];
        #[cfg(target_arch = "x86_64")]
        {
            let here = AT_FDCWD;
            match call {
                libc::SYS_open => return ask.open(here, at(0), at(1), at(2)),
                libc::SYS_creat => return ask.open(here, at(0), CREAT, at(1)),
                libc::SYS_mkdir => return ask.make_folder(here, at(0), at(1)).map(Some),
                libc::SYS_rmdir => return ask.remove(here, at(0), true).map(Some),
                libc::SYS_unlink => return ask.remove(here, at(0), false).map(Some),
                libc::SYS_rename => return ask.rename((here, at(0)), (here, at(1)), 0).map(Some),
                libc::SYS_link => return ask.link((here, at(0)), (here, at(1)), 0).map(Some),
                libc::SYS_symlink => return ask.make_link(at(0), here, at(1)).map(Some),
                _ => {}
            }
        }
        match call {
            libc::SYS_openat => ask.open(at(0), at(1), at(2), at(3)),
            libc::SYS_mkdirat => ask.make_folder(at(0), at(1), at(2)).map(Some),
            libc::SYS_unlinkat => {
                let folder = at(2) & u64::from(AtFlags::REMOVEDIR.bits()) != 0;
                ask.remove(at(0), at(1), folder).map(Some)
            }
            RENAMEAT => ask.rename((at(0), at(1)), (at(2), at(3)), 0).map(Some),
            libc::SYS_renameat2 => ask.rename((at(0), at(1)), (at(2), at(3)), at(4)).map(Some),
            libc::SYS_linkat => ask.link((at(0), at(1)), (at(2), at(3)), at(4)).map(Some),
            libc::SYS_symlinkat => ask.make_link(at(0), at(1), at(2)).map(Some),
            libc::SYS_truncate => ask.truncate(at(0), at(1)).map(Some),
            _ => Err(Errno::NOSYS),
        }
    }

    fn root_of(&self, path: &Path) -> Option<&Root> {
        // The nearest one: a repository's own folder may be inside of the workspace.
        let around = self.policy.roots.iter().filter(|root| path.starts_with(&root.path));
        around.max_by_key(|root| root.path.as_os_str().len())
    }

    fn guards_git(&self) -> bool {
        self.policy.protected.iter().any(|entry| entry.starts_with(GIT))
    }

    /// Returns the protected path that a path is, or is below of.
    fn protected(&self, root: &Root, path: &Path) -> Option<PathBuf> {
        if self.policy.opened.iter().any(|opened| path.starts_with(opened)) {
            return None;
        }
        let mut named = self.policy.configuration.iter();
        if let Some(named) = named.find(|named| is_within(path, named)) {
            return Some(named.clone());
        }
        let relative = path.strip_prefix(&root.path).ok()?;
        let given = root.is_git.then_some(OsStr::new(GIT));
        let parts: Vec<&OsStr> = given.into_iter().chain(relative.iter()).collect();
        for end in 1..=parts.len() {
            let part = parts[end - 1];
            let before = &parts[..end];
            // What a repository inside holds is as if it were in one outside.
            let in_nested = (0..before.len()).find(|&at| {
                before[at].eq_ignore_ascii_case(GIT)
                    && before.get(at + 1).is_some_and(|next| NESTED.iter().any(|n| next == n))
            });
            let is_reached = |reached: &PathBuf| {
                let entry: Vec<&OsStr> = reached.iter().collect();
                let in_module = in_nested.is_some_and(|at| {
                    let is_named = entry.len() == 2 && entry[0] == GIT && part == entry[1];
                    is_named && before.len() > at + 3 && !is_content(&before[at + 2..before.len() - 1])
                });
                in_module || ends_with(before, reached)
            };
            if self.policy.protected.iter().any(is_reached) {
                let real = end - given.map_or(0, |_| 1);
                let reached: PathBuf = relative.iter().take(real).collect();
                return Some(root.path.join(reached));
            }
            if FOREIGN.iter().any(|foreign| part == *foreign) {
                return None;
            }
        }
        None
    }

    /// Says whether a path is a folder around what stays as and where it is: another one could take its place.
    fn is_around(&self, path: &Path) -> bool {
        let directory = self.policy.directory.iter();
        let mut kept = self.policy.configuration.iter().chain(directory);
        kept.any(|kept| is_within(kept, path))
    }

    /// Refuses what is protected or hidden.
    fn check(&self, place: &Place, wanted: Use) -> Result<(), Errno> {
        let path = place.path();
        if self.policy.hidden.iter().any(|hidden| is_within(&path, hidden)) {
            return Err(Errno::ACCESS);
        }
        let Some(root) = self.root_of(&path) else { return Ok(()) };
        let is_there = statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let removes = matches!(wanted, Use::Remove | Use::RemoveFolder);
        if wanted == Use::MakeFolder && is_there || removes && !is_there {
            // The kernel says why not.
            return Ok(());
        }
        if let Some(protected) = self.protected(root, &path) {
            let repository = path
                .ancestors()
                .find(|above| above.file_name() == Some(OsStr::new(GIT)));
            let is_free = repository.is_some_and(|git| self.is_own(git));
            let folder = place.directory.parent().and_then(Path::file_name);
            let is_free =
                is_free || wanted == Use::MakeFile && place.name == COMMON && folder == Some(OsStr::new(LINKED));
            return if is_free { Ok(()) } else { self.stop(protected) };
        }
        let is_opened = self.policy.opened.iter().any(|opened| path.starts_with(opened));
        // Only an empty folder goes, and a new one is no other place.
        let is_harmless = matches!(wanted, Use::MakeFolder | Use::RemoveFolder);
        if !is_opened && !is_harmless && self.is_around(&path) {
            return self.stop(path);
        }
        if !place.name.eq_ignore_ascii_case(GIT) || !self.guards_git() || is_opened || self.is_own(&path) {
            return Ok(());
        }
        let is_top = place.directory == root.path;
        match wanted {
            // A repository inside, such as a clone, which is the program's own then.
            Use::MakeFile | Use::MakeFolder if !is_there && !is_top => Ok(()),
            // Only an empty one goes, and the kernel says so of others.
            Use::RemoveFolder => Ok(()),
            Use::Write | Use::MakeFile | Use::MakeFolder | Use::Remove | Use::Move => self.stop(path),
        }
    }

    /// Refuses to move a folder with something protected in it: another one could take its place.
    fn check_moved(&self, place: &Place, to: &Place) -> Result<(), Errno> {
        let status = statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
            return Ok(());
        }
        let path = place.path();
        self.check_nested(&path)?;
        self.check_nested(&to.path())?;
        let names = self.policy.protected.iter().filter_map(|entry| entry.iter().next());
        for name in names {
            let inside = path.join(name);
            let is_opened = self.policy.opened.iter().any(|opened| inside.starts_with(opened));
            let is_there = statat(
                &place.folder,
                Path::new(&place.name).join(name),
                AtFlags::SYMLINK_NOFOLLOW,
            )
            .is_ok();
            if is_there && !is_opened && !self.is_own(&inside) {
                return self.stop(inside);
            }
        }
        Ok(())
    }

    /// Refuses to put a folder in the place of one that a repository keeps a repository in, or to take that away.
    fn check_nested(&self, path: &Path) -> Result<(), Errno> {
        let Some(root) = self.root_of(path) else { return Ok(()) };
        let is_opened = self.policy.opened.iter().any(|opened| path.starts_with(opened));
        let git = path
            .ancestors()
            .find(|above| above.file_name() == Some(OsStr::new(GIT)));
        let git = git.or(root.is_git.then_some(&*root.path));
        let Some(git) = git.filter(|git| !is_opened && self.guards_git() && !self.is_own(git)) else {
            return Ok(());
        };
        let inside: Vec<&OsStr> = path.strip_prefix(git).unwrap_or(path).iter().collect();
        match inside.split_first() {
            Some((first, rest)) if NESTED.iter().any(|nested| first == nested) && !is_content(rest) => {
                self.stop(path.to_path_buf())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn is_own(&self, path: &Path) -> bool {
        let state = self.state.lock();
        let own = |status: rustix::fs::Stat| state.own.contains(&(status.st_dev, status.st_ino));
        !state.own.is_empty() && rustix::fs::lstat(path).is_ok_and(own)
    }

    fn record_own(&self, place: &Place) {
        if place.name == GIT
            && let Ok(status) = statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW)
        {
            let mut state = self.state.lock();
            state.own.insert((status.st_dev, status.st_ino));
        }
    }

    fn stop<T>(&self, protected: PathBuf) -> Result<T, Errno> {
        self.record(Stopped::Protected(protected));
        Err(Errno::ACCESS)
    }

    fn record(&self, stopped: Stopped) {
        let mut state = self.state.lock();
        if state.stopped.len() < MAX_REFUSED && !state.stopped.contains(&stopped) {
            state.stopped.push(stopped);
        }
    }

    /// Connects a socket where the program may.
    fn connect(self: &Arc<Self>, listener: &Arc<Listener>, notice: &Notice) -> Result<Option<Answer>, Errno> {
        let length = usize::try_from(notice.arguments[2]).unwrap_or(usize::MAX).min(128);
        let mut address = read_memory(notice.thread, notice.arguments[1], length)?;
        let caller = caller(notice.thread)?;
        let process = Pid::from_raw(caller.process.cast_signed()).ok_or(Errno::SRCH)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        if !listener.waits(notice.id) {
            return Err(Errno::SRCH);
        }
        // Its number may come to stand for another socket; this one stays the same.
        let number = number_of(notice.arguments[0]);
        let socket = pidfd_getfd(process, number, PidfdGetfdFlags::empty())?;
        let mut held = None;
        if rustix::net::sockopt::socket_domain(&socket)? == rustix::net::AddressFamily::UNIX {
            let found = self.socket(listener, notice, &address)?;
            address = unix_address(&found);
            held = Some(found);
        }
        let flags = rustix::fs::fcntl_getfl(&socket)?;
        let connect = move || match notify::connect(socket.as_fd(), &address) {
            Ok(()) => {
                drop(held);
                Answer::Done
            }
            Err(error) => Answer::Error(error),
        };
        if flags.contains(OFlags::NONBLOCK) {
            return Ok(Some(connect()));
        }
        let (listener, id) = (Arc::clone(listener), notice.id);
        let thread = thread::Builder::new()
            .name("sandbox-connect".to_owned())
            .stack_size(128 * 1024);
        let started = thread.spawn(move || listener.answer(id, connect()));
        started.map(|_| None).map_err(|_| Errno::AGAIN)
    }

    /// Returns the socket that an address names, held, if the program may connect to it.
    fn socket(self: &Arc<Self>, listener: &Arc<Listener>, notice: &Notice, address: &[u8]) -> Result<OwnedFd, Errno> {
        let path = address.get(2..).unwrap_or_default();
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        if path.is_empty() {
            // Without a name in a folder: nobody says whose it is.
            return Err(Errno::PERM);
        }
        let ask = Asked {
            gate: self,
            listener,
            notice,
        };
        let mut place = ask.place(AT_FDCWD, path)?;
        for _ in 0..MAX_LINKS {
            let socket = openat(
                &place.folder,
                &place.name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let status = rustix::fs::fstat(&socket)?;
            if FileType::from_raw_mode(status.st_mode) == FileType::Symlink {
                place = ask.follow(&place)?;
                continue;
            }
            let path = place.path();
            let is_named = self.policy.sockets.iter().any(|named| {
                rustix::fs::stat(named)
                    .is_ok_and(|named| (named.st_dev, named.st_ino) == (status.st_dev, status.st_ino))
            });
            let is_inside = self.policy.socket_folders.iter().any(|folder| path.starts_with(folder));
            let is_hidden = self.policy.hidden.iter().any(|hidden| path.starts_with(hidden));
            if is_named || is_inside && !is_hidden {
                return Ok(socket);
            }
            self.record(Stopped::Socket(path));
            return Err(Errno::PERM);
        }
        Err(Errno::LOOP)
    }
}
