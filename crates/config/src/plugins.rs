//! What plugins make of the tools' configuration: their hook `config` gets it and may leave another one
//! (`docs/spec/extensions.md` §2.2).
//!
//! Each plugin is shown what the files say, and what it changed of that is laid on them, plugin after plugin. Agents, rules,
//! skills and MCP servers count; other parts are not this service's, or no plugin's business.
//!
//! *Invariant:* what people have written stays: rules of plugins only take away (`Agents::after_plugins`), and a server that a
//! file names is that file's. What cannot be understood counts for nothing, and is told.

use std::path::Path;

use serde_json::{Map, Value};
use toolgate_model::{Action, JsonMap, Rule};
use toolgate_permission::agents::AgentsConfig;
use toolgate_permission::rules::{self, ConfigProblem};

use super::environment::Environment;
use super::opencode::{ToolsConfig, added_names, agents_of, rules_of};
use super::{checks, jsonc, merge, skills};

/// The parts that count.
const PARTS: [&str; 6] = ["agent", "mode", "permission", "tools", "skills", "mcp"];

/// Rules that are named in one warning.
const MAX_NAMED: usize = 8;

/// What the hook `config` of a plugin did.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfig {
    /// The plugin, as people know it.
    pub plugin: String,
    /// What it was shown.
    pub given: JsonMap,
    /// What it left.
    pub left: JsonMap,
}

impl ToolsConfig {
    /// Returns the configuration that plugins make of this one, in the order in which they are loaded. What people should know
    /// of that is among its warnings.
    #[must_use]
    pub fn after_plugins(
        &self,
        plugins: &[PluginConfig],
        (directory, worktree): (&Path, &Path),
        env: &Environment,
    ) -> Self {
        let mut next = self.clone();
        let mut merged = Value::Object(parts_of(&self.merged));
        for plugin in plugins {
            let tell = |text: String| format!("the plugin {}: {text}", plugin.plugin);
            let given = parts_of(&plugin.given);
            let (left, problems) = understood(parts_of(&plugin.left), &given);
            next.warnings.extend(problems.into_iter().map(tell));
            let Some(mut left) = left else { continue };
            let notes = kept_back(&self.merged, &self.agents.global, &given, &mut left);
            next.warnings.extend(notes.into_iter().map(tell));
            if let Value::Object(merged) = &mut merged {
                // Of a part that files have no more only what the plugin made of it is left, not what files had in it.
                let changed = left
                    .iter()
                    .filter(|(key, part)| part.is_object() && given.get(*key) != Some(*part));
                for (key, _) in changed {
                    merged.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
                }
            }
            lay(&mut merged, &Value::Object(given), &Value::Object(left));
        }
        let Value::Object(mut merged) = merged else { return next };
        old_tools(&mut merged, self.merged.get("tools"));
        let mut warnings = Vec::new();
        let agents = AgentsConfig {
            global: rules_of(merged.get("permission"), env, &mut warnings),
            agents: agents_of(&merged, env, &mut warnings),
        };
        if agents != self.agents {
            next.written = Some(self.agents.clone());
            next.added_names = added_names(&agents, &self.layers);
            next.agents = agents;
        }
        if merged.get("skills") != self.merged.get("skills") {
            next.skills = skills::roots(directory, worktree, env, &merged, &mut warnings);
        }
        next.warnings
            .extend(warnings.into_iter().filter(|text| !self.warnings.contains(text)));
        next.merged.extend(merged);
        next
    }
}

fn parts_of(map: &JsonMap) -> JsonMap {
    let parts = PARTS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), map.get(*key)?.clone())));
    parts.collect()
}

