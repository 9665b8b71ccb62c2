//! Patches in the envelope that GPT models write: the grammar, the search for a chunk's place, and what a chunk makes of
//! a text (`docs/spec/file-tools.md` §6).
//!
//! *Invariant:* pure and bounded: parsing is linear, a search is charged to a budget and stops when the call is
//! cancelled. Nothing here touches a file.

mod apply;
mod parse;
mod seek;

#[cfg(test)]
mod tests;

pub use apply::{ApplyError, apply};
pub use parse::{Change, Chunk, ChunkLine, ParseError, Section, parse};
