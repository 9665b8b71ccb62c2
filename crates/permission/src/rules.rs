//! Rules: how they come from a configuration block, how they are evaluated, and what approvals add
//! (`docs/spec/permission.md` §3, §5, §8 and §13).
//!
//! *Invariant:* pure. Rules are an ordered list and the last match wins; nothing here removes, sorts or merges them.

use std::path::Path;

use serde_json::Value;
use toolgate_model::{Action, JsonMap, Rule};

use super::wildcard;

/// The tools that the permission `edit` governs.
const EDIT_GROUP: [&str; 5] = ["edit", "write", "apply_patch", "patch", "multiedit"];

/// The permissions whose patterns are paths relative to the worktree.
const PATH_PERMISSIONS: [&str; 2] = ["edit", "read"];

/// The permissions that take one word, not a map of patterns.
const WORD_ONLY: [&str; 7] = [
    "todowrite",
    "todoread",
    "question",
    "webfetch",
    "websearch",
    "codesearch",
    "doom_loop",
];

/// A value in a permission block that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct ConfigProblem {
    /// Where in the block, as a JSON pointer; empty for the block itself.
    pub pointer: String,
    /// What was expected there.
    pub message: String,
}

/// Turns the value of a `permission` key into rules, one per leaf, in the order written.
///
/// In the patterns of a map a leading `~/` or `$HOME` becomes `home`; without a home they stay as written.
///
/// # Errors
/// The first value that is neither an action nor, where that is allowed, a map of actions.
pub fn from_config(block: &Value, home: Option<&Path>) -> Result<Vec<Rule>, ConfigProblem> {
    let names = match block {
        Value::Object(names) => names,
        Value::String(_) => return Ok(vec![rule("*", "*", action(block, String::new)?)]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(problem(String::new(), &[ACTIONS, "an object"], block));
        }
    };
    let mut rules = Vec::with_capacity(names.len());
    for (name, value) in names {
        let pointer = || format!("/{}", escape(name));
        match value {
            _ if WORD_ONLY.contains(&name.as_str()) => rules.push(rule(name, "*", action(value, pointer)?)),
            Value::Object(patterns) => {
                for (pattern, value) in patterns {
                    let action = action(value, || format!("{}/{}", pointer(), escape(pattern)))?;
                    rules.push(rule(name, &expand_home(pattern, home), action));
                }
            }
            Value::String(_) => rules.push(rule(name, "*", action(value, pointer)?)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Err(problem(
                    pointer(),
                    &[ACTIONS, "an object from pattern to action"],
                    value,
                ));
            }
        }
    }
    Ok(rules)
}

/// Turns the old `tools` map, name to boolean, into a permission block. All tools that edit become `edit`, of which
/// the last one written counts.
///
/// # Errors
/// The first value that is not a boolean.
pub fn from_tools(tools: &JsonMap) -> Result<JsonMap, ConfigProblem> {
    let mut block = JsonMap::new();
    for (tool, switch) in tools {
        let Value::Bool(on) = switch else {
            return Err(problem(format!("/{}", escape(tool)), &["true or false"], switch));
        };
        let word = if *on { "allow" } else { "deny" };
        block.insert(governing_permission(tool).to_owned(), Value::from(word));
    }
    Ok(block)
}

/// Makes a rule.
pub fn rule(permission: &str, pattern: &str, action: Action) -> Rule {
    Rule {
        permission: permission.to_owned(),
        pattern: pattern.to_owned(),
        action,
    }
}

/// Returns the verdict on `permission` and `pattern` of the rulesets joined in order, and the rule that gave it: the
/// last one that matches, or none, which means ask.
pub fn evaluate<'r>(permission: &str, pattern: &str, rulesets: &[&'r [Rule]]) -> (Action, Option<&'r Rule>) {
    last_match(rulesets, |rule| {
        wildcard::matches(permission, &rule.permission) && wildcard::matches(pattern, &rule.pattern)
    })
}

/// Returns the verdict on a pattern as a tool asks about it. As [`evaluate`], except that where the pattern is a path
/// relative to `worktree`, a rule that begins with `/` is also held against the absolute path: a rule such as
/// `~/app/secret/*` would otherwise never match inside the workspace.
pub fn evaluate_in<'r>(
    worktree: &Path,
    permission: &str,
    pattern: &str,
    rulesets: &[&'r [Rule]],
) -> (Action, Option<&'r Rule>) {
    let absolute = PATH_PERMISSIONS
        .contains(&permission)
        .then(|| absolute(worktree, pattern));
    last_match(rulesets, |rule| {
        wildcard::matches(permission, &rule.permission)
            && (wildcard::matches(pattern, &rule.pattern)
                || absolute
                    .as_deref()
                    .is_some_and(|path| rule.pattern.starts_with('/') && wildcard::matches(path, &rule.pattern)))
    })
}

