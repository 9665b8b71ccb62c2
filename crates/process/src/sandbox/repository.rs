//! Where the repository of a linked worktree is: `.git` is a file there that names it.
//!
//! *Invariant:* a name is believed only if what it leads to names the worktree in return: else a file in a checkout could
//! open any folder.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest file that is read.
const MAX_BYTES: u64 = 4096;

/// Returns the folder that holds the repository of a worktree which is not its own, links followed.
pub(super) fn elsewhere(worktree: &Path) -> Option<PathBuf> {
    let link = worktree.join(".git");
    let folder = line(&link, "gitdir:")?;
    let folder = worktree.join(folder).canonicalize().ok()?;
    let back = folder.join(line(&folder.join("gitdir"), "")?).canonicalize().ok()?;
    if back != link.canonicalize().ok()? {
        return None;
    }
    let common = folder.join(line(&folder.join("commondir"), "")?).canonicalize().ok()?;
    // As git lays it out; anything else is not what made this worktree.
    folder.starts_with(common.join("worktrees")).then_some(common)
}

/// Returns the one line of a small regular file, without what it begins with.
fn line(file: &Path, prefix: &str) -> Option<String> {
    let status = fs::symlink_metadata(file).ok()?;
    if !status.is_file() || status.len() > MAX_BYTES {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    Some(text.strip_prefix(prefix)?.trim().to_owned())
}
