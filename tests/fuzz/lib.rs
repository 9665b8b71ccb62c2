//! The part of the service that is fuzzed.
//!
//! *Invariant:* nothing but the service's own source; what a target needs of it is public there.

#[path = "../../src/workspace/mod.rs"]
pub mod workspace;
