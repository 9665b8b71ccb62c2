//! What every command takes.
//!
//! *Invariant:* only options, and how another program is given the same; what they mean is in the modules that use them.

use std::path::PathBuf;

use clap::Args;

use super::credentials::CredentialArgs;
use super::exit::Failure;
use super::terminal::Colour;

/// The heading of the options that say which server is meant, and how to reach it.
pub(super) const SERVER_HEADING: &str = "The server";

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct Globals {
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
    /// `config`, `init`, `setup` and `audit verify` print objects of their own.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Show times in UTC, not in the time zone of this machine.
    #[arg(long, global = true)]
    pub(super) utc: bool,
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
    /// Print more; twice for the debug log.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// The server: http://HOST:PORT, https://HOST:PORT or unix:/PATH. Without it, `call` and `files` use the service that has the folder,
    /// or start their own; `acp`, `mcp`, `revert` and `tools` always start their own. Other commands find your running services on this
    /// machine, or else try the configured socket, then http://127.0.0.1:50551.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TOOLGATE_SERVER",
        hide_env_values = true,
        help_heading = SERVER_HEADING
    )]
    pub(super) server: Option<String>,
    #[command(flatten)]
    pub(super) credentials: CredentialArgs,
}

impl Globals {
    /// Returns the options with which another program reaches the same server, or starts its own with the same settings.
    ///
    /// # Errors
    /// What cannot be written down.
    pub(super) fn for_others(&self) -> Result<Vec<String>, Failure> {
        let mut options = Vec::new();
        let mut files: Vec<(&str, PathBuf)> = self.config.iter().map(|path| ("--config", path.clone())).collect();
        if let Some(server) = &self.server {
            options.extend(["--server".to_owned(), server.clone()]);
            files.extend(self.credentials.for_others()?);
        }
        for (option, path) in files {
            let path = std::path::absolute(&path).unwrap_or(path);
            let text = path.to_str().map(str::to_owned);
            let text = text.ok_or_else(|| Failure::Usage(format!("{} is not UTF-8", path.display())))?;
            options.extend([option.to_owned(), text]);
        }
        Ok(options)
    }
}
