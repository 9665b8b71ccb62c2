//! A workspace: a named root folder, and which paths lie inside.
//!
//! *Invariant:* whether a path is inside is decided twice, as it is written and where links lead.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::open;
use super::path::{self, ResolvedPath};

/// What protects itself by its name, wherever it stands: see [`super::guarded`] and the sandbox's list of what no command may
/// write.
const KNOWN_BY_NAME: [&str; 3] = [".opencode", "opencode.json", "opencode.jsonc"];

/// Folders below which names say nothing to the sandbox: what is there is not the project's own. A workspace may lie there.
const FOREIGN: [&str; 3] = ["node_modules", "site-packages", "vendor"];

/// A named root folder in which tools work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    name: String,
    directory: PathBuf,
    /// Where somebody works, if not in the directory itself.
    start: Option<PathBuf>,
    worktree: PathBuf,
    real_directory: PathBuf,
    real_worktree: PathBuf,
    home: Option<PathBuf>,
    is_repository: bool,
    is_local: bool,
    configuration: Configuration,
}

/// Where the workspace's rules are read from. All views of a workspace share it, and it is no part of what a workspace is.
#[derive(Clone, Debug, Default)]
struct Configuration(Arc<Mutex<Arc<[PathBuf]>>>);

impl PartialEq for Configuration {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Configuration {}

impl Workspace {
    /// Opens the folder `directory` as a workspace. The worktree is the root of the git checkout that holds it, or the
    /// folder itself where there is none (`docs/spec/file-tools.md` §1.2).
    ///
    /// # Errors
    /// The folder does not exist, is not a folder, or is not an absolute path.
    pub fn open(name: impl Into<String>, directory: &Path, home: Option<PathBuf>) -> std::io::Result<Self> {
        Self::open_up_to(name.into(), directory, None, home)
    }

    /// Opens a folder below a root, both with links followed. A checkout counts as the worktree only if it lies below the
    /// root too.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_below(
        name: impl Into<String>,
        (root, directory): (&Path, &Path),
        home: Option<PathBuf>,
    ) -> std::io::Result<Self> {
        Self::open_up_to(name.into(), directory, Some(root), home)
    }

    /// Stands for a folder that cannot be opened; nothing is to be done there.
    pub fn absent(name: impl Into<String>, directory: &Path) -> Self {
        Self {
            name: name.into(),
            directory: directory.to_path_buf(),
            start: None,
            worktree: directory.to_path_buf(),
            real_directory: directory.to_path_buf(),
            real_worktree: directory.to_path_buf(),
            home: None,
            is_repository: false,
            is_local: false,
            configuration: Configuration::default(),
        }
    }

    fn open_up_to(name: String, directory: &Path, root: Option<&Path>, home: Option<PathBuf>) -> std::io::Result<Self> {
        let directory = path::absolute(directory)?;
        let real_directory = directory.canonicalize()?;
        if !real_directory.is_dir() {
            return Err(std::io::Error::from(std::io::ErrorKind::NotADirectory));
        }
        let worktree = directory
            .ancestors()
            .take_while(|folder| root.is_none_or(|root| *folder != root))
            .find(|folder| folder.join(".git").exists())
            .filter(|folder| folder.parent().is_some());
        let is_repository = worktree.is_some();
        let worktree = worktree.unwrap_or(&directory).to_path_buf();
        let real_worktree = worktree.canonicalize()?;
        if root.is_some() && (real_directory != directory || real_worktree != worktree) {
            return Err(std::io::Error::other("a link was put there meanwhile"));
        }
        // What is below the worktree counts as inside, and that may be on another file system.
        let is_local = open::is_local(&real_directory) && open::is_local(&real_worktree);
        Ok(Self {
            is_local,
            name,
            directory,
            start: None,
            worktree,
            real_directory,
            real_worktree,
            home,
            is_repository,
            configuration: Configuration::default(),
        })
    }

    /// Returns the workspace's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the same workspace for somebody who works in a folder of its directory, and that folder relative to it; none
    /// if it is not there, is no folder, or lies outside. What is inside stays the same. Blocking.
    pub fn starting_in(&self, written: &Path) -> Option<(Self, String)> {
        let start = path::normalize(&self.directory.join(written));
        let relative = start.strip_prefix(&self.directory).ok()?.to_str()?.to_owned();
        let real = start.canonicalize().ok()?;
        if !real.starts_with(&self.real_directory) || !real.is_dir() {
            return None;
        }
        let workspace = Self {
            start: Some(start).filter(|start| *start != self.directory),
            ..self.clone()
        };
        Some((workspace, relative))
    }

    /// Returns the folder that relative paths are joined to and commands start in.
    pub fn directory(&self) -> &Path {
        self.start.as_deref().unwrap_or(&self.directory)
    }

    /// Returns the folder that was opened, wherever in it somebody works.
    pub fn root(&self) -> &Path {
        &self.directory
    }

