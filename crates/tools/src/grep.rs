//! The `grep` tool: lines that match a regular expression, newest file first (`docs/spec/file-tools.md` §8).
//!
//! *Invariant:* asks before it looks at anything; follows no link out of what was allowed; shows no line of a file that rules
//! hold back from being read; keeps no more matches than can be shown, and stops reading where the answer can no longer change.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_fs::found::{FoundFile, OpenFile, is_folder};
use toolgate_fs::newest::{Modified, Rank};
use toolgate_fs::path::is_below;
use toolgate_fs::pattern::Selection;
use toolgate_fs::search::{Expression, FileMatches, FileSearcher};
use toolgate_fs::walk::{Effort, Visit, Walk, join_shown};
use toolgate_fs::{ResolvedPath, Workspace};
use toolgate_model::{Action, Ask, Effect, JsonMap, OutputText, SearchResult, ToolOutput, ToolResult, json_map};
use toolgate_tool::{
    About, Offer, Outline, PermissionHandle, Properties, ToolContext, ToolError, TypedTool, blocking, outside,
};

const READ: &str = "read";

const MAX_MATCHES: usize = 100;
const TRUNCATED: &str = "(Results are truncated. Consider using a more specific path or pattern.)";
const INACCESSIBLE: &str = "(Some paths were inaccessible and skipped)";
const LEFT_OUT: &str = "(Files that may not be read without asking were left out)";

/// Searches the contents of files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grep;

/// The arguments of `grep`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The regular expression to search for
    pattern: String,
    /// The folder or file to search in; leave it out to search the workspace
    path: Option<String>,
    /// A glob that files must match, such as "*.js" or "*.{ts,tsx}"
    include: Option<String>,
}

#[async_trait]
impl TypedTool for Grep {
    type Input = Input;

    const ABOUT: About = About {
        name: "grep",
        effects: &[Effect::Reads],
        permissions: &["grep", "read", "external_directory"],
        advertised: true,
        properties: Properties::ONLY_LOOKS,
        example: r#"{"pattern": "fn \\w+", "include": "*.rs"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("grep.md").to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["pattern", "path"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if input.pattern.is_empty() {
            return Err(ToolError::failed("pattern is required"));
        }
        let pattern = input.pattern.clone();
        let expression = blocking(move || Expression::compile(&pattern)).await?;
        let expression = expression.map_err(|error| ToolError::failed(error.to_string()))?;
        // Models send an empty text for an argument that they do not want to give.
        let include = input
            .include
            .as_deref()
            .filter(|include| !include.is_empty())
            .unwrap_or("**");
        let include = Selection::parse(include).map_err(|error| ToolError::failed(format!("include: {error}")))?;
        let (target, is_folder) = locate(&input, ctx).await?;
        let then = outside(&target, is_folder).into_iter();
        let then = then.chain(read(&target, is_folder, ctx)).collect();
        ctx.permission.ask(Ask { then, ..ask(&input) }).await?;
        let (target, is_folder) = locate(&input, ctx).await?;
        ctx.ask_outside(&target, is_folder, Vec::new()).await?;
        if let Some(ask) = read(&target, is_folder, ctx) {
            ctx.permission.ask(ask).await?;
        }

        let search = Search {
            reading: Reading::new(ctx, target.display_path()),
            expression,
            include,
            root: target.real().to_path_buf(),
            workspace: Arc::clone(&ctx.workspace),
            cancelled: ctx.cancelled.clone(),
        };
        let found = blocking(move || search.run()).await?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let found = found.map_err(|error| unreadable(target.display_path(), &error))?;
        Ok(output(&input.pattern, target.display_path(), found))
    }
}

/// Returns what is searched, as it is at the moment, and whether it is a folder.
async fn locate(input: &Input, ctx: &ToolContext) -> Result<(ResolvedPath, bool), ToolError> {
    let target = ctx.workspace.resolve(input.path.as_deref().unwrap_or_default());
    let real = target.real().to_path_buf();
    let is_folder = blocking(move || is_folder(&real).unwrap_or(false)).await?;
    Ok((target, is_folder))
}

