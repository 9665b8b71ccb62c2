//! Outputs on their way to a gateway: each is a file first, and a task sends on what the file has. Where there is a bucket and an output
//! grows fast, its full parts go there; the rest is appended through the gateway.
//!
//! *Invariant:* nothing of an output is held in memory but the piece or the part that is being sent. While no gateway is reached the bytes stay in
//! the file and are sent later; an output is among the live ones until the gateway has all of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_contract::cluster::{AppendOutputRequest, BeginOutputRequest, FinishOutputRequest};
use toolgate_model::OutputId;
use toolgate_store::codec::{again, failed};
use toolgate_store::ledger::{Hold, PART_BYTES};
use toolgate_store::local::{OutputFile, Volume};
use toolgate_store::{OutputInfo, OutputOwner, StoreError};

use crate::holds::Holds;
use crate::parts::{self, Parts};
use crate::rpc::Rpc;
use crate::wire::{self, MAX_PIECE_BYTES};

/// How long more bytes are waited for before those that are there are sent.
const GATHER: Duration = Duration::from_millis(50);

/// How long to wait when no gateway was reached for all the time that a request is tried.
const PAUSE: Duration = Duration::from_millis(500);

/// How far an output has come at the gateways.
#[derive(Clone)]
pub(crate) enum Progress {
    /// They do not know it.
    Unknown,
    /// They have some of it.
    Begun,
    /// They have all of it.
    Stored(OutputInfo),
    /// They do not take it.
    Refused(Arc<StoreError>),
}

/// An output that this run writes, or of which a gateway does not have all yet.
pub(crate) struct Upload {
    pub(crate) file: OutputFile,
    /// There are more bytes.
    more: Notify,
    /// There will be no more.
    hurry: Notify,
    ended: AtomicBool,
    progress: watch::Sender<Progress>,
}

impl Upload {
    /// Says that there are more bytes to send.
    pub(crate) fn more(&self) {
        self.more.notify_one();
    }

    /// Says that there will be no more.
    pub(crate) fn end(&self) {
        self.file.end();
        self.ended.store(true, Ordering::Release);
        self.more.notify_one();
        self.hurry.notify_one();
    }

    /// Waits until the gateways know the output.
    pub(crate) async fn begun(&self) {
        // Whoever sends keeps the sender for as long as this is there.
        let mut progress = self.progress.subscribe();
        let _ = progress
            .wait_for(|progress| !matches!(progress, Progress::Unknown))
            .await;
    }

    /// Waits until the gateways have all of it.
    pub(crate) async fn stored(&self) -> Result<OutputInfo, StoreError> {
        let mut progress = self.progress.subscribe();
        let is_over = |progress: &Progress| matches!(progress, Progress::Stored(_) | Progress::Refused(_));
        let over = progress.wait_for(is_over).await;
        match over.as_deref() {
            Ok(Progress::Stored(info)) => Ok(info.clone()),
            Ok(Progress::Refused(error)) => Err(again(error)),
            Ok(Progress::Unknown | Progress::Begun) | Err(_) => {
                Err(failed("finish an output", "nobody sends it any more"))
            }
        }
    }

    fn tell(&self, progress: Progress) {
        self.progress.send_replace(progress);
    }
}

