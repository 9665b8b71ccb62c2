//! Keys and lines from the controlling terminal, whatever standard input is.
//!
//! *Invariant:* the terminal is in its old mode whenever nobody waits for a key; dropping the future that waits ends
//! the wait. One wait begins when the one before it has put the terminal back, so that neither undoes the other's mode.
//! What was typed before the question is thrown away, so that it cannot answer it.

#![allow(clippy::disallowed_methods)] // opens the terminal

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, PipeReader, Read as _};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::Mutex;

/// The terminal's keyboard.
#[derive(Clone, Debug)]
pub(super) struct Keyboard {
    tty: Arc<File>,
    /// Held by the thread that waits, which may outlive the future that it waits for.
    turn: Arc<Mutex<()>>,
}

#[derive(Clone, Copy)]
enum Unit {
    Key,
    Line,
}

impl Keyboard {
    /// Opens the keyboard, if there is a person who sees what is asked.
    pub(super) fn open() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self {
            tty: Arc::new(tty),
            turn: Arc::default(),
        })
    }

    /// Waits for one key; keys that are not one printable ASCII letter come as NUL.
    pub(super) async fn key(&self) -> io::Result<char> {
        let bytes = self.read(Unit::Key).await?;
        Ok(match bytes.as_slice() {
            [byte] if byte.is_ascii_graphic() => char::from(*byte),
            _ => '\0',
        })
    }

    /// Waits for one line, edited as the terminal edits lines.
    pub(super) async fn line(&self) -> io::Result<String> {
        let bytes = self.read(Unit::Line).await?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    async fn read(&self, unit: Unit) -> io::Result<Vec<u8>> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // The writing end lives in this future: when it is dropped, the thread below sees the end and leaves.
        let (stop, _alive) = io::pipe()?;
        let tty = Arc::clone(&self.tty);
        let wait = move || {
            let _turn = turn;
            read_until_stopped(&tty, &stop, unit)
        };
        tokio::task::spawn_blocking(wait).await.map_err(io::Error::other)?
    }
}

fn read_until_stopped(tty: &File, stop: &PipeReader, unit: Unit) -> io::Result<Vec<u8>> {
    let _mode = Mode::set(tty, unit)?;
    loop {
        let mut both = [PollFd::new(tty, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !both[1].revents().is_empty() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if !both[0].revents().is_empty() {
            break;
        }
    }
    let mut bytes = vec![0; 4096];
    let length = (&*tty).read(&mut bytes)?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// The terminal's mode for one question; put back when it is dropped.
struct Mode<'a> {
    tty: &'a File,
    before: Termios,
}

impl<'a> Mode<'a> {
    fn set(tty: &'a File, unit: Unit) -> io::Result<Self> {
        let before = tcgetattr(tty)?;
        let mut during = before.clone();
        match unit {
            Unit::Key => during.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO),
            Unit::Line => during.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO),
        }
        tcsetattr(tty, OptionalActions::Flush, &during)?;
        Ok(Self { tty, before })
    }
}

impl Drop for Mode<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.tty, OptionalActions::Now, &self.before) {
            tracing::warn!(%error, "cannot put the terminal back into its mode");
        }
    }
}