fn ask(input: &Input) -> Ask {
    let mut metadata: JsonMap = json_map([("pattern", json!(input.pattern))]);
    for (key, value) in [("path", &input.path), ("include", &input.include)] {
        if let Some(value) = value {
            metadata.insert(key.to_owned(), json!(value));
        }
    }
    Ask {
        permission: "grep".to_owned(),
        patterns: vec![input.pattern.clone()],
        always: vec!["*".to_owned()],
        title: input.pattern.clone(),
        metadata,
        ..Ask::default()
    }
}

/// Returns what is asked for one file that rules hold back from being read.
fn read(target: &ResolvedPath, is_folder: bool, ctx: &ToolContext) -> Option<Ask> {
    let is_held_back = !is_folder && Reading::new(ctx, target.display_path()).is_held_back(Path::new(""));
    is_held_back.then(|| Ask::new(READ, target.patterns()))
}

fn unreadable(path: &Path, error: &io::Error) -> ToolError {
    let path = path.display();
    let kind = error.kind();
    ToolError::failed(if kind == io::ErrorKind::NotFound {
        format!("No such file or directory: '{path}'")
    } else if kind == io::ErrorKind::InvalidInput {
        format!("grep path must be a file or a directory: {path}")
    } else {
        format!("Cannot search in '{path}': {error}")
    })
}

/// Which files rules hold back from being read more than files in general: those that are asked about where others are allowed, and
/// those that are denied where others are not.
struct Reading {
    rules: Arc<dyn PermissionHandle>,
    others: Action,
    workspace: Arc<Workspace>,
    /// What is searched, as it is shown.
    shown: PathBuf,
}

impl Reading {
    fn new(ctx: &ToolContext, shown: &Path) -> Self {
        Self {
            // A name that no file can have: only rules for all files match it.
            others: action(&*ctx.permission, "\0"),
            rules: Arc::clone(&ctx.permission),
            workspace: Arc::clone(&ctx.workspace),
            shown: shown.to_path_buf(),
        }
    }

    /// Says so of a file by its path relative to what is searched. Blocking.
    fn is_held_back(&self, relative: &Path) -> bool {
        let path = name_shown(&self.shown, relative);
        let patterns = self.workspace.resolve(&path).patterns();
        patterns.iter().any(|pattern| match self.others {
            Action::Allow => !self.rules.allows(READ, pattern),
            Action::Ask => self.rules.denies(READ, pattern),
            Action::Deny => false,
        })
    }
}

/// Returns what rules and grants say of reading one file.
fn action(rules: &dyn PermissionHandle, pattern: &str) -> Action {
    if rules.denies(READ, pattern) {
        Action::Deny
    } else if rules.allows(READ, pattern) {
        Action::Allow
    } else {
        Action::Ask
    }
}

/// One search, ready to run on a thread that may block.
struct Search {
    reading: Reading,
    expression: Expression,
    include: Selection,
    root: PathBuf,
    workspace: Arc<Workspace>,
    cancelled: CancellationToken,
}

/// What a search found.
struct Found {
    best: Best,
    has_inaccessible: bool,
    has_left_out: bool,
}

impl Search {
    fn run(&self) -> io::Result<Found> {
        if !is_folder(&self.root)? {
            return self.single_file();
        }
        let best = Mutex::new(Best::default());
        let walk = Walk {
            root: &self.root,
            effort: Effort::Heavy,
            cancelled: &self.cancelled,
        };
        let visitors = walk.run(&self.include, &|| Visitor {
            searcher: FileSearcher::new(self.expression.clone()),
            best: &best,
            search: self,
            has_inaccessible: false,
            has_left_out: false,
        })?;
        let has_inaccessible = visitors.iter().any(|visitor| visitor.has_inaccessible);
        let has_left_out = visitors.iter().any(|visitor| visitor.has_left_out);
        drop(visitors);
        Ok(Found {
            best: best.into_inner(),
            has_inaccessible,
            has_left_out,
        })
    }

