//! TCP sockets of this machine as the kernel lists them, and who holds them: the one of a connection, and those that listen.
//!
//! A kernel that does not answer by `sock_diag` is read by the lists of `/proc/net`.
//!
//! *Invariant:* reads only, and only in the service's own network namespace.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Dir, Mode, OFlags, openat, readlinkat};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::process::Pid;

use super::tree;

/// Bytes of one answer of the kernel: as many as it gives at a time.
const ANSWER: usize = 32 * 1024;

/// Kinds of messages of `sock_diag`.
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// The state of a socket that listens, as `sock_diag` and as the lists have it.
const LISTEN: u8 = 10;
const LISTED_LISTEN: &str = "0A";

/// The lists, by whether they are those of IPv6.
const LISTS: [(&str, bool); 2] = [("/proc/net/tcp", false), ("/proc/net/tcp6", true)];

/// What the kernel knows of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) user: u32,
    /// 0 once nobody holds it.
    pub(super) inode: u32,
}

/// Finds the TCP socket that is bound to `from` and connected to `to`.
pub(super) fn find_socket(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Found>> {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (from, to) = (canonical(from), canonical(to));
    match ask(from, to) {
        Ok(Some(found)) => Ok(Some(found)),
        // Also what a kernel says that was built without it.
        Ok(None) | Err(_) => look_up(from, to),
    }
}

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    pub(super) inode: u32,
}

/// Returns all sockets that listen, in order.
pub(super) fn listeners() -> io::Result<Vec<Listener>> {
    let mut found = match ask_for_listeners() {
        Ok(found) => found,
        Err(_) => look_up_listeners()?,
    };
    found.sort_unstable();
    Ok(found)
}

/// Returns the processes that hold one of these sockets, as far as we may see that: each with the socket. One look at the open
/// files of all processes.
pub(super) fn holders(inodes: &[u32]) -> Vec<(u32, Pid)> {
    let held = |pid: Pid| held_by(pid, inodes).unwrap_or_default().into_iter();
    let processes = tree::all().into_iter();
    processes
        .flat_map(|pid| held(pid).map(move |inode| (inode, pid)))
        .collect()
}

fn held_by(pid: Pid, inodes: &[u32]) -> io::Result<Vec<u32>> {
    let path = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder: OwnedFd = openat(rustix::fs::CWD, path.as_str(), flags, Mode::empty())?;
    let mut target = Vec::with_capacity(64);
    let mut held = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        // Closed meanwhile.
        let Ok(read) = readlinkat(folder.as_fd(), entry.file_name(), std::mem::take(&mut target)) else {
            continue;
        };
        let inode = read.to_str().ok().and_then(|link| link.strip_prefix("socket:["));
        let inode = inode.and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        held.extend(inode.filter(|inode| inodes.contains(inode) && !held.contains(inode)));
        target = read.into_bytes();
    }
    Ok(held)
}

/// Sends a request to `sock_diag`, which answers at once.
fn ask_kernel(family: i32, flags: u16, states: u32, id: &[u8; 36]) -> io::Result<OwnedFd> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    let mut message = Vec::with_capacity(72);
    message.extend_from_slice(&72_u32.to_ne_bytes());
    message.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&[family.to_ne_bytes()[0], libc::IPPROTO_TCP.to_ne_bytes()[0], 0, 0]);
    message.extend_from_slice(&states.to_ne_bytes());
    message.extend_from_slice(id);
    // On any interface, with any cookie.
    message.extend_from_slice(&0_u32.to_ne_bytes());
    message.extend_from_slice(&[0xff; 8]);
    send(&kernel, &message, SendFlags::empty())?;
    Ok(kernel)
}

fn receive(kernel: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut answer = vec![0; ANSWER];
    let (length, _) = recv(kernel, answer.as_mut_slice(), RecvFlags::DONTWAIT)?;
    answer.truncate(length);
    Ok(answer)
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?))
}

fn kind_of(message: &[u8]) -> Option<u16> {
    message
        .get(4..6)
        .and_then(|kind| kind.try_into().ok())
        .map(u16::from_ne_bytes)
}

fn error_of(message: &[u8]) -> i32 {
    word(message, 16).map_or(0, |code| code.cast_signed().saturating_neg())
}

