//! What a program prints: one pipe for standard output and standard error, or a terminal, read as a stream of whole
//! characters.
//!
//! *Invariant:* bytes are never changed and never reordered: what is read is what was written, in that order, whichever
//! of the two it was written to. An unfinished character is kept back until its rest has come.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most that is read at once; also the size of a fresh pipe.
const READ_BYTES: usize = 64 * 1024;

/// The size of a pipe that has proved to be a busy one. Quiet ones stay small, because the kernel counts them per user.
const BUSY_PIPE_BYTES: usize = 1024 * 1024;

/// Most that is read at once from a busy pipe: what lies in it, so that a flood takes few steps.
const BUSY_READ_BYTES: usize = 512 * 1024;

/// Below this a chunk is copied out of its read buffer, so that nobody keeps 64 KiB alive for one line.
const COPY_BYTES: usize = READ_BYTES / 4;

/// How long after the program's end the pipe must be silent, where somebody still holds it.
const QUIET_AFTER_EXIT: Duration = Duration::from_millis(100);

/// How long after the program's end the pipe is read at most, beyond what it had printed.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// More than the kernel keeps of what was printed into a terminal. It does not tell how much that is.
const TERMINAL_BYTES: u64 = 32 * 1024;

/// The least time between two reads of a pipe that nobody listens to: a job that never stops printing is slowed down.
const DISCARD_INTERVAL: Duration = Duration::from_millis(10);

/// Where pipes go that a job in the background still holds. Closing them would end the job at its next line.
#[derive(Clone)]
pub(super) struct Discards {
    pub(super) tasks: TaskTracker,
    pub(super) closed: CancellationToken,
}

