//! Text that grows piece by piece, with at most one blank line between two pieces.
//!
//! *Invariant:* line ends at the end are only counted, so that joining a piece takes as long as the piece is.

use super::space::trim;

/// How many line ends separate two pieces at most.
const MAX_GAP: usize = 2;

/// A text that pieces are joined to.
#[derive(Debug, Default)]
pub(super) struct Flow {
    text: String,
    /// Line ends that the text ends in.
    line_ends: usize,
}

/// Where a block began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(usize);

impl Flow {
    /// Joins a piece: the line ends between it and what is there are as many as the larger number of the two sides.
    pub(super) fn join(&mut self, piece: &str) {
        let body = piece.trim_start_matches('\n');
        self.gap(piece.len() - body.len());
        let text = body.trim_end_matches('\n');
        if text.is_empty() {
            return;
        }
        self.text.extend(std::iter::repeat_n('\n', self.line_ends));
        self.text.push_str(text);
        self.line_ends = body.len() - text.len();
    }

    /// Joins nothing but line ends.
    fn gap(&mut self, line_ends: usize) {
        self.line_ends = self.line_ends.max(line_ends).min(MAX_GAP);
    }

    /// Begins a block, which the pieces joined until it ends are in: as if they were joined to each other first.
    pub(super) fn begin_block(&mut self) -> Mark {
        self.gap(MAX_GAP);
        Mark(self.text.len())
    }

    /// Ends a block.
    pub(super) fn end_block(&mut self, Mark(begin): Mark) {
        if self.text.len() == begin {
            self.gap(MAX_GAP);
        } else {
            self.line_ends += MAX_GAP;
        }
    }

    /// Begins what is in the line.
    pub(super) fn begin_inline(&self) -> Mark {
        Mark(self.text.len())
    }

    /// Ends what is in the line.
    pub(super) fn end_inline(&mut self, Mark(begin): Mark) {
        if self.text.len() == begin {
            self.gap(0);
        }
    }

    /// Returns the whole text.
    pub(super) fn into_text(mut self) -> String {
        self.text.extend(std::iter::repeat_n('\n', self.line_ends));
        self.text
    }

    /// Returns the text without the white space around it.
    pub(super) fn into_trimmed(self) -> String {
        trim(&self.text).to_owned()
    }
}
