//! Instruction files that apply to a file: `AGENTS.md` and its like, in the folders between it and the workspace's.
//!
//! *Invariant:* only regular files inside the workspace, links followed; nobody is asked, so nothing outside may be
//! reached this way. Bounded in size.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blocking::blocking;
use super::error::FileError;
use super::text::BOM_BYTES;
use super::{ResolvedPath, Workspace, open};

/// Names of instruction files; of a folder the first that exists counts.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"];

/// More is not delivered with one file; what is nearest comes first.
const MAX_BYTES: usize = 51_200;

/// One instruction file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// Returns the instructions for the file `path`, nearest folder first, from its folder up to just below the
/// workspace's directory; the directory's own are part of every prompt already. The file itself is left out. What
/// cannot be read is left out too.
///
/// # Errors
/// [`FileError::Interrupted`] only.
pub async fn above(workspace: &Arc<Workspace>, path: &ResolvedPath) -> Result<Vec<Instructions>, FileError> {
    let root = workspace.root();
    if path.display_path().parent() == Some(root) || !path.display_path().starts_with(root) {
        return Ok(Vec::new());
    }
    let workspace = Arc::clone(workspace);
    let path = path.clone();
    blocking(move || Ok(find(&workspace, &path))).await
}

fn find(workspace: &Workspace, path: &ResolvedPath) -> Vec<Instructions> {
    let root = workspace.root();
    let below_root = |folder: &&Path| *folder != root && folder.starts_with(root);
    let mut room = MAX_BYTES;
    path.display_path()
        .ancestors()
        .skip(1)
        .take_while(below_root)
        .filter_map(|folder| first_of(workspace, folder))
        .filter(|found| found.real() != path.real() && found.is_inside() && is_named(found.real()))
        .filter_map(|found| {
            let text = load(&found, room)?;
            room = room.saturating_sub(text.len());
            Some(Instructions {
                path: found.display_path().to_path_buf(),
                text,
            })
        })
        .collect()
}

/// A link of the right name to another file is not followed: nobody is asked about what is delivered here.
fn is_named(real: &Path) -> bool {
    real.file_name()
        .is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

fn first_of(workspace: &Workspace, folder: &Path) -> Option<ResolvedPath> {
    let mut candidates = NAMES.iter().map(|name| folder.join(name));
    let found = candidates.find(|candidate| candidate.exists())?;
    Some(workspace.resolve(found.to_str()?))
}

/// Returns what a file says, as far as there is `room`, and a remark if that is not all.
fn load(path: &ResolvedPath, room: usize) -> Option<String> {
    let opened = open::open(path).ok()??;
    let mut bytes = Vec::new();
    opened.file.take(room as u64 + 1).read_to_end(&mut bytes).ok()?;
    let is_cut = bytes.len() > room;
    bytes.truncate(room);
    let text = String::from_utf8_lossy(bytes.strip_prefix(BOM_BYTES).unwrap_or(&bytes));
    (!text.is_empty()).then(|| match is_cut {
        // The cut may go through a character.
        true => format!(
            "{}\n\n(The file goes on; these are its first {room} bytes.)",
            text.trim_end_matches('\u{fffd}')
        ),
        false => text.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_name_of_each_folder_nearest_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        std::fs::create_dir_all(root.join("a/b/c")).unwrap();
        for (name, text) in [
            ("AGENTS.md", "root"),
            ("a/CLAUDE.md", "a"),
            ("a/CONTEXT.md", "not this"),
            ("a/b/AGENTS.md", "b"),
        ] {
            std::fs::write(root.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink(outside.path().join("secret"), root.join("a/b/c/AGENTS.md")).unwrap();
        let workspace = Workspace::open("w", &root, None).unwrap();
        let check = |path: &str, expected: &[&str]| {
            let found = find(&workspace, &workspace.resolve(path));
            let texts: Vec<_> = found.iter().map(|found| found.text.as_str()).collect();
            assert_eq!(texts, expected, "{path}");
        };
        check("x", &[]);
        check("a/x", &["a"]);
        check("a/b/x", &["b", "a"]);
        check("a/b/c/x", &["b", "a"]);
        check("a/b/AGENTS.md", &["a"]);
        check("/etc/passwd", &[]);
    }

    #[test]
    fn what_is_cut_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::write(
            root.join("a/AGENTS.md"),
            format!("\u{feff}{}", "\u{e9}".repeat(MAX_BYTES)),
        )
        .unwrap();
        let workspace = Workspace::open("w", &root, None).unwrap();
        let found = find(&workspace, &workspace.resolve("a/x"));
        let (text, remark) = found[0].text.split_once("\n\n").unwrap();
        assert_eq!(text, "\u{e9}".repeat((MAX_BYTES - BOM_BYTES.len()) / 2));
        assert_eq!(remark, "(The file goes on; these are its first 51200 bytes.)");
    }
}
