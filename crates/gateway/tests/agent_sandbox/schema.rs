//! What the definitions of agent-sandbox allow.
//!
//! *Invariant:* as strict as a cluster that is asked for strictness: what a schema does not have is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

/// What each release has: it is much to read.
static READ: LazyLock<Mutex<BTreeMap<String, Arc<Schemas>>>> = LazyLock::new(Mutex::default);

/// The definitions of what is asked for.
const FILES: [&str; 2] = [
    "agents.x-k8s.io_sandboxes.yaml",
    "extensions.agents.x-k8s.io_sandboxclaims.yaml",
];

/// The definitions of one release: by the plural of a kind and its version.
pub(crate) struct Schemas(BTreeMap<(String, String), Validator>);

impl Schemas {
    pub(crate) fn of(release: &str) -> Arc<Self> {
        let mut read = READ.lock().unwrap();
        let schemas = read.entry(release.to_owned());
        schemas.or_insert_with(|| Arc::new(Self::read(release))).clone()
    }

    fn read(release: &str) -> Self {
        let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let folder = above.find_map(|folder| Some(folder.join("tests/chart/crds")).filter(|folder| folder.is_dir()));
        let folder = folder.unwrap().join(release);
        let mut all = BTreeMap::new();
        for file in FILES {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let definition: Value = serde_saphyr::from_str(&text).unwrap();
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
            for version in definition["spec"]["versions"].as_array().unwrap() {
                let mut schema = version["schema"]["openAPIV3Schema"].clone();
                close(&mut schema);
                let key = (plural.to_owned(), version["name"].as_str().unwrap().to_owned());
                all.insert(key, jsonschema::validator_for(&schema).unwrap());
            }
        }
        assert!(all.len() >= 2, "{release}");
        Self(all)
    }

    /// Returns what is wrong with an object, or nothing.
    pub(crate) fn problems(&self, plural: &str, version: &str, object: &Value) -> Vec<String> {
        let schema = &self.0[&(plural.to_owned(), version.to_owned())];
        let wrong = schema.iter_errors(object);
        let mut problems: Vec<String> = wrong
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        problems.extend(metadata_problems(&object["metadata"]));
        problems
    }
}

/// Has a schema refuse what it does not name.
fn close(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_open = fields.contains_key("x-kubernetes-preserve-unknown-fields");
    if fields.contains_key("properties") && !fields.contains_key("additionalProperties") && !is_open {
        fields.insert("additionalProperties".to_owned(), json!(false));
    }
    for key in ["properties", "items", "additionalProperties"] {
        match fields.get_mut(key) {
            Some(Value::Object(inner)) if key == "properties" => inner.values_mut().for_each(close),
            Some(inner) => close(inner),
            None => {}
        }
    }
}

/// The rules for names, labels and annotations, which are no part of the definitions.
fn metadata_problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&metadata["name"]);
    // That of a claim becomes that of a pod, a service and a label.
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = |c: char| c.is_ascii_alphanumeric();
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    if name.len() > 63 || !begins_well || !name.ends_with(ends) || !name.chars().all(is_name) {
        problems.push(format!("{name:?} is no name"));
    }
    let entries = |kind: &str| metadata[kind].as_object().cloned().unwrap_or_default();
    for (key, value) in entries("labels") {
        let value = text(&value);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_good = value.len() <= 63 && value.chars().all(plain);
        let has_ends = value.is_empty() || (value.starts_with(ends) && value.ends_with(ends));
        if !is_key(&key) || !is_good || !has_ends {
            problems.push(format!("the label {key}: {value}"));
        }
    }
    for (key, value) in entries("annotations") {
        if !is_key(&key) || !value.is_string() {
            problems.push(format!("the annotation {key}: {value}"));
        }
    }
    problems
}

fn is_key(key: &str) -> bool {
    let (domain, name) = key.split_once('/').unwrap_or(("", key));
    let of_domain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_named = (1..=63).contains(&name.len()) && name.chars().all(of_name);
    domain.len() <= 253 && domain.chars().all(of_domain) && is_named
}
