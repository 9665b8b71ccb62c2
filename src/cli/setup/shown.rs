//! A change of an entry as a person is shown it.
//!
//! *Invariant:* of the file nothing else is shown, and of the entry no value that Toolgate did not put there: the files and the
//! entries of clients have tokens in them.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value};

/// The keys whose values setup writes, and that are no tables.
const SHOWN: [&str; 4] = ["type", "command", "args", "enabled"];

/// Returns what becomes of the entry at a place, such as `mcpServers.toolgate`: without `new` it is taken out.
pub(super) fn change(path: &Path, place: &str, old: Option<&Value>, new: Option<&Map<String, Value>>) -> String {
    let path = path.display();
    let mut text = format!("--- {path}\n+++ {path}\n@@ {place} @@\n");
    match (old, new) {
        (Some(Value::Object(old)), Some(new)) => set(&mut text, "", old, new),
        (old, Some(new)) => {
            if old.is_some() {
                text.push_str("-(not a valid entry)\n");
            }
            set(&mut text, "", &Map::new(), new);
        }
        (Some(Value::Object(old)), None) => {
            for (key, value) in old {
                line(&mut text, '-', key, SHOWN.contains(&key.as_str()).then_some(value));
            }
        }
        (_, None) => text.push_str("-(not a valid entry)\n"),
    }
    text
}

/// Only what is wanted is compared: the rest stays.
fn set(text: &mut String, within: &str, old: &Map<String, Value>, new: &Map<String, Value>) {
    for (key, wanted) in new {
        let name = format!("{within}{key}");
        match (old.get(key), wanted) {
            (Some(found), wanted) if found == wanted => {}
            (Some(Value::Object(found)), Value::Object(wanted)) => set(text, &format!("{name}."), found, wanted),
            (None, Value::Object(wanted)) => set(text, &format!("{name}."), &Map::new(), wanted),
            (found, wanted) => {
                if let Some(found) = found {
                    line(text, '-', &name, Some(found));
                }
                line(text, '+', &name, Some(wanted));
            }
        }
    }
}

fn line(text: &mut String, sign: char, name: &str, value: Option<&Value>) {
    let _ = match value.filter(|value| !value.is_object()) {
        Some(value) => writeln!(text, "{sign}{name} = {value}"),
        None => writeln!(text, "{sign}{name} (its value is not shown)"),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(old: Option<Value>, new: Option<Value>) -> Vec<String> {
        let new = new.map(|new| serde_json::from_value(new).unwrap());
        let text = change(Path::new("/home/me/f.json"), "mcp.toolgate", old.as_ref(), new.as_ref());
        let head = "--- /home/me/f.json\n+++ /home/me/f.json\n@@ mcp.toolgate @@\n";
        text.strip_prefix(head).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_changes_is_shown_and_nothing_else() {
        let entry = json!({"command": "new", "args": ["mcp"], "environment": {"OFF": "1"}});
        let whole = ["+command = \"new\"", "+args = [\"mcp\"]", "+environment.OFF = \"1\""];
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        let mut expected = whole.map(str::to_owned).to_vec();
        expected.sort();
        assert_eq!(sorted(lines(None, Some(entry.clone()))), expected);
        let old = json!({"command": "old", "args": ["mcp"], "environment": {"OFF": "1", "TOKEN": "secret"}});
        assert_eq!(
            lines(Some(old.clone()), Some(entry.clone())),
            ["-command = \"old\"", "+command = \"new\""]
        );
        let removed = lines(Some(old), None);
        assert!(
            removed.contains(&"-environment (its value is not shown)".to_owned()),
            "{removed:?}"
        );
        let older = json!({"command": {"path": "x", "env": {"TOKEN": "secret"}}});
        let shown = [
            lines(Some(older), Some(entry.clone())),
            lines(Some(json!(["secret"])), Some(entry)),
            lines(Some(json!("secret")), None),
            removed,
        ]
        .concat()
        .join("\n");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
