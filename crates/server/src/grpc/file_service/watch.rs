//! Streams of what happens to files.
//!
//! *Invariant:* a slow reader delays nobody: what it misses is told to it as such. What a rule denies to read is not told.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use toolgate_contract::watch_files_response::News as Told;
use toolgate_contract::*;
use toolgate_engine::Glance;
use toolgate_fs::tree::{self, EntryKind};
use toolgate_fs::watch::News;

use super::permitted::shown;
use super::{look, wire};
use crate::grpc::Shared;
use crate::grpc::events::ResponseStream;
use crate::grpc::status::{self, bad_field};
use crate::grpc::watches::{BadCursor, Hub, Seat};

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
    closing: CancellationToken,
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
    let facts = tree::look(&folder)
        .await
        .map_err(|error| status::file(&error, &request.path))?;
    match facts.map(|facts| facts.kind) {
        Some(EntryKind::Folder) => {}
        Some(EntryKind::File | EntryKind::Link | EntryKind::Other) => {
            let problem = format!("{} is no folder", request.path);
            return Err(status::precondition(ErrorReason::NotAFolder, &request.path, problem));
        }
        None => return Err(status::not_found("file", &request.path)),
    }
    let workspace = glance.workspace().clone();
    let directory = workspace.directory().to_path_buf();
    let root = tokio::task::spawn_blocking(move || directory.canonicalize()).await;
    let root = root.map_err(io::Error::other).and_then(|root| root);
    let root = root.map_err(|error| status::internal("the folder of the workspace is gone", &error))?;
    if !folder.real().starts_with(&root) {
        return Err(bad_field(
            "path",
            "only the workspace's folder, and those in it, are watched",
        ));
    }
    let seat = shared.watches.seat(root.clone(), shared.closing.at_once()).await;
    let seat = seat.map_err(|error| {
        let problem = format!("the workspace cannot be watched: {error}");
        status::precondition(ErrorReason::WatchesExhausted, workspace.name(), problem)
    })?;
    let hub = seat.hub().clone();
    let mut news = hub.subscribe();
    let now = *news.borrow_and_update();
    let sequence = match request.cursor.as_str() {
        "" => now,
        cursor => match hub.behind(cursor) {
            Ok(sequence) => sequence,
            Err(BadCursor::Strange) => return Err(bad_field("cursor", "this service did not issue this cursor")),
            Err(BadCursor::TooOld) => return Err(too_old()),
        },
    };
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
        closing: shared.closing.turn(),
    };
    Ok(Box::pin(stream::try_unfold(reader, |mut reader| async move {
        Ok(Some((reader.next().await?, reader)))
    })))
}

impl Reader {
    async fn next(&mut self) -> Result<WatchFilesResponse, Status> {
        let hub = self.seat.hub().clone();
        if std::mem::take(&mut self.is_first) {
            let partial = hub.is_partial();
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
            let more = hub.after(self.sequence).ok_or_else(too_old)?;
            if !more.is_empty() {
                self.waiting.extend(more);
                continue;
            }
            if self.closing.is_cancelled() {
                return Err(status::draining());
            }
            if hub.is_over() {
                return Err(too_old());
            }
            tokio::select! {
                () = self.view.glance.closing().cancelled() => {
                    return Err(status::not_found("workspace", self.view.glance.workspace().name()));
                }
                changed = self.news.changed() => changed.map_err(|_| too_old())?,
                () = self.closing.cancelled() => return Err(status::draining()),
                () = &mut silence => return Ok(self.response(Told::Heartbeat(FilesHeartbeat {}))),
            }
        }
    }

    fn response(&self, told: Told) -> WatchFilesResponse {
        WatchFilesResponse {
            cursor: self.seat.hub().cursor(self.sequence),
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
                let partial = hub.is_partial();
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

fn too_old() -> Status {
    status::cursor_too_old("list the folder, and watch without a cursor")
}
