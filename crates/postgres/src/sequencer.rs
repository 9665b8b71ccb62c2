//! The sequencer: what changes have left in the outbox becomes records of the audit and events of the journal.
//!
//! *Invariant:* who sequences holds the row of `ends` until the commit that adds, so there is one at a time, whichever gateway it
//! is; the chain never forks and numbers have no gaps. What was committed before another change began has the lower number in
//! the outbox and is seen with it: causes come before what follows from them.
//!
//! *Invariant:* a row of the outbox that cannot be read holds nothing up: it is set aside, with why, and the chain goes on behind it.
//! One that a later release has left is taken from there when that release starts the next time.
//!
//! There is no leader to be elected or lost: the row is the lock, and whoever finds it taken leaves the work to its holder. No
//! change waits for it. Who reads audit or journal first has done what is in the outbox, so that a change that was answered is
//! found there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::Row;
use toolgate_model::{InstanceId, Timestamp};
use toolgate_store::audit::{Head, RecordError, Recorder};
use toolgate_store::codec::{decode, encode, failed, signed, unsigned};
use toolgate_store::outbox::{Ends, Entry, Sequenced, sequence};
use toolgate_store::{AuditEnd, StoreError};

use crate::connection::{Database, Session, retrying};
use crate::text::escaped;
use crate::values::values;

/// Rows of the outbox that one transaction takes, and about how many bytes of them: one row may be as long as what a worker sends.
const ROWS_PER_BATCH: i64 = 500;
const BYTES_PER_BATCH: i64 = 16 << 20;

/// Rows that were set aside which are looked at when a run starts.
const ROWS_TO_RETURN: i64 = 1_000;

const END: &str = "SELECT chain, sequence, hash, key, seal, removed, journal FROM ends";

/// What became of an attempt to sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Somebody else is at it.
    Taken,
    /// There may be more behind this row of the outbox.
    Some(i64),
    /// There was no more.
    Done,
}

/// Numbers and chains what is told.
pub(crate) struct Sequencer {
    recorder: Recorder,
    last: watch::Sender<u64>,
    /// How many have asked that all be sequenced.
    asked: AtomicU64,
    /// How many of them have been served. Held by who serves: all who asked before it began are served by it, so that a
    /// thousand who are woken at once ask the database once.
    served: tokio::sync::Mutex<u64>,
}

impl Sequencer {
    /// Begins the chain of a new database; looks whether an old one can go on.
    pub(crate) async fn new(db: &Database, recorder: Recorder, instance: &InstanceId) -> Result<Self, StoreError> {
        let end = match end(db).await {
            Err(StoreError::NotFound(_)) => {
                begin(db, &recorder, instance).await?;
                end(db).await?
            }
            other => other?,
        };
        checked(recorder.check(&end.audit.head))?;
        return_what_is_known(db).await?;
        Ok(Self {
            recorder,
            last: watch::Sender::new(end.journal),
            asked: AtomicU64::new(0),
            served: tokio::sync::Mutex::default(),
        })
    }

    /// Makes one for a chain that is there.
    pub(crate) fn of(recorder: Recorder) -> Self {
        Self {
            recorder,
            last: watch::Sender::new(0),
            asked: AtomicU64::new(0),
            served: tokio::sync::Mutex::default(),
        }
    }

    /// Sequences within a transaction all that is in the outbox.
    pub(crate) async fn drain(&self, session: &mut Session) -> Result<(), StoreError> {
        while let (Turn::Some(_), _) = self.batch(session, " FOR UPDATE").await? {}
        Ok(())
    }

