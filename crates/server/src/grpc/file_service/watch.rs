//! Watching files: one watch for each workspace that somebody watches, and a cursor for each stream.
//!
//! *Invariant:* what happened is kept for a while, bounded, so that a stream that was lost goes on where it was. A slow reader
//! delays nobody: what it misses is told to it as such.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream;
use parking_lot::Mutex;
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use toolgate_contract::watch_files_response::News as Told;
use toolgate_contract::*;
use toolgate_engine::Glance;
use toolgate_fs::tree::{self, EntryKind};
use toolgate_fs::watch::{Listen, News, TreeWatch};

use super::{look, shown, wire};
use crate::grpc::events::ResponseStream;
use crate::grpc::status::{self, bad_field};
use crate::grpc::Shared;

/// Entries that are kept of what happened, in all news of a workspace.
const MAX_KEPT: usize = 16_384;

/// How long a workspace is watched that nobody asks about.
const LINGER: Duration = Duration::from_secs(5 * 60);

/// The workspaces that are watched.
#[derive(Default)]
pub struct Watches(tokio::sync::Mutex<HashMap<String, (Arc<Hub>, TreeWatch)>>);

/// What happened in one workspace.
struct Hub {
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

    fn cursor(&self, sequence: u64) -> String {
        format!("{}.{sequence}", self.epoch)
    }