    /// Says whether a link may be followed to `target`: into what was allowed, and not into a repository's own files.
    fn may_follow(&self, target: &Path) -> bool {
        let is_allowed = is_below(target, &self.root) || self.workspace.contains_real(target);
        is_allowed && !target.components().any(|part| part.as_os_str() == ".git")
    }

    fn single_file(&self) -> io::Result<Found> {
        let Some(opened) = OpenFile::open(&self.root)? else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        let mut searcher = FileSearcher::new(self.expression.clone());
        let is_stopped = || self.cancelled.is_cancelled();
        let matches = searcher.search(&opened.file, opened.size, MAX_MATCHES, &is_stopped)?;
        let mut best = Best::default();
        best.take(opened.modified, Path::new(""), matches);
        Ok(Found {
            best,
            has_inaccessible: false,
            has_left_out: false,
        })
    }
}

/// The matches that will be shown, by file.
#[derive(Debug, Default)]
struct Best {
    files: BTreeMap<Rank, FileMatches>,
    lines: usize,
    was_cut: bool,
}

impl Best {
    /// Returns how many matches of a file can be used: nothing if not even their existence matters.
    fn use_for(&self, modified: Modified, path: &Path) -> Option<usize> {
        let is_full = self.lines >= MAX_MATCHES;
        if !is_full
            || self
                .files
                .last_key_value()
                .is_none_or(|(last, _)| (last.0, last.1.as_path()) >= (Reverse(modified), path))
        {
            return Some(MAX_MATCHES);
        }
        (!self.was_cut).then_some(0)
    }

    /// Takes in the matches of a file and lets go of what comes after the first hundred.
    fn take(&mut self, modified: Modified, path: &Path, matches: FileMatches) {
        self.was_cut |= matches.has_more;
        if matches.lines.is_empty() {
            return;
        }
        self.lines += matches.lines.len();
        self.files.insert((Reverse(modified), path.to_path_buf()), matches);
        while let Some(last) = self.files.last_entry() {
            let count = last.get().lines.len();
            if self.lines - count < MAX_MATCHES {
                break;
            }
            last.remove();
            self.lines -= count;
            self.was_cut = true;
        }
    }

    fn is_truncated(&self) -> bool {
        self.was_cut || self.lines > MAX_MATCHES
    }
}

struct Visitor<'a> {
    searcher: FileSearcher,
    best: &'a Mutex<Best>,
    search: &'a Search,
    has_inaccessible: bool,
    has_left_out: bool,
}

impl Visitor<'_> {
    fn best(&self) -> MutexGuard<'_, Best> {
        self.best.lock()
    }

    fn search(&mut self, file: &FoundFile<'_>) -> io::Result<()> {
        let Some(opened) = file.open(|target: &Path| self.search.may_follow(target))? else {
            return Ok(());
        };
        let Some(most) = self.best().use_for(opened.modified, file.relative()) else {
            return Ok(());
        };
        let search = self.search;
        let is_stopped = || search.cancelled.is_cancelled();
        let matches = self.searcher.search(&opened.file, opened.size, most, &is_stopped)?;
        if matches.has_more || !matches.lines.is_empty() {
            // Not before: most files have no match, and this looks at the links on the way.
            if search.reading.is_held_back(file.relative()) {
                self.has_left_out = true;
                return Ok(());
            }
            self.best().take(opened.modified, file.relative(), matches);
        }
        Ok(())
    }
}

impl Visit for Visitor<'_> {
    fn file(&mut self, file: &FoundFile<'_>) {
        if self.search(file).is_err() {
            self.has_inaccessible = true;
        }
    }

    fn unreadable(&mut self) {
        self.has_inaccessible = true;
    }
}

