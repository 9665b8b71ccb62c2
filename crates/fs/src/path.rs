//! Resolving paths: lexically, through links, and relative to a root.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// The longest path that the kernel takes, in bytes.
const MAX_PATH: usize = 4096;

/// Links that are followed before a path counts as a loop; the kernel's own limit.
const MAX_LINKS: usize = 40;

/// What stands in no path of a URI as it is (RFC 3986 §3.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// A path that was resolved once: absolute, links followed, inside or outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    shown: PathBuf,
    real: PathBuf,
    relative: String,
    /// The real path relative to the real worktree.
    real_relative: String,
    shown_inside: bool,
    real_inside: bool,
    /// The workspace's folder that the real path lies in.
    root: Option<Arc<Path>>,
    names_link: bool,
    configures: bool,
}

impl ResolvedPath {
    pub(super) fn new(
        shown: PathBuf,
        real: PathBuf,
        relative: String,
        real_relative: String,
        shown_inside: bool,
        real_inside: bool,
    ) -> Self {
        Self {
            shown,
            real,
            relative,
            real_relative,
            shown_inside,
            real_inside,
            root: None,
            names_link: false,
            configures: false,
        }
    }

    /// Returns the same path, of which is said whether the workspace is configured by what is there.
    pub(super) fn configuring(self, configures: bool) -> Self {
        Self { configures, ..self }
    }

    /// Says whether the workspace's rules are read from the real path, or from below it.
    pub fn configures(&self) -> bool {
        self.configures
    }

    /// Returns the same path, whose real one lies in `root`.
    pub(super) fn within(self, root: Option<&Path>) -> Self {
        Self {
            root: root.map(Arc::from),
            ..self
        }
    }

    /// Returns the workspace's folder, links followed, that the real path lies in; none outside.
    pub(super) fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Returns the same path, which means the link that stands there, if one does, and not what it leads to.
    pub(super) fn naming_link(self) -> Self {
        Self {
            names_link: true,
            ..self
        }
    }

    /// Says whether a link at the real path is what is meant.
    pub(super) fn names_link(&self) -> bool {
        self.names_link
    }

    /// Returns the absolute path as written, `.` and `..` taken out: for texts and for opening what the user named.
    pub fn display_path(&self) -> &Path {
        &self.shown
    }

    /// Returns the path with every link followed. What does not exist is appended as written. All reading and
    /// writing goes to this path.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Returns the path relative to the worktree, with `..` segments if it is outside: for titles and patterns.
    pub fn relative(&self) -> &str {
        &self.relative
    }

    /// Returns the real path relative to the real worktree, with `..` segments if it is outside.
    pub fn real_relative(&self) -> &str {
        &self.real_relative
    }

    /// Returns what permission rules are held against: the relative path and, where a link inside the workspace leads
    /// to a file of another name there, the name of that file too.
    pub fn patterns(&self) -> Vec<String> {
        let mut patterns = vec![self.relative.clone()];
        if self.real_inside && self.real_relative != self.relative && self.shown_inside {
            patterns.push(self.real_relative.clone());
        }
        patterns
    }

    /// Says whether the path lies in the workspace, both as written and after following links.
    pub fn is_inside(&self) -> bool {
        self.shown_inside && self.real_inside
    }

    /// Returns the folders that must be approved before the path may be touched: none inside the workspace, otherwise
    /// the target itself if `is_folder` and else its parent, for each of the two forms that lies outside.
    pub fn outside_folders(&self, is_folder: bool) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for (path, inside) in [(&self.shown, self.shown_inside), (&self.real, self.real_inside)] {
            if inside {
                continue;
            }
            let folder = if is_folder {
                path.as_path()
            } else {
                path.parent().unwrap_or(path)
            };
            if !folders.iter().any(|known| known == folder) {
                folders.push(folder.to_path_buf());
            }
        }
        folders
    }
}

/// Makes a path absolute and takes `.` and `..` out of it, without following links.
///
/// # Errors
/// The path is relative and the current directory cannot be read.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    Ok(normalize(&std::path::absolute(path)?))
}

/// Returns the URL of an absolute path.
pub fn file_url(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), ESCAPED))
}

/// Takes `.` and `..` out of an absolute path, lexically.
pub fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(component),
        }
    }
    clean
}

/// Says whether `path` is `root` or lies below it; both absolute and normalized. A root of `/` contains nothing
/// (`docs/spec/file-tools.md` §1.3).
pub fn is_below(path: &Path, root: &Path) -> bool {
    root.parent().is_some() && path.starts_with(root)
}

/// Says whether `path` is `folder` or lies below it where the case of letters does not matter: some file systems do not keep
/// it apart.
pub fn is_within_any_case(path: &Path, folder: &Path) -> bool {
    let mut parts = path.iter();
    folder
        .iter()
        .all(|part| parts.next().is_some_and(|own| own.eq_ignore_ascii_case(part)))
}

/// Returns `path` relative to `base`, with `..` segments where it must climb; empty if they are equal.
pub fn relative(path: &Path, base: &Path) -> String {
    let mut ours = path.components().peekable();
    let mut theirs = base.components().peekable();
    while ours.peek().is_some() && ours.peek() == theirs.peek() {
        ours.next();
        theirs.next();
    }
    let mut relative = PathBuf::new();
    for _ in theirs {
        relative.push("..");
    }
    relative.extend(ours);
    relative.to_string_lossy().into_owned()
}

/// Follows every link of an absolute, normalized path as far as it exists, dangling links included, and appends the
/// rest as written. A loop of links stays as written from the link on.
pub fn follow(path: &Path) -> PathBuf {
    if path.as_os_str().len() > MAX_PATH {
        // The kernel opens no path of this length, so there is nothing to follow.
        return path.to_path_buf();
    }
    walk(path)
}

