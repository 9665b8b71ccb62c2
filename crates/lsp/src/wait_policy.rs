//! Whether an edit waits for what language servers say of it: only for those that have lately kept pace with edits.
//!
//! A server that checks a whole program is behind after every edit, and waiting for it would only make each of them
//! slower. So an edit waits if the last change of the file was answered, and if the last answer for files of this kind came
//! in time.
//!
//! *Invariant:* never waits itself. What is kept of a file goes with the last of its edits.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

/// Kinds of files that are remembered as slow. A server for files of every kind must not fill the memory with them.
const MAX_KINDS: usize = 1000;

/// What is known of the pace of servers.
#[derive(Clone, Debug)]
pub(super) struct WaitPolicy {
    /// How long an edit may wait.
    wait: Duration,
    history: Arc<Mutex<History>>,
    /// Changes with every edit.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct History {
    /// Kinds of files whose last change was not answered in time.
    slow: HashSet<OsString>,
    files: HashMap<PathBuf, File>,
    last_edit: u64,
}

/// A file whose last change is still of interest.
#[derive(Clone, Copy, Debug)]
struct File {
    edit: u64,
    answered: bool,
}

/// One change of a file.
#[derive(Debug)]
pub(super) struct PendingEdit {
    policy: WaitPolicy,
    path: PathBuf,
    number: u64,
    begun: Instant,
    /// The change before was not answered, so an answer may be to that; or the server was just started.
    behind: bool,
    waits: bool,
}

