//! `files`: what a person changes at a front end. FileService makes these calls; models are not told of the tool.
//!
//! *Invariant:* a content is not part of the input: it was sent for the call before, and the input has its digest, so that what
//! is approved is what is written. What is changed is recorded first, and can be taken back. The session does not count as
//! having read what it writes: a person has, and its model has not.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_fs::changes::{Replacement, Version, replace_all};
use toolgate_fs::diff::FileDiff;
use toolgate_fs::entries::{self, Whole};
use toolgate_fs::files::{Files as LockedFiles, LockedFile, Snapshot, locate};
use toolgate_fs::uploads::Uploads;
use toolgate_fs::{FileError, ResolvedPath};
use toolgate_lsp::EditDiagnostics;
use toolgate_model::{Ask, AskPart, Effect, FileAction, FileResult, OutputText, ToolOutput, ToolResult, json_map};
use toolgate_tool::{
    About, Offer, Outline, Properties, Refusal, ToolContext, ToolError, TypedTool, ask_by_name, change_of, changed,
    edit_of, guarded_file, guarded_part,
};

/// Contents above this size are shown by their digest alone.
const MAX_SHOWN: usize = 1 << 20;

/// The permission bits that a new mode may have.
const MODE_BITS: u32 = 0o777;

/// The tool.
#[derive(Clone, Debug)]
pub struct Files {
    files: Arc<LockedFiles>,
    uploads: Uploads,
    feedback: EditDiagnostics,
}

impl Files {
    /// Makes it; `files` is shared by all tools that change files, and `feedback` by those of a workspace.
    pub fn new(files: Arc<LockedFiles>, uploads: Uploads, feedback: EditDiagnostics) -> Self {
        Self {
            files,
            uploads,
            feedback,
        }
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Write the content that was sent for the call.
    Write,
    /// Write the files of the tar archive that was sent for the call into a folder.
    Unpack,
    /// Make a folder.
    CreateFolder,
    /// Move a file, a link or a folder to another path.
    Move,
    /// Delete a file, a link or a folder.
    Delete,
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// What to do
    pub operation: Operation,
    /// The path, absolute or relative to the workspace's folder
    pub path: String,
    /// `move`: the path to move it to, where nothing may be
    pub to: Option<String>,
    /// `write`, `unpack`: SHA-256 of the content that was sent for the call
    pub sha256: Option<String>,
    /// `write`, `unpack`: the bytes of that content
    pub bytes: Option<u64>,
    /// `write`: the permission bits of the file (default: those that it has, or that new files get)
    pub mode: Option<u32>,
    /// The SHA-256 that the file must have
    pub if_sha256: Option<String>,
    /// `write`, `unpack`: nothing may be there yet
    pub if_absent: Option<bool>,
    /// `delete`: a folder with all that is in it
    pub recursive: Option<bool>,
}

/// Why nothing was done, as a word for programs in the metadata of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    Outside,
    Root,
    NotFound,
    AlreadyThere,
    ContentDiffers,
    ContentMissing,
    BadArchive,
    FolderNotEmpty,
    IsFolder,
    NotAFile,
    NotAFolder,
    TooLarge,
    PathChanged,
}

