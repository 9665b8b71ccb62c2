//! Feeds a page to the tokenizer so that no tag can hold it up.
//!
//! *Invariant:* what the tokenizer is given is the page, without those attributes of a tag that are too many.

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, TokenSink, Tokenizer, TokenizerOpts};
use memchr::memchr;

use super::extent;

/// Bytes of text that are fed at once.
const PIECE: usize = 4096;

/// Who reads the tokens of a page.
pub(super) trait Reader: TokenSink {
    /// Returns how many tokens there were.
    fn tokens(&self) -> usize;

    /// Says whether the tokenizer was told to take what follows for text, until an end tag.
    fn reads_raw(&self) -> bool;

    /// Says whether it reads no more.
    fn is_full(&self) -> bool;
}

/// Has a page read, and returns its reader.
pub(super) fn read<R: Reader>(html: &str, reader: R) -> R {
    let opts = TokenizerOpts {
        discard_bom: false,
        ..TokenizerOpts::default()
    };
    let mut source = Source {
        html,
        tokenizer: Tokenizer::new(reader, opts),
        queue: BufferQueue::default(),
        unheard: 0,
    };
    source.feed_all();
    source.tokenizer.end();
    source.tokenizer.sink
}

struct Source<'a, R: Reader> {
    html: &'a str,
    tokenizer: Tokenizer<R>,
    queue: BufferQueue,
    /// Beginnings of words since the last token, in what should be text.
    unheard: usize,
}

impl<R: Reader> Source<'_, R> {
    fn feed_all(&mut self) {
        let mut at = 0;
        while at < self.html.len() && !self.tokenizer.sink.is_full() {
            let end = self.next_markup(at);
            if !self.feed_text(at, end) {
                return;
            }
            at = if end == self.html.len() || self.tokenizer.sink.reads_raw() {
                // The end tag that ends raw text is found by the tokenizer alone.
                let next = self.next_markup(end + 1);
                if !self.feed_text(end, next) {
                    return;
                }
                next
            } else {
                self.feed_markup(end)
            };
        }
    }

    fn next_markup(&self, from: usize) -> usize {
        let rest = self.html.as_bytes().get(from..).unwrap_or_default();
        memchr(b'<', rest).map_or(self.html.len(), |at| from + at)
    }

    /// Feeds what should be text. Returns false if the tokenizer takes it for the inside of a tag that is too large.
    fn feed_text(&mut self, from: usize, to: usize) -> bool {
        let mut at = from;
        while at < to {
            let end = self.html.floor_char_boundary(to.min(at + PIECE));
            let before = self.tokenizer.sink.tokens();
            self.feed(&self.html[at..end]);
            if self.tokenizer.sink.tokens() == before {
                let piece = &self.html.as_bytes()[at..end];
                let is_start = |byte: &&u8| matches!(byte, b'\t'..=b' ' | b'/' | b'"' | b'\'');
                self.unheard += piece.iter().filter(is_start).count();
                if self.unheard > PIECE {
                    return false;
                }
            } else {
                self.unheard = 0;
            }
            at = end;
        }
        true
    }

    /// Feeds the markup at a place, and returns the place after it.
    fn feed_markup(&self, at: usize) -> usize {
        let is_foreign = self
            .tokenizer
            .sink
            .adjusted_current_node_present_but_not_in_html_namespace();
        let extent = extent::of_markup(&self.html[at..], is_foreign);
        let end = at + extent.end;
        match extent.excess {
            Some(excess) => {
                self.feed(&self.html[at..at + excess]);
                self.feed(">");
            }
            None => self.feed(&self.html[at..end]),
        }
        end
    }

    fn feed(&self, text: &str) {
        self.queue.push_back(StrTendril::from(text));
        // It stops where a browser would run a script.
        while !matches!(self.tokenizer.feed(&self.queue), TokenizerResult::Done) {}
    }
}
