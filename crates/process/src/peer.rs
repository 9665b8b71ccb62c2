//! Whose process is behind a connection: one of the service's own making, and then of which call, or a stranger's.
//!
//! A process that the service started descends from it for as long as the service lives, whatever it does: orphans are
//! adopted by the service (see [`adopt_orphans`](super::adopt_orphans)). So its line of parents is read, twice, until two
//! readings agree. Which call it is of says the root of that line, or the tag that an orphan bears.
//!
//! Behind a Unix socket the kernel names the process that connected. Behind a TCP socket of this machine it names the
//! socket; who holds that is found in the open files of all processes.
//!
//! *Invariant:* closed by default. A process that has ended, or a socket that nobody is seen to hold, is nobody's; so is
//! what bears the tag of another service, or of an earlier run. All of it reads only.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, test_kill_process};

use super::programs::Programs;
use super::reaper::{ProcessTag, is_in_namespace};
use super::sockets::{find_socket, holders};
use super::sys::{self, TagReading};
use super::{reaper, tree};

/// How often a line of parents is read until two readings agree.
const READINGS: u32 = 16;

/// The longest line of parents.
const MAX_LINE: usize = 4096;

/// What a process is to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerOrigin {
    /// It does not descend from the service.
    Stranger,
    /// It descends from what was started for this call.
    Call(String),
    /// It descends from the service, for no call that is known, or that cannot be told.
    Unknown,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user.
    pub user: u32,
    /// The process.
    pub origin: PeerOrigin,
}

/// A process in a line of parents: its number and when it began, which nobody else shares.
type Ancestor = (Pid, u64);

struct Line {
    ancestors: Vec<Ancestor>,
    /// Whether it ends at a process that we may not look at.
    is_cut: bool,
}

impl Programs {
    /// Says who has connected to a Unix socket of this service. Blocking, for a few reads of `/proc`.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn behind_unix(&self, connection: BorrowedFd<'_>) -> io::Result<Peer> {
        let (pid, user) = sys::peer_of(connection)?;
        let Some(pid) = Pid::from_raw(pid) else {
            // A process that has no number here is outside of our container, and descends from nobody inside.
            let origin = PeerOrigin::Stranger;
            return Ok(Peer { user, origin });
        };
        let held = match sys::peer_pidfd(connection) {
            // Before Linux 6.5. A number that was given to another process meanwhile is not noticed there.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)
            }
            held => held,
        };
        let origin = match held {
            Ok(held) => {
                let origin = self.origin_of(pid);
                // Looked at last: if it lives, the number was its own all the time.
                if reaper::is_readable(&held) {
                    PeerOrigin::Unknown
                } else {
                    origin
                }
            }
            Err(_) => PeerOrigin::Unknown,
        };
        Ok(Peer { user, origin })
    }

    /// Says who has connected by TCP; none if it is nobody on this machine. Blocking, for a look at all processes, and at
    /// their open files if any program of this or another service runs.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn behind_tcp(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Peer>> {
        let Some(socket) = find_socket(remote, local)? else {
            return Ok(None);
        };
        let user = socket.user;
        let origin = match socket.inode {
            // Closed already: what was sent may have come from anybody.
            0 => PeerOrigin::Unknown,
            _ if self.0.reaper.has_no_programs() && !is_any_marked() => PeerOrigin::Stranger,
            inode => self.holder_of(inode),
        };
        Ok(Some(Peer { user, origin }))
    }

    /// Says who holds a socket. A stranger must be seen to hold it: it may be on its way from process to process.
    fn holder_of(&self, inode: u32) -> PeerOrigin {
        let origin = holders(&[inode]).into_iter().map(|(_, pid)| self.origin_of(pid));
        let found = origin.reduce(|one, other| if one == PeerOrigin::Stranger { other } else { one });
        found.unwrap_or(PeerOrigin::Unknown)
    }

    /// Says what a process is to the service.
    pub(super) fn origin_of(&self, pid: Pid) -> PeerOrigin {
        let own = getpid();
        if pid == own {
            return PeerOrigin::Stranger;
        }
        let reaper = &self.0.reaper;
        let Some(line) = read_line(pid) else {
            return PeerOrigin::Unknown;
        };
        let tag = sys::tag_of(pid);
        let is_ours = |tag: Option<TagReading>| {
            let mark = tag.and_then(TagReading::remains);
            mark.is_some_and(|mark| reaper.is_own_tag(mark))
        };
        let depth = line.ancestors.iter().position(|(ancestor, _)| *ancestor == own);
        let Some(depth) = depth else {
            let is_inside = reaper.groups().is_some_and(|groups| is_in_group(pid, groups.folder()));
            return if is_ours(tag) || is_inside {
                PeerOrigin::Unknown
            } else {
                origin_of_foreigner(tag, sys::own_limits(), line.is_cut)
            };
        };
        let calls = reaper.calls();
        let below = &line.ancestors[..depth];
        let of_root = below.iter().rev().find_map(|(ancestor, _)| {
            let mut entries = calls.values();
            entries.find(|entry| entry.held && entry.root == Some(*ancestor))
        });
        let of_orphan = || {
            let (orphan, _) = below.last()?;
            match sys::tag_of(*orphan)? {
                TagReading::Whole(mark) => calls.get(&ProcessTag(mark)),
                TagReading::None | TagReading::Torn(_) => None,
            }
        };
        match of_root.or_else(of_orphan) {
            Some(entry) => PeerOrigin::Call(entry.call.clone()),
            None => PeerOrigin::Unknown,
        }
    }
}

