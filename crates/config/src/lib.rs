//! Configuration: the service's own ([`service`]: `toolgate.toml`, `TOOLGATE_*` variables, flags) and the tools'
//! ([`opencode`]: the `opencode.json` files and agent files that users already have).
//!
//! *Invariant:* it knows neither the engine nor the server, and writes nothing but logins ([`logins`]).
//! Every file is a regular one of bounded size, every value is checked where it is read, and an error names file, line, key
//! and what was expected. The process's environment is seen only through [`Environment`].
//!
//! In reading order:
//!
//! - [`environment`], [`error`], `read`, `units`: the environment as a value, what an error says, reading one file, durations
//!   and sizes;
//! - [`service`]: the service's own configuration, whose files are in `service/`: `keys` (the table of all keys), `kinds` (how
//!   values are read and shown), `parse`, `sandbox` and `secrets` (what the values of single keys mean), `values` (their
//!   types), `layers` (which of file, variables and flags decides), `telemetry` (the standard variables beside it), `variables`
//!   (those that only look like ours), `resolve` (what concerns several keys, and the configuration in force) with `roles`
//!   (which keys go with which role);
//! - [`opencode`]: the tools' configuration of one workspace, put together from `layers` (which files and variables, weak
//!   to strong), `jsonc` and `substitute` (reading one of them), `checks` (what it may say), `odd` (what of it is most likely a
//!   mistake), `markdown` (agents written as Markdown), `merge` (one over the other), `sources` (where a value comes from, and
//!   what stays of files that are gone), `masked` (what may be shown);
//! - [`flags`], [`mcp`], `lsp`, `skills`: its parts that need more than a look;
//! - [`plugins`]: what plugins make of it;
//! - [`seen`]: which files were read, and whether one has changed since;
//! - [`logins`]: the logins at servers of tools, Toolgate's own and those that OpenCode has stored.

#![allow(clippy::disallowed_methods)] // reads files that no workspace holds yet, each regular and of bounded size

pub mod environment;
pub mod error;
pub mod flags;
pub mod logins;
pub mod mcp;
pub mod opencode;
pub mod plugins;
pub mod seen;
pub mod service;

mod checks;
mod jsonc;
mod layers;
mod lsp;
mod markdown;
mod masked;
mod merge;
mod odd;
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
pub use toolgate_lsp::known_programs as language_server_programs;
