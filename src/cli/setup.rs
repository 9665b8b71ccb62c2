//! `toolgate setup`: tells an MCP client of Toolgate, by an entry in the client's own file.
//!
//! The other files, in reading order: `clients.rs` (which file, and what an entry looks like in it), `json.rs` and `toml.rs` (one
//! entry in a file that is otherwise left as it is), `shown.rs` (the change as it is shown), `file.rs` (where the file really is,
//! and how it is replaced).
//!
//! *Invariant:* nothing is written that was not shown and agreed to. A file that cannot be understood is not touched, and neither
//! is one that has changed since it was shown.

#![allow(clippy::disallowed_methods)] // the files are those of other programs of this user, and in no workspace

mod clients;
mod file;
mod json;
mod shown;
mod toml;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum as _};
use serde_json::{Map, Value, json};

use super::consent::agreed;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::{Look, Terminal, visible};
use clients::{Client, Format, Places};

/// The mode of a file of a user that is new: some of these files have tokens in them.
const OWN_FILE: u32 = 0o600;
/// And of one of a project.
const SHARED_FILE: u32 = 0o644;

/// The keys of an entry that has an address in the place of a command.
const ADDRESSES: [&str; 2] = ["url", "httpUrl"];

/// Which client, and what to tell it.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --server, the client starts its own service, for the folder in which it starts programs.
The change is shown first, and made only if you agree. --json prints the file, the diff and whether the file was written.")]
pub(super) struct SetupArgs {
    /// The client.
    #[arg(value_enum)]
    client: Client,
    /// Change the settings file of the project in this folder instead of your own
    #[arg(long)]
    project: bool,
    /// The workspace of the entry: its name, or a folder (`.`, or anything with a slash)
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// The agent whose permissions count
    #[arg(long)]
    agent: Option<String>,
    /// The name of the entry
    #[arg(long, default_value = "toolgate", value_parser = entry_name)]
    name: String,
    /// Remove the entry
    #[arg(long)]
    remove: bool,
    /// Make the change without asking
    #[arg(short, long)]
    yes: bool,
}

/// Returns the clients that this user has, as `setup` calls them: those with a program, or with a file of their own.
pub(super) fn found(has_program: impl Fn(&str) -> bool) -> Vec<String> {
    let places = Places::of_this_user().ok();
    let is_there = |client: &&Client| {
        // OpenCode's file is Toolgate's as well.
        let has_file = **client != Client::Opencode
            && places
                .as_ref()
                .is_some_and(|places| client.file(places, false).exists());
        has_program(client.program()) || has_file
    };
    Client::value_variants()
        .iter()
        .filter(is_there)
        .map(Client::to_string)
        .collect()
}

/// What the file of a client says, and what it is to say.
struct Change {
    /// Where it is, links followed.
    path: PathBuf,
    /// None if there is no file.
    old: Option<String>,
    new: String,
    /// What becomes of the entry, as it is shown.
    shown: String,
    /// The mode, if there is no file.
    mode: u32,
}

