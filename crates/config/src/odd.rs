//! What of a layer of the tools' configuration is most likely a mistake: keys that nothing knows, keys that would hold something
//! back and do nothing here, and agents that are nearly called like others.
//!
//! *Invariant:* pure, and only tells: nothing here changes what a layer does. What OpenCode knows and this service has no use for
//! is no mistake.

use serde_json::Value;
use toolgate_model::JsonMap;
use toolgate_permission::{agents, hints};

use super::checks::{AGENT_KEYS, FOREIGN, SHAPES, visit};
use super::jsonc::unescape;

const PERMISSION: &str = "permission";

/// A place whose keys are known.
struct Place {
    path: &'static str,
    /// What OpenCode knows there, too.
    others: &'static [&'static str],
    /// Whether there may be more, so that only what is nearly a known key is odd.
    is_open: bool,
}

#[rustfmt::skip]
const PLACES: [Place; 8] = [
    // Unknown keys of agents are options of their models.
    Place { path: "agent/*", others: &[PERMISSION, "tools", "maxSteps"], is_open: true },
    Place { path: "mode/*", others: &[PERMISSION, "tools", "maxSteps"], is_open: true },
    // Comes and goes with each release of OpenCode.
    Place {
        path: "experimental",
        others: &["chatMaxRetries", "disable_paste_summary", "hook", "openTelemetry", "policies"],
        is_open: true,
    },
    Place { path: "lsp/*", others: &["languageId"], is_open: false },
    Place { path: "mcp/*", others: &[], is_open: false },
    Place {
        path: "mcp/*/oauth",
        others: &[
            "authorizationEndpoint", "callbackPort", "clientId", "clientSecret", "redirectUri", "scope", "tokenEndpoint",
        ],
        is_open: false,
    },
    Place { path: "skills", others: &[], is_open: false },
    Place { path: "tool_output", others: &[], is_open: false },
];

/// Known keys that are nearly the names of options which models take, such as `top_k`.
const NEAR_OTHERS: [&str; 2] = ["top_p", "name"];

/// What other programs call rules, in small letters and without what parts words.
#[rustfmt::skip]
const RULES: [&str; 13] = [
    "allow", "allowedtools", "approval", "ask", "deny", "disabledtools", "disallowedtools", "enabledtools", "excludetools",
    "includetools", "readonly", "rules", "toolpermissions",
];

/// What other programs call single keys, in the same form; the path `.` is the top level.
#[rustfmt::skip]
const SPOKEN: [(&str, &str, &str); 10] = [
    (".", "mcpservers", "mcp"), (".", "lspservers", "lsp"), (".", "subagents", "agent"), ("agent/*", "enabled", "disable"),
    ("mcp/*", "args", "command"), ("mcp/*", "cmd", "command"), ("mcp/*", "disabled", "enabled"),
    ("mcp/*", "env", "environment"), ("mcp/*", "transport", "type"), ("mcp/*", "workingdirectory", "cwd"),
];

/// Returns what is said of the keys of the top level that nothing knows.
pub(super) fn unknown_keys(layer: &JsonMap) -> Vec<String> {
    let ours = || SHAPES.iter().filter_map(|(path, _)| path.split('/').next());
    let known: Vec<&str> = ours().chain(FOREIGN.iter().copied()).chain([PERMISSION]).collect();
    let unknown = layer.keys().filter(|key| !known.contains(&key.as_str()));
    unknown
        .map(|key| {
            let plain = plain(key);
            let meant = spoken(".", &plain).or_else(|| RULES.contains(&plain.as_str()).then_some(PERMISSION));
            let meant = meant.or_else(|| hints::nearest(key, known.iter().copied()));
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
            format!("the key {key:?} is not known and has no effect{meant}")
        })
        .collect()
}

