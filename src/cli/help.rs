//! How the commands are shown and read: in groups, wrapped to the terminal, with the options that apply.
//!
//! *Invariant:* what a command takes is said beside its arguments; here it is only said where common options have no meaning.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Error};

use super::terminal::width;

/// Help is not wider than this, however wide the terminal is: long lines are hard to read.
const WIDEST: usize = 100;

/// The commands by what they are for. What is not in the list comes last, as `More`.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Begin", &["init", "serve", "setup", "mcp", "acp"]),
    (
        "Calls",
        &[
            "call", "calls", "watch", "cancel", "send", "attach", "output", "revert", "tools",
        ],
    ),
    ("Approvals", &["approve", "grants"]),
    (
        "Workspaces",
        &[
            "files",
            "ports",
            "forward",
            "sessions",
            "session",
            "workspaces",
            "events",
        ],
    ),
    (
        "Operation",
        &[
            "gateway",
            "workers",
            "store",
            "audit",
            "config",
            "health",
            "install",
            "completions",
            "man",
        ],
    ),
    ("More", &[]),
];

/// Commands that talk to no running server.
const WITHOUT_SERVER: [&str; 8] = [
    "init",
    "serve",
    "gateway",
    "store",
    "config",
    "install",
    "completions",
    "man",
];

/// What says which server, and how to reach it.
const OF_SERVERS: [&str; 6] = ["server", "token", "token_file", "tls_ca", "cert", "key"];

/// Arranges the help of all commands.
pub(super) fn arranged(mut command: Command) -> Command {
    command = command.max_term_width(WIDEST);
    // From here on each command has the options that all have.
    command.build();
    let listed = list(&command, width().unwrap_or(WIDEST).min(WIDEST));
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}\n{{all-args}}{{after-help}}"
    );
    flowing(command)
        .mut_subcommands(|command| {
            let talks = !WITHOUT_SERVER.contains(&command.get_name());
            // They are in the groups.
            let command = command.hide(true);
            if talks { command } else { hidden(command) }
        })
        .override_usage("toolgate [OPTIONS] <COMMAND>")
        .help_template(template)
}

/// Has the paragraphs below the help of a command, and of those below it, broken where the terminal is narrow and nowhere else.
fn flowing(command: Command) -> Command {
    let text = command.get_after_help().map(|text| joined(&text.to_string()));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_subcommands(flowing)
}

/// Joins the lines of each paragraph of a text. A line that is indented is one by itself.
fn joined(text: &str) -> String {
    let is_running = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut joined = String::new();
    let mut before = "";
    for line in text.lines() {
        joined.push_str(if is_running(before) && is_running(line) {
            " "
        } else {
            "\n"
        });
        joined.push_str(line);
        before = line;
    }
    joined.trim_start_matches('\n').to_owned()
}

/// Hides the options that say which server is meant, in a command and in those below it.
fn hidden(command: Command) -> Command {
    let is_odd = |argument: &Arg| OF_SERVERS.iter().any(|id| argument.get_id() == *id);
    command
        .mut_args(|argument| {
            if is_odd(&argument) {
                argument.hide(true)
            } else {
                argument
            }
        })
        .mut_subcommands(hidden)
}

/// Refuses an option of the command line that cannot be used with its command.
pub(super) fn check(command: &mut Command, matches: &ArgMatches) -> Result<(), Error> {
    let Some((name, mut given)) = matches.subcommand() else {
        return Ok(());
    };
    if !WITHOUT_SERVER.contains(&name) {
        return Ok(());
    }
    while let Some((_, below)) = given.subcommand() {
        given = below;
    }
    let is_given = |id: &&&str| given.value_source(id) == Some(ValueSource::CommandLine);
    let Some(odd) = OF_SERVERS.iter().find(is_given) else {
        return Ok(());
    };
    let odd = odd.replace('_', "-");
    let text = format!("--{odd} cannot be used with `{name}`, which does not connect to a server");
    Err(command.error(ErrorKind::ArgumentConflict, text))
}

/// Returns the commands in their groups.
fn list(command: &Command, width: usize) -> String {
    let all: Vec<&Command> = command.get_subcommands().filter(|one| !one.is_hide_set()).collect();
    let longest = all.iter().map(|one| one.get_name().len()).max().unwrap_or(0);
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let named = names
            .iter()
            .filter_map(|name| all.iter().find(|one| one.get_name() == *name));
        let rest = all.iter().filter(|one| names.is_empty() && !is_grouped(one.get_name()));
        let members: Vec<&&Command> = named.chain(rest).collect();
        if members.is_empty() {
            continue;
        }
        text += &format!("{header}{heading}:{header:#}\n");
        for one in members {
            let name = one.get_name();
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            let indent = longest + 4;
            let about = wrapped(&about, width.saturating_sub(indent), indent);
            text += &format!(
                "  {literal}{name}{literal:#}{}  {about}\n",
                " ".repeat(longest - name.len())
            );
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// Breaks a text into lines of at most `width` characters, of which all but the first are indented.
fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() || line.chars().count() + 1 + word.chars().count() <= width {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn groups_name_commands_that_there_are() {
        let command = Cli::command();
        for name in GROUPS.iter().flat_map(|(_, names)| *names).chain(&WITHOUT_SERVER) {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
        for id in OF_SERVERS {
            assert!(command.get_arguments().any(|argument| argument.get_id() == id), "{id}");
        }
    }

    #[test]
    fn texts_are_wrapped() {
        assert_eq!(wrapped("one two three", 7, 2), "one two\n  three");
        assert_eq!(wrapped("longer than that", 3, 0), "longer\nthan\nthat");
        assert_eq!(wrapped("", 7, 2), "");
    }

    #[test]
    fn paragraphs_are_joined() {
        let text = "One\ntwo:\n  three\n  four\nfive\nsix\n\nseven";
        assert_eq!(joined(text), "One two:\n  three\n  four\nfive six\n\nseven");
    }

    #[test]
    fn options_without_meaning_are_refused() {
        let read = |words: &[&str]| {
            let mut command = arranged(Cli::command());
            let matches = command.try_get_matches_from_mut(words).unwrap();
            check(&mut command, &matches).map_err(|error| error.to_string())
        };
        assert!(read(&["toolgate", "--server", "http://127.0.0.1:1", "calls"]).is_ok());
        assert!(read(&["toolgate", "config"]).is_ok());
        let refused = read(&["toolgate", "config", "--server", "http://127.0.0.1:1"]).unwrap_err();
        assert!(refused.contains("--server cannot be used with `config`"), "{refused}");
        let refused = read(&["toolgate", "--token-file", "t", "serve"]).unwrap_err();
        assert!(
            refused.contains("--token-file cannot be used with `serve`"),
            "{refused}"
        );
    }
}
