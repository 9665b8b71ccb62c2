//! All that a data directory has, for whoever takes it elsewhere: table by table, some rows at a time.
//!
//! *Invariant:* the data directory is claimed for as long as it is read, no run of the service lives in it, and everything is read in one
//! snapshot. Nothing is changed. However long the history is, no more than [`BATCH_BYTES`] and one row of it are in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rusqlite::{Connection, Params, Row, params};
use serde::Serialize;
use toolgate_model::{CallId, CallRecord, FileChange, OutputId, Prompt, SessionId, Timestamp};

use super::claim::{Claim, ClaimError};
use super::error::{Doing, decode, failed, io, signed, unsigned};
use super::folders::Folders;
use super::follower::end_of_journal;
use super::instances::Instances;
use super::packed::{JSON, Json};
use super::{changes, output_file, schema, sequencer};
use crate::{AuditEnd, OutputOwner, StoreError};

/// What is read at once.
const BATCH_BYTES: usize = 4 << 20;

/// Rows that are read at once.
const BATCH_ROWS: usize = 1_000;

/// Events of one call that are handed out as one.
const EVENTS_PER_GROUP: usize = 64;

/// How much there is of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls.
    pub calls: u64,
    /// Events of calls.
    pub events: u64,
    /// Changes of files by calls.
    pub changes: u64,
    /// Prompts, open and ended.
    pub prompts: u64,
    /// Grants that outlast a run.
    pub grants: u64,
    /// Facts of sessions.
    pub facts: u64,
    /// Stored outputs.
    pub outputs: u64,
    /// Events of the journal.
    pub journal: u64,
    /// Records of the audit.
    pub audit: u64,
}

/// A call.
pub struct ExportedCall {
    /// Calls are numbered in the order of their admission.
    pub number: i64,
    /// Its record.
    pub record: CallRecord,
}

/// Events of a call that follow each other.
pub struct ExportedEvents {
    /// The number of the call.
    pub call: i64,
    /// When the call was admitted.
    pub admitted: Timestamp,
    /// The number of the first event.
    pub first: i64,
    /// The number of the last one.
    pub last: i64,
    /// Whether an end is among them that is made from the record; a null stands for it.
    pub ends: bool,
    /// A JSON array.
    pub json: String,
}

/// What a call changed in a file.
pub struct ExportedChange {
    /// Its number.
    pub number: i64,
    /// The number of the call.
    pub call: i64,
    /// When the call was admitted.
    pub admitted: Timestamp,
    /// What.
    pub change: FileChange,
}

/// A prompt.
pub struct ExportedPrompt {
    /// Prompts are numbered in the order of their arrival.
    pub number: i64,
    /// The prompt.
    pub prompt: Prompt,
    /// The prompt as it is stored.
    pub json: String,
    /// What is known of whoever asks.
    pub asker: Option<String>,
    /// Counts its changes.
    pub revision: i64,
}

/// A grant that outlasts the run that made it.
pub struct ExportedGrant {
    /// Grants are numbered in the order in which they were made.
    pub number: i64,
    /// Its id.
    pub id: String,
    /// The grant as it is stored.
    pub content: String,
}

/// A fact of a session.
#[derive(Clone, Default)]
pub struct ExportedFact {
    /// The workspace.
    pub workspace: String,
    /// The session.
    pub session: String,
    /// What it is called.
    pub name: String,
    /// Its JSON.
    pub value: String,
}

/// An event of the journal.
pub struct ExportedEvent {
    /// Its number.
    pub number: i64,
    /// When, in milliseconds.
    pub moment: i64,
    /// Its JSON.
    pub event: String,
}

/// A record of the audit.
pub struct ExportedRecord {
    /// Its number.
    pub sequence: i64,
    /// When it was made, in milliseconds.
    pub moment: i64,
    /// Its hash.
    pub hash: String,
    /// Its line.
    pub record: String,
}

