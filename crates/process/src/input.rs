//! What a program reads: the write end of a pipe that is its standard input.
//!
//! *Invariant:* never blocks a thread. A program that does not read makes the writer wait, and nothing else.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

/// The standard input of a program. Dropping it is the end of that input.
pub struct Input(Sender);

impl Input {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        // Makes the descriptor non-blocking; that of the program is another one, and stays as programs expect it.
        Ok(Self(Sender::from_owned_fd(pipe)?))
    }

    /// Writes all bytes, and waits while the program does not read.
    ///
    /// # Errors
    /// Nobody can read them any more. Some may have been read.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.0.writable().await?;
            match self.0.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Completes when nobody can read any more: the program, and whoever got its input from it, have closed it.
    pub async fn abandoned(&self) {
        // An error means a runtime that shuts down.
        let _ = self.0.ready(Interest::ERROR).await;
    }
}
