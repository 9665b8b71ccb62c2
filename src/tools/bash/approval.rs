//! What is asked before a command line runs: for outside directories first, then for its commands.

use std::path::PathBuf;

use serde_json::json;

use super::Input;
use crate::call::{Ask, json_map};
use crate::tool::{CallContext, ToolError};

/// The working directory: where the shell is put, and how people write that.
pub(super) struct Workdir {
    pub(super) real: PathBuf,
    pub(super) shown: PathBuf,
    /// The real folder if it lies outside the workspace and was approved.
    pub(super) outside: Option<PathBuf>,
}

/// Resolves the working directory, and asks for it if it lies outside.
pub(super) async fn enter(workdir: Option<&str>, ctx: &CallContext) -> Result<Workdir, ToolError> {
    let Some(written) = workdir.filter(|written| !written.is_empty()) else {
        let directory = ctx.workspace.directory().to_path_buf();
        return Ok(Workdir {
            real: directory.clone(),
            shown: directory,
            outside: None,
        });
    };
    let (workspace, text) = (ctx.workspace.clone(), written.to_owned());
    let resolved = blocking(move || workspace.resolve(&text)).await?;
    ctx.ask_outside(&resolved, true).await?;
    let (real, shown) = (resolved.real().to_path_buf(), resolved.shown().to_path_buf());
    let target = real.clone();
    let outside = (!resolved.is_inside()).then(|| real.clone());
    let problem = match blocking(move || std::fs::metadata(target)).await? {
        Ok(metadata) if metadata.is_dir() => return Ok(Workdir { real, shown, outside }),
        Ok(_) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ToolError::Failed(format!(
        "The working directory {} cannot be used: {problem}",
        shown.display()
    )))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ToolError::Internal(error.into()))
}

/// Asks for the command line.
pub(super) async fn ask(input: &Input, workdir: &Workdir, ctx: &CallContext) -> Result<(), ToolError> {
    // An approval is a wildcard, so a line that holds one would approve more than itself.
    let is_offered = !input.command.contains(['*', '?']) && !input.command.trim().is_empty();
    let metadata = json_map([
        ("command", json!(input.command)),
        ("workdir", json!(workdir.shown.to_string_lossy())),
        ("description", json!(input.description)),
    ]);
    ctx.ask(Ask {
        permission: "bash".to_owned(),
        patterns: vec![input.command.clone()],
        always: is_offered.then(|| input.command.clone()).into_iter().collect(),
        title: input.description.clone(),
        metadata,
        ..Ask::default()
    })
    .await?;
    Ok(())
}
