//! Whether an edit waits for what language servers say of it: only for those that have lately kept pace with edits.
//!
//! A server that checks a whole program is behind after every edit, and waiting for it would only make each of them
//! slower. So an edit waits if the last change of the file was answered, and if the last answer for files of this kind came
//! in time.
//!
//! *Invariant:* never waits itself. What is kept of a file goes with the last of its turns.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Kinds of files that are remembered as slow. A server for files of every kind must not fill the memory with them.
const MAX_KINDS: usize = 1000;

/// What is known of the pace of servers.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// How long an edit may wait.
    wait: Duration,
    known: Arc<Mutex<Known>>,
    /// Changes with every turn.
    turned: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// Kinds of files whose last change was not answered in time.
    slow: HashSet<OsString>,
    files: HashMap<PathBuf, File>,
    last_turn: u64,
}

/// A file whose last change is still of interest.
#[derive(Clone, Copy, Debug)]
struct File {
    turn: u64,
    answered: bool,
}

/// One change of a file.
#[derive(Debug)]
pub(super) struct Turn {
    pace: Pace,
    path: PathBuf,
    number: u64,
    begun: Instant,
    /// The change before was not answered, so an answer may be to that; or the server was just started.
    behind: bool,
    waits: bool,
}

impl Pace {
    pub(super) fn new(wait: Duration) -> Self {
        Self {
            wait,
            known: Arc::default(),
            turned: watch::Sender::new(()),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn: the file has just changed. A server that is not `ready` is not waited for, and its first answer says
    /// nothing of its pace.
    pub(super) fn begin(&self, path: &Path, ready: bool) -> Turn {
        let mut known = self.known();
        known.last_turn += 1;
        let number = known.last_turn;
        let file = File {
            turn: number,
            answered: false,
        };
        let before = known.files.insert(path.to_path_buf(), file);
        let behind = !ready || before.is_some_and(|before| !before.answered);
        let waits = !self.wait.is_zero() && !behind && !known.slow.contains(&kind(path));
        drop(known);
        self.turned.send_replace(());
        Turn {
            pace: self.clone(),
            path: path.to_path_buf(),
            number,
            begun: Instant::now(),
            behind,
            waits,
        }
    }
}

impl Turn {
    /// Returns the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns until when an answer is worth waiting for; none if it is not.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.waits.then(|| self.begun + self.pace.wait)
    }

    /// Notes that the servers have answered, at this moment. The first answer counts.
    pub(super) fn answered(&self) {
        let in_time = self.begun.elapsed() <= self.pace.wait;
        let mut known = self.pace.known();
        let file = known.files.get_mut(&self.path);
        let Some(file) = file.filter(|file| file.turn == self.number && !file.answered) else {
            return;
        };
        file.answered = true;
        if !self.behind {
            known.note(&self.path, in_time);
        }
    }

    /// Notes that they have not, and that this is no longer waited for.
    pub(super) fn given_up(&self) {
        self.pace.known().note(&self.path, false);
    }

    /// Returns when the file has changed again.
    pub(super) async fn over(&self) {
        let mut turned = self.pace.turned.subscribe();
        while self.is_current() {
            if turned.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn is_current(&self) -> bool {
        let known = self.pace.known();
        known.files.get(&self.path).is_some_and(|file| file.turn == self.number)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut known = self.pace.known();
        if known.files.get(&self.path).is_some_and(|file| file.turn == self.number) {
            known.files.remove(&self.path);
        }
    }
}

impl Known {
    fn note(&mut self, path: &Path, in_time: bool) {
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

    fn waits(pace: &Pace, path: &str) -> (Turn, bool) {
        let turn = pace.begin(Path::new(path), true);
        let waits = turn.waits_until().is_some();
        (turn, waits)
    }

    #[tokio::test(start_paused = true)]
    async fn a_prompt_server_is_waited_for() {
        let pace = Pace::new(WAIT);
        for _ in 0..3 {
            let (turn, waits) = waits(&pace, "/a.rs");
            assert!(waits);
            tokio::time::advance(WAIT / 2).await;
            turn.answered();
        }
        let (_turn, waits) = waits(&Pace::new(Duration::ZERO), "/a.rs");
        assert!(!waits, "nobody is to wait");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_waited_for_once() {
        let pace = Pace::new(WAIT);
        let (turn, first) = waits(&pace, "/a.rs");
        turn.given_up();
        let (same, second) = waits(&pace, "/a.rs");
        let (other, third) = waits(&pace, "/b.rs");
        let (_else, fourth) = waits(&pace, "/b.py");
        assert_eq!((first, second, third, fourth), (true, false, false, true));
        drop((turn, same, other));
        assert!(!waits(&pace, "/a.rs").1, "it stays slow");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_becomes_prompt_is_waited_for_again() {
        let pace = Pace::new(WAIT);
        let (turn, _) = waits(&pace, "/a.rs");
        turn.given_up();
        drop(turn);
        let (turn, waited) = waits(&pace, "/a.rs");
        tokio::time::advance(WAIT / 2).await;
        turn.answered();
        assert!(!waited);
        drop(turn);
        let (turn, waited) = waits(&pace, "/a.rs");
        tokio::time::advance(WAIT * 2).await;
        turn.answered();
        assert!(waited);
        drop(turn);
        assert!(!waits(&pace, "/a.rs").1, "and no longer when it is slow again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_an_earlier_change_says_nothing() {
        let pace = Pace::new(WAIT);
        let (first, _) = waits(&pace, "/a.rs");
        first.given_up();
        let (second, _) = waits(&pace, "/a.rs");
        second.answered();
        drop((first, second));
        let (third, waited) = waits(&pace, "/a.rs");
        assert!(!waited, "the answer may have been to the first");
        third.answered();
        drop(third);
        assert!(waits(&pace, "/a.rs").1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_over_with_the_next() {
        let pace = Pace::new(WAIT);
        let (first, _) = waits(&pace, "/a.rs");
        let (_other, _) = waits(&pace, "/b.rs");
        assert!(tokio::time::timeout(WAIT, first.over()).await.is_err());
        let (second, _) = waits(&pace, "/a.rs");
        first.over().await;
        drop(first);
        assert!(tokio::time::timeout(WAIT, second.over()).await.is_err());
        drop(second);
        assert_eq!(pace.known().files.len(), 1, "nothing is kept of files without turns");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_starts_is_not_waited_for() {
        let pace = Pace::new(WAIT);
        let first = pace.begin(Path::new("/a.rs"), false);
        assert!(first.waits_until().is_none());
        tokio::time::advance(WAIT * 10).await;
        first.answered();
        assert!(waits(&pace, "/a.rs").1, "a start says nothing of its pace");
    }

    #[test]
    fn kinds_do_not_fill_the_memory() {
        let mut known = Known::default();
        for number in 0..3 * MAX_KINDS {
            known.note(Path::new(&format!("/a.{number}")), false);
        }
        assert!(known.slow.len() <= MAX_KINDS);
    }
}
