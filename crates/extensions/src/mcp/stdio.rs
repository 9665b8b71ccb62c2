//! A server that is a program: messages as lines over its standard streams.
//!
//! *Invariant:* no line is kept beyond [`MAX_LINE`], and a server that sends requests without reading the answers is given
//! up: whatever a server prints, memory stays bounded.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Mutex;

use super::dialogue::Dialogue;
use super::signals::{DOES_NOT_READ, Disconnect, ServerSignals, cut};
use super::wire::{self, KEPT};

/// Bytes of the longest line that is taken.
const MAX_LINE: usize = 16 << 20;

/// Messages that may wait for the server to read, and bytes of them before one more.
const MAX_WAITING: usize = 512;
const MAX_WAITING_BYTES: usize = 16 << 20;

const CHUNK: usize = 64 * 1024;

/// A line that is too long, as far as it is kept.
#[derive(Default)]
struct Overlong {
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// The standard streams of a server.
pub(super) struct Stdio {
    output: BufReader<Receiver>,
    line: Vec<u8>,
    overlong: Option<Overlong>,
    input: Arc<Mutex<Option<Sender>>>,
    waiting: Arc<Backlog>,
    signals: Arc<ServerSignals>,
    dialogue: Dialogue,
    /// Lines that were no messages.
    strange: u32,
}

enum Line {
    Whole,
    Overlong(Overlong),
    End,
}

impl Stdio {
    pub(super) fn new(input: Sender, output: Receiver, signals: Arc<ServerSignals>) -> Self {
        Self {
            output: BufReader::with_capacity(CHUNK, output),
            line: Vec::new(),
            overlong: None,
            input: Arc::new(Mutex::new(Some(input))),
            waiting: Arc::default(),
            dialogue: Dialogue::new(Arc::clone(&signals)),
            signals,
            strange: 0,
        }
    }

    /// Reads up to the end of a line. Nothing is lost if the future is dropped.
    async fn read_line(&mut self) -> io::Result<Line> {
        loop {
            let chunk = self.output.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(Line::End);
            }
            let end = memchr::memchr(b'\n', chunk);
            let taken = &chunk[..end.unwrap_or(chunk.len())];
            match &mut self.overlong {
                Some(overlong) => overlong.keep(taken),
                None if self.line.len() + taken.len() > MAX_LINE => {
                    let mut overlong = Overlong::default();
                    overlong.keep(&self.line);
                    overlong.keep(taken);
                    self.line = Vec::new();
                    self.overlong = Some(overlong);
                }
                None => self.line.extend_from_slice(taken),
            }
            let used = taken.len() + usize::from(end.is_some());
            self.output.consume(used);
            if end.is_some() {
                return Ok(self.overlong.take().map_or(Line::Whole, Line::Overlong));
            }
        }
    }

    fn message(&mut self) -> Option<ServerJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        if line.trim_ascii().is_empty() {
            return None;
        }
        let heard = self.dialogue.hear(&line);
        heard.unwrap_or_else(|problem| {
            self.passed_over(&line, &problem);
            None
        })
    }

    /// Many servers print what belongs into a log; the first lines are worth knowing of.
    fn passed_over(&mut self, line: &[u8], problem: &str) {
        const SHOWN: u32 = 5;
        self.strange = self.strange.saturating_add(1);
        if self.strange <= SHOWN {
            let start = &line[..line.len().min(KEPT)];
            tracing::warn!(line = %cut(&String::from_utf8_lossy(start)), problem, "not a message");
        }
        if self.dialogue.initializes() {
            self.signals
                .report_problem(format!("The server does not speak the protocol: {problem}"));
        }
    }
}

impl Overlong {
    fn keep(&mut self, part: &[u8]) {
        let room = KEPT - self.head.len().min(KEPT);
        self.head.extend_from_slice(&part[..part.len().min(room)]);
        self.tail.extend_from_slice(&part[part.len() - part.len().min(KEPT)..]);
        let excess = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..excess);
    }

    fn id(&self) -> Option<RequestId> {
        wire::id_in(&self.head, &self.tail)
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.dialogue.say(&message);
        let text = serde_json::to_vec(&message);
        let input = Arc::clone(&self.input);
        let waiting = Waiting::new(&self.waiting, text.as_ref().map_or(0, Vec::len));
        if waiting.is_none() {
            self.signals.lose(Disconnect::Failed(DOES_NOT_READ.to_owned()));
        }
        async move {
            let waiting = waiting.ok_or_else(|| io::Error::other(DOES_NOT_READ))?;
            let mut text = text.map_err(io::Error::other)?;
            text.push(b'\n');
            let mut input = input.lock().await;
            let closed = || io::Error::new(io::ErrorKind::NotConnected, "Connection closed");
            input.as_mut().ok_or_else(closed)?.write_all(&text).await?;
            drop(waiting);
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            // Every message costs memory until it is dealt with, and nobody reads the answers.
            if self.signals.loss().is_some() {
                return None;
            }
            match self.read_line().await {
                Ok(Line::Whole) => {
                    if let Some(message) = self.message() {
                        return Some(message);
                    }
                }
                Ok(Line::Overlong(line)) => {
                    let problem = format!("The server sent a message of more than {} MiB", MAX_LINE >> 20);
                    match line.id() {
                        Some(id) => return Some(wire::failure(id, &problem)),
                        None => {
                            self.signals.report_problem(problem);
                            return None;
                        }
                    }
                }
                Ok(Line::End) => return None,
                Err(error) => {
                    self.signals
                        .report_problem(format!("The server's output cannot be read: {error}"));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A server that does not read holds the lock; the end of its process frees it.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        Ok(())
    }
}

/// What waits for the server to read it.
#[derive(Default)]
struct Backlog {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

/// A message that waits for the server to read it.
struct Waiting {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Waiting {
    /// None if too much waits already.
    fn new(backlog: &Arc<Backlog>, bytes: usize) -> Option<Self> {
        let messages = backlog.messages.fetch_add(1, Ordering::Relaxed);
        let before = backlog.bytes.fetch_add(bytes, Ordering::Relaxed);
        let waiting = Self {
            backlog: Arc::clone(backlog),
            bytes,
        };
        (messages < MAX_WAITING && before <= MAX_WAITING_BYTES).then_some(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.backlog.messages.fetch_sub(1, Ordering::Relaxed);
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded() {
        let backlog = Arc::<Backlog>::default();
        let few: Vec<_> = (0..MAX_WAITING).map_while(|_| Waiting::new(&backlog, 1)).collect();
        assert_eq!(few.len(), MAX_WAITING);
        assert!(Waiting::new(&backlog, 1).is_none());
        drop(few);
        let large: Vec<_> = (0..100).map_while(|_| Waiting::new(&backlog, 10 << 20)).collect();
        assert_eq!(large.len(), 2);
        drop(large);
        assert!(Waiting::new(&backlog, 1).is_some());
    }
}
