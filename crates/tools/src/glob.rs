//! The `glob` tool: files by the shape of their path, newest first (`docs/spec/file-tools.md` §7).
//!
//! *Invariant:* asks before it looks at anything; sorts all matches before it cuts, in bounded memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_fs::found::FoundFile;
use toolgate_fs::newest::Newest;
use toolgate_fs::pattern::Selection;
use toolgate_fs::walk::{Effort, Visit, Walk, join_shown};
use toolgate_model::{Ask, Effect, JsonMap, OutputText, SearchResult, ToolOutput, ToolResult, json_map};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, outside};

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
        properties: Properties::ONLY_LOOKS,
        example: r#"{"pattern": "**/*.rs"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("glob.md").to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["pattern", "path"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let selection = Selection::parse(&input.pattern).map_err(|error| ToolError::failed(error.to_string()))?;
        let folder = || ctx.workspace.resolve(input.path.as_deref().unwrap_or_default());
        let then = outside(&folder(), true).into_iter().collect();
        ctx.permission.ask(Ask { then, ..ask(&input) }).await?;
        let folder = folder();
        ctx.ask_outside(&folder, true, Vec::new()).await?;

        let real = folder.real().to_path_buf();
        let cancelled = ctx.cancelled.clone();
        let selection = Arc::new(selection);
        let found = tokio::task::spawn_blocking(move || newest_files(&real, &selection, &cancelled))
            .await
            .map_err(|error| ToolError::Internal(error.into()))?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let found = found.map_err(|error| unreadable(folder.display_path(), &error))?;
        Ok(output(folder.relative(), folder.display_path(), found))
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
        ..Ask::default()
    }
}

fn unreadable(folder: &Path, error: &io::Error) -> ToolError {
    let folder = folder.display();
    let kind = error.kind();
    ToolError::failed(if kind == io::ErrorKind::NotFound {
        format!("No such file or directory: '{folder}'")
    } else if kind == io::ErrorKind::NotADirectory {
        format!("glob path must be a directory: {folder}")
    } else {
        format!("Cannot search in '{folder}': {error}")
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
    let result = SearchResult {
        matches: None,
        files: files.len() as u64,
        truncated,
    };
    ToolOutput {
        title: title.to_owned(),
        output: OutputText::Text(lines.join("\n")),
        metadata: json_map([("count", json!(files.len())), ("truncated", json!(truncated))]),
        attachments: Vec::new(),
        result: Some(ToolResult::Search(result)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search_stage::Stage;

    async fn check(stage: &Stage, pattern: &str, expected: &[&str]) {
        let output = stage
            .run(&Glob, &json!({ "pattern": pattern }).to_string())
            .await
            .unwrap();
        let mut found: Vec<String> = stage.text(&output).lines().map(str::to_owned).collect();
        found.sort();
        let mut expected: Vec<String> = expected
            .iter()
            .map(|path| join_shown(stage.root(), Path::new(path)))
            .collect();
        if expected.is_empty() {
            expected.push("No files found".to_owned());
        }
        expected.sort();
        assert_eq!(found, expected, "{pattern}");
    }

    #[tokio::test]
    async fn respects_ignore_rules_unless_the_file_is_named() {
        let stage = Stage::new();
        stage.folder(".git/info");
        stage.file(".git/info/exclude", "*.tmp\n", 0);
        stage.file(".gitignore", "*.log\nout/\n!kept.log\n", 0);
        stage.file(".ignore", "hidden.txt\n", 0);
        stage.file("sub/.gitignore", "!sub.log\n", 0);
        for path in [
            "a.log",
            "kept.log",
            "sub/sub.log",
            "sub/b.log",
            "out/c.log",
            "x.tmp",
            "hidden.txt",
            ".dot/d.txt",
        ] {
            stage.file(path, "x", 0);
        }
        check(&stage, "*.log", &["kept.log", "sub/sub.log"]).await;
        check(&stage, "b.log", &["sub/b.log"]).await;
        check(&stage, "**/a.log", &["a.log"]).await;
        check(&stage, "c.log", &[]).await;
        check(&stage, "out", &[]).await;
        check(&stage, "*.tmp", &[]).await;
        check(&stage, "*.txt", &[".dot/d.txt"]).await;
        check(&stage, "exclude", &[]).await;
        check(&stage, "**/exclude", &[]).await;
        check(&stage, "!**/{.*,*.log}", &[]).await;
    }

    #[tokio::test]
    async fn git_rules_need_a_repository() {
        let stage = Stage::new();
        stage.file(".gitignore", "*.log\n", 0);
        stage.file("a.log", "x", 0);
        check(&stage, "*.log", &["a.log"]).await;
        stage.folder("inner/.git");
        stage.file("inner/.gitignore", "b.log\n", 0);
        stage.file("inner/a.log", "x", 0);
        stage.file("inner/b.log", "x", 0);
        check(&stage, "*.log", &["a.log", "inner/a.log"]).await;
    }

    #[tokio::test]
    async fn lists_linked_files_and_stays_out_of_linked_folders() {
        let stage = Stage::new();
        stage.file("real/a.txt", "x", 0);
        stage.link("real/a.txt", "link.txt");
        stage.link("real", "folder");
        stage.link(".", "loop");
        stage.link("nowhere", "dangling.txt");
        stage.pipe("pipe.txt");
        stage.pipe("real/.gitignore");
        stage.pipe(".ignore");
        check(&stage, "*.txt", &["real/a.txt", "link.txt"]).await;
        check(&stage, "folder", &[]).await;
        check(&stage, "pipe.txt", &[]).await;
    }

    #[tokio::test]
    async fn orders_all_matches_before_it_cuts() {
        let stage = Stage::new();
        for index in 0..120_u64 {
            stage.file(&format!("d{}/f{index:03}.txt", index % 7), "x", index + 1);
        }
        let output = stage.run(&Glob, r#"{"pattern": "*.txt"}"#).await.unwrap();
        let text = stage.text(&output);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 102);
        for (index, line) in lines.iter().take(100).enumerate() {
            assert!(line.ends_with(&format!("/f{index:03}.txt")), "{line}");
        }
        assert_eq!(lines[100..], ["", TRUNCATED]);
        assert_eq!(
            (&output.metadata["count"], &output.metadata["truncated"]),
            (&json!(100), &json!(true))
        );
    }

    #[tokio::test]
    async fn asks_for_the_tool_then_for_the_folder_then_looks() {
        let stage = Stage::new();
        let missing = format!("{}/nowhere", stage.outside().display());
        let input = json!({ "pattern": "*", "path": missing }).to_string();
        let error = stage.run(&Glob, &input).await.unwrap_err();
        assert_eq!(error.to_string(), format!("No such file or directory: '{missing}'"));
        assert_eq!(
            stage.asked(),
            ["glob *".to_owned(), format!("external_directory {missing}/*")]
        );
        stage.file("a.txt", "x", 0);
        let error = stage
            .run(&Glob, r#"{"pattern": "*", "path": "a.txt"}"#)
            .await
            .unwrap_err();
        assert!(
            error.to_string().starts_with("glob path must be a directory"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn stops_when_cancelled() {
        let stage = Stage::new();
        stage.cancel();
        let error = stage.run(&Glob, r#"{"pattern": "*"}"#).await.unwrap_err();
        assert!(matches!(error, ToolError::Cancelled));
    }
}
