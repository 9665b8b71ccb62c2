//! The lists of `tests/corpus`, which say in their first lines what they hold.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A way around permission rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    pub name: String,
    pub category: String,
    pub command: String,
    pub hides: String,
    pub writes_outside: bool,
    pub run: bool,
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    pub rules: Vec<String>,
}

pub fn ways() -> Vec<Way> {
    let text = include_str!("../../corpus/bypasses.jsonc");
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let json: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    serde_json::from_str(&json.join("\n")).unwrap()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

pub fn ordinary() -> Vec<String> {
    lines(include_str!("../../corpus/ordinary.txt"))
        .map(|line| line.replace("\\n", "\n"))
        .collect()
}

pub fn grants() -> Vec<String> {
    lines(include_str!("../../corpus/grants.txt"))
        .map(str::to_owned)
        .collect()
}
