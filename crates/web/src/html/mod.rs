//! HTML as text that a model reads: Markdown, or what is left without the tags (`docs/spec/web-tools.md` §1.7
//! and §1.8).
//!
//! A page is read by the tokenizer and tree builder that browsers' rules describe (`html5ever`), into a [`tree`] of our own;
//! [`whitespace`] is settled there, and [`markdown`] walks it once. [`text`] needs no tree.
//!
//! The converters that exist were not taken: they call themselves for each level of nesting, keep a tree in which removing a
//! child takes as long as there are children, and cannot stop a page that makes the parser itself slow.
//!
//! *Invariants:* a leaf. Any text is good: neither depth nor size of a page is trusted, nothing calls itself, and the work,
//! the memory and the result are linear in the page's length.

mod escape;
mod extent;
mod flow;
mod forms;
mod markdown;
mod numbers;
mod parse;
mod passage;
mod shape;
mod source;
mod space;
mod text;
mod tree;
mod whitespace;

#[cfg(test)]
mod tests;

pub use markdown::to_markdown;
pub use text::to_text;
