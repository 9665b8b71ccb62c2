//! `apply_patch`: adds, updates, moves and deletes several files with one patch.
//!
//! *Invariant:* the whole patch is tried on copies before anybody is asked, one question shows everything that it does,
//! and then all files change or none (`docs/spec/file-tools.md` §6).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_fs::diff::FileDiff;
use toolgate_fs::files::Files;
use toolgate_fs::patch::{ApplyError, Change, Chunk, Section, parse};
use toolgate_fs::transaction::{Changed, Draft, Target, Transaction, TransactionError, edit};
use toolgate_fs::{FileError, ResolvedPath};
use toolgate_lsp::EditDiagnostics;
use toolgate_model::{Ask, AskPart, Effect, FileAction, FileResult, OutputText, ToolOutput, ToolResult, json_map};
use toolgate_tool::{
    About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, ask_by_name, changed, edit_of, guarded_part,
    outside, uses_apply_patch,
};

#[cfg(test)]
mod tests;

/// All diffs of a call have no more bytes than this together; what comes after is left out with a line that says so.
const MAX_DIFFS: usize = 4 << 20;

/// The tool.
#[derive(Clone, Debug)]
pub struct ApplyPatch {
    files: Arc<Files>,
    feedback: EditDiagnostics,
}

impl ApplyPatch {
    /// Makes it; `files` is shared by all tools that change files, and `feedback` by those of a workspace.
    pub fn new(files: Arc<Files>, feedback: EditDiagnostics) -> Self {
        Self { files, feedback }
    }
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`
    pub patch_text: String,
}

#[async_trait]
impl TypedTool for ApplyPatch {
    type Input = Input;

    const ABOUT: About = About {
        name: "apply_patch",
        effects: &[Effect::Writes],
        permissions: &["edit", "external_directory"],
        advertised: true,
        properties: Properties::RESUMABLE,
        example: r#"{"patchText": "*** Begin Patch\n*** Add File: notes.txt\n+One line.\n*** End Patch"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("apply_patch.md").trim_end().to_owned()
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        uses_apply_patch(offer.model)
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::new(patched(input["patchText"].as_str().unwrap_or_default()))
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let sections = parse(&input.patch_text).map_err(|error| ToolError::failed(error.to_string()))?;
        let planned = plan(sections, ctx).await?;
        let targets: Vec<Target> = planned.iter().flat_map(Planned::targets).cloned().collect();
        let transaction = tokio::select! {
            transaction = Transaction::begin(&self.files, &targets) => transaction,
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
        };
        let mut trial = Trial {
            transaction,
            report: Report::default(),
            asks: planned.iter().flat_map(Planned::asks).collect(),
            edits: targets.iter().map(|target| edit_of(target.path())).collect(),
            ctx,
        };
        for planned in planned {
            trial.section(planned).await?;
        }
        let Trial {
            transaction, report, ..
        } = trial;
        ctx.permission.ask(report.ask()).await?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        ctx.changes.record(transaction.planned_changes()).await?;
        let changed = transaction.commit().await.map_err(not_written)?;
        for Changed { path, mark } in &changed {
            ctx.wrote(path, mark.clone())?;
        }
        let paths: Vec<&ResolvedPath> = changed.iter().map(|changed| &changed.path).collect();
        let told = self
            .feedback
            .on(&paths, &ctx.cancelled, |later| ctx.output.late_metadata(later))
            .await;
        Ok(report.output(
            &told.of_each_file(|path| {
                let changed = changed.iter().find(|changed| changed.path.display_path() == path);
                changed.map_or("a file", |changed| changed.path.relative())
            }),
            told.to_json(),
        ))
    }
}

/// A section whose paths are resolved.
struct Planned {
    line: usize,
    target: Target,
    action: Action,
}

enum Action {
    Add(String),
    Delete,
    Update(Vec<Chunk>),
    Move(Box<Target>, Vec<Chunk>),
}

impl Planned {
    fn targets(&self) -> impl Iterator<Item = &Target> {
        let destination = match &self.action {
            Action::Move(destination, _) => Some(&**destination),
            Action::Add(_) | Action::Delete | Action::Update(_) => None,
        };
        std::iter::once(&self.target).chain(destination)
    }

    /// Returns what is asked about paths outside the workspace: where a link is removed, also about where it stands.
    fn asks(&self) -> Vec<Ask> {
        let removes = matches!(self.action, Action::Delete | Action::Move(..));
        let asked = self.target.path().outside_folders(false);
        let is_new = |link: &&ResolvedPath| link.outside_folders(false).iter().any(|folder| !asked.contains(folder));
        let link = self.target.link().filter(|_| removes).filter(is_new);
        let mut paths: Vec<&ResolvedPath> = std::iter::once(self.target.path()).chain(link).collect();
        paths.extend(self.targets().skip(1).map(Target::path));
        paths.into_iter().filter_map(|path| outside(path, false)).collect()
    }
}

async fn plan(sections: Vec<Section>, ctx: &ToolContext) -> Result<Vec<Planned>, ToolError> {
    let mut written = Vec::new();
    for section in &sections {
        written.push(section.path.clone());
        if let Change::Update {
            move_to: Some(path), ..
        } = &section.change
        {
            written.push(path.clone());
        }
    }
    let targets = Target::resolve_all(&ctx.workspace, written).await;
    let mut targets = targets.map_err(|error| unfit_at(error, ""))?.into_iter();
    let mut planned = Vec::with_capacity(sections.len());
    for section in sections {
        let mut next = || targets.next().ok_or_else(|| unresolved(&section.path));
        let target = next()?;
        let action = match section.change {
            Change::Add(content) => Action::Add(content),
            Change::Delete => Action::Delete,
            Change::Update { move_to: None, chunks } => Action::Update(chunks),
            Change::Update {
                move_to: Some(_),
                chunks,
            } => {
                let destination = next()?;
                if destination.is_same_entry(&target) {
                    Action::Update(chunks)
                } else {
                    Action::Move(Box::new(destination), chunks)
                }
            }
        };
        planned.push(Planned {
            line: section.line,
            target,
            action,
        });
    }
    Ok(planned)
}

/// Returns the paths that a patch names, whether the rest of it can be read or not.
fn patched(text: &str) -> String {
    let marks = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    let path = |line| marks.iter().find_map(|mark| str::strip_prefix(line, mark));
    let paths: Vec<&str> = text.lines().filter_map(path).map(str::trim).collect();
    paths.join(" ")
}

fn unresolved(path: &str) -> ToolError {
    ToolError::Internal(format!("no target was resolved for {path:?}").into())
}

/// The patch, tried section by section.
struct Trial<'a> {
    transaction: Transaction,
    report: Report,
    /// What is still to be asked about paths outside the workspace.
    asks: VecDeque<Ask>,
    /// What is asked at last, as far as it is known before the files are read.
    edits: Vec<Ask>,
    ctx: &'a ToolContext,
}

impl Trial<'_> {
    async fn section(&mut self, planned: Planned) -> Result<(), ToolError> {
        if self.ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        for ask in planned.asks() {
            self.asks.pop_front();
            let then = self.asks.iter().chain(&self.edits).cloned().collect();
            self.ctx.permission.ask(Ask { then, ..ask }).await?;
        }
        let Planned { line, target, action } = planned;
        match action {
            Action::Add(content) => self.add(line, &target, content).await,
            Action::Delete => self.delete(line, &target).await,
            Action::Update(chunks) => self.update(line, &target, &chunks).await,
            Action::Move(destination, chunks) => self.relocate(line, &target, &destination, &chunks).await,
        }
    }

    async fn add(&mut self, line: usize, target: &Target, content: String) -> Result<(), ToolError> {
        let old = self.read(target).await.map_err(|error| unfit(error, line))?;
        let new = match &old {
            Some(old) => old.clone().with_bytes(edit::keep_bom(old.bytes(), content)),
            None => Draft::new(content),
        };
        let diff = edit::diff(target.path(), old.as_ref(), Some(&new)).await?;
        self.report.guard(target, old.as_ref(), Some(&new));
        self.transaction.write(target, new).await?;
        self.report.push(FileAction::Added, target, None, &diff);
        Ok(())
    }

    async fn delete(&mut self, line: usize, target: &Target) -> Result<(), ToolError> {
        let failed = |reason: &str| {
            let path = target.path().display_path().display();
            verification_failed(&format!("{reason}: {path} (line {line})"))
        };
        let old = match self.read(target).await {
            Ok(Some(old)) => old,
            Ok(None) => return Err(failed("No such file or directory")),
            Err(FileError::IsFolder { .. }) => return Err(failed("Is a directory")),
            Err(error) => return Err(unfit(error, line)),
        };
        let diff = edit::diff(target.path(), Some(&old), None).await?;
        self.report.guard(target, Some(&old), None);
        self.transaction.remove(target).await?;
        self.report.push(FileAction::Deleted, target, None, &diff);
        Ok(())
    }

    async fn update(&mut self, line: usize, target: &Target, chunks: &[Chunk]) -> Result<(), ToolError> {
        let old = self.read_to_update(line, target).await?;
        let new = self.apply(line, target, &old, chunks).await?;
        let diff = edit::diff(target.path(), Some(&old), Some(&new)).await?;
        self.report.guard(target, Some(&old), Some(&new));
        self.transaction.write(target, new).await?;
        self.report.push(FileAction::Modified, target, None, &diff);
        Ok(())
    }

    async fn relocate(
        &mut self,
        line: usize,
        source: &Target,
        destination: &Target,
        chunks: &[Chunk],
    ) -> Result<(), ToolError> {
        let old = self.read_to_update(line, source).await?;
        let new = self.apply(line, source, &old, chunks).await?;
        if destination.path().real() == source.path().real() {
            let (source, destination) = (
                source.path().display_path().display(),
                destination.path().display_path().display(),
            );
            return Err(verification_failed(&format!(
                "Cannot move {source} to {destination}: both are the same file (line {line})"
            )));
        }
        // What the destination held is lost; that it is no folder must be known before anybody is asked.
        let covered = self.read(destination).await.map_err(|error| unfit(error, line))?;
        self.report.guard(source, Some(&old), None);
        self.report.guard(destination, covered.as_ref(), Some(&new));
        let diff = edit::diff(source.path(), Some(&old), Some(&new)).await?;
        self.transaction.write(destination, new).await?;
        self.transaction.remove(source).await?;
        self.report.push(FileAction::Moved, source, Some(destination), &diff);
        Ok(())
    }

    async fn read(&mut self, target: &Target) -> Result<Option<Draft>, FileError> {
        self.transaction.read(target).await
    }

    async fn read_to_update(&mut self, line: usize, target: &Target) -> Result<Draft, ToolError> {
        let failed = |detail: String| {
            let path = target.path().display_path().display();
            verification_failed(&format!("Failed to read file to update: {path} ({detail}line {line})"))
        };
        match self.read(target).await {
            Ok(Some(draft)) => Ok(draft),
            Ok(None) => Err(failed("there is no such file, ".to_owned())),
            Err(FileError::IsFolder { .. }) => Err(failed("it is a directory, ".to_owned())),
            Err(error @ (FileError::Stopped | FileError::Interrupted(_))) => Err(error.into()),
            Err(error) => Err(failed(format!("{error} "))),
        }
    }

    async fn apply(&self, line: usize, target: &Target, old: &Draft, chunks: &[Chunk]) -> Result<Draft, ToolError> {
        if chunks.is_empty() {
            return Ok(old.clone());
        }
        edit::apply(old.clone(), chunks.to_vec(), self.ctx.cancelled.clone())
            .await?
            .map_err(|error| unplaced(error, line, target))
    }
}

fn verification_failed(detail: &str) -> ToolError {
    ToolError::failed(format!("apply_patch verification failed: {detail}"))
}

fn unfit(error: FileError, line: usize) -> ToolError {
    unfit_at(error, &format!(" (line {line})"))
}

fn unfit_at(error: FileError, place: &str) -> ToolError {
    match ToolError::from(error) {
        ToolError::Failed(sentence) => verification_failed(&format!("{sentence}{place}")),
        error @ (ToolError::Refused(_)
        | ToolError::Cancelled
        | ToolError::Quota(_)
        | ToolError::NoSuchTool { .. }
        | ToolError::Child { .. }
        | ToolError::Internal(_)) => error,
    }
}

fn unplaced(error: ApplyError, section: usize, target: &Target) -> ToolError {
    let path = target.path().display_path().display();
    match error {
        ApplyError::Context { context, line } => verification_failed(&format!(
            "Error: Failed to find context '{context}' in {path} (line {line})"
        )),
        ApplyError::Lines { lines, line } => verification_failed(&format!(
            "Error: Failed to find expected lines in {path}:\n{lines}\n\n(The chunk is at line {line} of the patch. \
             Read the file again and copy its lines exactly.)"
        )),
        ApplyError::NotText { at } => verification_failed(&format!(
            "Cannot update {path}: it is not UTF-8 text, byte {at} is invalid (line {section})"
        )),
        ApplyError::TooManyLines => verification_failed(&format!(
            "Cannot update {path}: it has too many lines to be patched (line {section})"
        )),
        ApplyError::TooCostly => verification_failed(&format!(
            "Cannot update {path}: finding the chunks takes too long; use fewer chunks at a time (line {section})"
        )),
        ApplyError::Stopped => ToolError::Cancelled,
    }
}

fn not_written(error: TransactionError) -> ToolError {
    if matches!(error.cause, FileError::Interrupted(_)) {
        ToolError::Internal(Box::new(error))
    } else {
        ToolError::failed(error.to_string())
    }
}

/// What the patch does, for the person who is asked and for the model.
#[derive(Default)]
struct Report {
    summary: String,
    patterns: Vec<String>,
    diff: String,
    files: Vec<Value>,
    result: Vec<FileResult>,
    /// What of it must be allowed by name.
    guarded: Vec<AskPart>,
}

impl Report {
    fn push(&mut self, change: FileAction, target: &Target, destination: Option<&Target>, diff: &FileDiff) {
        let (letter, kind) = match change {
            FileAction::Added => ("A", "add"),
            FileAction::Deleted => ("D", "delete"),
            FileAction::Modified => ("M", "update"),
            FileAction::Moved => ("M", "move"),
        };
        let relative = destination.unwrap_or(target).path().relative();
        // Writing to a String cannot fail.
        let _ = write!(self.summary, "\n{letter} {relative}");
        for touched in [Some(target), destination].into_iter().flatten() {
            for pattern in touched.path().patterns() {
                if !self.patterns.contains(&pattern) {
                    self.patterns.push(pattern);
                }
            }
        }
        let patch = if self.diff.len() + diff.text.len() > MAX_DIFFS {
            "(left out: the diffs of this patch are too long to be shown)\n"
        } else {
            &diff.text
        };
        self.diff.push_str(patch);
        self.diff.push('\n');
        let shown = |target: &Target| json!(target.path().display_path().to_string_lossy());
        let mut file = json_map([
            ("filePath", shown(target)),
            ("relativePath", json!(relative)),
            ("type", json!(kind)),
            ("patch", json!(patch)),
            ("additions", json!(diff.additions)),
            ("deletions", json!(diff.deletions)),
        ]);
        if let Some(destination) = destination {
            file.insert("movePath".to_owned(), shown(destination));
        }
        self.files.push(Value::Object(file));
        self.result.push(FileResult {
            moved_to: destination.map(|target| target.path().display_path().to_string_lossy().into_owned()),
            ..changed(target.path(), change, diff)
        });
    }

    /// Notes a change of a file that programs obey.
    fn guard(&mut self, target: &Target, old: Option<&Draft>, new: Option<&Draft>) {
        let bytes = |draft: Option<&Draft>| draft.map(|draft| draft.bytes().clone()).unwrap_or_default();
        let part = guarded_part(target.path(), &bytes(old), &bytes(new));
        self.guarded.extend(part);
    }

    fn ask(&self) -> Ask {
        let paths = self.patterns.join(", ");
        let mut ask = Ask {
            permission: "edit".to_owned(),
            patterns: self.patterns.clone(),
            always: vec!["*".to_owned()],
            title: paths.clone(),
            metadata: json_map([
                ("filepath", json!(paths)),
                ("diff", json!(self.diff)),
                ("files", json!(self.files)),
            ]),
            ..Ask::default()
        };
        ask_by_name(&mut ask, self.guarded.clone());
        ask
    }

    fn output(self, errors: &str, diagnostics: Value) -> ToolOutput {
        let title = format!("Success. Updated the following files:{}", self.summary);
        ToolOutput {
            output: OutputText::Text(format!("{title}{errors}")),
            title,
            metadata: json_map([
                ("diff", json!(self.diff)),
                ("files", json!(self.files)),
                ("diagnostics", diagnostics),
            ]),
            attachments: Vec::new(),
            result: Some(ToolResult::files(self.result)),
        }
    }
}
