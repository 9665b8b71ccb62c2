//! What a server complains of: its standard error goes to the log, and the last of it into the reason when it ends.
//!
//! *Invariant:* of each line and of each stretch of time a bounded part is kept, whatever is printed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

/// Bytes of a line that are kept, and lines that are logged in each stretch of time.
const MAX_LINE: usize = 1000;
const MAX_LINES: u32 = 50;
const LIMIT_PERIOD: Duration = Duration::from_secs(10);

/// The last line that a program complained with. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LastLine(Arc<Mutex<String>>);

impl LastLine {
    /// Returns the line; empty if there was none.
    pub fn get(&self) -> String {
        self.0.lock().clone()
    }

    fn set(&self, line: String) {
        *self.0.lock() = line;
    }
}

/// Logs what a program complains of, until nobody is left who could.
pub async fn log(errors: Receiver, last: LastLine) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    let (mut since, mut lines) = (Instant::now(), 0);
    while let Ok(chunk) = errors.fill_buf().await {
        if chunk.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', chunk);
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let room = MAX_LINE - line.len().min(MAX_LINE);
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        errors.consume(used);
        if end.is_none() {
            continue;
        }
        if since.elapsed() > LIMIT_PERIOD {
            (since, lines) = (Instant::now(), 0);
        }
        lines += 1;
        let text = printable(&line);
        match lines.cmp(&MAX_LINES) {
            std::cmp::Ordering::Less => tracing::info!(stderr = %text),
            std::cmp::Ordering::Equal => tracing::warn!("the server prints too many lines; some are not logged"),
            std::cmp::Ordering::Greater => {}
        }
        if !text.is_empty() {
            last.set(text);
        }
        line.clear();
    }
    let rest = printable(&line);
    if !rest.is_empty() {
        tracing::info!(stderr = %rest);
        last.set(rest);
    }
}

/// Takes control characters out, so that a program cannot write to a terminal through the log.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.trim().to_owned()
}
