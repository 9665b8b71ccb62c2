//! The editor of the person, for a text that is easier written there.
//!
//! *Invariant:* the text is in a file that only its owner can read, in a folder that goes with it.

// Starts the program that the person chose, on their own terminal, and reads the file that it leaves.
#![allow(clippy::disallowed_methods)]

use std::io;

use tempfile::Builder;
use tokio::process::Command;

/// Opens a text in the editor and returns what it is when that has ended.
///
/// # Errors
/// The editor cannot be started or failed, or what it left cannot be read.
pub(super) async fn edit(text: String, is_command: bool) -> io::Result<String> {
    let folder = Builder::new().prefix("toolgate-").tempdir()?;
    let file = folder.path().join(if is_command { "command.sh" } else { "input.json" });
    tokio::fs::write(&file, text).await?;
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok());
    let editor = named.into_iter().find(|editor| !editor.trim().is_empty());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // It may have arguments, as other programs allow it.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&file);
    let status = command.kill_on_drop(true).status().await?;
    if !status.success() {
        return Err(io::Error::other(format!("{editor} ended with {status}")));
    }
    tokio::fs::read_to_string(&file).await
}
