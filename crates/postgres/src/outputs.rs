//! Stored outputs: a row each; where its bytes are, `parts` knows.
//!
//! *Invariant:* an output is complete when its row says so, or when the run that wrote it is dead: nobody has to come and say it.
//! What an append returned for can be read by everybody, and is there once: a piece of which no answer came is looked for before
//! anything is written. No file has an output here, so its path is empty.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio_postgres::Row;
use toolgate_model::{CallId, OutputId, SessionId, Timestamp};
use toolgate_store::codec::{decode, encode, signed, unsigned};
use toolgate_store::output::{Lines, is_name};
use toolgate_store::{
    OutputFilter, OutputInfo, OutputOwner, OutputRetention, OutputWriter, Outputs, Page, PageRequest, StoreError,
};

use crate::connection::{Database, retrying};
use crate::error::is_unanswered;
use crate::fence::Held;
use crate::instances::is_dead;
use crate::notes::Note;
use crate::parts::{self, NOW};
use crate::query::Query;
use crate::store::{PostgresStore, Shared};
use crate::text::key;
use crate::values::{Values, values};

/// One read brings no more into memory, whatever is asked for.
const MAX_READ_BYTES: usize = 16 << 20;

/// What is read at once to count an output.
const COUNTED_BYTES: usize = 4 << 20;

/// Outputs that one statement deletes.
const OUTPUTS_PER_DELETE: i64 = 64;

/// The owner of an output as it is stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) call: CallId,
    pub(crate) session: SessionId,
    pub(crate) workspace: String,
}

/// The columns that [`info`] takes, with the number that pages go by; `silent` as in [`is_dead`].
pub(crate) fn columns(silent: &str) -> String {
    let dead = is_dead("instance", silent);
    format!(
        "number, id, origin, bytes, lines, sha256, complete OR {dead} AS is_complete,
         cut OR NOT complete AND {dead} AS is_cut, created"
    )
}

pub(crate) fn info(row: &Row) -> Result<OutputInfo, StoreError> {
    let Origin {
        call,
        session,
        workspace,
    } = decode("the owner of an output", row.get("origin"))?;
    Ok(OutputInfo {
        id: OutputId::new(row.get::<_, String>("id")),
        owner: OutputOwner {
            call,
            session,
            workspace,
        },
        path: String::new(),
        bytes: unsigned(row.get("bytes")),
        lines: row.get::<_, Option<i64>>("lines").map_or(0, unsigned),
        sha256: row.get::<_, Option<String>>("sha256").unwrap_or_default(),
        complete: row.get("is_complete"),
        cut: row.get("is_cut"),
        created: Timestamp(row.get("created")),
    })
}

impl Shared {
    async fn look_at(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        if !is_name(id.as_str()) {
            return Ok(None);
        }
        // Looked at before the database: what is stored meanwhile leaves here when the row has already been read.
        let live = self.notes.live.get(id);
        if let Some(live) = live.as_ref().filter(|live| !live.is_stored) {
            return Ok(Some(OutputInfo {
                id: id.clone(),
                owner: live.owner.clone(),
                path: String::new(),
                bytes: 0,
                lines: 0,
                sha256: String::new(),
                complete: false,
                cut: false,
                created: live.created,
            }));
        }
        let sql = format!("SELECT {} FROM outputs WHERE id = $1", columns("$2"));
        let silent = self.instances.silent();
        let row = self
            .db
            .row("look at an output", &sql, values![key(id.as_str()), silent])
            .await?;
        let stored = row.as_ref().map(info).transpose()?;
        Ok(stored.map(|info| match live.and_then(|live| live.ended) {
            Some(lines) if !info.complete => OutputInfo {
                complete: true,
                lines,
                ..info
            },
            Some(_) | None => self.notes.live.complete(info),
        }))
    }

    pub(crate) async fn read_output(&self, id: &OutputId, offset: u64, max: usize) -> Result<Bytes, StoreError> {
        let unknown = || StoreError::NotFound(format!("output {id}"));
        if !is_name(id.as_str()) {
            return Err(unknown());
        }
        if self.notes.live.get(id).is_some_and(|live| !live.is_stored) {
            return Ok(Bytes::new());
        }
        let bucket = self.objects.as_ref().map(|objects| &objects.bucket);
        let read = parts::read(&self.db, bucket, id, offset, max.min(MAX_READ_BYTES)).await?;
        read.map(Bytes::from).ok_or_else(unknown)
    }

