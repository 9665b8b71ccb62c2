//! The sequencer of the embedded store: what a batch of changes has to tell becomes records of the audit and events of the
//! journal at its end, in the transaction of the batch.
//!
//! *Invariant:* where both end is read and moved in the transaction that adds to them, and what they tell of is changed in
//! that transaction too: two processes never fork the chain, numbers have no gaps, and what was not stored is not told. The
//! transaction is the outbox, so entries that wait to be numbered are never on the disk.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use toolgate_model::{InstanceId, Timestamp};

use super::error::{Doing, failed, signed, unsigned};
use super::follower::{Follower, end_of_journal};
use super::queue::Operation;
use crate::audit::{Head, Record, RecordError, Recorder};
use crate::outbox::{Ends, Entry, Outbox, Sequenced, StoredEvent, sequence};
use crate::{AuditEnd, StoreError};

/// Numbers and chains what is told.
pub(super) struct Sequencer {
    recorder: Recorder,
    follower: Arc<Follower>,
}

impl Sequencer {
    /// Begins the chain of a new database; looks whether an old one can go on.
    pub(super) fn new(
        db: &Connection,
        recorder: Recorder,
        follower: Arc<Follower>,
        instance: &InstanceId,
    ) -> Result<Self, StoreError> {
        match end(db)? {
            Some(end) => checked(recorder.check(&end.head))?,
            None => begin(db, &recorder, instance)?,
        }
        Ok(Self { recorder, follower })
    }

    /// Begins to gather what the changes of a transaction have to tell.
    pub(super) fn gather(&self) -> Gathering<'_> {
        Gathering {
            sequencer: self,
            outbox: Outbox::default(),
            ends: None,
        }
    }
}

/// What the changes of one transaction have to tell.
pub(super) struct Gathering<'s> {
    sequencer: &'s Sequencer,
    outbox: Outbox,
    /// Where audit and journal end, once that was needed.
    ends: Option<Ends>,
}

impl Gathering<'_> {
    /// Makes a change, which puts what it has to tell into the outbox. If it fails nothing is told.
    pub(super) fn change(
        &mut self,
        db: &Connection,
        change: impl FnOnce(&mut Outbox) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let before = self.outbox.len();
        let outcome = change(&mut self.outbox).and_then(|()| self.check(db, before));
        if outcome.is_err() {
            self.outbox.truncate(before);
        }
        outcome
    }

    /// Says whether what came after so many entries can be recorded, so that only the change fails that told it.
    fn check(&mut self, db: &Connection, before: usize) -> Result<(), StoreError> {
        if !self.outbox.has_facts_after(before) {
            return Ok(());
        }
        let recorder = &self.sequencer.recorder;
        checked(recorder.check(&read_ends(&mut self.ends, db)?.audit))
    }

    /// Stores what is told, in the transaction of the changes.
    pub(super) fn store(&mut self, db: &Connection) -> Result<(), StoreError> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        let ends = read_ends(&mut self.ends, db)?.clone();
        let entries = self.outbox.take();
        let sequenced = checked(sequence(&self.sequencer.recorder, ends, Timestamp::now(), entries))?;
        let Sequenced { records, events, ends } = sequenced;
        events
            .iter()
            .try_for_each(|(number, event)| add_event(db, *number, event))?;
        records.iter().try_for_each(|record| add_record(db, record))?;
        if !records.is_empty() {
            move_head(db, &ends.audit)?;
        }
        self.ends = Some(ends);
        Ok(())
    }

    /// Wakes those who listen to the journal, after the commit.
    pub(super) fn wake(&self) {
        if let Some(ends) = &self.ends {
            self.sequencer.follower.reached(ends.journal);
        }
    }
}

fn read_ends<'e>(ends: &'e mut Option<Ends>, db: &Connection) -> Result<&'e Ends, StoreError> {
    match ends {
        Some(ends) => Ok(ends),
        none => Ok(none.insert(Ends {
            audit: existing_end(db)?.head,
            journal: end_of_journal(db)?,
        })),
    }
}

/// Something to tell that is no change of anything stored.
pub(super) struct Note(pub(super) Entry);

impl Operation for Note {
    fn run(&mut self, _: &Connection, outbox: &mut Outbox) -> Result<(), StoreError> {
        outbox.tell(self.0.clone());
        Ok(())
    }

    fn end(self: Box<Self>, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            match &self.0 {
                Entry::Fact(fact) => {
                    tracing::error!(%error, kind = fact.kind.as_str(), "a record of the audit is lost");
                }
                Entry::Event(_) => tracing::error!(%error, "an event of the journal is lost"),
            }
        }
    }

    fn unattended(&self) -> bool {
        true
    }
}

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

/// Returns the end of the audit.
pub(super) fn existing_end(db: &Connection) -> Result<AuditEnd, StoreError> {
    end(db)?.ok_or_else(|| StoreError::NotFound("the head of the audit".to_owned()))
}

fn begin(db: &Connection, recorder: &Recorder, instance: &InstanceId) -> Result<(), StoreError> {
    let chain = uuid::Uuid::now_v7().simple().to_string();
    let (record, head) = recorder.begin(instance, &chain, Timestamp::now());
    // Only one process opens a data directory at a time.
    let transaction = db.unchecked_transaction().doing(db, "begin the audit")?;
    add_record(&transaction, &record)?;
    db.execute(
        "INSERT INTO audit_head (only_row, chain, sequence, hash, key, seal, removed) VALUES (1, ?, ?, ?, ?, ?, 0)",
        params![head.chain, signed(head.sequence), head.hash, head.key, head.seal],
    )
    .doing(db, "begin the audit")?;
    transaction.commit().doing(db, "begin the audit")
}

fn add_record(db: &Connection, record: &Record) -> Result<(), StoreError> {
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

fn move_head(db: &Connection, head: &Head) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE audit_head SET sequence = ?, hash = ?, key = ?, seal = ?")
        .and_then(|mut statement| statement.execute(params![signed(head.sequence), head.hash, head.key, head.seal]))
        .map(drop)
        .doing(db, "move the head of the audit")
}

fn add_event(db: &Connection, number: u64, event: &StoredEvent) -> Result<(), StoreError> {
    db.prepare_cached("INSERT INTO journal (number, time, event) VALUES (?, ?, ?)")
        .and_then(|mut statement| statement.execute(params![signed(number), event.time.millis(), event.json]))
        .map(drop)
        .doing(db, "write to the journal")
}

fn checked<T>(result: Result<T, RecordError>) -> Result<T, StoreError> {
    result.map_err(|error| failed("go on with the audit", error))
}
