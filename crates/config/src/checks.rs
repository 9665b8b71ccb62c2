//! What one layer of the tools' configuration may say, and the one form that it is brought into.
//!
//! *Invariant:* only keys that this service uses are checked; all others are kept as they are. After [`normalise`] a
//! permission block is an object and an agent has neither `tools` nor `maxSteps`.

use serde_json::{Value, json};
use toolgate_model::JsonMap;
use toolgate_permission::rules::{self, ConfigProblem};

use super::jsonc::escape;

/// What a value must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Switch,
    Text,
    Number,
    /// An integer from 0.
    Count,
    /// An integer from 1.
    Positive,
    Word(&'static [&'static str]),
    Texts,
    TextMap,
    Object,
    /// An object, or a boolean that switches the whole part on or off.
    ObjectOrSwitch,
    /// An object, or `false`.
    ObjectOrFalse,
    /// Names, each alone or with its options.
    Plugins,
}

/// Every key that is checked here, as a path in which `*` is any name. Permission blocks and old `tools` maps are
/// checked where they are read, in `permission::rules`.
#[rustfmt::skip]
pub(super) const SHAPES: &[(&str, Shape)] = &[
    ("agent", Shape::Object), ("agent/*", Shape::Object), ("agent/*/color", Shape::Text),
    ("agent/*/description", Shape::Text), ("agent/*/disable", Shape::Switch), ("agent/*/hidden", Shape::Switch),
    ("agent/*/maxSteps", Shape::Positive), ("agent/*/mode", Shape::Word(&["subagent", "primary", "all"])),
    ("agent/*/model", Shape::Text), ("agent/*/options", Shape::Object), ("agent/*/prompt", Shape::Text),
    ("agent/*/steps", Shape::Positive), ("agent/*/temperature", Shape::Number), ("agent/*/tools", Shape::Object),
    ("agent/*/top_p", Shape::Number), ("experimental", Shape::Object), ("experimental/batch_tool", Shape::Switch),
    ("experimental/continue_loop_on_deny", Shape::Switch), ("experimental/mcp_timeout", Shape::Positive),
    ("experimental/primary_tools", Shape::Texts), ("instructions", Shape::Texts), ("lsp", Shape::ObjectOrSwitch),
    ("lsp/*", Shape::Object), ("lsp/*/command", Shape::Texts), ("lsp/*/disabled", Shape::Switch),
    ("lsp/*/env", Shape::TextMap), ("lsp/*/extensions", Shape::Texts), ("lsp/*/initialization", Shape::Object),
    ("mcp", Shape::Object), ("mcp/*", Shape::Object), ("mcp/*/command", Shape::Texts), ("mcp/*/cwd", Shape::Text),
    ("mcp/*/enabled", Shape::Switch), ("mcp/*/environment", Shape::TextMap), ("mcp/*/headers", Shape::TextMap),
    ("mcp/*/oauth", Shape::ObjectOrFalse), ("mcp/*/timeout", Shape::Positive),
    ("mcp/*/type", Shape::Word(&["local", "remote"])), ("mcp/*/url", Shape::Text), ("mode", Shape::Object),
    ("mode/*", Shape::Object), ("plugin", Shape::Plugins), ("provider", Shape::Object),
    ("provider/*/models/*/provider/npm", Shape::Text), ("provider/*/npm", Shape::Text), ("skills", Shape::Object),
    ("skills/paths", Shape::Texts), ("skills/urls", Shape::Texts), ("subagent_depth", Shape::Count),
    ("tool_output", Shape::Object), ("tool_output/max_bytes", Shape::Positive),
    ("tool_output/max_lines", Shape::Positive), ("tools", Shape::Object),
];

/// Top-level keys that belong to other parts of OpenCode.
#[rustfmt::skip]
pub(super) const FOREIGN: &[&str] = &[
    "$schema", "attachment", "autoshare", "autoupdate", "command", "compaction", "default_agent", "disabled_providers",
    "enabled_providers", "enterprise", "formatter", "keybinds", "layout", "logLevel", "model", "references", "server",
    "share", "shell", "small_model", "snapshot", "theme", "tui", "username", "watcher",
];

/// The keys of an agent that have a meaning; all others become its options.
#[rustfmt::skip]
pub(super) const AGENT_KEYS: &[&str] = &[
    "color", "description", "disable", "hidden", "mode", "model", "name", "options", "permission", "prompt", "steps",
    "temperature", "top_p", "variant",
];

