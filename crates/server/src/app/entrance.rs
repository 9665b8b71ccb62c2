//! The way in: where is listened, who may come, how much, and what operators see of it. A service has it, and so has a
//! gateway, which runs no calls.
//!
//! *Invariant:* nothing here knows what is served.

#![allow(clippy::disallowed_methods)] // removes its own socket

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use toolgate_config::Config;
use toolgate_config::service::{AuthConfig, ClusterRole, ListenConfig, TlsConfig};
use toolgate_ledger::wire::MAX_REQUESTS;
use toolgate_telemetry::{Admin, Telemetry};

use super::{socket, telemetry};
use crate::grpc::auth::{Authenticator, Tls, keep_fresh};
use crate::grpc::limits::{Traffic, TrafficLimits};
use crate::grpc::{Listener, ServeError, Services, console};

/// Connections that wait to be accepted: all workers of a fleet come at once when a gateway is back, and one that finds no room waits for
/// seconds before it tries again. The kernel bounds it by `net.core.somaxconn`.
const WAITING_CONNECTIONS: u32 = 4096;

/// RPCs that the one connection of a worker carries at least, whatever clients may: what it stores, renewals, what it follows and its
/// registration. With fewer, what it stores would wait behind streams that do not end.
const STREAMS_OF_WORKER: u32 = 256;
const _: () = assert!(STREAMS_OF_WORKER as usize >= 2 * MAX_REQUESTS);

/// What is there before anybody is let in.
pub struct Entrance {
    /// Knows who may call.
    pub authenticator: Arc<Authenticator>,
    /// Knows how much may come from whom.
    pub traffic: Arc<Traffic>,
    /// What is told of RPCs.
    pub telemetry: Telemetry,
    /// What operators ask.
    pub admin: Option<Admin>,
    tls: Option<Arc<Tls>>,
    /// For workers alone: where, and how that is encrypted.
    for_workers: Option<(SocketAddr, Option<Arc<Tls>>)>,
    listen: ListenConfig,
    socket_group: Option<String>,
}

/// Something else listens where a listener should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Taken {
    /// On a TCP address.
    #[error("cannot listen on {0}: the address is in use")]
    Tcp(SocketAddr),
    /// On a Unix socket.
    #[error("cannot listen on {}: somebody listens there", .0.display())]
    Unix(PathBuf),
}

/// Where is listened.
pub struct Addresses {
    /// On TCP; the port is the real one.
    pub tcp: Option<SocketAddr>,
    /// Whether that is encrypted.
    pub tls: bool,
    /// The Unix socket.
    pub unix: Option<PathBuf>,
}

impl Entrance {
    /// Reads the files that say who may come, and opens the port for operators.
    ///
    /// # Errors
    /// A file or an address cannot be used; the text names it.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        if config.console && !console::IS_BUILT {
            anyhow::bail!("console: this build of Toolgate has no console (it lacks the Cargo feature \"console\")");
        }
        let (telemetry, admin) = telemetry::open(&config.telemetry).await?;
        let (of_all, of_workers) = (tls(config.tls.as_ref()).await?, tls(config.worker_tls.as_ref()).await?);
        let at = config.cluster.listen;
        Ok(Self {
            authenticator: authenticator(&config.auth).await?,
            for_workers: at.map(|at| (at, of_workers.or_else(|| of_all.clone()))),
            tls: of_all,
            traffic: Traffic::new(traffic(config), telemetry.metrics.clone()),
            listen: config.listen.clone(),
            socket_group: config.auth.unix.as_ref().map(|unix| unix.group.clone()),
            telemetry,
            admin,
        })
    }

    /// Binds the listeners and serves on them until `stop`.
    ///
    /// # Errors
    /// An address or a socket cannot be had; the text names it.
    pub async fn listen(
        &self,
        services: &Services,
        servers: &mut JoinSet<Result<(), ServeError>>,
        stop: &CancellationToken,
    ) -> anyhow::Result<Addresses> {
        let services = services.clone().waiting(self.listen.request_timeout);
        let mut tcp = None;
        if let Some(address) = self.listen.tcp {
            let bound = bind(address, self.tls.clone()).await;
            let (bound, listener) = bound.map_err(|error| occupied(error, address))?;
            tcp = Some(bound);
            servers.spawn(services.clone().serve(listener, stop.clone()));
        }
        let unix = self.listen.unix.clone();
        if let Some(path) = &unix {
            let listener = socket::bind(path, self.socket_group.as_deref());
            let listener = listener.map_err(|error| match error.is::<Taken>() {
                true => error,
                false => error.context(format!("cannot listen on {}", path.display())),
            })?;
            servers.spawn(services.clone().serve(Listener::Unix(listener), stop.clone()));
        }
        let of_workers = self.for_workers.iter().filter_map(|(_, tls)| tls.clone());
        let tls: Vec<Arc<Tls>> = self.tls.clone().into_iter().chain(of_workers).collect();
        let (authenticator, stop) = (self.authenticator.clone(), stop.clone());
        servers.spawn(async move { Ok(keep_fresh(authenticator, tls, stop).await?) });
        Ok(Addresses {
            tcp,
            tls: self.tls.is_some(),
            unix,
        })
    }
}

