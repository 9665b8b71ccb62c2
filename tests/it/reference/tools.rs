//! The page about tools has every built-in tool. What the tools say of themselves stands between two marks and is written
//! by this test; people write the rest.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use regex::Regex;
use serde_json::Value;
use toolgate_model::{Definition, Effect};

use super::{compare, read};
use crate::builtins::builtins;
use crate::support::test;

const PAGE: &str = "docs/reference/tools.md";

fn effect(effect: &Effect) -> &'static str {
    match effect {
        Effect::Reads => "reads files",
        Effect::Writes => "writes files",
        Effect::RunsPrograms => "runs programs",
        Effect::Network => "uses the network",
        Effect::AsksUser => "asks a person",
    }
}

/// Returns the kind of value that a schema takes.
fn kind(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    let name = match (&schema["type"], &schema["anyOf"]) {
        (Value::String(name), _) => name.clone(),
        (Value::Array(names), _) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        (_, Value::Array(variants)) => variants.iter().map(kind).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    };
    match name.as_str() {
        "array" => format!("list of {}", kind(&schema["items"])),
        _ => name,
    }
}

/// Writes a text into a cell.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

/// Adds the properties of a schema, and those inside lists and objects.
fn arguments(text: &mut String, schema: &Value, before: &str) {
    let required: BTreeSet<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let must = if required.contains(name.as_str()) {
            "required"
        } else {
            ""
        };
        let description = property["description"].as_str().unwrap_or_default();
        let _ = writeln!(
            text,
            "| `{before}{name}` | {} | {must} | {} |",
            cell(&kind(property)),
            cell(description)
        );
        arguments(text, &property["items"], &format!("{before}{name}[]."));
        arguments(text, property, &format!("{before}{name}."));
    }
}

/// Returns what a tool says of itself.
fn described(definition: &Definition) -> String {
    let line = definition.description.trim().lines().next().unwrap_or_default();
    // The rest may depend on the agent, and is for models.
    let sentence = line.split_inclusive(". ").next().unwrap_or_default().trim_end();
    let mut text = format!("{sentence}\n\n");
    let effects: Vec<&str> = definition.effects.iter().map(effect).collect();
    let permissions: Vec<String> = definition.permissions.iter().map(|name| format!("`{name}`")).collect();
    let or_none = |list: Vec<String>| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        }
    };
    let effects = or_none(effects.into_iter().map(str::to_owned).collect());
    let _ = writeln!(text, "Effects: {effects}. Permissions: {}.", or_none(permissions));
    let mut table = String::new();
    arguments(&mut table, &definition.input_schema, "");
    if !table.is_empty() {
        let _ = write!(text, "\n| argument | type | | meaning |\n|---|---|---|---|\n{table}");
    }
    text
}

#[test]
fn the_page_of_tools_says_what_they_say() {
    test(async {
        let tools = builtins().await;
        let page = read(PAGE);
        let part = Regex::new(r"(?s)<!-- begin (\w+) -->\n.*?<!-- end -->").unwrap();
        let found: BTreeSet<String> = part.captures_iter(&page).map(|part| part[1].to_owned()).collect();
        let known: BTreeSet<String> = tools.iter().map(|(_, tool)| tool.name.clone()).collect();
        assert_eq!(found, known, "the tools of the page and of the program");
        let written = part.replace_all(&page, |part: &regex::Captures<'_>| {
            let (_, definition) = tools.iter().find(|(_, tool)| tool.name == part[1]).unwrap();
            format!("<!-- begin {} -->\n{}\n<!-- end -->", &part[1], described(definition))
        });
        compare(PAGE, &written);
    });
}