    /// Adds lines and digest to what is known of a complete output, for this time and later ones.
    async fn count(&self, mut info: OutputInfo) -> Result<OutputInfo, StoreError> {
        let (mut lines, mut digest, mut offset) = (Lines::default(), Sha256::new(), 0);
        loop {
            let bytes = self.read_output(&info.id, offset, COUNTED_BYTES).await?;
            if bytes.is_empty() {
                break;
            }
            lines.add(&bytes);
            digest.update(&bytes);
            offset += bytes.len() as u64;
        }
        (info.lines, info.sha256) = (lines.count(), hex::encode(digest.finalize()));
        let sql =
            "UPDATE outputs SET complete = TRUE, cut = cut OR $5, lines = $2, sha256 = $3 WHERE id = $1 AND bytes = $4";
        let id = key(info.id.as_str());
        // Not if there is more by now: a run that counted as dead may come back.
        self.db
            .rows(
                "complete an output",
                sql,
                values![id, signed(info.lines), info.sha256, signed(offset), info.cut],
            )
            .await?;
        Ok(info)
    }
}

/// Runs a statement that deletes some outputs and returns how many went; none if another one is at it. Two at once would each
/// delete what is too much, and so twice that. The lock is a statement before it, so that it sees what the other one has done.
async fn delete_some(
    db: &Database,
    what: &'static str,
    sql: &str,
    values: Values<'_>,
) -> Result<Option<usize>, StoreError> {
    retrying(|| async {
        let mut session = db.begin(what).await?;
        let gone = async {
            let row = session
                .row("SELECT pg_try_advisory_xact_lock(74, 3)", values![])
                .await?;
            match row.is_some_and(|row| row.get(0)) {
                true => session.rows(sql, values).await.map(|rows| Some(rows.len())),
                false => Ok(None),
            }
        }
        .await;
        session.end(gone).await
    })
    .await
}

struct Appender {
    shared: Arc<Shared>,
    id: OutputId,
    owner: OutputOwner,
    created: Timestamp,
    /// Where it ends, as far as that is known.
    end: u64,
    lines: Lines,
    is_stored: bool,
    /// The last piece if it is not known what became of it: its caller went away, or there was no answer.
    unsure: Option<Bytes>,
    is_finished: bool,
}

impl Appender {
    /// Makes the row, unless it is there.
    async fn begin(&mut self) -> Result<(), StoreError> {
        if self.is_stored {
            return Ok(());
        }
        let origin = Origin {
            call: self.owner.call.clone(),
            session: self.owner.session.clone(),
            workspace: self.owner.workspace.clone(),
        };
        let sql = format!(
            "INSERT INTO outputs (id, instance, call, session, workspace, origin, created, written)
             VALUES ($1, $2, $3, $4, $5, $6, $7, {NOW}) ON CONFLICT (id) DO NOTHING"
        );
        // Whatever comes of it, readers find out by the database from now on.
        self.shared.notes.live.change(&self.id, |live| live.is_stored = true);
        self.shared
            .db
            .rows(
                "begin an output",
                &sql,
                values![
                    key(self.id.as_str()),
                    self.shared.instances.id,
                    key(origin.call.as_str()),
                    key(origin.session.as_str()),
                    key(&origin.workspace),
                    encode("the owner of an output", &origin)?,
                    self.created.millis()
                ],
            )
            .await?;
        self.is_stored = true;
        Ok(())
    }

    /// Looks what became of a piece of which that is not known; returns it if it is there. It stays unsure else: only
    /// once something else was written, one that is still on its way finds another end than it expects.
    async fn find_out(&mut self) -> Result<Option<Bytes>, StoreError> {
        let Some(piece) = &self.unsure else {
            return Ok(None);
        };
        let sql = "SELECT bytes FROM outputs WHERE id = $1";
        let id = key(self.id.as_str());
        let row = self
            .shared
            .db
            .row("look where an output ends", sql, values![id])
            .await?;
        let row = row.ok_or_else(|| StoreError::NotFound(format!("output {}", self.id)))?;
        let end = unsigned(row.get(0));
        let grown = end.saturating_sub(self.end);
        let is_there = grown == piece.len() as u64;
        if grown > 0 && !is_there {
            return Err(StoreError::Conflict(format!(
                "another one writes to output {}",
                self.id
            )));
        }
        if !is_there {
            return Ok(None);
        }
        self.end = end;
        self.lines.add(piece);
        Ok(self.unsure.take())
    }
}

