//! Where the project of a file begins, as its server sees it (`docs/spec/skills-and-lsp.md` §B.3).
//!
//! *Invariant:* looks at folders between the file and the workspace's only; a Cargo workspace may begin above that, in the same
//! worktree. Blocking.

use std::path::{Path, PathBuf};

use toolgate_fs::Workspace;
use toolgate_fs::document::{has_entry_ending, text_at};

/// Entries of a folder that are looked at for a name with `*`.
const MAX_ENTRIES: usize = 1000;

/// Bytes of a manifest that is looked into.
const MAX_MANIFEST: u64 = 1 << 20;

const CARGO: &[&str] = &["Cargo.toml", "Cargo.lock"];

/// How a root is found. A name that begins with `*` stands for every name that ends so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// The workspace's folder.
    Start,
    /// The nearest folder that holds one of the first names, else one of the second, and so on, else the workspace's.
    Nearest(&'static [&'static [&'static str]]),
    /// The nearest folder that holds one of the names; without one the server is not for this file.
    Only(&'static [&'static str]),
    /// The nearest package, or the Cargo workspace that it is in.
    Cargo,
}

impl Root {
    /// Returns the root for a file; none if the server is not for it.
    pub(super) fn find(self, file: &Path, workspace: &Workspace) -> Option<PathBuf> {
        let start = || workspace.directory().to_path_buf();
        match self {
            Self::Start => Some(start()),
            Self::Nearest(tiers) => {
                let found = tiers.iter().find_map(|names| nearest(file, workspace, names));
                Some(found.unwrap_or_else(start))
            }
            Self::Only(names) => nearest(file, workspace, names),
            Self::Cargo => Some(cargo(file, workspace).unwrap_or_else(start)),
        }
    }
}

/// Returns the nearest folder above a file, up to the workspace's, that holds one of the names.
pub(super) fn nearest(file: &Path, workspace: &Workspace, names: &[&str]) -> Option<PathBuf> {
    let folders = file.ancestors().skip(1);
    let mut within = folders.take_while(|folder| folder.starts_with(workspace.directory()));
    let holds = |folder: &Path| names.iter().any(|name| is_in(folder, name));
    within.find(|folder| holds(folder)).map(Path::to_path_buf)
}

fn is_in(folder: &Path, name: &str) -> bool {
    match name.strip_prefix('*') {
        Some(ending) => has_entry_ending(folder, ending, MAX_ENTRIES),
        None => folder.join(name).exists(),
    }
}

fn cargo(file: &Path, workspace: &Workspace) -> Option<PathBuf> {
    let package = nearest(file, workspace, CARGO)?;
    let mut outward = package
        .ancestors()
        .take_while(|folder| folder.starts_with(workspace.worktree()));
    let outer = outward
        .find(|folder| {
            let manifest = text_at(workspace, &folder.join("Cargo.toml"), MAX_MANIFEST);
            manifest.is_some_and(|text| text.contains("[workspace]"))
        })
        .map(Path::to_path_buf);
    Some(outer.unwrap_or(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stage {
        folder: tempfile::TempDir,
        workspace: Workspace,
    }

    impl Stage {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            for (name, text) in [("repo/.git/x", ""), ("repo/start/x", "")].iter().chain(files) {
                let path = root.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let workspace = Workspace::open("w", &root.join("repo/start"), None).unwrap();
            Self { folder, workspace }
        }

        fn check(&self, root: Root, file: &str, expected: Option<&str>) {
            let top = self.folder.path().canonicalize().unwrap();
            let found = root.find(&top.join(file), &self.workspace);
            assert_eq!(found, expected.map(|path| top.join(path)), "{root:?} {file}");
        }
    }

    #[test]
    fn the_nearest_folder_counts() {
        let stage = Stage::new(&[
            ("repo/go.work", ""),
            ("repo/start/go.work", ""),
            ("repo/start/a/go.mod", ""),
            ("repo/start/a/b/App.sln", ""),
        ]);
        const GO: Root = Root::Nearest(&[&["go.work"], &["go.mod", "go.sum"]]);
        const MODULE: Root = Root::Nearest(&[&["go.mod"]]);
        stage.check(GO, "repo/start/a/b/x.go", Some("repo/start"));
        stage.check(MODULE, "repo/start/a/b/x.go", Some("repo/start/a"));
        stage.check(MODULE, "repo/start/x.go", Some("repo/start"));
        stage.check(MODULE, "repo/x.go", Some("repo/start"));
        stage.check(MODULE, "elsewhere/x.go", Some("repo/start"));
        stage.check(Root::Start, "repo/start/a/b/x", Some("repo/start"));
        stage.check(Root::Only(&["go.mod"]), "repo/start/a/x", Some("repo/start/a"));
        stage.check(Root::Only(&["go.mod"]), "repo/start/x", None);
        stage.check(
            Root::Nearest(&[&["*.sln"]]),
            "repo/start/a/b/c/x.cs",
            Some("repo/start/a/b"),
        );
    }

    #[test]
    fn a_cargo_workspace_may_begin_further_out() {
        let stage = Stage::new(&[
            ("Cargo.toml", "[workspace]"),
            ("repo/Cargo.toml", "[package]\n[workspace]\n"),
            ("repo/start/Cargo.toml", "[package]"),
            ("repo/start/a/b/Cargo.toml", "[package]"),
        ]);
        stage.check(Root::Cargo, "repo/start/a/b/src/main.rs", Some("repo"));
        std::fs::write(stage.folder.path().join("repo/Cargo.toml"), "[package]").unwrap();
        stage.check(Root::Cargo, "repo/start/a/b/src/main.rs", Some("repo/start/a/b"));
        stage.check(Root::Cargo, "repo/start/a/x.rs", Some("repo/start"));
        std::fs::remove_file(stage.folder.path().join("repo/start/Cargo.toml")).unwrap();
        stage.check(Root::Cargo, "repo/start/x.rs", Some("repo/start"));
    }
}
