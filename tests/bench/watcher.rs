//! One watcher of one call: it notes when lines arrive, and sees to it that nothing is missing.
//!
//! *Invariant:* an event, a byte or a line that is missing or comes twice is an error; so is a stream without an end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolgate_contract::call_event::Event;
use toolgate_contract::{CallEvent, CallOutput, OutputMode, WatchCallRequest};

use crate::service::Tools;

/// What the watchers and whoever directs them share.
#[derive(Default)]
pub(crate) struct Stage {
    /// Watchers that have stalled read from now on.
    pub(crate) go_on: CancellationToken,
    is_measured: AtomicBool,
    /// How long the lines took that came while it was measured.
    delays: Mutex<Vec<Duration>>,
    /// Watchers that have read a line.
    readers: AtomicUsize,
    one_more: Notify,
}

impl Stage {
    /// Begins to measure, or ends it and returns the delays.
    pub(crate) fn measure(&self, begins: bool) -> Vec<Duration> {
        self.is_measured.store(begins, Ordering::Release);
        std::mem::take(&mut *self.delays.lock().unwrap_or_else(PoisonError::into_inner))
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

    fn note(&self, delay: Duration) {
        if self.is_measured.load(Ordering::Acquire) {
            self.delays.lock().unwrap_or_else(PoisonError::into_inner).push(delay);
        }
    }
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
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
            stage.note(now.saturating_sub(Duration::from_micros(written)));
        }
        Ok(())
    }
}
