//! The `glob` tool: files by the shape of their path, newest first (`spec/file-tools.md` §7).
//!
//! *Invariant:* asks before it looks at anything; sorts all matches before it cuts, in bounded memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::call::{Ask, Effect, JsonMap, OutputText, ToolOutput, json_map};
use crate::tool::{About, CallContext, Offer, ToolError, TypedTool};
use crate::workspace::newest::Newest;
use crate::workspace::pattern::Selection;
use crate::workspace::walk::{Effort, FoundFile, Visit, Walk, join_shown};

const MAX_RESULTS: usize = 100;
const TRUNCATED: &str =
    "(Results are truncated: showing first 100 results. Consider using a more specific path or pattern.)";

/// Finds files by the shape of their path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glob;

/// The arguments of `glob`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The glob pattern to match files against
    pattern: String,
    /// The folder to search in; leave it out to search the workspace
    path: Option<String>,
}

#[async_trait]
impl TypedTool for Glob {
    type Input = Input;

    const ABOUT: About = About {
        name: "glob",
        effects: &[Effect::Reads],
        permissions: &["glob", "external_directory"],
        advertised: true,
        example: r#"{"pattern": "**/*.rs"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("glob.md").to_owned()
    }

    async fn run(&self, input: Input, ctx: &CallContext) -> Result<ToolOutput, ToolError> {
        let selection = Selection::parse(&input.pattern).map_err(|error| ToolError::failed(error.to_string()))?;
        ctx.ask(ask(&input)).await?;
        let folder = ctx.workspace.resolve(input.path.as_deref().unwrap_or_default());
        ctx.ask_outside(&folder, true).await?;

        let real = folder.real().to_path_buf();
        let cancelled = ctx.cancelled.clone();
        let selection = Arc::new(selection);
        let search = move || newest_files(&real, &selection, &cancelled);
        let found = tokio::task::spawn_blocking(search)
            .await
            .map_err(|error| ToolError::Internal(error.into()))?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let found = found.map_err(|error| unreadable(folder.shown(), &error))?;
        Ok(output(folder.relative(), folder.shown(), found))
    }
}

fn ask(input: &Input) -> Ask {
    let mut metadata: JsonMap = json_map([("pattern", json!(input.pattern))]);
    if let Some(path) = &input.path {
        metadata.insert("path".to_owned(), json!(path));
    }
    Ask {
        permission: "glob".to_owned(),
        patterns: vec![input.pattern.clone()],
        always: vec!["*".to_owned()],
        title: input.pattern.clone(),
        metadata,
    }
}

fn unreadable(folder: &Path, error: &io::Error) -> ToolError {
    let folder = folder.display();
    ToolError::failed(match error.kind() {
        io::ErrorKind::NotFound => format!("No such file or directory: '{folder}'"),
        io::ErrorKind::NotADirectory => format!("glob path must be a directory: {folder}"),
        _ => format!("Cannot search in '{folder}': {error}"),
    })
}

struct Collect(Newest);

impl Visit for Collect {
    fn file(&mut self, file: &FoundFile<'_>) {
        if let Some(modified) = file.modified() {
            self.0.push(modified, file.relative());
        }
    }
}

fn newest_files(root: &Path, selection: &Selection, cancelled: &CancellationToken) -> io::Result<Newest> {
    let walk = Walk {
        root,
        effort: Effort::Light,
        cancelled,
    };
    let mut newest = Newest::new(MAX_RESULTS);
    for part in walk.run(selection, &|| Collect(Newest::new(MAX_RESULTS)))? {
        newest.merge(part.0);
    }
    Ok(newest)
}

fn output(title: &str, shown: &Path, found: Newest) -> ToolOutput {
    let truncated = found.seen() > MAX_RESULTS as u64;
    let files: Vec<PathBuf> = found.into_sorted();
    let mut lines: Vec<String> = files.iter().map(|relative| join_shown(shown, relative)).collect();
    if files.is_empty() {
        lines.push("No files found".to_owned());
    }
    if truncated {
        lines.extend([String::new(), TRUNCATED.to_owned()]);
    }
    ToolOutput {
        title: title.to_owned(),
        output: OutputText::Text(lines.join("\n")),
        metadata: json_map([("count", json!(files.len())), ("truncated", json!(truncated))]),
        attachments: Vec::new(),
    }
}
