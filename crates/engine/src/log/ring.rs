//! The recent part of a call's log, in memory for the readers that keep up: the others read it back from the store.
//!
//! *Invariant:* bounded for each call, and for all calls together. No reader holds a call up: what is waited for is a
//! moment, and only while it saves the reader from falling behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_model::EventKind;

use super::batch::OUTPUT_BATCH;
use super::event::LoggedEvent;

/// How much of a call's recent log is kept.
const EVENTS: usize = 64;
const BYTES: u64 = 128 * 1024;

/// The same while somebody watches: two batches of the log writer, so that a reader that keeps up need not read from the store.
const WATCHED_BYTES: u64 = 2 * OUTPUT_BATCH as u64;

/// The most that all calls keep together; beyond that each keeps as little as if nobody watched.
const ALL_BYTES: u64 = 64 * 1024 * 1024;

/// How far the fastest reader may be behind before the output waits for it: half of what is kept.
const WAIT_FROM_BYTES: u64 = WATCHED_BYTES / 2;

/// How long the output waits at a time.
const FOLLOW_TIMEOUT: Duration = Duration::from_millis(3);

/// What all calls keep together.
#[derive(Default)]
pub(crate) struct RingMemory(AtomicU64);

/// The recent log of one call.
pub(crate) struct Ring {
    kept: Mutex<Kept>,
    memory: Arc<RingMemory>,
    /// Bytes of output that the log has announced.
    announced: AtomicU64,
    /// Bytes of output that the fastest reader has taken or left out.
    taken: AtomicU64,
    took: Notify,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<LoggedEvent>,
    bytes: u64,
}

impl Ring {
    pub(crate) fn new(memory: Arc<RingMemory>) -> Self {
        Self {
            kept: Mutex::default(),
            memory,
            announced: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            took: Notify::new(),
        }
    }

    /// Adds events, and lets go of the oldest beyond what is kept.
    pub(crate) fn push(&self, events: Vec<LoggedEvent>, is_watched: bool) {
        let mut kept = self.kept.lock();
        let before = kept.bytes;
        for event in events {
            if let EventKind::Output { offset, length, .. } = &event.event.kind {
                self.announced.store(offset + length, Ordering::Release);
            }
            kept.bytes += weight(&event);
            kept.events.push_back(event);
        }
        let others = self.memory.0.load(Ordering::Relaxed).saturating_sub(before);
        let most = if is_watched && others + kept.bytes <= ALL_BYTES {
            WATCHED_BYTES
        } else {
            BYTES
        };
        while kept.events.len() > EVENTS || (kept.bytes > most && kept.events.len() > 1) {
            let Some(oldest) = kept.events.pop_front() else { break };
            kept.bytes -= weight(&oldest);
        }
        self.memory.0.fetch_add(kept.bytes, Ordering::Relaxed);
        self.memory.0.fetch_sub(before, Ordering::Relaxed);
    }

    /// Returns the event after `after`, if it is still here.
    pub(crate) fn after(&self, after: u64) -> Option<LoggedEvent> {
        let kept = self.kept.lock();
        let first = kept.events.front()?.event.sequence;
        let index = usize::try_from((after + 1).checked_sub(first)?).ok()?;
        kept.events.get(index).cloned()
    }

    /// Returns how many bytes of output the log has announced.
    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// Notes that a reader has come so far with the output.
    pub(crate) fn took(&self, end: u64) {
        if self.taken.fetch_max(end, Ordering::AcqRel) < end {
            self.took.notify_waiters();
        }
    }

    /// Gives the fastest reader a moment when what it needs next is about to go, since to read it back takes longer than
    /// that. Who has fallen behind by more than what is kept is not waited for: a slow or stalled reader costs a few
    /// moments once.
    pub(crate) async fn let_readers_follow(&self) {
        let is_pressed = || {
            let behind = self.announced().saturating_sub(self.taken.load(Ordering::Acquire));
            (WAIT_FROM_BYTES..WATCHED_BYTES).contains(&behind)
        };
        let follow = async {
            loop {
                let took = self.took.notified();
                tokio::pin!(took);
                // From here on nothing is missed.
                took.as_mut().enable();
                if !is_pressed() {
                    return;
                }
                took.await;
            }
        };
        // Whether it followed or not, the output goes on.
        let _ = tokio::time::timeout(FOLLOW_TIMEOUT, follow).await;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.kept.lock().bytes, Ordering::Relaxed);
    }
}

