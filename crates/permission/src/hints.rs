//! What of a configuration's rules is most likely meant otherwise: rules that a later one makes void, and names of permissions
//! that nothing asks for.
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

/// Returns which rules of one block have no effect, in sentences.
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
    hints
}

/// The name, or the pattern of names, of a permission that the service itself does not ask for. A tool that was added may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedName {
    name: String,
    /// What it was most likely to be.
    meant: Option<&'static str>,
    /// What it is written in, if that is known.
    places: Vec<String>,
}

impl AddedName {
    /// Says whether it stands for a permission.
    pub fn stands_for(&self, permission: &str) -> bool {
        wildcard::matches(permission, &self.name)
    }

    /// Returns the same as it is written in these files or variables.
    #[must_use]
    pub fn written_in(self, places: Vec<String>) -> Self {
        Self { places, ..self }
    }

    /// Returns the name, or the pattern.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what is said of it while no tool asks for it. Where tools may still come that do, only what is nearly another
    /// name is odd.
    pub fn oddity(&self, may_come: bool) -> Option<String> {
        let Self { name, meant, places } = self;
        let places = match places.as_slice() {
            [] => String::new(),
            places => format!("{}: ", places.join(", ")),
        };
        match meant {
            Some(meant) => Some(format!(
                "{places}there is no permission \"{name}\", unless an added tool has that name: did you mean \"{meant}\"?"
            )),
            None if may_come => None,
            None => Some(format!(
                "{places}there is no permission \"{name}\": the rule has no effect unless a tool of that name is added"
            )),
        }
    }
}

/// Returns the names in rules that the service itself does not ask for, each once.
pub fn added_names<'r>(rules: impl IntoIterator<Item = &'r Rule>) -> Vec<AddedName> {
    let mut added: Vec<AddedName> = Vec::new();
    for rule in rules {
        let name = &rule.permission;
        let is_known = || KNOWN.iter().any(|known| wildcard::matches(known, name));
        if added.iter().any(|known| known.name == *name) || is_known() {
            continue;
        }
        added.push(AddedName {
            name: name.clone(),
            meant: meant(name),
            places: Vec::new(),
        });
    }
    added
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

    fn oddities(block: &Value, may_come: bool) -> Vec<String> {
        let rules = rules::from_config(block, None).unwrap();
        let added = added_names(&rules);
        added.iter().filter_map(|name| name.oddity(may_come)).collect()
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
            for may_come in [true, false] {
                let told = oddities(&json!({name: {"*": "deny", "a": "ask"}}), may_come);
                assert_eq!(told.len(), 1, "{name}: {told:?}");
                assert!(told[0].contains(&format!("did you mean \"{meant}\"")), "{told:?}");
            }
        }
    }

    #[test]
    fn names_of_added_tools_are_odd_only_where_nothing_can_be_added() {
        for name in ["mcp_*", "jira_create", "deploy", "wit"] {
            let block = json!({name: "deny"});
            assert!(oddities(&block, true).is_empty(), "{name}");
            let told = oddities(&block, false);
            assert!(told[0].contains("the rule has no effect unless"), "{told:?}");
        }
        for name in ["*", "bash", "web*", "network", "e?it"] {
            assert!(oddities(&json!({name: "deny"}), false).is_empty(), "{name}");
        }
        let told = added_names(&rules::from_config(&json!({"bahs": "deny"}), None).unwrap());
        let told = told[0].clone().written_in(vec!["/w/a.md".to_owned()]).oddity(true);
        assert!(told.unwrap().starts_with("/w/a.md: there is no permission \"bahs\""));
        let names = added_names(&rules::from_config(&json!({"jira_*": "ask", "bahs": "deny"}), None).unwrap());
        assert!(names[0].stands_for("jira_create") && !names[0].stands_for("bash"));
        assert!(names[1].stands_for("bahs"));
    }
}
