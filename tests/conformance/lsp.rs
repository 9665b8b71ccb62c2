//! What cases say about language servers: the configuration of fake ones, and the messages that reached them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::fake_lsp;

/// Writes what fake servers do below a folder, and returns the part `lsp` of the configuration.
pub(crate) fn configuration(servers: &Map<String, Value>, folder: &Path) -> Result<Map<String, Value>> {
    fs::create_dir_all(folder).context("the folder of the fake language servers")?;
    let program = std::env::current_exe()?;
    let mut part = Map::new();
    for (index, (id, server)) in servers.iter().enumerate() {
        let case = folder.join(format!("{index}.json"));
        fs::write(&case, server.to_string())?;
        let command = json!([program, fake_lsp::COMMAND, case, folder.join("messages")]);
        let mut entry = Map::from_iter([("command".to_owned(), command)]);
        for key in ["extensions", "initialization"] {
            if let Some(value) = server.get(key) {
                entry.insert(key.to_owned(), value.clone());
            }
        }
        part.insert(id.clone(), Value::Object(entry));
    }
    Ok(Map::from_iter([("lsp".to_owned(), Value::Object(part))]))
}

/// Returns the messages that have reached fake servers, in the order of their arrival.
pub(crate) fn messages(folder: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(folder.join("messages")).unwrap_or_default();
    // The last line may be half written: it is there with the next look.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let messages = whole.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    messages.context("the messages of the fake language servers")
}
