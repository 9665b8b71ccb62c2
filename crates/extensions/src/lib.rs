//! Tools from elsewhere: MCP servers, custom tools and plugins in JavaScript, and tools that front ends lend.
//!
//! *Invariant:* the three know nothing of each other, and none knows the engine: what they offer is taken by whoever made
//! them.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod hosted;
#[cfg(feature = "javascript")]
pub mod javascript;
#[cfg(feature = "mcp")]
pub mod mcp;