/// Brings what a plugin left into the one form that files are brought into. An agent or a server that is wrong is left out,
/// wrong rules take the whole with them: nobody knows what they were to hold back.
fn understood(mut left: JsonMap, given: &JsonMap) -> (Option<JsonMap>, Vec<String>) {
    let mut problems = Vec::new();
    loop {
        let found = match checks::normalise(left.clone()) {
            Ok(normal) => return (Some(normal), problems),
            Err(found) => found,
        };
        let before = problems.len();
        for ConfigProblem { pointer, message } in &found {
            let segments: Vec<String> = pointer.split('/').skip(1).map(jsonc::unescape).collect();
            let [part, name, ..] = segments.as_slice() else {
                continue;
            };
            // What has been taken out already had two things wrong.
            if matches!(part.as_str(), "agent" | "mcp") && restore(&mut left, given, part, name) {
                let key = segments.join(".");
                problems.push(format!(
                    "its hook `config` leaves {key} wrong, so {part}.{name} stays as it was: {message}"
                ));
            }
        }
        if problems.len() == before {
            let wrong: Vec<String> = found.iter().map(ToString::to_string).collect();
            problems.push(format!(
                "its hook `config` leaves something wrong, so nothing that it changed counts: {}",
                wrong.join("; ")
            ));
            return (None, problems);
        }
    }
}

/// Puts an entry back to what it was; says whether it was another one.
fn restore(left: &mut JsonMap, given: &JsonMap, part: &str, name: &str) -> bool {
    let before = given.get(part).and_then(|entries| entries.get(name));
    let Some(Value::Object(entries)) = left.get_mut(part) else {
        return false;
    };
    match before {
        Some(before) if entries.get(name) == Some(before) => entries.shift_remove(name).is_some(),
        Some(before) => entries.insert(name.to_owned(), before.clone()).is_some(),
        None => entries.shift_remove(name).is_some(),
    }
}

