//! What clients send to a running call, between the RPC that brings it and the tool that fetches it.
//!
//! Every byte has an offset, counted from the call's beginning, so a client that does not know whether a message arrived
//! sends it again: what was accepted before is skipped.
//!
//! *Invariant:* bounded, and never waits. A message is accepted whole or not at all; what is accepted is fetched once, in
//! order, or dropped when the tool takes no more.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_model::CallId;

use crate::not_running::NotRunning;

/// Bytes that may wait to be fetched.
pub const MAX_WAITING_INPUT: usize = 1024 * 1024;

/// Bytes that are fetched at a time: what a pipe of the usual size holds.
const PIECE: usize = 64 * 1024;

/// How far the input of a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputState {
    /// Bytes accepted so far: the offset of the next one.
    pub next_offset: u64,
    /// Nothing more is accepted.
    pub closed: bool,
}

/// Why input was not accepted. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The call does not run here.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// The call's tool reads no input.
    #[error("the call {call} reads no input: its tool is {tool}")]
    NotTaken {
        /// The call.
        call: CallId,
        /// Its tool.
        tool: String,
    },
    /// The input was closed, by a client or by the program.
    #[error("the input is closed after {next_offset} bytes{}", if *.by_program { ": the program reads no more" } else { "" })]
    Closed {
        /// Bytes accepted before.
        next_offset: u64,
        /// Whether the program closed it.
        by_program: bool,
    },
    /// Bytes before these are missing.
    #[error("{next_offset} bytes were accepted so far; the next ones begin at that offset")]
    Ahead {
        /// Where to go on.
        next_offset: u64,
    },
    /// The program does not read what was sent before.
    #[error("the program has not read {waiting} bytes that were sent before, and {MAX_WAITING_INPUT} may wait at most")]
    Full {
        /// Bytes that wait.
        waiting: usize,
        /// Where to go on.
        next_offset: u64,
    },
}

/// The input of one call.
#[derive(Default)]
pub(crate) struct Stdin {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    accepted: u64,
    pieces: VecDeque<Bytes>,
    /// Bytes in `pieces`, and those that were fetched last.
    waiting: usize,
    fetched: usize,
    closed: Option<ClosedBy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClosedBy {
    Client,
    Tool,
}

impl Stdin {
    pub(crate) fn state(&self) -> InputState {
        self.state.lock().describe()
    }

    /// Accepts what of `data`, whose first byte has the offset `offset`, was not accepted before.
    pub(crate) fn send(&self, offset: u64, mut data: Bytes, close: bool) -> Result<InputState, InputError> {
        let mut state = self.state.lock();
        let next_offset = state.accepted;
        let Some(known) = next_offset.checked_sub(offset) else {
            return Err(InputError::Ahead { next_offset });
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(data.len());
        let new = data.split_off(known);
        if let (Some(by), false) = (state.closed, new.is_empty()) {
            let by_program = by == ClosedBy::Tool;
            return Err(InputError::Closed {
                next_offset,
                by_program,
            });
        }
        if state.waiting + new.len() > MAX_WAITING_INPUT {
            let waiting = state.waiting;
            return Err(InputError::Full { waiting, next_offset });
        }
        if !new.is_empty() {
            state.accepted += new.len() as u64;
            state.waiting += new.len();
            state.pieces.push_back(new);
        }
        if close {
            state.closed.get_or_insert(ClosedBy::Client);
        }
        self.changed.notify_one();
        Ok(state.describe())
    }

    /// Returns the next piece; none after the last one. For one reader.
    pub(crate) async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut state = self.state.lock();
                state.waiting -= std::mem::take(&mut state.fetched);
                if let Some(piece) = state.fetch() {
                    return Some(piece);
                }
                if state.closed.is_some() {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Drops what was not fetched and accepts nothing more.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.pieces.clear();
        state.waiting = 0;
        state.fetched = 0;
        state.closed.get_or_insert(ClosedBy::Tool);
    }
}

impl State {
    fn describe(&self) -> InputState {
        InputState {
            next_offset: self.accepted,
            closed: self.closed.is_some(),
        }
    }

