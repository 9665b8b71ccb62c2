//! The ports that programs of calls listen on, and those that are open: each is kept so by a call of the tool `port`, and reached
//! by whoever has opened it, or by its secret.
//!
//! *Invariant:* a secret leaves this module only for whoever opened the port; nothing else shows it. A connection counts until
//! it is dropped, and ends with its port.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use toolgate_model::{CallId, ListeningPort};
use toolgate_process::{CallPort, Listeners, Listening, Programs};
use uuid::Uuid;

/// Connections to one opened port that may be open at a time.
pub const MAX_CONNECTIONS: u32 = 256;

/// How long the connections of a closed port may take to be gone.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns what the programs of a call listen on, of the sockets that were seen to.
pub async fn listening(programs: &Programs, call: &CallId, listeners: Listeners) -> Vec<ListeningPort> {
    let (programs, call) = (programs.clone(), call.clone());
    let look = tokio::task::spawn_blocking(move || programs.listening(call.as_str(), &listeners));
    // Fails only when the runtime shuts down.
    let found = look.await.unwrap_or_default();
    found.into_iter().map(as_port).collect()
}

/// Converts what is known of a program that listens.
pub(crate) fn as_port(listening: Listening) -> ListeningPort {
    ListeningPort {
        port: listening.address.port(),
        address: listening.address.ip(),
        pid: listening.process.pid,
        command: listening.process.command,
    }
}

/// The ports that are open. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct OpenPorts(Arc<watch::Sender<HashMap<CallId, Arc<OpenPort>>>>);

/// A port that is open.
pub struct OpenPort {
    /// The call that keeps it open.
    pub call: CallId,
    /// The principal that has opened it.
    pub owner: String,
    port: CallPort,
    number: u16,
    secret: String,
    room: Arc<Semaphore>,
    traffic: Traffic,
    closed: CancellationToken,
}

/// What went through an opened port.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) connections: AtomicU64,
    /// Bytes to the program.
    pub(crate) sent: AtomicU64,
    /// Bytes from the program.
    pub(crate) received: AtomicU64,
}

/// Why no connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// It is not open any more.
    #[error("the port is closed: the call that opened it has ended")]
    Closed,
    /// Nothing of the call listens there, or others do as well.
    #[error("no program of the call listens on the port at this moment, or programs of others do as well")]
    NotListening,
    /// As many are open as may be.
    #[error("{MAX_CONNECTIONS} connections to the port are open, which is as many as may be")]
    TooMany,
}

impl fmt::Debug for OpenPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenPort")
            .field("call", &self.call)
            .field("owner", &self.owner)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl OpenPorts {
    /// Opens a port, until what is returned is dropped.
    pub(crate) fn open(&self, call: CallId, owner: String, port: CallPort, number: u16) -> Opened {
        let port = Arc::new(OpenPort {
            call: call.clone(),
            owner,
            port,
            number,
            // 244 random bits.
            secret: format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()),
            room: Arc::new(Semaphore::new(MAX_CONNECTIONS as usize)),
            traffic: Traffic::default(),
            closed: CancellationToken::new(),
        });
        self.0.send_modify(|ports| {
            ports.insert(call, port.clone());
        });
        Opened {
            ports: self.clone(),
            port,
        }
    }

    /// Returns the port that a call keeps open.
    pub fn of_call(&self, call: &CallId) -> Option<Arc<OpenPort>> {
        self.0.borrow().get(call).cloned()
    }

    /// Returns the port of a secret.
    pub fn of_secret(&self, secret: &str) -> Option<Arc<OpenPort>> {
        let ports = self.0.borrow();
        let mut open = ports.values();
        // How long it takes says nothing of how much of a guess is right.
        open.find(|port| port.secret.as_bytes().ct_eq(secret.as_bytes()).into())
            .cloned()
    }

    /// Waits until a call keeps a port open, and returns that.
    pub async fn opened_by(&self, call: &CallId) -> Arc<OpenPort> {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(port) = changes.borrow_and_update().get(call) {
                return port.clone();
            }
            if changes.changed().await.is_err() {
                // The other end is our own.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// A port that is open until this is dropped.
pub(crate) struct Opened {
    ports: OpenPorts,
    port: Arc<OpenPort>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.port.closed.cancel();
        self.ports.0.send_modify(|ports| {
            ports.remove(&self.port.call);
        });
    }
}

impl Opened {
    /// Waits until no connection is open.
    pub(crate) async fn is_idle(&self) {
        // Nobody closes the semaphore.
        let _ = self.port.room.acquire_many(MAX_CONNECTIONS).await;
    }

    /// Closes it, and returns what went through when the connections are gone.
    pub(crate) async fn close(self) -> Arc<OpenPort> {
        self.port.closed.cancel();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.is_idle()).await;
        self.port.clone()
    }
}

impl OpenPort {
    /// Returns the port.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns what whoever knows it reaches the port by.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Ends when the port is closed.
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Makes a connection to the program.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(self: &Arc<Self>) -> Result<Connection, ConnectError> {
        if self.closed.is_cancelled() {
            return Err(ConnectError::Closed);
        }
        let room = self.room.clone().try_acquire_owned();
        let room = room.map_err(|_| ConnectError::TooMany)?;
        let stream = tokio::select! {
            stream = self.port.connect() => stream.ok_or(ConnectError::NotListening)?,
            () = self.closed.cancelled() => return Err(ConnectError::Closed),
        };
        self.traffic.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Connection {
            stream,
            port: self.clone(),
            closed: [(); 2].map(|()| Box::pin(self.closed.clone().cancelled_owned())),
            _room: room,
        })
    }
}

/// A connection to a program. When its port is closed, it fails.
pub struct Connection {
    stream: TcpStream,
    port: Arc<OpenPort>,
    /// One for each direction: a future wakes only who asked it last.
    closed: [Pin<Box<WaitForCancellationFutureOwned>>; 2],
    _room: OwnedSemaphorePermit,
}

impl Connection {
    fn check(&mut self, direction: usize, cx: &mut Context<'_>) -> io::Result<()> {
        match self.closed[direction].as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, ConnectError::Closed)),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(0, cx)?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = (buffer.filled().len() - before) as u64;
        self.port.traffic.received.fetch_add(read, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(1, cx)?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.port.traffic.sent.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
