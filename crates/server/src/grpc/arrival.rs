//! How a connection came and from whom: found out when it is accepted, and known to every request on it.
//!
//! *Invariant:* a connection is served only after it was traced, and what cannot be traced is refused. Tracing one holds up
//! no other, unless there are [`MAX_TRACES`] of them. One that does not say what it speaks is closed.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::{Connected, TcpConnectInfo, TlsConnectInfo};
use toolgate_model::{CallId, SessionId};

use super::delegate::write_to_connection;
use super::takeover::{Connection, Takeover};

/// How many connections may be traced at a time; more wait in the system's queue.
const MAX_TRACES: usize = 256;

/// How long a connection may take to say what it speaks: HTTP/2 begins with so many bytes, and a request of HTTP/1.1 has as many. What
/// comes behind them has bounds of its own.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(30);
const BEGIN_BYTES: usize = 24;

/// Who is behind a connection.
#[derive(Clone, Debug)]
pub enum Behind {
    /// Nobody that the service started.
    Stranger,
    /// A process that was started for a call.
    Call(Arc<MakingCall>),
    /// Somebody who gets nothing, and why.
    Refused(&'static str),
}

/// A call whose process has connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MakingCall {
    /// The call.
    pub id: CallId,
    /// Its workspace.
    pub workspace: String,
    /// Its session.
    pub session: SessionId,
    /// In whose name it was made: the ids of all of them.
    pub requesters: Vec<String>,
}

/// Finds out who is behind a connection.
#[async_trait]
pub trait Tracer: Send + Sync + 'static {
    /// Traces a connection to the Unix socket.
    async fn unix(&self, connection: &UnixStream) -> Behind;

    /// Traces a connection by TCP to a service that asks nobody who they are.
    async fn tcp(&self, local: SocketAddr, remote: SocketAddr) -> Behind;
}

/// Takes everybody for a stranger.
pub(crate) struct Untraced;

#[async_trait]
impl Tracer for Untraced {
    async fn unix(&self, _connection: &UnixStream) -> Behind {
        Behind::Stranger
    }

    async fn tcp(&self, _local: SocketAddr, _remote: SocketAddr) -> Behind {
        Behind::Stranger
    }
}

/// How a connection came.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// To the Unix socket, of this user.
    Unix(Option<u32>),
    /// By TCP.
    Tcp(TcpConnectInfo),
    /// By TCP, encrypted.
    Tls(TlsConnectInfo<TcpConnectInfo>),
}

/// What every request knows of its connection.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) way: Way,
    pub(crate) behind: Behind,
    pub(super) takeover: Takeover,
    /// Whether the connection is still there.
    pub(crate) alive: Weak<()>,
}

/// Returns the address that a request came from; none if that is a Unix socket.
///
/// # Errors
/// The request came by no connection.
pub fn peer(extensions: &tonic::Extensions) -> Result<Option<std::net::IpAddr>, tonic::Status> {
    let arrival = extensions.get::<Arrival>().ok_or_else(super::status::no_caller)?;
    let remote = match &arrival.way {
        Way::Unix(_) => return Ok(None),
        Way::Tcp(tcp) => tcp.remote_addr(),
        Way::Tls(tls) => tls.get_ref().remote_addr(),
    };
    // Whoever has gone already is nobody that may be called back.
    let remote = remote.ok_or_else(super::status::no_caller)?;
    Ok(Some(remote.ip()))
}

impl Arrival {
    /// Returns the address of this service that the connection came to, if it came by TCP.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match &self.way {
            Way::Unix(_) => None,
            Way::Tcp(tcp) => tcp.local_addr(),
            Way::Tls(tls) => tls.get_ref().local_addr(),
        }
    }

    /// Says whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.way, Way::Tls(_))
    }
}

/// A connection that can be traced.
pub(crate) trait Door: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Says how it came.
    fn way(&self) -> Way;

    /// Finds out who is behind it. `open` says that nobody is asked who they are.
    fn trace(&self, tracer: &dyn Tracer, open: bool) -> impl Future<Output = Behind> + Send;
}

impl Door for UnixStream {
    fn way(&self) -> Way {
        Way::Unix(self.peer_cred().ok().map(|user| user.uid()))
    }

    async fn trace(&self, tracer: &dyn Tracer, _open: bool) -> Behind {
        tracer.unix(self).await
    }
}

