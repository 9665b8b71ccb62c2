//! Every test of the service that is more than one module's; one module for each theme.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod revert;
mod store;