/// Takes back what is not a plugin's business, and says so.
fn kept_back(written: &JsonMap, global: &[Rule], given: &JsonMap, left: &mut JsonMap) -> Vec<String> {
    let mut notes = Vec::new();
    let named = |map: &JsonMap| map.get("mcp").and_then(Value::as_object).cloned().unwrap_or_default();
    let (files, shown) = (named(written), named(given));
    if let Some(Value::Object(servers)) = left.get_mut("mcp") {
        let changed: Vec<String> = servers
            .iter()
            .filter(|(name, entry)| {
                // Files that a plugin was shown may name it no more; what it made of that is no server of its own.
                let of_files = files.contains_key(*name) || shown.contains_key(*name);
                of_files && shown.get(*name) != Some(*entry)
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in changed {
            notes.push(format!(
                "what it changes of the MCP server {name:?} has no effect: that server is a file's"
            ));
            match shown.get(&name) {
                Some(before) => servers.insert(name, before.clone()),
                None => servers.shift_remove(&name),
            };
        }
    }
    let urls = |map: &JsonMap| map.get("skills").and_then(|skills| skills.get("urls")).cloned();
    let before = urls(given);
    if urls(left) != before
        && let Some(Value::Object(skills)) = left.get_mut("skills")
    {
        notes.push(
            "the skills that it names by URL are not fetched: name them in opencode.json under skills.urls".to_owned(),
        );
        match before {
            Some(before) => skills.insert("urls".to_owned(), before),
            None => skills.shift_remove("urls"),
        };
    }
    let allowed = allowed_by(given.get("permission"), left.get("permission"), global);
    if !allowed.is_empty() {
        let more = allowed.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let allowed = allowed[..allowed.len().min(MAX_NAMED)].join(", ");
        notes.push(format!(
            "it allows {allowed}{more}, which counts only as far as the rules of opencode.json allow it: plugins cannot loosen rules"
        ));
    }
    notes
}

/// Returns the permissions that a plugin newly allows, and that people's rules do not allow anyway.
fn allowed_by(given: Option<&Value>, left: Option<&Value>, global: &[Rule]) -> Vec<String> {
    let asked = ["external_directory", "doom_loop", "network"].map(|name| rules::rule(name, "*", Action::Ask));
    let written = [&[rules::rule("*", "*", Action::Allow)][..], &asked, global].concat();
    let is_news = |name: &str, pattern: &str| rules::evaluate(name, pattern, &[&written]).0 != Action::Allow;
    let before = |name: &str| given.and_then(|block| block.get(name));
    let entries = left.and_then(Value::as_object).into_iter().flatten();
    let allows_more = |name: &str, value: &Value| match value {
        Value::String(word) => word == "allow" && is_news(name, "*"),
        Value::Object(patterns) => {
            let mut allowed = patterns.iter().filter(|(_, word)| *word == "allow");
            allowed.any(|(pattern, _)| is_news(name, pattern))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    };
    entries
        .filter(|(name, value)| before(name) != Some(*value) && allows_more(name, value))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Puts what plugins say by the old `tools` map below the permissions, as for files.
fn old_tools(merged: &mut JsonMap, before: Option<&Value>) {
    let Some(Value::Object(tools)) = merged.get("tools").filter(|tools| Some(*tools) != before) else {
        return;
    };
    let Ok(mut block) = rules::from_tools(tools) else {
        return;
    };
    if let Some(Value::Object(permission)) = merged.shift_remove("permission") {
        merge::merge(&mut block, permission);
    }
    merged.insert("permission".to_owned(), Value::Object(block));
}

/// Lays what somebody made of `given`, which is `left`, on `base`: of lists that both have, what was added and what was taken
/// out.
fn lay(base: &mut Value, given: &Value, left: &Value) {
    match (base, given, left) {
        (_, given, left) if given == left => {}
        (Value::Object(base), Value::Object(given), Value::Object(left)) => {
            base.retain(|key, _| left.contains_key(key) || !given.contains_key(key));
            for (key, value) in left {
                match (given.get(key), base.get_mut(key)) {
                    (Some(before), Some(ours)) => lay(ours, before, value),
                    (Some(before), None) if before == value => {}
                    (None, Some(ours)) => lay(ours, &Value::Object(Map::new()), value),
                    (Some(_) | None, None) => drop(base.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(base), given, Value::Array(left)) => {
            let given = given.as_array().map(Vec::as_slice).unwrap_or_default();
            base.retain(|item| left.contains(item) || !given.contains(item));
            for item in left {
                if !given.contains(item) && !base.contains(item) {
                    base.push(item.clone());
                }
            }
        }
        (base, _, left) => base.clone_from(left),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The configuration of a file, and what two plugins leave of it.
    fn after(file: &Value, left: &[Value]) -> ToolsConfig {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let top = folder.path().canonicalize().expect("it is there");
        std::fs::create_dir_all(top.join(".git")).expect("the folder is ours");
        std::fs::write(top.join("opencode.json"), file.to_string()).expect("the folder is ours");
        let env = Environment::new([("HOME".to_owned(), "/nowhere".to_owned())], top.clone());
        let tools = ToolsConfig::load(&top, &top, &env).expect("it is valid");
        let plugins: Vec<PluginConfig> = left
            .iter()
            .map(|left| PluginConfig {
                plugin: "p".to_owned(),
                given: tools.merged.clone(),
                left: left.as_object().cloned().expect("an object"),
            })
            .collect();
        tools.after_plugins(&plugins, (&top, &top), &env)
    }

    #[test]
    fn plugins_are_laid_on_each_other() {
        let check = |base: Value, given: &Value, left: &[Value], expected: &str| {
            let mut base = base;
            left.iter().for_each(|left| lay(&mut base, given, left));
            assert_eq!(base.to_string(), expected);
        };
        let given = json!({"a": {"x": 1, "y": 2}, "l": [1, 2], "s": "t"});
        check(
            given.clone(),
            &given,
            &[
                json!({"a": {"x": 3, "y": 2, "z": 0}, "l": [1, 2, 3], "s": "t"}),
                json!({"a": {"y": 2, "n": 4}, "l": [2, 4], "s": "u"}),
            ],
            r#"{"a":{"y":2,"z":0,"n":4},"l":[2,3,4],"s":"u"}"#,
        );
        check(
            json!({}),
            &json!({}),
            &[json!({"l": [1]}), json!({"l": [2]})],
            r#"{"l":[1,2]}"#,
        );
        check(json!({"new": 1}), &json!({}), &[json!({})], r#"{"new":1}"#);
    }

    #[test]
    fn agents_rules_and_tools_count() {
        let file = json!({"permission": {"bash": "ask"}, "agent": {"build": {"description": "mine"}}});
        let left = json!({
            "permission": {"bash": "ask", "webfetch": "allow", "external_directory": "allow"},
            "tools": {"grep": false},
            "agent": {"build": {"description": "mine", "mode": "subagent"}, "own": {"maxTokens": 5, "permission": {"*": "deny"}}},
            "model": "a/b",
        });
        let tools = after(&file, &[left]);
        let names: Vec<_> = tools.agents.agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["build", "own"]);
        let rule = |name: &str, action| rules::rule(name, "*", action);
        let expected = [
            rule("grep", Action::Deny),
            rule("bash", Action::Ask),
            rule("webfetch", Action::Allow),
            rule("external_directory", Action::Allow),
        ];
        assert_eq!(tools.agents.global, expected);
        assert_eq!(tools.written.as_ref().map(|written| written.global.len()), Some(1));
        assert!(tools.merged.get("model").is_none());
        assert_eq!(tools.warnings.len(), 1, "{:?}", tools.warnings);
        assert!(
            tools.warnings[0].contains("it allows external_directory,"),
            "{:?}",
            tools.warnings
        );
    }

    #[test]
    fn wrong_things_count_for_nothing() {
        let left = json!({"agent": {"good": {}, "bad": {"mode": "both", "steps": 0}}});
        let tools = after(&json!({}), &[left]);
        assert_eq!(tools.agents.agents.len(), 1);
        assert!(
            tools.warnings[0].contains("agent.bad stays as it was"),
            "{:?}",
            tools.warnings
        );
        let left = json!({"agent": {"good": {}}, "permission": {"bash": "maybe"}});
        let tools = after(&json!({}), &[left, json!({"agent": {"other": {}}})]);
        let names: Vec<_> = tools.agents.agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["other"], "the plugin beside it counts");
        assert!(
            tools.warnings[0].contains("nothing that it changed counts"),
            "{:?}",
            tools.warnings
        );
    }

    #[test]
    fn servers_that_files_name_no_more_do_not_stay_with_a_plugin() {
        let file = json!({"mcp": {"s": {"type": "local", "command": ["a"]}}});
        let before = after(&file, &[]);
        let now = after(&json!({}), &[]);
        let plugin = |left: Value| PluginConfig {
            plugin: "p".to_owned(),
            given: before.merged.clone(),
            left: left.as_object().cloned().expect("an object"),
        };
        let env = Environment::new([("HOME".to_owned(), "/nowhere".to_owned())], "/nowhere");
        for changed in [
            json!({"timeout": 5}),
            json!({"enabled": true}),
            json!({"command": ["b"]}),
        ] {
            let mut left = file.clone();
            for (key, value) in changed.as_object().expect("an object") {
                left["mcp"]["s"][key] = value.clone();
            }
            left["mcp"]["t"] = json!({"type": "local", "command": ["c"]});
            let here = Path::new("/nowhere");
            let tools = now.after_plugins(&[plugin(left.clone()), plugin(left)], (here, here), &env);
            let servers = tools.added_mcp_servers(&now);
            let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
            assert_eq!(names, ["t"], "{changed}");
            assert!(tools.merged["mcp"].get("s").is_none(), "{changed}");
        }
    }

    #[test]
    fn servers_of_files_and_skills_by_url_stay() {
        let file = json!({"mcp": {"s": {"type": "local", "command": ["a"]}}});
        let left = json!({
            "mcp": {"s": {"type": "local", "command": ["b"]}, "t": {"type": "local", "command": ["c"]}},
            "skills": {"urls": ["http://127.0.0.1:1/"], "paths": ["/skills"]},
        });
        let tools = after(&file, &[left]);
        let servers = tools.added_mcp_servers(&after(&file, &[]));
        assert_eq!(
            servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(),
            ["t"]
        );
        assert_eq!(tools.merged["mcp"]["s"]["command"], json!(["a"]));
        assert!(tools.skills.iter().any(|root| root.path == Path::new("/skills")));
        assert_eq!(tools.warnings.len(), 3, "{:?}", tools.warnings);
    }
}
