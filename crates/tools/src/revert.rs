//! `revert`: takes back what an earlier call did to files.
//!
//! *Invariant:* every file is looked at under its lock before the first one changes, and either all are restored or none.
//! A content that neither the reverted call nor this one has written is never lost: it is refused or merged.
//!
//! The session in whose name a call is reverted has then seen the files, as after a write. Every other one must read them
//! again before it changes them.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_fs::ResolvedPath;
use toolgate_fs::changes::{LINK_MODE, Replacement, Version, relocate, replace_all};
use toolgate_fs::files::{Files, LockedFile, Snapshot};
use toolgate_fs::marks::sha256;
use toolgate_fs::merge;
use toolgate_lsp::EditDiagnostics;
use toolgate_model::{
    Ask, CallId, Effect, FileAction, FileChange, FileResult, FileVersion, OutputText, ToolOutput, ToolResult, json_map,
};
use toolgate_tool::{
    About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, ask_by_name, changed, edit_of, guarded_part,
    outside,
};

/// What all files of a call may have together, before and after.
const MAX_TOTAL: u64 = 256 << 20;

/// The diffs of the files together are cut off after the file with which they pass this size.
const MAX_DIFF: usize = 1 << 20;

/// The tool.
#[derive(Clone, Debug)]
pub struct Revert {
    files: Arc<Files>,
    feedback: EditDiagnostics,
}

impl Revert {
    /// Makes it; `files` is shared by all tools that change files, and `feedback` by those of a workspace.
    pub fn new(files: Arc<Files>, feedback: EditDiagnostics) -> Self {
        Self { files, feedback }
    }
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The id of the call to take back
    pub call_id: String,
    /// Keep what was changed since in other places of the same files (default: refuse)
    pub merge: Option<bool>,
}

#[async_trait]
impl TypedTool for Revert {
    type Input = Input;

    const ABOUT: About = About {
        name: "revert",
        effects: &[Effect::Writes],
        permissions: &["edit", "external_directory"],
        advertised: false,
        properties: Properties::RESUMABLE,
        example: r#"{"callId": "0190a1c4-7f00-7000-8000-000000000000"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("revert.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["callId"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let call = CallId::from(input.call_id.as_str());
        let changes = ctx.changes.made_by(&call).await?;
        refuse_large(&changes)?;
        let may_merge = input.merge.unwrap_or(false);
        let plans = self.plan(&call, changes, may_merge, ctx).await?;
        let (diff, result) = diff(&plans).await?;
        if plans.iter().any(Plan::changes_something) {
            restore(&plans, &diff, &call, ctx).await?;
            let changed = plans.iter().filter(|plan| plan.changes_something());
            let paths: Vec<&ResolvedPath> = changed.map(|plan| plan.replacement.file.path()).collect();
            self.feedback.tell(&paths);
        }
        Ok(ToolOutput {
            result: Some(ToolResult::files(result)),
            ..output(&call, &plans, diff)
        })
    }
}

impl Revert {
    /// Decides what becomes of each file, with the locks of all held.
    async fn plan(
        &self,
        call: &CallId,
        changes: Vec<FileChange>,
        may_merge: bool,
        ctx: &ToolContext,
    ) -> Result<Vec<Plan>, ToolError> {
        let mut by_path: BTreeMap<PathBuf, Vec<FileChange>> = BTreeMap::new();
        for change in changes {
            by_path.entry(change.path.clone()).or_default().push(change);
        }
        let mut paths = Vec::with_capacity(by_path.len());
        for (real, changes) in &by_path {
            let shown = changes.last().map(|change| change.shown.clone()).unwrap_or_default();
            let versions = changes.iter().flat_map(|change| [&change.before, &change.after]);
            let names_link = versions.flatten().any(|version| is_link(version.mode));
            paths.push(relocate(&ctx.workspace, shown, real, names_link).await?);
        }
        let edits = paths.iter().map(edit_of);
        let mut asks: VecDeque<Ask> = paths.iter().filter_map(|path| outside(path, false)).collect();
        while let Some(ask) = asks.pop_front() {
            let then = asks.iter().cloned().chain(edits.clone()).collect();
            ctx.permission.ask(Ask { then, ..ask }).await?;
        }
        let locked = tokio::select! {
            locked = self.files.lock_all(paths) => locked,
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
        };
        let (mut plans, mut problems) = (Vec::with_capacity(locked.len()), Vec::new());
        for file in locked {
            let changes = by_path.remove(file.path().real()).unwrap_or_default();
            let (old, on_folder) = file.load_or_empty_folder().await?;
            match undo(&old, &changes, may_merge, ctx).await? {
                Ok(undone) => plans.push(Plan {
                    on_folder,
                    ..Plan::new(file, old, undone)
                }),
                Err(problem) => problems.push(format!("- {}: {problem}", file.path().display_path().display())),
            }
        }
        if problems.is_empty() {
            return Ok(plans);
        }
        Err(ToolError::failed(format!(
            "Cannot revert the call {call}, so nothing was changed:\n{}",
            problems.join("\n")
        )))
    }
}

