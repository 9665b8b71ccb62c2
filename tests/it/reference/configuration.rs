//! The page about configuration has every key, and the chart knows every key that it does not set itself. The tables of keys
//! stand between two marks and are written by this test; people write the rest.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::{Value, json};
use toolgate_config::service::{KEYS, Key, MAX_COUNT, Shape};
use toolgate_config::{Config, Environment, RawConfig};

use super::{compare, read};

const PAGE: &str = "docs/reference/configuration.md";

/// The keys of these parts have a page of their own.
const ELSEWHERE: &str = "limits.";

/// The keys, and the parts, that the chart sets from other values, or that a list of tables could not be given for: a variable
/// does. The chart has no gateway.
const SET_BY_CHART: [&str; 12] = [
    "data_dir",
    "workspaces",
    "workspace_roots",
    "created_workspaces.",
    "tenants",
    "listen.",
    "auth.",
    "cluster.",
    "telemetry.",
    "audit.key_file",
    "search.key_file",
    "redact.files",
];

/// Returns every key with its default. What differs from machine to machine stands for itself.
fn defaults() -> BTreeMap<String, String> {
    let environment = Environment::new([("HOME".to_owned(), "/home/user".to_owned())], "/home/user/here");
    let config = Config::load(None, RawConfig::default(), &environment).unwrap();
    let settings = config.explain().iter();
    let defaults = settings.map(|setting| {
        let value = setting.value.replace("/home/user/here", ".").replace("/home/user", "~");
        let value = match setting.key.as_str() {
            "sandbox.caches" => "see `toolgate config`".to_owned(),
            _ => format!("`{value}`"),
        };
        (setting.key.clone(), value)
    });
    defaults.collect()
}

fn is_one_of(key: &Key, names: &[&str]) -> bool {
    let is = |name: &&str| key.path == *name || (name.ends_with('.') && key.path.starts_with(*name));
    names.iter().any(is)
}

#[test]
fn the_page_of_configuration_has_every_key() {
    let defaults = defaults();
    let known: Vec<&str> = KEYS.iter().map(|key| key.path).collect();
    assert!(known.iter().all(|key| defaults.contains_key(*key)) && known.len() == defaults.len());
    let page = read(PAGE);
    let part = Regex::new(r"(?s)<!-- keys: ([^>]+) -->\n.*?<!-- end -->").unwrap();
    let mut documented = BTreeSet::new();
    let written = part.replace_all(&page, |part: &regex::Captures<'_>| {
        let names: Vec<&str> = part[1].split(' ').collect();
        let mut table = String::from("| key | default | meaning |\n|---|---|---|\n");
        for key in KEYS.iter().filter(|key| is_one_of(key, &names)) {
            assert!(documented.insert(key.path), "{} is there twice", key.path);
            let (default, meaning) = (&defaults[key.path], key.doc.trim());
            table.push_str(&format!("| `{}` | {default} | {meaning} |\n", key.path));
        }
        format!("<!-- keys: {} -->\n{table}<!-- end -->", &part[1])
    });
    let missing = KEYS
        .iter()
        .filter(|key| !is_one_of(key, &[ELSEWHERE]) && !documented.contains(key.path));
    let missing: Vec<&str> = missing.map(|key| key.path).collect();
    assert!(missing.is_empty(), "no table of {PAGE} names {missing:?}");
    compare(PAGE, &written);
}

#[test]
fn flags_that_keys_name_are_those_of_serve() {
    let page = read("docs/reference/cli.md");
    let flag = Regex::new(r"`(--[a-z-]+)`").unwrap();
    let named: Vec<&str> = KEYS
        .iter()
        .flat_map(|key| flag.find_iter(key.doc))
        .map(|found| found.as_str())
        .collect();
    assert!(named.len() >= 9, "{named:?}");
    for name in named {
        let name = name.trim_matches('`');
        assert!(
            page.contains(&format!("{name} ")) || page.contains(&format!("{name}\n")),
            "{name}"
        );
    }
}

/// Returns the schema of the values of a key, as far as its shape says it.
fn schema(shape: &Shape) -> Value {
    match shape {
        Shape::Switch => json!({"type": "boolean"}),
        Shape::Text => json!({"type": "string"}),
        Shape::Texts => json!({"$ref": "#/definitions/strings"}),
        Shape::Duration => json!({"$ref": "#/definitions/duration"}),
        Shape::DurationOrNone => json!({"$ref": "#/definitions/durationOrNone"}),
        Shape::Size => json!({"$ref": "#/definitions/size"}),
        Shape::Count(least) => json!({"type": "integer", "minimum": least, "maximum": MAX_COUNT}),
        Shape::Word(words) => json!({"type": "string", "enum": words}),
        Shape::Tables => json!({"type": "object"}),
    }
}

/// Collects the schemas of keys, by the keys' whole names.
fn collect<'a>(schema: &'a Value, before: &str, found: &mut BTreeMap<String, &'a Value>) {
    for (name, schema) in schema["properties"].as_object().unwrap() {
        let name = format!("{before}{name}");
        match schema.get("properties") {
            Some(_) => collect(schema, &format!("{name}."), found),
            None => assert!(found.insert(name, schema).is_none()),
        }
    }
}

#[test]
fn the_chart_knows_every_key_that_it_does_not_set() {
    let chart: Value = serde_json::from_str(&read("helm/toolgate/values.schema.json")).unwrap();
    let mut found = BTreeMap::new();
    collect(&chart["properties"]["config"], "", &mut found);
    let expected: BTreeMap<&str, &Key> = KEYS
        .iter()
        .filter(|key| !is_one_of(key, &SET_BY_CHART))
        .map(|key| (key.path, key))
        .collect();
    let names: Vec<&str> = expected.keys().copied().collect();
    assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), names);
    for (name, key) in expected {
        let found = found[name];
        // A definition that several parts share counts as what it says.
        let target = found["$ref"]
            .as_str()
            .and_then(|path| chart.pointer(path.trim_start_matches('#')));
        let expected = schema(&(key.shape)());
        // The chart may say more of a value, such as a pattern.
        for (word, value) in expected.as_object().unwrap() {
            let says = |schema: &Value| schema.get(word) == Some(value);
            assert!(
                says(found) || target.is_some_and(says),
                "{name}: {word} is not {value} in {found}"
            );
        }
    }
}
