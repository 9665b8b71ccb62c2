//! Opening a path that holds no links, and nothing but that path.
//!
//! *Invariant:* no link is followed, in no part of the path, and what lies in a folder that is told as the root stays below
//! it. A path is resolved and judged once; whoever puts a link in its way afterwards gets an error, not a file elsewhere.
//! The kernel promises that with `openat2`. Where it does not have that call, or a container's filter refuses it, each
//! folder on the way is opened from the one above it, which promises the same in more steps.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A folder that only serves to reach what is in it: it may be one that its user cannot list.
pub(super) const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens an absolute path without links; one that lies in `root` is opened from there and stays below it. A link on the
/// way, or at the end, is [`Errno::LOOP`].
pub(super) fn open(root: Option<&Path>, real: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let Some((root, rest)) = root.and_then(|root| Some((root, real.strip_prefix(root).ok()?))) else {
        return open_from(CWD, real, flags, ResolveFlags::NO_SYMLINKS);
    };
    let root = open_from(CWD, root, ON_THE_WAY, ResolveFlags::NO_SYMLINKS)?;
    let rest = if rest.as_os_str().is_empty() {
        Path::new(".")
    } else {
        rest
    };
    open_from(
        root.as_fd(),
        rest,
        flags,
        ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
    )
}

/// As [`open`], for what lies in a root, if the kernel has the whole way to it in memory and it is on the root's own file system.
pub(super) fn open_cached(root: &Path, real: &Path, flags: OFlags) -> Option<OwnedFd> {
    let rest = real.strip_prefix(root).ok()?;
    let open = |folder: BorrowedFd<'_>, path: &Path, flags: OFlags, resolve: ResolveFlags| {
        let resolve = resolve | ResolveFlags::NO_SYMLINKS | ResolveFlags::CACHED;
        rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    };
    let root = open(CWD, root, ON_THE_WAY, ResolveFlags::empty())?;
    open(root.as_fd(), rest, flags, ResolveFlags::BENEATH | ResolveFlags::NO_XDEV)
}

fn open_from(folder: BorrowedFd<'_>, path: &Path, flags: OFlags, resolve: ResolveFlags) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(folder, path, flags),
        // It would have left the root, or the kernel cannot say that it did not.
        Err(Errno::XDEV | Errno::AGAIN) => Err(Errno::LOOP),
        opened => opened,
    }
}

/// Opens one folder after the other, each by its name in the one above.
fn step_by_step(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut at: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let from = at.as_ref().map_or(folder, AsFd::as_fd);
        let is_last = parts.peek().is_none();
        let flags = if is_last { flags } else { ON_THE_WAY };
        at = Some(match part {
            Component::RootDir | Component::CurDir => {
                rustix::fs::openat(from, part.as_os_str(), flags | OFlags::CLOEXEC, Mode::empty())?
            }
            Component::Normal(name) => open_entry(from, name, flags)?,
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::LOOP),
        });
    }
    at.ok_or(Errno::NOENT)
}

/// Opens an entry of a folder. A link is [`Errno::LOOP`], whatever it leads to.
pub(super) fn open_entry(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        // What is not followed is no folder either.
        Err(Errno::NOTDIR) if rustix::fs::readlinkat(folder, name, Vec::new()).is_ok() => Err(Errno::LOOP),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A root with a folder and a file in it, and links to both.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("w/deep/er")).unwrap();
        std::fs::write(root.join("w/deep/er/file"), "").unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        symlink("deep", root.join("w/link")).unwrap();
        symlink("deep/er/file", root.join("w/to-file")).unwrap();
        symlink("none", root.join("w/dangling")).unwrap();
        (folder, root)
    }

    #[test]
    fn opens_what_the_path_names_and_follows_no_link() {
        let (_folder, root) = tree();
        let workspace = root.join("w");
        let check = |name: &str, flags: OFlags, expected: Result<(), Errno>| {
            let path = workspace.join(name);
            let rest = path.strip_prefix(&workspace).unwrap();
            let from = std::fs::File::open(&workspace).unwrap();
            let found = [
                open(Some(&workspace), &path, flags),
                open(Some(Path::new("/elsewhere")), &path, flags),
                open(None, &path, flags),
                step_by_step(CWD, &path, flags),
                step_by_step(from.as_fd(), rest, flags),
            ];
            for (way, found) in found.into_iter().enumerate() {
                assert_eq!(found.map(drop), expected, "{name} {way}");
            }
        };
        check("deep/er/file", OFlags::RDONLY, Ok(()));
        check("deep/er", ON_THE_WAY, Ok(()));
        check("deep", OFlags::RDONLY, Ok(()));
        check("deep/none", OFlags::RDONLY, Err(Errno::NOENT));
        check("none/none", OFlags::RDONLY, Err(Errno::NOENT));
        check("deep/er/file/below", OFlags::RDONLY, Err(Errno::NOTDIR));
        check("deep/er/file", ON_THE_WAY, Err(Errno::NOTDIR));
        check("link/er/file", OFlags::RDONLY, Err(Errno::LOOP));
        check("link/er", ON_THE_WAY, Err(Errno::LOOP));
        for name in ["link", "to-file", "dangling"] {
            check(name, OFlags::RDONLY, Err(Errno::LOOP));
            check(name, ON_THE_WAY, Err(Errno::LOOP));
        }
    }

    /// The same as `tools::races`, for the way that only old kernels and strict containers take.
    #[test]
    fn a_folder_that_is_swapped_leads_nowhere_else() {
        use std::os::unix::fs::MetadataExt as _;
        use std::sync::atomic::{AtomicBool, Ordering};

        let (_folder, root) = tree();
        let (deep, link) = (root.join("w/deep"), root.join("w/out"));
        std::fs::create_dir_all(root.join("outside/er")).unwrap();
        symlink("../outside", &link).unwrap();
        let inside = deep.join("er").metadata().unwrap().ino();
        let (stop, mut opened) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(CWD, &deep, CWD, &link, rustix::fs::RenameFlags::EXCHANGE).unwrap();
                }
            });
            for attempt in 0..20_000 {
                let path = deep.join("er");
                let found = match attempt % 2 {
                    0 => step_by_step(CWD, &path, ON_THE_WAY),
                    _ => open(Some(&root.join("w")), &path, ON_THE_WAY),
                };
                match found {
                    Ok(found) => {
                        assert_eq!(std::fs::File::from(found).metadata().unwrap().ino(), inside);
                        opened += 1;
                    }
                    Err(error) => assert!(matches!(error, Errno::LOOP | Errno::NOTDIR), "{error}"),
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(opened > 0);
    }

    #[test]
    fn the_root_itself_is_opened_and_left_by_nobody() {
        let (_folder, root) = tree();
        let workspace = root.join("w");
        assert!(open(Some(&workspace), &workspace, OFlags::RDONLY).is_ok());
        assert!(open(None, Path::new("/"), ON_THE_WAY).is_ok());
        assert!(step_by_step(CWD, Path::new("/"), ON_THE_WAY).is_ok());
        let from = std::fs::File::open(&workspace).unwrap();
        assert!(step_by_step(from.as_fd(), Path::new("."), OFlags::RDONLY).is_ok());
        for climbing in ["../file", "deep/../../file"] {
            let path = workspace.join(climbing);
            let found = open(Some(&workspace), &path, OFlags::RDONLY);
            assert_eq!(found.map(drop), Err(Errno::LOOP), "{climbing}");
            let found = step_by_step(from.as_fd(), Path::new(climbing), OFlags::RDONLY);
            assert_eq!(found.map(drop), Err(Errno::LOOP), "{climbing}");
        }
    }
}
