//! The service as a whole: what it shows on the wire, and how its parts are put together, started and stopped.
//!
//! *Invariant:* [`grpc`] converts core types at the rim and knows no tool, program or file; only [`app`] names concrete tools,
//! stores and services together.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod app;
pub mod grpc;