/// Returns what is said of keys below the top level, of known ones that hold nothing back here, and of agents.
pub(super) fn odd_keys(layer: &JsonMap) -> Vec<String> {
    let root = Value::Object(layer.clone());
    let mut odd = Vec::new();
    for place in &PLACES {
        let segments: Vec<&str> = place.path.split('/').collect();
        let known = known_at(place);
        visit(&root, &segments, &mut String::new(), &mut |value, pointer| {
            let at: Vec<String> = pointer.split('/').skip(1).map(unescape).collect();
            let keys = value.as_object().into_iter().flat_map(JsonMap::keys);
            let unknown = keys.filter(|key| !known.contains(&key.as_str()));
            odd.extend(unknown.filter_map(|key| unknown_at(place, &known, &at.join("."), key)));
        });
    }
    odd.extend(idle_keys(layer));
    let agents = ["agent", "mode"].iter().filter_map(|key| layer.get(*key)?.as_object());
    for name in agents.flat_map(JsonMap::keys) {
        if let Some(meant) = hints::nearest(name, agents::BUILT_IN) {
            odd.push(format!("the agent {name:?} is a new one; did you mean {meant:?}?"));
        }
    }
    odd
}

fn known_at(place: &Place) -> Vec<&'static str> {
    // Modes are agents.
    let path = place.path.replace("mode/*", "agent/*");
    let of_shapes = SHAPES.iter().filter_map(|(shape, _)| {
        let rest = shape.strip_prefix(path.as_str())?.strip_prefix('/')?;
        rest.split('/').next().filter(|key| *key != "*")
    });
    let of_agents = AGENT_KEYS.iter().copied().filter(|_| path == "agent/*");
    of_shapes.chain(of_agents).chain(place.others.iter().copied()).collect()
}

fn unknown_at(place: &Place, known: &[&'static str], at: &str, key: &str) -> Option<String> {
    let plain = plain(key);
    let is_of_rules = RULES.contains(&plain.as_str());
    if is_of_rules && place.path == "mcp/*" {
        return Some(format!(
            "the key \"{at}.{key}\" is not known here and holds nothing back; rules for the tools of a server are written in \
             {PERMISSION:?}"
        ));
    }
    let is_agent = known.contains(&PERMISSION);
    let spoken = spoken(&place.path.replace("mode/*", "agent/*"), &plain);
    let meant = spoken.or_else(|| (is_of_rules && is_agent).then_some(PERMISSION));
    let others = known.iter().copied().filter(|known| !NEAR_OTHERS.contains(known));
    match meant.or_else(|| hints::nearest(key, others)) {
        Some(meant) => Some(format!(
            "the key \"{at}.{key}\" is not known here; did you mean {meant:?}?"
        )),
        None if place.is_open => None,
        None => Some(format!("the key \"{at}.{key}\" is not known here and has no effect")),
    }
}

/// Returns what is said of keys that OpenCode obeys and that hold something back there.
fn idle_keys(layer: &JsonMap) -> Vec<String> {
    let mut idle = Vec::new();
    if let Some(Value::String(agent)) = layer.get("default_agent")
        && agent != "build"
    {
        idle.push(
            "the key \"default_agent\" has no effect here: a call that names no agent is made by \"build\"".to_owned(),
        );
    }
    let policies = layer.get("experimental").and_then(|part| part.get("policies"));
    if policies.and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
        idle.push(format!(
            "the key \"experimental.policies\" holds nothing back here; rules are written in {PERMISSION:?}"
        ));
    }
    for part in ["agent", "mode"] {
        let agents = layer.get(part).and_then(Value::as_object).into_iter().flatten();
        for (name, agent) in agents {
            let limits = ["steps", "maxSteps"]
                .into_iter()
                .filter(|key| agent.get(*key).is_some());
            idle.extend(limits.map(|key| {
                format!(
                    "the key \"{part}.{name}.{key}\" holds nothing back here: the program that runs the agent counts its steps"
                )
            }));
        }
    }
    idle
}

fn spoken(path: &str, plain: &str) -> Option<&'static str> {
    let found = SPOKEN.iter().find(|(at, said, _)| *at == path && *said == plain);
    found.map(|(_, _, meant)| *meant)
}

