//! `toolgate init`: rules that are safe to begin with, and what was found in the folder and on this machine.
//!
//! *Invariant:* a file that is there is never touched, and nothing is written that was not shown and agreed to. Nothing is started.

#![allow(clippy::disallowed_methods)] // the folder of whoever typed it, not files of a workspace

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use toolgate_config::language_server_programs;

use super::consent::agreed;
use super::exit::{Exit, Failure};
use super::folder;
use super::service::{self, Surroundings};
use super::setup;
use super::terminal::{Look, Terminal};

/// Where rules of a folder may be already.
const PLACES: [&str; 4] = [
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
];

/// The rules: a later one is stronger. The test beside them says what they mean.
const STARTER: &str = r#"{
  "$schema": "https://opencode.ai/config.json",
  "permission": {
    "bash": "ask",
    "edit": "ask",
    "webfetch": "ask",
    "read": {
      "*": "allow",
      "*.env": "deny",
      "*.env.*": "deny",
      "*.env.example": "allow",
      "*.pem": "deny",
      "*.key": "deny",
      "*.p12": "deny",
      "*.pfx": "deny",
      "*.keystore": "deny",
      "*id_rsa": "deny",
      "*id_ed25519": "deny",
      "*id_ecdsa": "deny",
      "*.ssh/*": "deny",
      "*.aws/credentials": "deny",
      "*.kube/config": "deny",
      "*.docker/config.json": "deny",
      "*.netrc": "deny",
      "*.npmrc": "deny",
      "*.pypirc": "deny",
      "*.pgpass": "deny",
      "*.git-credentials": "deny",
      "*.git/config": "deny"
    }
  }
}
"#;

/// JavaScript runtimes, which custom tools and plugins need.
const RUNTIMES: [&str; 4] = ["bun", "deno", "node", "opencode"];

/// Where to begin. The file is shown, and written when you agree; a file that is there is left alone.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Write the file without asking
    #[arg(short, long)]
    yes: bool,
}

impl InitArgs {
    pub(super) async fn run(self, terminal: &Terminal) -> Result<Exit, Failure> {
        let folder = self.folder.canonicalize().map_err(|source| Failure::Read {
            path: self.folder.clone(),
            source,
        })?;
        let found = Found::look(&folder)?;
        if !terminal.json {
            for line in found.lines() {
                terminal.line(&line)?;
            }
        }
        let there = PLACES.iter().map(|place| folder.join(place));
        if let Some(there) = there.into_iter().find(|path| path.symlink_metadata().is_ok()) {
            found.report(terminal, &there, false)?;
            let text = format!("{} is there already, so nothing was written", folder::shown(&there));
            terminal.inform(&text);
            return Ok(Exit::Completed);
        }
        let file = folder.join("opencode.json");
        let shown = folder::shown(&file);
        if !terminal.json {
            terminal.line(&format!("\n{}", terminal.out.text(Look::Bold, &shown)))?;
            terminal.line(STARTER.trim_end())?;
        } else if !self.yes {
            // Standard output is for the record; whoever is asked has to see what about.
            terminal.inform(STARTER.trim_end());
        }
        if !self.yes && !agreed("Write", &shown).await? {
            found.report(terminal, &file, false)?;
            terminal.inform("nothing was written");
            return Ok(Exit::Denied);
        }
        write(&file)?;
        found.report(terminal, &file, true)?;
        terminal.inform(&format!(
            "wrote {shown}; `toolgate serve --console` runs the service in that folder, `toolgate call` asks you in the terminal"
        ));
        Ok(Exit::Completed)
    }
}

/// Writes the rules, whole or not at all, where nothing is.
fn write(path: &Path) -> Result<(), Failure> {
    let unwritten = |source| Failure::WriteFile {
        path: path.to_owned(),
        source,
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(unwritten)?;
    file.write_all(STARTER.as_bytes()).map_err(unwritten)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))
        .map_err(unwritten)?;
    file.as_file().sync_all().map_err(unwritten)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Err(Failure::Usage(format!(
            "{} was created in the meantime, so it was left unchanged",
            path.display()
        ))),
        Err(error) => Err(unwritten(error.error)),
    }
}

/// What is there.
struct Found {
    folder: PathBuf,
    around: Surroundings,
    has_git: bool,
    language_servers: Vec<String>,
    runtimes: Vec<String>,
    clients: Vec<String>,
}

