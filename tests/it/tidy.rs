//! What a reviewer would say twice about the source tree.
//!
//! *Invariant:* reads the tree only; each finding names file and line and what to do.

mod citations;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

const MOST_LINES: usize = 620;

/// Files that are longer than [`MOST_LINES`] for a reason, and how long they may grow.
const LONG: &[(&str, usize, &str)] = &[
    (
        "crates/process/src/sys.rs",
        700,
        "nearly all unsafe code is in one place",
    ),
    (
        "crates/process/src/reaper.rs",
        750,
        "one thread and what it shares: whom it ends and why",
    ),
    (
        "tests/it/calls.rs",
        750,
        "one theme: what every RPC answers to good and bad requests",
    ),
    ("tests/it/prompts.rs", 800, "one theme: what a prompt promises"),
];

/// Where the texts are that people write.
const TEXTS: &[&str] = &[
    "crates",
    "src",
    "tests",
    "proto",
    ".ci",
    "build.rs",
    "Cargo.toml",
    "Makefile",
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "deny.toml",
    ".clippy.toml",
    "rustfmt.toml",
    ".gitignore",
    "clients",
    "docs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file under a path of the repository, by its path from there, in order; without what npm installs.
fn files(under: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::from(under)];
    while let Some(path) = left.pop() {
        let full = root().join(&path);
        if path.ends_with("node_modules") {
            continue;
        }
        if full.is_dir() {
            left.extend(
                fs::read_dir(full)
                    .unwrap()
                    .map(|entry| path.join(entry.unwrap().file_name())),
            );
        } else if full.is_file() {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

fn rust_files(under: &str) -> Vec<String> {
    files(under).into_iter().filter(|file| file.ends_with(".rs")).collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn report(findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

/// The sources of the program.
fn sources() -> Vec<String> {
    [rust_files("src"), rust_files("crates")].concat()
}

/// The sources of the program with their lines of code outside tests: number and text.
fn code() -> BTreeMap<String, Vec<(usize, String)>> {
    let test_module = Regex::new(r"#\[cfg\(test\)\]\s*(?:pub(?:\(crate\))? )?mod (\w+);").unwrap();
    let texts: BTreeMap<String, String> = sources().into_iter().map(|file| (file.clone(), read(&file))).collect();
    let of_tests: Vec<String> = texts
        .iter()
        .flat_map(|(file, text)| {
            let folder = file
                .trim_end_matches("/mod.rs")
                .trim_end_matches("/lib.rs")
                .trim_end_matches("/main.rs")
                .trim_end_matches(".rs");
            test_module
                .captures_iter(text)
                .map(move |found| format!("{folder}/{}.rs", &found[1]))
        })
        .collect();
    texts
        .into_iter()
        .filter(|(file, _)| !of_tests.contains(file))
        .map(|(file, text)| {
            let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
            let lines = text[..end].lines().enumerate();
            let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
            (file, code.map(|(at, line)| (at + 1, line.to_owned())).collect())
        })
        .collect()
}

#[test]
fn tools_do_not_know_each_other() {
    const TOOLS: &str = "crates/tools/src/";
    let sibling = Regex::new(r"\b(?:crate|super)::(\w+)").unwrap();
    let mut findings = Vec::new();
    for (file, lines) in code() {
        // What is in a folder belongs to the tool beside it, and `super` is that tool's own file.
        let Some(tool) = file.strip_prefix(TOOLS).filter(|file| !file.contains('/')) else {
            continue;
        };
        for (at, line) in lines {
            let others = sibling
                .captures_iter(&line)
                .filter(|found| !["skills", "ports"].contains(&&found[1]));
            if tool != "lib.rs" && others.count() > 0 {
                findings.push(format!("{file}:{at}: what two tools share moves down a layer"));
            }
        }
    }
    report(&findings);
}

#[test]
fn every_file_says_what_lives_in_it() {
    let files = sources().into_iter().chain(rust_files("tests"));
    let mute = files.filter(|file| !read(file).starts_with("//! "));
    report(
        &mute
            .map(|file| format!("{file}: begin with `//!` lines"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_test_file_is_compiled() {
    let main = read("tests/it/main.rs");
    let mut findings = Vec::new();
    for file in rust_files("tests/it") {
        let name = file.strip_prefix("tests/it/").unwrap().trim_end_matches(".rs");
        let (list, name) = match name.split_once('/') {
            Some((theme, name)) => (read(&format!("tests/it/{theme}.rs")), name),
            None => (main.clone(), name),
        };
        if name != "main"
            && !list
                .lines()
                .any(|line| line.trim_end().trim_start_matches("pub(crate) ") == format!("mod {name};"))
        {
            findings.push(format!("{file}: no `mod {name};` above it, so its tests never run"));
        }
    }
    report(&findings);
}

#[test]
fn files_are_short_or_say_why_not() {
    let mut findings = Vec::new();
    for file in sources().into_iter().chain(rust_files("tests")) {
        let lines = read(&file).lines().count();
        let long = LONG.iter().find(|(name, ..)| *name == file);
        let most = long.map_or(MOST_LINES, |(_, most, _)| *most);
        if lines > most {
            findings.push(format!("{file}: {lines} lines, more than {most}: look for a seam"));
        }
        if long.is_some() && lines <= MOST_LINES {
            findings.push(format!("{file}: no longer long; take it out of LONG"));
        }
    }
    report(&findings);
}

#[test]
fn no_file_names_one_machine() {
    // In halves, since this file is looked at too.
    let places = [
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("/Us", "ers/"),
        ("/tmp/", "bash_jobs"),
        ("/mn", "t/"),
    ];
    let places = places.map(|(start, end)| format!("{start}{end}"));
    let mut findings = Vec::new();
    let texts = TEXTS.iter().flat_map(|text| files(text));
    // Maven builds in the folder of its project.
    for file in texts.filter(|file| !file.contains("/target/")) {
        let Ok(text) = fs::read_to_string(root().join(&file)) else {
            continue;
        };
        for (at, line) in text.lines().enumerate() {
            let place = places.iter().find(|place| line.contains(place.as_str()));
            findings.extend(place.map(|place| format!("{file}:{}: {place} is a place of one machine", at + 1)));
        }
    }
    report(&findings);
}
