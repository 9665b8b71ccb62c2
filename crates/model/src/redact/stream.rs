//! Taking secrets out of a text that comes in pieces.
//!
//! *Invariant:* whatever the pieces, what comes out joined is free of secrets. What may still grow into a secret is held
//! back: less than the longest secret, and with patterns the unfinished line, up to [`MAX_LINE`].

use std::sync::Arc;

use super::{MARK, Rules, merged};

/// With patterns, a line is held back until it ends or is this long.
const MAX_LINE: usize = 64 * 1024;

/// What of a longer line is still held back: a pattern finds matches up to this length there.
const KEPT_OF_LINE: usize = 4 * 1024;

/// The state between two pieces.
pub struct Stream {
    rules: Arc<Rules>,
    held: Vec<u8>,
    /// So much of what is held belongs to a secret whose mark is out already.
    covered: usize,
}

impl Stream {
    pub(super) fn new(rules: Arc<Rules>) -> Self {
        Self {
            rules,
            held: Vec::new(),
            covered: 0,
        }
    }

    /// Takes the next piece; returns what can be told by now.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        let end = self.rules.unfinished(&self.held).min(self.line_start());
        self.release(end)
    }

    /// Returns what was held back, at the end of the text.
    pub fn finish(&mut self) -> Vec<u8> {
        self.release(self.held.len())
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Where the unfinished line begins, if patterns may match in it later.
    fn line_start(&self) -> usize {
        let length = self.held.len();
        if self.rules.patterns.is_empty() {
            return length;
        }
        let start = memchr::memrchr(b'\n', &self.held).map_or(0, |feed| feed + 1);
        if length - start > MAX_LINE {
            length - KEPT_OF_LINE
        } else {
            start
        }
    }

    fn release(&mut self, end: usize) -> Vec<u8> {
        if end == 0 {
            return Vec::new();
        }
        let mut found = self.rules.find(&self.held);
        if self.covered > 0 {
            found.push(0..self.covered);
        }
        let is_marked = self.covered > 0;
        let mut out = Vec::with_capacity(end);
        let mut from = 0;
        self.covered = 0;
        for range in merged(found).into_iter().filter(|range| range.start < end) {
            out.extend_from_slice(&self.held[from..range.start]);
            if !(is_marked && range.start == 0) {
                out.extend_from_slice(MARK.as_bytes());
            }
            from = range.end.min(end);
            self.covered = range.end - from;
        }
        out.extend_from_slice(&self.held[from..end]);
        self.held.drain(..end);
        out
    }
}
