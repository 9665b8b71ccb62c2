//! Watching a tree: what came, changed or went, told in portions.
//!
//! The kernel's inotify is used through `rustix`: each folder is opened without following links before it is watched, which
//! crates that watch paths by their names do not promise, and what ignore rules name is not watched.
//!
//! *Invariant:* memory, watches and the time that a change waits are bounded. Whenever something may have been missed, that is
//! told, and who listens must look at the whole tree again. What is told of a path is what was there after the last change.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Dir, FileType, OFlags};
use rustix::io::Errno;

use super::atomic::{TEMP_PREFIX, TEMP_SUFFIX};
use super::beneath;
use super::ignore_rules::{Marks, Rules};
use super::tree::{Entry, EntryKind, Facts};

/// How long changes are collected before they are told.
const WINDOW: Duration = Duration::from_millis(100);

/// How often the listener is asked whether it still listens when nothing happens.
const IDLE: Duration = Duration::from_secs(30);

/// Paths that may wait to be told; more than these are told as one: look again.
const MAX_PENDING: usize = 4096;

/// Folders that are watched; each takes memory of the kernel's, of which a user has a limited amount.
pub const MAX_WATCHES: usize = 16_384;

const LISTING: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What happened in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// These entries came or changed, and these paths hold nothing any more; with a folder goes what is in it.
    Changed {
        /// What is there now, by paths relative to the tree's folder.
        there: Vec<Entry>,
        /// What is not there.
        gone: Vec<PathBuf>,
    },
    /// Something may have been missed: look at the whole tree.
    LookAgain,
}

/// Takes what happens in a tree.
pub trait Listen: Send + 'static {
    /// Takes note; must not wait.
    fn tell(&self, news: News);

    /// Takes note of whether there are more folders than can be watched.
    fn is_partial(&self, partial: bool);

    /// Says whether it still listens.
    fn goes_on(&self) -> bool;

    /// Takes note that nothing more comes.
    fn over(&self);
}

/// A tree that is watched until this is dropped.
#[derive(Debug)]
pub struct TreeWatch {
    stop: Arc<OwnedFd>,
}

impl Drop for TreeWatch {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

impl TreeWatch {
    /// Begins to watch a folder whose links were followed, and all that is in it. When this returns, no later change is
    /// missed. Blocks.
    ///
    /// # Errors
    /// The folder cannot be opened, or the kernel has no watches left at all.
    pub fn start(root: &Path, listener: impl Listen) -> std::io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut watcher = Watcher {
            inotify: new_inotify()?,
            root: root.to_path_buf(),
            folders: HashMap::new(),
            pending: BTreeSet::new(),
            since: None,
            missed: false,
            partial: false,
            listener,
        };
        watcher.watch_all()?;
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("watch".to_owned());
        thread.spawn(move || {
            watcher.run(&stopped);
            watcher.listener.over();
        })?;
        Ok(Self { stop })
    }
}

fn new_inotify() -> rustix::io::Result<OwnedFd> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
}

/// A folder that is watched.
struct Watched {
    relative: PathBuf,
    rules: Option<Arc<Rules>>,
}

struct Watcher<L> {
    inotify: OwnedFd,
    root: PathBuf,
    folders: HashMap<i32, Watched>,
    /// Paths that wait to be told, and since when.
    pending: BTreeSet<PathBuf>,
    since: Option<Instant>,
    missed: bool,
    partial: bool,
    listener: L,
}

/// An event, taken out of the kernel's buffer.
struct Event {
    watch: i32,
    flags: ReadFlags,
    name: Option<OsString>,
}

impl<L: Listen> Watcher<L> {
    fn run(&mut self, stop: &OwnedFd) {
        loop {
            let wait = self.since.map_or(IDLE, |since| WINDOW.saturating_sub(since.elapsed()));
            let wait = Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            };
            let mut ready = [
                PollFd::new(stop, PollFlags::IN),
                PollFd::new(&self.inotify, PollFlags::IN),
            ];
            match poll(&mut ready, Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let [stop, changes] = ready.map(|one| !one.revents().is_empty());
            if stop || !self.listener.goes_on() {
                return;
            }
            if changes && !self.take() {
                self.listener.tell(News::LookAgain);
                return;
            }
            if self.since.is_some_and(|since| since.elapsed() >= WINDOW) && !self.flush() {
                return;
            }
        }
    }

