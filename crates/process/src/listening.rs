//! What the programs of calls listen on, and at which address only they do.
//!
//! *Invariant:* closed by default. A socket that nobody is seen to hold is not the call's, and an address at which anybody else
//! listens as well, be it less exactly, is not one to connect to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Pid;
use tokio::net::TcpStream;

use super::launch::Process;
use super::peer::PeerOrigin;
use super::programs::{MAX_SHOWN, MAX_SHOWN_BYTES, Programs};
use super::sockets::{self, Listener, holders};
use super::tree;

/// For how long it is believed that the very same sockets are held by the very same processes.
const BELIEF: Duration = Duration::from_secs(1);

/// How long a program may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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

/// A port of one call, to be connected to. Cheap to clone.
#[derive(Clone)]
pub struct CallPort(Arc<Port>);

struct Port {
    programs: Programs,
    call: String,
    port: u16,
    /// Where only programs of the call listened, and when that was found out.
    seen: Mutex<Option<(Instant, Vec<OwnAddress>)>>,
}

/// A loopback address at which programs of one call listen, and nobody else does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnAddress {
    /// The address to connect to.
    pub(super) address: SocketAddr,
    /// What listens there.
    listening: Listening,
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

    /// Returns one that a connection to an address would reach, if we may see its process. Blocking, for a look at the open files of
    /// all processes.
    pub fn at(&self, address: SocketAddr) -> Option<Listening> {
        let reached = self.reached_at(address);
        let held = holders(&inodes_of(&reached));
        reached.iter().find_map(|listener| shown(listener, &held))
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
    pub(super) fn is_unchanged(&self) -> bool {
        Listeners::look().is_ok_and(|now| now.reached_at(self.address) == self.sockets)
    }
}

impl CallPort {
    /// Names a port of a call.
    pub fn new(programs: Programs, call: &str, port: u16) -> Self {
        Self(Arc::new(Port {
            programs,
            call: call.to_owned(),
            port,
            seen: Mutex::default(),
        }))
    }

    /// Says whether anything that was started for the call runs, or was left running by it.
    pub fn is_of_running_call(&self) -> bool {
        self.0.programs.runs_for(&self.0.call)
    }

    /// Returns what listens there; none if it cannot be connected to, because nothing of the call listens at an address that
    /// leads there from here, or others do as well.
    pub async fn listening(&self) -> Option<Listening> {
        let addresses = self.addresses().await;
        addresses.into_iter().next().map(|own| own.listening)
    }

    /// Connects to it; none if nothing of the call listens there, or others do as well, before or after.
    pub async fn connect(&self) -> Option<TcpStream> {
        for own in self.addresses().await {
            let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(own.address));
            let Ok(Ok(connection)) = connecting.await else { continue };
            let is_unchanged = tokio::task::spawn_blocking(move || own.is_unchanged());
            if is_unchanged.await.unwrap_or_default() {
                // What a client sends is sent on as it comes.
                let _ = connection.set_nodelay(true);
                return Some(connection);
            }
        }
        None
    }

    async fn addresses(&self) -> Vec<OwnAddress> {
        let port = self.0.clone();
        let look = tokio::task::spawn_blocking(move || port.look());
        look.await.unwrap_or_default()
    }
}

impl Port {
    fn look(&self) -> Vec<OwnAddress> {
        // Held meanwhile: whoever else asks gets the answer of this look.
        let mut seen = self.seen.lock();
        if let Some((when, addresses)) = &*seen
            && when.elapsed() < BELIEF
            && addresses.iter().all(OwnAddress::is_unchanged)
        {
            return addresses.clone();
        }
        *seen = None;
        let addresses = self.programs.own_addresses(&self.call, self.port);
        let addresses = addresses.unwrap_or_else(|error| {
            tracing::warn!(%error, "what listens on this machine cannot be found out");
            Vec::new()
        });
        if !addresses.is_empty() {
            *seen = Some((Instant::now(), addresses.clone()));
        }
        addresses
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
    pub(super) fn own_addresses(&self, call: &str, port: u16) -> io::Result<Vec<OwnAddress>> {
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