    /// Returns the news behind a number, if all of them are still kept.
    fn after(&self, sequence: u64) -> Option<Vec<(u64, Arc<News>)>> {
        let last = *self.last.borrow();
        let kept = self.kept.lock();
        let first = kept.news.front().map_or(last + 1, |(first, _)| *first);
        if sequence > last || sequence + 1 < first {
            return None;
        }
        Some(kept.news.iter().filter(|(number, _)| *number > sequence).cloned().collect())
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
                let Some((_, oldest)) = kept.news.pop_front() else { break };
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
struct Seat(Arc<Hub>);

impl Seat {
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
    /// Returns a seat at the watch of a workspace, which begins if there is none.
    async fn seat(&self, name: &str, folder: PathBuf, closing: &CancellationToken) -> std::io::Result<Seat> {
        let mut hubs = self.0.lock().await;
        hubs.retain(|_, (hub, _)| !hub.is_over.load(Ordering::Acquire));
        if let Some((hub, _)) = hubs.get(name) {
            return Ok(Seat::new(hub));
        }
        let hub = Arc::new(Hub::new(closing.clone()));
        let (seat, ear) = (Seat::new(&hub), Ear(hub.clone()));
        let watch = tokio::task::spawn_blocking(move || TreeWatch::start(&folder.canonicalize()?, ear));
        let watch = watch.await.map_err(std::io::Error::other)??;
        hubs.insert(name.to_owned(), (hub, watch));
        Ok(seat)
    }
}

/// A stream of news.
struct Reader {
    seat: Seat,
    news: signal::Receiver<u64>,
    /// Where it is.
    sequence: u64,
    /// News that were taken, and not sent yet.
    waiting: VecDeque<(u64, Arc<News>)>,
    view: View,
    is_first: bool,
    heartbeat: Duration,
}

/// What one stream is shown.
struct View {
    glance: Glance,
    /// The folder that is watched, as it is written and with every link followed.
    shown: PathBuf,
    real: PathBuf,
    /// The root of the watch.
    root: PathBuf,
    hides: Box<dyn Fn(&Path) -> bool + Send + Sync>,
}

/// Begins a stream.
pub(super) async fn watch(
    shared: &Shared,
    glance: Glance,
    request: &WatchFilesRequest,
) -> Result<ResponseStream<WatchFilesResponse>, Status> {
    let folder = look::folder(&glance, &request.path).await?;
    let facts = tree::look(&folder).await.map_err(|error| status::file(&error, &request.path))?;
    match facts.map(|facts| facts.kind) {
        Some(EntryKind::Folder) => {}
        Some(EntryKind::File | EntryKind::Link | EntryKind::Other) => {
            let problem = format!("{} is no folder", request.path);
            return Err(status::precondition(ErrorReason::NotAFolder, &request.path, problem));
        }
        None => return Err(status::not_found("file", &request.path)),
    }
    let workspace = glance.workspace().clone();
    let root = workspace.directory().to_path_buf();
    let seat = shared.watches.seat(workspace.name(), root.clone(), &shared.closing).await;
    let seat = seat.map_err(|error| {
        let problem = format!("the workspace cannot be watched: {error}");
        status::precondition(ErrorReason::WatchesExhausted, workspace.name(), problem)
    })?;
    let hub = seat.0.clone();
    let mut news = hub.last.subscribe();
    let now = *news.borrow_and_update();
    let sequence = match request.cursor.as_str() {
        "" => now,
        cursor => behind(&hub, cursor)?,
    };
    let root = tokio::task::spawn_blocking(move || root.canonicalize());
    let root = root.await.map_err(std::io::Error::other).and_then(|root| root);
    let root = root.map_err(|error| status::internal("the folder of the workspace is gone", &error))?;
    if !folder.real().starts_with(&root) {
        return Err(bad_field("path", "only the workspace's folder, and those in it, are watched"));
    }
    let hides = look::hidden(&glance, &folder);
    let reader = Reader {
        seat,
        news,
        sequence,
        waiting: VecDeque::new(),
        view: View {
            glance,
            shown: folder.display_path().into(),
            real: folder.real().into(),
            root,
            hides: Box::new(hides),
        },
        is_first: true,
        heartbeat: shared.heartbeat,
    };
    Ok(Box::pin(stream::try_unfold(reader, |mut reader| async move {
        Ok(Some((reader.next().await?, reader)))
    })))
}

/// Reads a cursor.
fn behind(hub: &Hub, cursor: &str) -> Result<u64, Status> {
    let strange = || bad_field("cursor", "this service did not issue this cursor");
    let (epoch, sequence) = cursor.split_once('.').ok_or_else(strange)?;
    let sequence: u64 = sequence.parse().map_err(|_| strange())?;
    if epoch != hub.epoch || hub.after(sequence).is_none() {
        return Err(status::cursor_too_old());
    }
    Ok(sequence)
}

impl Reader {
    async fn next(&mut self) -> Result<WatchFilesResponse, Status> {
        let hub = self.seat.0.clone();
        if std::mem::take(&mut self.is_first) {
            let partial = hub.partial.load(Ordering::Relaxed);
            return Ok(self.response(Told::Watched(FilesWatched { partial })));
        }
        let silence = tokio::time::sleep(self.heartbeat);
        tokio::pin!(silence);
        loop {
            while let Some((sequence, news)) = self.waiting.pop_front() {
                self.sequence = sequence;
                if let Some(told) = self.view.told(&news, &hub) {
                    return Ok(self.response(told));
                }
            }
            let more = hub.after(self.sequence).ok_or_else(status::cursor_too_old)?;
            if !more.is_empty() {
                self.waiting.extend(more);
                continue;
            }
            if hub.closing.is_cancelled() {
                return Err(status::draining());
            }
            if hub.is_over.load(Ordering::Acquire) {
                return Err(status::cursor_too_old());
            }
            tokio::select! {
                changed = self.news.changed() => changed.map_err(|_| status::cursor_too_old())?,
                () = hub.closing.cancelled() => return Err(status::draining()),
                () = &mut silence => return Ok(self.response(Told::Heartbeat(FilesHeartbeat {}))),
            }
        }
    }

    fn response(&self, told: Told) -> WatchFilesResponse {
        WatchFilesResponse {
            cursor: self.seat.0.cursor(self.sequence),
            news: Some(told),
        }
    }
}

impl View {
    /// Returns what is told of news; nothing if they are about what is not watched, or not shown.
    fn told(&self, news: &News, hub: &Hub) -> Option<Told> {
        let (there, gone) = match news {
            News::Changed { there, gone } => (there, gone),
            News::LookAgain => {
                let partial = hub.partial.load(Ordering::Relaxed);
                return Some(Told::Missed(FilesMissed { partial }));
            }
        };
        let files = there.iter().filter_map(|entry| {
            let path = self.path(&entry.relative)?;
            Some(wire::entry(path, entry))
        });
        let changed = FilesChanged {
            files: files.collect(),
            gone_paths: gone.iter().filter_map(|path| self.path(path)).collect(),
        };
        let is_empty = changed.files.is_empty() && changed.gone_paths.is_empty();
        (!is_empty).then_some(Told::Changed(changed))
    }

    /// Returns what a path of the watch is called, if it is shown.
    fn path(&self, relative: &Path) -> Option<String> {
        let real = self.root.join(relative);
        let below = real.strip_prefix(&self.real).ok()?;
        if !below.as_os_str().is_empty() && (self.hides)(below) {
            return None;
        }
        Some(shown(&self.glance, &self.shown.join(below)))
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
        let numbers = |after| hub.after(after).map(|news| news.iter().map(|(number, _)| *number).collect::<Vec<_>>());
        assert_eq!(numbers(0), None);
        assert_eq!(numbers(1), Some(vec![2, 3]));
        assert_eq!(numbers(3), Some(Vec::new()));
        // What is too much by itself is told to nobody, and everybody knows that something is missing.
        ear.tell(gone(MAX_KEPT));
        assert_eq!((numbers(3), numbers(4)), (None, Some(Vec::new())));
        assert_eq!(behind(hub, &hub.cursor(4)).unwrap(), 4);
        for cursor in [hub.cursor(3), hub.cursor(9), "other.4".to_owned()] {
            assert_eq!(behind(hub, &cursor).unwrap_err().code(), tonic::Code::OutOfRange, "{cursor}");
        }
        assert_eq!(behind(hub, "x").unwrap_err().code(), tonic::Code::InvalidArgument);
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
