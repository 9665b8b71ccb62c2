//! The calls that write: finding the place that each names, and making it there.
//!
//! *Invariant:* a place is held open before it is checked, and what is done is done relative to it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, openat, readlinkat, statat};
use rustix::io::Errno;

use super::super::super::notify::{Answer, Listener, Notice, read_path};
use super::{Caller, Gate, MAX_LINKS, Outcome, PIPE_RETRY_DELAY, Place, Use};

/// A call that somebody waits for.
pub(super) struct Asked<'a> {
    pub(super) gate: &'a Arc<Gate>,
    pub(super) listener: &'a Arc<Listener>,
    pub(super) notice: &'a Notice,
}

impl Asked<'_> {
    /// Finds the place that a call names.
    fn named(&self, folder: u64, path: u64) -> Result<Place, Errno> {
        let path = read_path(self.notice.thread, path)?;
        let place = self.place(folder, &path);
        if self.listener.waits(self.notice.id) {
            place
        } else {
            Err(Errno::SRCH)
        }
    }

    pub(super) fn place(&self, folder: u64, path: &[u8]) -> Result<Place, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let thread = self.notice.thread;
        let own = |rest: &[u8]| [format!("/proc/{thread}/").as_bytes(), rest].concat();
        let full = if let Some(rest) = path.strip_prefix(b"/proc/self/") {
            own(rest)
        } else if let Some(rest) = path.strip_prefix(b"/proc/thread-self/") {
            own(rest)
        } else if let Some(rest) = path.strip_prefix(b"/dev/fd/") {
            own(&[b"fd/", rest].concat())
        } else if path.starts_with(b"/") {
            path.to_vec()
        } else if number_of(folder) == libc::AT_FDCWD {
            own(&[b"cwd/", path].concat())
        } else {
            own(&[format!("fd/{}/", number_of(folder)).as_bytes(), path].concat())
        };
        let end = full.iter().rposition(|&byte| byte != b'/').map_or(1, |last| last + 1);
        let trimmed = &full[..end];
        let slash = trimmed.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let name = OsString::from_vec(trimmed[slash + 1..].to_vec());
        let parent = Path::new(OsStr::from_bytes(&trimmed[..=slash]));
        if name.is_empty() || name == "." || name == ".." {
            // Nothing is made or removed by such a name; what is opened is a folder.
            let whole = Path::new(OsStr::from_bytes(trimmed));
            return Self::hold(CWD, whole, OsString::from("."));
        }
        Self::hold(CWD, parent, name)
    }

    fn hold(from: BorrowedFd<'_>, folder: &Path, name: OsString) -> Result<Place, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(from, folder, flags, Mode::empty())?;
        let directory = directory_of(&folder)?;
        Ok(Place {
            folder,
            directory,
            name,
        })
    }

    /// Returns where a link leads.
    pub(super) fn follow(&self, place: &Place) -> Result<Place, Errno> {
        let target = readlinkat(&place.folder, &place.name, Vec::new())?;
        let target = target.as_bytes();
        if target.starts_with(b"/") {
            return self.place(AT_FDCWD, target);
        }
        let path = [directory_link(&place.folder).as_bytes(), b"/", target].concat();
        self.place(AT_FDCWD, &path)
    }

    fn is_guarded(&self, place: &Place) -> bool {
        self.gate.root_of(&place.directory).is_some()
    }

    /// Says whether the service may stand in for the caller: another user's rights are not ours to lend.
    fn caller(&self) -> Result<Caller, Errno> {
        let caller = caller(self.notice.thread)?;
        if caller.user == rustix::process::geteuid().as_raw() {
            Ok(caller)
        } else {
            Err(Errno::ACCESS)
        }
    }

    pub(super) fn open(&self, folder: u64, path: u64, flags: u64, mode: u64) -> Result<Option<Answer>, Errno> {
        let flags = OFlags::from_bits_retain(u32::try_from(flags & 0xffff_ffff).unwrap_or_default());
        if flags.contains(OFlags::PATH) {
            return Ok(Some(Answer::GoOn));
        }
        let mut place = self.named(folder, path)?;
        for _ in 0..MAX_LINKS {
            if !self.is_guarded(&place) {
                // What a process has open already can be opened again by its number.
                if is_descriptors(&place.directory)
                    && let Ok(target) = readlinkat(&place.folder, &place.name, Vec::new())
                    && target.as_bytes().starts_with(b"/")
                    && self
                        .gate
                        .root_of(Path::new(OsStr::from_bytes(target.as_bytes())))
                        .is_some()
                {
                    place = self.place(AT_FDCWD, target.as_bytes())?;
                    continue;
                }
                if place.directory == Path::new(TERMINALS) {
                    return self.open_terminal(&place, flags).map(Some);
                }
                if place.directory == Path::new("/dev") && is_link(&place) {
                    place = self.follow(&place)?;
                    continue;
                }
                let leads_back = is_link(&place) && !flags.contains(OFlags::NOFOLLOW);
                match leads_back.then(|| self.follow(&place)) {
                    // A link from elsewhere into the workspace.
                    // Or, as `/dev/stdout` is, to a terminal.
                    Some(Ok(target)) if self.is_guarded(&target) || target.directory == Path::new(TERMINALS) => {
                        place = target;
                        continue;
                    }
                    Some(_) | None => return Ok(Some(Answer::GoOn)),
                }
            }
            if flags.contains(OFlags::TMPFILE) {
                // Programs make one with a name then.
                return Err(Errno::OPNOTSUPP);
            }
            let before = statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW);
            let kind = before
                .as_ref()
                .ok()
                .map(|status| FileType::from_raw_mode(status.st_mode));
            if kind == Some(FileType::Symlink) {
                let excludes = flags.contains(OFlags::CREATE | OFlags::EXCL);
                if !excludes && !flags.contains(OFlags::NOFOLLOW) {
                    place = self.follow(&place)?;
                    continue;
                }
            }
            let wanted = if kind.is_none() { Use::MakeFile } else { Use::Write };
            self.gate.check(&place, wanted)?;
            let caller = self.caller()?;
            let mode = Mode::from_raw_mode(u32::try_from(mode & 0o1777).unwrap_or_default() & !caller.mask);
            let ours = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
            if kind == Some(FileType::Fifo) && !flags.contains(OFlags::NONBLOCK) {
                return self.open_pipe(place, ours, flags.contains(OFlags::CLOEXEC));
            }
            let opened = openat(&place.folder, &place.name, ours, mode);
            if matches!(opened, Err(Errno::LOOP)) && kind.is_none() {
                // It has become a link.
                continue;
            }
            let opened = opened?;
            if kind.is_none() {
                self.gate.record_own(&place);
            }
            return Ok(Some(Answer::Opened(opened, flags.contains(OFlags::CLOEXEC))));
        }
        Err(Errno::LOOP)
    }

    /// Opens a terminal that is not somebody else's: the caller holds its other end, or runs in it.
    fn open_terminal(&self, place: &Place, flags: OFlags) -> Outcome {
        let name = place.name.to_str().unwrap_or_default();
        if name.parse::<u32>().is_err() || !has_terminal(self.notice.thread, name) {
            return Ok(Answer::GoOn);
        }
        self.caller()?;
        let ours = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = openat(&place.folder, &place.name, ours, Mode::empty())?;
        // The caller's now, it was so when it was opened: the number goes to nobody else meanwhile.
        if !has_terminal(self.notice.thread, name) || !self.listener.waits(self.notice.id) {
            return Err(Errno::ACCESS);
        }
        Ok(Answer::Opened(opened, flags.contains(OFlags::CLOEXEC)))
    }

    /// Opens a pipe with a name, which waits for the other end, beside everything else.
    fn open_pipe(&self, place: Place, flags: OFlags, close_on_exec: bool) -> Result<Option<Answer>, Errno> {
        let (listener, id) = (Arc::clone(self.listener), self.notice.id);
        let thread = thread::Builder::new()
            .name("sandbox-pipe".to_owned())
            .stack_size(128 * 1024);
        let started = thread.spawn(move || {
            while listener.waits(id) {
                let opened = openat(&place.folder, &place.name, flags | OFlags::NONBLOCK, Mode::empty());
                let answer = match opened {
                    Err(Errno::NXIO) => {
                        thread::sleep(PIPE_RETRY_DELAY);
                        continue;
                    }
                    Err(error) => Answer::Error(error),
                    Ok(opened) => match rustix::fs::fcntl_setfl(&opened, flags & !OFlags::NONBLOCK) {
                        Ok(()) => Answer::Opened(opened, close_on_exec),
                        Err(error) => Answer::Error(error),
                    },
                };
                return listener.answer(id, answer);
            }
        });
        started.map(|_| None).map_err(|_| Errno::AGAIN)
    }

    pub(super) fn truncate(&self, path: u64, length: u64) -> Outcome {
        let mut place = self.named(AT_FDCWD, path)?;
        for _ in 0..MAX_LINKS {
            if !is_link(&place) {
                break;
            }
            place = self.follow(&place)?;
        }
        if !self.is_guarded(&place) {
            return Ok(Answer::GoOn);
        }
        self.gate.check(&place, Use::Write)?;
        self.caller()?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&place.folder, &place.name, flags, Mode::empty())?;
        rustix::fs::ftruncate(&file, length)?;
        Ok(Answer::Done)
    }

    pub(super) fn make_folder(&self, folder: u64, path: u64, mode: u64) -> Outcome {
        let place = self.named(folder, path)?;
        if !self.is_guarded(&place) {
            return Ok(Answer::GoOn);
        }
        self.gate.check(&place, Use::MakeFolder)?;
        let mask = self.caller()?.mask;
        let mode = Mode::from_raw_mode(u32::try_from(mode & 0o1777).unwrap_or_default() & !mask);
        rustix::fs::mkdirat(&place.folder, &place.name, mode)?;
        self.gate.record_own(&place);
        Ok(Answer::Done)
    }

    pub(super) fn remove(&self, folder: u64, path: u64, is_folder: bool) -> Outcome {
        let place = self.named(folder, path)?;
        if !self.is_guarded(&place) {
            return Ok(Answer::GoOn);
        }
        self.gate
            .check(&place, if is_folder { Use::RemoveFolder } else { Use::Remove })?;
        self.caller()?;
        let flags = if is_folder {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        rustix::fs::unlinkat(&place.folder, &place.name, flags)?;
        Ok(Answer::Done)
    }

    pub(super) fn rename(&self, from: (u64, u64), to: (u64, u64), flags: u64) -> Outcome {
        let flags = RenameFlags::from_bits_retain(u32::try_from(flags & 0xffff_ffff).unwrap_or_default());
        let (from, to) = (self.named(from.0, from.1)?, self.named(to.0, to.1)?);
        if !self.are_together(&from, &to)? {
            return Ok(Answer::GoOn);
        }
        for place in [&from, &to] {
            self.gate.check(place, Use::Move)?;
        }
        self.gate.check_moved(&from, &to)?;
        if flags.contains(RenameFlags::EXCHANGE) {
            self.gate.check_moved(&to, &from)?;
        }
        self.caller()?;
        rustix::fs::renameat_with(&from.folder, &from.name, &to.folder, &to.name, flags)?;
        Ok(Answer::Done)
    }

    pub(super) fn link(&self, from: (u64, u64), to: (u64, u64), flags: u64) -> Outcome {
        let (mut from, to) = (self.named(from.0, from.1)?, self.named(to.0, to.1)?);
        if flags & u64::from(AtFlags::SYMLINK_FOLLOW.bits()) != 0 {
            for _ in 0..MAX_LINKS {
                if !is_link(&from) || is_descriptors(&from.directory) {
                    break;
                }
                from = self.follow(&from)?;
            }
        }
        if !self.are_together(&from, &to)? {
            return Ok(Answer::GoOn);
        }
        for place in [&from, &to] {
            self.gate.check(place, Use::Move)?;
        }
        self.caller()?;
        rustix::fs::linkat(&from.folder, &from.name, &to.folder, &to.name, AtFlags::empty())?;
        Ok(Answer::Done)
    }

    /// Says whether both places are behind the gate; with one only, it is as between two disks.
    fn are_together(&self, from: &Place, to: &Place) -> Result<bool, Errno> {
        match (self.gate.root_of(&from.directory), self.gate.root_of(&to.directory)) {
            (None, None) => Ok(false),
            (Some(from), Some(to)) if from == to => Ok(true),
            (Some(_), Some(_) | None) | (None, Some(_)) => Err(Errno::XDEV),
        }
    }

    pub(super) fn make_link(&self, target: u64, folder: u64, path: u64) -> Outcome {
        let place = self.named(folder, path)?;
        if !self.is_guarded(&place) {
            return Ok(Answer::GoOn);
        }
        let target = read_path(self.notice.thread, target)?;
        self.gate.check(&place, Use::Move)?;
        self.caller()?;
        rustix::fs::symlinkat(OsStr::from_bytes(&target), &place.folder, &place.name)?;
        Ok(Answer::Done)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) const CREAT: u64 = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC).cast_unsigned() as u64;