    /// Watches the whole tree anew.
    fn watch_all(&mut self) -> rustix::io::Result<()> {
        self.folders.clear();
        self.pending.clear();
        self.partial = false;
        let above = Rules::above(&self.root);
        self.watch(PathBuf::new(), above, false)?;
        self.listener.is_partial(self.partial);
        Ok(())
    }

    /// Watches a folder and those in it. `is_new` says that what is in it is to be told as well.
    fn watch(&mut self, relative: PathBuf, above: Option<Arc<Rules>>, is_new: bool) -> rustix::io::Result<()> {
        let mut folders = vec![(relative, above)];
        while let Some((relative, above)) = folders.pop() {
            match self.watch_one(&relative, above, is_new, &mut folders) {
                Ok(()) => {}
                Err(error) if relative.as_os_str().is_empty() => return Err(error),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
                Err(Errno::NOSPC) => {
                    self.partial = true;
                    return Ok(());
                }
                Err(_) => self.missed = true,
            }
        }
        Ok(())
    }

    fn watch_one(
        &mut self,
        relative: &Path,
        above: Option<Arc<Rules>>,
        is_new: bool,
        folders: &mut Vec<(PathBuf, Option<Arc<Rules>>)>,
    ) -> rustix::io::Result<()> {
        if self.folders.len() >= MAX_WATCHES {
            return Err(Errno::NOSPC);
        }
        let path = self.root.join(relative);
        let opened = beneath::open(Some(&self.root), &path, LISTING)?;
        // By the descriptor: what was opened is watched, whatever has come into its place.
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::EXCL_UNLINK
            | WatchFlags::ONLYDIR;
        let watch = inotify::add_watch(&self.inotify, format!("/proc/self/fd/{}", opened.as_raw_fd()), flags)?;
        let rules = Rules::enter(above, &opened, &path, Marks::probe(&opened));
        let watched = Watched {
            relative: relative.to_path_buf(),
            rules: rules.clone(),
        };
        self.folders.insert(watch, watched);
        // After it is watched: what comes from now on is told twice at most.
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_skipped(name.to_bytes()) {
                continue;
            }
            let kind = entry.file_type();
            let is_folder = kind == FileType::Directory || kind == FileType::Unknown && is_folder(&opened, name);
            let below = relative.join(OsStr::from_bytes(name.to_bytes()));
            if rules
                .as_ref()
                .is_some_and(|rules| rules.ignores(&self.root.join(&below), is_folder))
            {
                continue;
            }
            if is_new {
                self.note(below.clone());
            }
            if is_folder {
                folders.push((below, rules.clone()));
            }
        }
        Ok(())
    }

    /// Takes what the kernel tells; says whether there is anything left to watch.
    fn take(&mut self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut events = Vec::new();
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        // One buffer at a time: what is told of a path is looked up later anyway.
        loop {
            match reader.next() {
                Ok(event) => events.push(Event {
                    watch: event.wd(),
                    flags: event.events(),
                    name: event
                        .file_name()
                        .map(|name| OsString::from_vec(name.to_bytes().to_vec())),
                }),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        events.into_iter().all(|event| self.event(event))
    }

    fn event(&mut self, event: Event) -> bool {
        let Event { watch, flags, name } = event;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.miss();
            return true;
        }
        let Some(watched) = self.folders.get(&watch) else {
            return true;
        };
        let relative = watched.relative.clone();
        if flags.contains(ReadFlags::IGNORED) {
            self.folders.remove(&watch);
            return !relative.as_os_str().is_empty();
        }
        let Some(name) = name else {
            // Of the root only; the folder above tells of any other.
            let is_root = relative.as_os_str().is_empty();
            return !(is_root && flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT));
        };
        let rules = watched.rules.clone();
        if is_skipped(name.as_bytes()) {
            return true;
        }
        let is_folder = flags.contains(ReadFlags::ISDIR);
        let path = relative.join(&name);
        if matches!(name.as_bytes(), b".gitignore" | b".ignore") {
            // Other folders are to be watched by now.
            self.miss();
            return true;
        }
        if rules
            .as_ref()
            .is_some_and(|rules| rules.ignores(&self.root.join(&path), is_folder))
        {
            return true;
        }
        self.note(path.clone());
        if is_folder && flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            self.forget(&path);
        }
        if is_folder
            && flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO)
            && self.watch(path, rules, true).is_err()
        {
            self.miss();
        }
        true
    }

    /// Watches nothing any more that lies in a folder.
    fn forget(&mut self, folder: &Path) {
        let inotify = &self.inotify;
        self.folders.retain(|watch, watched| {
            let stays = !watched.relative.starts_with(folder);
            if !stays {
                // It is gone already if the folder was deleted.
                let _ = inotify::remove_watch(inotify, *watch);
            }
            stays
        });
    }

    fn note(&mut self, path: PathBuf) {
        self.since.get_or_insert_with(Instant::now);
        if self.pending.len() >= MAX_PENDING {
            self.missed = true;
        } else if !self.missed {
            self.pending.insert(path);
        }
    }

    fn miss(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        self.missed = true;
    }

    /// Tells what waits; says whether there is anything left to watch.
    fn flush(&mut self) -> bool {
        self.since = None;
        if std::mem::take(&mut self.missed) {
            let again = new_inotify().and_then(|inotify| {
                self.inotify = inotify;
                self.watch_all()
            });
            // What was missed while the tree was watched anew is part of what is looked at again.
            self.missed = false;
            self.since = None;
            self.listener.tell(News::LookAgain);
            return again.is_ok();
        }
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        for path in std::mem::take(&mut self.pending) {
            match entry(&self.root, &path) {
                Some(entry) => there.push(entry),
                None => gone.push(path),
            }
        }
        self.listener.is_partial(self.partial);
        self.listener.tell(News::Changed { there, gone });
        true
    }
}