impl Discards {
    fn take(&self, pipe: Receiver) {
        let discard = async move {
            let mut buffer = vec![0; READ_BYTES];
            while pipe.readable().await.is_ok() {
                match pipe.try_read(&mut buffer) {
                    Ok(0) => return,
                    Ok(_) => sleep(DISCARD_INTERVAL).await,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        };
        self.tasks.spawn(self.closed.clone().run_until_cancelled_owned(discard));
    }
}

/// The output of a program.
pub struct Output {
    stream: Stream,
    phase: Phase,
    discards: Discards,
}

enum Phase {
    /// The program runs; the message says that it ended.
    Running(oneshot::Receiver<()>),
    /// The program ended, others may still hold the pipe.
    Draining { until: Instant },
}

impl Output {
    /// Reads from the pipe; `ended` is completed (or dropped) when the program has ended.
    pub(super) fn new(pipe: OwnedFd, ended: oneshot::Receiver<()>, discards: Discards) -> io::Result<Self> {
        Ok(Self {
            stream: Stream::new(Receiver::from_owned_fd(pipe)?, false),
            phase: Phase::Running(ended),
            discards,
        })
    }

    /// The same for the service's end of a terminal.
    pub(super) fn of_terminal(terminal: OwnedFd, ended: oneshot::Receiver<()>, discards: Discards) -> io::Result<Self> {
        Ok(Self {
            stream: Stream::new(Receiver::from_owned_fd_unchecked(terminal)?, true),
            phase: Phase::Running(ended),
            discards,
        })
    }

    /// Returns the next bytes, never empty and ending with a whole character if the text is UTF-8; none at the end.
    ///
    /// The end is the end of the pipe, or, once the program has ended, a short silence. Everything printed
    /// before the end of the program is returned, however slowly it is fetched. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Bytes> {
        while self.stream.is_open() {
            let is_ready = match &mut self.phase {
                Phase::Running(ended) => tokio::select! {
                    biased;
                    _ = ended => {
                        self.stream.note_owed();
                        self.phase = Phase::Draining { until: Instant::now() + DRAIN_TIMEOUT };
                        continue;
                    }
                    () = self.stream.ready() => true,
                },
                Phase::Draining { until } => {
                    let now = Instant::now();
                    let is_owed = self.stream.owed > 0;
                    if now >= *until && !is_owed {
                        false
                    } else {
                        let silence = now + QUIET_AFTER_EXIT;
                        let silence = if is_owed { silence } else { silence.min(*until) };
                        tokio::select! {
                            biased;
                            () = self.stream.ready() => true,
                            () = sleep_until(silence) => false,
                        }
                    }
                }
            };
            let chunk = if is_ready { self.stream.read() } else { self.close() };
            if chunk.is_some() {
                return chunk;
            }
        }
        None
    }

    /// Lets go of the pipe, which somebody still holds, and returns the bytes that were kept back.
    fn close(&mut self) -> Option<Bytes> {
        if let Some(pipe) = self.stream.pipe.take() {
            self.discards.take(pipe);
        }
        let rest = self.stream.close();
        (!rest.is_empty()).then(|| Bytes::from(rest))
    }
}

/// The pipe, or the service's end of the terminal.
struct Stream {
    pipe: Option<Receiver>,
    is_terminal: bool,
    held: Vec<u8>,
    owed: u64,
    busy: bool,
}

impl Stream {
    fn new(pipe: Receiver, is_terminal: bool) -> Self {
        Self {
            pipe: Some(pipe),
            is_terminal,
            held: Vec::new(),
            owed: 0,
            busy: false,
        }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Completes when there is something to read, the end included.
    async fn ready(&self) {
        if let Some(pipe) = &self.pipe {
            // An error shows again in the read that follows.
            let _ = pipe.readable().await;
        }
    }

    /// Remembers how much lies in the pipe: that much was printed before the end and is read in any case.
    fn note_owed(&mut self) {
        self.owed = match &self.pipe {
            Some(_) if self.is_terminal => TERMINAL_BYTES,
            Some(pipe) => lies_in(pipe) as u64,
            None => 0,
        };
    }

    fn read(&mut self) -> Option<Bytes> {
        let pipe = self.pipe.as_ref()?;
        let waiting = if self.busy { lies_in(pipe) } else { 0 };
        let mut buffer = BytesMut::with_capacity(waiting.clamp(READ_BYTES, BUSY_READ_BYTES));
        buffer.extend_from_slice(&self.held);
        match pipe.try_read_buf(&mut buffer) {
            Ok(0) => {
                self.owed = 0;
                let rest = self.close();
                return (!rest.is_empty()).then(|| Bytes::from(rest));
            }
            Ok(count) => {
                self.owed = self.owed.saturating_sub(count as u64);
                if !self.busy && buffer.len() == buffer.capacity() {
                    self.busy = true;
                    // Refused beyond the user's share; then it stays as it is.
                    let _ = rustix::pipe::fcntl_setpipe_size(pipe, BUSY_PIPE_BYTES);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(_) => return Some(Bytes::from(self.close())).filter(|rest| !rest.is_empty()),
        }
        self.held = buffer.split_off(buffer.len() - unfinished(&buffer)).to_vec();
        match buffer.len() {
            0 => None,
            length if length < COPY_BYTES => Some(Bytes::copy_from_slice(&buffer)),
            _ => Some(buffer.freeze()),
        }
    }

    fn close(&mut self) -> Vec<u8> {
        self.pipe = None;
        std::mem::take(&mut self.held)
    }
}

/// Returns how many bytes lie in a pipe.
fn lies_in(pipe: &Receiver) -> usize {
    let waiting = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
    usize::try_from(waiting).unwrap_or(usize::MAX)
}

/// Returns how many bytes at the end, three at most, begin a character that the next bytes may finish.
fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - back..];
        match tail[0] {
            0x00..0x80 => return 0,
            0x80..0xC0 => {}
            0xC0..=0xFF => {
                let begins = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
                return if begins { back } else { 0 };
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn knows_an_unfinished_character() {
        let check = |bytes: &[u8], expected: usize| assert_eq!(unfinished(bytes), expected, "{bytes:x?}");
        check(b"", 0);
        check(b"abc", 0);
        check(b"a\xc3", 1);
        check("aé".as_bytes(), 0);
        check(b"\xe2\x82", 2);
        check("€".as_bytes(), 0);
        check(b"x\xf0\x9f\x98", 3);
        check("😀".as_bytes(), 0);
        check(b"\xff", 0);
        check(b"\x80\x80\x80", 0);
        check(b"\xe0\x80", 0);
        check(b"\xed\xa0", 0);
        check(b"\xf5\x80", 0);
    }

    proptest! {
        #[test]
        fn holding_back_keeps_text_whole(text in "\\PC{0,40}", cut in 0usize..160) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            let held = unfinished(&bytes[..cut]);
            prop_assert!(held <= 3);
            prop_assert!(std::str::from_utf8(&bytes[..cut - held]).is_ok());
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            prop_assert!(unfinished(&bytes) <= bytes.len().min(3));
        }
    }
}
