//! The audit in the database: records in a table that only grows, and the head of their chain in another.
//!
//! *Invariant:* the head is read and moved in the transaction that adds the record, and what a record tells of is changed
//! in that transaction too, so two processes never fork the chain and the audit never disagrees with the other tables.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use toolgate_model::{InstanceId, Timestamp};

use super::error::{Doing, failed, limit, signed, unsigned};
use super::schema;
use super::store::LocalStore;
use super::writer::Operation;
use crate::audit::{Fact, Head, Kind, Record, Recorder};
use crate::{Audit, AuditEnd, AuditLine, StoreError};

/// Records that one transaction removes, so that others need not wait long.
const RECORDS_PER_DELETE: u64 = 20_000;

fn end(db: &Connection) -> Result<Option<AuditEnd>, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(AuditEnd {
            head: Head {
                chain: row.get(0)?,
                sequence: unsigned(row.get(1)?),
                hash: row.get(2)?,
                key: row.get(3)?,
                seal: row.get(4)?,
            },
            removed: unsigned(row.get(5)?),
        })
    };
    db.prepare_cached("SELECT chain, sequence, hash, key, seal, removed FROM audit_head")
        .and_then(|mut statement| statement.query_row([], read).optional())
        .doing(db, "read the head of the audit")
}

fn existing_end(db: &Connection) -> Result<AuditEnd, StoreError> {
    end(db)?.ok_or_else(|| StoreError::NotFound("the head of the audit".to_owned()))
}

fn insert(db: &Connection, record: &Record) -> Result<(), StoreError> {
    db.prepare_cached("INSERT INTO audit (sequence, time, hash, record) VALUES (?, ?, ?, ?)")
        .and_then(|mut statement| {
            let values = params![
                signed(record.sequence),
                record.time.millis(),
                record.hash,
                record.line()
            ];
            statement.execute(values)
        })
        .map(drop)
        .doing(db, "add to the audit")
}

/// Begins the chain of a new database; looks whether an old one can go on.
pub(super) fn begin(db: &Connection, recorder: &Recorder, instance: &InstanceId) -> Result<(), StoreError> {
    if let Some(end) = end(db)? {
        return checked(recorder.check(&end.head));
    }
    let chain = uuid::Uuid::now_v7().simple().to_string();
    let (record, head) = recorder.begin(instance, &chain);
    // Only one process opens a data directory at a time.
    let transaction = db.unchecked_transaction().doing(db, "begin the audit")?;
    insert(&transaction, &record)?;
    db.execute(
        "INSERT INTO audit_head (only_row, chain, sequence, hash, key, seal, removed) VALUES (1, ?, ?, ?, ?, ?, 0)",
        params![head.chain, signed(head.sequence), head.hash, head.key, head.seal],
    )
    .doing(db, "begin the audit")?;
    transaction.commit().doing(db, "begin the audit")
}

/// Adds facts to the chain, in the transaction that the caller is in.
pub(super) fn append(
    db: &Connection,
    recorder: &Recorder,
    facts: impl IntoIterator<Item = Fact>,
) -> Result<(), StoreError> {
    let mut facts = facts.into_iter().peekable();
    if facts.peek().is_none() {
        return Ok(());
    }
    let mut head = existing_end(db)?.head;
    for fact in facts {
        let (record, next) = checked(recorder.next(&head, fact))?;
        insert(db, &record)?;
        head = next;
    }
    db.prepare_cached("UPDATE audit_head SET sequence = ?, hash = ?, key = ?, seal = ?")
        .and_then(|mut statement| statement.execute(params![signed(head.sequence), head.hash, head.key, head.seal]))
        .map(drop)
        .doing(db, "move the head of the audit")
}

fn checked<T>(result: Result<T, crate::audit::RecordError>) -> Result<T, StoreError> {
    result.map_err(|error| failed("go on with the audit", error))
}

fn lines(db: &Connection, from: u64, items: usize) -> Result<Vec<AuditLine>, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(AuditLine {
            sequence: unsigned(row.get(0)?),
            json: row.get(1)?,
        })
    };
    db.prepare_cached("SELECT sequence, record FROM audit WHERE sequence >= ? ORDER BY sequence LIMIT ?")
        .and_then(|mut statement| {
            statement
                .query_map(params![signed(from), limit(items)], read)?
                .collect()
        })
        .doing(db, "read the audit")
}

