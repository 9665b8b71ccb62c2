//! The output of a call between being stored and being told of: in what pieces, and when.
//!
//! *Invariant:* every byte is announced once, in the order in which it was stored, and no character that came whole is cut. What is let go
//! is a number for each event that it will be: so much can wait for a store that is away.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;
use toolgate_model::{OutputId, redact};
use toolgate_store::OutputWriter;

/// Bytes in one output event at most.
const EVENT_BYTES: usize = 64 * 1024;

/// Output that waits to be announced is announced when it is this much.
pub(crate) const OUTPUT_BATCH: usize = 2 * 1024 * 1024;

/// Output that waits to be announced is announced at once when there was silence, and otherwise after so long at the
/// latest: a person who types and looks should not notice it.
const OUTPUT_SOON: Duration = Duration::from_millis(3);

/// As [`OUTPUT_SOON`], for a call that has gone on for a while announcing more often than this. Many small messages would
/// make HTTP/2 peers close the connection.
const OUTPUT_EVERY: Duration = Duration::from_millis(25);

/// As [`OUTPUT_SOON`], for what fills an event by itself: nobody reads so much output as it comes, and each announcement is a
/// transaction.
const FLOOD_SOON: Duration = Duration::from_millis(8);

/// How much sooner than [`OUTPUT_EVERY`] announcements in a row may come, summed up.
const OUTPUT_BURST: Duration = Duration::from_secs(2);

/// The output of one call.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) writer: Option<Box<dyn OutputWriter>>,
    /// Takes secrets out before anything is stored; none if there are no secrets.
    pub(crate) redaction: Option<redact::Stream>,
    pub(crate) id: Option<OutputId>,
    /// Bytes stored.
    pub(crate) stored: u64,
    /// Bytes stored and not announced yet.
    pub(crate) batch: OutputBatch,
    last: Option<Instant>,
    /// By how much announcements came sooner than they may for long; silence makes up for it.
    early: Duration,
}

impl Output {
    pub(crate) fn without_secrets(redaction: Option<redact::Stream>) -> Self {
        Self {
            redaction,
            ..Self::default()
        }
    }

    /// When what waits is announced.
    pub(crate) fn due(&self) -> Option<Instant> {
        let wait = if self.early + OUTPUT_EVERY > OUTPUT_BURST {
            OUTPUT_EVERY
        } else if self.batch.len() >= EVENT_BYTES {
            FLOOD_SOON
        } else {
            OUTPUT_SOON
        };
        self.last.map(|last| last + wait)
    }

    /// Notes that everything is announced now.
    pub(crate) fn announced(&mut self) {
        let now = Instant::now();
        let silent = self.last.map_or(OUTPUT_EVERY, |last| now - last);
        self.early = (self.early + OUTPUT_EVERY).saturating_sub(silent).min(OUTPUT_BURST);
        self.last = Some(now);
    }
}

/// So many events of what was let go are announced at once.
const EVENTS_AT_ONCE: usize = 1024;

/// Bytes in the order in which they were stored: large pieces as they came, small ones copied together.
#[derive(Default)]
pub(crate) struct OutputBatch {
    /// Before the pieces: how long the events of bytes are that were let go.
    let_go: VecDeque<usize>,
    pieces: Vec<Bytes>,
    tail: BytesMut,
    length: usize,
}

impl OutputBatch {
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        if piece.len() < EVENT_BYTES / 2 {
            self.tail.extend_from_slice(&piece);
        } else {
            self.close_tail();
            self.pieces.push(piece);
        }
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(self.tail.split().freeze());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Keeps only how much there is, and not the bytes.
    pub(crate) fn let_go(&mut self) {
        self.close_tail();
        for event in split(self.pieces.drain(..)) {
            match self.let_go.back_mut() {
                Some(last) if *last + event.len() <= EVENT_BYTES => *last += event.len(),
                Some(_) | None => self.let_go.push_back(event.len()),
            }
        }
    }

