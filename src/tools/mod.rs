//! The built-in tools.

pub mod invalid;
pub mod read;
pub mod write;

#[cfg(test)]
pub(crate) mod testing;
