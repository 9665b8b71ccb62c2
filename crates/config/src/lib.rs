//! Configuration: the service's own ([`service`]: `toolgate.toml`, `TOOLGATE_*` variables, flags) and the tools'
//! ([`opencode`]: the `opencode.json` files and agent files that users already have).
//!
//! *Invariant:* never written, but for logins that were renewed ([`logins`]). Every file is a regular one of bounded size, every value is
//! checked where it is read, and an error names file, line, key and what was expected. The process's environment is
//! seen only through [`Environment`].

#![allow(clippy::disallowed_methods)] // reads files that no workspace holds yet, each regular and of bounded size

pub mod environment;
pub mod error;
pub mod flags;
pub mod logins;
pub mod mcp;
pub mod opencode;
pub mod seen;
pub mod service;

mod checks;
mod jsonc;
mod layers;
mod lsp;
mod markdown;
mod masked;
mod merge;
mod read;
mod skills;
mod sources;
mod substitute;
mod units;

pub use environment::Environment;
pub use error::{ConfigError, Position, Problem};
pub use flags::Flags;
pub use opencode::ToolsConfig;
pub use seen::Seen;
pub use service::{Config, RawConfig};
