//! The built-in tools, one file each, with its description beside it.
//!
//! *Invariant:* a tool imports `call`, `tool`, `workspace`, `process`, `lsp`, `shell`, `skills`, `net` and `html`; never the
//! engine, the permissions, a store, the wire or another tool.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod apply_patch;
pub mod bash;
pub mod batch;
pub mod edit;
pub mod exa;
pub mod glob;
pub mod grep;
pub mod invalid;
pub mod list;
pub mod lsp;
pub mod multiedit;
pub mod plan;
pub mod question;
pub mod read;
pub mod revert;
pub mod skill;
pub mod skills;
pub mod task;
pub mod todoread;
pub mod todowrite;
pub mod webfetch;
pub mod write;

#[cfg(test)]
mod races;
#[cfg(test)]
mod search_stage;
#[cfg(test)]
pub(crate) mod testing;
