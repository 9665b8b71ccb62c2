//! A workspace: a named root folder, and which paths lie inside.
//!
//! *Invariant:* whether a path is inside is decided twice, as it is written and where links lead.

use std::path::{Path, PathBuf};

use super::path::{self, ResolvedPath};

/// A named root folder in which tools work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    name: String,
    directory: PathBuf,
    worktree: PathBuf,
    real_directory: PathBuf,
    real_worktree: PathBuf,
    home: Option<PathBuf>,
    is_repository: bool,
}

impl Workspace {
    /// Opens the folder `directory` as a workspace. The worktree is the root of the git checkout that holds it, or the
    /// folder itself where there is none (`docs/spec/file-tools.md` §1.2).
    ///
    /// # Errors
    /// The folder does not exist, is not a folder, or is not an absolute path.
    pub fn open(name: impl Into<String>, directory: &Path, home: Option<PathBuf>) -> std::io::Result<Self> {
        let directory = path::absolute(directory)?;
        let real_directory = directory.canonicalize()?;
        if !real_directory.is_dir() {
            return Err(std::io::Error::from(std::io::ErrorKind::NotADirectory));
        }
        let worktree = directory
            .ancestors()
            .find(|folder| folder.join(".git").exists())
            .filter(|folder| folder.parent().is_some());
        let is_repository = worktree.is_some();
        let worktree = worktree.unwrap_or(&directory).to_path_buf();
        let real_worktree = worktree.canonicalize()?;
        Ok(Self {
            name: name.into(),
            directory,
            worktree,
            real_directory,
            real_worktree,
            home,
            is_repository,
        })
    }

    /// Returns the workspace's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the folder that relative paths are joined to and commands start in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the folder that titles and permission patterns are relative to.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Says whether the worktree was a git checkout when the workspace was opened.
    pub fn is_repository(&self) -> bool {
        self.is_repository
    }

    /// Returns the home folder of the service's user, if it has one.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns the path that people are shown for what a model wrote: relative to the directory, `.` and `..` taken
    /// lexically.
    pub fn display_path(&self, written: impl AsRef<Path>) -> PathBuf {
        path::normalize(&self.directory.join(written))
    }

    /// Resolves a path as a model wrote it: relative to the directory, `.` and `..` taken lexically, then links
    /// followed as far as the path exists.
    pub fn resolve(&self, written: impl AsRef<Path>) -> ResolvedPath {
        let shown = self.display_path(written);
        let real = path::follow(&shown);
        let shown_inside = self.contains(&shown);
        let real_inside = self.contains_real(&real);
        let root = self.root_of(&real);
        let relative = path::relative(&shown, &self.worktree);
        let real_relative = path::relative(&real, &self.real_worktree);
        ResolvedPath::new(shown, real, relative, real_relative, shown_inside, real_inside).within(root)
    }

    /// Returns the workspace's folder in which a path lies whose links were followed.
    pub(super) fn root_of(&self, real: &Path) -> Option<&Path> {
        let roots = [&self.real_worktree, &self.real_directory];
        let root = roots.into_iter().find(|root| path::is_below(real, root));
        root.map(PathBuf::as_path)
    }

    /// Says whether a path whose links were followed lies in the workspace.
    pub fn contains_real(&self, real: &Path) -> bool {
        self.root_of(real).is_some()
    }

    /// Says whether a path lies in the workspace as it is written, wherever links lead.
    pub fn contains(&self, shown: &Path) -> bool {
        [
            &self.directory,
            &self.worktree,
            &self.real_directory,
            &self.real_worktree,
        ]
        .into_iter()
        .any(|root| path::is_below(shown, root))
    }
}
