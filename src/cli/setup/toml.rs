//! One entry in a file of TOML.
//!
//! *Invariant:* every other byte stays.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table};

/// Returns the text with an entry in a table, as it is if it has it.
///
/// # Errors
/// Why the text cannot be understood.
pub(super) fn set(text: &str, table: &str, name: &str, entry: &Value) -> Result<String, String> {
    let mut document = parse(text)?;
    let servers = document.entry(table).or_insert_with(implicit);
    let servers = servers
        .as_table_like_mut()
        .ok_or_else(|| format!("`{table}` is no table"))?;
    let wanted = Item::Table(written(entry));
    if servers.get(name).is_some_and(|found| said(found) == said(&wanted)) {
        return Ok(text.to_owned());
    }
    servers.insert(name, wanted);
    Ok(document.to_string())
}

/// Returns the text without an entry of a table, and without the table if nothing else is in it.
///
/// # Errors
/// Why the text cannot be understood.
pub(super) fn remove(text: &str, table: &str, name: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let Some(servers) = document.get_mut(table) else {
        return Ok(text.to_owned());
    };
    let servers = servers
        .as_table_like_mut()
        .ok_or_else(|| format!("`{table}` is no table"))?;
    if servers.remove(name).is_none() {
        return Ok(text.to_owned());
    }
    if servers.is_empty() {
        document.remove(table);
    }
    Ok(document.to_string())
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>()
        .map_err(|error| error.to_string().trim_end().to_owned())
}

/// A table that has no line of its own.
fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Entries have texts and lists of texts only.
fn written(entry: &Value) -> Table {
    let mut table = Table::new();
    for (name, value) in entry.as_object().into_iter().flatten() {
        let item = match value {
            Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Array>().into(),
            Value::String(text) => text.as_str().into(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => continue,
        };
        table.insert(name, Item::Value(item));
    }
    table
}

/// What an entry says, however it is written.
fn said(item: &Item) -> Option<Vec<(String, Value)>> {
    let table = item.as_table_like()?;
    let mut pairs: Vec<(String, Value)> = Vec::new();
    for (name, item) in table.iter() {
        let value = match (item.as_str(), item.as_array()) {
            (Some(text), _) => Value::from(text),
            (None, Some(values)) => {
                let texts: Option<Vec<Value>> = values.iter().map(|value| value.as_str().map(Value::from)).collect();
                Value::Array(texts?)
            }
            (None, None) => return None,
        };
        pairs.push((name.to_owned(), value));
    }
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COMMENTED: &str =
        "# mine\nmodel = \"m\" # as it was\n\n[mcp_servers.other]\ncommand = 'x'\n\n[tui]\ntheme = \"dark\"\n";

    #[test]
    fn an_entry_comes_and_goes_and_nothing_else_changes() {
        let entry = json!({"command": "/opt/toolgate", "args": ["mcp", "--agent", "build"]});
        for text in ["", "model = \"m\"\n", COMMENTED] {
            let with = set(text, "mcp_servers", "toolgate", &entry).unwrap();
            let read = with.parse::<DocumentMut>().unwrap();
            assert_eq!(
                read["mcp_servers"]["toolgate"]["command"].as_str(),
                Some("/opt/toolgate"),
                "{with}"
            );
            assert!(
                with.contains("[mcp_servers.toolgate]\n") && !with.contains("[mcp_servers]\n"),
                "{with}"
            );
            assert_eq!(
                set(&with, "mcp_servers", "toolgate", &entry).unwrap(),
                with,
                "once is enough"
            );
            assert_eq!(remove(&with, "mcp_servers", "toolgate").unwrap(), text);
        }
        let inline = "mcp_servers = { other = { command = \"x\" } } # short\n";
        let with = set(inline, "mcp_servers", "toolgate", &entry).unwrap();
        assert!(
            with.contains("other = { command = \"x\" }") && with.contains("# short"),
            "{with}"
        );
        with.parse::<DocumentMut>().unwrap();
        let changed = set(
            "[mcp_servers.toolgate]\ncommand = \"old\"\n",
            "mcp_servers",
            "toolgate",
            &entry,
        )
        .unwrap();
        assert!(!changed.contains("old"), "{changed}");
    }

    #[test]
    fn what_cannot_be_understood_is_told() {
        for text in ["model =", "[mcp_servers", "mcp_servers = 1"] {
            assert!(set(text, "mcp_servers", "toolgate", &json!({})).is_err(), "{text}");
            assert!(remove(text, "mcp_servers", "toolgate").is_err(), "{text}");
        }
    }
}