    /// Tells the listeners of an event that is stored.
    pub(crate) fn reached(&self, number: u64) {
        self.last.send_if_modified(|last| {
            let is_more = number > *last;
            *last = number.max(*last);
            is_more
        });
    }

    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.last.receiver_count() > 0
    }

    /// Sequences some of the outbox, or leaves it to who is at it.
    pub(crate) async fn turn(&self, db: &Database) -> Result<Turn, StoreError> {
        self.attempt(db, " FOR UPDATE SKIP LOCKED").await
    }

    /// Has all sequenced that is in the outbox; waits for who is at it.
    pub(crate) async fn catch_up(&self, db: &Database) -> Result<(), StoreError> {
        let own = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut served = db.turn("wait for what is told", &self.served).await?;
        if *served >= own {
            return Ok(());
        }
        let asked = self.asked.load(Ordering::Acquire);
        // However much it is: what was told before is to be seen. What comes meanwhile is for later ones.
        let sql = "SELECT max(number) FROM outbox";
        let row = db.row("look what there is to tell", sql, values![]).await?;
        if let Some(until) = row.and_then(|row| row.get::<_, Option<i64>>(0)) {
            while let Turn::Some(last) = self.attempt(db, " FOR UPDATE").await?
                && last < until
            {}
        }
        *served = asked;
        Ok(())
    }

    async fn attempt(&self, db: &Database, lock: &str) -> Result<Turn, StoreError> {
        let turn = retrying(|| async {
            let mut session = db.begin("number and chain what is told").await?;
            let turn = self.batch(&mut session, lock).await;
            session.end(turn).await
        });
        let (turn, journal) = turn.await?;
        self.reached(journal);
        Ok(turn)
    }

    async fn batch(&self, session: &mut Session, lock: &str) -> Result<(Turn, u64), StoreError> {
        let Some(row) = session.row(&format!("{END}{lock}"), values![]).await? else {
            return Ok((Turn::Taken, 0));
        };
        let end = read(&row);
        let sql = "SELECT number, entries, there FROM
                       (SELECT number, entries, count(*) OVER () AS there,
                            sum(octet_length(entries)) OVER (ORDER BY number) - octet_length(entries) AS before
                        FROM (SELECT number, entries FROM outbox ORDER BY number LIMIT $1) AS first) AS few
                   WHERE before < $2 ORDER BY number";
        let rows = session.rows(sql, values![ROWS_PER_BATCH, BYTES_PER_BATCH]).await?;
        let (mut numbers, mut entries) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            let number: i64 = row.get(0);
            numbers.push(number);
            match decode::<Vec<Entry>>(TOLD, row.get(1)) {
                Ok(some) => entries.extend(some),
                Err(error) => set_aside(session, number, &error).await?,
            }
        }
        let Some(there) = rows.first().map(|row| row.get::<_, i64>(2)) else {
            return Ok((Turn::Done, end.journal));
        };
        let journal = self.add(session, end, entries, numbers).await?;
        let is_full = there == ROWS_PER_BATCH || (rows.len() as i64) < there;
        let last = rows.last().filter(|_| is_full).map(|row| Turn::Some(row.get(0)));
        Ok((last.unwrap_or(Turn::Done), journal))
    }

    /// Adds entries behind the end, which is held, and takes rows out of the outbox. Returns the last number of the journal.
    pub(crate) async fn add(
        &self,
        session: &mut Session,
        end: End,
        entries: Vec<Entry>,
        done: Vec<i64>,
    ) -> Result<u64, StoreError> {
        let ends = Ends {
            audit: end.audit.head,
            journal: end.journal,
        };
        let sequenced = checked(sequence(&self.recorder, ends, Timestamp::now(), entries))?;
        let Sequenced { records, events, ends } = sequenced;
        let numbers: Vec<i64> = events.iter().map(|(number, _)| signed(*number)).collect();
        let moments: Vec<i64> = events.iter().map(|(_, event)| event.time.millis()).collect();
        let texts: Vec<&str> = events.iter().map(|(_, event)| event.json.as_str()).collect();
        let sequences: Vec<i64> = records.iter().map(|record| signed(record.sequence)).collect();
        let times: Vec<i64> = records.iter().map(|record| record.time.millis()).collect();
        let hashes: Vec<&str> = records.iter().map(|record| record.hash.as_str()).collect();
        let lines: Vec<String> = records.iter().map(|record| record.line()).collect();
        let head = &ends.audit;
        let sql = "WITH told AS (INSERT INTO journal (number, moment, event)
                       SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])),
                   chained AS (INSERT INTO audit (sequence, moment, hash, record)
                       SELECT * FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::text[])),
                   gone AS (DELETE FROM outbox WHERE number = ANY ($8))
                   UPDATE ends SET journal = $9, sequence = $10, hash = $11, key = $12, seal = $13";
        session
            .run(
                sql,
                values![
                    numbers,
                    moments,
                    texts,
                    sequences,
                    times,
                    hashes,
                    lines,
                    done,
                    signed(ends.journal),
                    signed(head.sequence),
                    head.hash,
                    head.key,
                    head.seal
                ],
            )
            .await?;
        Ok(ends.journal)
    }
}

/// What the rows of the outbox are.
const TOLD: &str = "what is to be told";