pub(super) const AT_FDCWD: u64 = libc::AT_FDCWD as u64;

/// Where terminals are that programs made.
const TERMINALS: &str = "/dev/pts";

/// Says whether a terminal is a thread's own.
fn has_terminal(thread: u32, number: &str) -> bool {
    runs_in_terminal(thread, number) || holds_terminal(thread, number)
}

/// Says whether a terminal controls a thread's session. It cannot have come to one of others that way: for that it would
/// have opened it before.
fn runs_in_terminal(thread: u32, number: &str) -> bool {
    // Of the devices 136 to 143, whose numbers the kernel writes as the older one of its two forms.
    let stat = std::fs::read(format!("/proc/{thread}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    let device = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(4));
    let Some(device) = device.and_then(|device| device.parse::<i32>().ok()) else {
        return false;
    };
    let device = u64::from(device.cast_unsigned());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (136..144).contains(&major) && ((major - 136) * 256 + minor).to_string() == number
}

/// Says whether a thread has the controlling end of a terminal open: the kernel tells its number of that end only.
fn holds_terminal(thread: u32, number: &str) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{thread}/fdinfo")) else {
        return false;
    };
    open.flatten().any(|entry| {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        text.lines().any(|line| {
            line.strip_prefix("tty-index:")
                .is_some_and(|index| index.trim() == number)
        })
    })
}

