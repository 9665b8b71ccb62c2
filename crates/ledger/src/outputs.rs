//! Stored outputs: written to files here, kept by the gateways.
//!
//! *Invariant:* what [`OutputWriter::append`] has returned for is readable here at once, and at every gateway a moment later.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolgate_contract::cluster::{GetOutputRequest, ListOutputsRequest, ReadOutputRequest};
use toolgate_model::OutputId;
use toolgate_store::codec::failed;
use toolgate_store::{
    OutputFilter, OutputInfo, OutputOwner, OutputRetention, OutputWriter, Outputs, Page, PageRequest, StoreError,
};

use crate::store::LedgerStore;
use crate::uploads::{Upload, Uploads, blocking};
use crate::wire;

/// How long the end of an output waits until a gateway has all of it. What is late goes on behind that: the end of a call must neither
/// wait for it nor fail by it.
const FINISH_PATIENCE: Duration = Duration::from_secs(2);

/// How long whoever asks for the digest of an output waits for that.
const STORED_PATIENCE: Duration = Duration::from_secs(30);

/// How long a list waits for outputs that no gateway knows yet.
const BEGIN_PATIENCE: Duration = Duration::from_secs(2);

/// One read brings no more into memory, whatever is asked for.
const MAX_READ_BYTES: usize = 8 << 20;

struct Appender {
    uploads: Arc<Uploads>,
    upload: Arc<Upload>,
    path: String,
    /// A piece on its way: when its caller went away, the next one waits for it, so that pieces keep their order.
    in_flight: Option<JoinHandle<Result<(), StoreError>>>,
    started: bool,
    finished: bool,
}

impl Appender {
    async fn settle(&mut self) -> Result<(), StoreError> {
        let Some(handle) = self.in_flight.as_mut() else {
            return Ok(());
        };
        let joined = handle.await;
        self.in_flight = None;
        joined.unwrap_or_else(|error| Err(failed(format!("write to the output {}", self.path), error)))
    }

    async fn work(
        &mut self,
        work: impl FnOnce(&Upload) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        // What became of a piece whose caller went away is told to nobody.
        let _ = self.settle().await;
        let upload = Arc::clone(&self.upload);
        self.in_flight = Some(tokio::task::spawn_blocking(move || {
            let done = work(&upload);
            upload.more();
            done
        }));
        if !self.started {
            self.started = true;
            self.uploads.start(&self.upload);
        }
        self.settle().await
    }

    /// Deletes old files so that so many bytes have room; false if none could go.
    async fn make_room(&self, bytes: u64) -> bool {
        let uploads = Arc::clone(&self.uploads);
        let made = blocking(move || match uploads.volume.retention(bytes) {
            Some(keep) => sweep(&uploads, keep),
            None => Ok(0),
        });
        match made.await {
            Ok(0) => false,
            Ok(count) => {
                tracing::warn!(count, "files of outputs deleted, because there was no space left");
                true
            }
            Err(error) => {
                tracing::error!(%error, "old files of outputs could not be deleted");
                false
            }
        }
    }
}

fn sweep(uploads: &Uploads, keep: OutputRetention) -> Result<usize, StoreError> {
    uploads.volume.sweep_outputs(keep, |id| uploads.get(id).is_some())
}

#[async_trait]
impl OutputWriter for Appender {
    fn id(&self) -> &OutputId {
        self.upload.file.id()
    }

    fn path(&self) -> &str {
        &self.path
    }

