//! The audit in the database: records in a table that only grows, and the head of their chain in another.
//!
//! *Invariant:* records are removed here, and only the sequencer adds some (`sequencer`).

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use toolgate_model::Timestamp;

use super::error::{Doing, limit, signed, unsigned};
use super::schema;
use super::sequencer::{Note, existing_end};
use super::store::LocalStore;
use crate::audit::{Fact, Kind};
use crate::outbox::Outbox;
use crate::{Audit, AuditEnd, AuditLine, StoreError};

/// Records that one transaction removes, so that others need not wait long.
const RECORDS_PER_DELETE: u64 = 20_000;

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
fn sweep(db: &Connection, outbox: &mut Outbox, before: Timestamp) -> Result<usize, StoreError> {
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
    outbox.tell(fact);
    Ok(count)
}

#[async_trait]
impl Audit for LocalStore {
    fn audit(&self, fact: Fact) {
        self.writer.enqueue(Note(fact.into()));
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
        self.writer.tell(move |db, outbox| sweep(db, outbox, before)).await
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