fn plain(key: &str) -> String {
    key.to_lowercase().replace(['_', '-'], "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(written: Value) -> JsonMap {
        written.as_object().cloned().unwrap()
    }

    #[test]
    fn unknown_keys_are_told_with_the_one_that_was_meant() {
        let known = json!({"permission": {}, "lsp": false, "username": "u", "default_agent": "build"});
        assert!(unknown_keys(&layer(known)).is_empty());
        for (key, meant) in [
            ("permision", Some("permission")),
            ("permissions", Some("permission")),
            ("deny", Some("permission")),
            ("disallowed_tools", Some("permission")),
            ("agents", Some("agent")),
            ("mcpServers", Some("mcp")),
            ("tols", Some("tools")),
            ("plugins", Some("plugin")),
            ("new_part", None),
        ] {
            let told = unknown_keys(&layer(json!({key: {}})));
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
            assert_eq!(
                told,
                [format!("the key \"{key}\" is not known and has no effect{meant}")]
            );
        }
    }

    #[test]
    fn keys_below_are_told_where_nothing_else_can_be_meant() {
        for (written, expected) in [
            (
                json!({"agent": {"build": {"permision": {"bash": "ask"}}}}),
                vec!["the key \"agent.build.permision\" is not known here; did you mean \"permission\"?"],
            ),
            (
                json!({"mode": {"plan": {"allowedTools": ["read"]}}}),
                vec!["the key \"mode.plan.allowedTools\" is not known here; did you mean \"permission\"?"],
            ),
            (
                json!({"agent": {"biuld": {"permission": {"bash": "ask"}}}}),
                vec!["the agent \"biuld\" is a new one; did you mean \"build\"?"],
            ),
            (
                json!({"mcp": {"s": {"comand": ["x"], "disabled": true, "cache": 1}}, "experimental": {"batch_tol": true}}),
                vec![
                    "the key \"experimental.batch_tol\" is not known here; did you mean \"batch_tool\"?",
                    "the key \"mcp.s.comand\" is not known here; did you mean \"command\"?",
                    "the key \"mcp.s.disabled\" is not known here; did you mean \"enabled\"?",
                    "the key \"mcp.s.cache\" is not known here and has no effect",
                ],
            ),
            (
                json!({"mcp": {"a/b": {"excludeTools": ["x"], "oauth": {"scopes": "a", "x": 1}}}}),
                vec![
                    "the key \"mcp.a/b.excludeTools\" is not known here and holds nothing back; rules for the tools of a server are \
                     written in \"permission\"",
                    "the key \"mcp.a/b.oauth.scopes\" is not known here; did you mean \"scope\"?",
                    "the key \"mcp.a/b.oauth.x\" is not known here and has no effect",
                ],
            ),
            (
                json!({"agent": {"build": {"reasoningEffort": "high", "top_k": 5, "tools": {"write": false}}, "review": {}}}),
                vec![],
            ),
            (
                json!({"experimental": {"openTelemetry": true, "later": 1}, "lsp": {"s": {"languageId": "x"}}}),
                vec![],
            ),
        ] {
            assert_eq!(odd_keys(&layer(written.clone())), expected, "{written}");
        }
    }

    #[test]
    fn what_holds_back_in_opencode_and_not_here_is_told() {
        let check = |written: Value, expected: &[&str]| {
            let told = odd_keys(&layer(written.clone()));
            assert_eq!(told.len(), expected.len(), "{written}: {told:?}");
            for (told, part) in told.iter().zip(expected) {
                assert!(told.contains(part), "{part:?} is not in {told:?}");
            }
        };
        check(
            json!({"default_agent": "plan"}),
            &["\"default_agent\" has no effect here"],
        );
        check(json!({"default_agent": "build"}), &[]);
        check(
            json!({"experimental": {"policies": [{"effect": "deny"}]}}),
            &["experimental.policies"],
        );
        check(json!({"experimental": {"policies": []}}), &[]);
        check(
            json!({"agent": {"a": {"steps": 3}}, "mode": {"m": {"maxSteps": 1}}}),
            &[
                "\"agent.a.steps\" holds nothing back",
                "\"mode.m.maxSteps\" holds nothing back",
            ],
        );
        check(
            json!({"share": "disabled", "disabled_providers": ["x"], "snapshot": false}),
            &[],
        );
    }
}