impl Door for TcpStream {
    fn way(&self) -> Way {
        Way::Tcp(self.connect_info())
    }

    async fn trace(&self, tracer: &dyn Tracer, open: bool) -> Behind {
        if !open {
            return Behind::Stranger;
        }
        match (self.local_addr(), self.peer_addr()) {
            (Ok(local), Ok(remote)) => tracer.tcp(local, remote).await,
            (Ok(_) | Err(_), _) => Behind::Refused("the connection is closed already"),
        }
    }
}

impl Door for TlsStream<TcpStream> {
    fn way(&self) -> Way {
        Way::Tls(self.connect_info())
    }

    async fn trace(&self, tracer: &dyn Tracer, open: bool) -> Behind {
        self.get_ref().0.trace(tracer, open).await
    }
}

/// A connection that was traced.
pub(crate) struct Traced {
    connection: Connection,
    arrival: Arrival,
    /// None once it has begun.
    begins: Option<Beginning>,
    _alive: Arc<()>,
}

/// A connection that has not said yet what it speaks.
struct Beginning {
    heard: usize,
    end: Pin<Box<Sleep>>,
}

impl Traced {
    fn new(connection: Connection, way: Way, behind: Behind) -> Self {
        let (takeover, alive) = (Takeover::default(), Arc::new(()));
        let arrival = Arrival {
            way,
            behind,
            takeover,
            alive: Arc::downgrade(&alive),
        };
        Self {
            connection,
            arrival,
            begins: Some(Beginning {
                heard: 0,
                end: Box::pin(sleep(BEGIN_TIMEOUT)),
            }),
            _alive: alive,
        }
    }
}

/// Traces the connections of a listener, many at a time.
pub(crate) fn traced<S: Door + Sync>(
    incoming: impl Stream<Item = io::Result<S>> + Send + Unpin,
    tracer: Arc<dyn Tracer>,
    open: bool,
) -> impl Stream<Item = io::Result<Traced>> {
    let traces: JoinSet<Traced> = JoinSet::new();
    stream::unfold(
        (incoming, traces, false),
        move |(mut incoming, mut traces, mut ended)| {
            let tracer = tracer.clone();
            async move {
                loop {
                    tokio::select! {
                        Some(traced) = traces.join_next() => match traced {
                            Ok(traced) => return Some((Ok(traced), (incoming, traces, ended))),
                            Err(error) => tracing::error!(%error, "a connection could not be traced"),
                        },
                        accepted = incoming.next(), if !ended && traces.len() < MAX_TRACES => match accepted {
                            Some(Ok(connection)) => {
                                let tracer = tracer.clone();
                                traces.spawn(async move {
                                    let behind = connection.trace(tracer.as_ref(), open).await;
                                    let way = connection.way();
                                    Traced::new(Box::new(connection), way, behind)
                                });
                            }
                            Some(Err(error)) => return Some((Err(error), (incoming, traces, ended))),
                            None => ended = true,
                        },
                        else => return None,
                    }
                }
            }
        },
    )
}

impl Connected for Traced {
    type ConnectInfo = Arrival;

    fn connect_info(&self) -> Arrival {
        self.arrival.clone()
    }
}

impl AsyncRead for Traced {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.connection).poll_read(cx, buffer);
        if let Some(begins) = &mut self.begins {
            begins.heard += buffer.filled().len() - before;
            if begins.heard >= BEGIN_BYTES {
                self.begins = None;
            } else if polled.is_pending() && begins.end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        polled
    }
}

write_to_connection!(plain Traced);

impl Drop for Traced {
    fn drop(&mut self) {
        self.arrival.takeover.hand_over(&mut self.connection);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_does_not_say_what_it_speaks_is_not_waited_for() {
        for (said, is_enough) in [
            ("", false),
            ("PRI * HTTP/2.0", false),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true),
        ] {
            let (mut client, connection) = duplex(64);
            client.write_all(said.as_bytes()).await.unwrap();
            let mut traced = Traced::new(Box::new(connection), Way::Unix(None), Behind::Stranger);
            let mut heard = Vec::new();
            let ended = timeout(2 * BEGIN_TIMEOUT, traced.read_to_end(&mut heard)).await;
            assert_eq!(heard, said.as_bytes());
            match ended {
                Ok(ended) => assert_eq!((ended.unwrap_err().kind(), is_enough), (io::ErrorKind::TimedOut, false)),
                Err(_) => assert!(is_enough),
            }
        }
    }
}
