//! Ignore rules: `.ignore`, `.gitignore` and git's exclude file, folder by folder, as ripgrep reads them.
//!
//! The matching is the `ignore` crate's; the reading is not, because its walker opens whatever is called `.gitignore`
//! and would wait for ever on a pipe of that name.
//!
//! *Invariant:* only regular files are read, and at most [`MAX_RULES`] bytes of each.

use std::ffi::CStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

/// How much of one ignore file is read, in bytes.
const MAX_RULES: u64 = 1 << 20;

/// The entries of a folder that matter for ignoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// There is a `.ignore`.
    pub(super) ignore: bool,
    /// There is a `.gitignore`.
    pub(super) gitignore: bool,
    /// There is a `.git`.
    pub(super) git: bool,
    /// There is a `.jj`.
    pub(super) jj: bool,
}

impl Marks {
    /// Takes note of an entry's name.
    pub(super) fn record(&mut self, name: &[u8]) {
        match name {
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" => self.git = true,
            b".jj" => self.jj = true,
            _ => {}
        }
    }

    /// Finds the marks of a folder without listing it.
    pub(super) fn probe(folder: impl AsFd) -> Self {
        let has = |name: &CStr| rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        Self {
            ignore: has(c".ignore"),
            gitignore: has(c".gitignore"),
            git: has(c".git"),
            jj: has(c".jj"),
        }
    }
}

/// The rules of one folder, and of those above it.
#[derive(Debug)]
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    general: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    is_repository: bool,
    in_repository: bool,
}

impl Rules {
    /// Loads the rules of the folders above `root`, from the top.
    pub(super) fn above(root: &Path) -> Option<Arc<Self>> {
        let mut folders: Vec<&Path> = root.ancestors().skip(1).collect();
        folders.reverse();
        folders.into_iter().fold(None, |above, folder| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match rustix::fs::open(folder, flags, Mode::empty()) {
                Ok(opened) => Self::enter(above, &opened, folder, Marks::probe(&opened)),
                Err(_) => above,
            }
        })
    }

    /// Returns the rules that hold in `folder`: those above it, and its own if it has any.
    pub(super) fn enter(above: Option<Arc<Self>>, opened: impl AsFd, folder: &Path, marks: Marks) -> Option<Arc<Self>> {
        if marks == Marks::default() {
            return above;
        }
        let is_repository = marks.git || marks.jj;
        let in_repository = is_repository || above.as_ref().is_some_and(|rules| rules.in_repository);
        let load = |exists: bool, name: &CStr| {
            let text = if exists { read_rules(opened.as_fd(), name) } else { None };
            text.map_or_else(Gitignore::empty, |text| parse(folder, &text))
        };
        Some(Arc::new(Self {
            general: load(marks.ignore, c".ignore"),
            git: load(marks.gitignore && in_repository, c".gitignore"),
            exclude: if marks.git {
                exclude_of(folder)
            } else {
                Gitignore::empty()
            },
            is_repository,
            in_repository,
            above,
        }))
    }

    /// Says whether the rules ignore an absolute path. The nearest folder's rule counts, `.ignore` before git's, and
    /// git's end at the repository's root.
    pub(super) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        let (mut git, mut exclude) = (Match::None, Match::None);
        let mut counts_git = self.in_repository;
        let mut folder = Some(self);
        while let Some(rules) = folder {
            let general = rules.general.matched(path, is_folder);
            if !general.is_none() {
                return general.is_ignore();
            }
            if counts_git && git.is_none() {
                git = rules.git.matched(path, is_folder);
            }
            if counts_git && exclude.is_none() {
                exclude = rules.exclude.matched(path, is_folder);
            }
            counts_git &= !rules.is_repository;
            folder = rules.above.as_deref();
        }
        git.or(exclude).is_ignore()
    }
}

fn parse(folder: &Path, text: &[u8]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    let text = String::from_utf8_lossy(text);
    for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
        // A line that is no pattern is skipped, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Reads git's exclude file of the repository at `folder`, also when `.git` is a file that names another folder.
fn exclude_of(folder: &Path) -> Gitignore {
    let mut git = folder.join(".git");
    if let Some(text) = read_path(&git) {
        let Some(named) = path_in(&text, b"gitdir: ") else {
            return Gitignore::empty();
        };
        git = folder.join(named);
        if let Some(common) = read_path(&git.join("commondir")).and_then(|text| path_in(&text, b"")) {
            git = git.join(common);
        }
    }
    read_path(&git.join("info/exclude")).map_or_else(Gitignore::empty, |text| parse(folder, &text))
}

fn path_in(text: &[u8], prefix: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let line = text.split(|&byte| byte == b'\n').next()?.strip_prefix(prefix)?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(line.trim_ascii_end())))
}

fn read_path(path: &Path) -> Option<Vec<u8>> {
    read_rules(CWD, path)
}

/// Reads a regular file; anything else counts as absent.
fn read_rules(folder: impl AsFd, name: impl rustix::path::Arg) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = Vec::new();
    std::fs::File::from(file).take(MAX_RULES).read_to_end(&mut text).ok()?;
    Some(text)
}
