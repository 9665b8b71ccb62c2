//! What a program reads: the write end of a pipe that is its standard input, or the service's end of its terminal.
//!
//! *Invariant:* never blocks a thread. A program that does not read makes the writer wait, and nothing else.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

/// What a terminal takes for the end of the input, at the beginning of a line: Ctrl-D.
const END_OF_INPUT: &[u8] = b"\x04";

/// The standard input of a program. Dropping a pipe is the end of that input.
pub struct Input {
    sender: Sender,
    is_terminal: bool,
}

impl Input {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        // Makes the descriptor non-blocking; that of the program is another one, and stays as programs expect it.
        Ok(Self {
            sender: Sender::from_owned_fd(pipe)?,
            is_terminal: false,
        })
    }

    /// The same for the service's end of a terminal.
    pub(super) fn of_terminal(terminal: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            sender: Sender::from_owned_fd_unchecked(terminal)?,
            is_terminal: true,
        })
    }

    /// Writes all bytes, and waits while the program does not read.
    ///
    /// # Errors
    /// Nobody can read them any more. Some may have been read.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.sender.writable().await?;
            match self.sender.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says that nothing follows: a pipe is closed, and in a terminal Ctrl-D is typed, which is the end for a program that
    /// reads lines.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn end(self) -> io::Result<()> {
        if self.is_terminal {
            self.write(END_OF_INPUT).await?;
        }
        Ok(())
    }

    /// Completes when nobody can read any more: the program, and whoever got its input from it, have closed it. A
    /// terminal can be opened again, and is never abandoned while the program runs.
    pub async fn abandoned(&self) {
        // An error means a runtime that shuts down.
        let _ = self.sender.ready(Interest::ERROR).await;
    }
}