impl Entrance {
    /// Says whether workers have a listener of their own.
    pub fn is_apart_for_workers(&self) -> bool {
        self.for_workers.is_some()
    }

    /// Serves workers on the listener for them alone, if there is one, and returns where that is.
    ///
    /// # Errors
    /// The address cannot be had; the text names it.
    pub async fn listen_for_workers(
        &self,
        services: &Services,
        servers: &mut JoinSet<Result<(), ServeError>>,
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<SocketAddr>> {
        let Some((address, tls)) = &self.for_workers else {
            return Ok(None);
        };
        let services = services.clone().waiting(self.listen.request_timeout);
        let services = services.carrying(STREAMS_OF_WORKER);
        let bound = bind(*address, tls.clone()).await;
        let (bound, listener) = bound.map_err(|error| occupied(error, *address))?;
        servers.spawn(services.serve(listener, stop.clone()));
        Ok(Some(bound))
    }
}

/// Returns when one of the servers has failed, or none is left.
pub async fn failure(servers: &mut JoinSet<Result<(), ServeError>>) -> anyhow::Error {
    loop {
        match servers.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => return error.into(),
            Some(Err(panicked)) => return panicked.into(),
            None => return anyhow::anyhow!("nothing is listening any more"),
        }
    }
}

impl Entrance {
    /// Sends what is left of traces and metrics, and closes the port for operators.
    pub async fn close(self) {
        self.telemetry.close().await;
        if let Some(admin) = self.admin {
            admin.close().await;
        }
    }
}

impl Addresses {
    /// Takes the socket away, while it is still listened on there: no other can have taken the path over.
    pub fn remove_socket(unix: Option<&Path>) {
        if let Some(path) = unix {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Says which address cannot be had.
fn occupied(error: io::Error, address: SocketAddr) -> anyhow::Error {
    if error.kind() == io::ErrorKind::AddrInUse {
        Taken::Tcp(address).into()
    } else {
        anyhow::Error::from(error).context(format!("cannot listen on {address}"))
    }
}

async fn bind(address: SocketAddr, tls: Option<Arc<Tls>>) -> io::Result<(SocketAddr, Listener)> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(WAITING_CONNECTIONS)?;
    let bound = listener.local_addr()?;
    Ok(match tls {
        Some(tls) => (bound, Listener::Tls(listener, tls)),
        None => (
            bound,
            Listener::Tcp(TcpIncoming::from(listener).with_nodelay(Some(true))),
        ),
    })
}

async fn authenticator(config: &AuthConfig) -> anyhow::Result<Arc<Authenticator>> {
    let config = config.clone();
    let loaded = tokio::task::spawn_blocking(move || Authenticator::load(config)).await?;
    loaded.context("cannot set up authentication")
}

async fn tls(config: Option<&TlsConfig>) -> anyhow::Result<Option<Arc<Tls>>> {
    let Some(config) = config.cloned() else { return Ok(None) };
    let loaded = tokio::task::spawn_blocking(move || Tls::load(config)).await?;
    loaded.context("cannot set up TLS").map(Some)
}

fn traffic(config: &Config) -> TrafficLimits {
    let limits = &config.limits;
    // Who comes by a connection is known only when it is there.
    let comes_with_workers = config.cluster.role == ClusterRole::Gateway && config.cluster.listen.is_none();
    let least = if comes_with_workers { STREAMS_OF_WORKER } else { 0 };
    TrafficLimits {
        requests_per_second: limits.max_requests_per_second,
        request_burst: limits.max_request_burst,
        streams: limits.max_streams as usize,
        streams_per_principal: limits.max_streams_per_principal.map(|most| most as usize),
        streams_per_connection: limits.max_streams_per_connection.max(least),
    }
}
