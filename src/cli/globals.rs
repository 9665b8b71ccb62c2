//! What every command takes.
//!
//! *Invariant:* only options; what they mean is in the modules that use them.

use std::path::PathBuf;

use clap::Args;

use super::credentials::CredentialArgs;
use super::terminal::Colour;

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct Globals {
    /// The server: http://HOST:PORT, https://HOST:PORT or unix:/PATH. Without it, `call` and `files` use the service that has the folder,
    /// or start their own; `mcp`, `revert` and `tools` always start their own. Other commands find your running services on this
    /// machine, or else try the configured socket, then http://127.0.0.1:50551.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TOOLGATE_SERVER",
        hide_env_values = true
    )]
    pub(super) server: Option<String>,
    /// The service's configuration file (toolgate.toml).
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TOOLGATE_CONFIG",
        hide_env_values = true
    )]
    pub(super) config: Option<PathBuf>,
    /// Print one JSON object per line: messages of the contract as protobuf JSON, as grpcurl prints them. `serve`, `forward`,
    /// `config` and `audit verify` print objects of their own.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// When to use colour; NO_COLOR is respected.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        env = "TOOLGATE_COLOR",
        hide_env_values = true
    )]
    pub(super) color: Colour,
    #[command(flatten)]
    pub(super) credentials: CredentialArgs,
    /// Print more; twice for the debug log.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}
