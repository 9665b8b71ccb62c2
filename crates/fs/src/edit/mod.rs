//! Replacing text in a file that a model remembers almost: nine strategies, from exact to loose, and which of them
//! decides (`replace`; `docs/spec/file-tools.md` §4).
//!
//! | strategy | where | finds |
//! |---|---|---|
//! | 1 exact, 9 multi-occurrence | `exact` | the bytes of oldString |
//! | 2 line-trimmed, 5 indentation-flexible | `trimmed` | the same lines, but for white space at their ends |
//! | 3 block-anchor | `blocks` | the same first and last line, similar ones between |
//! | 4 whitespace-normalised | `whitespace` | the same words |
//! | 6 escape-normalised | `escapes` | the same text, escaped once more or less |
//! | 7 trimmed-boundary | `trimmed` | the same text but for white space around it |
//! | 8 context-aware | `blocks` | the same first and last line, half of those between |
//!
//! *Invariant:* the first strategy that finds any place decides, and more than one place is refused unless all are to be
//! replaced. What is not replaced keeps every byte. A file that is not UTF-8 is only edited exactly. A search is linear
//! in the file but for the comparison of similar lines, which has a limit.

mod blocks;
mod change;
mod distance;
mod effort;
mod escapes;
mod exact;
mod lines;
#[cfg(test)]
mod oracle;
mod replace;
mod request;
mod search;
mod splice;
#[cfg(test)]
mod tests;
mod trimmed;
mod whitespace;

pub use change::{Change, compute, open};
pub use replace::replace;
pub use request::{Edit, EditError};