impl Problem {
    fn word(self) -> &'static str {
        match self {
            Self::Outside => "OUTSIDE_WORKSPACE",
            Self::Root => "WORKSPACE_FOLDER",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyThere => "ALREADY_THERE",
            Self::ContentDiffers => "CONTENT_DIFFERS",
            Self::ContentMissing => "CONTENT_MISSING",
            Self::BadArchive => "BAD_ARCHIVE",
            Self::FolderNotEmpty => "FOLDER_NOT_EMPTY",
            Self::IsFolder => "IS_FOLDER",
            Self::NotAFile => "NOT_A_FILE",
            Self::NotAFolder => "NOT_A_FOLDER",
            Self::TooLarge => "FILE_TOO_LARGE",
            Self::PathChanged => "PATH_CHANGED",
        }
    }

    fn of(error: &FileError) -> Option<Self> {
        match error {
            FileError::NotFound { .. } => Some(Self::NotFound),
            FileError::IsFolder { .. } => Some(Self::IsFolder),
            FileError::ParentIsFile { .. } => Some(Self::NotAFolder),
            FileError::Special { .. } => Some(Self::NotAFile),
            FileError::Swapped { .. } | FileError::Modified { .. } => Some(Self::PathChanged),
            FileError::TooLarge { .. } | FileError::TooManyEntries { .. } | FileError::TooManyFolders { .. } => {
                Some(Self::TooLarge)
            }
            FileError::Io { source, .. } => {
                let known = [
                    (ErrorKind::AlreadyExists, Self::AlreadyThere),
                    (ErrorKind::DirectoryNotEmpty, Self::FolderNotEmpty),
                    (ErrorKind::NotADirectory, Self::NotAFolder),
                ];
                let found = known.into_iter().find(|(kind, _)| *kind == source.kind());
                found.map(|(_, problem)| problem)
            }
            FileError::PathTooLong { .. }
            | FileError::Binary { .. }
            | FileError::OffsetOutOfRange { .. }
            | FileError::Unread { .. }
            | FileError::HalfDone { .. }
            | FileError::Stopped
            | FileError::Interrupted(_) => None,
        }
    }
}

/// Why the tool ends early.
enum Stop {
    Told(Problem, String),
    File(FileError),
    Tool(ToolError),
}

impl From<FileError> for Stop {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<ToolError> for Stop {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Tool(refusal.into())
    }
}

#[async_trait]
impl TypedTool for Files {
    type Input = Input;

    const ABOUT: About = About {
        name: "files",
        effects: &[Effect::Writes],
        permissions: &["edit", "read"],
        advertised: false,
        properties: Properties {
            for_people: true,
            ..Properties::RESUMABLE
        },
        example: r#"{"operation": "create_folder", "path": "notes"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("files.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["operation", "path", "to"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let operation = input.operation;
        let done = match operation {
            Operation::Write => self.write(input, ctx).await,
            Operation::Unpack => self.unpack(input, ctx).await,
            Operation::CreateFolder => create_folder(&input, ctx).await,
            Operation::Move => self.rename(input, ctx).await,
            Operation::Delete => self.delete(input, ctx).await,
        };
        let (problem, error) = match done {
            Ok(done) => return Ok(done.output(operation)),
            Err(Stop::Told(problem, text)) => (Some(problem), ToolError::failed(text)),
            Err(Stop::File(error)) => (Problem::of(&error), error.into()),
            Err(Stop::Tool(error)) => (None, error),
        };
        if let Some(problem) = problem {
            let metadata = json_map([("problem", json!(problem.word()))]);
            ctx.output.progress(None, metadata).await;
        }
        Err(error)
    }
}

/// What was done.
struct Done {
    path: ResolvedPath,
    text: String,
    /// What became of each file.
    files: Vec<FileResult>,
}

impl Done {
    fn output(self, operation: Operation) -> ToolOutput {
        ToolOutput {
            title: self.path.relative().to_owned(),
            output: OutputText::Text(self.text),
            metadata: json_map([
                ("operation", json!(operation)),
                ("filepath", json!(self.path.display_path().to_string_lossy())),
            ]),
            attachments: Vec::new(),
            result: Some(ToolResult::files(self.files)),
        }
    }
}

/// Says what became of a file whose lines are not compared.
fn became(path: &ResolvedPath, change: FileAction) -> FileResult {
    FileResult {
        path: path.display_path().to_string_lossy().into_owned(),
        change,
        moved_to: None,
        added_lines: 0,
        removed_lines: 0,
        diff: None,
    }
}

