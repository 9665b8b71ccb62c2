//! Walking a tree: every file below a folder that is chosen and not ignored, on as many threads as are worth it.
//!
//! Hidden entries are walked, `.git` never is, links to folders are not followed, and pipes, sockets and devices are not
//! even opened. A walk begins on the caller's thread and calls others to help only once there is enough to do.
//!
//! *Invariant:* knows nothing of what is searched for; a [`Choose`] says where to look, a [`Visit`] takes what is found.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::{AtFlags, FileType, RawDir};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::found::{FoundFile, open_folder};
use super::ignore_rules::{Marks, Rules};
use super::listing::Portion;
use super::pattern::Selection;

/// More threads than this wait for the disk and for each other.
const MAX_THREADS: usize = 8;
/// Bytes that one call to list a folder may return.
const LISTING: usize = 32 * 1024;
/// Files that are handed to another thread together.
const BATCH: usize = 8;
/// Work that may wait in the queue before a folder's files are no longer shared.
const MAX_QUEUE: usize = 4096;
/// Entries or files between two looks at the cancellation.
const CHECK_EVERY: usize = 256;

/// Says where a walk looks. Paths are relative to the walk's root.
pub trait Choose: Sync {
    /// Says whether a folder is worth entering.
    fn enters(&self, relative: &Path) -> bool;

    /// Says whether a file is wanted.
    fn takes(&self, relative: &Path) -> bool;

    /// Returns the name that every wanted file has, if there is one. Such files are found even if ignored.
    fn name(&self) -> Option<&OsStr> {
        None
    }
}

impl Choose for Selection {
    fn enters(&self, relative: &Path) -> bool {
        self.enters(relative)
    }

    fn takes(&self, relative: &Path) -> bool {
        self.takes(relative)
    }

    fn name(&self) -> Option<&OsStr> {
        self.name()
    }
}

/// Takes what one thread of a walk finds.
pub trait Visit: Send {
    /// Takes a file that was chosen. A link is a file here as long as it does not lead to a folder.
    fn file(&mut self, file: &FoundFile<'_>);

    /// Says whether a folder is worth entering after what was found so far.
    fn enters(&self, _relative: &Path) -> bool {
        true
    }

    /// Takes note of a folder that cannot be read.
    fn unreadable(&mut self) {}
}

/// How heavy it is to visit one file, which decides when other threads help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// About as much as listing it; one thread does everything, folders in order of their names.
    Ordered,
    /// About as much as listing it.
    Light,
    /// Much more than listing it: files of one folder are shared out.
    Heavy,
}

impl Effort {
    /// Returns how many entries, or files, one thread takes before it calls for help: about what starting a thread
    /// costs.
    fn alone(self) -> usize {
        match self {
            Self::Ordered => usize::MAX,
            Self::Light => 512,
            Self::Heavy => 16,
        }
    }
}

/// One walk.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    /// The folder, links followed.
    pub root: &'a Path,
    /// How heavy visiting is.
    pub effort: Effort,
    /// Stops the walk early.
    pub cancelled: &'a CancellationToken,
}

