//! One entry in a file of JSON with comments.
//!
//! *Invariant:* every other byte stays, also what others have put into the entry.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

/// Comments and trailing commas are all that clients take beyond JSON.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Returns the entry of a table, if it is there.
///
/// # Errors
/// Why the text cannot be understood.
pub(super) fn get(text: &str, table: &str, name: &str) -> Result<Option<Value>, String> {
    let (_, object) = parse(text)?;
    let Some(found) = object.get(table) else {
        return Ok(None);
    };
    let servers = found.object_value().ok_or_else(|| format!("`{table}` is no object"))?;
    Ok(servers.get(name).and_then(|found| said(&found)))
}

/// Returns the text with an entry in a table, as it is if it has it. Of an entry that is there, only the keys are set that the
/// wanted one has.
///
/// # Errors
/// Why the text cannot be understood.
pub(super) fn set(text: &str, table: &str, name: &str, entry: &Map<String, Value>) -> Result<String, String> {
    let (root, object) = parse(text)?;
    let servers = match object.get(table) {
        Some(found) => found.object_value().ok_or_else(|| format!("`{table}` is no object"))?,
        None => {
            object.append(table, CstInputValue::Object(Vec::new()));
            object.object_value_or_set(table)
        }
    };
    if merge(&servers, name, &Value::Object(entry.clone())) {
        return Ok(ended(root.to_string()));
    }
    Ok(text.to_owned())
}

/// Sets a key, of an object that is there only the keys that are wanted; says whether anything changed.
fn merge(object: &CstObject, key: &str, wanted: &Value) -> bool {
    let Some(found) = object.get(key) else {
        object.append(key, input(wanted));
        return true;
    };
    match (found.object_value(), wanted) {
        (Some(inner), Value::Object(wanted)) => wanted
            .iter()
            .fold(false, |changed, (key, value)| merge(&inner, key, value) || changed),
        _ if said(&found).as_ref() == Some(wanted) => false,
        _ => {
            found.set_value(input(wanted));
            true
        }
    }
}

/// Returns the text without an entry of a table, and without the table if nothing else is in it.
///
/// # Errors
/// Why the text cannot be understood.
pub(super) fn remove(text: &str, table: &str, name: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let (root, object) = parse(text)?;
    let Some(found) = object.get(table) else {
        return Ok(text.to_owned());
    };
    let servers = found.object_value().ok_or_else(|| format!("`{table}` is no object"))?;
    let Some(entry) = servers.get(name) else {
        return Ok(text.to_owned());
    };
    entry.remove();
    let is_commented = servers.children().iter().any(|child| child.as_comment().is_some());
    if servers.properties().is_empty() && !is_commented {
        found.remove();
    }
    Ok(ended(root.to_string()))
}

fn parse(text: &str) -> Result<(CstRootNode, CstObject), String> {
    let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| error.to_string())?;
    let object = root.object_value_or_create().ok_or("it is no object")?;
    Ok((root, object))
}

fn said(found: &CstObjectProp) -> Option<Value> {
    jsonc_parser::parse_to_serde_value(&found.value()?.to_string(), &OPTIONS).ok()
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(values) => CstInputValue::Object(
            values
                .iter()
                .map(|(name, value)| (name.clone(), input(value)))
                .collect(),
        ),
    }
}