/// A stored output.
pub struct ExportedOutput {
    /// Outputs are numbered in the order of their making.
    pub number: i64,
    /// Its id.
    pub id: OutputId,
    /// The run that wrote it.
    pub instance: String,
    /// Whose it is.
    pub owner: OutputOwner,
    /// When it was begun.
    pub created: Timestamp,
    /// When it last grew.
    pub written: Timestamp,
    /// How long its file is; none if that is gone.
    pub bytes: Option<u64>,
    path: PathBuf,
}

/// A data directory that is read as a whole.
pub struct Export {
    db: Connection,
    folders: Folders,
    end: AuditEnd,
    journal: u64,
    _claim: Claim,
}

impl Export {
    /// Claims a data directory, and begins to read it.
    ///
    /// # Errors
    /// A service has it, or another run lives in it; it is none; or another release has written it.
    pub fn open(data_dir: &Path) -> Result<Self, ClaimError> {
        let what = || format!("read the data directory {}", data_dir.display());
        let database = data_dir.join("toolgate.db");
        // Before it is claimed, which would make it.
        if !database.is_file() {
            return Err(failed(what(), "it has no toolgate.db: is it the data_dir of a service?").into());
        }
        let claim = Claim::take(data_dir)?;
        let data_dir = fs::canonicalize(data_dir).map_err(|error| io("find", data_dir, error))?;
        let instances = Instances::new(data_dir.join("instances"));
        if instances.has_living() {
            let problem = "another process of Toolgate works in it: end it first";
            return Err(failed(what(), problem).into());
        }
        let db = schema::open_reader(&database)?;
        schema::expect_newest(&db, &database)?;
        // Held as long as the connection: the snapshot of all that follows.
        db.execute_batch("BEGIN").doing(&db, "begin to read")?;
        let (end, journal) = (sequencer::existing_end(&db)?, end_of_journal(&db)?);
        Ok(Self {
            db,
            folders: Folders::new(data_dir),
            end,
            journal,
            _claim: claim,
        })
    }

    /// Returns the end of the audit.
    pub fn audit_end(&self) -> &AuditEnd {
        &self.end
    }

