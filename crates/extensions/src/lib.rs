//! Tools from elsewhere: MCP servers, custom tools and plugins in JavaScript, and tools that front ends lend.
//!
//! *Invariant:* the three know nothing of each other, and none knows the engine: what they offer is taken by whoever made
//! them.
//!
//! In reading order:
//!
//! - `mcp`: `mcp/server.rs` is the life of one server (connect, list, report a loss, connect again), `client` and `dispatcher`
//!   talk to it, `stdio`, `http` and `sse` carry the messages, `login` and `oauth` get tokens; `mcp/attending.rs` is a call there,
//!   with what the server says and asks meanwhile;
//! - `javascript`: `discovery` finds files, `script` loads them, `host` and `runtime` run them, `manifest` is for executables;
//!   `world` and `events` are what plugins want to know, and what they hear;
//! - `asking`: how a tool from elsewhere asks before it runs;
//! - `groups`: what runs for each workspace;
//! - `hosted`: tools, hooks and subagents that front ends lend.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod asking;
#[cfg(any(feature = "javascript", feature = "mcp"))]
mod groups;
pub mod hosted;
#[cfg(feature = "javascript")]
pub mod javascript;
#[cfg(feature = "mcp")]
pub mod mcp;
