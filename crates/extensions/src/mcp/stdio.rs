//! A server that is a program: messages as lines over its standard streams.
//!
//! *Invariant:* no line is kept beyond [`MAX_LINE`]: whatever a server prints, memory stays bounded.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::client::{Link, Outlet};
use super::dispatcher::{Disconnect, Dispatcher, Queue, shortened_line};
use super::message::{self, Incoming, KEPT_BYTES, Outgoing};

/// Bytes of the longest line that is taken.
const MAX_LINE: usize = 16 << 20;

/// Lines that are no messages, of which the log tells.
const MAX_LOGGED: u32 = 5;

const CHUNK_BYTES: usize = 64 * 1024;

/// Everything goes through the queue.
struct Stdio(Arc<Dispatcher>);

#[async_trait]
impl Outlet for Stdio {
    async fn send(self: Arc<Self>, message: &Outgoing) -> Result<(), String> {
        self.0.enqueue(message.clone());
        Ok(())
    }
}

/// Talks over the streams of a program until the connection is lost, which it is at their end. The streams end with it.
pub(super) fn open(input: Sender, output: Receiver, dispatcher: Arc<Dispatcher>, queue: Queue) -> Link {
    dispatcher.spawn(write(input, queue, Arc::clone(&dispatcher)));
    dispatcher.spawn(read(Lines::new(output), Arc::clone(&dispatcher)));
    Link {
        outlet: Arc::new(Stdio(Arc::clone(&dispatcher))),
        dispatcher,
    }
}

async fn write(mut input: Sender, mut queue: Queue, dispatcher: Arc<Dispatcher>) {
    while let Some(queued) = queue.recv().await {
        let line = [&*queued.message.text, b"\n"].concat();
        if input.write_all(&line).await.is_err() {
            return dispatcher.lose(Disconnect::closed());
        }
    }
}

async fn read(mut lines: Lines, dispatcher: Arc<Dispatcher>) {
    let mut strange = 0;
    loop {
        match lines.next().await {
            Ok(Line::Whole(line)) if line.trim_ascii().is_empty() => {}
            Ok(Line::Whole(line)) => {
                if let Err(problem) = dispatcher.receive(&line) {
                    pass_over(&line, &problem, strange < MAX_LOGGED, &dispatcher);
                    strange = MAX_LOGGED.min(strange + 1);
                }
            }
            Ok(Line::Overlong(line)) => {
                let problem = format!("The server sent a message of more than {} MiB", MAX_LINE >> 20);
                match message::id_in(&line.head, &line.tail) {
                    Some(id) => dispatcher.dispatch(Incoming::failure(id, &problem)),
                    None => return dispatcher.lose(Disconnect::Failed(problem)),
                }
            }
            Ok(Line::End) => return dispatcher.lose(Disconnect::closed()),
            Err(error) => {
                let problem = format!("The server's output cannot be read: {error}");
                return dispatcher.lose(Disconnect::Failed(problem));
            }
        }
    }
}

/// Many servers print what belongs into a log; the first lines are worth knowing of.
fn pass_over(line: &[u8], problem: &str, is_logged: bool, dispatcher: &Dispatcher) {
    if is_logged {
        let start = &line[..line.len().min(KEPT_BYTES)];
        tracing::warn!(line = %shortened_line(&String::from_utf8_lossy(start)), problem, "not a message");
    }
    if dispatcher.version().is_none() {
        dispatcher.report_problem(format!("The server does not speak the protocol: {problem}"));
    }
}

/// The lines that a program prints.
struct Lines {
    output: BufReader<Receiver>,
    line: Vec<u8>,
    overlong: Option<Overlong>,
}

enum Line {
    Whole(Vec<u8>),
    Overlong(Overlong),
    End,
}

/// A line that is too long, as far as it is kept.
#[derive(Default)]
struct Overlong {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Lines {
    fn new(output: Receiver) -> Self {
        Self {
            output: BufReader::with_capacity(CHUNK_BYTES, output),
            line: Vec::new(),
            overlong: None,
        }
    }

    /// Reads up to the end of a line. What has no end is no line.
    async fn next(&mut self) -> io::Result<Line> {
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
                    overlong.keep(&std::mem::take(&mut self.line));
                    overlong.keep(taken);
                    self.overlong = Some(overlong);
                }
                None => self.line.extend_from_slice(taken),
            }
            let used = taken.len() + usize::from(end.is_some());
            self.output.consume(used);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                return Ok(self.overlong.take().map_or(Line::Whole(line), Line::Overlong));
            }
        }
    }
}

impl Overlong {
    fn keep(&mut self, part: &[u8]) {
        let room = KEPT_BYTES - self.head.len().min(KEPT_BYTES);
        self.head.extend_from_slice(&part[..part.len().min(room)]);
        self.tail
            .extend_from_slice(&part[part.len() - part.len().min(KEPT_BYTES)..]);
        let excess = self.tail.len().saturating_sub(KEPT_BYTES);
        self.tail.drain(..excess);
    }
}