impl Files {
    async fn write(&self, input: Input, ctx: &ToolContext) -> Result<Done, Stop> {
        let path = locate(&ctx.workspace, input.path.clone()).await?.path;
        refuse_outside(&path, ctx)?;
        let content = self.content(&input, ctx).await?;
        let (sha256, bytes) = (&input.sha256, content.len());
        let file = self.lock(path, ctx).await?;
        let old = file.load().await?;
        expect(&file, &old, &input)?;
        let mut ask = Ask {
            title: file.path().relative().to_owned(),
            always: vec!["*".to_owned()],
            metadata: json_map([
                ("filepath", json!(file.path().display_path().to_string_lossy())),
                ("bytes", json!(bytes)),
                ("sha256", json!(sha256)),
            ]),
            ..Ask::new("edit", file.path().patterns())
        };
        let mut result = became(file.path(), change_of(old.exists()));
        if let Some(diff) = diff(&file, &old, &content).await? {
            ask.metadata.insert("diff".to_owned(), json!(diff.text));
            result = changed(file.path(), result.change, &diff);
        }
        if let Some(mode) = input.mode {
            ask.metadata
                .insert("mode".to_owned(), json!(format!("{:04o}", mode & MODE_BITS)));
        }
        let guarded = guarded_part(file.path(), old.bytes(), &content);
        ask_by_name(&mut ask, guarded.into_iter().collect());
        ctx.permission.ask(ask).await?;
        let replacement = Replacement {
            new: Some(Version {
                bytes: content,
                mode: input.mode.map(|mode| mode & MODE_BITS),
            }),
            old: old.clone(),
            file: file.clone(),
        };
        self.change(vec![replacement], ctx).await?;
        let path = file.path().clone();
        Ok(Done {
            text: format!("Wrote {bytes} bytes to {}.", path.relative()),
            files: vec![result],
            path,
        })
    }

    /// Returns what was sent for the call.
    async fn content(&self, input: &Input, ctx: &ToolContext) -> Result<Bytes, Stop> {
        let (Some(sha256), Some(bytes)) = (&input.sha256, input.bytes) else {
            let text = "Say the SHA-256 and the number of bytes of the content that was sent for the call.";
            return Err(ToolError::failed(text).into());
        };
        let call = ctx.call.name();
        let content = self.uploads.content(ctx.workspace.name(), call, sha256).await?;
        let content = content.filter(|content| content.len() as u64 == bytes);
        content.ok_or_else(|| {
            let text = "No content of that digest was sent for the call, or it is too long ago. Send it again, for a new call.";
            Stop::Told(Problem::ContentMissing, text.to_owned())
        })
    }

