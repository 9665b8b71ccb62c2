//! Finding the files of one name below a folder, links followed.
//!
//! *Invariant:* a search looks at a bounded number of entries and enters each folder once, so links that form a loop end
//! and a tree of any size costs the same.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A search for files of one name.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The name.
    pub name: &'a OsStr,
    /// Whether folders whose names begin with a dot are entered. `.git` never is.
    pub enters_hidden: bool,
    /// How many entries are looked at.
    pub most_entries: usize,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The files, by the paths that lead to them, in order.
    pub files: Vec<PathBuf>,
    /// Whether there was more than the search may look at.
    pub is_partial: bool,
}

/// The folders that are yet to be searched.
#[derive(Default)]
struct Left {
    folders: Vec<PathBuf>,
    /// Entered last, so that a folder that is there twice is known by its own path.
    links: Vec<PathBuf>,
}

impl Search<'_> {
    /// Searches below `root`. What cannot be read is passed over. Blocking.
    pub fn below(&self, root: &Path) -> Found {
        let mut found = Found::default();
        let mut left = Left::default();
        let mut entered = HashSet::new();
        let mut entries = 0;
        left.folders.push(root.to_path_buf());
        while let Some(folder) = left.folders.pop().or_else(|| left.links.pop()) {
            let Ok(metadata) = folder.metadata() else { continue };
            if !metadata.is_dir() || !entered.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            let Ok(listing) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in listing.flatten() {
                entries += 1;
                if entries > self.most_entries {
                    found.is_partial = true;
                    found.files.sort_unstable();
                    return found;
                }
                self.sort_out(&entry, &mut found, &mut left);
            }
        }
        found.files.sort_unstable();
        found
    }

    fn sort_out(&self, entry: &std::fs::DirEntry, found: &mut Found, left: &mut Left) {
        let name = entry.file_name();
        if name == self.name {
            found.files.push(entry.path());
            return;
        }
        let is_hidden = name.as_bytes().first() == Some(&b'.');
        if name == ".git" || (is_hidden && !self.enters_hidden) {
            return;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => left.folders.push(entry.path()),
            Ok(kind) if kind.is_symlink() => left.links.push(entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn check(root: &Path, enters_hidden: bool, most_entries: usize, expected: &[&str]) {
        let search = Search {
            name: OsStr::new("X"),
            enters_hidden,
            most_entries,
        };
        let found = search.below(root);
        let expected: Vec<PathBuf> = expected.iter().map(|path| root.join(path)).collect();
        assert_eq!(found.files, expected);
        assert_eq!(found.is_partial, most_entries < 12);
    }

    #[test]
    fn finds_by_name_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["X", "a/b/X", "a/Y", ".hidden/X", ".git/X"] {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), "").unwrap();
        }
        symlink(root, root.join("a/loop")).unwrap();
        symlink(root.join("a/b"), root.join("0")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        check(root, false, 100, &["X", "a/b/X"]);
        check(root, true, 100, &[".hidden/X", "X", "a/b/X"]);
        check(&root.join("none"), true, 100, &[]);
        let most = Search {
            name: OsStr::new("X"),
            enters_hidden: true,
            most_entries: 3,
        };
        assert!(most.below(root).is_partial);
    }

    #[test]
    fn links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (folder.path().join("root"), folder.path().join("elsewhere"));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir_all(elsewhere.join("deep")).unwrap();
        std::fs::write(elsewhere.join("deep/X"), "").unwrap();
        symlink(&elsewhere, root.join("link")).unwrap();
        check(&root, false, 100, &["link/deep/X"]);
        check(&root.join("link"), false, 100, &["deep/X"]);
    }
}