/// As [`follow`], for an absolute path as it is written: `..` is the parent of what stands before it once links are
/// followed, as it is to the kernel. The path may be longer than the kernel takes, since programs hand in the relative end
/// of it.
pub fn walk(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    walk_through(path, &mut |_| {})
}

/// Returns the places that decide what an absolute path leads to: where it ends, links followed, and each link on the way.
pub fn stations(path: &Path) -> Vec<PathBuf> {
    let mut stations = Vec::new();
    let end = walk_through(path, &mut |link| stations.push(link.to_path_buf()));
    stations.push(end);
    stations
}

fn walk_through(path: &Path, at_link: &mut dyn FnMut(&Path)) -> PathBuf {
    let mut todo: Vec<OsString> = Vec::new();
    let push_reversed = |todo: &mut Vec<OsString>, path: &Path| {
        todo.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
    };
    push_reversed(&mut todo, path);
    let mut real = PathBuf::new();
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(&part);
        if links >= MAX_LINKS || real.as_os_str().len() > MAX_PATH {
            continue;
        }
        if let Ok(target) = std::fs::read_link(&real) {
            links += 1;
            at_link(&real);
            push_reversed(&mut todo, &target);
            if target.is_absolute() {
                real = PathBuf::new();
            } else {
                real.pop();
            }
        }
    }
    normalize(&real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizes() {
        let check = |input: &str, expected: &str| assert_eq!(normalize(Path::new(input)), Path::new(expected));
        check("/a/./b/../c", "/a/c");
        check("/../..", "/");
        check("/a/../../b", "/b");
        check("/..notes/x", "/..notes/x");
    }

    #[test]
    fn is_relative_to_a_base() {
        let check = |path: &str, base: &str, expected: &str| {
            assert_eq!(
                relative(Path::new(path), Path::new(base)),
                expected,
                "{path} from {base}"
            );
        };
        check("/w/src/a.rs", "/w", "src/a.rs");
        check("/w", "/w", "");
        check("/other/x", "/w/deep", "../../other/x");
        check("/wx", "/w", "../wx");
    }

    #[test]
    fn the_case_of_letters_may_not_matter() {
        let within = |path: &str, folder: &str| is_within_any_case(Path::new(path), Path::new(folder));
        assert!(within("/W/Rules.JSON", "/w/rules.json") && within("/w/a/B", "/w/A"));
        assert!(!within("/w/rules.json.md", "/w/rules.json") && !within("/w", "/w/a"));
    }

    #[test]
    fn below_is_by_whole_segments() {
        let below = |path: &str, root: &str| is_below(Path::new(path), Path::new(root));
        assert!(below("/w/..notes", "/w"));
        assert!(below("/w", "/w"));
        assert!(!below("/wx", "/w"));
        assert!(!below("/anything", "/"));
    }

    /// Makes folders, and links by target and name. The folder is there until the first part is dropped.
    fn tree(folders: &[&str], links: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in folders {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for (target, name) in links {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        }
        (folder, root)
    }

    #[test]
    fn follows_links_dangling_ones_included() {
        let links = [
            ("/nowhere/at/all", "in/dangling"),
            ("../in", "in/back"),
            ("loop-b", "loop-a"),
            ("loop-a", "loop-b"),
        ];
        let (_folder, root) = tree(&["in"], &links);
        assert_eq!(follow(&root.join("in/dangling/x")), Path::new("/nowhere/at/all/x"));
        assert_eq!(follow(&root.join("in/back/new.txt")), root.join("in/new.txt"));
        assert!(follow(&root.join("loop-a/x")).starts_with(&root));
    }

    #[test]
    fn walks_as_the_kernel_does() {
        let links = [
            ("../out/deep", "in/link"),
            ("link/../..", "in/up"),
            ("loop-b", "in/loop-a"),
            ("loop-a", "in/loop-b"),
            ("./gone/../../new", "in/dangling"),
        ];
        let (_folder, root) = tree(&["out/deep", "in"], &links);
        let check = |path: &str, expected: &str| assert_eq!(walk(&root.join(path)), root.join(expected), "{path}");
        check("in/link/../x", "out/x");
        check("in/link/../../in/x", "in/x");
        check("in/up/x", "x");
        check("in/gone/../x", "in/x");
        check("in/link/../gone/../../x", "x");
        check("in/dangling/x", "new/x");
        check("in/link/.", "out/deep");
        check("in/loop-a/../x", "in/x");
        let long = format!("in/{}link/../x", "../in/".repeat(MAX_PATH));
        check(&long, "out/x");
    }

    proptest::proptest! {
        #[test]
        fn where_a_file_can_be_made_it_is_made_there(parts in proptest::collection::vec("a|b|link|back|[.][.]|[.]", 0..8)) {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            for name in ["a/b/a/b", "b/a/b"] {
                std::fs::create_dir_all(root.join("1/2/3/4/5/6/7/8").join(name)).unwrap();
            }
            let start = root.join("1/2/3/4/5/6/7/8");
            std::os::unix::fs::symlink("b/a", start.join("a/link")).unwrap();
            std::os::unix::fs::symlink("a/b", start.join("link")).unwrap();
            std::os::unix::fs::symlink(&start, start.join("a/b/back")).unwrap();
            let path = start.join(parts.join("/")).join("made");
            let expected = walk(&path);
            if std::fs::write(&path, "").is_ok() {
                proptest::prop_assert!(expected.exists(), "{path:?} is not {expected:?}");
                proptest::prop_assert_eq!(expected.canonicalize().unwrap(), expected);
            }
        }
    }
}