impl Walk<'_> {
    /// Walks the tree and returns the visitors, one per thread that took part.
    ///
    /// # Errors
    /// The root cannot be opened or is not a folder. What cannot be read below it is told to the visitor.
    pub fn run<C: Choose, V: Visit>(&self, choose: &C, visitor: &(impl Fn() -> V + Sync)) -> io::Result<Vec<V>> {
        open_folder(self.root)?;
        let root = Work::Folder {
            path: self.root.to_path_buf(),
            rules: Rules::above(self.root),
        };
        let shared = Shared {
            walk: *self,
            choose,
            queue: Mutex::new(Queue {
                work: vec![root],
                ..Queue::default()
            }),
            changed: Condvar::new(),
        };
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
        std::thread::scope(|scope| {
            let mut helpers = Vec::new();
            let mut first = Worker::new(&shared, visitor());
            while first.work_once() {
                if helpers.is_empty() && first.done >= self.effort.alone() && shared.has_work() {
                    for _ in 1..threads {
                        let help = || Worker::new(&shared, visitor()).work_to_the_end();
                        let thread = std::thread::Builder::new().name("walk".to_owned());
                        // Where no more threads can be had, those that are there do the work.
                        helpers.extend(thread.spawn_scoped(scope, help));
                    }
                    first.done = 0;
                }
            }
            let mut visitors = vec![first.visitor()];
            for helper in helpers {
                visitors.push(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            Ok(visitors)
        })
    }
}

/// A folder that is being walked.
struct Folder {
    opened: OwnedFd,
    path: PathBuf,
}

/// A file of a folder that is known by both.
struct Named {
    name: CString,
    is_link: bool,
}

enum Work {
    Folder { path: PathBuf, rules: Option<Arc<Rules>> },
    Files { folder: Arc<Folder>, files: Vec<Named> },
}

#[derive(Default)]
struct Queue {
    work: Vec<Work>,
    busy: usize,
    waiting: usize,
    stopped: bool,
}

/// What the threads of a walk share. The mutex guards the queue alone and is never held while files are touched.
struct Shared<'a, C> {
    walk: Walk<'a>,
    choose: &'a C,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl<C> Shared<'_, C> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn has_work(&self) -> bool {
        !self.queue().work.is_empty()
    }

    fn is_cancelled(&self) -> bool {
        self.walk.cancelled.is_cancelled()
    }

    fn stop(&self) {
        self.queue().stopped = true;
        self.changed.notify_all();
    }

    /// Returns the next piece of work, the latest first so that the queue stays short, or nothing once all is done.
    fn next(&self, was_busy: bool) -> Option<Work> {
        let cancelled = self.is_cancelled();
        let mut queue = self.queue();
        queue.busy -= usize::from(was_busy);
        loop {
            if cancelled || queue.stopped {
                break;
            }
            if let Some(work) = queue.work.pop() {
                queue.busy += 1;
                return Some(work);
            }
            if queue.busy == 0 {
                break;
            }
            queue.waiting += 1;
            self.changed.wait(&mut queue);
            queue.waiting -= 1;
        }
        queue.stopped = true;
        self.changed.notify_all();
        None
    }

    fn push(&self, work: impl Iterator<Item = Work>) {
        let mut queue = self.queue();
        queue.work.extend(work);
        if queue.waiting > 0 {
            self.changed.notify_all();
        }
    }
}

/// One thread of a walk, with the buffers that it uses again and again.
struct Worker<'w, C, V> {
    shared: &'w Shared<'w, C>,
    visitor: Option<V>,
    is_busy: bool,
    done: usize,
    buffer: Vec<MaybeUninit<u8>>,
    portion: Portion,
    path: Vec<u8>,
}

impl<C, V> Drop for Worker<'_, C, V> {
    /// A visitor that panics must not leave the other threads waiting for it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.stop();
        }
    }
}

impl<'w, C: Choose, V: Visit> Worker<'w, C, V> {
    fn new(shared: &'w Shared<'w, C>, visitor: V) -> Self {
        Self {
            shared,
            visitor: Some(visitor),
            is_busy: false,
            done: 0,
            buffer: vec![MaybeUninit::uninit(); LISTING],
            portion: Portion::default(),
            path: Vec::new(),
        }
    }

    fn visitor(mut self) -> V {
        self.visitor
            .take()
            .expect("it is taken only here, and `self` is gone then")
    }

    fn work_to_the_end(mut self) -> V {
        while self.work_once() {}
        self.visitor()
    }

    fn work_once(&mut self) -> bool {
        let work = self.shared.next(self.is_busy);
        self.is_busy = work.is_some();
        match work {
            Some(Work::Folder { path, rules }) => self.folder(path, rules),
            Some(Work::Files { folder, files }) => self.files(&folder, &files),
            None => return false,
        }
        true
    }

    fn unreadable(&mut self) {
        if let Some(visitor) = &mut self.visitor {
            visitor.unreadable();
        }
    }