    async fn rename(&self, input: Input, ctx: &ToolContext) -> Result<Done, Stop> {
        let Some(to) = input.to.clone() else {
            return Err(ToolError::failed("Say where to move it: `to`.").into());
        };
        let to = locate(&ctx.workspace, to).await?.path;
        refuse_outside(&to, ctx)?;
        let whole = self.whole(&input, ctx).await?;
        let entry = whole.entry().clone();
        if to.real().starts_with(entry.real()) {
            let text = format!("Cannot move {} into itself.", entry.relative());
            return Err(Stop::Told(Problem::AlreadyThere, text));
        }
        let renamed = whole.renamed(&ctx.workspace, &to).await?;
        for path in &renamed {
            refuse_outside(path, ctx)?;
        }
        let mut edit = Ask {
            title: format!("Move {} to {}", entry.relative(), to.relative()),
            metadata: json_map([
                ("filepath", json!(entry.display_path().to_string_lossy())),
                ("to", json!(to.display_path().to_string_lossy())),
                ("files", json!(whole.files().len())),
            ]),
            ..edit_of(&entry)
        };
        edit.parts.clear();
        let sources = whole.files().iter().map(|(file, _)| file.path());
        add_all(&mut edit, sources.chain([&entry, &to]).chain(&renamed));
        // By its new name other rules may let it be read.
        let mut read = Ask {
            title: edit.title.clone(),
            always: vec!["*".to_owned()],
            then: vec![edit.clone()],
            ..Ask::new("read", entry.patterns())
        };
        let sources = whole.files().iter().map(|(file, _)| file.path());
        add_patterns(&mut read, sources);
        ctx.permission.ask(read).await?;
        ctx.permission.ask(edit).await?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled.into());
        }
        ctx.changes.record(whole.planned_changes(&renamed)).await?;
        whole.rename(&to).await?;
        let mut files = Vec::new();
        for ((file, _), to) in whole.files().iter().zip(&renamed) {
            ctx.wrote(file.path(), None)?;
            ctx.wrote(to, None)?;
            files.push(FileResult {
                moved_to: Some(to.display_path().to_string_lossy().into_owned()),
                ..became(file.path(), FileAction::Moved)
            });
        }
        let all = whole.files().iter().map(|(file, _)| file.path());
        self.feedback.tell(&all.chain(&renamed).collect::<Vec<_>>());
        Ok(Done {
            text: format!("Moved {} to {}.", entry.relative(), to.relative()),
            files,
            path: to,
        })
    }

    async fn delete(&self, input: Input, ctx: &ToolContext) -> Result<Done, Stop> {
        let whole = self.whole(&input, ctx).await?;
        let entry = whole.entry().clone();
        let mut ask = Ask {
            title: format!("Delete {}", entry.relative()),
            metadata: json_map([
                ("filepath", json!(entry.display_path().to_string_lossy())),
                ("files", json!(whole.files().len())),
            ]),
            ..edit_of(&entry)
        };
        ask.parts.clear();
        let files = whole.files().iter().map(|(file, _)| file.path());
        add_all(&mut ask, files.chain([&entry]));
        ctx.permission.ask(ask).await?;
        self.change(whole.removal(), ctx).await?;
        whole.remove_folders().await?;
        let gone = whole
            .files()
            .iter()
            .map(|(file, _)| became(file.path(), FileAction::Deleted));
        Ok(Done {
            text: format!("Deleted {}.", entry.relative()),
            files: gone.collect(),
            path: entry,
        })
    }

    /// Finds, locks and loads what is to be moved or deleted.
    async fn whole(&self, input: &Input, ctx: &ToolContext) -> Result<Whole, Stop> {
        let entry = entries::entry(&ctx.workspace, input.path.clone()).await?;
        // A link counts where it stands, wherever it leads.
        if !entry.is_inside() || !ctx.workspace.contains(entry.display_path()) {
            return Err(outside(&entry, ctx));
        }
        let roots = [ctx.workspace.directory(), ctx.workspace.worktree()];
        if roots.iter().any(|root| root.starts_with(entry.display_path())) {
            let text = "The folder of the workspace stays where it is.".to_owned();
            return Err(Stop::Told(Problem::Root, text));
        }
        let found = entries::find(&ctx.workspace, entry, &ctx.cancelled).await?;
        let is_whole = input.operation == Operation::Move || input.recursive.unwrap_or(false);
        if found.is_folder() && !is_whole {
            let text = format!(
                "{} is a folder. Say `recursive` to delete it with all that is in it.",
                found.entry().relative()
            );
            return Err(Stop::Told(Problem::IsFolder, text));
        }
        if found.is_folder() && input.if_sha256.is_some() {
            let text = format!("{} is a folder, which has no SHA-256.", found.entry().relative());
            return Err(Stop::Told(Problem::IsFolder, text));
        }
        let whole = tokio::select! {
            whole = found.load(&self.files) => whole?,
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled.into()),
        };
        for (file, old) in whole.files() {
            expect(file, old, input)?;
        }
        Ok(whole)
    }

    async fn lock(&self, path: ResolvedPath, ctx: &ToolContext) -> Result<LockedFile, Stop> {
        tokio::select! {
            file = self.files.lock(path) => Ok(file),
            () = ctx.cancelled.cancelled() => Err(ToolError::Cancelled.into()),
        }
    }

    /// Records, and changes.
    async fn change(&self, replacements: Vec<Replacement>, ctx: &ToolContext) -> Result<(), Stop> {
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled.into());
        }
        let planned = replacements.iter().map(Replacement::planned_change).collect();
        ctx.changes.record(planned).await?;
        let files: Vec<LockedFile> = replacements.iter().map(|one| one.file.clone()).collect();
        replace_all(replacements).await?;
        for file in &files {
            ctx.wrote(file.path(), None)?;
        }
        self.feedback
            .tell(&files.iter().map(LockedFile::path).collect::<Vec<_>>());
        Ok(())
    }
}

