//! The clients: where each keeps its MCP servers, and what an entry is there.
//!
//! *Invariant:* one table says all of a client; adding one is adding it here.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::cli::exit::Failure;

/// An MCP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Code
    ClaudeCode,
    /// Codex CLI
    Codex,
    /// OpenCode
    Opencode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Zed
    Zed,
    /// Gemini CLI
    Gemini,
}

/// In what form a client's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, with comments and trailing commas where there are any.
    Json,
    Toml,
}

/// Where files of programs are.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The home folder.
    home: PathBuf,
    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    config: PathBuf,
    /// The folder of the project.
    project: PathBuf,
    /// What `CLAUDE_CONFIG_DIR` and `CODEX_HOME` name.
    claude: Option<PathBuf>,
    codex: Option<PathBuf>,
}

impl Places {
    /// Returns them as the environment says.
    pub(super) fn of_this_user() -> Result<Self, Failure> {
        let named = |name: &str| {
            std::env::var_os(name)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };
        let home = named("HOME")
            .ok_or_else(|| Failure::Usage("HOME is not set, so the client's settings cannot be found".to_owned()))?;
        let project = std::env::current_dir().map_err(|source| Failure::Read {
            path: ".".into(),
            source,
        })?;
        Ok(Self {
            config: named("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            claude: named("CLAUDE_CONFIG_DIR"),
            codex: named("CODEX_HOME"),
            home,
            project,
        })
    }

    /// Returns the folder of the project.
    pub(super) fn project(&self) -> &Path {
        &self.project
    }
}

impl Client {
    /// Returns the file that has the servers: of the project, or of the user.
    pub(super) fn file(self, places: &Places, project: bool) -> PathBuf {
        let Places { home, config, .. } = places;
        if project {
            let name = match self {
                Self::ClaudeCode => ".mcp.json",
                Self::Codex => ".codex/config.toml",
                Self::Opencode => return either(&places.project, "opencode"),
                Self::Cursor => ".cursor/mcp.json",
                Self::Vscode => ".vscode/mcp.json",
                Self::Zed => ".zed/settings.json",
                Self::Gemini => ".gemini/settings.json",
            };
            return places.project.join(name);
        }
        match self {
            Self::ClaudeCode => places.claude.as_ref().unwrap_or(home).join(".claude.json"),
            Self::Codex => match &places.codex {
                Some(folder) => folder.join("config.toml"),
                None => home.join(".codex/config.toml"),
            },
            Self::Opencode => either(&config.join("opencode"), "opencode"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::Vscode if cfg!(target_os = "macos") => home.join("Library/Application Support/Code/User/mcp.json"),
            Self::Vscode => config.join("Code/User/mcp.json"),
            Self::Zed if cfg!(target_os = "macos") => home.join(".config/zed/settings.json"),
            Self::Zed => config.join("zed/settings.json"),
            Self::Gemini => home.join(".gemini/settings.json"),
        }
    }

    /// Returns the name of its program.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Cursor => "cursor",
            Self::Vscode => "code",
            Self::Zed => "zed",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the form of its file.
    pub(super) fn format(self) -> Format {
        match self {
            Self::Codex => Format::Toml,
            Self::ClaudeCode | Self::Opencode | Self::Cursor | Self::Vscode | Self::Zed | Self::Gemini => Format::Json,
        }
    }

    /// Returns the name of the table of servers.
    pub(super) fn tables(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::Cursor | Self::Gemini => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::Opencode => "mcp",
            Self::Vscode => "servers",
            Self::Zed => "context_servers",
        }
    }

    /// Returns what stands for the folder that is open, for clients that start programs elsewhere.
    pub(super) fn own_folder(self) -> Option<&'static str> {
        match self {
            Self::Cursor | Self::Vscode => Some("${workspaceFolder}"),
            Self::ClaudeCode | Self::Codex | Self::Opencode | Self::Zed | Self::Gemini => None,
        }
    }

    /// Returns the keys of the entry that are Toolgate's; others in it are the user's.
    ///
    /// OpenCode's file is Toolgate's as well. There the entry would have Toolgate start itself, so it is switched off for the
    /// Toolgate that is started by it.
    pub(super) fn entry(self, program: &str, arguments: &[String], name: &str) -> Map<String, Value> {
        let keys = match self {
            Self::ClaudeCode | Self::Vscode => json!({"type": "stdio", "command": program, "args": arguments}),
            Self::Codex | Self::Cursor | Self::Zed | Self::Gemini => json!({"command": program, "args": arguments}),
            Self::Opencode => {
                let command: Vec<&str> = [program]
                    .into_iter()
                    .chain(arguments.iter().map(String::as_str))
                    .collect();
                let off = json!({"mcp": {name: {"enabled": false}}}).to_string();
                json!({
                    "type": "local",
                    "command": command,
                    "environment": {"OPENCODE_CONFIG_CONTENT": off},
                    "enabled": true,
                })
            }
        };
        keys.as_object().cloned().unwrap_or_default()
    }

    /// Says what is left to do.
    pub(super) fn afterwards(self, project: bool) -> &'static str {
        match self {
            Self::ClaudeCode if project => "Claude Code asks once whether it may use it",
            Self::ClaudeCode => "`claude mcp list` shows it, and Claude Code uses it from its next start",
            Self::Codex if project => "Codex reads it where it trusts the project",
            Self::Codex => "`codex mcp list` shows it, and Codex uses it from its next start",
            Self::Opencode => "`opencode mcp list` shows it, and OpenCode uses it from its next start",
            Self::Cursor => "Cursor's settings show it under MCP",
            Self::Vscode => "VS Code's command `MCP: List Servers` starts it",
            Self::Zed => "Zed has it at once, in the settings of its agent",
            Self::Gemini => "`gemini mcp list` shows it, and Gemini CLI uses it from its next start",
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Returns the file that is there, with comments or without.
fn either(folder: &Path, name: &str) -> PathBuf {
    let plain = folder.join(format!("{name}.json"));
    let commented = folder.join(format!("{name}.jsonc"));
    if !plain.exists() && commented.exists() {
        return commented;
    }
    plain
}
