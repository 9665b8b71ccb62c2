//! Who is behind a connection: what the kernel says of its process, and what the engine knows of that one's call.
//!
//! *Invariant:* whatever descends from the service has the rights of its call or none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::net::UnixStream;
use toolgate_config::service::LocalUsers;
use toolgate_engine::Engine;
use toolgate_model::CallId;
use toolgate_process::{Peer, PeerOrigin, Programs};

use crate::grpc::arrival::{Behind, MakingCall, Tracer};

const NOT_TRACED: &str = "this connection cannot be traced to the process that made it: connect again, from a process \
                          that lives as long as its connection";

const OF_NO_CALL: &str = "this connection comes from a program that this or another Toolgate service started, for no call \
                          that is known, or from one that hides whose it is: connect from a terminal of your own. If it \
                          comes by TCP, use the Unix socket, set up authentication, or set listen.local_users = \"any\"";

const OTHER_USER: &str = "without authentication this address is for the user that the service runs as: connect as that \
                          user, set up authentication (auth.tokens_file), or let every user of this machine in with \
                          listen.local_users = \"any\"";

/// Traces connections.
pub(super) struct Peers {
    pub(super) programs: Programs,
    pub(super) engine: Arc<Engine>,
    pub(super) local_users: LocalUsers,
}

impl Peers {
    async fn behind(&self, origin: PeerOrigin) -> Behind {
        let call = match origin {
            PeerOrigin::Stranger => return Behind::Stranger,
            PeerOrigin::Unknown => return Behind::Refused(OF_NO_CALL),
            PeerOrigin::Call(call) => CallId::from(call.as_str()),
        };
        match self.engine.origin_of(&call).await {
            Ok(Some(origin)) => Behind::Call(Arc::new(MakingCall {
                id: call,
                workspace: origin.workspace.clone(),
                session: origin.session.clone(),
                requesters: origin.requesters(),
            })),
            Ok(None) => Behind::Refused(OF_NO_CALL),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the call of a connection cannot be read"
                );
                Behind::Refused(NOT_TRACED)
            }
        }
    }
}

#[async_trait]
impl Tracer for Peers {
    async fn unix(&self, connection: &UnixStream) -> Behind {
        let programs = self.programs.clone();
        let found = match connection.as_fd().try_clone_to_owned() {
            Ok(connection) => blocking(move || programs.behind_unix(connection.as_fd())).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(Peer { origin, .. }) => self.behind(origin).await,
            Err(error) => {
                tracing::warn!(%error, "a connection to the Unix socket cannot be traced");
                Behind::Refused(NOT_TRACED)
            }
        }
    }

    async fn tcp(&self, local: SocketAddr, remote: SocketAddr) -> Behind {
        let is_strict = self.local_users == LocalUsers::Same;
        let programs = self.programs.clone();
        let found = blocking(move || programs.behind_tcp(local, remote)).await;
        match found {
            Ok(Some(Peer { user, .. })) if is_strict && user != rustix::process::geteuid().as_raw() => {
                Behind::Refused(OTHER_USER)
            }
            // With the key it is enough that nothing says that it is ours.
            Ok(Some(Peer {
                origin: PeerOrigin::Unknown,
                ..
            })) if !is_strict => Behind::Stranger,
            Ok(Some(Peer { origin, .. })) => self.behind(origin).await,
            // From another machine or from a network of containers: what may come from there the address says.
            Ok(None) if !is_strict || !remote.ip().to_canonical().is_loopback() => Behind::Stranger,
            Ok(None) => Behind::Refused(OTHER_USER),
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be traced");
                Behind::Refused(NOT_TRACED)
            }
        }
    }
}

async fn blocking<T: Send + 'static>(look: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(look).await.map_err(io::Error::other)?
}
