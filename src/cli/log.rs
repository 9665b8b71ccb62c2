//! Where the log goes: to standard error, without secrets.
//!
//! *Invariant:* a message is written at once and whole, so no secret is cut by the way it is written. One that nobody takes is
//! dropped: whoever starts a service and never reads what it says must not hold it up. While a screen has the terminal, or a
//! service has not said what it is, messages are held back, the latest of them, and written after that.

use std::io::{self, Stderr, StderrLock, Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use toolgate_model::redact::Redactor;
use tracing_subscriber::fmt::MakeWriter;

/// A pipe that can be written takes so many bytes without waiting (`PIPE_BUF`).
const PIECE: usize = 4096;

/// How long a message waits for whoever reads to take the ones before it; no time once one was dropped.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Messages that were dropped since the last one that was written.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Bytes of messages that are held back; more push the first ones out.
const MOST_HELD: usize = 64 * 1024;

/// What is held back, if something is.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Holds messages back until [`release`].
pub(super) fn hold() {
    HELD.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert_default();
}

/// Holds messages back as long as it is there.
pub(super) struct Held;

impl Held {
    pub(super) fn begin() -> Self {
        hold();
        Self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        release();
    }
}

/// Writes what was held back.
pub(super) fn release() {
    if let Some(text) = HELD.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Nobody is left to be told that standard error is closed.
        let _ = stderr().write_all(&text);
    }
}

/// Takes secrets out of what is logged.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogWriter(Redactor);

impl LogWriter {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self(redactor)
    }
}

/// One message on its way.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    redactor: &'a Redactor,
    to: Stderr,
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Message<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Message {
            redactor: &self.0,
            to: stderr(),
        }
    }
}

impl Write for Message<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let shown = self.redactor.bytes(text);
        if let Some(held) = &mut *HELD.lock().unwrap_or_else(PoisonError::into_inner) {
            held.extend_from_slice(&shown);
            let excess = held.len().saturating_sub(MOST_HELD);
            held.drain(..excess);
            return Ok(text.len());
        }
        write_or_drop(&self.to, &shown)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Tells a person something beside the log, as far as somebody takes it.
pub(super) fn tell(text: &str) {
    let _ = write_or_drop(&stderr(), format!("{text}\n").as_bytes());
}

fn write_or_drop(to: &Stderr, text: &[u8]) -> io::Result<()> {
    // Nobody else writes between the question and the answer.
    let mut to = to.lock();
    let dropped = DROPPED.load(Ordering::Relaxed);
    if !takes_more(&to, if dropped == 0 { PATIENCE } else { NO_TIME }) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    if dropped > 0 {
        DROPPED.store(0, Ordering::Relaxed);
        writeln!(
            to,
            "{dropped} messages of the log were dropped, because nobody took them"
        )?;
    }
    for piece in text.chunks(PIECE) {
        if !takes_more(&to, PATIENCE) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            break;
        }
        to.write_all(piece)?;
    }
    Ok(())
}

/// Says whether a piece can be written without waiting for a reader.
fn takes_more(to: &StderrLock<'_>, patience: Timespec) -> bool {
    let mut streams = [PollFd::new(to, PollFlags::OUT)];
    match poll(&mut streams, Some(&patience)) {
        // What is wrong with it, the attempt to write says.
        Ok(0) => false,
        Ok(_) | Err(_) => true,
    }
}
