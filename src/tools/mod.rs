//! The built-in tools, one file each, with its description beside it.
//!
//! *Invariant:* a tool imports `call`, `tool`, `workspace`, `process`, `shell` and `skills`; never the engine, the permissions, a store, the
//! wire or another tool.

pub mod apply_patch;
pub mod bash;
pub mod batch;
pub mod edit;
pub mod glob;
pub mod grep;
pub mod invalid;
pub mod list;
pub mod multiedit;
pub mod plan;
pub mod question;
pub mod read;
pub mod revert;
pub mod skill;
pub mod task;
pub mod todoread;
pub mod todowrite;
pub mod write;

#[cfg(test)]
mod search_stage;
#[cfg(test)]
pub(crate) mod testing;