/// Checks a layer and brings it into one form: permission words become blocks, the `tools` of agents become
/// permissions, `mode` entries become agents, unknown keys of agents become options.
///
/// # Errors
/// Everything that is wrong, each with its JSON pointer.
pub(super) fn normalise(mut layer: JsonMap) -> Result<JsonMap, Vec<ConfigProblem>> {
    let root = Value::Object(layer.clone());
    let mut problems = Vec::new();
    for (path, shape) in SHAPES {
        let segments: Vec<&str> = path.split('/').collect();
        visit(&root, &segments, &mut String::new(), &mut |value, pointer| {
            if let Some(expected) = shape.refuses(value) {
                let message = format!("expected {expected}, found {}", rules::describe(value));
                problems.push(ConfigProblem {
                    pointer: pointer.to_owned(),
                    message,
                });
            }
        });
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    modes_to_agents(&mut layer);
    if let Some(block) = layer.get_mut("permission") {
        collect(&mut problems, "/permission", permission(block));
    }
    if let Some(Value::Object(tools)) = layer.get("tools") {
        collect(&mut problems, "/tools", rules::from_tools(tools));
    }
    problems.extend(super::lsp::problems(&layer));
    if let Some(Value::Object(agents)) = layer.get_mut("agent") {
        for (name, agent) in agents {
            if let Value::Object(agent) = agent {
                agent_block(agent, &format!("/agent/{}", escape(name)), &mut problems);
            }
        }
    }
    if problems.is_empty() { Ok(layer) } else { Err(problems) }
}

fn permission(block: &mut Value) -> Result<(), ConfigProblem> {
    // Without a home the patterns stay as written: they are expanded when the merged block becomes rules.
    rules::from_config(block, None)?;
    if block.is_string() {
        *block = json!({"*": block.take()});
    }
    Ok(())
}

fn agent_block(agent: &mut JsonMap, pointer: &str, problems: &mut Vec<ConfigProblem>) {
    let mut block = JsonMap::new();
    if let Some(Value::Object(tools)) = agent.shift_remove("tools") {
        block = collect(problems, &format!("{pointer}/tools"), rules::from_tools(&tools)).unwrap_or_default();
    }
    if let Some(explicit) = agent.get_mut("permission") {
        collect(problems, &format!("{pointer}/permission"), permission(explicit));
        if let Value::Object(explicit) = explicit {
            block.append(explicit);
        }
    }
    if !block.is_empty() {
        agent.insert("permission".to_owned(), Value::Object(block));
    }
    if let Some(steps) = agent.shift_remove("maxSteps") {
        agent.entry("steps").or_insert(steps);
    }
    let is_known = |(key, _): &(String, Value)| AGENT_KEYS.contains(&key.as_str());
    let (known, unknown): (JsonMap, JsonMap) = std::mem::take(agent).into_iter().partition(is_known);
    *agent = known;
    if !unknown.is_empty()
        && let Value::Object(options) = agent.entry("options").or_insert_with(|| json!({}))
    {
        options.extend(unknown);
    }
}

/// The old name for primary agents.
fn modes_to_agents(layer: &mut JsonMap) {
    let Some(Value::Object(modes)) = layer.shift_remove("mode") else {
        return;
    };
    let agents = layer.entry("agent").or_insert_with(|| json!({}));
    for (name, mut mode) in modes {
        if let (Value::Object(agents), Value::Object(block)) = (&mut *agents, &mut mode) {
            block.insert("mode".to_owned(), json!("primary"));
            super::merge::replace(agents.entry(name).or_insert_with(|| json!({})), mode);
        }
    }
}

fn collect<T>(problems: &mut Vec<ConfigProblem>, below: &str, result: Result<T, ConfigProblem>) -> Option<T> {
    result
        .map_err(|problem| {
            problems.push(ConfigProblem {
                pointer: format!("{below}{}", problem.pointer),
                message: problem.message,
            });
        })
        .ok()
}

/// Calls `check` with every value that `path` leads to, and its pointer.
pub(super) fn visit(node: &Value, path: &[&str], pointer: &mut String, check: &mut dyn FnMut(&Value, &str)) {
    let Some((first, rest)) = path.split_first() else {
        return check(node, pointer);
    };
    let Value::Object(map) = node else { return };
    let length = pointer.len();
    let entries = map.iter().filter(|(key, _)| *first == "*" || *first == key.as_str());
    for (key, value) in entries {
        pointer.push('/');
        pointer.push_str(&escape(key));
        visit(value, rest, pointer, check);
        pointer.truncate(length);
    }
}

impl Shape {
    /// Returns what is expected if the value is something else.
    fn refuses(self, value: &Value) -> Option<String> {
        let texts = |items: &Vec<Value>| items.iter().all(Value::is_string);
        let (fits, expected) = match self {
            Self::Switch => (value.is_boolean(), "true or false"),
            Self::Text => (value.is_string(), "a string"),
            Self::Number => (value.is_number(), "a number"),
            Self::Count => (value.is_u64(), "an integer that is not negative"),
            Self::Positive => (value.as_u64().is_some_and(|count| count > 0), "a positive integer"),
            Self::Word(words) => {
                let fits = value.as_str().is_some_and(|word| words.contains(&word));
                return (!fits).then(|| {
                    words
                        .iter()
                        .map(|word| format!("{word:?}"))
                        .collect::<Vec<_>>()
                        .join(" or ")
                });
            }
            Self::Texts => (value.as_array().is_some_and(texts), "a list of strings"),
            Self::TextMap => (
                value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
                "an object of strings",
            ),
            Self::Object => (value.is_object(), "an object"),
            Self::ObjectOrSwitch => (value.is_object() || value.is_boolean(), "an object, true or false"),
            Self::ObjectOrFalse => (value.is_object() || *value == false, "an object or false"),
            Self::Plugins => (
                value.as_array().is_some_and(|items| items.iter().all(is_plugin)),
                "a list of strings, or of lists of a string and an object",
            ),
        };
        (!fits).then(|| expected.to_owned())
    }
}

fn is_plugin(item: &Value) -> bool {
    let pair = item.as_array().map(Vec::as_slice);
    item.is_string() || matches!(pair, Some([Value::String(_), Value::Object(_)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(value: Value) -> JsonMap {
        value.as_object().cloned().unwrap_or_default()
    }

    fn check(written: Value, expected: &str) {
        let normal = normalise(layer(written)).map(|map| Value::Object(map).to_string());
        assert_eq!(normal.as_deref(), Ok(expected));
    }

    #[test]
    fn one_form() {
        check(json!({"permission": "ask"}), r#"{"permission":{"*":"ask"}}"#);
        check(
            json!({"permission": {"bash": {"~/x": "deny"}}}),
            r#"{"permission":{"bash":{"~/x":"deny"}}}"#,
        );
        check(
            json!({"agent": {"a": {"tools": {"write": false, "bash": true}, "permission": {"bash": "ask", "x": "deny"}}}}),
            r#"{"agent":{"a":{"permission":{"edit":"deny","bash":"ask","x":"deny"}}}}"#,
        );
        check(
            json!({"agent": {"a": {"maxSteps": 3, "custom": 5, "options": {"o": 1}, "model": "p/m"}}}),
            r#"{"agent":{"a":{"options":{"o":1,"custom":5},"model":"p/m","steps":3}}}"#,
        );
        check(
            json!({"mode": {"m": {"permission": "deny"}}, "username": "u"}),
            r#"{"username":"u","agent":{"m":{"permission":{"*":"deny"},"mode":"primary"}}}"#,
        );
        check(json!({"share": 5, "new_key": [1]}), r#"{"share":5,"new_key":[1]}"#);
    }

    #[test]
    fn a_second_time_changes_nothing() {
        let written = json!({"permission": "ask", "agent": {"a": {"tools": {"write": false}, "maxSteps": 3, "c": 5}}});
        let once = normalise(layer(written)).expect("it is valid");
        assert_eq!(normalise(once.clone()), Ok(once));
    }

    #[test]
    fn wrong_values_are_named() {
        for (written, pointers) in [
            (json!({"permission": {"bash": "maybe"}}), vec!["/permission/bash"]),
            (json!({"permission": 1}), vec!["/permission"]),
            (json!({"tools": {"bash": "no"}}), vec!["/tools/bash"]),
            (json!({"tools": []}), vec!["/tools"]),
            (
                json!({"agent": {"a/b": {"mode": "both", "steps": 0}}}),
                vec!["/agent/a~1b/mode", "/agent/a~1b/steps"],
            ),
            (
                json!({"agent": {"a": {"permission": {"x": {"y": 1}}}}}),
                vec!["/agent/a/permission/x/y"],
            ),
            (json!({"agent": {"a": {"tools": {"x": 1}}}}), vec!["/agent/a/tools/x"]),
            (json!({"agent": []}), vec!["/agent"]),
            (
                json!({"experimental": {"batch_tool": "yes", "mcp_timeout": -1}}),
                vec!["/experimental/batch_tool", "/experimental/mcp_timeout"],
            ),
            (
                json!({"mcp": {"s": {"type": "remote", "oauth": true}}}),
                vec!["/mcp/s/oauth"],
            ),
            (json!({"lsp": "no"}), vec!["/lsp"]),
            (json!({"plugin": ["a", ["b", {}], ["c"]]}), vec!["/plugin"]),
            (json!({"instructions": "a.md"}), vec!["/instructions"]),
            (
                json!({"tool_output": {"max_lines": 1.5}}),
                vec!["/tool_output/max_lines"],
            ),
        ] {
            let problems = normalise(layer(written.clone())).expect_err("it is invalid");
            let found: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
            assert_eq!(found, pointers, "{written}");
        }
    }
}
