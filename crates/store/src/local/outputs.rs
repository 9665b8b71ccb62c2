//! Outputs: a row in the database and a file in the spool folder each.
//!
//! *Invariant:* the file comes into being with the first append, its row is committed before that append returns, and an
//! output stays among the live ones until its completion is committed: at any moment one of the two answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::Connection;
use tokio::task::JoinHandle;
use toolgate_model::{OutputId, Timestamp};

use super::error::failed;
use super::output_file::{self, Live};
use super::output_rows::{self, COLUMNS, Stored};
use super::query::Query;
use super::quota::Kind;
use super::readers::{Readers, blocking};
use super::spool::Spool;
use super::store::LocalStore;
use super::sweep;
use super::writer::{Operation, Writer};
use crate::outbox::Outbox;
use crate::{
    OutputFilter, OutputInfo, OutputOwner, OutputRetention, OutputWriter, Outputs, Page, PageRequest, StoreError,
};

/// So many rows are deleted in one transaction, so that the log has room for it.
const ROWS_PER_DELETE: usize = 256;

/// One read brings no more into memory, whatever is asked for.
const MAX_READ_BYTES: usize = 16 * 1024 * 1024;

/// The end of an output that nobody finished, or a count that was made late.
struct Completion {
    spool: Arc<Spool>,
    id: OutputId,
    info: Option<OutputInfo>,
}

impl Operation for Completion {
    fn run(&mut self, db: &Connection, _: &mut Outbox) -> Result<(), StoreError> {
        if let Some(live) = self.spool.live(&self.id) {
            self.info.get_or_insert_with(|| live.end());
            self.spool.secure(&live)?;
        }
        self.info
            .as_ref()
            .map_or(Ok(()), |info| output_rows::complete(db, info))
    }

    fn end(self: Box<Self>, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            tracing::warn!(%error, output = %self.id, "an output stays incomplete until the next start");
        }
        self.spool.forget_live(&self.id);
    }

    fn unattended(&self) -> bool {
        true
    }
}

struct Appender {
    spool: Arc<Spool>,
    cleaner: Cleaner,
    writer: Arc<Writer>,
    live: Arc<Live>,
    path: String,
    /// A piece on its way: when its caller went away, the next one waits for it, so that pieces keep their order.
    in_flight: Option<JoinHandle<Result<(), StoreError>>>,
    begun: bool,
    stored: bool,
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
        work: impl FnOnce(&Live) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        // What became of a piece whose caller went away is told to nobody.
        let _ = self.settle().await;
        let live = Arc::clone(&self.live);
        self.begun = true;
        self.in_flight = Some(tokio::task::spawn_blocking(move || work(&live)));
        if self.stored {
            return self.settle().await;
        }
        let (live, instance) = (Arc::clone(&self.live), self.spool.instance.clone());
        let writer = Arc::clone(&self.writer);
        let row = writer.write(move |db| output_rows::begin(db, &live, &instance));
        let (row, written) = tokio::join!(row, self.settle());
        self.stored = row.is_ok();
        written.and(row)
    }
}

#[async_trait]
impl OutputWriter for Appender {
    fn id(&self) -> &OutputId {
        &self.live.id
    }

    fn path(&self) -> &str {
        &self.path
    }

