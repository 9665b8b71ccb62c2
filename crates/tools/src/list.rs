//! The `list` tool: a folder as a tree (`docs/spec/file-tools.md` §9). Models are not told of it; front ends call it
//! for a folder that a person attaches.
//!
//! *Invariant:* shows the first files in path order, and stops looking where no earlier ones can be.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_fs::found::FoundFile;
use toolgate_fs::pattern::Glob;
use toolgate_fs::walk::{Choose, Effort, Visit, Walk};
use toolgate_model::{Ask, Effect, OutputText, ToolOutput, json_map};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool};

const MAX_FILES: usize = 100;
/// Globs that one call may bring along.
const MAX_IGNORE: usize = 256;

/// Folders that are left out at the top of the listed folder.
const SKIPPED_AT_TOP: [&str; 21] = [
    "node_modules",
    "__pycache__",
    ".git",
    "dist",
    "build",
    "target",
    "vendor",
    "bin",
    "obj",
    ".idea",
    ".vscode",
    ".zig-cache",
    "coverage",
    "tmp",
    "temp",
    ".cache",
    "cache",
    "logs",
    ".venv",
    "venv",
    "env",
];
/// Beginnings of names that are left out at any depth.
const SKIPPED_ANYWHERE: [&[u8]; 2] = [b"zig-out", b".coverage"];

/// Shows a folder as a tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct List;

/// The arguments of `list`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The folder to list, absolute or relative to the workspace; leave it out for the workspace
    path: Option<String>,
    /// Glob patterns of what to leave out
    ignore: Option<Vec<String>>,
}

#[async_trait]
impl TypedTool for List {
    type Input = Input;

    const ABOUT: About = About {
        name: "list",
        effects: &[Effect::Reads],
        permissions: &["external_directory", "list"],
        advertised: false,
        properties: Properties::ONLY_LOOKS,
        example: r#"{"path": "."}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("list.md").to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        match Outline::of(input, &["path"]) {
            outline if outline.summary.is_empty() => Outline::new("."),
            outline => outline,
        }
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let filter = Filter::new(input.ignore.as_deref().unwrap_or_default())?;
        let folder = ctx.workspace.resolve(input.path.as_deref().unwrap_or_default());
        let shown = folder.display_path().to_string_lossy().into_owned();
        let ask = Ask {
            always: vec!["*".to_owned()],
            title: shown.clone(),
            metadata: json_map([("path", json!(shown))]),
            ..Ask::new("list", vec![shown.clone()])
        };
        ctx.ask_outside(&folder, true, vec![ask.clone()]).await?;
        ctx.permission.ask(ask).await?;

        let real = folder.real().to_path_buf();
        let cancelled = ctx.cancelled.clone();
        let files = tokio::task::spawn_blocking(move || first_files(&real, &filter, &cancelled))
            .await
            .map_err(|error| ToolError::Internal(error.into()))?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let files = files.map_err(|error| unreadable(&shown, &error))?;
        let count = files.len();
        Ok(ToolOutput {
            title: folder.relative().to_owned(),
            output: OutputText::Text(tree(&shown, &files)),
            metadata: json_map([("count", json!(count)), ("truncated", json!(count >= MAX_FILES))]),
            attachments: Vec::new(),
            result: None,
        })
    }
}

fn unreadable(folder: &str, error: &io::Error) -> ToolError {
    let kind = error.kind();
    ToolError::failed(if kind == io::ErrorKind::NotFound {
        format!("No such file or directory: '{folder}'")
    } else if kind == io::ErrorKind::NotADirectory {
        format!("list path must be a directory: {folder}")
    } else {
        format!("Cannot list '{folder}': {error}")
    })
}

/// What is left out besides what ignore rules say.
struct Filter {
    ignore: Vec<Glob>,
}

impl Filter {
    fn new(ignore: &[String]) -> Result<Self, ToolError> {
        if ignore.len() > MAX_IGNORE {
            let count = ignore.len();
            let text = format!("ignore has {count} patterns, at most {MAX_IGNORE} are allowed");
            return Err(ToolError::failed(text));
        }
        let parsed: Result<Vec<Glob>, _> = ignore.iter().map(|pattern| Glob::parse(pattern)).collect();
        let ignore = parsed.map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(Self { ignore })
    }

    fn keeps(&self, relative: &Path, is_folder: bool) -> bool {
        let name = relative.file_name().unwrap_or_default().as_bytes();
        let is_at_top = !relative.as_os_str().as_bytes().contains(&b'/');
        let is_skipped = SKIPPED_ANYWHERE.iter().any(|start| name.starts_with(start))
            || (is_folder && is_at_top && SKIPPED_AT_TOP.iter().any(|skipped| skipped.as_bytes() == name));
        !is_skipped && !self.ignore.iter().any(|glob| glob.matches(relative, is_folder))
    }
}

