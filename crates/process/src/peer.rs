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
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, Mode, OFlags, openat, readlinkat};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, test_kill_process};

use super::programs::Programs;
use super::reaper::{ProcessTag, is_in_namespace};
use super::sys::{self, TagReading};
use super::{reaper, tree};

/// How often a line of parents is read until two readings agree.
const READINGS: u32 = 16;

/// The longest line of parents.
const MAX_LINE: usize = 4096;

/// Bytes of the kernel's answer about one socket.
const ANSWER: usize = 4096;

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
        let origin = holders(inode).into_iter().map(|pid| self.origin_of(pid));
        let found = origin.reduce(|one, other| if one == PeerOrigin::Stranger { other } else { one });
        found.unwrap_or(PeerOrigin::Unknown)
    }

    fn origin_of(&self, pid: Pid) -> PeerOrigin {
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

/// What the kernel knows of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    user: u32,
    /// 0 once nobody holds it.
    inode: u32,
}

/// Finds the TCP socket that is bound to `from` and connected to `to`.
fn find_socket(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Found>> {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (from, to) = (canonical(from), canonical(to));
    match ask(from, to) {
        Ok(Some(found)) => Ok(Some(found)),
        // Also what a kernel says that was built without it.
        Ok(None) | Err(_) => look_up(from, to),
    }
}

/// Asks for one socket by `sock_diag`.
fn ask(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Found>> {
    const REQUEST: u16 = 1;
    const BY_FAMILY: u16 = 20;
    const ERROR: u16 = 2;
    const LISTEN: u8 = 10;
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    let family = if from.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut message = Vec::with_capacity(72);
    message.extend_from_slice(&72_u32.to_ne_bytes());
    message.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&REQUEST.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&[family.to_ne_bytes()[0], libc::IPPROTO_TCP.to_ne_bytes()[0], 0, 0]);
    message.extend_from_slice(&u32::MAX.to_ne_bytes());
    let id = socket_id(from, to);
    message.extend_from_slice(&id);
    // On any interface, with any cookie.
    message.extend_from_slice(&0_u32.to_ne_bytes());
    message.extend_from_slice(&[0xff; 8]);
    send(&kernel, &message, SendFlags::empty())?;
    let mut answer = vec![0; ANSWER];
    let (length, _) = recv(&kernel, answer.as_mut_slice(), RecvFlags::DONTWAIT)?;
    answer.truncate(length);
    let word = |at: usize| -> Option<u32> { Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?)) };
    let kind = answer
        .get(4..6)
        .and_then(|kind| kind.try_into().ok())
        .map(u16::from_ne_bytes);
    if kind == Some(ERROR) {
        let code = word(16).map_or(0, |code| code.cast_signed().saturating_neg());
        return match code {
            libc::ENOENT => Ok(None),
            code => Err(io::Error::from_raw_os_error(code)),
        };
    }
    // A listening one is found in the place of one that is gone.
    let is_meant = kind == Some(BY_FAMILY) && answer.get(17) != Some(&LISTEN) && answer.get(20..56) == Some(&id[..]);
    let found = word(80).zip(word(84)).filter(|_| is_meant);
    Ok(found.map(|(user, inode)| Found { user, inode }))
}

/// Ports and addresses as `sock_diag` has them.
fn socket_id(from: SocketAddr, to: SocketAddr) -> [u8; 36] {
    let mut id = [0; 36];
    id[0..2].copy_from_slice(&from.port().to_be_bytes());
    id[2..4].copy_from_slice(&to.port().to_be_bytes());
    for (at, address) in [(4, from.ip()), (20, to.ip())] {
        match address {
            IpAddr::V4(address) => id[at..at + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => id[at..at + 16].copy_from_slice(&address.octets()),
        }
    }
    id
}

/// Looks for a socket in the lists of `/proc/net`.
fn look_up(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Found>> {
    const LISTEN: &str = "0A";
    for list in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let is_v6 = list.ends_with('6');
        let (Some(from), Some(to)) = (listed(from, is_v6), listed(to, is_v6)) else {
            continue;
        };
        let text = match fs::read_to_string(list) {
            Ok(text) => text,
            Err(error) if is_v6 && error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, local, remote, state, _, _, _, user, _, inode, ..] = fields.as_slice() else {
                continue;
            };
            if *local == from && *remote == to && *state != LISTEN {
                let number = |text: &str| text.parse().map_err(io::Error::other);
                let (user, inode) = (number(user)?, number(inode)?);
                return Ok(Some(Found { user, inode }));
            }
        }
    }
    Ok(None)
}

/// Writes an address as the lists do: words of the machine's own order; none if the list has no such addresses.
fn listed(address: SocketAddr, is_v6: bool) -> Option<String> {
    let octets = match (address.ip(), is_v6) {
        (IpAddr::V4(address), false) => address.octets().to_vec(),
        (IpAddr::V4(address), true) => address.to_ipv6_mapped().octets().to_vec(),
        (IpAddr::V6(address), true) => address.octets().to_vec(),
        (IpAddr::V6(_), false) => return None,
    };
    let words = octets.chunks_exact(4).map(|word| {
        let word = word.try_into().map(u32::from_ne_bytes).unwrap_or_default();
        format!("{word:08X}")
    });
    Some(format!("{}:{:04X}", words.collect::<String>(), address.port()))
}

/// Returns the processes that hold a socket, as far as we may see that.
fn holders(inode: u32) -> Vec<Pid> {
    let link = format!("socket:[{inode}]");
    let holds = |pid: &Pid| holds(*pid, link.as_bytes()).unwrap_or(false);
    tree::all().into_iter().filter(holds).collect()
}

fn holds(pid: Pid, link: &[u8]) -> io::Result<bool> {
    let path = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder: OwnedFd = openat(rustix::fs::CWD, path.as_str(), flags, Mode::empty())?;
    let mut target = Vec::with_capacity(64);
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        // Closed meanwhile.
        let Ok(read) = readlinkat(folder.as_fd(), entry.file_name(), std::mem::take(&mut target)) else {
            continue;
        };
        if read.as_bytes() == link {
            return Ok(true);
        }
        target = read.into_bytes();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_socket_is_found_by_both_ends() {
        for (at, by) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
        ] {
            let Ok(listener) = TcpListener::bind(at) else {
                eprintln!("no IPv6 here");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect((by, port)).unwrap();
            let (server, remote) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            let folder = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&client))).unwrap();
            let inode = folder
                .to_str()
                .unwrap()
                .trim_start_matches("socket:[")
                .trim_end_matches(']');
            let inode = inode.parse().unwrap();
            let user = fs::metadata("/proc/self").unwrap().uid();
            let expected = Some(Found { user, inode });
            assert_eq!(find_socket(remote, local).unwrap(), expected, "{at}");
            let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
            assert_eq!(ask(canonical(remote), canonical(local)).unwrap(), expected, "{at}");
            assert_eq!(look_up(canonical(remote), canonical(local)).unwrap(), expected, "{at}");
            assert!(holders(inode).contains(&getpid()));
            drop(client);
            let gone = find_socket(remote, local).unwrap();
            assert!(gone.is_none_or(|found| found.inode == 0), "{gone:?}");
            // The listener is not taken for it.
            let nobody = SocketAddr::new(local.ip(), 1);
            assert_eq!(find_socket(nobody, local).unwrap(), None);
        }
    }

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
