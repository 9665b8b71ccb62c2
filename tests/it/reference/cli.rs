//! The page about the command line is what the program prints of itself.

use std::process::Command;

use super::compare;

/// Where the help of every command repeats the options that all have.
const COMMON: &str = "\nOptions of every command:\n";

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
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that a help names.
fn commands(help: &str) -> Vec<&str> {
    let list = help.split_once("\nCommands:\n").map_or("", |(_, list)| list);
    let lines = list.lines().take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// Takes the options of every command out of a help, up to the next part that begins at the margin.
fn without_common(help: &str) -> String {
    let Some((before, common)) = help.split_once(COMMON) else {
        return help.to_owned();
    };
    let after = common.find("\n\n").and_then(|_| {
        let lines = common
            .lines()
            .position(|line| !line.is_empty() && !line.starts_with(' '))?;
        Some(common.lines().skip(lines).collect::<Vec<_>>().join("\n"))
    });
    match after {
        Some(after) => format!("{before}\n{after}"),
        None => before.to_owned(),
    }
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