fn output(pattern: &str, shown: &Path, found: Found) -> ToolOutput {
    let truncated = found.best.is_truncated();
    let count = found.best.lines.min(MAX_MATCHES);
    let mut lines = vec![match count {
        0 => "No files found".to_owned(),
        count => format!("Found {count} matches"),
    }];
    let mut left = MAX_MATCHES;
    for (index, ((_, relative), matches)) in found.best.files.iter().enumerate() {
        if index > 0 {
            lines.push(String::new());
        }
        lines.push(format!("{}:", name_shown(shown, relative)));
        for line in matches.lines.iter().take(left) {
            lines.push(format!("  Line {}: {}", line.number, line.text));
        }
        left = left.saturating_sub(matches.lines.len());
    }
    let notices = [
        (truncated, TRUNCATED),
        (found.has_inaccessible, INACCESSIBLE),
        (found.has_left_out, LEFT_OUT),
    ];
    for (_, notice) in notices.iter().filter(|(applies, _)| *applies) {
        lines.extend([String::new(), (*notice).to_owned()]);
    }
    let result = SearchResult {
        matches: Some(count as u64),
        files: found.best.files.len() as u64,
        truncated,
    };
    ToolOutput {
        title: pattern.to_owned(),
        output: OutputText::Text(lines.join("\n")),
        metadata: json_map([("matches", json!(count)), ("truncated", json!(truncated))]),
        attachments: Vec::new(),
        result: Some(ToolResult::Search(result)),
    }
}

