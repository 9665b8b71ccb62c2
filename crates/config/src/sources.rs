//! Where the values of the tools' configuration come from, and what stays of files that are gone.

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;
use toolgate_model::JsonMap;
use toolgate_permission::agents;

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

/// Returns what a layer says that may hold something back: of rules and agents, which tools and how many tasks subagents may
/// have, and which servers of tools are switched off.
fn of_rules(value: &JsonMap) -> JsonMap {
    let mut kept = value.clone();
    let keep = |part: &mut Value, is_kept: &dyn Fn(&str, &Value) -> bool| {
        let Value::Object(map) = part else { return false };
        map.retain(|key, value| is_kept(key, value));
        !map.is_empty()
    };
    kept.retain(|key, part| match key.as_str() {
        "permission" | "agent" | "tools" | "subagent_depth" => true,
        "experimental" => keep(part, &|key, _| key == "primary_tools"),
        "mcp" => keep(part, &|_, server| server.get("enabled") == Some(&Value::Bool(false))),
        _ => false,
    });
    kept
}

/// Says whether a layer has rules for a permission, for all agents or for one.
pub(super) fn has_rules_for(layer: &Layer, permission: &str) -> bool {
    let agents = layer
        .value
        .get("agent")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let of_agents = agents.filter_map(|(_, agent)| agent.get("permission"));
    let mut blocks = layer.value.get("permission").into_iter().chain(of_agents);
    blocks.any(|block| block.get(permission).is_some())
}

/// Puts back what files said of rules and agents that were read `before` and are gone now, each where it was. Returns these
/// files.
pub(super) fn keep_rules(layers: &mut Vec<Layer>, before: &[Layer]) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    for (at, layer) in before.iter().enumerate() {
        let Origin::File(path) = &layer.origin else { continue };
        let is_there = layers.iter().any(|there| there.origin == layer.origin);
        let value = of_rules(&layer.value);
        if is_there || value.is_empty() {
            continue;
        }
        // A file that came meanwhile may be the same one under another name.
        let others = layers
            .iter()
            .filter(|there| before.iter().any(|old| old.origin == there.origin));
        if holds_nothing_back(&value, others) {
            continue;
        }
        let back = Layer {
            value,
            shown: of_rules(&layer.shown),
            ..layer.clone()
        };
        let mut weaker = before[..at].iter().rev();
        let after = weaker.find_map(|weaker| layers.iter().position(|there| there.origin == weaker.origin));
        layers.insert(after.map_or(0, |after| after + 1), back);
        kept.push(path.clone());
    }
    kept
}

/// Says whether what a layer says only brings agents of its own: without it, nobody can be one of them.
fn holds_nothing_back<'l>(value: &JsonMap, others: impl Iterator<Item = &'l Layer>) -> bool {
    let of_others: Vec<&JsonMap> = others
        .filter_map(|layer| layer.value.get("agent")?.as_object())
        .collect();
    let is_needed = |name: &String| {
        agents::BUILT_IN.contains(&name.as_str()) || of_others.iter().any(|agents| agents.contains_key(name))
    };
    let own = value.get("agent").and_then(Value::as_object);
    value.keys().all(|key| key == "agent") && !own.is_some_and(|agents| agents.keys().any(is_needed))
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
