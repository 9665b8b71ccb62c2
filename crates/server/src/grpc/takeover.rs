//! Taking a whole connection from the server of HTTP, which does not hand over those that a request upgrades.
//!
//! Whoever answers a request with 101 asks for its connection before. The server writes the answer, takes the exchange for over
//! and drops the connection, which then comes here instead of being closed.
//!
//! *Invariant:* a connection that nobody asked for is closed as ever. What a client sends after its request and before it has the
//! answer is lost; for WebSockets it sends nothing (RFC 6455, section 4.1).

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

/// A connection, of whatever kind.
pub(super) type Connection = Box<dyn Duplex>;

/// What is read from and written to.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// The way to take a connection, known to its requests.
#[derive(Clone, Default)]
pub(crate) struct Takeover(Arc<Mutex<Option<oneshot::Sender<Connection>>>>);

impl fmt::Debug for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Takeover")
    }
}

impl Takeover {
    /// Asks for the connection, which comes when the server has done with it.
    pub(super) fn ask(&self) -> oneshot::Receiver<Connection> {
        let (hand, taken) = oneshot::channel();
        *self.0.lock() = Some(hand);
        taken
    }

    /// Hands a connection that the server has done with to whoever asked for it.
    pub(super) fn hand_over(&self, connection: &mut Connection) {
        if let Some(hand) = self.0.lock().take() {
            let taken = std::mem::replace(connection, Box::new(tokio::io::empty()));
            // Whoever asked may be gone; then it is closed.
            let _ = hand.send(taken);
        }
    }
}
