//! The prompts that wait for a person, and the grants that replies leave behind.
//!
//! *Invariant:* sees names and patterns, never a tool. The store has what is open and granted; only [`board`] keeps a copy of it.

mod approvals;
mod asker;
pub mod asking;
pub mod board;
pub mod broker;
mod cascade;
pub mod exchange;
mod grants;
pub mod inbox;
mod presence;

#[cfg(test)]
mod tests;