#[async_trait]
impl OutputWriter for Appender {
    fn id(&self) -> &OutputId {
        &self.id
    }

    fn path(&self) -> &str {
        ""
    }

    async fn append(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.begin().await?;
        match self.find_out().await? {
            Some(piece) if piece == bytes => return Ok(()),
            Some(_) => {
                let why = format!("the piece before is in output {} after all", self.id);
                return Err(StoreError::Conflict(why));
            }
            None => {}
        }
        let before = self.unsure.replace(bytes.clone());
        let from = self.end;
        let held = Held::of_run(&self.shared.instances.id, None);
        let appended = parts::append(&self.shared.db, &held, &self.id, from, &bytes).await;
        match appended.and_then(|done| done.then_some(()).ok_or_else(|| parts::ends_elsewhere(&self.id, from))) {
            // Looked for at once: whoever is told of a failure may go on with another piece.
            Err(error) if is_unanswered(&error) => match self.find_out().await? {
                Some(_) => return Ok(()),
                None => return Err(error),
            },
            Err(error) => {
                // The database says that it is not there; of the one before it may be known next time.
                self.unsure = before;
                return Err(error);
            }
            Ok(()) => {}
        }
        self.unsure = None;
        self.end = from + bytes.len() as u64;
        self.lines.add(&bytes);
        if let Some(objects) = &self.shared.objects {
            objects.moves.grew(&self.id, from, self.end).await;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<OutputInfo, StoreError> {
        self.begin().await?;
        let lines = self.unsure.is_none().then(|| self.lines.count());
        let silent = self.shared.instances.silent();
        let sql = format!(
            "UPDATE outputs SET complete = TRUE, cut = cut AND complete, lines = coalesce(lines, $2) WHERE id = $1 RETURNING {}",
            columns("$3")
        );
        let (id, lines) = (key(self.id.as_str()), lines.map(signed));
        let row = self
            .shared
            .db
            .row("complete an output", &sql, values![id, lines, silent])
            .await?;
        let row = row.ok_or_else(|| StoreError::NotFound(format!("output {}", self.id)))?;
        self.shared.notes.live.remove(&self.id);
        self.is_finished = true;
        let info = info(&row)?;
        if let Some(objects) = &self.shared.objects {
            objects.moves.ended(&self.id, info.bytes);
        }
        Ok(info)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let notes = &self.shared.notes;
        if !notes.live.get(&self.id).is_some_and(|live| live.is_stored) {
            // Nothing is kept of an output that nobody wrote.
            notes.live.remove(&self.id);
            return;
        }
        let lines = self.unsure.is_none().then(|| self.lines.count());
        notes
            .live
            .change(&self.id, |live| live.ended = Some(lines.unwrap_or(0)));
        notes.add(Note::Ended {
            output: self.id.clone(),
            lines,
        });
    }
}

impl PostgresStore {
    /// Deletes the objects of outputs that are gone, and returns how many those were.
    async fn delete_objects(&self, gone: usize) -> Result<usize, StoreError> {
        if let Some(objects) = &self.shared.objects {
            // The outputs are gone whatever becomes of it.
            if let Err(error) = objects.delete_due(&self.shared.db).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "objects of old outputs stay in the bucket for now");
            }
        }
        Ok(gone)
    }
}

#[async_trait]
impl Outputs for PostgresStore {
    async fn create_output(&self, owner: OutputOwner) -> Result<Box<dyn OutputWriter>, StoreError> {
        let created = Timestamp::now();
        let id = self.shared.names.next(created);
        self.shared.notes.live.add(id.clone(), owner.clone(), created);
        Ok(Box::new(Appender {
            shared: Arc::clone(&self.shared),
            id,
            owner,
            created,
            end: 0,
            lines: Lines::default(),
            is_stored: false,
            unsure: None,
            is_finished: false,
        }))
    }

    async fn look(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        self.shared.look_at(id).await
    }