fn last_match<'r>(rulesets: &[&'r [Rule]], fits: impl Fn(&Rule) -> bool) -> (Action, Option<&'r Rule>) {
    let found = rulesets
        .iter()
        .rev()
        .find_map(|rules| rules.iter().rev().find(|rule| fits(rule)));
    (found.map_or(Action::Ask, |rule| rule.action), found)
}

/// Joins lexically: `..` may lead out of the worktree, as it does in the patterns of outside files.
fn absolute(worktree: &Path, pattern: &str) -> String {
    let joined = worktree.join(pattern);
    let joined = joined.to_string_lossy();
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns the rules whose permission side matches, whatever their patterns and actions.
pub fn relevant(permission: &str, rules: &[Rule]) -> Vec<Rule> {
    rules
        .iter()
        .filter(|rule| wildcard::matches(permission, &rule.permission))
        .cloned()
        .collect()
}

/// Returns the permission that decides whether `tool` is offered.
pub fn governing_permission(tool: &str) -> &str {
    if EDIT_GROUP.contains(&tool) { "edit" } else { tool }
}

/// Says whether `tool` is hidden from the model: the last rule for its permission denies the pattern `*`. The
/// placeholder `invalid` is never hidden.
pub fn disabled(tool: &str, rules: &[Rule]) -> bool {
    let permission = governing_permission(tool);
    tool != "invalid"
        && rules
            .iter()
            .rev()
            .find(|rule| wildcard::matches(permission, &rule.permission))
            .is_some_and(|rule| rule.pattern == "*" && rule.action == Action::Deny)
}

/// Returns rules as a compact JSON array, the keys in the order permission, pattern, action.
pub fn to_json(rules: &[Rule]) -> String {
    serde_json::to_string(rules).expect("rules are text and fixed words, which serialise")
}

const ACTIONS: &str = r#""allow", "ask" or "deny""#;

fn action(value: &Value, pointer: impl FnOnce() -> String) -> Result<Action, ConfigProblem> {
    match value.as_str() {
        Some("allow") => Ok(Action::Allow),
        Some("ask") => Ok(Action::Ask),
        Some("deny") => Ok(Action::Deny),
        Some(_) | None => Err(problem(pointer(), &[ACTIONS], value)),
    }
}

fn problem(pointer: String, expected: &[&str], found: &Value) -> ConfigProblem {
    ConfigProblem {
        pointer,
        message: format!("expected {}, found {}", expected.join(" or "), describe(found)),
    }
}

/// Shows a value that was found in place of what was expected, briefly.
pub fn describe(found: &Value) -> String {
    match found {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Escapes one segment of a JSON pointer.
fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

fn expand_home(pattern: &str, home: Option<&Path>) -> String {
    let Some(home) = home else { return pattern.to_owned() };
    let home = home.to_string_lossy();
    if pattern == "~" {
        return home.into_owned();
    }
    match (pattern.strip_prefix("~/"), pattern.strip_prefix("$HOME")) {
        (Some(rest), _) => format!("{home}/{rest}"),
        (None, Some(rest)) => format!("{home}{rest}"),
        (None, None) => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use toolgate_model::Action::{Allow, Ask, Deny};

    use super::*;

    fn list(rows: &[(&str, &str, Action)]) -> Vec<Rule> {
        rows.iter()
            .map(|&(name, pattern, action)| rule(name, pattern, action))
            .collect()
    }

    fn check_rules(block: Value, expected: &[(&str, &str, Action)]) {
        assert_eq!(
            from_config(&block, Some(Path::new("/home/u"))),
            Ok(list(expected)),
            "{block}"
        );
    }

    #[test]
    fn blocks_become_rules_in_order() {
        check_rules(json!("deny"), &[("*", "*", Deny)]);
        check_rules(
            json!({"bash": "ask", "*": "deny"}),
            &[("bash", "*", Ask), ("*", "*", Deny)],
        );
        check_rules(
            json!({"bash": {"*": "ask", "git *": "allow"}, "mcp_*": "allow"}),
            &[("bash", "*", Ask), ("bash", "git *", Allow), ("mcp_*", "*", Allow)],
        );
        check_rules(json!({}), &[]);
        check_rules(json!({"bash": {}}), &[]);
    }

    #[test]
    fn home_is_expanded_at_the_start_of_patterns_only() {
        for (written, expected) in [
            ("~", "/home/u"),
            ("~/x/*", "/home/u/x/*"),
            ("~root/x", "~root/x"),
            ("$HOME", "/home/u"),
            ("$HOME/x", "/home/u/x"),
            ("$HOMEX", "/home/uX"),
            ("/a/~/b", "/a/~/b"),
            ("/a/$HOME", "/a/$HOME"),
        ] {
            check_rules(json!({"read": {written: "allow"}}), &[("read", expected, Allow)]);
        }
        check_rules(json!({"~": "ask"}), &[("~", "*", Ask)]);
    }

    #[test]
    fn wrong_values_are_named() {
        for (block, pointer) in [
            (json!("maybe"), ""),
            (json!(3), ""),
            (json!({"bash": "maybe"}), "/bash"),
            (json!({"bash": true}), "/bash"),
            (json!({"bash": {"rm *": "never"}}), "/bash/rm *"),
            (json!({"a/b": {"~": null}}), "/a~1b/~0"),
            (json!({"webfetch": {"*": "ask"}}), "/webfetch"),
            (json!({"doom_loop": ["ask"]}), "/doom_loop"),
        ] {
            let problem = from_config(&block, None).expect_err("the block means nothing");
            assert_eq!(problem.pointer, pointer, "{block}");
            assert!(problem.message.contains(ACTIONS), "{}", problem.message);
        }
    }

    #[test]
    fn the_old_switches_become_a_block() {
        let tools = json!({"write": false, "bash": false, "foo_*": false, "patch": true});
        let tools = tools.as_object().expect("it is an object");
        assert_eq!(
            from_tools(tools).map(Value::Object),
            Ok(json!({"edit": "allow", "bash": "deny", "foo_*": "deny"}))
        );
        assert!(from_tools(&toolgate_model::json_map([("bash", json!("no"))])).is_err());
    }

    #[test]
    fn the_last_match_decides() {
        let rules = list(&[
            ("*", "*", Deny),
            ("bash", "*", Allow),
            ("bash", "rm *", Ask),
            ("todo*", "*", Ask),
        ]);
        for (permission, pattern, expected) in [
            ("bash", "rm", Ask),
            ("bash", "ls", Allow),
            ("edit", "x", Deny),
            ("todoread", "*", Ask),
        ] {
            assert_eq!(evaluate(permission, pattern, &[&rules]).0, expected);
        }
        assert_eq!(evaluate("bash", "ls", &[&[]]), (Ask, None));
    }

    #[test]
    fn absolute_rules_see_the_absolute_path() {
        let rules = list(&[
            ("*", "*", Ask),
            ("edit", "/w/app/secret/*", Deny),
            ("bash", "/w/*", Deny),
            ("read", "/etc/*", Deny),
            ("edit", "*w*", Allow),
        ]);
        for (permission, pattern, expected) in [
            ("edit", "secret/key", Deny),
            ("edit", "./src/../secret/key", Deny),
            ("edit", "src/a", Ask),
            ("edit", "/w/app/secret/key", Allow),
            ("read", "../../etc/passwd", Deny),
            ("bash", "app", Ask),
        ] {
            let (action, _) = evaluate_in(Path::new("/w/app"), permission, pattern, &[&rules]);
            assert_eq!(action, expected, "{permission} {pattern}");
        }
    }

    #[test]
    fn tools_are_hidden_by_a_last_deny_of_everything() {
        type Rows = &'static [(&'static str, &'static str, Action)];
        let cases: &[(Rows, &str, bool)] = &[
            (&[("*", "*", Allow), ("bash", "*", Deny)], "bash", true),
            (&[("bash", "*", Deny), ("bash", "git *", Allow)], "bash", false),
            (&[("bash", "git *", Allow), ("bash", "*", Deny)], "bash", true),
            (&[("bash", "**", Deny)], "bash", false),
            (&[("write", "*", Deny)], "write", false),
            (&[("edit", "*", Deny)], "write", true),
            (&[("edit", "*", Deny)], "apply_patch", true),
            (&[("edit", "*", Deny)], "multiedit", true),
            (&[("*", "*", Deny)], "invalid", false),
            (&[("*", "*", Deny), ("gre?", "*", Ask)], "grep", false),
            (&[], "bash", false),
        ];
        for (rules, tool, expected) in cases {
            assert_eq!(disabled(tool, &list(rules)), *expected, "{tool} under {rules:?}");
        }
    }

    #[test]
    fn json_is_compact_and_in_order() {
        assert_eq!(
            to_json(&list(&[("bash", "git push *", Deny)])),
            r#"[{"permission":"bash","pattern":"git push *","action":"deny"}]"#
        );
    }

    fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
        let action = prop_oneof![Just(Allow), Just(Ask), Just(Deny)];
        let one = ("[ab*]{1,2}", "[ab*/ ]{1,3}", action).prop_map(|(name, pattern, action)| Rule {
            permission: name,
            pattern,
            action,
        });
        prop::collection::vec(one, 0..8)
    }

    proptest! {
        #[test]
        fn joining_is_concatenation(first in any_rules(), second in any_rules(), pattern in "[ab/ ]{0,3}") {
            let joined = [first.clone(), second.clone()].concat();
            prop_assert_eq!(evaluate("a", &pattern, &[&first, &second]), evaluate("a", &pattern, &[&joined]));
        }

        #[test]
        fn the_verdict_is_that_of_the_rule_named(rules in any_rules(), name in "[ab]", pattern in "[ab/ ]{0,3}") {
            let (action, rule) = evaluate(&name, &pattern, &[&rules]);
            prop_assert_eq!(rule.map_or(Ask, |rule| rule.action), action);
        }
    }
}
