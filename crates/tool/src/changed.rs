//! What a tool says of a file that it changed, for programs.
//!
//! *Invariant:* names the file as people know it, not as the kernel does.

use toolgate_fs::ResolvedPath;
use toolgate_fs::diff::FileDiff;
use toolgate_model::{FileAction, FileResult};

/// Makes the result of a change of one file.
pub fn changed(path: &ResolvedPath, change: FileAction, diff: &FileDiff) -> FileResult {
    FileResult {
        path: path.display_path().to_string_lossy().into_owned(),
        change,
        moved_to: None,
        added_lines: diff.additions as u64,
        removed_lines: diff.deletions as u64,
        diff: Some(diff.text.clone()),
    }
}

/// Returns what is done to a file that was there before or not.
pub fn change_of(exists: bool) -> FileAction {
    if exists {
        FileAction::Modified
    } else {
        FileAction::Added
    }
}
