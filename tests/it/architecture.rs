//! What ARCHITECTURE.md says of the source tree, held against the tree.
//!
//! *Invariant:* reads files and asks cargo; starts nothing else. The modules of a crate are told from its text: a path that begins
//! with `crate`, `self`, `super` or a child module leads to the file that defines the name, re-exports followed.

mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use self::modules::Modules;

/// Files that all use each other can only be read together.
const MAX_CIRCLE: usize = 3;

/// Lines of code without tests and comments, as `tests/lines.sh` counts them. Lower it when code goes. Raised for what calls
/// touch and would ask, the list of sessions, more filters, what the commands say of misspelt words, terminals, the files that
/// front ends show, change and watch, workspaces that come and go, ports that commands listen on, a gateway before several
/// services with its doors for what is no gRPC, workers that register themselves there, what the Rust library and the commands do
/// with all that, what is told of changes: the outbox, its sequencer, and who hears of other processes, a second store, on
/// PostgreSQL, the gateways that answer from it for workers that keep nothing, what bounds those workers, also over time, and tells of
/// outages and of what is lost, workspaces that clients create, workers that wait in a pool, what gateways keep of workspaces that
/// somebody makes for them, pods that a cluster is asked for, what SDKs of such pods speak, MCP clients without sessions, what MCP
/// servers ask and have beside tools, logins of MCP servers, the settings of MCP clients, what plugins make of a configuration, hear and
/// ask, editors with agents of others, between which a command stands, rules to begin with, what a service and its commands say first,
/// the screen of the approver in the terminal, and what small calls cost, counted and measured.
const MAX_LINES: usize = 136_500;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The crates of the repository, the program first, and the folders of their sources.
fn crates() -> Vec<(String, PathBuf)> {
    let package = |package: &Value| {
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        (package["name"].as_str().unwrap().to_owned(), folder.join("src"))
    };
    metadata()["packages"].as_array().unwrap().iter().map(package).collect()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Which crates of the repository each of them uses, without what only its tests use.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeSet<&str> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let uses = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        dependencies
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().unwrap())
            .filter(|name| names.contains(name))
            .map(short)
            .collect()
    };
    packages
        .iter()
        .map(|package| (short(package["name"].as_str().unwrap()), uses(package)))
        .collect()
}

/// A crate's name as the table has it.
fn short(name: &str) -> String {
    name.trim_start_matches("toolgate-").to_owned()
}

/// The rows of the table of crates in ARCHITECTURE.md: a crate and whom it uses.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, table) = text.split_once("\n## Crates\n").expect("a section of crates");
    let table = table.split("\n## ").next().unwrap();
    let names = |cell: &str| {
        let names = cell.split(',').map(|name| name.trim().trim_matches('`'));
        names
            .filter(|name| !["", "nothing"].contains(name))
            .map(str::to_owned)
            .collect()
    };
    table
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let cells: Vec<&str> = row.trim_end_matches('|').split('|').collect();
            (cells[0].trim().trim_end_matches('`').to_owned(), names(cells[2]))
        })
        .collect()
}

#[test]
fn crates_use_each_other_as_the_table_says() {
    let (graph, table) = (graph(), table());
    for (name, uses) in &graph {
        let row = table
            .get(name)
            .unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for `{name}`"));
        assert_eq!(
            uses, row,
            "left: what Cargo.toml of `{name}` says; right: what ARCHITECTURE.md says"
        );
    }
    let gone: Vec<_> = table.keys().filter(|name| !graph.contains_key(*name)).collect();
    assert!(
        gone.is_empty(),
        "ARCHITECTURE.md has rows for crates that are not there: {gone:?}"
    );
}

#[test]
fn no_more_than_three_files_of_a_crate_use_each_other_in_a_circle() {
    let mut findings = Vec::new();
    for (name, source) in crates() {
        let circles = Modules::read(&source).circles();
        let long = circles.into_iter().filter(|circle| circle.len() > MAX_CIRCLE);
        findings.extend(long.map(|circle| format!("{name}: {}", circle.join(", "))));
    }
    assert!(
        findings.is_empty(),
        "files that all use each other; move what they share to a file below them:\n{}",
        findings.join("\n")
    );
}

#[test]
fn the_engine_is_implemented_in_at_most_two_files() {
    let source = root().join("crates/engine/src");
    let files = modules::rust_files(&source);
    let has_impl = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.lines().any(|line| line.starts_with("impl Engine "))
    };
    let found: Vec<_> = files.into_iter().filter(has_impl).collect();
    assert!((1..=2).contains(&found.len()), "`impl Engine` stands in {found:?}");
}

/// A worker runs what a model wrote: its store has no database, and nothing to reach one with.
#[test]
fn the_store_of_a_worker_has_no_database() {
    let folder = root().join("crates/ledger");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let used = manifest.split("[dev-dependencies]").next().unwrap();
    let mut texts = vec![("Cargo.toml".to_owned(), used.to_owned())];
    for file in modules::rust_files(&folder.join("src")) {
        texts.push((file.display().to_string(), fs::read_to_string(&file).unwrap()));
    }
    for (file, text) in texts {
        for word in ["rusqlite", "postgres", "LocalStore"] {
            assert!(!text.contains(word), "{file} says {word}");
        }
    }
}

#[test]
fn the_code_stays_small() {
    let output = Command::new("bash")
        .arg(root().join("tests/lines.sh"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let total = text.lines().last().and_then(|line| line.split_whitespace().next());
    let total: usize = total.expect("a sum").parse().unwrap();
    assert!(
        (MAX_LINES / 2..=MAX_LINES).contains(&total),
        "{MAX_LINES} lines at most; make code go, or say in MAX_LINES why it grows:\n{text}"
    );
}
