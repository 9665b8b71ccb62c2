//! Placeholders: `${workspace}`, `${outside}`, `${home}`, `${http}`, `${output_path}`.
//!
//! *Invariant:* pure. Only known names are replaced; `${…}` of a shell command stays.

use serde_json::{Map, Value};

/// Names and what they stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vars(Vec<(&'static str, String)>);

impl Vars {
    /// Gives a name its value, a new one if it had one.
    pub(crate) fn set(&mut self, name: &'static str, value: String) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value));
    }

    /// Forgets a name.
    pub(crate) fn unset(&mut self, name: &'static str) {
        self.0.retain(|(known, _)| *known != name);
    }

    /// Replaces the placeholders of a text.
    pub(crate) fn text(&self, text: &str) -> String {
        self.replace(text, str::to_owned)
    }

    /// Replaces the placeholders of a regular expression by what matches exactly their value.
    pub(crate) fn pattern(&self, pattern: &str) -> String {
        self.replace(pattern, regex::escape)
    }

    /// Replaces the placeholders of every text in a value, keys included.
    pub(crate) fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.json(item)).collect()),
            Value::Object(object) => Value::Object(self.object(object)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Replaces the placeholders of every text in an object, keys included.
    pub(crate) fn object(&self, object: &Map<String, Value>) -> Map<String, Value> {
        let pairs = object.iter().map(|(key, value)| (self.text(key), self.json(value)));
        pairs.collect()
    }

    fn replace(&self, text: &str, written: impl Fn(&str) -> String) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.0 {
            text = text.replace(&format!("${{{name}}}"), &written(value));
        }
        text
    }
}
