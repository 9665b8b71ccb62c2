//! The reference pages say what the program says: every key of the configuration with its default, every metric, every
//! command with its options, every built-in tool with its arguments.
//!
//! `docs/reference/performance.md` is written by the benchmark; its rows are compared.
//!
//! `docs/reference/cli.md` and parts of `docs/reference/configuration.md` and `docs/reference/tools.md` are written by these
//! tests. After a change of the program, `TOOLGATE_UPDATE_DOCS=1 cargo test --test it reference::` writes them anew.
//!
//! *Invariant:* without that variable nothing is written.

mod cli;
mod configuration;
mod performance;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The variable that has pages written instead of compared.
const UPDATE: &str = "TOOLGATE_UPDATE_DOCS";

fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(place(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Holds a page against what it should be, or writes it.
fn compare(page: &str, expected: &str) {
    if std::env::var_os(UPDATE).is_some() {
        fs::write(place(page), expected).unwrap();
        return;
    }
    let found = fs::read_to_string(place(page)).unwrap_or_default();
    let differs = found
        .lines()
        .zip(expected.lines())
        .position(|(found, expected)| found != expected);
    let line = differs.unwrap_or_else(|| found.lines().count().min(expected.lines().count()));
    assert!(
        found == expected,
        "{page}:{}: the program says otherwise:\n  page:    {:?}\n  program: {:?}\nWrite the page anew with {UPDATE}=1.",
        line + 1,
        found.lines().nth(line),
        expected.lines().nth(line),
    );
}

/// The first cells of a page's tables, as far as they are one word in code, with the other cells.
fn rows(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        let key = cells.next().unwrap();
        let key = key.trim_matches('`').to_owned();
        assert!(!key.contains('`'), "a row for each: {line}");
        assert!(
            rows.insert(key.clone(), cells.collect()).is_none(),
            "{key} is there twice"
        );
    }
    rows
}

#[test]
fn every_metric_is_documented_with_its_labels() {
    // The list that the dashboard and the alerts are held against.
    let list = read("tests/chart/metrics.txt") + &read("tests/chart/gateway-metrics.txt");
    let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap();
        let name = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        let labels = words.filter(|label| *label != "le").map(str::to_owned);
        expected.entry(name.to_owned()).or_default().extend(labels);
    }
    let documented: BTreeMap<String, BTreeSet<String>> = rows(&read("docs/reference/metrics.md"))
        .into_iter()
        .map(|(name, cells)| {
            let labels = cells[0].split(", ").filter(|label| !label.is_empty());
            (name, labels.map(|label| label.trim_matches('`').to_owned()).collect())
        })
        .collect();
    assert_eq!(documented, expected);
}
