//! Folders that somebody else names, and that must lie below one of some roots.
//!
//! *Invariant:* what is outside is told as that and nothing more, whether it exists or not. A link may be on the way as it is
//! written, but what it leads to must be below the root too; what is made is made one folder in the other, and no link that
//! was put there meanwhile is followed.

use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::{beneath, path, place};

/// The longest path that is taken.
const MAX_BYTES: usize = 2048;

/// A folder below a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BelowRoot {
    /// Its path, links followed.
    pub folder: PathBuf,
    /// Which of the roots it is below: the innermost.
    pub root: usize,
    /// The path of that root, links followed.
    pub root_folder: PathBuf,
    /// Whether it is there.
    pub is_there: bool,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BelowError {
    /// The path is none that is taken.
    #[error("expected an absolute path without `..` and control characters, of at most {MAX_BYTES} bytes")]
    BadPath,
    /// It is not below a root, or is a root itself.
    #[error("it is not below a folder that the operator allows")]
    Outside,
    /// It is something else than a folder.
    #[error("it is not a folder")]
    NoFolder,
    /// The system refused.
    #[error("it cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Finds a folder below one of the roots. Roots that are not there allow nothing.
///
/// # Errors
/// See [`BelowError`].
pub fn find(roots: &[PathBuf], written: &Path) -> Result<BelowRoot, BelowError> {
    let text = written.to_str().ok_or(BelowError::BadPath)?;
    let climbs = written.components().any(|part| part == Component::ParentDir);
    if !written.is_absolute() || climbs || text.len() > MAX_BYTES || text.contains(char::is_control) {
        return Err(BelowError::BadPath);
    }
    let folder = path::follow(&path::normalize(written));
    let roots = roots.iter().enumerate();
    let roots = roots.filter_map(|(index, root)| Some((index, root.canonicalize().ok()?)));
    let around = roots.filter(|(_, root)| folder.starts_with(root) && folder != *root);
    let (root, root_folder) = around
        .max_by_key(|(_, root)| root.components().count())
        .ok_or(BelowError::Outside)?;
    if folder.to_str().is_none_or(|text| text.contains(char::is_control)) {
        return Err(BelowError::BadPath);
    }
    let is_there = match beneath::open(Some(&root_folder), &folder, beneath::ON_THE_WAY) {
        Ok(_) => true,
        Err(Errno::NOENT) => false,
        Err(Errno::NOTDIR) => return Err(BelowError::NoFolder),
        Err(error) => return Err(BelowError::Io(error.into())),
    };
    Ok(BelowRoot {
        folder,
        root,
        root_folder,
        is_there,
    })
}

impl BelowRoot {
    /// Makes what of it is missing, one folder in the other.
    ///
    /// # Errors
    /// The system refused, or something else stands in the way.
    pub fn make(&self) -> Result<(), BelowError> {
        let made = place::make_folder(Some(&self.root_folder), &self.folder, &mut |_| {});
        made.map(drop).map_err(|error| {
            if error.kind() == io::ErrorKind::NotADirectory {
                return BelowError::NoFolder;
            }
            BelowError::Io(error)
        })
    }
}

/// Says whether one of two folders is, or holds, the other. Both with links followed.
pub fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_folders_below_a_root_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for made in ["real/a/inner", "outside/x", "other"] {
            std::fs::create_dir_all(base.join(made)).unwrap();
        }
        std::fs::write(base.join("real/file"), "").unwrap();
        // The root itself may be a link.
        symlink("real", base.join("root")).unwrap();
        symlink("../outside", base.join("real/out")).unwrap();
        symlink("a", base.join("real/in")).unwrap();
        symlink(base.join("nowhere/at/all"), base.join("real/dangling")).unwrap();
        let roots = [base.join("root"), base.join("root/a"), base.join("none")];
        let check = |written: &str, expected: Result<(&str, usize), &str>| {
            let found = find(&roots, &base.join(written));
            let found = found.and_then(|found| found.make().map(|()| (found.folder, found.root)));
            let found = found.map_err(|error| format!("{error:?}"));
            match (found, expected) {
                (Ok(found), Ok((folder, root))) => assert_eq!(found, (base.join(folder), root), "{written}"),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{written}: {found}"),
                (found, expected) => panic!("{written}: {found:?} {expected:?}"),
            }
        };
        check("root/a", Ok(("real/a", 0)));
        check("real/a", Ok(("real/a", 0)));
        check("root/in", Ok(("real/a", 0)));
        check("root/a/inner", Ok(("real/a/inner", 1)));
        check("root/./a/", Ok(("real/a", 0)));
        // A root is none of its own folders, nor is what only begins like it.
        for outside in [
            "root",
            "real",
            "other",
            "rootless",
            "outside/x",
            "root/out",
            "root/out/x",
            "root/dangling",
        ] {
            check(outside, Err("Outside"));
        }
        for bad in ["root/../other", "root/a\n", "root/a\u{1b}[2J"] {
            check(bad, Err("BadPath"));
        }
        check(&format!("root/{}", "x".repeat(3000)), Err("BadPath"));
        check("root/file", Err("NoFolder"));
        check("root/file/x", Err("NoFolder"));
        let missing = find(&roots, &base.join("root/new/er")).unwrap();
        assert!(!missing.is_there && !base.join("real/new").exists());
        check("root/new/er", Ok(("real/new/er", 0)));
        assert!(base.join("real/new/er").is_dir());
        assert!(matches!(find(&roots, Path::new("relative")), Err(BelowError::BadPath)));
        assert!(matches!(find(&[], &base.join("root/a")), Err(BelowError::Outside)));
        assert!(!base.join("nowhere").exists() && !base.join("outside/y").exists());
    }

    #[test]
    fn folders_overlap_by_components() {
        let check = |one: &str, other: &str, expected| {
            assert_eq!(overlap(Path::new(one), Path::new(other)), expected, "{one} {other}");
            assert_eq!(overlap(Path::new(other), Path::new(one)), expected, "{other} {one}");
        };
        check("/a/b", "/a/b", true);
        check("/a", "/a/b", true);
        check("/a/b", "/a/bc", false);
        check("/a/b", "/a/c", false);
    }
}