    async fn append(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let piece = bytes.clone();
        match self.work(move |upload| upload.file.append(&piece)).await {
            Err(StoreError::Full(what)) => match self.make_room(bytes.len() as u64).await {
                true => self.work(move |upload| upload.file.append(&bytes)).await,
                false => Err(StoreError::Full(what)),
            },
            other => other,
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<OutputInfo, StoreError> {
        self.work(|upload| upload.file.begin()).await?;
        self.finished = true;
        self.upload.end();
        let mut info = match timeout(FINISH_PATIENCE, self.upload.stored()).await {
            Ok(stored) => stored?,
            Err(_) => self.upload.file.info(),
        };
        info.path.clone_from(&self.path);
        Ok(info)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if !self.started {
            self.uploads.forget(self.upload.file.id());
            return;
        }
        let upload = Arc::clone(&self.upload);
        match self.in_flight.take() {
            // A piece on its way may take its time.
            Some(piece) => drop(tokio::task::spawn_blocking(move || {
                let _ = tokio::runtime::Handle::current().block_on(piece);
                upload.end();
            })),
            None => upload.end(),
        }
    }
}

impl LedgerStore {
    /// Says of an output what is so here: where its file is, if this worker has it.
    fn here(&self, mut info: OutputInfo) -> OutputInfo {
        if let Some(path) = self.uploads.volume.find(&info.owner, &info.id) {
            info.path = path.display().to_string();
        }
        info
    }

    async fn output(&self, id: &OutputId, whole: bool) -> Result<Option<OutputInfo>, StoreError> {
        let question = GetOutputRequest {
            id: id.to_string(),
            whole,
            workspaces: self.holds.names(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        let info: Option<OutputInfo> = wire::of_optional("an output", &answer.info)?;
        Ok(info.map(|info| self.here(info)))
    }
}

#[async_trait]
impl Outputs for LedgerStore {
    async fn create_output(&self, owner: OutputOwner) -> Result<Box<dyn OutputWriter>, StoreError> {
        let upload = self.uploads.create(owner);
        Ok(Box::new(Appender {
            uploads: Arc::clone(&self.uploads),
            path: upload.file.path().display().to_string(),
            upload,
            in_flight: None,
            started: false,
            finished: false,
        }))
    }

    async fn look(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        match self.uploads.get(id) {
            Some(upload) => Ok(Some(upload.file.info())),
            None => self.output(id, false).await,
        }
    }

    async fn stat(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        match self.uploads.get(id) {
            Some(upload) if !upload.file.info().complete => Ok(Some(upload.file.info())),
            Some(upload) => {
                // The digest is counted where all of it is.
                let _ = timeout(STORED_PATIENCE, upload.stored()).await;
                self.output(id, true).await
            }
            None => self.output(id, true).await,
        }
    }

    async fn read(&self, id: &OutputId, offset: u64, max: usize) -> Result<Bytes, StoreError> {
        let max = max.min(MAX_READ_BYTES);
        if let Some(upload) = self.uploads.get(id) {
            return blocking(move || upload.file.read(offset, max)).await;
        }
        let question = ReadOutputRequest {
            id: id.to_string(),
            offset,
            max: u32::try_from(max).unwrap_or(u32::MAX),
            workspaces: self.holds.names(),
        };
        Ok(self.holds.gateways.ask(question).await?.data)
    }

    async fn list_outputs(&self, filter: &OutputFilter, page: &PageRequest) -> Result<Page<OutputInfo>, StoreError> {
        let begun = async {
            for upload in self.uploads.all() {
                if upload.file.bytes() > 0 {
                    upload.begun().await;
                }
            }
        };
        if timeout(BEGIN_PATIENCE, begun).await.is_err() {
            tracing::warn!("outputs are listed of which no gateway has heard of all");
        }
        let question = ListOutputsRequest {
            filter: wire::json("a filter", filter)?,
            workspaces: self.holds.among(&filter.workspaces),
            page: Some(wire::page(page)),
        };
        let answer = self.holds.gateways.ask(question).await?;
        let items: Vec<OutputInfo> = wire::of_json("outputs", &answer.outputs)?;
        let known = |info: OutputInfo| match self.uploads.get(&info.id) {
            Some(upload) => upload.file.info(),
            None => self.here(info),
        };
        Ok(Page {
            items: items.into_iter().map(known).collect(),
            next: Some(answer.next).filter(|next| !next.is_empty()),
        })
    }

    async fn delete(&self, id: &OutputId) -> Result<bool, StoreError> {
        if self.uploads.get(id).is_some() {
            return Err(StoreError::Conflict(format!("output {id} is being written")));
        }
        Err(failed(
            format!("delete output {id}"),
            "the gateways keep the outputs: ask one of them",
        ))
    }

    /// Deletes old files only: the gateways have what was written to them.
    async fn sweep_outputs(&self, keep: OutputRetention) -> Result<usize, StoreError> {
        let uploads = Arc::clone(&self.uploads);
        blocking(move || sweep(&uploads, keep)).await
    }
}
