//! What a running call may reach: its ids, its workspace, and a handle for each thing that the engine does for it.
//!
//! *Invariant:* nothing here outlives the call.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolgate_fs::diff::FileDiff;
use toolgate_fs::files::{LockedFile, Snapshot};
use toolgate_fs::marks::ReadMark;
use toolgate_fs::{ResolvedPath, Workspace};
use toolgate_model::{Ask, CallId, Origin, SessionId};
use toolgate_permission::Refusal;

use super::handles::*;
use super::{ToolError, ask_by_name, guarded_file, guarded_part};

/// What a running call may reach: who asks, where, the cancellation, and the engine's services. Nothing in it
/// outlives the call.
#[derive(Clone)]
pub struct ToolContext {
    /// The call's id.
    pub call: CallId,
    /// In whose name it runs.
    pub origin: Arc<Origin>,
    /// Where it works.
    pub workspace: Arc<Workspace>,
    /// Asks the tool to stop; a grace later the call is dropped.
    pub cancelled: CancellationToken,
    /// What it may do, and people who decide about it.
    pub permission: Arc<dyn PermissionHandle>,
    /// What it shows while it runs, and what it leaves.
    pub output: Arc<dyn OutputHandle>,
    /// What the session keeps from one call to the next.
    pub session: Arc<dyn SessionHandle>,
    /// What calls do to files.
    pub changes: Arc<dyn ChangesHandle>,
    /// Calls that it makes, and subagents.
    pub children: Arc<dyn ChildrenHandle>,
    /// The hooks that take part in it.
    pub hooks: Arc<dyn HooksHandle>,
    /// What clients send to it.
    pub stdin: Arc<dyn StdinHandle>,
    /// The program that it runs.
    pub program: Arc<dyn ProgramHandle>,
}

impl ToolContext {
    /// Returns the id of the call's session.
    pub fn session_id(&self) -> &SessionId {
        &self.origin.session
    }

    /// Asks for `external_directory` if the path leads out of the workspace (`docs/spec/file-tools.md` §1.3). `then` is what
    /// the call asks afterwards.
    ///
    /// # Errors
    /// As [`PermissionHandle::ask`].
    pub async fn ask_outside(&self, path: &ResolvedPath, is_folder: bool, then: Vec<Ask>) -> Result<(), Refusal> {
        match outside(path, is_folder) {
            Some(ask) => self.permission.ask(Ask { then, ..ask }).await.map(drop),
            None => Ok(()),
        }
    }

    /// Asks for `edit`, shows the diff, and replaces the content of a file if it still is what the diff was made from.
    /// The session has then seen the new content.
    ///
    /// # Errors
    /// As [`PermissionHandle::ask`]; or the file was changed meanwhile, or cannot be written.
    pub async fn replace_file(
        &self,
        file: &LockedFile,
        old: Arc<Snapshot>,
        new: Bytes,
        diff: &FileDiff,
    ) -> Result<(), ToolError> {
        let (shown, relative) = (file.path().display_path(), file.path().relative());
        let mut ask = Ask {
            permission: "edit".to_owned(),
            patterns: file.path().patterns(),
            always: vec!["*".to_owned()],
            title: relative.to_owned(),
            metadata: toolgate_model::json_map([
                ("filepath", json!(shown.to_string_lossy())),
                ("diff", json!(diff.text)),
            ]),
            ..Ask::default()
        };
        let guarded = guarded_part(file.path(), old.bytes(), &new);
        ask_by_name(&mut ask, guarded.into_iter().collect());
        self.permission.ask(ask).await?;
        if self.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        self.changes.record(vec![file.planned_change(&old, &new)]).await?;
        let mark = file.replace(old, new).await?;
        self.wrote(file.path(), Some(mark))
    }

    /// Announces that the call changed a file. The session has seen its new content, if there is a mark of it.
    ///
    /// # Errors
    /// [`ToolError::Internal`] only.
    pub fn wrote(&self, path: &ResolvedPath, mark: Option<ReadMark>) -> Result<(), ToolError> {
        if let Some(mark) = mark {
            let mark = serde_json::to_value(mark).map_err(|error| ToolError::Internal(Box::new(error)))?;
            self.session.set(&ReadMark::key(path.real()), mark);
        }
        self.changes.announce(path.display_path());
        Ok(())
    }
}

/// Returns the question about a path that leads out of the workspace; none if it does not.
pub fn outside(path: &ResolvedPath, is_folder: bool) -> Option<Ask> {
    let folders = path.outside_folders(is_folder);
    let first = folders.first()?;
    let patterns: Vec<String> = folders
        .iter()
        .map(|folder| format!("{}/*", trim_slash(folder)))
        .collect();
    let metadata = toolgate_model::json_map([
        ("filepath", json!(path.display_path().to_string_lossy())),
        ("parentDir", json!(first.to_string_lossy())),
    ]);
    Some(Ask {
        permission: "external_directory".to_owned(),
        title: path.display_path().to_string_lossy().into_owned(),
        always: if patterns.iter().all(|pattern| is_literal_folder(pattern)) {
            patterns.clone()
        } else {
            Vec::new()
        },
        patterns,
        metadata,
        ..Ask::default()
    })
}

/// Returns what is asked before a file is changed, as far as it is known before the file is read.
pub fn edit_of(path: &ResolvedPath) -> Ask {
    let mut ask = Ask {
        title: path.relative().to_owned(),
        always: vec!["*".to_owned()],
        ..Ask::new("edit", path.patterns())
    };
    ask_by_name(&mut ask, guarded_file(path).into_iter().collect());
    ask
}

/// Says whether the pattern of a folder matches that folder only: its name holds no wildcard, and it is not the root.
fn is_literal_folder(pattern: &str) -> bool {
    let folder = pattern.strip_suffix("/*").unwrap_or(pattern);
    !folder.is_empty() && !folder.contains(['*', '?'])
}

fn trim_slash(folder: &Path) -> String {
    folder.to_string_lossy().trim_end_matches('/').to_owned()
}