/// Says whether any process of this user bears the tag of another service or of an earlier run.
fn is_any_marked() -> bool {
    let own = sys::own_limits();
    let is_marked = |pid: Pid| origin_of_foreigner(sys::tag_of(pid), own, false) == PeerOrigin::Unknown;
    tree::all().into_iter().any(is_marked)
}

/// Judges a process that does not descend from the service by its limits: it may be what an earlier run left, or the
/// program of another service, which is as little a person as one of ours.
fn origin_of_foreigner(tag: Option<TagReading>, own: [u64; 2], is_cut: bool) -> PeerOrigin {
    match tag {
        Some(TagReading::None) => PeerOrigin::Stranger,
        // All in the same call of another service, or calls of it, are one world.
        Some(TagReading::Whole(mark)) if own[0] != u64::MAX && is_in_namespace(mark, own[0] & !u64::from(u32::MAX)) => {
            PeerOrigin::Stranger
        }
        Some(TagReading::Whole(_)) => PeerOrigin::Unknown,
        // Programs that work in real time set the second limit.
        Some(TagReading::Torn(first)) if first == own[0] => PeerOrigin::Stranger,
        Some(TagReading::Torn(first)) if first > own[0] && !is_cut => PeerOrigin::Stranger,
        Some(TagReading::Torn(_)) => PeerOrigin::Unknown,
        // Another user's.
        None if is_cut => PeerOrigin::Unknown,
        None => PeerOrigin::Stranger,
    }
}

/// Reads the line of parents of a process, itself first, up to this process or the first of all; none if it has ended or
/// changes all the time.
fn read_line(pid: Pid) -> Option<Line> {
    let mut last: Option<Line> = None;
    for _ in 0..READINGS {
        let line = read_line_once(pid);
        if let (Some(last), Some(line)) = (&last, &line)
            && last.ancestors == line.ancestors
        {
            break;
        }
        last = line;
        if last.is_none() && test_kill_process(pid).is_err_and(|error| error == rustix::io::Errno::SRCH) {
            return None;
        }
    }
    let line = last?;
    let again = read_line_once(pid)?;
    (line.ancestors == again.ancestors).then_some(line)
}

fn read_line_once(pid: Pid) -> Option<Line> {
    let own = getpid();
    let mut line = Line {
        ancestors: Vec::new(),
        is_cut: false,
    };
    let mut next = Some(pid);
    while let Some(process) = next {
        let Some((parent, start)) = tree::birth_of(process) else {
            // Hidden from us if it is there.
            let is_there = test_kill_process(process) != Err(rustix::io::Errno::SRCH);
            line.is_cut = true;
            return (is_there && !line.ancestors.is_empty()).then_some(line);
        };
        line.ancestors.push((process, start));
        if process == own {
            break;
        }
        if line.ancestors.len() > MAX_LINE {
            return None;
        }
        next = parent;
    }
    Some(line)
}

fn is_in_group(pid: Pid, folder: &std::path::Path) -> bool {
    let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).unwrap_or_default();
    groups.lines().any(|line| line.split('/').any(|part| part == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_tell_foreigners_apart() {
        let none = [u64::MAX; 2];
        let check = |tag, own, is_cut, expected| assert_eq!(origin_of_foreigner(tag, own, is_cut), expected, "{tag:?}");
        let namespace = 1 << 62;
        check(Some(TagReading::None), none, false, PeerOrigin::Stranger);
        check(Some(TagReading::None), none, true, PeerOrigin::Stranger);
        check(Some(TagReading::Whole(namespace | 3)), none, false, PeerOrigin::Unknown);
        check(
            Some(TagReading::Whole(namespace | 3)),
            [namespace | 9, 0],
            false,
            PeerOrigin::Stranger,
        );
        check(
            Some(TagReading::Whole((1 << 61) | 3)),
            [namespace | 9, 0],
            false,
            PeerOrigin::Unknown,
        );
        check(Some(TagReading::Torn(u64::MAX)), none, false, PeerOrigin::Stranger);
        check(Some(TagReading::Torn(5)), none, false, PeerOrigin::Unknown);
        check(None, none, false, PeerOrigin::Stranger);
        check(None, none, true, PeerOrigin::Unknown);
    }

    #[test]
    fn a_line_leads_to_the_first_process() {
        let line = read_line(getpid()).unwrap();
        assert_eq!(line.ancestors[0].0, getpid());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let line = read_line(pid).unwrap();
        assert_eq!(
            line.ancestors.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(),
            [pid, getpid()]
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(read_line(pid).is_none());
    }
}