fn name_shown(shown: &Path, relative: &Path) -> String {
    if relative.as_os_str().is_empty() {
        return shown.to_string_lossy().into_owned();
    }
    join_shown(shown, relative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search_stage::Stage;

    async fn grep(stage: &Stage, input: serde_json::Value) -> (String, JsonMap) {
        let output = stage.run(&Grep, &input.to_string()).await.unwrap();
        (
            stage.text(&output).replace(&format!("{}/", stage.root().display()), ""),
            output.metadata,
        )
    }

    #[tokio::test]
    async fn groups_lines_by_file_newest_first() {
        let stage = Stage::new();
        stage.file("a.txt", "first needle\r\nnothing\nneedle again", 100);
        stage.file("src/b.rs", "fn needle() {}\n", 10);
        let (text, metadata) = grep(&stage, json!({ "pattern": "needle" })).await;
        let expected = "Found 3 matches\nsrc/b.rs:\n  Line 1: fn needle() {}\n\na.txt:\n  Line 1: first needle\n  \
                        Line 3: needle again";
        assert_eq!(text, expected);
        assert_eq!(
            (&metadata["matches"], &metadata["truncated"]),
            (&json!(3), &json!(false))
        );
        let (text, _) = grep(&stage, json!({ "pattern": "needle", "include": "*.rs" })).await;
        assert_eq!(text, "Found 1 matches\nsrc/b.rs:\n  Line 1: fn needle() {}");
        let (text, _) = grep(&stage, json!({ "pattern": "zebra", "path": "src" })).await;
        assert_eq!(text, "No files found");
    }

    #[tokio::test]
    async fn searches_a_named_file_alone_even_if_ignored() {
        let stage = Stage::new();
        stage.folder(".git");
        stage.file(".gitignore", "*.log", 0);
        stage.file("a.log", "needle", 0);
        stage.file("b.txt", "needle", 0);
        let (text, _) = grep(&stage, json!({ "pattern": "needle", "path": "a.log" })).await;
        assert_eq!(text, "Found 1 matches\na.log:\n  Line 1: needle");
        let (text, _) = grep(&stage, json!({ "pattern": "needle" })).await;
        assert_eq!(text, "Found 1 matches\nb.txt:\n  Line 1: needle");
    }

    #[tokio::test]
    async fn follows_no_link_out_of_the_workspace() {
        let stage = Stage::new();
        stage.file("in.txt", "needle in", 0);
        std::fs::write(stage.outside().join("secret.txt"), "needle outside").unwrap();
        stage.link(&stage.outside().join("secret.txt").display().to_string(), "out.txt");
        stage.link(&stage.outside().display().to_string(), "folder");
        stage.link("in.txt", "again.txt");
        stage.pipe("pipe.txt");
        let (text, metadata) = grep(&stage, json!({ "pattern": "needle" })).await;
        assert!(text.contains("in.txt:") && text.contains("again.txt:"), "{text}");
        assert_eq!(metadata["matches"], 2);
        let error = stage
            .run(&Grep, r#"{"pattern": "x", "path": "pipe.txt"}"#)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("must be a file or a directory"), "{error}");
        let asked_before = stage.asked().len();
        stage
            .run(&Grep, r#"{"pattern": "needle", "path": "out.txt"}"#)
            .await
            .unwrap();
        let outside = stage.outside().display();
        assert_eq!(
            stage.asked()[asked_before..],
            ["grep needle".to_owned(), format!("external_directory {outside}/*")]
        );
    }

    #[tokio::test]
    async fn refuses_expressions_that_cannot_be_meant() {
        let stage = Stage::new();
        let check = async |pattern: &str, expected: &str| {
            let error = stage
                .run(&Grep, &json!({ "pattern": pattern }).to_string())
                .await
                .unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check("", "pattern is required").await;
        check("needle(", "unclosed group").await;
        check("(?=x)", "look-around").await;
        check("a\\nb", "line break").await;
        check("a\nb", "line break").await;
        check(r"(\w{200}){200}", "size limit").await;
        check(&"x".repeat(1 << 17), "at most").await;
        assert!(stage.asked().is_empty());
    }

    #[tokio::test]
    async fn cuts_at_a_hundred_newest_first() {
        let stage = Stage::new();
        for index in 0..60_u64 {
            stage.file(&format!("f{index:02}"), "row\nrow\n", index + 1);
        }
        let (text, metadata) = grep(&stage, json!({ "pattern": "row" })).await;
        assert!(
            text.starts_with("Found 100 matches\nf00:\n  Line 1: row\n  Line 2: row\n\nf01:"),
            "{text}"
        );
        assert!(
            text.ends_with(&format!("f49:\n  Line 1: row\n  Line 2: row\n\n{TRUNCATED}")),
            "{text}"
        );
        assert_eq!(
            (&metadata["matches"], &metadata["truncated"]),
            (&json!(100), &json!(true))
        );
    }

    #[test]
    fn keeps_what_sorting_everything_would_show() {
        use proptest::prelude::*;
        let files = proptest::collection::vec((0..5_i64, 0..160_usize), 0..12);
        let config = ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        proptest!(config, |(files in files)| {
            let mut best = Best::default();
            let mut all: Vec<(Rank, usize)> = Vec::new();
            for (index, &(seconds, count)) in files.iter().enumerate() {
                let (modified, path) = (Modified { seconds, nanos: 0 }, PathBuf::from(format!("{index:02}")));
                all.push(((Reverse(modified), path.clone()), count));
                let Some(most) = best.use_for(modified, &path) else { continue };
                let line = toolgate_fs::search::MatchedLine { number: 1, text: String::new() };
                let matches = FileMatches { lines: vec![line; count.min(most)], has_more: count > most };
                best.take(modified, &path, matches);
            }
            all.sort();
            let total: usize = all.iter().map(|file| file.1).sum();
            let mut left = MAX_MATCHES;
            let mut expected = Vec::new();
            for (rank, count) in all {
                if count.min(left) > 0 {
                    expected.push((rank, count.min(left)));
                }
                left -= count.min(left);
            }
            let mut left = MAX_MATCHES;
            let mut shown = Vec::new();
            for (rank, matches) in &best.files {
                shown.push((rank.clone(), matches.lines.len().min(left)));
                left -= matches.lines.len().min(left);
            }
            prop_assert_eq!(best.is_truncated(), total > MAX_MATCHES);
            prop_assert_eq!(shown, expected);
        });
    }
}
