//! The built-in tools.

pub mod bash;