    fn folder(&mut self, path: PathBuf, rules: Option<Arc<Rules>>) {
        let opened = match open_folder(&path) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return,
            Err(_) => return self.unreadable(),
        };
        let folder = Arc::new(Folder { opened, path });
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut listing = RawDir::new(&folder.opened, &mut buffer);
        let mut is_end = self.portion.fill(&mut listing);
        let marks = if is_end {
            self.portion.marks
        } else {
            Marks::probe(&folder.opened)
        };
        let rules = Rules::enter(rules, &folder.opened, &folder.path, marks);
        loop {
            self.sort_out(&folder, rules.as_ref());
            if is_end || self.shared.is_cancelled() {
                break;
            }
            is_end = self.portion.fill(&mut listing);
        }
        self.buffer = buffer;
        if self.portion.failed {
            self.unreadable();
        }
        if let Some(name) = self.shared.choose.name() {
            self.named(&folder, name);
        }
    }

    /// Sorts the entries of a portion into folders to enter and files to visit.
    fn sort_out(&mut self, folder: &Arc<Folder>, rules: Option<&Arc<Rules>>) {
        let portion = std::mem::take(&mut self.portion);
        let shared = self.shared;
        let is_heavy = shared.walk.effort == Effort::Heavy;
        let mut folders = Vec::new();
        let mut files = Vec::new();
        for (index, (name, kind)) in portion.entries().enumerate() {
            if index % CHECK_EVERY == 0 && shared.is_cancelled() {
                break;
            }
            let Some((kind, relative_at)) = self.wanted(folder, rules, name, kind) else {
                continue;
            };
            let is_link = kind == FileType::Symlink;
            if kind == FileType::Directory {
                folders.push(as_path(&self.path).to_path_buf());
            } else if is_heavy {
                let name = name.to_owned();
                files.push(Named { name, is_link });
            } else {
                self.visit(folder, name, is_link, relative_at);
            }
        }
        if !is_heavy {
            self.done += portion.len();
        }
        self.portion = portion;
        self.enter_later(folders, rules);
        self.share(folder, files);
    }

    /// Says what an entry is and where the relative part of its path begins in the buffer, if it is worth anything.
    fn wanted(
        &mut self,
        folder: &Folder,
        rules: Option<&Arc<Rules>>,
        name: &CStr,
        kind: FileType,
    ) -> Option<(FileType, usize)> {
        let choose = self.shared.choose;
        let kind = Some(kind)
            .filter(|&kind| kind != FileType::Unknown)
            .unwrap_or_else(|| kind_of(folder, name));
        let is_folder = kind == FileType::Directory;
        let is_file = matches!(kind, FileType::RegularFile | FileType::Symlink);
        // Files that all have one name are looked up by it, folder by folder.
        if !is_folder && (!is_file || choose.name().is_some()) {
            return None;
        }
        let relative_at = self.locate(folder, name);
        let (path, relative) = (as_path(&self.path), as_path(&self.path[relative_at..]));
        let is_wanted = match is_folder {
            true => choose.enters(relative) && self.visitor.as_ref().is_some_and(|visitor| visitor.enters(relative)),
            false => choose.takes(relative),
        };
        let is_ignored = || rules.is_some_and(|rules| rules.ignores(path, is_folder));
        (is_wanted && !is_ignored()).then_some((kind, relative_at))
    }

    fn enter_later(&self, mut folders: Vec<PathBuf>, rules: Option<&Arc<Rules>>) {
        if folders.is_empty() {
            return;
        }
        if self.shared.walk.effort == Effort::Ordered {
            folders.sort_unstable_by(|one, other| other.cmp(one));
        }
        let with_rules = |path| Work::Folder {
            path,
            rules: rules.cloned(),
        };
        self.shared.push(folders.into_iter().map(with_rules));
    }

    /// Visits a few of the files, after the rest was laid out for other threads.
    fn share(&mut self, folder: &Arc<Folder>, mut files: Vec<Named>) {
        if files.len() > BATCH && self.shared.queue().work.len() < MAX_QUEUE {
            let mut batches = Vec::with_capacity(files.len() / BATCH + 1);
            while files.len() > BATCH {
                let files = files.split_off(files.len() - BATCH);
                let folder = Arc::clone(folder);
                batches.push(Work::Files { folder, files });
            }
            self.shared.push(batches.into_iter());
        }
        self.files(folder, &files);
    }

    fn files(&mut self, folder: &Folder, files: &[Named]) {
        for file in files {
            if self.shared.is_cancelled() {
                return;
            }
            let relative_at = self.locate(folder, &file.name);
            self.visit(folder, &file.name, file.is_link, relative_at);
            self.done += 1;
        }
    }

    /// Visits the file of a folder that has the one name that is wanted.
    fn named(&mut self, folder: &Folder, name: &OsStr) {
        let Ok(name) = CString::new(name.as_bytes()) else {
            return;
        };
        let relative_at = self.locate(folder, &name);
        if name.as_bytes() == b".git" || !self.shared.choose.takes(as_path(&self.path[relative_at..])) {
            return;
        }
        let kind = kind_of(folder, &name);
        if matches!(kind, FileType::RegularFile | FileType::Symlink) {
            self.visit(folder, &name, kind == FileType::Symlink, relative_at);
        }
    }

    fn visit(&mut self, folder: &Folder, name: &CStr, is_link: bool, relative_at: usize) {
        let Some(visitor) = &mut self.visitor else { return };
        visitor.file(&FoundFile {
            folder: folder.opened.as_fd(),
            name,
            path: as_path(&self.path),
            relative: as_path(&self.path[relative_at..]),
            is_link,
        });
    }

    /// Writes the path of an entry into the buffer and returns where the part relative to the root begins.
    fn locate(&mut self, folder: &Folder, name: &CStr) -> usize {
        self.path.clear();
        self.path.extend_from_slice(folder.path.as_os_str().as_bytes());
        if self.path.last() != Some(&b'/') {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
        let root = self.shared.walk.root.as_os_str().as_bytes();
        root.len() + usize::from(root.last() != Some(&b'/'))
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn kind_of(folder: &Folder, name: &CStr) -> FileType {
    let stat = rustix::fs::statat(&folder.opened, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

/// Returns the path of a found file below the root as it is shown, for texts; what is not UTF-8 is replaced.
pub fn join_shown(shown: &Path, relative: &Path) -> String {
    let mut bytes = shown.as_os_str().as_bytes().to_vec();
    if bytes.last() != Some(&b'/') {
        bytes.push(b'/');
    }
    bytes.extend_from_slice(relative.as_os_str().as_bytes());
    std::ffi::OsString::from_vec(bytes).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::PORTION;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn tree(folders: usize, files: usize) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in 0..folders {
            let folder = root.path().join(format!("d{folder}/deep"));
            std::fs::create_dir_all(&folder).unwrap();
            for file in 0..files {
                std::fs::write(folder.join(format!("f{file}")), "x").unwrap();
            }
        }
        root
    }

    struct Count<'a>(usize, &'a (dyn Fn() + Sync));

    impl Visit for Count<'_> {
        fn file(&mut self, _file: &FoundFile<'_>) {
            self.0 += 1;
            (self.1)();
        }
    }

    fn count(root: &Path, effort: Effort, cancelled: &CancellationToken, at_each: &(dyn Fn() + Sync)) -> usize {
        let walk = Walk {
            root,
            effort,
            cancelled,
        };
        let all = Selection::parse("*").unwrap();
        let visitors = walk.run(&all, &|| Count(0, at_each)).unwrap();
        visitors.iter().map(|visitor| visitor.0).sum()
    }

    #[test]
    fn visits_each_file_once_with_any_effort() {
        let root = tree(20, 40);
        for effort in [Effort::Ordered, Effort::Light, Effort::Heavy] {
            assert_eq!(
                count(root.path(), effort, &CancellationToken::new(), &|| ()),
                800,
                "{effort:?}"
            );
        }
    }

    #[test]
    fn stops_soon_after_a_cancellation() {
        let root = tree(20, 40);
        for effort in [Effort::Light, Effort::Heavy] {
            let cancelled = CancellationToken::new();
            let seen = AtomicUsize::new(0);
            let cancel_at_ten = || {
                if seen.fetch_add(1, Ordering::SeqCst) == 10 {
                    cancelled.cancel();
                }
            };
            let count = count(root.path(), effort, &cancelled, &cancel_at_ten);
            assert!((10..10 + 40 * MAX_THREADS).contains(&count), "{effort:?}: {count}");
        }
    }

    #[test]
    fn a_panic_ends_the_walk_on_all_threads() {
        let root = tree(20, 40);
        let seen = AtomicUsize::new(0);
        let fail_late = || assert!(seen.fetch_add(1, Ordering::SeqCst) != 500, "on purpose");
        let walk = || count(root.path(), Effort::Heavy, &CancellationToken::new(), &fail_late);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(walk)).is_err());
    }

    #[test]
    fn takes_a_folder_of_any_size_in_portions() {
        let root = tree(1, 0);
        let name = |index: usize| format!("{index:0200}");
        let files = PORTION / 200 + 500;
        for index in 0..files {
            std::fs::write(root.path().join(name(index)), "").unwrap();
        }
        std::fs::write(root.path().join(".ignore"), format!("{}\n", name(7))).unwrap();
        let counted = count(root.path(), Effort::Heavy, &CancellationToken::new(), &|| ());
        assert_eq!(counted, files, "all but the ignored one, and the ignore file itself");
    }
}
