//! What is in a workspace, for people who look: the facts of one path, and a tree page by page.
//!
//! *Invariant:* nothing is opened but folders, and no link is followed below the path that was resolved. A page takes the
//! memory of its entries, however many a folder has, and pages follow each other in the order of their paths.

use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::error::FileError;
use super::found::modified;
use super::ignore_rules::{Marks, Rules};
use super::newest::Modified;
use super::{ResolvedPath, beneath};

/// Folders that lie in each other are listed down to here; each has a file descriptor while what is in it is listed.
pub const MAX_DEPTH: usize = 64;

/// Names between two looks at the cancellation.
const CHECK_EVERY: usize = 256;

const LISTING: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Other,
        }
    }
}

/// What is known of an entry without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: EntryKind,
    /// Bytes.
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// When its content was last modified.
    pub modified: Modified,
}

impl Facts {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            modified: modified(stat),
        }
    }
}

/// Returns the facts of what a path leads to, or `None` if nothing is there. Nothing is opened, so nothing is waited for.
///
/// # Errors
/// The operating system refuses, or the path leads elsewhere by now.
pub async fn look(path: &ResolvedPath) -> Result<Option<Facts>, FileError> {
    let path = path.clone();
    blocking(move || {
        let failed = |error: Errno| FileError::io("look at", path.display_path(), error.into());
        match beneath::open(path.root(), path.real(), OFlags::PATH) {
            Ok(opened) => Ok(Some(Facts::of(&rustix::fs::fstat(opened).map_err(failed)?))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    })
    .await
}

/// Returns where the link leads, as it is written, that stands at the path as it is shown; `None` if none does.
///
/// # Errors
/// [`FileError::Interrupted`] only.
pub async fn link_at(path: &ResolvedPath) -> Result<Option<PathBuf>, FileError> {
    let shown = path.display_path().to_path_buf();
    blocking(move || Ok(std::fs::read_link(shown).ok())).await
}

/// Which entries of a tree are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// How deep to look: 1 for the folder's own entries.
    pub depth: usize,
    /// Whether entries that ignore rules name, and `.git`, are listed as well.
    pub ignored: bool,
    /// The last entry of the page before, relative to the folder; none for the first page.
    pub after: Option<PathBuf>,
    /// At most this many entries.
    pub most: usize,
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, relative to the folder that was listed.
    pub relative: PathBuf,
    /// What it is; of a link, the link itself.
    pub facts: Facts,
    /// Where a link leads, as it is written.
    pub link: Option<PathBuf>,
    /// It is a folder that cannot be listed.
    pub closed: bool,
}

/// Some entries of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In the order of their paths, a folder before what is in it.
    pub entries: Vec<Entry>,
    /// Whether others follow.
    pub more: bool,
}

/// Lists a folder, and what lies below it as deep as it is wanted. What `hides` says of a relative path is left out, and not
/// entered.
///
/// # Errors
/// There is no such folder, it cannot be listed, or `cancelled` came.
pub async fn list(
    path: &ResolvedPath,
    wanted: Wanted,
    hides: impl Fn(&Path) -> bool + Send + 'static,
    cancelled: CancellationToken,
) -> Result<Page, FileError> {
    let path = path.clone();
    blocking(move || {
        let failed = |error: Errno| FileError::io("list", path.display_path(), error.into());
        let opened = beneath::open(path.root(), path.real(), LISTING).map_err(failed)?;
        let mut walker = Walker {
            root: path.real(),
            shown: path.display_path(),
            wanted: &wanted,
            hides: &hides,
            cancelled: &cancelled,
            page: Page::default(),
        };
        let rules = if wanted.ignored {
            None
        } else {
            Rules::above(path.real())
        };
        let after: Vec<&OsStr> = wanted.after.iter().flat_map(|after| after.iter()).collect();
        walker.folder(&opened, Path::new(""), rules, wanted.depth, &after)?;
        Ok(walker.page)
    })
    .await
}

struct Walker<'a> {
    root: &'a Path,
    shown: &'a Path,
    wanted: &'a Wanted,
    hides: &'a dyn Fn(&Path) -> bool,
    cancelled: &'a CancellationToken,
    page: Page,
}

/// The first names of a folder.
struct Names {
    sorted: Vec<(Vec<u8>, EntryKind)>,
    /// There are others behind them.
    cut: bool,
}

