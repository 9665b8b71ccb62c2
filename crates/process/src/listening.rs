//! What the programs of calls listen on, and at which address only they do.
//!
//! *Invariant:* closed by default. A socket that nobody is seen to hold is not the call's, and an address at which anybody else
//! listens as well, be it less exactly, is not one to connect to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::process::Pid;

use super::launch::Process;
use super::peer::PeerOrigin;
use super::programs::{MAX_SHOWN, MAX_SHOWN_BYTES, Programs};
use super::sockets::{self, Listener, holders};
use super::tree;

/// The TCP sockets of this machine that listen, at one moment. Two are equal if nobody has begun or ceased to listen between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners(Vec<Listener>);

/// A program that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Where.
    pub address: SocketAddr,
    /// One of the processes that do.
    pub process: Process,
}

/// A loopback address at which programs of one call listen, and nobody else does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address to connect to.
    pub address: SocketAddr,
    /// What listens there.
    pub listening: Listening,
    sockets: Vec<Listener>,
}

impl Listeners {
    /// Looks. Blocking, for two questions to the kernel.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn look() -> io::Result<Self> {
        sockets::listeners().map(Self)
    }

    /// Returns those that a connection to an address could reach.
    fn reached_at(&self, to: SocketAddr) -> Vec<Listener> {
        let is_reached = |listener: &&Listener| {
            let at = listener.address.ip();
            // One that listens at all addresses of IPv6 may do so for those of IPv4.
            let is_for_all = at == Ipv6Addr::UNSPECIFIED || (to.is_ipv4() && at == Ipv4Addr::UNSPECIFIED);
            listener.address.port() == to.port() && (at == to.ip() || is_for_all)
        };
        self.0.iter().filter(is_reached).copied().collect()
    }
}

impl OwnAddress {
    /// Says whether the very same sockets listen there still. Blocking, for two questions to the kernel.
    pub fn is_unchanged(&self) -> bool {
        Listeners::look().is_ok_and(|now| now.reached_at(self.address) == self.sockets)
    }
}

impl Programs {
    /// Says whether anything that was started for a call runs, or was left running by it.
    pub fn runs_for(&self, call: &str) -> bool {
        !self.0.reaper.tags_of(|entry| entry.call == call).is_empty()
    }

    /// Returns what the programs of a call listen on, at most 64 addresses, in their order. Blocking, for a look at the open
    /// files of all processes, unless nothing of the call runs.
    pub fn listening(&self, call: &str, listeners: &Listeners) -> Vec<Listening> {
        if listeners.0.is_empty() || !self.runs_for(call) {
            return Vec::new();
        }
        let mut held = holders(&inodes_of(&listeners.0));
        held.retain(|(_, pid)| self.is_of(*pid, call));
        let mut found: Vec<Listening> = Vec::new();
        for listener in &listeners.0 {
            // Several sockets may share an address.
            let is_new = found.last().is_none_or(|last| last.address != listener.address);
            found.extend(shown(listener, &held).into_iter().filter(|_| is_new));
        }
        found.truncate(MAX_SHOWN);
        found
    }

    /// Returns the loopback addresses at which programs of a call listen on a port, and nobody else does: the one to try first
    /// comes first. Blocking, as [`Self::listening`].
    ///
    /// # Errors
    /// The kernel does not say what listens.
    pub fn own_addresses(&self, call: &str, port: u16) -> io::Result<Vec<OwnAddress>> {
        let listeners = Listeners::look()?;
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let mut reached: Vec<_> = loopback
            .map(|ip| SocketAddr::new(ip, port))
            .into_iter()
            .map(|address| (address, listeners.reached_at(address)))
            .collect();
        // What listens at all addresses of IPv6 need not do so for those of IPv4.
        let is_v4 = |(_, sockets): &&(SocketAddr, Vec<Listener>)| sockets.iter().any(|one| one.address.is_ipv4());
        if reached.first().filter(is_v4).is_none() {
            reached.reverse();
        }
        let all: Vec<Listener> = reached.iter().flat_map(|(_, sockets)| sockets).copied().collect();
        if all.is_empty() || !self.runs_for(call) {
            return Ok(Vec::new());
        }
        let held = holders(&inodes_of(&all));
        let is_own = |socket: &Listener| {
            let mut those = held.iter().filter(|(inode, _)| *inode == socket.inode).peekable();
            those.peek().is_some() && those.all(|(_, pid)| self.is_of(*pid, call))
        };
        let own = reached.into_iter().filter(|(_, sockets)| sockets.iter().all(is_own));
        let own = own.filter_map(|(address, sockets)| {
            let listening = shown(sockets.first()?, &held)?;
            Some(OwnAddress {
                address,
                listening,
                sockets,
            })
        });
        Ok(own.collect())
    }

    fn is_of(&self, pid: Pid, call: &str) -> bool {
        matches!(self.origin_of(pid), PeerOrigin::Call(of) if of == call)
    }
}

fn inodes_of(listeners: &[Listener]) -> Vec<u32> {
    listeners.iter().map(|listener| listener.inode).collect()
}

/// Returns what is told of a socket: of those that hold it, the process with the lowest number, which started the others.
fn shown(listener: &Listener, held: &[(u32, Pid)]) -> Option<Listening> {
    let own = held.iter().filter(|(inode, _)| *inode == listener.inode);
    let pid = own.map(|(_, pid)| *pid).min_by_key(|pid| pid.as_raw_nonzero())?;
    Some(Listening {
        address: listener.address,
        process: Process {
            pid: pid.as_raw_nonzero().get().cast_unsigned(),
            command: tree::command_of(pid, MAX_SHOWN_BYTES)?,
        },
    })
}