    /// Says whether its files are on this machine's own disks, so that the kernel can tell what it has in memory of them.
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Says whether somebody works in another folder than the one that was opened.
    pub fn starts_elsewhere(&self) -> bool {
        self.start.is_some()
    }

    /// Returns the folder that titles and permission patterns are relative to.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Returns the worktree with links followed, as it was when the workspace was opened.
    pub fn real_worktree(&self) -> &Path {
        &self.real_worktree
    }

    /// Returns the directory with links followed, as it was when the workspace was opened.
    pub fn real_directory(&self) -> &Path {
        &self.real_directory
    }

    /// Says whether the directory still leads to the folder that was opened.
    pub fn is_in_place(&self) -> bool {
        let real = self.directory.canonicalize();
        real.is_ok_and(|real| real == self.real_directory && real.is_dir())
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
        path::normalize(&self.directory().join(written))
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
        let configures = self.is_configured_by(&real);
        ResolvedPath::new(shown, real, relative, real_relative, shown_inside, real_inside)
            .within(root)
            .configuring(configures)
    }

    /// Notes from which files and folders the workspace's rules are read, whether they are there or not, inside or outside. Of
    /// those inside only those count that nothing tells by their names: an operator may have named any file. Blocking.
    pub fn note_configuration<'p>(&self, paths: impl IntoIterator<Item = &'p Path>) {
        let is_one_of = |part: &OsStr, names: &[&str]| names.iter().any(|name| part == *name);
        let is_known = |relative: &Path| {
            let mut own = relative.iter().take_while(|part| !is_one_of(part, &FOREIGN));
            own.any(|part| is_one_of(part, &KNOWN_BY_NAME))
        };
        let mut places: Vec<PathBuf> = Vec::new();
        for place in paths.into_iter().flat_map(path::stations) {
            let inside = self.root_of(&place).and_then(|root| place.strip_prefix(root).ok());
            let counts = match inside {
                Some(inside) => !inside.as_os_str().is_empty() && !is_known(inside),
                None => place.parent().is_some(),
            };
            if counts {
                places.push(place);
            }
        }
        places.sort_unstable();
        // What is below another one is protected with it.
        places.dedup_by(|place, before| place.starts_with(before));
        *self.configuration.0.lock() = places.into();
    }

    /// Returns what was noted of that, links followed.
    pub fn configuration(&self) -> Arc<[PathBuf]> {
        self.configuration.0.lock().clone()
    }

    /// Says whether the workspace's rules are read from a path, links followed, from below it or from above it.
    pub(super) fn is_configured_by(&self, real: &Path) -> bool {
        // Who moves a folder around it can put another one in its place.
        let is_inside = self.root_of(real).is_some_and(|root| root != real);
        let is_around = |place: &Path| is_inside && path::is_within_any_case(place, real);
        let is_at = |place: &Path| path::is_within_any_case(real, place);
        let places = self.configuration();
        is_around(&self.real_directory) || places.iter().any(|place| is_at(place) || is_around(place))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_configures_it_is_told_by_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for name in ["w/.git", "w/a/b/settings", "w/shared", "out"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        std::fs::write(top.join("w/shared/rules.json"), "{}").unwrap();
        symlink("../../shared/rules.json", top.join("w/a/b/linked.json")).unwrap();
        let workspace = Workspace::open("w", &top.join("w/a/b"), None).unwrap();
        let check = |path: &str, expected: bool| {
            assert_eq!(workspace.resolve(top.join(path)).configures(), expected, "{path}");
        };
        // Who moves one of the folders that the workspace is in puts another one in its place.
        check("w/a", true);
        check("w/a/b", true);
        check("w/a/b/linked.json", false);
        let noted = [
            "w/a/b/linked.json",
            "w/a/b/settings",
            "w/a/b/new.json",
            "w/opencode.json",
            "w/.opencode/agent",
            "w/vendor/b/opencode.json",
            "out/x",
        ];
        let noted: Vec<PathBuf> = noted.iter().map(|path| top.join(path)).collect();
        workspace.clone().note_configuration(noted.iter().map(PathBuf::as_path));
        let places = [
            "out/x",
            "w/a/b/linked.json",
            "w/a/b/new.json",
            "w/a/b/settings",
            "w/shared/rules.json",
            "w/vendor/b/opencode.json",
        ];
        assert_eq!(*workspace.configuration(), places.map(|place| top.join(place)));
        for path in [
            "w/a/b/linked.json",
            "w/shared/rules.json",
            "w/shared",
            "w/a/b/new.json",
            "w/a/b/settings/agent/x.md",
            "w/Shared/Rules.JSON",
            "w/vendor/b/opencode.json",
            "out/x/agent.md",
        ] {
            check(path, true);
        }
        for path in ["w/shared/other.json", "w/a/c", "out", "w", "w/opencode.json"] {
            check(path, false);
        }
    }
}