/// What becomes of one file.
struct Plan {
    replacement: Replacement,
    action: Action,
    /// An empty folder stands where the file was.
    on_folder: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Restored,
    Merged,
    Recreated,
    Deleted,
    Unchanged,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Merged => "merged",
            Self::Recreated => "recreated",
            Self::Deleted => "deleted",
            Self::Unchanged => "unchanged",
        }
    }
}

impl Plan {
    fn to_json(&self) -> Value {
        json!({
            "filePath": self.replacement.file.path().display_path().to_string_lossy(),
            "relativePath": self.relative(),
            "action": self.action.word(),
        })
    }

    fn new(file: LockedFile, old: Arc<Snapshot>, undone: Undone) -> Self {
        let action = match (old.version(), &undone.version) {
            (now, then) if now == *then => Action::Unchanged,
            (_, None) => Action::Deleted,
            (None, Some(_)) => Action::Recreated,
            (Some(_), Some(_)) if undone.merged => Action::Merged,
            (Some(_), Some(_)) => Action::Restored,
        };
        let kept = old.version().and_then(|version| version.mode);
        let kept = kept.filter(|mode| !is_link(Some(*mode)));
        let new = undone.version.map(|version| Version {
            // A mode that is not restored is left alone, whatever it will be when the person has answered.
            mode: version.mode.filter(|mode| Some(*mode) != kept),
            ..version
        });
        Self {
            replacement: Replacement { file, old, new },
            action,
            on_folder: false,
        }
    }

    fn changes_something(&self) -> bool {
        self.action != Action::Unchanged
    }

    fn relative(&self) -> &str {
        self.replacement.file.path().relative()
    }
}

/// A file as it was before a call, as far as the changes since allow.
struct Undone {
    version: Option<Version>,
    merged: bool,
}

/// A file while changes are taken back one by one. Contents are fetched only when they are needed.
struct State {
    sha256: String,
    mode: Option<u32>,
    bytes: Option<Bytes>,
}

impl State {
    fn is(&self, version: &FileVersion, with_mode: bool) -> bool {
        self.sha256 == version.sha256
            && is_link(self.mode) == is_link(version.mode)
            && (!with_mode || self.mode == version.mode)
    }
}

fn is_link(mode: Option<u32>) -> bool {
    mode == Some(LINK_MODE)
}

