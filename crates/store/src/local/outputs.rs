//! Outputs: a row in the database and a file in the spool folder each.
//!
//! *Invariant:* the file comes into being with the first append, its row is committed before that append returns, and an
//! output stays among the live ones until its completion is committed: at any moment one of the two answers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::task::JoinHandle;
use toolgate_model::{CallId, InstanceId, OutputId, SessionId, Timestamp};

use super::LocalStore;
use super::error::{Doing, failed, signed, unsigned};
use super::folders::{Folders, workspace_folder};
use super::instances::Instances;
use super::query::Query;
use super::readers::{Readers, blocking};
use super::space::{Kind, Space};
use super::spool::{self, Live, Names};
use super::sweep;
use super::writer::{Operation, Writer};
use crate::{
    OutputFilter, OutputInfo, OutputOwner, OutputRetention, OutputWriter, Outputs, Page, PageRequest, StoreError,
};

const PLANS: &str = "plans";

/// One read brings no more into memory, whatever is asked for.
/// So many rows are deleted in one transaction, so that the log has room for it.
const ROWS_AT_A_TIME: usize = 256;

const MAX_READ: usize = 16 * 1024 * 1024;

/// The spool folders of one run of the service.
pub(super) struct Spool {
    folders: Folders,
    pub(super) instance: InstanceId,
    pub(super) instances: Arc<Instances>,
    pub(super) space: Arc<Space>,
    names: Names,
    /// What this process writes, and what it completed but has not committed.
    live: Mutex<HashMap<OutputId, Arc<Live>>>,
}

impl Spool {
    pub(super) fn new(folders: Folders, instance: InstanceId, instances: Arc<Instances>, space: Arc<Space>) -> Self {
        Self {
            folders,
            instance,
            instances,
            space,
            names: Names::default(),
            live: Mutex::default(),
        }
    }

    fn all_live(&self) -> MutexGuard<'_, HashMap<OutputId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn live(&self, id: &OutputId) -> Option<Arc<Live>> {
        self.all_live().get(id).cloned()
    }

    fn forget_live(&self, id: &OutputId) {
        self.all_live().remove(id);
        self.space.output_ended();
    }

    pub(super) fn path(&self, owner: &OutputOwner, id: &OutputId) -> PathBuf {
        self.folders.of(&owner.workspace).join(id.as_str())
    }

    /// Makes the folder of a workspace's outputs, unless it is there.
    pub(super) fn make_folder(&self, workspace: &str) -> Result<PathBuf, StoreError> {
        self.folders.make(workspace)
    }

    /// Returns the folders that there are.
    pub(super) fn folders(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.folders.all()
    }

    /// Says whether a run that lives is still writing this output.
    pub(super) fn is_being_written(&self, stored: &Stored) -> bool {
        !stored.complete && (stored.instance == self.instance.as_str() || self.instances.is_alive(&stored.instance))
    }

    /// Says whether another run that lives is writing this output.
    fn is_written_elsewhere(&self, stored: &Stored) -> bool {
        !stored.complete && stored.instance != self.instance.as_str() && self.instances.is_alive(&stored.instance)
    }

    /// Completes a stored row by what its file says; nothing if the file is gone. Blocks.
    fn info(&self, stored: Stored) -> Result<Option<OutputInfo>, StoreError> {
        let path = self.path(&stored.owner, &stored.id);
        let length = spool::file_length(&path)?;
        Ok(length.map(|length| OutputInfo {
            id: stored.id,
            owner: stored.owner,
            path: path.display().to_string(),
            bytes: stored.bytes.unwrap_or(length),
            lines: stored.lines.unwrap_or(0),
            sha256: stored.sha256.unwrap_or_default(),
            complete: stored.complete,
            created: stored.created,
        }))
    }
}

/// A row of the table.
pub(super) struct Stored {
    pub(super) id: OutputId,
    pub(super) instance: String,
    pub(super) owner: OutputOwner,
    created: Timestamp,
    pub(super) complete: bool,
    bytes: Option<u64>,
    lines: Option<u64>,
    sha256: Option<String>,
}

const COLUMNS: &str = "number, id, instance, call, session, workspace, created, complete, bytes, lines, sha256";