/// What is never told: the files of git, and temporary files of the service.
fn is_skipped(name: &[u8]) -> bool {
    let is_temporary = name.starts_with(TEMP_PREFIX.as_bytes()) && name.ends_with(TEMP_SUFFIX.as_bytes());
    is_temporary || matches!(name, b"." | b".." | b".git")
}

fn is_folder(folder: &OwnedFd, name: &CStr) -> bool {
    let stat = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Returns what is at a path of a tree; of a link, the link itself.
fn entry(root: &Path, relative: &Path) -> Option<Entry> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let opened = beneath::open(Some(root), &root.join(relative), flags).ok()?;
    let facts = Facts::of(&rustix::fs::fstat(&opened).ok()?);
    let link = (facts.kind == EntryKind::Link).then(|| rustix::fs::readlinkat(opened.as_fd(), c"", Vec::new()).ok());
    Some(Entry {
        relative: relative.to_path_buf(),
        facts,
        link: link.flatten().map(|to| OsString::from_vec(to.into_bytes()).into()),
        closed: false,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use parking_lot::Mutex;

    use super::*;

    struct Ear(Mutex<Sender<News>>);

    impl Listen for Ear {
        fn tell(&self, news: News) {
            let _ = self.0.lock().send(news);
        }

        fn is_partial(&self, _partial: bool) {}

        fn goes_on(&self) -> bool {
            true
        }

        fn over(&self) {}
    }

    struct Place {
        _folder: tempfile::TempDir,
        root: PathBuf,
        news: Receiver<News>,
        watch: Option<TreeWatch>,
    }

    impl Place {
        fn new(prepare: impl Fn(&Path)) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap().join("w");
            fs::create_dir(&root).unwrap();
            prepare(&root);
            let (sender, news) = channel();
            let watch = TreeWatch::start(&root, Ear(Mutex::new(sender))).unwrap();
            Self {
                _folder: folder,
                root,
                news,
                watch: Some(watch),
            }
        }

        /// Collects what is told until a marker file is, and returns it.
        fn told(&self, marker: &str) -> (BTreeSet<String>, BTreeSet<String>, bool) {
            fs::write(self.root.join(marker), "").unwrap();
            let (mut came, mut went, mut again) = (BTreeSet::new(), BTreeSet::new(), false);
            loop {
                match self.news.recv_timeout(Duration::from_secs(30)).expect("it is told") {
                    News::LookAgain => {
                        again = true;
                        return (came, went, again);
                    }
                    News::Changed { there, gone } => {
                        came.extend(there.iter().map(|entry| entry.relative.display().to_string()));
                        went.extend(gone.iter().map(|path| path.display().to_string()));
                    }
                }
                if came.remove(marker) {
                    return (came, went, again);
                }
            }
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn what_comes_changes_and_goes_is_told_in_every_folder() {
        let place = Place::new(|root| {
            fs::create_dir_all(root.join("a/b")).unwrap();
            fs::write(root.join("a/b/old"), "old").unwrap();
        });
        let at = |name: &str| place.root.join(name);
        fs::write(at("a/b/old"), "changed").unwrap();
        fs::create_dir_all(at("new/deep/er")).unwrap();
        fs::write(at("new/deep/er/file"), "x").unwrap();
        symlink("file", at("link")).unwrap();
        let (came, went, _) = place.told("1");
        assert_eq!(
            (came, went),
            (
                names(&["a/b/old", "link", "new", "new/deep", "new/deep/er", "new/deep/er/file"]),
                names(&[])
            )
        );
        // A folder that was moved is watched under its new name.
        fs::rename(at("a"), at("moved")).unwrap();
        let (came, went, _) = place.told("2");
        assert_eq!(
            (came, went),
            (names(&["moved", "moved/b", "moved/b/old"]), names(&["a"]))
        );
        fs::write(at("moved/b/later"), "").unwrap();
        fs::remove_file(at("new/deep/er/file")).unwrap();
        let (came, went, _) = place.told("3");
        assert_eq!(went, names(&["new/deep/er/file"]));
        assert!(
            came.contains("moved/b/later") && !came.contains("a/b/later"),
            "{came:?}"
        );
    }

    #[test]
    fn what_is_ignored_and_what_lies_behind_links_is_not_watched() {
        let place = Place::new(|root| {
            fs::create_dir_all(root.join(".git")).unwrap();
            fs::create_dir_all(root.join("out")).unwrap();
            fs::create_dir_all(root.join("../beside")).unwrap();
            fs::write(root.join(".gitignore"), "out/\n*.log\n").unwrap();
            symlink("../beside", root.join("link")).unwrap();
        });
        for name in ["out/x", "a.log", ".git/x", "link/x", ".toolgate-1.tmp"] {
            fs::write(place.root.join(name), "").unwrap();
        }
        assert_eq!(place.told("1"), (names(&[]), names(&[]), false));
        // With other rules other folders count.
        fs::write(place.root.join(".gitignore"), "*.log\n").unwrap();
        assert!(place.told("2").2);
        fs::write(place.root.join("out/y"), "").unwrap();
        let (came, _, _) = place.told("3");
        assert!(came.contains("out/y"), "{came:?}");
    }

    #[test]
    fn too_much_at_once_is_told_as_such() {
        let place = Place::new(|_| {});
        let folder = place.root.join("many");
        fs::create_dir(&folder).unwrap();
        for index in 0..MAX_PENDING + 100 {
            fs::write(folder.join(index.to_string()), "").unwrap();
        }
        let mut told = 0;
        loop {
            match place.news.recv_timeout(Duration::from_secs(30)).expect("it is told") {
                News::LookAgain => break,
                News::Changed { there, gone } => told += there.len() + gone.len(),
            }
            // A slow machine may tell all of them in portions, which is as good.
            if told >= MAX_PENDING + 100 {
                break;
            }
        }
    }

    #[test]
    fn a_watch_ends_with_its_owner_and_with_its_folder() {
        let mut place = Place::new(|_| {});
        place.watch = None;
        let end = place.news.recv_timeout(Duration::from_secs(30));
        assert!(
            matches!(end, Err(std::sync::mpsc::RecvTimeoutError::Disconnected)),
            "{end:?}"
        );
        let place = Place::new(|_| {});
        fs::rename(&place.root, place.root.with_extension("gone")).unwrap();
        assert_eq!(place.news.recv_timeout(Duration::from_secs(30)), Ok(News::LookAgain));
    }
}