    async fn stat(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        match self.shared.look_at(id).await? {
            Some(info) if info.complete && info.sha256.is_empty() => self.shared.count(info).await.map(Some),
            other => Ok(other),
        }
    }

    async fn read(&self, id: &OutputId, offset: u64, max: usize) -> Result<Bytes, StoreError> {
        self.shared.read_output(id, offset, max).await
    }

    async fn list_outputs(&self, filter: &OutputFilter, page: &PageRequest) -> Result<Page<OutputInfo>, StoreError> {
        let select = |silent: &str| format!("SELECT {} FROM outputs WHERE TRUE", columns(silent));
        Query::about(self.shared.instances.silent(), select)
            .within("workspace", &filter.workspaces)
            .is("session", filter.session.as_ref().map(|session| session.as_str()))
            .is("call", filter.call.as_ref().map(|call| call.as_str()))
            .page(&self.shared.db, "list outputs", page, "0", |row| {
                info(row).map(|info| self.shared.notes.live.complete(info))
            })
            .await
    }

    async fn delete(&self, id: &OutputId) -> Result<bool, StoreError> {
        let busy = || StoreError::Conflict(format!("output {id} is being written"));
        if !is_name(id.as_str()) {
            return Ok(false);
        }
        let ended = match self.shared.notes.live.get(id) {
            Some(live) if live.ended.is_none() => return Err(busy()),
            live => live.is_some(),
        };
        let sql = format!(
            "DELETE FROM outputs WHERE id = $1 AND (complete OR $2 OR {}) RETURNING TRUE",
            is_dead("instance", "$3")
        );
        let (what, silent) = ("delete an output", self.shared.instances.silent());
        if self
            .shared
            .db
            .row(what, &sql, values![key(id.as_str()), ended, silent])
            .await?
            .is_some()
        {
            if let Some(objects) = &self.shared.objects {
                objects.moves.are_due();
            }
            return Ok(true);
        }
        match self.shared.look_at(id).await? {
            Some(_) => Err(busy()),
            None => Ok(false),
        }
    }

    async fn sweep_outputs(&self, keep: OutputRetention) -> Result<usize, StoreError> {
        self.shared.flush().await?;
        let (db, what) = (&self.shared.db, "delete old outputs");
        let idle = format!("(complete OR {})", is_dead("instance", "$1"));
        let silent = self.shared.instances.silent();
        let by_age = format!(
            "DELETE FROM outputs WHERE number IN (SELECT number FROM outputs WHERE written < $2 AND {idle}
                 ORDER BY written LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING TRUE"
        );
        let (before, mut gone) = (keep.before.millis(), 0);
        while let Some(some) = delete_some(db, what, &by_age, values![silent, before, OUTPUTS_PER_DELETE]).await? {
            gone += some;
            if (some as i64) < OUTPUTS_PER_DELETE {
                break;
            }
        }
        // The share of an output is what its workspace has from it on. So whoever has most gives first, and no workspace can have
        // those of the others deleted by writing much.
        let by_size = format!(
            "WITH shares AS (SELECT number, sum(bytes) OVER (PARTITION BY workspace ORDER BY written DESC, id DESC) AS share
                 FROM outputs),
             first AS (SELECT outputs.number, bytes, share, written, id FROM outputs JOIN shares USING (number) WHERE {idle}
                 ORDER BY share DESC, written, id LIMIT $2 FOR UPDATE OF outputs SKIP LOCKED),
             total AS (SELECT coalesce(sum(bytes), 0) AS bytes FROM outputs),
             chosen AS (SELECT number, sum(bytes) OVER (ORDER BY share DESC, written, id) - bytes AS before FROM first)
             DELETE FROM outputs USING chosen, total
             WHERE outputs.number = chosen.number AND total.bytes - chosen.before > $3 RETURNING TRUE"
        );
        let most = signed(keep.max_total_bytes);
        let sql = "SELECT coalesce(sum(bytes), 0) <= $1 FROM outputs";
        if db.row(what, sql, values![most]).await?.is_some_and(|row| row.get(0)) {
            return self.delete_objects(gone).await;
        }
        while let Some(some) = delete_some(db, what, &by_size, values![silent, OUTPUTS_PER_DELETE, most]).await? {
            gone += some;
            if (some as i64) < OUTPUTS_PER_DELETE {
                break;
            }
        }
        self.delete_objects(gone).await
    }
}