/// Returns the lower half of an argument, which is what the kernel takes of a descriptor.
pub(super) fn number_of(argument: u64) -> i32 {
    u32::try_from(argument & 0xffff_ffff).unwrap_or_default().cast_signed()
}

fn is_link(place: &Place) -> bool {
    let status = statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW);
    status.is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
}

/// Says whether a folder holds a process's open files by their numbers.
fn is_descriptors(directory: &Path) -> bool {
    directory.starts_with("/proc") && directory.file_name() == Some(OsStr::new("fd"))
}

fn directory_link(folder: &OwnedFd) -> String {
    // By the process: the thread that follows it may be another.
    format!("/proc/{}/fd/{}", std::process::id(), folder.as_raw_fd())
}

fn directory_of(folder: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = readlinkat(CWD, directory_link(folder), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(link.into_bytes())))
}

pub(super) fn caller(thread: u32) -> Result<Caller, Errno> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).map_err(|_| Errno::SRCH)?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let process = field("Tgid:").and_then(|id| id.parse().ok()).ok_or(Errno::SRCH)?;
    let mask = field("Umask:")
        .and_then(|mask| u32::from_str_radix(mask, 8).ok())
        .ok_or(Errno::SRCH)?;
    // The last of four is the one for files.
    let users = field("Uid:").unwrap_or_default().split_whitespace();
    let user = users.last().and_then(|id| id.parse().ok()).ok_or(Errno::SRCH)?;
    Ok(Caller { process, mask, user })
}

/// Makes the address of a socket that is held.
pub(super) fn unix_address(socket: &OwnedFd) -> Vec<u8> {
    let family = u16::try_from(libc::AF_UNIX).unwrap_or_default().to_ne_bytes();
    [&family[..], directory_link(socket).as_bytes(), b"\0"].concat()
}
