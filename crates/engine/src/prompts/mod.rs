//! The prompts that wait for a person, and the grants that replies leave behind.
//!
//! *Invariant:* sees names and patterns, never a tool. Only [`broker`] holds state, and keeps it in the store first.

mod approvals;
pub mod broker;
mod cascade;
pub mod exchange;
mod grants;
mod presence;
mod standing;
