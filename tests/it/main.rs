//! Every test of the service that is more than one module's; one module for each theme.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod cancel;
mod contract;
mod crash;
mod drain;
mod hostile;
mod prompts;
mod readme;
mod store;
mod streams;
mod support;
mod tidy;
mod web;