/// Keeps a row of the outbox that cannot be read; it is to be taken out of there.
async fn set_aside(session: &mut Session, number: i64, error: &StoreError) -> Result<(), StoreError> {
    tracing::error!(
        error = error as &dyn std::error::Error,
        number,
        "something to tell cannot be read, and is missing in the audit and the journal: it is kept in the table outbox_aside"
    );
    let sql = "INSERT INTO outbox_aside (number, entries, why) SELECT number, entries, $2 FROM outbox WHERE number = $1
               ON CONFLICT (number) DO NOTHING";
    let source = std::error::Error::source(error).map(ToString::to_string);
    let why = source.unwrap_or_else(|| error.to_string());
    session.run(sql, values![number, escaped(&why)]).await.map(drop)
}

/// Puts what was set aside and can be read here behind the rest of what is to be told.
async fn return_what_is_known(db: &Database) -> Result<(), StoreError> {
    let what = "look what was not told";
    let sql = "SELECT number, entries FROM outbox_aside ORDER BY number LIMIT $1";
    let rows = db.rows(what, sql, values![ROWS_TO_RETURN]).await?;
    let is_known = |row: &&Row| decode::<Vec<Entry>>(TOLD, row.get(1)).is_ok();
    let known: Vec<i64> = rows.iter().filter(is_known).map(|row| row.get(0)).collect();
    if !rows.is_empty() {
        let (kept, returned) = (rows.len() - known.len(), known.len());
        tracing::warn!(
            kept,
            returned,
            "something to tell was set aside because it could not be read"
        );
    }
    let sql = "WITH known AS (DELETE FROM outbox_aside WHERE number = ANY ($1) RETURNING number, entries)
               INSERT INTO outbox (entries) SELECT entries FROM known ORDER BY number";
    match known.is_empty() {
        true => Ok(()),
        false => db.rows(what, sql, values![known]).await.map(drop),
    }
}

/// Where audit and journal end.
pub(crate) struct End {
    pub(crate) audit: AuditEnd,
    pub(crate) journal: u64,
}

fn read(row: &Row) -> End {
    End {
        audit: AuditEnd {
            head: Head {
                chain: row.get(0),
                sequence: unsigned(row.get(1)),
                hash: row.get(2),
                key: row.get(3),
                seal: row.get(4),
            },
            removed: unsigned(row.get(5)),
        },
        journal: unsigned(row.get(6)),
    }
}

fn existing(row: Option<Row>) -> Result<End, StoreError> {
    row.as_ref()
        .map(read)
        .ok_or_else(|| StoreError::NotFound("the head of the audit".to_owned()))
}

/// Returns where audit and journal end.
pub(crate) async fn end(db: &Database) -> Result<End, StoreError> {
    existing(db.row("read the head of the audit", END, values![]).await?)
}

/// As [`end`], held until the transaction ends.
pub(crate) async fn hold_end(session: &mut Session) -> Result<End, StoreError> {
    existing(session.row(&format!("{END} FOR UPDATE"), values![]).await?)
}

async fn begin(db: &Database, recorder: &Recorder, instance: &InstanceId) -> Result<(), StoreError> {
    let chain = uuid::Uuid::now_v7().simple().to_string();
    let (record, head) = recorder.begin(instance, &chain, Timestamp::now());
    // Of two who begin at once, the second one finds the chain of the first.
    let sql = "WITH begun AS (INSERT INTO ends (only_row, chain, sequence, hash, key, seal, removed, journal)
                   VALUES (TRUE, $1, $2, $3, $4, $5, 0, 0) ON CONFLICT (only_row) DO NOTHING RETURNING TRUE)
               INSERT INTO audit (sequence, moment, hash, record) SELECT $2, $6, $3, $7 FROM begun";
    db.rows(
        "begin the audit",
        sql,
        values![
            head.chain,
            signed(head.sequence),
            head.hash,
            head.key,
            head.seal,
            record.time.millis(),
            record.line()
        ],
    )
    .await
    .map(drop)
}

fn checked<T>(result: Result<T, RecordError>) -> Result<T, StoreError> {
    result.map_err(|error| failed("go on with the audit", error))
}

/// Writes entries as a row of the outbox has them; none if there are none.
pub(crate) fn entries(told: Vec<Entry>) -> Result<Option<String>, StoreError> {
    match told.is_empty() {
        true => Ok(None),
        false => encode("what is to be told", &told).map(Some),
    }
}

/// Returns how long the oldest waits that is to be told.
pub(crate) async fn lag(db: &Database) -> Result<Duration, StoreError> {
    let sql = "SELECT greatest(0, extract(epoch FROM clock_timestamp() - moment) * 1000)::bigint FROM outbox ORDER BY number LIMIT 1";
    let row = db
        .row("look how far audit and journal are behind", sql, values![])
        .await?;
    Ok(row.map_or(Duration::ZERO, |row| Duration::from_millis(unsigned(row.get(0)))))
}
