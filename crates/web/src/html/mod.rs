//! HTML as text that a model reads: Markdown, or what is left without the tags (`docs/spec/web-tools.md` §1.7
//! and §1.8).
//!
//! A page is read by the tokenizer and tree builder that browsers' rules describe (`html5ever`), into a [`tree`] of our own;
//! [`whitespace`] is settled there, and [`markdown`] walks it once. [`text`] needs no tree.
//!
//! The converters that exist were not taken: they call themselves for each level of nesting, keep a tree in which removing a
//! child takes as long as there are children, and cannot stop a page that makes the parser itself slow. `htmd` 0.5.6, with the
//! options that the specification names, was tried in November 2026. Of the 205 pairs of page and Markdown in the tests, 67
//! came out otherwise, the three whole pages among them: it turns `<` in text into `\<`, makes Markdown of tables, reads
//! `noscript` with scripting on, numbers and indents lists in its own way, and joins the white space between blocks
//! differently. Handlers for elements cannot change that: escaping and white space are settled inside it. Of the 27 harmful
//! pages in the tests (20,000 repetitions, 8 MiB of stack) 7 overflowed the stack and 4 took more than 25 s. A bound on depth
//! would stop most of these. It would not stop 5 more, with 20,000 attributes in one tag, that took 9 s each inside
//! the parser. It also brings a second version of `html5ever` (0.38).
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
