//! Where the values of the tools' configuration come from.

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;
use toolgate_model::JsonMap;

use super::jsonc::escape;
use super::merge;

/// What a layer of configuration was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// A variable of the environment.
    Variable(&'static str),
    /// The old key `tools`, which becomes permissions.
    OldTools,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::OldTools => f.write_str("the old key \"tools\""),
        }
    }
}

/// One layer, in the one form that `checks` makes.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) origin: Origin,
    /// Whether the project brought it, and not the user who runs the service.
    pub(super) of_project: bool,
    pub(super) value: JsonMap,
    /// The value as it may be shown: without what was inserted, and without secrets.
    pub(super) shown: JsonMap,
}

/// One value in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf<'a> {
    /// Where it is, as a JSON pointer.
    pub pointer: String,
    /// The value: no object, unless an empty one.
    pub value: &'a Value,
    /// What it was read from: one origin, or all that added to a joined list.
    pub origins: Vec<&'a Origin>,
}

/// Returns every leaf of the merged value with its origin, in order.
pub(super) fn leaves<'a>(merged: &'a JsonMap, layers: &'a [Layer]) -> Vec<Leaf<'a>> {
    let mut found = Vec::new();
    for (key, value) in merged {
        let parts: Vec<_> = layers
            .iter()
            .filter_map(|layer| Some((&layer.origin, layer.shown.get(key)?)))
            .collect();
        let joined = merge::JOINED.contains(&key.as_str());
        walk(format!("/{}", escape(key)), value, &parts, joined, &mut found);
    }
    found
}

fn walk<'a>(
    pointer: String,
    value: &'a Value,
    parts: &[(&'a Origin, &'a Value)],
    joined: bool,
    found: &mut Vec<Leaf<'a>>,
) {
    if let Value::Object(map) = value
        && !map.is_empty()
    {
        for (key, value) in map {
            let parts = parts.iter();
            let parts: Vec<_> = parts
                .filter_map(|(origin, part)| Some((*origin, part.get(key)?)))
                .collect();
            walk(format!("{pointer}/{}", escape(key)), value, &parts, joined, found);
        }
        return;
    }
    let from = if joined { 0 } else { parts.len().saturating_sub(1) };
    let origins = parts[from..].iter().map(|(origin, _)| *origin).collect();
    found.push(Leaf {
        pointer,
        value,
        origins,
    });
}