/// The outputs of this run that are under way.
pub(crate) struct Uploads {
    pub(crate) volume: Arc<Volume>,
    holds: Arc<Holds>,
    parts: Parts,
    live: Mutex<HashMap<OutputId, Arc<Upload>>>,
    /// Cancelled when all are to end soon: then no bucket is waited for.
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Uploads {
    pub(crate) fn new(volume: Arc<Volume>, holds: Arc<Holds>, parts: Parts) -> Self {
        Self {
            volume,
            holds,
            parts,
            live: Mutex::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Names a new output; nobody hears of it before something is written.
    pub(crate) fn create(&self, owner: OutputOwner) -> Arc<Upload> {
        let upload = Arc::new(Upload {
            file: self.volume.output(owner),
            more: Notify::new(),
            hurry: Notify::new(),
            ended: AtomicBool::new(false),
            progress: watch::Sender::new(Progress::Unknown),
        });
        let id = upload.file.id().clone();
        self.live.lock().insert(id, Arc::clone(&upload));
        upload
    }

    /// Begins to send what is written.
    pub(crate) fn start(self: &Arc<Self>, upload: &Arc<Upload>) {
        let (uploads, upload) = (Arc::clone(self), Arc::clone(upload));
        self.holds
            .sends(upload.file.id(), &upload.file.owner().workspace, false);
        let task = async move {
            let outcome = uploads.send_all(&upload).await;
            if let Err(error) = &outcome {
                tracing::error!(%error, output = %upload.file.id(), "an output is not stored: its file stays at this worker");
            }
            uploads.forget(upload.file.id());
            uploads.holds.has_sent(upload.file.id());
            upload.tell(match outcome {
                Ok(info) => Progress::Stored(info),
                Err(error) => Progress::Refused(Arc::new(error)),
            });
        };
        self.tasks.spawn(task);
    }

    /// Forgets an output that is not under way any more.
    pub(crate) fn forget(&self, id: &OutputId) {
        self.live.lock().remove(id);
        self.volume.output_ended();
    }

    pub(crate) fn get(&self, id: &OutputId) -> Option<Arc<Upload>> {
        self.live.lock().get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Upload>> {
        self.live.lock().values().cloned().collect()
    }

    /// Ends what is under way, and waits until the gateways have it; nothing new may come.
    pub(crate) async fn drained(&self) {
        self.closing.cancel();
        for upload in self.all() {
            // A piece on its way may take its time.
            let _ = tokio::task::spawn_blocking(move || upload.end()).await;
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn send_all(&self, upload: &Arc<Upload>) -> Result<OutputInfo, StoreError> {
        let file = &upload.file;
        let hold = self.holds.of(&file.owner().workspace).await?;
        let holding = Some(wire::holding(&hold));
        let id = file.id().to_string();
        self.send(BeginOutputRequest {
            holding: holding.clone(),
            id: id.clone(),
            call: file.owner().call.to_string(),
            session: file.owner().session.to_string(),
            created_millis: file.created().millis(),
        })
        .await?;
        self.holds.sends(file.id(), &file.owner().workspace, true);
        upload.tell(Progress::Begun);
        let (mut sent, mut has_bucket) = (0, true);
        loop {
            // Asked for first: what was written before the end is seen below.
            let ended = upload.ended.load(Ordering::Acquire);
            let bytes = file.bytes();
            if has_bucket
                && let Some(start) =
                    parts::due(sent, bytes).filter(|_| !self.parts.rest() && !self.closing.is_cancelled())
            {
                match self.put(upload, &hold, start).await {
                    Ok(true) => {
                        sent = start + PART_BYTES;
                        continue;
                    }
                    Ok(false) => has_bucket = false,
                    // What is wrong with more than the bucket is met again below.
                    Err(error) => tracing::debug!(%error, output = %file.id(), start, "a part is appended"),
                }
            }
            if sent < bytes {
                let piece = piece(upload, sent).await?;
                let length = piece.len() as u64;
                self.send(AppendOutputRequest {
                    holding: holding.clone(),
                    id: id.clone(),
                    offset: sent,
                    data: piece,
                })
                .await?;
                sent += length;
                continue;
            }
            if ended {
                break;
            }
            upload.more.notified().await;
            // Commands write a line at a time.
            tokio::select! {
                () = sleep(GATHER) => {}
                () = upload.hurry.notified() => {}
            }
        }
        let lines = file.end().lines;
        let finish = FinishOutputRequest { holding, id, lines };
        let answer = self.send(finish).await?;
        wire::of_json("an output", &answer.info)
    }

    /// Puts a part where outputs are kept; false if there is no such place.
    async fn put(&self, upload: &Arc<Upload>, hold: &Hold, start: u64) -> Result<bool, StoreError> {
        let of_file = Arc::clone(upload);
        let read = blocking(move || of_file.file.read(start, PART_BYTES as usize));
        let part = (&wire::holding(hold), upload.file.id(), start);
        let put = self.parts.put(&self.holds, part, read);
        let stopped = &self.holds.gateways.stopped;
        let put = stopped.run_until_cancelled(self.closing.run_until_cancelled(put));
        let ends = || Err(StoreError::Unavailable("this run ends".to_owned()));
        put.await.flatten().unwrap_or_else(ends)
    }

    /// Sends until a gateway has answered, or until this run has to stop.
    async fn send<Q: Rpc>(&self, question: Q) -> Result<Q::Answer, StoreError> {
        let mut question = question;
        loop {
            match self.holds.change(question.clone()).await {
                Err(StoreError::Unavailable(why)) => {
                    let stopped = &self.holds.gateways.stopped;
                    if stopped.run_until_cancelled(sleep(PAUSE)).await.is_none() {
                        return Err(StoreError::Unavailable(why));
                    }
                    question.say_again();
                }
                other => return other,
            }
        }
    }
}

/// Reads what is to be appended from a place on.
async fn piece(upload: &Arc<Upload>, offset: u64) -> Result<Bytes, StoreError> {
    let upload = Arc::clone(upload);
    let read = move || upload.file.read(offset, parts::room(offset, MAX_PIECE_BYTES));
    let piece = blocking(read).await?;
    match piece.is_empty() {
        // Whoever can write to the folder may have cut it off.
        true => Err(failed(
            "send an output",
            "its file is shorter than what was written to it",
        )),
        false => Ok(piece),
    }
}

/// Does what blocks for a moment.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(failed("work with the files of this worker", error)))
}
