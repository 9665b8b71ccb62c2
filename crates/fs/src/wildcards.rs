//! What the names in folders are to a shell that expands wildcards.

use std::path::{Path, PathBuf};

/// The most entries that one wildcard is followed through.
const MAX_ENTRIES: usize = 20_000;

/// Says whether a folder holds a name that a program would take for an option.
pub fn holds_dashes(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    let mut names = entries.take(MAX_ENTRIES).flatten().map(|entry| entry.file_name());
    names.any(|name| name.as_encoded_bytes().starts_with(b"-"))
}

/// Returns the paths that a pattern matches through links. A wildcard matches at least what the shell matches with it.
pub fn linked(pattern: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(PathBuf, bool)> = vec![(PathBuf::from("/"), false)];
    let (mut left, mut has_wild) = (MAX_ENTRIES, false);
    for step in pattern.components().skip(1) {
        let name = step.as_os_str().to_string_lossy();
        let mut next = Vec::new();
        let is_wild = name.contains(['*', '?', '[', '(']);
        for (folder, is_linked) in found {
            if !is_wild {
                let path = folder.join(&*name);
                // What comes before the first wildcard is a path like others.
                let is_link = has_wild && path.is_symlink();
                next.push((path, is_linked || is_link));
                continue;
            }
            // Not to every shell.
            if name.starts_with('.') && is_match("..", &name) {
                next.push((folder.join(".."), true));
            }
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                left = left.saturating_sub(1);
                if left == 0 {
                    break;
                }
                if is_match(&entry.file_name().to_string_lossy(), &name) {
                    let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                    next.push((entry.path(), is_linked || is_link));
                }
            }
        }
        has_wild |= is_wild;
        found = next;
    }
    let matched = found.into_iter();
    matched
        .filter(|(_, is_linked)| *is_linked)
        .map(|(path, _)| path)
        .collect()
}

/// Says whether a name may match a wildcard; what brackets and groups mean is taken for anything.
fn is_match(name: &str, pattern: &str) -> bool {
    let beginning = &pattern[..pattern
        .find(['*', '?', '[', '(', '@', '+', '!'])
        .unwrap_or(pattern.len())];
    let end = &pattern[pattern.rfind(['*', '?', ']', ')']).map_or(0, |at| at + 1)..];
    name.starts_with(beginning) && name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_behind_wildcards() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("place");
        std::fs::create_dir_all(place.join("src")).unwrap();
        std::os::unix::fs::symlink("/etc", place.join("src/link")).unwrap();
        let check = |pattern: &str, expected: &[&str]| {
            let found = linked(&place.join(pattern));
            let expected: Vec<PathBuf> = expected.iter().map(|path| place.join(path)).collect();
            assert_eq!(found, expected, "{pattern}");
        };
        check("src/*", &["src/link"]);
        check("s*/link/passwd", &["src/link/passwd"]);
        check("s*/other", &[]);
        // It is a path that holds no wildcard.
        check("src/link/passwd", &[]);
        check(".?/x", &["../x"]);
        check(".*", &[".."]);
        check("*", &[]);
    }
}