fn weight(recorded: &LoggedEvent) -> u64 {
    let own = match &recorded.event.kind {
        EventKind::Metadata { patch, .. } => patch.values().filter_map(|value| value.as_str()).map(str::len).sum(),
        EventKind::Running { input_json, .. } => input_json.len(),
        EventKind::Pending { .. }
        | EventKind::Output { .. }
        | EventKind::Waiting { .. }
        | EventKind::Resumed { .. }
        | EventKind::Child { .. }
        | EventKind::Listening { .. }
        | EventKind::Warning { .. }
        | EventKind::Ended(_) => 0,
    };
    (own + recorded.data.as_ref().map_or(0, bytes::Bytes::len)) as u64
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::Instant;
    use toolgate_model::{CallEvent, Timestamp};

    use super::*;

    const PIECE: usize = 64 * 1024;

    /// The `number`th event of an output, from 1.
    fn output(number: u64) -> LoggedEvent {
        let kind = EventKind::Output {
            output: "tool_".into(),
            offset: (number - 1) * PIECE as u64,
            length: PIECE as u64,
        };
        LoggedEvent {
            event: Arc::new(CallEvent {
                sequence: number,
                time: Timestamp(0),
                kind,
            }),
            data: Some(Bytes::from(vec![0; PIECE])),
        }
    }

    fn bytes(ring: &Ring) -> u64 {
        ring.kept.lock().bytes
    }

    #[test]
    fn what_is_kept_is_bounded_for_each_and_for_all() {
        let memory = Arc::new(RingMemory::default());
        let ring = Ring::new(memory.clone());
        ring.push((1..=100).map(output).collect(), false);
        assert_eq!(bytes(&ring), BYTES);
        ring.push((101..=200).map(output).collect(), true);
        assert_eq!(bytes(&ring), WATCHED_BYTES);
        assert!(ring.after(135).is_none());
        assert_eq!(ring.after(199).map(|last| last.event.sequence), Some(200));
        assert!(ring.after(200).is_none());

        let others: Vec<Ring> = (0..100).map(|_| Ring::new(memory.clone())).collect();
        for other in &others {
            other.push((1..=100).map(output).collect(), true);
        }
        assert_eq!(others.iter().map(bytes).min(), Some(BYTES));
        let all = memory.0.load(Ordering::Relaxed);
        assert_eq!(all, bytes(&ring) + others.iter().map(bytes).sum::<u64>());
        assert!(all <= ALL_BYTES + 100 * BYTES, "{all}");
        drop((ring, others));
        assert_eq!(memory.0.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_keeps_up_is_waited_for_and_a_stalled_one_is_not() {
        let ring = Ring::new(Arc::default());
        let waited = async || {
            let begin = Instant::now();
            ring.let_readers_follow().await;
            begin.elapsed()
        };
        let mut next = 1;
        let mut print = |pieces: u64| {
            ring.push((next..next + pieces).map(output).collect(), true);
            next += pieces;
        };
        print(8);
        assert_eq!(waited().await, Duration::ZERO, "it is not far behind");
        print(30);
        assert_eq!(waited().await, FOLLOW_TIMEOUT, "it does not move");
        let taken = async {
            tokio::time::sleep(FOLLOW_TIMEOUT / 3).await;
            ring.took(30 * PIECE as u64);
        };
        let (time, ()) = tokio::join!(waited(), taken);
        assert_eq!(time, FOLLOW_TIMEOUT / 3, "it has followed");

        let mut whole = Duration::ZERO;
        for _ in 0..1000 {
            print(8);
            whole += waited().await;
        }
        assert!(whole <= FOLLOW_TIMEOUT * 5, "a stalled reader costs {whole:?}");
    }
}
