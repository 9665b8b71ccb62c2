//! What of a configuration's rules is most likely meant otherwise: rules that a later one makes void, and names of permissions
//! that are nearly those of others.
//!
//! *Invariant:* pure, and only tells: nothing here changes what a rule does.

use toolgate_model::{Action, Rule};

use super::wildcard;

/// The permissions that the service itself asks for.
const KNOWN: [&str; 23] = [
    "bash",
    "batch",
    "codesearch",
    "doom_loop",
    "edit",
    "external_directory",
    "glob",
    "grep",
    "invalid",
    "list",
    "lsp",
    "network",
    "plan_enter",
    "plan_exit",
    "port",
    "question",
    "read",
    "skill",
    "task",
    "todoread",
    "todowrite",
    "webfetch",
    "websearch",
];

/// Longer names are none of a permission that was misspelt.
const MAX_MISSPELT_BYTES: usize = 32;

/// Returns what is odd about the rules of one block, in sentences.
pub fn for_rules(rules: &[Rule]) -> Vec<String> {
    let mut hints = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let later = rules[index + 1..].iter().find(|later| {
            later.pattern == "*"
                && later.action != rule.action
                && wildcard::matches(&rule.permission, &later.permission)
        });
        if let Some(later) = later {
            hints.push(format!(
                "the rule \"{}\": \"{}\": \"{}\" has no effect: the last rule that fits decides, and \"{}\": \"*\": \"{}\" comes \
                 after it; write that one first",
                rule.permission,
                rule.pattern,
                word(rule.action),
                later.permission,
                word(later.action)
            ));
        }
    }
    let mut names: Vec<&str> = rules.iter().map(|rule| rule.permission.as_str()).collect();
    names.dedup();
    for name in names {
        if let Some(meant) = meant(name) {
            hints.push(format!(
                "there is no permission \"{name}\", unless an added tool has that name: did you mean \"{meant}\"?"
            ));
        }
    }
    hints
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}

/// Returns the permission that a name was most likely to be.
fn meant(name: &str) -> Option<&'static str> {
    let is_name = name.len() <= MAX_MISSPELT_BYTES && !name.contains(['*', '?']);
    if !is_name || KNOWN.contains(&name) {
        return None;
    }
    // Tools whose permission has another name, and what other programs call them.
    let spoken = match name.to_lowercase().as_str() {
        "write" | "multiedit" | "apply_patch" | "patch" | "revert" | "files" => Some("edit"),
        "background" => Some("bash"),
        "shell" | "command" | "run" => Some("bash"),
        "ls" => Some("list"),
        "fetch" | "web_fetch" => Some("webfetch"),
        "external_dir" | "external" => Some("external_directory"),
        _ => None,
    };
    spoken.or_else(|| nearest(name, KNOWN))
}

/// Returns the known name that another one was most likely to be: one slip in a short name, two in a longer one.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // A long name costs its square.
    if name.len() > 2 * MAX_MISSPELT_BYTES {
        return None;
    }
    let most = if name.len() < 6 { 1 } else { 2 };
    let lower = name.to_lowercase();
    let mut near: Vec<(usize, &str)> = Vec::new();
    for one in known {
        if one == name {
            return None;
        }
        near.push((slips(&lower, &one.to_lowercase()), one));
    }
    near.into_iter()
        .filter(|(slips, _)| *slips <= most)
        .min()
        .map(|(_, known)| known)
}

/// Counts letters that are missing, too many, wrong, or swapped with the next one.
fn slips(name: &str, known: &str) -> usize {
    let (name, known): (Vec<char>, Vec<char>) = (name.chars().collect(), known.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=known.len()).collect()];
    for (row, letter) in name.iter().enumerate() {
        let above = &rows[row];
        let mut next = vec![row + 1];
        for (column, other) in known.iter().enumerate() {
            let mut least = (above[column] + usize::from(letter != other))
                .min(above[column + 1] + 1)
                .min(next[column] + 1);
            if row > 0 && column > 0 && name[row - 1] == *other && *letter == known[column - 1] {
                least = least.min(rows[row - 1][column - 1] + 1);
            }
            next.push(least);
        }
        rows.push(next);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rules;

    fn check(block: &Value, expected: &[&str]) {
        let hints = for_rules(&rules::from_config(block, None).unwrap());
        assert_eq!(hints.len(), expected.len(), "{block}: {hints:?}");
        for (hint, part) in hints.iter().zip(expected) {
            assert!(hint.contains(part), "{part:?} is not in {hint:?}");
        }
    }

    #[test]
    fn shadowed_rules() {
        check(&json!({"*": "ask", "bash": {"*": "ask", "git *": "allow"}}), &[]);
        check(
            &json!({"bash": {"git *": "allow", "*": "ask"}}),
            &["\"git *\": \"allow\" has no effect"],
        );
        check(
            &json!({"bash": {"rm *": "deny"}, "*": "allow"}),
            &["\"bash\": \"rm *\": \"deny\" has no effect"],
        );
        check(
            &json!({"edit": "deny", "e*": "ask"}),
            &["\"edit\": \"*\": \"deny\" has no effect"],
        );
        check(&json!({"bash": {"a *": "ask", "*": "ask"}}), &[]);
        check(&json!({"bash": {"a *": "ask"}, "edit": "deny"}), &[]);
    }

    #[test]
    fn misspelt_names() {
        for (name, meant) in [
            ("bahs", "bash"),
            ("Bash", "bash"),
            ("shell", "bash"),
            ("edits", "edit"),
            ("external_dirctory", "external_directory"),
            ("webfecth", "webfetch"),
            ("todo_write", "todowrite"),
            ("write", "edit"),
            ("apply_patch", "edit"),
        ] {
            check(&json!({name: "deny"}), &[&format!("did you mean \"{meant}\"")]);
        }
        for name in ["mcp_*", "jira_create", "deploy", "*", "wit"] {
            check(&json!({name: "deny"}), &[]);
        }
    }
}
