//! One watcher of one call: it notes when lines arrive, and sees to it that nothing is missing.
//!
//! *Invariant:* an event, a byte or a line that is missing or comes twice is an error; so is a stream without an end.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use toolgate_contract::call_event::Event;
use toolgate_contract::{CallEvent, CallOutput, OutputMode, WatchCallRequest};

use crate::service::Tools;

/// How long the watchers have for what was written before they came, once each has read of it.
const CATCH_UP: Duration = Duration::from_secs(5);

/// How long no line must have come for the last of those that are measured to be there.
const SETTLED: Duration = Duration::from_secs(2);

/// What the watchers and whoever directs them share.
pub(crate) struct Stage {
    /// Watchers that have stalled read from now on.
    pub(crate) go_on: CancellationToken,
    /// Lines count that were written from this time on, before the other one, both in microseconds of the clock. Those that a watcher
    /// catches up with are as old as it is late, which says nothing about the way here.
    from: AtomicU64,
    until: AtomicU64,
    /// How long the lines took that count.
    delays: Mutex<Vec<Duration>>,
    /// Watchers that have read a line.
    readers: AtomicUsize,
    one_more: Notify,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            go_on: CancellationToken::default(),
            from: AtomicU64::new(u64::MAX),
            until: AtomicU64::new(u64::MAX),
            delays: Mutex::default(),
            readers: AtomicUsize::default(),
            one_more: Notify::default(),
        }
    }
}

impl Stage {
    /// Begins to measure once the watchers have caught up.
    pub(crate) async fn begin(&self) -> Result<()> {
        sleep(CATCH_UP).await;
        self.from.store(micros()?, Ordering::Release);
        Ok(())
    }

    /// Ends it, waits for the lines that are on their way, and returns how long each took.
    pub(crate) async fn delays(&self) -> Result<Vec<Duration>> {
        self.until.store(micros()?, Ordering::Release);
        let count = || self.delays.lock().unwrap_or_else(PoisonError::into_inner).len();
        let mut before = 0;
        while count() > before {
            before = count();
            sleep(SETTLED).await;
        }
        Ok(std::mem::take(
            &mut *self.delays.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    /// Returns once so many watchers have read a line.
    pub(crate) async fn all_have_read(&self, count: usize) {
        loop {
            let more = self.one_more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if self.readers.load(Ordering::Acquire) >= count {
                return;
            }
            more.await;
        }
    }

    fn has_read(&self) {
        self.readers.fetch_add(1, Ordering::AcqRel);
        self.one_more.notify_waiters();
    }

    /// Notes when a line came that was written at this time, both in microseconds.
    fn note(&self, written: u64, come: u64) {
        if (self.from.load(Ordering::Acquire)..self.until.load(Ordering::Acquire)).contains(&written) {
            let delay = Duration::from_micros(come.saturating_sub(written));
            self.delays.lock().unwrap_or_else(PoisonError::into_inner).push(delay);
        }
    }
}

/// The time of the clock, in microseconds.
fn micros() -> Result<u64> {
    Ok(u64::try_from(
        SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros(),
    )?)
}

/// What a watcher saw, all of it in order.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: usize,
    pub(crate) lines: u64,
    bytes: i64,
    /// The command was stopped: what comes now is said about it, not by it.
    is_over: bool,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

/// Watches a call from its first event to its end. One that stalls opens its stream and reads nothing until it is told to.
pub(crate) async fn watch(mut client: Tools, call_id: String, stalls: bool, stage: Arc<Stage>) -> Result<Seen> {
    let request = WatchCallRequest {
        call_id: call_id.clone(),
        after_sequence: 0,
        output: OutputMode::Full.into(),
    };
    let mut stream = client.watch_call(request).await?.into_inner();
    if stalls {
        stage.go_on.cancelled().await;
    }
    let mut seen = Seen::default();
    while let Some(response) = stream.message().await.with_context(|| format!("watching {call_id}"))? {
        let event = response.event.context("a message without an event")?;
        if seen
            .take(event, &stage)
            .with_context(|| format!("watching {call_id}"))?
        {
            return Ok(seen);
        }
    }
    bail!("the stream of {call_id} ended without an end of the call")
}

impl Seen {
    /// Takes an event; true if it is the last one.
    fn take(&mut self, event: CallEvent, stage: &Stage) -> Result<bool> {
        if event.sequence == 0 {
            return Ok(false);
        }
        self.events += 1;
        ensure!(
            event.sequence == self.events as i64,
            "event {} after {}",
            event.sequence,
            self.events - 1
        );
        match event.event {
            Some(Event::Output(output)) => self.output(&output, stage).map(|()| false),
            Some(Event::Completed(_) | Event::Failed(_)) => Ok(true),
            _ => Ok(false),
        }
    }

    fn output(&mut self, output: &CallOutput, stage: &Stage) -> Result<()> {
        let now = micros()?;
        ensure!(
            output.offset == self.bytes,
            "output at {} after {} bytes",
            output.offset,
            self.bytes
        );
        self.bytes += output.data.len() as i64;
        self.rest.extend_from_slice(&output.data);
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8(line)?;
            self.is_over |= line == "\n";
            if self.is_over {
                continue;
            }
            let mut words = line.split_whitespace();
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            let (count, written) = number().zip(number()).with_context(|| format!("a line {line:?}"))?;
            ensure!(count == self.lines, "line {count} after {} lines", self.lines);
            self.lines += 1;
            if count == 0 {
                stage.has_read();
            }
            stage.note(written, now);
        }
        Ok(())
    }
}
