//! One entry in a file of TOML.
//!
//! *Invariant:* every other byte stays, also what others have put into the entry.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

/// Returns the entry of a table, if it is there.
///
/// # Errors
/// Why the text cannot be understood.
pub(super) fn get(text: &str, table: &str, name: &str) -> Result<Option<Value>, String> {
    let document = parse(text)?;
    let Some(servers) = document.get(table) else {
        return Ok(None);
    };
    let servers = servers
        .as_table_like()
        .ok_or_else(|| format!("`{table}` is no table"))?;
    Ok(servers.get(name).map(said))
}

/// Returns the text with an entry in a table, as it is if it has it. Of an entry that is there, only the keys are set that the
/// wanted one has.
///
/// # Errors
/// Why the text cannot be understood.
pub(super) fn set(text: &str, table: &str, name: &str, entry: &Map<String, Value>) -> Result<String, String> {
    let mut document = parse(text)?;
    let servers = document.entry(table).or_insert_with(implicit);
    let servers = servers
        .as_table_like_mut()
        .ok_or_else(|| format!("`{table}` is no table"))?;
    match servers.get_mut(name).and_then(Item::as_table_like_mut) {
        Some(found) => {
            if !merge(found, entry) {
                return Ok(text.to_owned());
            }
        }
        None => {
            let mut table = Table::new();
            merge(&mut table, entry);
            servers.insert(name, Item::Table(table));
        }
    }
    Ok(document.to_string())
}

/// Sets the keys that are wanted, and says whether anything changed. Entries have texts and lists of texts only.
fn merge(table: &mut dyn TableLike, wanted: &Map<String, Value>) -> bool {
    let mut changed = false;
    for (key, value) in wanted {
        let mut new: toml_edit::Value = match value {
            Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Array>().into(),
            Value::String(text) => text.as_str().into(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => continue,
        };
        match table.get_mut(key) {
            Some(old) if said(old) == *value => continue,
            Some(Item::Value(old)) => {
                // The comment behind a value is a part of it.
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
            Some(_) | None => {
                table.insert(key, Item::Value(new));
            }
        }
        changed = true;
    }
    changed
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

/// What an item says, however it is written.
fn said(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return Value::Object(table.iter().map(|(key, item)| (key.to_owned(), said(item))).collect());
    }
    item.as_value().map_or(Value::Null, said_by)
}

fn said_by(value: &toml_edit::Value) -> Value {
    if let Some(values) = value.as_array() {
        return values.iter().map(said_by).collect();
    }
    match (value.as_str(), value.as_bool()) {
        (Some(text), _) => text.into(),
        (None, Some(yes)) => yes.into(),
        // Setup writes no others, so how they are read does not matter.
        (None, None) => value.to_string().trim().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(entry: Value) -> Map<String, Value> {
        serde_json::from_value(entry).unwrap()
    }

    const COMMENTED: &str =
        "# mine\nmodel = \"m\" # as it was\n\n[mcp_servers.other]\ncommand = 'x'\n\n[tui]\ntheme = \"dark\"\n";

    #[test]
    fn an_entry_comes_and_goes_and_nothing_else_changes() {
        let entry = map(json!({"command": "/opt/toolgate", "args": ["mcp", "--agent", "build"]}));
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
    fn what_others_put_into_an_entry_stays() {
        let entry = map(json!({"command": "new", "args": ["mcp"]}));
        let expected = json!({"command": "new", "startup_timeout_sec": "20", "env": {"TOKEN": "t"}, "args": ["mcp"]});
        for text in [
            "[mcp_servers.toolgate]\ncommand = \"old\" # here\nstartup_timeout_sec = 20\n\n[mcp_servers.toolgate.env]\nTOKEN = \"t\" # mine\n",
            "mcp_servers = { toolgate = { command = \"old\", startup_timeout_sec = 20, env = { TOKEN = \"t\" } } } # here, mine\n",
        ] {
            let with = set(text, "mcp_servers", "toolgate", &entry).unwrap();
            let found = get(&with, "mcp_servers", "toolgate").unwrap();
            assert_eq!(found.as_ref(), Some(&expected), "{with}");
            assert!(with.contains("# here") && with.contains("mine\n"), "{with}");
            assert_eq!(set(&with, "mcp_servers", "toolgate", &entry).unwrap(), with);
        }
    }

    #[test]
    fn what_cannot_be_understood_is_told() {
        for text in ["model =", "[mcp_servers", "mcp_servers = 1"] {
            assert!(set(text, "mcp_servers", "toolgate", &Map::new()).is_err(), "{text}");
            assert!(remove(text, "mcp_servers", "toolgate").is_err(), "{text}");
        }
    }
}