fn is(state: Option<&State>, version: Option<&FileVersion>, with_mode: bool) -> bool {
    match (state, version) {
        (None, None) => true,
        (Some(state), Some(version)) => state.is(version, with_mode),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// Takes back the changes of one file, the last one first. The inner error says for people why it cannot be.
async fn undo(
    old: &Snapshot,
    changes: &[FileChange],
    may_merge: bool,
    ctx: &ToolContext,
) -> Result<Result<Undone, String>, ToolError> {
    let mut merged = false;
    let mut state = old.version().map(|version| State {
        sha256: old.sha256().to_owned(),
        mode: version.mode,
        bytes: Some(version.bytes),
    });
    for FileChange { before, after, .. } in changes.iter().rev() {
        let (before, after) = (before.as_ref(), after.as_ref());
        // Someone else's mode stays, unless it was the mode that the call changed.
        let links = [before, after]
            .into_iter()
            .flatten()
            .any(|version| is_link(version.mode));
        let changes_mode = matches!((before, after), (Some(before), Some(after)) if before.mode != after.mode);
        let with_mode = changes_mode && !links;
        // It was recorded, but never done, or it was taken back already.
        if is(state.as_ref(), before, with_mode) {
            continue;
        }
        if is(state.as_ref(), after, with_mode) {
            let kept = state.and_then(|state| state.mode).filter(|_| !with_mode && !links);
            state = before.map(|before| State {
                sha256: before.sha256.clone(),
                mode: kept.or(before.mode),
                bytes: None,
            });
            continue;
        }
        let (Some(now), Some(before), Some(after)) = (&mut state, before, after) else {
            return Ok(Err(changed_since(after.is_some(), before.is_some())));
        };
        if links {
            return Ok(Err(
                "someone else has changed it since, and links are not merged".to_owned()
            ));
        }
        if !may_merge {
            return Ok(Err(
                "someone else has changed it since; `merge` keeps both changes where they are apart".to_owned(),
            ));
        }
        if let Err(problem) = merge_back(now, before, after, ctx).await? {
            return Ok(Err(problem));
        }
        merged = true;
    }
    let Some(mut state) = state else {
        return Ok(Ok(Undone { version: None, merged }));
    };
    let Some(bytes) = contents(&mut state, ctx).await? else {
        return Ok(Err(gone()));
    };
    let version = Some(Version {
        bytes,
        mode: state.mode,
    });
    Ok(Ok(Undone { version, merged }))
}

fn changed_since(left_file: bool, had_file: bool) -> String {
    match (left_file, had_file) {
        (true, true) => "someone else has deleted it since",
        (true, false) => "the call created it, and someone else has changed it since",
        (false, true) => "the call deleted it, and someone else has created it since",
        (false, false) => "someone else has created it since",
    }
    .to_owned()
}

fn gone() -> String {
    "what it was before is not kept: it was too large, or it is too long ago".to_owned()
}

async fn contents(state: &mut State, ctx: &ToolContext) -> Result<Option<Bytes>, ToolError> {
    if state.bytes.is_none() {
        state.bytes = ctx.changes.content(&state.sha256).await?;
    }
    Ok(state.bytes.clone())
}

/// Takes a change back in a file that was changed since. The inner error says for people why it cannot be.
async fn merge_back(
    now: &mut State,
    before: &FileVersion,
    after: &FileVersion,
    ctx: &ToolContext,
) -> Result<Result<(), String>, ToolError> {
    let (base, theirs) = (
        ctx.changes.content(&after.sha256).await?,
        ctx.changes.content(&before.sha256).await?,
    );
    let (Some(base), Some(theirs), Some(ours)) = (base, theirs, contents(now, ctx).await?) else {
        return Ok(Err(gone()));
    };
    let merging = tokio::task::spawn_blocking(move || merge::three_way(&base, &ours, &theirs));
    let text = match merging.await.map_err(|error| ToolError::Internal(Box::new(error)))? {
        Ok(text) => text,
        Err(error) => {
            let problem = format!("someone else has changed it since, and it cannot be merged: {error}");
            return Ok(Err(problem));
        }
    };
    now.sha256 = sha256(text.as_bytes());
    now.bytes = Some(Bytes::from(text));
    Ok(Ok(()))
}

fn refuse_large(changes: &[FileChange]) -> Result<(), ToolError> {
    let versions = changes.iter().flat_map(|change| [&change.before, &change.after]);
    let total = versions
        .flatten()
        .fold(0_u64, |total, version| total.saturating_add(version.bytes));
    if total <= MAX_TOTAL {
        return Ok(());
    }
    Err(ToolError::failed(format!(
        "The files of that call have {total} bytes together, the limit for a revert is {MAX_TOTAL}."
    )))
}

/// Returns what will be done to the files, for the person who is asked.
async fn diff(plans: &[Plan]) -> Result<(String, Vec<FileResult>), ToolError> {
    let (mut text, mut is_full) = (String::new(), false);
    let mut result = Vec::new();
    for plan in plans.iter().filter(|plan| plan.changes_something()) {
        let Replacement { file, old, new } = &plan.replacement;
        let new = new.as_ref().map(|new| new.bytes.clone()).unwrap_or_default();
        let diff = file.diff(old, &new).await?;
        if text.len() <= MAX_DIFF {
            text.push_str(&diff.text);
        } else if !is_full {
            text.push_str("(the diffs of the other files are too long to be shown)\n");
            is_full = true;
        }
        let change = match plan.action {
            Action::Recreated => FileAction::Added,
            Action::Deleted => FileAction::Deleted,
            Action::Restored | Action::Merged | Action::Unchanged => FileAction::Modified,
        };
        result.push(changed(file.path(), change, &diff));
    }
    Ok((text, result))
}

/// Asks, records, and restores.
async fn restore(plans: &[Plan], diff: &str, call: &CallId, ctx: &ToolContext) -> Result<(), ToolError> {
    let plans: Vec<&Plan> = plans.iter().filter(|plan| plan.changes_something()).collect();
    let paths: Vec<String> = plans.iter().map(|plan| plan.relative().to_owned()).collect();
    let shown: Vec<_> = plans
        .iter()
        .map(|plan| plan.replacement.file.path().display_path().to_string_lossy())
        .collect();
    let mut patterns = Vec::new();
    for pattern in plans.iter().flat_map(|plan| plan.replacement.file.path().patterns()) {
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    let guarded = plans.iter().filter_map(|plan| {
        let Replacement { file, old, new } = &plan.replacement;
        let new = new.as_ref().map(|new| new.bytes.clone()).unwrap_or_default();
        guarded_part(file.path(), old.bytes(), &new)
    });
    let mut ask = Ask {
        permission: "edit".to_owned(),
        title: format!("Revert {}", paths.join(", ")),
        patterns,
        always: vec!["*".to_owned()],
        metadata: json_map([
            ("filepath", json!(shown.join(", "))),
            ("diff", json!(diff)),
            ("revertedCall", json!(call.as_str())),
        ]),
        ..Ask::default()
    };
    ask_by_name(&mut ask, guarded.collect());
    ctx.permission.ask(ask).await?;
    if ctx.cancelled.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let replacements: Vec<Replacement> = plans.iter().map(|plan| plan.replacement.clone()).collect();
    let planned = replacements.iter().map(Replacement::planned_change).collect();
    ctx.changes.record(planned).await?;
    // What is left over from files that came later and are gone.
    for plan in plans.iter().filter(|plan| plan.on_folder) {
        plan.replacement.file.remove_empty_folder().await?;
    }
    let marks = replace_all(replacements).await?;
    for (plan, mark) in plans.into_iter().zip(marks) {
        ctx.wrote(plan.replacement.file.path(), mark)?;
    }
    Ok(())
}

fn output(call: &CallId, plans: &[Plan], diff: String) -> ToolOutput {
    let count = plans.iter().filter(|plan| plan.changes_something()).count();
    let mut text = match count {
        0 => format!("Nothing to do: every file is as it was before the call {call}."),
        _ => format!("Reverted the call {call}."),
    };
    for plan in plans {
        text.push_str(&format!("\n{} {}", plan.action.word(), plan.relative()));
    }
    ToolOutput {
        title: match plans {
            [plan] => plan.relative().to_owned(),
            _ => format!("{count} of {} files", plans.len()),
        },
        output: OutputText::Text(text),
        metadata: json_map([
            ("revertedCall", json!(call.as_str())),
            ("files", plans.iter().map(Plan::to_json).collect()),
            ("diff", json!(diff)),
        ]),
        attachments: Vec::new(),
        result: None,
    }
}

#[cfg(test)]
mod tests;
