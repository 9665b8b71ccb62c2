//! The table of limits: every key of the configuration stands in it, and in the chart.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use toolgate::config::{Config, Environment, RawConfig};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Every key of `limits`, with its default.
fn keys() -> Vec<(String, String)> {
    let environment = Environment::new([("HOME".to_owned(), "/nowhere".to_owned())], "/nowhere");
    let config = Config::load(None, RawConfig::default(), &environment).unwrap();
    let settings = config.explain().iter();
    let limits = settings.filter_map(|setting| Some((setting.key.strip_prefix("limits.")?, &setting.value)));
    limits.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

#[test]
fn every_limit_is_documented_with_its_default() {
    let text = read("docs/limits.md");
    for (key, default) in keys() {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("{key} is not in the table"));
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[2], default, "the default of {key}");
        assert!(
            cells.len() >= 6 && cells[3..=4].iter().all(|cell| !cell.is_empty()),
            "{row}"
        );
    }
}

#[test]
fn the_chart_knows_every_limit() {
    let schema: Value = serde_json::from_str(&read("helm/toolgate/values.schema.json")).unwrap();
    let known = &schema["properties"]["config"]["properties"]["limits"]["properties"];
    let known: BTreeSet<String> = known.as_object().unwrap().keys().cloned().collect();
    let keys: BTreeSet<String> = keys().into_iter().map(|(key, _)| key).collect();
    assert_eq!(known, keys);
}
