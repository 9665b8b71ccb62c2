//! Where paths lead, for many paths with few folders above them.
//!
//! *Invariant:* it answers as `canonicalize` does at that moment, but for a file with a slash behind it, which is the file. It is made for
//! one confinement and then dropped: what it knows of folders may be otherwise later.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// Follows links.
#[derive(Default)]
pub(super) struct Links(HashMap<PathBuf, Option<PathBuf>>);

impl Links {
    /// Returns a path with all links followed; none if there is nothing. Blocking.
    pub(super) fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let (folder, name) = (path.parent(), path.components().next_back());
        let (Some(folder), Some(Component::Normal(name)), true) = (folder, name, path.is_absolute()) else {
            return path.canonicalize().ok();
        };
        if !self.0.contains_key(folder) {
            let found = self.follow(folder);
            self.0.insert(folder.to_path_buf(), found);
        }
        let place = self.0.get(folder)?.as_ref()?.join(name);
        let metadata = place.symlink_metadata().ok()?;
        match metadata.is_symlink() {
            true => place.canonicalize().ok(),
            false => Some(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_lead_where_the_kernel_says() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/file"), "").unwrap();
        for (to, name) in [
            ("a", "link"),
            ("../link/b", "a/inner"),
            ("nowhere", "broken"),
            ("loop", "loop"),
        ] {
            symlink(to, top.join(name)).unwrap();
        }
        let mut links = Links::default();
        for path in [
            "",
            "a",
            "a/b",
            "a/b/none",
            "a/file",
            "a/file/none",
            "link",
            "link/",
            "link/b",
            "link/inner",
            "a/inner/..",
            "link/..",
            "link/../a/./b",
            "broken",
            "broken/none",
            "loop",
            "loop/none",
            "none/none/none",
        ] {
            let path = top.join(path);
            assert_eq!(links.follow(&path), path.canonicalize().ok(), "{path:?}");
        }
        for path in ["/", ".", "src/lib.rs", "none"] {
            assert_eq!(
                links.follow(Path::new(path)),
                Path::new(path).canonicalize().ok(),
                "{path}"
            );
        }
    }
}
