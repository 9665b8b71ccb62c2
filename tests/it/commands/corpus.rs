//! The lists of `tests/corpus`, which say in their first lines what they hold.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A way around permission rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Way {
    pub(super) name: String,
    pub(super) category: String,
    pub(super) command: String,
    pub(super) hides: String,
    pub(super) writes_outside: bool,
    pub(super) run: bool,
    #[serde(default)]
    pub(super) needs: Vec<String>,
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    pub(super) rules: Vec<String>,
}

pub(super) fn ways() -> Vec<Way> {
    let text = include_str!("../../corpus/bypasses.jsonc");
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let json: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    serde_json::from_str(&json.join("\n")).unwrap()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

pub(super) fn ordinary() -> Vec<String> {
    lines(include_str!("../../corpus/ordinary.txt"))
        .map(|line| line.replace("\\n", "\n"))
        .collect()
}

pub(super) fn grants() -> Vec<String> {
    lines(include_str!("../../corpus/grants.txt"))
        .map(str::to_owned)
        .collect()
}