impl Choose for Filter {
    fn enters(&self, relative: &Path) -> bool {
        self.keeps(relative, true)
    }

    fn takes(&self, relative: &Path) -> bool {
        self.keeps(relative, false)
    }
}

/// The first files in path order.
#[derive(Default)]
struct First(BTreeSet<PathBuf>);

impl First {
    fn may_take(&self, relative: &Path) -> bool {
        self.0.len() < MAX_FILES || self.0.last().is_some_and(|last| relative < last.as_path())
    }
}

impl Visit for First {
    fn file(&mut self, file: &FoundFile<'_>) {
        if self.may_take(file.relative()) && file.modified().is_some() {
            self.0.insert(file.relative().to_path_buf());
            if self.0.len() > MAX_FILES {
                self.0.pop_last();
            }
        }
    }

    fn enters(&self, relative: &Path) -> bool {
        self.may_take(relative)
    }
}

fn first_files(root: &Path, filter: &Filter, cancelled: &CancellationToken) -> io::Result<Vec<PathBuf>> {
    let walk = Walk {
        root,
        effort: Effort::Ordered,
        cancelled,
    };
    let mut first = BTreeSet::new();
    for part in walk.run(filter, &First::default)? {
        first.extend(part.0);
    }
    Ok(first.into_iter().take(MAX_FILES).collect())
}

/// Draws sorted paths as a tree: in each folder the folders, then the files.
fn tree(shown: &str, files: &[PathBuf]) -> String {
    let mut text = format!("{}/\n", shown.trim_end_matches('/'));
    let parts: Vec<Vec<String>> = files.iter().map(|file| segments(file)).collect();
    draw(&mut text, &parts, 0);
    text
}

fn segments(file: &Path) -> Vec<String> {
    file.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .collect()
}

/// Draws files that share their first `depth` segments. The depth of a path is bounded by the kernel.
fn draw(text: &mut String, files: &[Vec<String>], depth: usize) {
    let indent = "  ".repeat(depth + 1);
    let is_below = |file: &Vec<String>| file.len() > depth + 1;
    for folder in files.chunk_by(|one, other| one.get(depth) == other.get(depth)) {
        if let Some(name) = folder
            .iter()
            .find(|file| is_below(file))
            .and_then(|file| file.get(depth))
        {
            text.push_str(&format!("{indent}{name}/\n"));
            let inside: Vec<Vec<String>> = folder.iter().filter(|file| is_below(file)).cloned().collect();
            draw(text, &inside, depth + 1);
        }
    }
    for name in files
        .iter()
        .filter(|file| !is_below(file))
        .filter_map(|file| file.get(depth))
    {
        text.push_str(&format!("{indent}{name}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search_stage::Stage;

    #[test]
    fn draws_folders_before_files() {
        let files = ["a.md", "b/x/y.rs", "b/z.rs", "c/d", "c.txt"].map(PathBuf::from);
        let expected = "/w/\n  b/\n    x/\n      y.rs\n    z.rs\n  c/\n    d\n  a.md\n  c.txt\n";
        assert_eq!(tree("/w", &files), expected);
    }

    #[tokio::test]
    async fn leaves_out_what_nobody_wants_to_see() {
        let stage = Stage::new();
        for path in [
            "dist/o",
            "src/dist/kept",
            "zig-out-2",
            "a/.coverage.x",
            "bin/b",
            "logs",
            "k.snap",
            "fix/f",
            "kept",
        ] {
            stage.file(path, "x", 0);
        }
        let output = stage.run(&List, r#"{"ignore": ["*.snap", "fix/**"]}"#).await.unwrap();
        let root = stage.root().display();
        assert_eq!(
            stage.text(&output),
            format!("{root}/\n  src/\n    dist/\n      kept\n  kept\n  logs\n")
        );
        assert_eq!(output.metadata["count"], 3);
    }

    #[tokio::test]
    async fn shows_the_first_hundred_in_path_order() {
        let stage = Stage::new();
        for index in (0..150).rev() {
            stage.file(&format!("d{}/f{index:03}", index % 3), "x", 0);
        }
        let output = stage.run(&List, "{}").await.unwrap();
        let text = stage.text(&output);
        assert!(text.contains("  d0/\n    f000\n") && text.contains("f148\n") && !text.contains("  d2/\n"));
        assert_eq!(
            (&output.metadata["count"], &output.metadata["truncated"]),
            (&json!(100), &json!(true))
        );
    }

    #[tokio::test]
    async fn asks_outside_first_and_then_looks() {
        let stage = Stage::new();
        let missing = format!("{}/nowhere", stage.outside().display());
        let error = stage
            .run(&List, &json!({ "path": missing }).to_string())
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), format!("No such file or directory: '{missing}'"));
        assert_eq!(
            stage.asked(),
            [format!("external_directory {missing}/*"), format!("list {missing}")]
        );
    }
}