fn ended(text: String) -> String {
    if text.ends_with('\n') { text } else { text + "\n" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(entry: Value) -> Map<String, Value> {
        serde_json::from_value(entry).unwrap()
    }

    const COMMENTED: &str = "// mine\n{\n  \"theme\": \"dark\", // as it was\n  \"mcpServers\": {\n    /* another */\n    \"other\": {\"command\": \"x\",},\n  },\n}\n";

    #[test]
    fn an_entry_comes_and_goes_and_nothing_else_changes() {
        let entry = map(json!({"command": "toolgate", "args": ["mcp"]}));
        for text in [
            "",
            "{}",
            "{}\n",
            "{\"a\": 1}\n",
            "{\n\t\"a\": [1, 2]\n}\n",
            "{\"mcpServers\": {}}\n",
            COMMENTED,
        ] {
            let with = set(text, "mcpServers", "toolgate", &entry).unwrap();
            let value: Value = jsonc_parser::parse_to_serde_value(&with, &OPTIONS).unwrap();
            assert_eq!(value["mcpServers"]["toolgate"], Value::Object(entry.clone()), "{with}");
            assert_eq!(
                get(&with, "mcpServers", "toolgate").unwrap(),
                Some(Value::Object(entry.clone()))
            );
            assert_eq!(
                set(&with, "mcpServers", "toolgate", &entry).unwrap(),
                with,
                "once is enough"
            );
            let without = remove(&with, "mcpServers", "toolgate").unwrap();
            let left: Value = jsonc_parser::parse_to_serde_value(&without, &OPTIONS).unwrap();
            let before: Value =
                jsonc_parser::parse_to_serde_value(if text.is_empty() { "{}" } else { text }, &OPTIONS).unwrap();
            let empty = |value: &Value| value["mcpServers"].as_object().is_none_or(serde_json::Map::is_empty);
            assert!(
                left == before || empty(&before) && empty(&left),
                "{text:?} became {without:?}"
            );
        }
        let with = set(COMMENTED, "mcpServers", "toolgate", &entry).unwrap();
        for kept in [
            "// mine\n",
            "// as it was\n",
            "/* another */\n",
            "\"other\": {\"command\": \"x\",},",
        ] {
            assert!(with.contains(kept), "{kept} is not in {with}");
        }
        assert_eq!(remove(&with, "mcpServers", "toolgate").unwrap(), COMMENTED);
    }

    #[test]
    fn an_entry_is_replaced() {
        let text = "{\n  \"mcpServers\": {\n    \"toolgate\": {\"command\": \"old\"},\n    \"other\": 1\n  }\n}\n";
        let with = set(text, "mcpServers", "toolgate", &map(json!({"command": "new"}))).unwrap();
        assert!(
            with.contains("\"new\"") && !with.contains("old") && with.contains("\"other\": 1"),
            "{with}"
        );
    }

    #[test]
    fn what_others_put_into_an_entry_stays() {
        let text = "{\"mcpServers\": {\n  \"toolgate\": {\n    \"command\": \"old\", // here\n    \"env\": {\"TOKEN\": \"t\", \"OFF\": \"0\"},\n    \"trust\": true,\n    \"timeout\": 5\n  }\n}}\n";
        let entry = map(json!({"command": "new", "args": ["mcp"], "env": {"OFF": "1"}}));
        let with = set(text, "mcpServers", "toolgate", &entry).unwrap();
        let expected =
            json!({"command": "new", "env": {"TOKEN": "t", "OFF": "1"}, "trust": true, "timeout": 5, "args": ["mcp"]});
        assert_eq!(get(&with, "mcpServers", "toolgate").unwrap(), Some(expected), "{with}");
        assert!(with.contains("// here"), "{with}");
        assert_eq!(set(&with, "mcpServers", "toolgate", &entry).unwrap(), with);
        let unended = with.trim_end();
        assert_eq!(set(unended, "mcpServers", "toolgate", &entry).unwrap(), unended);
    }

    #[test]
    fn what_cannot_be_understood_is_told() {
        for text in [
            "{",
            "{\"a\": 1 \"b\": 2}",
            "[]",
            "{\"mcpServers\": []}",
            "{'a': 1}",
            "yes",
        ] {
            assert!(set(text, "mcpServers", "toolgate", &Map::new()).is_err(), "{text}");
            assert!(remove(text, "mcpServers", "toolgate").is_err(), "{text}");
        }
        assert_eq!(remove("", "mcpServers", "toolgate").as_deref(), Ok(""));
    }
}