/// Returns the number of the first record that was made at or after a moment; of the next record if there is none.
fn since(db: &Connection, time: Timestamp) -> Result<u64, StoreError> {
    let first: Option<i64> = db
        .prepare_cached("SELECT sequence FROM audit WHERE time >= ? ORDER BY sequence LIMIT 1")
        .and_then(|mut statement| statement.query_row([time.millis()], |row| row.get(0)).optional())
        .doing(db, "find a record of the audit")?;
    match first {
        Some(first) => Ok(unsigned(first)),
        None => Ok(existing_end(db)?.head.sequence + 1),
    }
}

/// Removes the records before a moment, from the oldest on, and leaves a checkpoint. Not for the sake of checkpoints
/// alone: each would make way for another.
fn sweep(db: &Connection, recorder: &Recorder, before: Timestamp) -> Result<usize, StoreError> {
    let what = "remove old records of the audit";
    let end = existing_end(db)?;
    let last = since(db, before)?
        .saturating_sub(1)
        .min(end.removed + RECORDS_PER_DELETE);
    let last = last.min(end.head.sequence.saturating_sub(1));
    if last <= end.removed {
        return Ok(0);
    }
    let range = params![signed(end.removed), signed(last)];
    let checkpoint = format!("%\"kind\":\"{}\"%", Kind::Checkpoint.as_str());
    let others: i64 = db
        .query_row(
            "SELECT count(*) FROM audit WHERE sequence > ? AND sequence <= ? AND record NOT LIKE ?",
            params![signed(end.removed), signed(last), checkpoint],
            |row| row.get(0),
        )
        .doing(db, what)?;
    if others == 0 {
        return Ok(0);
    }
    let hash: String = db
        .query_row("SELECT hash FROM audit WHERE sequence = ?", [signed(last)], |row| {
            row.get(0)
        })
        .doing(db, what)?;
    db.execute("UPDATE audit_head SET removed = ?", [signed(last)])
        .doing(db, what)?;
    let count = db
        .execute("DELETE FROM audit WHERE sequence > ? AND sequence <= ?", range)
        .doing(db, what)?;
    let fact = Fact {
        chain: end.head.chain,
        removed: Some(last),
        removed_hash: hash,
        ..Fact::new(Kind::Checkpoint)
    };
    append(db, recorder, [fact])?;
    Ok(count)
}

/// A fact on its way.
struct Noted {
    recorder: std::sync::Arc<Recorder>,
    fact: Fact,
}

impl Operation for Noted {
    fn run(&mut self, db: &Connection) -> Result<(), StoreError> {
        append(db, &self.recorder, [self.fact.clone()])
    }

    fn end(self: Box<Self>, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            tracing::error!(%error, kind = self.fact.kind.as_str(), "a record of the audit is lost");
        }
    }

    fn unattended(&self) -> bool {
        true
    }
}

#[async_trait]
impl Audit for LocalStore {
    fn audit(&self, fact: Fact) {
        self.writer.enqueue(Noted {
            recorder: self.recorder.clone(),
            fact,
        });
    }

    async fn audit_end(&self) -> Result<AuditEnd, StoreError> {
        self.readers.read(existing_end).await
    }

    async fn audit_lines(&self, from: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        self.readers.read(move |db| lines(db, from, limit)).await
    }

    async fn audit_since(&self, time: Timestamp) -> Result<u64, StoreError> {
        self.readers.read(move |db| since(db, time)).await
    }

    async fn sweep_audit(&self, before: Timestamp) -> Result<usize, StoreError> {
        let recorder = self.recorder.clone();
        self.writer.write(move |db| sweep(db, &recorder, before)).await
    }
}

/// The audit of a data directory whose service may run or not.
pub struct AuditFile {
    db: Connection,
    end: AuditEnd,
}

impl AuditFile {
    /// Opens the audit for reading. What is added later is not seen: head and records are those of one moment.
    ///
    /// # Errors
    /// There is no database, it cannot be read, or it has no audit.
    pub fn open(data_dir: &Path) -> Result<Self, StoreError> {
        let db = schema::open_reader(&data_dir.join("toolgate.db"))?;
        // Held as long as the connection: the snapshot of all that follows.
        db.execute_batch("BEGIN").doing(&db, "begin to read the audit")?;
        let end = existing_end(&db)?;
        Ok(Self { db, end })
    }

    /// Returns the end of the chain.
    pub fn end(&self) -> &AuditEnd {
        &self.end
    }

    /// Returns at most `limit` records with a number of `from` or above, in order.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn lines(&self, from: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        lines(&self.db, from, limit)
    }
}
