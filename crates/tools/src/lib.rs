//! The built-in tools, one module each, with its description for models beside it.
//!
//! *Invariant:* a tool knows neither the engine, a store, the contract nor another tool.
//!
//! In reading order:
//!
//! - `read`, `list`, `glob`, `grep`: what files hold, and which there are;
//! - `write`, `edit`, `multiedit`, `apply_patch`, `revert`: what changes files, and takes that back; `files`: the same for
//!   people at front ends;
//! - `bash`: commands. `bash/approval.rs` says what a line asks for, `bash/shell.rs` runs it, `bash/confine.rs` puts up walls
//!   around what no person approved, `bash/background.rs` is for what goes on after the first result;
//! - `port`: reaching what commands listen on, for people at front ends; [`ports`]: those that are open;
//! - `webfetch`, `exa` (web and code search): the network;
//! - `task`, `batch`: calls that make calls;
//! - `question`, `plan`, `todowrite`, `todoread`: the person, the mode and the session's list of tasks;
//! - `skill` and [`skills`]: instructions that models load, and where they are found;
//! - `lsp`: questions to language servers;
//! - `invalid`: what answers a call that names no tool.
//!
//! `testing`, `search_stage` and `races` are for tests only: a bench with a workspace, one for searches, and a folder that is
//! swapped for a link while tools work in it.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod apply_patch;
pub mod bash;
pub mod batch;
pub mod edit;
pub mod exa;
pub mod files;
pub mod glob;
pub mod grep;
pub mod invalid;
pub mod list;
pub mod lsp;
pub mod multiedit;
pub mod plan;
pub mod port;
pub mod ports;
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