    /// Returns how many days there are on which calls were admitted.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn days(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(DISTINCT created / 86400000) FROM calls";
        let count = self.db.query_row(sql, [], |row| row.get(0));
        count.map(unsigned).doing(&self.db, "count the days with calls")
    }

    /// Returns the number of the last event that was ever in the journal.
    pub fn journal_end(&self) -> u64 {
        self.journal
    }

    /// Counts what there is.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn counts(&self) -> Result<Counts, StoreError> {
        let count = |from: &str| {
            let sql = format!("SELECT count(*) FROM {from}");
            let count = self.db.query_row(&sql, [], |row| row.get(0));
            count.map(unsigned).doing(&self.db, "count what there is")
        };
        Ok(Counts {
            calls: count("calls")?,
            events: count("events")?,
            changes: count("changes")?,
            prompts: count("prompts")?,
            grants: count("grants WHERE owner = ''")?,
            facts: count("facts")?,
            outputs: count("outputs")?,
            journal: count("journal")?,
            audit: count("audit")?,
        })
    }

    /// Returns the records of calls that have not ended.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn unfinished(&self) -> Result<Vec<CallRecord>, StoreError> {
        let sql = format!("SELECT {JSON} FROM calls WHERE ended IS NULL ORDER BY number");
        let what = "read what has not ended";
        let mut statement = self.db.prepare(&sql).doing(&self.db, what)?;
        let jsons = statement.query_map([], |row| row.get::<_, Json>(0));
        let jsons = jsons.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        let jsons = jsons.doing(&self.db, what)?;
        jsons.iter().map(|json| decode("a call", &json.0)).collect()
    }

    /// Reads rows until they are enough; each is read with what it weighs.
    fn some<T>(
        &self,
        sql: &str,
        after: impl Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<(T, usize)>,
    ) -> Result<Vec<T>, StoreError> {
        let what = "read what is to be taken along";
        let mut statement = self.db.prepare_cached(sql).doing(&self.db, what)?;
        let mut rows = statement.query(after).doing(&self.db, what)?;
        let (mut some, mut weight) = (Vec::new(), 0);
        while some.len() < BATCH_ROWS && weight < BATCH_BYTES {
            let Some(row) = rows.next().doing(&self.db, what)? else {
                break;
            };
            let (one, weighs) = read(row).doing(&self.db, what)?;
            some.push(one);
            weight += weighs;
        }
        Ok(some)
    }

    /// Returns calls behind one; none when there are no more. So do all below.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn calls(&self, after: i64) -> Result<Vec<ExportedCall>, StoreError> {
        let sql = format!("SELECT number, {JSON} FROM calls WHERE number > ? ORDER BY number");
        let rows: Vec<(i64, Json)> = self.some(&sql, [after], |row| {
            let json: Json = row.get(1)?;
            let weight = json.0.len();
            Ok(((row.get(0)?, json), weight))
        })?;
        let call = |(number, json): (i64, Json)| {
            let record = decode("a call", &json.0)?;
            Ok(ExportedCall { number, record })
        };
        rows.into_iter().map(call).collect()
    }

    /// Returns events behind one, which is named by its call's number and its own.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn events(&self, after: (i64, i64)) -> Result<Vec<ExportedEvents>, StoreError> {
        let sql = "SELECT call, sequence, event, created FROM events JOIN calls ON calls.number = call
                   WHERE (call, sequence) > (?, ?) ORDER BY call, sequence";
        let rows = self.some(sql, params![after.0, after.1], |row| {
            let event: String = row.get(2)?;
            let weight = event.len();
            let place: (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
            Ok(((place, event), weight))
        })?;
        let mut groups: Vec<(ExportedEvents, usize)> = Vec::new();
        for ((call, sequence, created), event) in rows {
            let ends = event.is_empty();
            let text = if ends { "null" } else { &event };
            match groups.last_mut() {
                Some((group, count))
                    if group.call == call && group.last + 1 == sequence && *count < EVENTS_PER_GROUP =>
                {
                    group.json.push(',');
                    group.json.push_str(text);
                    group.last = sequence;
                    group.ends |= ends;
                    *count += 1;
                }
                Some(_) | None => {
                    let group = ExportedEvents {
                        call,
                        admitted: Timestamp(created),
                        first: sequence,
                        last: sequence,
                        ends,
                        json: format!("[{text}"),
                    };
                    groups.push((group, 1));
                }
            }
        }
        let close = |(mut group, _): (ExportedEvents, usize)| {
            group.json.push(']');
            group
        };
        Ok(groups.into_iter().map(close).collect())
    }

    /// Returns changes behind one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn changes(&self, after: i64) -> Result<Vec<ExportedChange>, StoreError> {
        let sql = "SELECT path, shown, before_sha256, before_bytes, before_mode, after_sha256, after_bytes, after_mode,
                       changes.number, call, created
                   FROM changes JOIN calls ON calls.number = call WHERE changes.number > ? ORDER BY changes.number";
        self.some(sql, [after], |row| {
            let change = ExportedChange {
                number: row.get(8)?,
                call: row.get(9)?,
                admitted: Timestamp(row.get(10)?),
                change: changes::change(row)?,
            };
            Ok((change, 256))
        })
    }

    /// Returns prompts behind one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn prompts(&self, after: i64) -> Result<Vec<ExportedPrompt>, StoreError> {
        type Stored = (i64, String, Option<String>, i64);
        let sql = "SELECT number, prompt, asker, revision FROM prompts WHERE number > ? ORDER BY number";
        let rows: Vec<Stored> = self.some(sql, [after], |row| {
            let (json, asker): (String, Option<String>) = (row.get(1)?, row.get(2)?);
            let weight = json.len() + asker.as_ref().map_or(0, String::len);
            Ok(((row.get(0)?, json, asker, row.get(3)?), weight))
        })?;
        let prompt = |(number, json, asker, revision): Stored| {
            Ok(ExportedPrompt {
                number,
                prompt: decode("a prompt", &json)?,
                json,
                asker,
                revision,
            })
        };
        rows.into_iter().map(prompt).collect()
    }

    /// Returns grants behind one, of those that outlast the run that made them.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn grants(&self, after: i64) -> Result<Vec<ExportedGrant>, StoreError> {
        let sql = "SELECT number, id, content FROM grants WHERE owner = '' AND number > ? ORDER BY number";
        self.some(sql, [after], |row| {
            let grant = ExportedGrant {
                number: row.get(0)?,
                id: row.get(1)?,
                content: row.get(2)?,
            };
            let weight = grant.content.len();
            Ok((grant, weight))
        })
    }

    /// Returns facts behind one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn facts(&self, after: &ExportedFact) -> Result<Vec<ExportedFact>, StoreError> {
        let sql = "SELECT workspace, session, key, value FROM facts WHERE (workspace, session, key) > (?, ?, ?)
                   ORDER BY workspace, session, key";
        self.some(sql, [&after.workspace, &after.session, &after.name], |row| {
            let fact = ExportedFact {
                workspace: row.get(0)?,
                session: row.get(1)?,
                name: row.get(2)?,
                value: row.get(3)?,
            };
            let weight = fact.value.len();
            Ok((fact, weight))
        })
    }

    /// Returns events of the journal behind one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn journal(&self, after: i64) -> Result<Vec<ExportedEvent>, StoreError> {
        let sql = "SELECT number, time, event FROM journal WHERE number > ? ORDER BY number";
        self.some(sql, [after], |row| {
            let event = ExportedEvent {
                number: row.get(0)?,
                moment: row.get(1)?,
                event: row.get(2)?,
            };
            let weight = event.event.len();
            Ok((event, weight))
        })
    }

    /// Returns records of the audit behind one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn audit(&self, after: i64) -> Result<Vec<ExportedRecord>, StoreError> {
        let sql = "SELECT sequence, time, hash, record FROM audit WHERE sequence > ? ORDER BY sequence";
        self.some(sql, [after], |row| {
            let record = ExportedRecord {
                sequence: row.get(0)?,
                moment: row.get(1)?,
                hash: row.get(2)?,
                record: row.get(3)?,
            };
            let weight = record.record.len();
            Ok((record, weight))
        })
    }

    /// Returns outputs behind one, without their bytes.
    ///
    /// # Errors
    /// The database cannot be read, or a file cannot be looked at.
    pub fn outputs(&self, after: i64) -> Result<Vec<ExportedOutput>, StoreError> {
        let sql = "SELECT number, id, instance, call, session, workspace, created, bytes FROM outputs
                   WHERE number > ? ORDER BY number";
        let mut outputs = self.some(sql, [after], |row| {
            let text = |index: usize| row.get::<_, String>(index);
            let owner = OutputOwner {
                call: CallId::new(text(3)?),
                session: SessionId::new(text(4)?),
                workspace: text(5)?,
            };
            let (id, created) = (text(1)?, Timestamp(row.get(6)?));
            let output = ExportedOutput {
                number: row.get(0)?,
                path: self.folders.outputs_of(&owner.workspace).join(&id),
                id: OutputId::new(id),
                instance: text(2)?,
                owner,
                created,
                written: created,
                bytes: row.get::<_, Option<i64>>(7)?.map(unsigned),
            };
            Ok((output, 256))
        })?;
        for output in &mut outputs {
            let length = output_file::file_length(&output.path)?;
            let written = fs::symlink_metadata(&output.path).and_then(|metadata| metadata.modified());
            let since = written.ok().and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
            if let Some(since) = since {
                output.written = Timestamp(signed(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)));
            }
            output.bytes = match (output.bytes, length) {
                (Some(bytes), Some(length)) => Some(bytes.min(length)),
                // One to which nothing was written needs no file.
                (bytes @ (Some(0) | None), None) => bytes.or(Some(0)),
                (Some(_), None) => None,
                (None, length) => length,
            };
        }
        Ok(outputs)
    }

    /// Returns at most `max` bytes of an output from `offset` on; none at its end.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn read(&self, output: &ExportedOutput, offset: u64, max: usize) -> Result<Vec<u8>, StoreError> {
        let end = output.bytes.unwrap_or(0);
        let read = output_file::read_file(&output.path, offset, end, max)?;
        Ok(read.unwrap_or_default())
    }
}
