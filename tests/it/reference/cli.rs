//! The page about the command line is what the program prints of itself.

use std::process::{Command, Stdio};

use super::compare;

/// Where the help of a command repeats the options that all have, or all that talk to a server.
const COMMON: [&str; 2] = ["Options of every command:", "The server:"];

const HEAD: &str = "\
# Command line

<!-- Written by `TOOLGATE_UPDATE_DOCS=1 cargo test --test it reference::`, and compared by the tests. -->

What `toolgate COMMAND --help` prints. The options that every command has are shown [once](#toolgate).
";

/// Returns what a command prints of itself.
fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(words)
        .arg("--help")
        .env_clear()
        .env("HOME", "/nowhere")
        // As wide as help ever is, whatever the terminal of the tests is.
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that a help names: those of the program are in groups.
fn commands(help: &str) -> Vec<&str> {
    let before_options = help.split("\nOptions").next().unwrap_or_default();
    let list = match before_options.split_once("\nCommands:\n") {
        Some((_, list)) => list,
        None if help.contains("\nUsage: toolgate [OPTIONS] <COMMAND>\n") => {
            before_options.split_once("<COMMAND>").unwrap().1
        }
        None => "",
    };
    // What is indented further goes on from the line above.
    let lines = list.lines().filter_map(|line| line.strip_prefix("  "));
    lines
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// Takes the options that are told once out of a help.
fn without_common(help: &str) -> String {
    let mut is_common = false;
    let lines = help.lines().filter(|line| {
        if !line.is_empty() && !line.starts_with(' ') {
            is_common = COMMON.contains(line);
        }
        !is_common
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Adds a command, and those below it.
fn section(page: &mut String, words: &[&str]) {
    let help = help(words);
    let level = if words.len() > 1 { "###" } else { "##" };
    let name: Vec<&str> = ["toolgate"].iter().chain(words).copied().collect();
    let shown = if words.is_empty() {
        help.clone()
    } else {
        without_common(&help)
    };
    let lines: Vec<&str> = shown.trim().lines().map(str::trim_end).collect();
    *page += &format!("\n{level} {}\n\n```text\n{}\n```\n", name.join(" "), lines.join("\n"));
    for command in commands(&help) {
        let words: Vec<&str> = words.iter().copied().chain([command]).collect();
        section(page, &words);
    }
}

#[test]
fn the_page_of_commands_is_what_they_print() {
    let mut page = HEAD.to_owned();
    section(&mut page, &[]);
    compare("docs/reference/cli.md", &page);
}