/// Asks for one socket by `sock_diag`.
fn ask(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Found>> {
    const REQUEST: u16 = 1;
    let family = if from.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let id = socket_id(from, to);
    let answer = receive(&ask_kernel(family, REQUEST, u32::MAX, &id)?)?;
    if kind_of(&answer) == Some(ERROR) {
        return match error_of(&answer) {
            libc::ENOENT => Ok(None),
            code => Err(io::Error::from_raw_os_error(code)),
        };
    }
    // A listening one is found in the place of one that is gone.
    let is_meant =
        kind_of(&answer) == Some(BY_FAMILY) && answer.get(17) != Some(&LISTEN) && answer.get(20..56) == Some(&id[..]);
    let found = word(&answer, 80).zip(word(&answer, 84)).filter(|_| is_meant);
    Ok(found.map(|(user, inode)| Found { user, inode }))
}

/// Asks for the sockets that listen by `sock_diag`.
fn ask_for_listeners() -> io::Result<Vec<Listener>> {
    const REQUEST_ALL: u16 = 0x301;
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let kernel = ask_kernel(family, REQUEST_ALL, 1 << LISTEN, &[0; 36])?;
        'answers: loop {
            let answer = receive(&kernel)?;
            let mut rest = answer.as_slice();
            while let Some(length) = word(rest, 0).map(|length| length as usize) {
                let Some(message) = rest.get(..length).filter(|_| length >= 16) else {
                    break;
                };
                match kind_of(message) {
                    Some(DONE) => break 'answers,
                    Some(ERROR) => return Err(io::Error::from_raw_os_error(error_of(message))),
                    Some(_) | None => found.extend(listener_in(message)),
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
    Ok(found)
}

/// Reads what the kernel says of one socket that listens.
fn listener_in(message: &[u8]) -> Option<Listener> {
    let port = u16::from_be_bytes(message.get(20..22)?.try_into().ok()?);
    let ip = if i32::from(*message.get(16)?) == libc::AF_INET {
        IpAddr::from(<[u8; 4]>::try_from(message.get(24..28)?).ok()?)
    } else {
        IpAddr::from(<[u8; 16]>::try_from(message.get(24..40)?).ok()?)
    };
    Some(Listener {
        address: SocketAddr::new(ip.to_canonical(), port),
        inode: word(message, 84)?,
    })
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
    for (list, is_v6) in LISTS {
        let (Some(from), Some(to)) = (listed(from, is_v6), listed(to, is_v6)) else {
            continue;
        };
        let mut found = None;
        read_list(list, is_v6, |row| {
            if row.local == from && row.remote == to && row.state != LISTED_LISTEN {
                found = found.or(row.found);
            }
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Looks for the sockets that listen in the lists of `/proc/net`.
fn look_up_listeners() -> io::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for (list, is_v6) in LISTS {
        read_list(list, is_v6, |row| {
            let address = unlisted(row.local).filter(|_| row.state == LISTED_LISTEN);
            listeners.extend(address.zip(row.found).map(|(address, found)| Listener {
                address,
                inode: found.inode,
            }));
        })?;
    }
    Ok(listeners)
}

/// A line of a list.
struct Row<'l> {
    local: &'l str,
    remote: &'l str,
    state: &'l str,
    found: Option<Found>,
}

fn read_list(list: &str, is_v6: bool, mut each: impl FnMut(Row<'_>)) -> io::Result<()> {
    let text = match fs::read_to_string(list) {
        Ok(text) => text,
        Err(error) if is_v6 && error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, user, _, inode, ..] = fields.as_slice() else {
            continue;
        };
        let found = user.parse().ok().zip(inode.parse().ok());
        each(Row {
            local,
            remote,
            state,
            found: found.map(|(user, inode)| Found { user, inode }),
        });
    }
    Ok(())
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

/// Reads an address that the lists have.
fn unlisted(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let octets = words.as_bytes().chunks_exact(8).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let octets = octets.collect::<Option<Vec<_>>>()?.concat();
    let ip = match octets.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?)),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?)),
    };
    Some(SocketAddr::new(ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, Instant};

    use rustix::process::getpid;

    use super::*;

    fn inode_of(socket: &impl std::os::fd::AsRawFd) -> u32 {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let link = link.to_str().unwrap();
        link.trim_start_matches("socket:[")
            .trim_end_matches(']')
            .parse()
            .unwrap()
    }

    /// A socket can outlive its owner's close: a program that another test starts at this moment holds a copy between `fork` and `exec`.
    fn wait_until(holds: impl Fn() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(30), "it does not come true");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

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
            let inode = inode_of(&client);
            let user = fs::metadata("/proc/self").unwrap().uid();
            let expected = Some(Found { user, inode });
            assert_eq!(find_socket(remote, local).unwrap(), expected, "{at}");
            let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
            assert_eq!(ask(canonical(remote), canonical(local)).unwrap(), expected, "{at}");
            assert_eq!(look_up(canonical(remote), canonical(local)).unwrap(), expected, "{at}");
            assert!(holders(&[inode]).contains(&(inode, getpid())));
            drop(client);
            wait_until(|| find_socket(remote, local).unwrap().is_none_or(|found| found.inode == 0));
            // The listener is not taken for it.
            let nobody = SocketAddr::new(local.ip(), 1);
            assert_eq!(find_socket(nobody, local).unwrap(), None);
        }
    }

    #[test]
    fn what_listens_is_listed_either_way() {
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at) else {
                eprintln!("no IPv6 here");
                continue;
            };
            let own = Listener {
                address: listener.local_addr().unwrap(),
                inode: inode_of(&listener),
            };
            // A connection is not one that listens.
            let to = SocketAddr::new(
                if own.address.is_ipv4() {
                    [127, 0, 0, 1].into()
                } else {
                    Ipv6Addr::LOCALHOST.into()
                },
                own.address.port(),
            );
            let client = TcpStream::connect(to).unwrap();
            for found in [ask_for_listeners().unwrap(), look_up_listeners().unwrap()] {
                let found: Vec<_> = found.into_iter().filter(|one| one.inode == own.inode).collect();
                assert_eq!(found, [own], "{at}");
            }
            assert!(holders(&[own.inode]).contains(&(own.inode, getpid())));
            drop((listener, client));
            wait_until(|| !listeners().unwrap().iter().any(|one| one.inode == own.inode));
        }
    }
}