impl Found {
    fn look(folder: &Path) -> Result<Self, Failure> {
        let around = service::surroundings(folder)?;
        let servers = language_server_programs().filter(|(_, programs)| programs.clone().any(is_program));
        let runtimes = RUNTIMES.into_iter().filter(|name| is_program(name));
        Ok(Self {
            folder: folder.to_owned(),
            has_git: is_program("git"),
            language_servers: servers.map(|(id, _)| id.to_owned()).collect(),
            runtimes: runtimes.map(str::to_owned).collect(),
            clients: setup::found(is_program),
            around,
        })
    }

    fn lines(&self) -> Vec<String> {
        let or = |list: &[String], none: &str| {
            if list.is_empty() {
                none.to_owned()
            } else {
                list.join(", ")
            }
        };
        let git = match (&self.around.repository, self.has_git) {
            (Some(root), true) => format!("a repository at {}", folder::shown(root)),
            (Some(root), false) => format!("a repository at {}, and no program `git` in PATH", folder::shown(root)),
            (None, true) => "no repository here".to_owned(),
            (None, false) => "no repository here, and no program `git` in PATH".to_owned(),
        };
        let sandbox = match self.around.sandbox_lacks.as_slice() {
            [] => "commands that no person approved are confined by the kernel".to_owned(),
            lacks => format!("not complete: the kernel lacks {}", lacks.join(" and ")),
        };
        let clients = match self.clients.as_slice() {
            [] => "none".to_owned(),
            [one] => format!("{one}: `toolgate setup {one}` adds Toolgate to its settings"),
            [first, ..] => format!(
                "{}: for instance, `toolgate setup {first}` adds Toolgate to its settings",
                self.clients.join(", ")
            ),
        };
        let rows = [
            ("folder", folder::shown(&self.folder)),
            ("git", git),
            ("sandbox", sandbox),
            ("language servers", or(&self.language_servers, "none in PATH")),
            (
                "runtimes",
                or(&self.runtimes, "none in PATH; custom tools and plugins need one"),
            ),
            ("MCP clients", clients),
        ];
        let mut lines: Vec<String> = rows.iter().map(|(what, found)| format!("{what:18}{found}")).collect();
        let others = self.around.rule_files.iter();
        lines.extend(others.map(|path| format!("{:18}{} applies here, too", "rules", folder::shown(path))));
        lines
    }

    fn report(&self, terminal: &Terminal, file: &Path, written: bool) -> Result<(), Failure> {
        if !terminal.json {
            return Ok(());
        }
        let starter: Value = serde_json::from_str(STARTER).map_err(Failure::Json)?;
        terminal.record(&json!({
            "folder": self.folder,
            "file": file,
            "written": written,
            "rules": starter,
            "found": {
                "repository": self.around.repository,
                "git": self.has_git,
                "sandboxLacks": self.around.sandbox_lacks,
                "languageServers": self.language_servers,
                "runtimes": self.runtimes,
                "mcpClients": self.clients,
                "ruleFiles": self.around.rule_files,
            },
        }))
    }
}

/// Says whether there is a program of this name in `PATH`.
fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| {
        let found = fs::metadata(folder.join(name));
        folder.is_absolute() && found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use toolgate_model::Action;
    use toolgate_permission::rules;

    use super::*;

    #[test]
    fn the_rules_ask_for_what_changes_things_and_deny_secrets() {
        let starter: Value = serde_json::from_str(STARTER).unwrap();
        let made = rules::from_config(&starter["permission"], None).unwrap();
        let check = |permission: &str, pattern: &str, expected: Action| {
            let (action, _) = rules::evaluate(permission, pattern, &[&made]);
            assert_eq!(action, expected, "{permission} {pattern}");
        };
        for permission in ["bash", "edit", "webfetch"] {
            check(permission, "anything", Action::Ask);
        }
        for secret in [
            ".env",
            "app/.env.production",
            "server.pem",
            "tls/server.key",
            "home/.ssh/id_ed25519",
            "../.ssh/config",
            ".npmrc",
            ".aws/credentials",
        ] {
            check("read", secret, Action::Deny);
        }
        for open in ["README.md", ".env.example", "src/main.rs", "docs/keys.md"] {
            check("read", open, Action::Allow);
        }
    }

    #[test]
    fn what_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode.json");
        write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), STARTER);
        fs::write(&path, "{}").unwrap();
        assert!(write(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
