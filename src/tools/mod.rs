//! The built-in tools.

pub mod glob;
pub mod grep;
pub mod list;
#[cfg(test)]
mod search_stage;
