//! One watch for each folder whose files somebody watches, and what it has told.
//!
//! *Invariant:* a leaf. What happened is kept for a while, bounded, so that a stream that was lost goes on where it was.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;
use toolgate_fs::watch::{Listen, News, TreeWatch};

/// Entries that are kept of what happened, in all news of a workspace.
const MAX_KEPT: usize = 16_384;

/// How long a workspace is watched that nobody asks about.
const LINGER: Duration = Duration::from_secs(5 * 60);

/// The workspaces that are watched.
#[derive(Default)]
pub struct Watches(tokio::sync::Mutex<HashMap<PathBuf, (Arc<Hub>, TreeWatch)>>);

/// Why a cursor leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadCursor {
    /// It was never one.
    Strange,
    /// What happened since is not known.
    TooOld,
}

/// What happened in one workspace.
pub(super) struct Hub {
    /// Tells cursors of this watch from those of others.
    epoch: String,
    kept: Mutex<Kept>,
    /// The number of the last news.
    last: signal::Sender<u64>,
    readers: AtomicUsize,
    /// When the last reader left, in seconds of the watch.
    left: AtomicU64,
    begun: Instant,
    partial: AtomicBool,
    is_over: AtomicBool,
    closing: CancellationToken,
}

#[derive(Default)]
struct Kept {
    news: VecDeque<(u64, Arc<News>)>,
    entries: usize,
}

fn weight(news: &News) -> usize {
    match news {
        News::Changed { there, gone } => 1 + there.len() + gone.len(),
        News::LookAgain => 1,
    }
}

impl Hub {
    fn new(closing: CancellationToken) -> Self {
        Self {
            epoch: uuid::Uuid::now_v7().simple().to_string(),
            kept: Mutex::default(),
            last: signal::Sender::new(0),
            readers: AtomicUsize::new(0),
            left: AtomicU64::new(0),
            begun: Instant::now(),
            partial: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            closing,
        }
    }

    /// Returns the cursor of a number.
    pub(super) fn cursor(&self, sequence: u64) -> String {
        format!("{}.{sequence}", self.epoch)
    }

    /// Returns the number that a cursor means, if all news behind it are still kept.
    pub(super) fn behind(&self, cursor: &str) -> Result<u64, BadCursor> {
        let (epoch, sequence) = cursor.split_once('.').ok_or(BadCursor::Strange)?;
        let sequence = sequence.parse().map_err(|_| BadCursor::Strange)?;
        if epoch == self.epoch && self.after(sequence).is_some() {
            Ok(sequence)
        } else {
            Err(BadCursor::TooOld)
        }
    }

    /// Says whether there are more folders than can be watched.
    pub(super) fn is_partial(&self) -> bool {
        self.partial.load(Ordering::Relaxed)
    }

    /// Says whether nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Returns what tells of news.
    pub(super) fn subscribe(&self) -> signal::Receiver<u64> {
        self.last.subscribe()
    }

    /// Returns the news behind a number, if all of them are still kept.
    pub(super) fn after(&self, sequence: u64) -> Option<Vec<(u64, Arc<News>)>> {
        let last = *self.last.borrow();
        let kept = self.kept.lock();
        let first = kept.news.front().map_or(last + 1, |(first, _)| *first);
        if sequence > last || sequence + 1 < first {
            return None;
        }
        Some(
            kept.news
                .iter()
                .filter(|(number, _)| *number > sequence)
                .cloned()
                .collect(),
        )
    }
}

/// The side of the thread that watches.
struct Ear(Arc<Hub>);

impl Listen for Ear {
    fn tell(&self, news: News) {
        let hub = &self.0;
        // The number is known only once the news are kept.
        hub.last.send_modify(|last| {
            *last += 1;
            let mut kept = hub.kept.lock();
            kept.entries += weight(&news);
            kept.news.push_back((*last, Arc::new(news)));
            while kept.entries > MAX_KEPT {
                let Some((_, oldest)) = kept.news.pop_front() else {
                    break;
                };
                kept.entries -= weight(&oldest);
            }
        });
    }

    fn is_partial(&self, partial: bool) {
        self.0.partial.store(partial, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        let hub = &self.0;
        let left = Duration::from_secs(hub.left.load(Ordering::Acquire));
        let is_wanted = hub.readers.load(Ordering::Acquire) > 0 || hub.begun.elapsed().saturating_sub(left) < LINGER;
        is_wanted && !hub.closing.is_cancelled()
    }

    fn over(&self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.last.send_modify(|_| {});
    }
}

/// Somebody who reads.
pub(super) struct Seat(Arc<Hub>);

impl Seat {
    /// Returns the watch.
    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.0
    }

    fn new(hub: &Arc<Hub>) -> Self {
        hub.readers.fetch_add(1, Ordering::AcqRel);
        Self(hub.clone())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.left.store(self.0.begun.elapsed().as_secs(), Ordering::Release);
        self.0.readers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Watches {
    /// Returns a seat at the watch of a folder without links in its path, which begins if there is none.
    pub(super) async fn seat(&self, folder: PathBuf, closing: &CancellationToken) -> io::Result<Seat> {
        let mut hubs = self.0.lock().await;
        hubs.retain(|_, (hub, _)| !hub.is_over());
        if let Some((hub, _)) = hubs.get(&folder) {
            return Ok(Seat::new(hub));
        }
        let hub = Arc::new(Hub::new(closing.clone()));
        let (seat, ear) = (Seat::new(&hub), Ear(hub.clone()));
        let root = folder.clone();
        let watch = tokio::task::spawn_blocking(move || TreeWatch::start(&root, ear));
        let watch = watch.await.map_err(io::Error::other)??;
        hubs.insert(folder, (hub, watch));
        Ok(seat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(count: usize) -> News {
        News::Changed {
            there: Vec::new(),
            gone: (0..count).map(|index| index.to_string().into()).collect(),
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_missed_is_known() {
        let ear = Ear(Arc::new(Hub::new(CancellationToken::new())));
        let hub = &ear.0;
        assert_eq!(hub.after(0), Some(Vec::new()));
        assert_eq!(hub.after(1), None);
        for _ in 0..3 {
            ear.tell(gone(MAX_KEPT / 2 - 1));
        }
        let numbers = |after| {
            hub.after(after)
                .map(|news| news.iter().map(|(number, _)| *number).collect::<Vec<_>>())
        };
        assert_eq!(numbers(0), None);
        assert_eq!(numbers(1), Some(vec![2, 3]));
        assert_eq!(numbers(3), Some(Vec::new()));
        // What is too much by itself is told to nobody, and everybody knows that something is missing.
        ear.tell(gone(MAX_KEPT));
        assert_eq!((numbers(3), numbers(4)), (None, Some(Vec::new())));
        assert_eq!(hub.behind(&hub.cursor(4)), Ok(4));
        for cursor in [hub.cursor(3), hub.cursor(9), "other.4".to_owned()] {
            assert_eq!(hub.behind(&cursor), Err(BadCursor::TooOld), "{cursor}");
        }
        assert_eq!(hub.behind("x"), Err(BadCursor::Strange));
    }

    #[test]
    fn a_watch_lingers_only_for_its_readers() {
        let ear = Ear(Arc::new(Hub::new(CancellationToken::new())));
        let seat = Seat::new(&ear.0);
        assert!(ear.goes_on());
        drop(seat);
        assert!(ear.goes_on());
        ear.0.closing.cancel();
        assert!(!ear.goes_on());
    }
}