    async fn append(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let piece = bytes.clone();
        match self.work(move |live| live.append(&piece)).await {
            Err(StoreError::Full(what)) => {
                if !self.cleaner.make_room(bytes.len() as u64).await {
                    return Err(StoreError::Full(what));
                }
                self.work(move |live| live.append(&bytes)).await
            }
            other => other,
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<OutputInfo, StoreError> {
        let spool = Arc::clone(&self.spool);
        self.work(move |live| {
            live.begin()?;
            spool.secure(live)
        })
        .await?;
        let info = self.live.end();
        let row = info.clone();
        match self.writer.write(move |db| output_rows::complete(db, &row)).await {
            Ok(()) => {}
            // The file is whole and this process knows it; the drop below has the row completed when there is space.
            Err(StoreError::Full(_)) => return Ok(info),
            Err(error) => return Err(error),
        }
        self.spool.forget_live(&self.live.id);
        self.finished = true;
        Ok(info)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if !self.begun {
            self.spool.forget_live(&self.live.id);
            return;
        }
        // A piece on its way may take its time; the writer thread waits for it then.
        let info = self.in_flight.is_none().then(|| self.live.end());
        self.writer.enqueue(Completion {
            spool: Arc::clone(&self.spool),
            id: self.live.id.clone(),
            info,
        });
    }
}

#[async_trait]
impl Outputs for LocalStore {
    async fn create_output(&self, owner: OutputOwner) -> Result<Box<dyn OutputWriter>, StoreError> {
        let created = Timestamp::now();
        let id = self.spool.names.next(created);
        let path = self.spool.path(&owner, &id);
        let shown = path.display().to_string();
        let quota = Arc::clone(&self.spool.quota);
        let live = Arc::new(Live::new(id.clone(), owner, path, created, quota));
        self.spool.all_live().insert(id, Arc::clone(&live));
        Ok(Box::new(Appender {
            spool: Arc::clone(&self.spool),
            cleaner: self.cleaner(),
            writer: Arc::clone(&self.writer),
            live,
            path: shown,
            in_flight: None,
            begun: false,
            stored: false,
            finished: false,
        }))
    }

    async fn look(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        if let Some(live) = self.spool.live(id) {
            return Ok(Some(live.info()));
        }
        let (id, spool) = (id.clone(), Arc::clone(&self.spool));
        self.readers
            .read(move |db| Stored::get(db, &id)?.map_or(Ok(None), |stored| spool.info(stored)))
            .await
    }

    async fn stat(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        match self.look(id).await? {
            Some(info) if info.complete && info.sha256.is_empty() => self.count(info).await.map(Some),
            other => Ok(other),
        }
    }

    async fn read(&self, id: &OutputId, offset: u64, max: usize) -> Result<Bytes, StoreError> {
        let max = max.min(MAX_READ_BYTES);
        let read = match self.spool.live(id) {
            Some(live) if live.bytes() <= offset => Ok(Some(Vec::new())),
            Some(live) => blocking(move || output_file::read_file(&live.path, offset, live.bytes(), max)).await,
            None => {
                let (id, spool) = (id.clone(), Arc::clone(&self.spool));
                self.readers
                    .read(move |db| match Stored::get(db, &id)? {
                        Some(stored) => read_stored(&spool.path(&stored.owner, &stored.id), &stored, offset, max),
                        None => Ok(None),
                    })
                    .await
            }
        };
        read?
            .map(Bytes::from)
            .ok_or_else(|| StoreError::NotFound(format!("output {id}")))
    }

    async fn list_outputs(&self, filter: &OutputFilter, page: &PageRequest) -> Result<Page<OutputInfo>, StoreError> {
        let (filter, page, spool) = (filter.clone(), page.clone(), Arc::clone(&self.spool));
        let Page { items, next } = self
            .readers
            .read(move |db| {
                Query::new(&format!("SELECT {COLUMNS} FROM outputs WHERE TRUE"))
                    .within("workspace", &filter.workspaces)
                    .is("session", filter.session.as_ref().map(|session| session.as_str()))
                    .is("call", filter.call.as_ref().map(|call| call.as_str()))
                    .page(db, &page, Stored::read, |stored| match spool.live(&stored.id) {
                        Some(live) => Ok(Some(live.info())),
                        None => spool.info(stored),
                    })
            })
            .await?;
        let items = items.into_iter().flatten().collect();
        Ok(Page { items, next })
    }

    async fn delete(&self, id: &OutputId) -> Result<bool, StoreError> {
        let busy = || StoreError::Conflict(format!("output {id} is being written"));
        if self.spool.live(id).is_some() {
            return Err(busy());
        }
        let (wanted, spool) = (id.clone(), Arc::clone(&self.spool));
        let stored = self.readers.read(move |db| Stored::get(db, &wanted)).await?;
        let Some(stored) = stored else { return Ok(false) };
        if spool.is_being_written(&stored) {
            return Err(busy());
        }
        let id = id.clone();
        let deleted = self.writer.write(move |db| output_rows::delete(db, &id)).await?;
        let path = spool.path(&stored.owner, &stored.id);
        blocking(move || {
            let length = output_file::file_length(&path)?;
            output_file::remove_file(&path)?;
            spool.quota.give_back(Kind::Output, length.unwrap_or(0));
            Ok(())
        })
        .await?;
        Ok(deleted)
    }

    async fn sweep_outputs(&self, keep: OutputRetention) -> Result<usize, StoreError> {
        self.cleaner().clean(keep).await
    }
}

/// Deletes outputs, and with them their rows.
struct Cleaner {
    spool: Arc<Spool>,
    readers: Arc<Readers>,
    writer: Arc<Writer>,
}

impl Cleaner {
    async fn clean(&self, keep: OutputRetention) -> Result<usize, StoreError> {
        let spool = Arc::clone(&self.spool);
        let sweep = move |db: &Connection| {
            let swept = sweep::sweep(&spool, &Stored::all(db)?, keep)?;
            spool.quota.recount();
            Ok(swept)
        };
        let sweep::Swept { rows, files } = self.readers.read(sweep).await?;
        for some in rows.chunks(ROWS_PER_DELETE) {
            let some = some.to_vec();
            self.writer
                .write(move |db| some.iter().try_for_each(|id| output_rows::delete(db, id).map(drop)))
                .await?;
        }
        Ok(files)
    }

    /// Deletes old outputs so that `bytes` have room; false if none could go, or if that was tried a moment ago.
    async fn make_room(&self, bytes: u64) -> bool {
        let Some(keep) = self.spool.quota.retention(bytes) else {
            return false;
        };
        match self.clean(keep).await {
            Ok(0) => false,
            Ok(count) => {
                tracing::warn!(count, "outputs deleted, because there was no space left");
                true
            }
            Err(error) => {
                // A row that cannot be deleted now is deleted by the next clean-up, which finds no file for it.
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "old outputs could not be deleted"
                );
                false
            }
        }
    }
}

impl LocalStore {
    fn cleaner(&self) -> Cleaner {
        Cleaner {
            spool: Arc::clone(&self.spool),
            readers: Arc::clone(&self.readers),
            writer: Arc::clone(&self.writer),
        }
    }

    /// Deletes old outputs so that `bytes` have room; false if none could go.
    pub(super) async fn make_room(&self, bytes: u64) -> bool {
        self.cleaner().make_room(bytes).await
    }

    /// Adds lines and digest to what is known of a complete output, for this time and later ones.
    async fn count(&self, mut info: OutputInfo) -> Result<OutputInfo, StoreError> {
        let path = PathBuf::from(&info.path);
        (info.lines, info.sha256) = blocking(move || output_file::count_file(&path)).await?;
        let (spool, id) = (Arc::clone(&self.spool), info.id.clone());
        self.writer.enqueue(Completion {
            spool,
            id,
            info: Some(info.clone()),
        });
        // What was queued before this is stored by then, so that the next list has it; should that fail, it comes later.
        let _ = self.writer.write(|_| Ok(())).await;
        Ok(info)
    }
}

fn read_stored(path: &Path, stored: &Stored, offset: u64, max: usize) -> Result<Option<Vec<u8>>, StoreError> {
    let end = match stored.bytes {
        Some(bytes) => Some(bytes),
        None => output_file::file_length(path)?,
    };
    end.map_or(Ok(None), |end| output_file::read_file(path, offset, end, max))
}