    fn fetch(&mut self) -> Option<Bytes> {
        let first = self.pieces.front_mut()?;
        let piece = first.split_to(first.len().min(PIECE));
        if first.is_empty() {
            self.pieces.pop_front();
        }
        self.fetched = piece.len();
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn open(next_offset: u64) -> InputState {
        InputState {
            next_offset,
            closed: false,
        }
    }

    #[tokio::test]
    async fn repeated_and_overlapping_messages_count_once() {
        let stdin = Stdin::default();
        let send = |offset, data: &'static str| stdin.send(offset, Bytes::from_static(data.as_bytes()), false);
        assert_eq!(send(0, "abc").unwrap(), open(3));
        assert_eq!(send(0, "abc").unwrap(), open(3));
        assert_eq!(send(1, "bcde").unwrap(), open(5));
        assert_eq!(send(0, "").unwrap(), open(5));
        assert!(matches!(send(6, "x"), Err(InputError::Ahead { next_offset: 5 })));
        assert_eq!(stdin.next().await.unwrap(), "abc");
        assert_eq!(stdin.next().await.unwrap(), "de");
        let closed = stdin.send(3, Bytes::from_static(b"def"), true).unwrap();
        assert_eq!((closed.next_offset, closed.closed), (6, true));
        assert_eq!(stdin.next().await.unwrap(), "f");
        assert_eq!(stdin.next().await, None);
        let again = stdin.send(3, Bytes::from_static(b"def"), true).unwrap();
        assert_eq!(again, closed);
        let more = stdin.send(3, Bytes::from_static(b"defg"), false).unwrap_err();
        assert!(
            matches!(
                more,
                InputError::Closed {
                    next_offset: 6,
                    by_program: false
                }
            ),
            "{more}"
        );
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let stdin = Stdin::default();
        let whole = Bytes::from(vec![b'x'; MAX_WAITING_INPUT]);
        let end = MAX_WAITING_INPUT as u64;
        assert_eq!(stdin.send(0, whole, false).unwrap(), open(end));
        let one = || stdin.send(end, Bytes::from_static(b"y"), false);
        assert!(matches!(one(), Err(InputError::Full { next_offset, .. }) if next_offset == end));
        assert_eq!(stdin.next().await.unwrap().len(), PIECE);
        assert!(
            matches!(one(), Err(InputError::Full { .. })),
            "it is fetched, not done with"
        );
        assert_eq!(stdin.next().await.unwrap().len(), PIECE);
        assert_eq!(one().unwrap(), open(end + 1));
    }

    #[tokio::test]
    async fn an_end_drops_what_waits() {
        let stdin = Stdin::default();
        stdin.send(0, Bytes::from_static(b"abc"), false).unwrap();
        stdin.end();
        assert_eq!(stdin.next().await, None);
        let more = stdin.send(3, Bytes::from_static(b"d"), false).unwrap_err();
        assert!(matches!(more, InputError::Closed { by_program: true, .. }), "{more}");
        assert!(stdin.send(0, Bytes::from_static(b"abc"), false).unwrap().closed);
    }

    proptest! {
        #[test]
        fn any_retries_bring_the_text_once(sends in proptest::collection::vec((0usize..40, 0usize..40), 0..40)) {
            let text: Bytes = (0..80u8).collect();
            let stdin = Stdin::default();
            for (offset, length) in sends {
                let before = stdin.state().next_offset;
                match stdin.send(offset as u64, text.slice(offset..offset + length), false) {
                    Ok(state) => prop_assert_eq!(state.next_offset, before.max((offset + length) as u64)),
                    Err(error) => {
                        let is_ahead = matches!(error, InputError::Ahead { next_offset } if next_offset == before);
                        prop_assert!(is_ahead && offset as u64 > before);
                    }
                }
            }
            let read: Vec<u8> = stdin.state.lock().pieces.iter().flatten().copied().collect();
            prop_assert_eq!(&read[..], &text[..read.len()]);
            prop_assert_eq!(read.len() as u64, stdin.state().next_offset);
        }
    }
}