impl Walker<'_> {
    /// Lists a folder that is open; `after` is where the page before ended, seen from here. Says whether to go on.
    fn folder(
        &mut self,
        opened: &OwnedFd,
        relative: &Path,
        above: Option<Arc<Rules>>,
        depth: usize,
        after: &[&OsStr],
    ) -> Result<bool, FileError> {
        let rules = match self.wanted.ignored {
            true => None,
            false => Rules::enter(above, opened, &self.root.join(relative), Marks::probe(opened)),
        };
        let names = match self.names(opened, relative, rules.as_ref(), after.first().copied()) {
            Ok(names) => names,
            Err(Errno::CANCELED) => return Err(FileError::Stopped),
            Err(error) if relative.as_os_str().is_empty() => {
                return Err(FileError::io("list", self.shown, error.into()));
            }
            Err(_) => {
                self.close_last(relative);
                return Ok(true);
            }
        };
        for (name, kind) in names.sorted {
            let name = OsString::from_vec(name);
            let relative = relative.join(&name);
            let is_passed = after.first().is_some_and(|after| *after == name);
            if !is_passed && !self.add(opened, &name, &relative) {
                return Ok(false);
            }
            if kind != EntryKind::Folder || depth <= 1 {
                continue;
            }
            let rest = if is_passed {
                after.get(1..).unwrap_or_default()
            } else {
                &[]
            };
            match beneath::open_entry(opened.as_fd(), &name, LISTING) {
                Ok(inner) => {
                    if !self.folder(&inner, &relative, rules.clone(), depth - 1, rest)? {
                        return Ok(false);
                    }
                }
                // It went, or is something else by now.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(_) => self.close_last(&relative),
            }
        }
        self.page.more |= names.cut;
        Ok(!names.cut)
    }

    /// Returns the first names of a folder that may come on the page.
    fn names(
        &self,
        opened: &OwnedFd,
        relative: &Path,
        rules: Option<&Arc<Rules>>,
        from: Option<&OsStr>,
    ) -> rustix::io::Result<Names> {
        // Each name is an entry, but the one that was on the page before. One more shows that others follow.
        let most = self.wanted.most.saturating_sub(self.page.entries.len()) + 2;
        let mut first: BinaryHeap<(Vec<u8>, u8)> = BinaryHeap::new();
        let mut cut = false;
        for (index, entry) in Dir::read_from(opened)?.enumerate() {
            if index % CHECK_EVERY == 0 && self.cancelled.is_cancelled() {
                return Err(Errno::CANCELED);
            }
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let is_before = from.is_some_and(|from| name < from.as_bytes());
            if is_before || matches!(name, b"." | b"..") || (!self.wanted.ignored && name == b".git") {
                continue;
            }
            let is_full = first.len() >= most;
            if is_full && first.peek().is_some_and(|(last, _)| name > last.as_slice()) {
                cut = true;
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let stat = rustix::fs::statat(opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                kind = stat.map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode));
            }
            let is_folder = kind == FileType::Directory;
            let path = relative.join(OsStr::from_bytes(name));
            let is_ignored = || rules.is_some_and(|rules| rules.ignores(&self.root.join(&path), is_folder));
            if is_ignored() || (self.hides)(&path) {
                continue;
            }
            first.push((name.to_vec(), u8::from(is_folder)));
            if is_full {
                first.pop();
                cut = true;
            }
        }
        let kind = |is_folder| {
            if is_folder == 1 {
                EntryKind::Folder
            } else {
                EntryKind::Other
            }
        };
        let sorted = first.into_sorted_vec().into_iter();
        Ok(Names {
            sorted: sorted.map(|(name, is_folder)| (name, kind(is_folder))).collect(),
            cut,
        })
    }

    /// Adds an entry, if it is still there; says whether there was room.
    fn add(&mut self, folder: &OwnedFd, name: &OsStr, relative: &Path) -> bool {
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return true;
        };
        if self.page.entries.len() >= self.wanted.most {
            self.page.more = true;
            return false;
        }
        let facts = Facts::of(&stat);
        let link = (facts.kind == EntryKind::Link).then(|| rustix::fs::readlinkat(folder, name, Vec::new()).ok());
        self.page.entries.push(Entry {
            relative: relative.to_path_buf(),
            facts,
            link: link.flatten().map(|to| OsString::from_vec(to.into_bytes()).into()),
            closed: false,
        });
        true
    }

    /// Notes that the folder cannot be listed that was added last.
    fn close_last(&mut self, relative: &Path) {
        if let Some(last) = self.page.entries.last_mut().filter(|last| last.relative == relative) {
            last.closed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workspace;

    struct Place {
        _folder: tempfile::TempDir,
        root: PathBuf,
        workspace: Workspace,
    }

    impl Place {
        fn new(files: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap().join("w");
            std::fs::create_dir(&root).unwrap();
            for file in files {
                let path = root.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, file).unwrap();
            }
            let workspace = Workspace::open("w", &root, None).unwrap();
            Self {
                _folder: folder,
                root,
                workspace,
            }
        }

        async fn page(&self, path: &str, wanted: Wanted) -> Result<Page, FileError> {
            let path = self.workspace.resolve(path);
            list(&path, wanted, |path| path.ends_with("hidden"), CancellationToken::new()).await
        }

        /// Returns all entries, page by page.
        async fn all(&self, depth: usize, ignored: bool, most: usize) -> Vec<String> {
            let (mut names, mut after) = (Vec::new(), None);
            for _ in 0..1000 {
                let wanted = Wanted {
                    depth,
                    ignored,
                    after,
                    most,
                };
                let page = self.page("", wanted).await.unwrap();
                assert!(
                    page.entries.len() <= most && (!page.more || page.entries.len() == most),
                    "{page:?}"
                );
                after = page.entries.last().map(|last| last.relative.clone());
                names.extend(page.entries.iter().map(|entry| entry.relative.display().to_string()));
                if !page.more {
                    return names;
                }
            }
            panic!("there is no end: {names:?}");
        }
    }

    #[tokio::test]
    async fn pages_of_any_size_make_the_same_tree() {
        let place = Place::new(&[
            "a/b/1",
            "a/b/2",
            "a-b",
            "a.txt",
            "b/hidden/x",
            "b/c/d/e/f",
            "z",
            ".hid/x",
        ]);
        let all = [
            ".hid",
            ".hid/x",
            "a",
            "a/b",
            "a/b/1",
            "a/b/2",
            "a-b",
            "a.txt",
            "b",
            "b/c",
            "b/c/d",
            "b/c/d/e",
            "b/c/d/e/f",
            "z",
        ];
        for most in 1..16 {
            assert_eq!(place.all(MAX_DEPTH, false, most).await, all, "{most}");
        }
        assert_eq!(place.all(1, false, 2).await, [".hid", "a", "a-b", "a.txt", "b", "z"]);
    }

    #[tokio::test]
    async fn ignore_rules_hold_unless_they_are_not_wanted() {
        let place = Place::new(&[".git/config", ".gitignore", "out/x", "src/main.rs"]);
        std::fs::write(place.root.join(".gitignore"), "out/\n").unwrap();
        assert_eq!(place.all(9, false, 100).await, [".gitignore", "src", "src/main.rs"]);
        let all = [
            ".git",
            ".git/config",
            ".gitignore",
            "out",
            "out/x",
            "src",
            "src/main.rs",
        ];
        assert_eq!(place.all(9, true, 3).await, all);
    }

    #[tokio::test]
    async fn nothing_is_followed_or_opened_but_folders() {
        let place = Place::new(&["in/file"]);
        std::fs::create_dir(place.root.join("../out")).unwrap();
        std::fs::write(place.root.join("../out/secret"), "x").unwrap();
        std::os::unix::fs::symlink("../out", place.root.join("link")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, place.root.join("pipe"), mode).unwrap();
        std::fs::write(place.root.join(OsStr::from_bytes(b"\xff")), "").unwrap();
        let wanted = Wanted {
            depth: 9,
            ignored: false,
            after: None,
            most: 100,
        };
        let page = place.page("", wanted.clone()).await.unwrap();
        let kinds: Vec<_> = page
            .entries
            .iter()
            .map(|entry| (entry.relative.as_os_str().as_bytes(), entry.facts.kind))
            .collect();
        let expected: [(&[u8], EntryKind); 5] = [
            (b"in", EntryKind::Folder),
            (b"in/file", EntryKind::File),
            (b"link", EntryKind::Link),
            (b"pipe", EntryKind::Other),
            (b"\xff", EntryKind::File),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(page.entries[2].link.as_deref(), Some(Path::new("../out")));
        // What was a folder when it was resolved is a link by now.
        let path = place.workspace.resolve("in");
        std::fs::rename(place.root.join("in"), place.root.join("was")).unwrap();
        std::os::unix::fs::symlink("../out", place.root.join("in")).unwrap();
        let swapped = list(&path, wanted, |_| false, CancellationToken::new()).await;
        assert!(matches!(swapped, Err(FileError::Swapped { .. })), "{swapped:?}");
        assert!(matches!(look(&path).await, Err(FileError::Swapped { .. })));
        assert_eq!(
            look(&place.workspace.resolve("pipe")).await.unwrap().unwrap().kind,
            EntryKind::Other
        );
        assert_eq!(look(&place.workspace.resolve("none/at/all")).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_huge_folder_takes_the_memory_of_a_page() {
        let place = Place::new(&[]);
        for index in 0..3000 {
            std::fs::write(place.root.join(format!("{index:04}")), "").unwrap();
        }
        let wanted = Wanted {
            depth: 9,
            ignored: false,
            after: Some("1499".into()),
            most: 2,
        };
        let page = place.page("", wanted).await.unwrap();
        let names: Vec<_> = page
            .entries
            .iter()
            .map(|entry| entry.relative.to_str().unwrap())
            .collect();
        assert_eq!((names.as_slice(), page.more), (&["1500", "1501"][..], true));
        assert_eq!(place.all(9, false, 999).await.len(), 3000);
    }
}