impl Stored {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let text = |index: usize| row.get::<_, String>(index);
        let count = |index: usize| row.get::<_, Option<i64>>(index).map(|value| value.map(unsigned));
        Ok(Self {
            id: OutputId::new(text(1)?),
            instance: text(2)?,
            owner: OutputOwner {
                call: CallId::new(text(3)?),
                session: SessionId::new(text(4)?),
                workspace: text(5)?,
            },
            created: Timestamp(row.get(6)?),
            complete: row.get(7)?,
            bytes: count(8)?,
            lines: count(9)?,
            sha256: row.get(10)?,
        })
    }

    fn get(db: &Connection, id: &OutputId) -> Result<Option<Self>, StoreError> {
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM outputs WHERE id = ?"))
            .and_then(|mut statement| statement.query_row([id.as_str()], Self::read).optional())
            .doing(db, "read an output's row")
    }

    pub(super) fn all(db: &Connection) -> Result<Vec<Self>, StoreError> {
        Query::new(&format!("SELECT {COLUMNS} FROM outputs WHERE TRUE")).rows(db, "", usize::MAX, Self::read)
    }
}

fn begin(db: &Connection, live: &Live, instance: &InstanceId) -> Result<(), StoreError> {
    let OutputOwner {
        call,
        session,
        workspace,
    } = &live.owner;
    db.prepare_cached(
        "INSERT INTO outputs (id, instance, call, session, workspace, created) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO NOTHING",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            live.id.as_str(),
            instance.as_str(),
            call.as_str(),
            session.as_str(),
            workspace,
            live.created.millis(),
        ])
    })
    .map(drop)
    .doing(db, "store an output's row")
}

fn complete(db: &Connection, info: &OutputInfo) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE outputs SET complete = 1, bytes = ?, lines = ?, sha256 = ? WHERE id = ?")
        .and_then(|mut statement| {
            statement.execute(params![
                signed(info.bytes),
                signed(info.lines),
                info.sha256,
                info.id.as_str()
            ])
        })
        .map(drop)
        .doing(db, "complete an output's row")
}

/// Completes the rows of runs that died while they wrote. Called before this run writes anything, so a row of its own id
/// is of an earlier run, too. Lines and digest are left for the first who asks: the files may be large.
pub(super) fn recover(db: &Connection, spool: &Spool) -> Result<(), StoreError> {
    let open = Query::new(&format!("SELECT {COLUMNS} FROM outputs WHERE complete = 0"));
    for stored in open.rows(db, "", usize::MAX, Stored::read)? {
        if spool.is_written_elsewhere(&stored) {
            continue;
        }
        let length = spool::file_length(&spool.path(&stored.owner, &stored.id))?.unwrap_or(0);
        db.prepare_cached("UPDATE outputs SET complete = 1, bytes = ? WHERE id = ?")
            .and_then(|mut statement| statement.execute(params![signed(length), stored.id.as_str()]))
            .doing(db, "complete an output's row")?;
    }
    Ok(())
}

