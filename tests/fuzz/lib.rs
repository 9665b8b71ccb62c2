//! The part of the service that is fuzzed.
//!
//! *Invariant:* nothing but the service's own source; what a target needs of it is public there.

pub use toolgate_fs as workspace;
