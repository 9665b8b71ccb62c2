//! What a written path names: a file, and the link that leads to it.
//!
//! *Invariant:* looks, and changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blocking::blocking;
use super::error::{FileError, MAX_PATH};
use super::{ResolvedPath, Workspace, path};

/// What a written path names: a file, and the link that leads to it if the path's last part is one.
#[derive(Clone, Debug)]
pub struct Target {
    path: ResolvedPath,
    link: Option<ResolvedPath>,
}

impl Target {
    /// Resolves paths that a model wrote. Nothing of what it finds may be told to the model before they are approved.
    ///
    /// # Errors
    /// A path is too long.
    pub async fn resolve_all(workspace: &Arc<Workspace>, written: Vec<String>) -> Result<Vec<Self>, FileError> {
        if let Some(path) = written.iter().find(|path| path.len() > MAX_PATH) {
            return Err(FileError::PathTooLong { length: path.len() });
        }
        let workspace = Arc::clone(workspace);
        let resolve = move || {
            Ok(written
                .iter()
                .map(|path| Self::resolve(&workspace, path.as_ref()))
                .collect())
        };
        blocking(resolve).await
    }

    pub(super) fn resolve(workspace: &Workspace, written: &Path) -> Self {
        let path = workspace.resolve(written);
        let link = entry_of(path.display_path())
            .filter(|entry| entry.is_symlink())
            .map(|entry| {
                let inside = workspace.contains_real(&entry);
                // What it is called was looked at with the path; this is about the folder that the link stands in.
                let relative = path.relative().to_owned();
                let root = workspace.root_of(&entry).map(Path::to_path_buf);
                let configures = workspace.is_configured_by(&entry);
                ResolvedPath::new(
                    path.display_path().into(),
                    entry,
                    relative.clone(),
                    relative,
                    true,
                    inside,
                )
                .within(root.as_deref())
                .configuring(configures)
                .naming_link()
            });
        Self { path, link }
    }

    /// Returns the path of the file, links followed.
    pub fn path(&self) -> &ResolvedPath {
        &self.path
    }

    /// Returns the path of the link itself, if the last part of the path is one: what deleting the path removes.
    pub fn link(&self) -> Option<&ResolvedPath> {
        self.link.as_ref()
    }

    /// Says whether both name the same entry of the same folder.
    pub fn is_same_entry(&self, other: &Self) -> bool {
        self.entry() == other.entry()
    }

    /// Returns the path as that of a link, whether one is there or not.
    pub(super) fn into_entry(self) -> ResolvedPath {
        self.link.unwrap_or(self.path).naming_link()
    }

    /// Returns the path of the link if there is one, and otherwise that of the file.
    pub(super) fn entry_or_file(self) -> ResolvedPath {
        self.link.unwrap_or(self.path)
    }

    fn entry(&self) -> &Path {
        self.link.as_ref().unwrap_or(&self.path).real()
    }
}

/// Returns where a path stands, without following its last part.
fn entry_of(shown: &Path) -> Option<PathBuf> {
    Some(path::follow(shown.parent()?).join(shown.file_name()?))
}