impl WaitPolicy {
    pub(super) fn new(wait: Duration) -> Self {
        Self {
            wait,
            history: Arc::default(),
            changed: watch::Sender::new(()),
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    /// Begins to watch an edit: the file has just changed. A server that is not `ready` is not waited for, and its first answer says
    /// nothing of its pace.
    pub(super) fn begin(&self, path: &Path, ready: bool) -> PendingEdit {
        let mut history = self.history();
        history.last_edit += 1;
        let number = history.last_edit;
        let file = File {
            edit: number,
            answered: false,
        };
        let before = history.files.insert(path.to_path_buf(), file);
        let behind = !ready || before.is_some_and(|before| !before.answered);
        let waits = !self.wait.is_zero() && !behind && !history.slow.contains(&kind(path));
        drop(history);
        self.changed.send_replace(());
        PendingEdit {
            policy: self.clone(),
            path: path.to_path_buf(),
            number,
            begun: Instant::now(),
            behind,
            waits,
        }
    }
}

impl PendingEdit {
    /// Returns the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns until when an answer is worth waiting for; none if it is not.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.waits.then(|| self.begun + self.policy.wait)
    }

    /// Notes that the servers have answered, at this moment. The first answer counts.
    pub(super) fn answered(&self) {
        let in_time = self.begun.elapsed() <= self.policy.wait;
        let mut history = self.policy.history();
        let file = history.files.get_mut(&self.path);
        let Some(file) = file.filter(|file| file.edit == self.number && !file.answered) else {
            return;
        };
        file.answered = true;
        if !self.behind {
            history.record(&self.path, in_time);
        }
    }

    /// Notes that they have not, and that this is no longer waited for.
    pub(super) fn given_up(&self) {
        self.policy.history().record(&self.path, false);
    }

    /// Returns when the file has changed again.
    pub(super) async fn over(&self) {
        let mut changes = self.policy.changed.subscribe();
        while self.is_current() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn is_current(&self) -> bool {
        let history = self.policy.history();
        history
            .files
            .get(&self.path)
            .is_some_and(|file| file.edit == self.number)
    }
}

impl Drop for PendingEdit {
    fn drop(&mut self) {
        let mut history = self.policy.history();
        if history
            .files
            .get(&self.path)
            .is_some_and(|file| file.edit == self.number)
        {
            history.files.remove(&self.path);
        }
    }
}

impl History {
    fn record(&mut self, path: &Path, in_time: bool) {
        let kind = kind(path);
        if in_time {
            self.slow.remove(&kind);
        } else {
            if self.slow.len() >= MAX_KINDS {
                self.slow.clear();
            }
            self.slow.insert(kind);
        }
    }
}

/// Returns the kind of a file: the same servers look at files of one kind.
fn kind(path: &Path) -> OsString {
    path.extension().or(path.file_name()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(100);

    fn waits(policy: &WaitPolicy, path: &str) -> (PendingEdit, bool) {
        let edit = policy.begin(Path::new(path), true);
        let waits = edit.waits_until().is_some();
        (edit, waits)
    }

    #[tokio::test(start_paused = true)]
    async fn a_prompt_server_is_waited_for() {
        let policy = WaitPolicy::new(WAIT);
        for _ in 0..3 {
            let (edit, waits) = waits(&policy, "/a.rs");
            assert!(waits);
            tokio::time::advance(WAIT / 2).await;
            edit.answered();
        }
        let (_edit, waits) = waits(&WaitPolicy::new(Duration::ZERO), "/a.rs");
        assert!(!waits, "nobody is to wait");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_waited_for_once() {
        let policy = WaitPolicy::new(WAIT);
        let (edit, first) = waits(&policy, "/a.rs");
        edit.given_up();
        let (same, second) = waits(&policy, "/a.rs");
        let (other, third) = waits(&policy, "/b.rs");
        let (_else, fourth) = waits(&policy, "/b.py");
        assert_eq!((first, second, third, fourth), (true, false, false, true));
        drop((edit, same, other));
        assert!(!waits(&policy, "/a.rs").1, "it stays slow");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_becomes_prompt_is_waited_for_again() {
        let policy = WaitPolicy::new(WAIT);
        let (edit, _) = waits(&policy, "/a.rs");
        edit.given_up();
        drop(edit);
        let (edit, waited) = waits(&policy, "/a.rs");
        tokio::time::advance(WAIT / 2).await;
        edit.answered();
        assert!(!waited);
        drop(edit);
        let (edit, waited) = waits(&policy, "/a.rs");
        tokio::time::advance(WAIT * 2).await;
        edit.answered();
        assert!(waited);
        drop(edit);
        assert!(!waits(&policy, "/a.rs").1, "and no longer when it is slow again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_an_earlier_change_says_nothing() {
        let policy = WaitPolicy::new(WAIT);
        let (first, _) = waits(&policy, "/a.rs");
        first.given_up();
        let (second, _) = waits(&policy, "/a.rs");
        second.answered();
        drop((first, second));
        let (third, waited) = waits(&policy, "/a.rs");
        assert!(!waited, "the answer may have been to the first");
        third.answered();
        drop(third);
        assert!(waits(&policy, "/a.rs").1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_over_with_the_next() {
        let policy = WaitPolicy::new(WAIT);
        let (first, _) = waits(&policy, "/a.rs");
        let (_other, _) = waits(&policy, "/b.rs");
        assert!(tokio::time::timeout(WAIT, first.over()).await.is_err());
        let (second, _) = waits(&policy, "/a.rs");
        first.over().await;
        drop(first);
        assert!(tokio::time::timeout(WAIT, second.over()).await.is_err());
        drop(second);
        assert_eq!(
            policy.history().files.len(),
            1,
            "nothing is kept of files without edits"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_starts_is_not_waited_for() {
        let policy = WaitPolicy::new(WAIT);
        let first = policy.begin(Path::new("/a.rs"), false);
        assert!(first.waits_until().is_none());
        tokio::time::advance(WAIT * 10).await;
        first.answered();
        assert!(waits(&policy, "/a.rs").1, "a start says nothing of its pace");
    }

    #[test]
    fn kinds_do_not_fill_the_memory() {
        let mut history = History::default();
        for number in 0..3 * MAX_KINDS {
            history.record(Path::new(&format!("/a.{number}")), false);
        }
        assert!(history.slow.len() <= MAX_KINDS);
    }
}