    /// Takes what may be announced at once, in pieces of one event each: how long it is, and the bytes if they are there.
    pub(crate) fn take(&mut self) -> Vec<(usize, Option<Bytes>)> {
        let most = self.let_go.len().min(EVENTS_AT_ONCE);
        let mut events: Vec<(usize, Option<Bytes>)> = self.let_go.drain(..most).map(|length| (length, None)).collect();
        if self.let_go.is_empty() {
            self.close_tail();
            events.extend(split(self.pieces.drain(..)).map(|event| (event.len(), Some(event))));
        }
        self.length -= events.iter().map(|(length, _)| length).sum::<usize>();
        events
    }
}

/// Splits pieces into those of one event each.
fn split(pieces: impl Iterator<Item = Bytes>) -> impl Iterator<Item = Bytes> {
    pieces.flat_map(|mut left| {
        std::iter::from_fn(move || {
            let length = whole_characters(&left, EVENT_BYTES);
            (!left.is_empty()).then(|| left.split_to(length))
        })
    })
}

/// Returns how many bytes to take, at most `limit`, so that no character is cut. Bytes that are not UTF-8 are cut anywhere.
pub(crate) fn whole_characters(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    (limit.saturating_sub(3)..=limit)
        .rev()
        .find(|index| bytes[*index] & 0xC0 != 0x80)
        .unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_are_announced_soon_and_many_now_and_then() {
        let mut output = Output::default();
        assert!(output.due().is_none(), "the first one at once");
        let mut waits = Vec::new();
        for _ in 0..300 {
            output.announced();
            let due = output.due().expect("one was announced");
            waits.push(due - Instant::now());
            tokio::time::advance(due - Instant::now()).await;
        }
        assert!(waits[..80].iter().all(|wait| *wait == OUTPUT_SOON), "{waits:?}");
        assert!(waits[100..].iter().all(|wait| *wait == OUTPUT_EVERY), "{waits:?}");
        tokio::time::advance(Duration::from_secs(10)).await;
        output.announced();
        assert_eq!(output.early, Duration::ZERO, "silence makes up for it");
    }

    #[test]
    fn what_is_let_go_waits_in_few_bytes_and_comes_bit_by_bit() {
        let mut batch = OutputBatch::default();
        let line = Bytes::from(vec![b'x'; 100]);
        let lines = (EVENTS_AT_ONCE + 10) * (EVENT_BYTES / line.len());
        for _ in 0..lines {
            batch.push(line.clone());
            batch.let_go();
        }
        assert_eq!(batch.let_go.len(), EVENTS_AT_ONCE + 10);
        assert_eq!(batch.take().len(), EVENTS_AT_ONCE);
        batch.push(line);
        assert_eq!(batch.take().len(), 11);
        assert_eq!(batch.len(), 0);
    }

    proptest! {
        #[test]
        fn every_byte_comes_once_and_in_order(
            sizes in proptest::collection::vec((0usize..200_000, any::<bool>()), 0..6),
        ) {
            let text: Vec<u8> = "a€".bytes().cycle().take(sizes.iter().map(|(size, _)| size).sum()).collect();
            let (mut batch, mut rest) = (OutputBatch::default(), Bytes::from(text.clone()));
            let mut end_of_let_go = 0;
            for (size, lets_go) in sizes {
                batch.push(rest.split_to(size));
                if lets_go {
                    batch.let_go();
                    end_of_let_go = batch.len();
                }
            }
            prop_assert_eq!(batch.len(), text.len());
            let events = batch.take();
            let mut at = 0;
            for (length, data) in events {
                prop_assert!((1..=EVENT_BYTES).contains(&length));
                prop_assert_eq!(data.is_none(), at < end_of_let_go);
                prop_assert!(data.is_none_or(|data| data == text[at..at + length]));
                at += length;
            }
            prop_assert_eq!(at, text.len());
            prop_assert_eq!(batch.len(), 0);
            prop_assert!(batch.take().is_empty());
        }
    }
}