/// Returns the files that sessions outside git checkouts keep their plans in, with their workspaces.
fn plans(db: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    db.prepare_cached(
        "SELECT workspace, json_extract(value, '$.created') || '-' || json_extract(value, '$.slug') || '.md'
         FROM facts WHERE key = 'plan'",
    )
    .and_then(|mut statement| statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
    .doing(db, "list the plans of sessions")
}

/// Moves outputs and plans that an earlier version kept all in one folder to those of their workspaces. What a run of that version
/// still writes stays until a later start; what belongs to nobody stays for good.
pub(super) fn move_apart(db: &Connection, spool: &Spool, data_dir: &Path) -> Result<(), StoreError> {
    let Some(old) = Folders::shared(data_dir) else {
        return Ok(());
    };
    for (workspace, plan) in plans(db)? {
        let (from, to) = (data_dir.join(PLANS), workspace_folder(data_dir, &workspace).join(PLANS));
        super::folder(to.clone())?;
        spool::move_file(&from.join(&plan), &to.join(&plan))?;
    }
    for stored in Stored::all(db)? {
        if spool.is_written_elsewhere(&stored) {
            continue;
        }
        spool.make_folder(&stored.owner.workspace)?;
        spool::move_file(&old.join(stored.id.as_str()), &spool.path(&stored.owner, &stored.id))?;
    }
    Folders::drop_shared(&old);
    Ok(())
}

/// The end of an output that nobody finished, or a count that was made late.
struct Completion {
    spool: Arc<Spool>,
    id: OutputId,
    info: Option<OutputInfo>,
}

impl Operation for Completion {
    fn run(&mut self, db: &Connection) -> Result<(), StoreError> {
        if self.info.is_none() {
            self.info = self.spool.live(&self.id).map(|live| live.end());
        }
        self.info.as_ref().map_or(Ok(()), |info| complete(db, info))
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
        let row = writer.ask(move |db| begin(db, &live, &instance));
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
        self.work(Live::begin).await?;
        let info = self.live.end();
        let row = info.clone();
        match self.writer.ask(move |db| complete(db, &row)).await {
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
        self.writer.note(Completion {
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
        let space = Arc::clone(&self.spool.space);
        let live = Arc::new(Live::new(id.clone(), owner, path, created, space));
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
        let read = move |db: &Connection| Stored::get(db, &id)?.map_or(Ok(None), |stored| spool.info(stored));
        self.readers.read(read).await
    }

    async fn stat(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        match self.look(id).await? {
            Some(info) if info.complete && info.sha256.is_empty() => self.count(info).await.map(Some),
            other => Ok(other),
        }
    }

    async fn read(&self, id: &OutputId, offset: u64, max: usize) -> Result<Bytes, StoreError> {
        let max = max.min(MAX_READ);
        let missing = || StoreError::NotFound(format!("output {id}"));
        let read = match self.spool.live(id) {
            Some(live) if live.bytes() <= offset => Ok(Some(Vec::new())),
            Some(live) => blocking(move || spool::read_file(&live.path, offset, live.bytes(), max)).await,
            None => {
                let (id, spool) = (id.clone(), Arc::clone(&self.spool));
                let read = move |db: &Connection| match Stored::get(db, &id)? {
                    Some(stored) => read_stored(&spool.path(&stored.owner, &stored.id), &stored, offset, max),
                    None => Ok(None),
                };
                self.readers.read(read).await
            }
        };
        read?.map(Bytes::from).ok_or_else(missing)
    }

    async fn list_outputs(&self, filter: &OutputFilter, page: &PageRequest) -> Result<Page<OutputInfo>, StoreError> {
        let (filter, page, spool) = (filter.clone(), page.clone(), Arc::clone(&self.spool));
        let read = move |db: &Connection| {
            Query::new(&format!("SELECT {COLUMNS} FROM outputs WHERE TRUE"))
                .is("workspace", filter.workspace.as_deref())
                .one_of("workspace", filter.workspaces.iter().map(String::as_str))
                .is("session", filter.session.as_ref().map(|session| session.as_str()))
                .is("call", filter.call.as_ref().map(|call| call.as_str()))
                .page(db, &page, Stored::read, |stored| match spool.live(&stored.id) {
                    Some(live) => Ok(Some(live.info())),
                    None => spool.info(stored),
                })
        };
        let Page { items, next } = self.readers.read(read).await?;
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
        let deleted = self.writer.ask(move |db| delete_row(db, &id)).await?;
        let path = spool.path(&stored.owner, &stored.id);
        let remove = move || {
            let length = spool::file_length(&path)?;
            spool::remove_file(&path)?;
            spool.space.give_back(Kind::Output, length.unwrap_or(0));
            Ok(())
        };
        blocking(remove).await?;
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
            spool.space.recount();
            Ok(swept)
        };
        let sweep::Swept { rows, files } = self.readers.read(sweep).await?;
        for some in rows.chunks(ROWS_AT_A_TIME) {
            let some = some.to_vec();
            self.writer
                .ask(move |db| some.iter().try_for_each(|id| delete_row(db, id).map(drop)))
                .await?;
        }
        Ok(files)
    }

    /// Deletes old outputs so that `bytes` have room; false if none could go, or if that was tried a moment ago.
    async fn make_room(&self, bytes: u64) -> bool {
        let Some(keep) = self.spool.space.retention(bytes) else {
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
        (info.lines, info.sha256) = blocking(move || spool::count_file(&path)).await?;
        let (spool, id) = (Arc::clone(&self.spool), info.id.clone());
        self.writer.note(Completion {
            spool,
            id,
            info: Some(info.clone()),
        });
        // What was queued before this is stored by then, so that the next list has it; should that fail, it comes later.
        let _ = self.writer.ask(|_| Ok(())).await;
        Ok(info)
    }
}

fn read_stored(path: &Path, stored: &Stored, offset: u64, max: usize) -> Result<Option<Vec<u8>>, StoreError> {
    let end = match stored.bytes {
        Some(bytes) => Some(bytes),
        None => spool::file_length(path)?,
    };
    end.map_or(Ok(None), |end| spool::read_file(path, offset, end, max))
}

fn delete_row(db: &Connection, id: &OutputId) -> Result<bool, StoreError> {
    db.prepare_cached("DELETE FROM outputs WHERE id = ?")
        .and_then(|mut statement| statement.execute([id.as_str()]))
        .map(|rows| rows > 0)
        .doing(db, "delete an output's row")
}