impl SetupArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let change = self.change(globals)?;
        let old = change.old.as_deref().unwrap_or_default();
        let shown = change.path.display().to_string();
        if old == change.new {
            let state = if self.remove {
                "has no such entry"
            } else {
                "has the entry already"
            };
            self.report(terminal, &change, "", false)?;
            terminal.inform(&format!("{shown} {state}"));
            return Ok(Exit::Completed);
        }
        let diff = &change.shown;
        if !terminal.json {
            terminal.line(&painted(terminal, diff))?;
        } else if !self.yes {
            // Standard output is for the record; whoever is asked has to see what about.
            terminal.inform(&visible(diff));
        }
        if !self.yes && !agreed("Change", &shown).await? {
            self.report(terminal, &change, diff, false)?;
            terminal.inform("nothing was changed");
            return Ok(Exit::Denied);
        }
        file::write(&change)?;
        self.report(terminal, &change, diff, true)?;
        let next = if self.remove {
            "the client stops using it at its next start"
        } else {
            self.client.afterwards(self.project)
        };
        terminal.inform(&format!("wrote {shown}; {next}"));
        Ok(Exit::Completed)
    }

    fn change(&self, globals: &Globals) -> Result<Change, Failure> {
        let places = Places::of_this_user()?;
        let within = self.project.then_some(places.project());
        let path = file::locate(&self.client.file(&places, self.project), within)?;
        let old = file::read(&path)?;
        let text = old.as_deref().unwrap_or_default();
        let entry = (!self.remove).then(|| self.entry(globals)).transpose()?;
        let tables = self.client.tables();
        let found = match self.client.format() {
            Format::Json => json::get(text, tables, &self.name),
            Format::Toml => toml::get(text, tables, &self.name),
        };
        let found = found.map_err(|problem| not_understood(&path, &problem, tables, &self.name, entry.as_ref()))?;
        if let (Some(found), Some(_)) = (&found, &entry)
            && ADDRESSES.iter().any(|key| found.get(key).is_some())
        {
            return Err(self.is_reached_otherwise(&path));
        }
        let changed = match (self.client.format(), &entry) {
            (Format::Json, Some(entry)) => json::set(text, tables, &self.name, entry),
            (Format::Json, None) => json::remove(text, tables, &self.name),
            (Format::Toml, Some(entry)) => toml::set(text, tables, &self.name, entry),
            (Format::Toml, None) => toml::remove(text, tables, &self.name),
        };
        let new = changed.map_err(|problem| not_understood(&path, &problem, tables, &self.name, entry.as_ref()))?;
        let mode = if self.project { SHARED_FILE } else { OWN_FILE };
        let place = format!("{tables}.{}", self.name);
        let shown = shown::change(&path, &place, found.as_ref(), entry.as_ref());
        Ok(Change {
            path,
            old,
            new,
            shown,
            mode,
        })
    }

    /// One that is reached at an address is nothing that setup wrote, and with a command as well it would be neither.
    fn is_reached_otherwise(&self, path: &Path) -> Failure {
        Failure::Usage(format!(
            "`{}` in {} is a server that is reached at an address, so it was not touched: --remove takes it out, --name NAME puts \
             another one beside it",
            self.name,
            path.display()
        ))
    }

    fn entry(&self, globals: &Globals) -> Result<Map<String, Value>, Failure> {
        let mut arguments = vec!["mcp".to_owned()];
        arguments.extend(globals.for_others()?);
        let workspace = match self.workspace.as_deref() {
            Some(folder) if folder == "." || folder.contains('/') => Some(absolute(folder)?),
            Some(name) => Some(name.to_owned()),
            None if globals.server.is_none() => self.client.own_folder().map(str::to_owned),
            None => None,
        };
        for (option, value) in [("--workspace", workspace), ("--agent", self.agent.clone())] {
            arguments.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        Ok(self.client.entry(&self.program()?, &arguments, &self.name))
    }

    /// What others of the project have elsewhere is found by its name.
    fn program(&self) -> Result<String, Failure> {
        if self.project {
            return Ok("toolgate".to_owned());
        }
        let program = std::env::current_exe().map_err(|source| Failure::Read {
            path: "/proc/self/exe".into(),
            source,
        })?;
        text_of(&program)
    }

    fn report(&self, terminal: &Terminal, change: &Change, diff: &str, written: bool) -> Result<(), Failure> {
        if !terminal.json {
            return Ok(());
        }
        let client = self.client.to_string();
        terminal.record(&json!({"client": client, "file": change.path, "diff": diff, "written": written}))
    }
}

fn entry_name(text: &str) -> Result<String, String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if text.is_empty() || !text.chars().all(fits) {
        return Err("a name has letters, digits, `-` and `_`: not every client takes others".to_owned());
    }
    Ok(text.to_owned())
}

fn absolute(folder: &str) -> Result<String, Failure> {
    let path = fs::canonicalize(folder).map_err(|source| Failure::Read {
        path: folder.into(),
        source,
    })?;
    text_of(&path)
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::Usage(format!("{} is not UTF-8: the clients' files are", path.display())))
}

fn not_understood(path: &Path, problem: &str, tables: &str, name: &str, entry: Option<&Map<String, Value>>) -> Failure {
    let path = path.display();
    let by_hand = match entry {
        Some(entry) => format!("put this there yourself, as `{name}` in `{tables}`: {}", json!(entry)),
        None => format!("take `{name}` out of `{tables}` yourself"),
    };
    Failure::Configuration(format!(
        "{path} cannot be understood, so it was not touched: {problem}. Correct it, or {by_hand}"
    ))
}

fn painted(terminal: &Terminal, diff: &str) -> String {
    let lines = diff.lines().map(|line| {
        let line = visible(line);
        match line.chars().next() {
            Some('+') => terminal.out.text(Look::Green, &line),
            Some('-') => terminal.out.text(Look::Red, &line),
            _ => line.into_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_every_client_takes() {
        for name in ["toolgate", "tool-gate_2"] {
            assert_eq!(entry_name(name).as_deref(), Ok(name));
        }
        for name in ["", "a.b", "a b", "ä"] {
            assert!(entry_name(name).is_err(), "{name}");
        }
    }
}