async fn create_folder(input: &Input, ctx: &ToolContext) -> Result<Done, Stop> {
    let path = locate(&ctx.workspace, input.path.clone()).await?.path;
    refuse_outside(&path, ctx)?;
    let ask = Ask {
        title: format!("Create the folder {}", path.relative()),
        ..edit_of(&path)
    };
    ctx.permission.ask(ask).await?;
    if ctx.cancelled.is_cancelled() {
        return Err(ToolError::Cancelled.into());
    }
    entries::make_folder(&path).await?;
    Ok(Done {
        text: format!("The folder {} is there.", path.relative()),
        files: Vec::new(),
        path,
    })
}

fn refuse_outside(path: &ResolvedPath, ctx: &ToolContext) -> Result<(), Stop> {
    match path.is_inside() {
        true => Ok(()),
        false => Err(outside(path, ctx)),
    }
}

fn outside(path: &ResolvedPath, ctx: &ToolContext) -> Stop {
    let (shown, name) = (path.display_path().display(), ctx.workspace.name());
    let text = format!("{shown} leads out of the workspace {name}. Use `write`, `edit` or `bash` there, which ask.");
    Stop::Told(Problem::Outside, text)
}

/// Fails unless a file is what the request expects.
fn expect(file: &LockedFile, old: &Snapshot, input: &Input) -> Result<(), Stop> {
    let shown = file.path().relative();
    if input.if_absent.unwrap_or(false) && old.exists() {
        return Err(Stop::Told(Problem::AlreadyThere, format!("{shown} is there already.")));
    }
    match &input.if_sha256 {
        Some(expected) if !old.exists() => {
            let text = format!("{shown} is not there, and should have the SHA-256 {expected}.");
            Err(Stop::Told(Problem::ContentDiffers, text))
        }
        Some(expected) if !old.sha256().eq_ignore_ascii_case(expected) => {
            let text = format!(
                "{shown} has the SHA-256 {}, not {expected}: somebody has changed it. Read it again.",
                old.sha256()
            );
            Err(Stop::Told(Problem::ContentDiffers, text))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns what a person is shown of a change; nothing for what is no text, or too long to be compared.
async fn diff(file: &LockedFile, old: &Arc<Snapshot>, new: &Bytes) -> Result<Option<FileDiff>, Stop> {
    let is_text = |bytes: &[u8]| bytes.len() <= MAX_SHOWN && std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0);
    if !is_text(old.bytes()) || !is_text(new) {
        return Ok(None);
    }
    Ok(Some(file.diff(old, new).await?))
}

/// Adds paths to a request, those that programs obey by name.
fn add_all<'p>(ask: &mut Ask, paths: impl Iterator<Item = &'p ResolvedPath>) {
    let mut guarded: Vec<AskPart> = Vec::new();
    let paths: Vec<&ResolvedPath> = paths.collect();
    for path in &paths {
        guarded.extend(guarded_file(path));
    }
    add_patterns(ask, paths.into_iter());
    ask_by_name(ask, guarded);
}

fn add_patterns<'p>(ask: &mut Ask, paths: impl Iterator<Item = &'p ResolvedPath>) {
    let mut known: HashSet<String> = ask.patterns.iter().cloned().collect();
    for pattern in paths.flat_map(ResolvedPath::patterns) {
        if known.insert(pattern.clone()) {
            ask.patterns.push(pattern);
        }
    }
}

mod unpack;

#[cfg(test)]
mod tests;
