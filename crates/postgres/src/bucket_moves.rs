//! Parts on their way from the database to the bucket, and what goes from there: one task of each process does it.
//!
//! *Invariant:* nobody who writes an output needs the bucket. Bytes are in the database before they are moved; where they cannot be
//! moved they stay there, are read from there, and are found again later, by whatever process. What waits here is only a hint.
//! A writer that is faster than the bucket is slowed down, one whose bucket is away is not.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use toolgate_model::OutputId;
use toolgate_store::StoreError;
use toolgate_store::codec::{signed, unsigned};
use toolgate_store::ledger::{FIRST_PART, PART_BYTES};

use crate::bucket_objects::{Kept, Object, Objects, PENDING_SECONDS, keep};
use crate::connection::{Database, retrying};
use crate::parts::start_of;
use crate::text::key;
use crate::values::values;

/// Parts that are moved at once: each is in memory meanwhile.
const PARALLEL: usize = 2;

/// Parts that wait; a writer waits for the next one's place.
const MAX_WAITING: usize = 8;

/// How long a writer waits at most.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// An end of an output that no part is full of stays in the database up to this length.
const SHORT_BYTES: u64 = 256 << 10;

/// How often parts are looked for that nobody has said anything of, and objects that may be deleted.
const SEARCH_INTERVAL: Duration = Duration::from_secs(30);

/// How long to leave a bucket alone that is away: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One process moves a part at a time, for so long, in seconds; then another one may try.
const TURN_SECONDS: i64 = 120;

/// How often the bucket is looked through for objects without a row, and how old they are then.
const STRAYS_INTERVAL: Duration = Duration::from_secs(24 * 3_600);
pub(crate) const STRAYS_AGE: Duration = Duration::from_secs(3_600);

/// Where a part is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    output: OutputId,
    start: u64,
}

/// Parts that wait to be moved by this process.
#[derive(Default)]
pub(crate) struct Moves {
    waiting: Mutex<VecDeque<Place>>,
    /// There is something to do.
    wake: Notify,
    /// Something may be deleted.
    has_due: AtomicBool,
    /// Some of it is done.
    done: Notify,
    is_away: AtomicBool,
}

impl Moves {
    /// Says that there may be something to delete.
    pub(crate) fn are_due(&self) {
        self.has_due.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    fn add(&self, place: Place) -> usize {
        let mut waiting = self.waiting.lock();
        // More of them are found again.
        if waiting.len() < 2 * MAX_WAITING && !waiting.contains(&place) {
            waiting.push_back(place);
        }
        let length = waiting.len();
        drop(waiting);
        self.wake.notify_one();
        length
    }

    /// Says that an output has grown, up to here; and waits a moment if the bucket does not keep up.
    pub(crate) async fn grew(&self, output: &OutputId, from: u64, to: u64) {
        let mut start = start_of(from.max(FIRST_PART));
        let mut waiting = 0;
        while start + PART_BYTES <= to {
            waiting = self.add(Place {
                output: output.clone(),
                start,
            });
            start += PART_BYTES;
        }
        if waiting <= MAX_WAITING {
            return;
        }
        let room = async {
            loop {
                let done = self.done.notified();
                if self.is_away.load(Ordering::Acquire) || self.waiting.lock().len() <= MAX_WAITING {
                    return;
                }
                done.await;
            }
        };
        if timeout(MAX_DELAY, room).await.is_err() {
            tracing::debug!(%output, "the bucket is slower than an output grows: more of it is in the database meanwhile");
        }
    }

    /// Says that an output has ended, here.
    pub(crate) fn ended(&self, output: &OutputId, bytes: u64) {
        if bytes > FIRST_PART && bytes - start_of(bytes) > SHORT_BYTES {
            self.add(Place {
                output: output.clone(),
                start: start_of(bytes),
            });
        }
    }

    fn take(&self, most: usize) -> Vec<Place> {
        let mut waiting = self.waiting.lock();
        let most = most.min(waiting.len());
        let taken = waiting.drain(..most).collect();
        drop(waiting);
        self.done.notify_waiters();
        taken
    }
}

impl Objects {
    /// Moves parts and deletes objects until it is told to stop.
    pub(crate) async fn work(&self, db: &Database, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.work_on(db) => {}
        }
    }

    async fn work_on(&self, db: &Database) {
        let (mut pause, mut search, mut strays) = (FIRST_PAUSE, Instant::now(), Instant::now() + STRAYS_AGE);
        loop {
            let is_away = self.moves.is_away.load(Ordering::Acquire);
            let done = match self.moves.take(if is_away { 1 } else { PARALLEL }) {
                some if !some.is_empty() => self.move_all(db, some).await,
                _ if is_away && Instant::now() < search => {
                    sleep_until(search).await;
                    continue;
                }
                _ => self.search(db, &mut search, &mut strays).await,
            };
            let done = match done {
                // It is told once.
                Err(error) if !is_away => Err(self.bucket.why(error).await),
                done => done,
            };
            let is_away_now = done.is_err();
            if self.moves.is_away.swap(is_away_now, Ordering::AcqRel) != is_away_now {
                match &done {
                    Err(error) => {
                        let error = error as &dyn std::error::Error;
                        tracing::error!(
                            error,
                            "outputs cannot be moved to the bucket: they stay in the database"
                        );
                    }
                    Ok(_) => tracing::info!("outputs are moved to the bucket again"),
                }
            }
            match done {
                Err(_) => {
                    // What waits is found again.
                    self.moves.take(usize::MAX);
                    search = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    sleep_until(search).await;
                }
                Ok(more) => {
                    pause = FIRST_PAUSE;
                    if !more && self.moves.waiting.lock().is_empty() {
                        tokio::select! {
                            () = self.moves.wake.notified() => {}
                            () = sleep_until(search) => {}
                        }
                        if self.moves.has_due.swap(false, Ordering::AcqRel) {
                            search = Instant::now();
                        }
                    }
                }
            }
        }
    }

    /// Deletes what may go, and moves parts that nobody has said anything of. Says whether there may be more of them.
    async fn search(&self, db: &Database, next: &mut Instant, strays: &mut Instant) -> Result<bool, StoreError> {
        if Instant::now() < *next {
            return Ok(false);
        }
        *next = Instant::now() + SEARCH_INTERVAL;
        if Instant::now() >= *strays {
            self.find_strays(db, STRAYS_AGE).await?;
            *strays = Instant::now() + STRAYS_INTERVAL;
        }
        self.delete_due(db).await?;
        let found = find(db).await?;
        let is_found = !found.is_empty();
        if is_found {
            *next = Instant::now();
            self.move_all(db, found).await?;
        }
        Ok(is_found)
    }

    async fn move_all(&self, db: &Database, places: Vec<Place>) -> Result<bool, StoreError> {
        let moved = join_all(places.iter().map(|place| self.move_one(db, place))).await;
        moved.into_iter().find(Result::is_err).unwrap_or(Ok(())).map(|()| true)
    }

    async fn move_one(&self, db: &Database, place: &Place) -> Result<(), StoreError> {
        let name = self.name(&place.output, place.start);
        let Some((number, bytes)) = promise(db, place, &name).await? else {
            return Ok(());
        };
        let moved = self.put_and_keep(db, place, name.clone(), number, bytes).await;
        if moved.is_err() {
            give_up(db, &name).await?;
        }
        moved.map(drop)
    }

    async fn put_and_keep(
        &self,
        db: &Database,
        place: &Place,
        name: String,
        number: i64,
        bytes: u64,
    ) -> Result<Kept, StoreError> {
        let pieces = pieces(db, number, place.start, bytes).await?;
        if pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() != bytes {
            // Another process has moved it meanwhile, or it was deleted.
            return Ok(Kept::Gone);
        }
        let mut digest = Sha256::new();
        pieces.iter().for_each(|piece| digest.update(piece));
        let object = Object {
            name,
            start: place.start,
            bytes,
            sha256: hex::encode(digest.finalize()),
        };
        self.bucket.put(&object.name, pieces).await?;
        retrying(|| async {
            let mut session = db.begin("make an object a part of an output").await?;
            let kept = keep(&mut session, &place.output, &object, None).await;
            session.end(kept).await
        })
        .await
    }
}

/// Writes down that an object will be put, unless there is nothing to move or another process is at it. Returns the number of the
/// output, and how long the part is.
async fn promise(db: &Database, place: &Place, name: &str) -> Result<Option<(i64, u64)>, StoreError> {
    let sql = "INSERT INTO objects (name, output, start, bytes, due)
               SELECT $1, number, $3, least(outputs.bytes - $3, $4), clock_timestamp() + $5 * interval '1 second'
               FROM outputs WHERE id = $2 AND (outputs.bytes >= $3 + $4 OR complete AND outputs.bytes > $3)
                   AND EXISTS (SELECT FROM output_parts WHERE output = number AND start = $3)
                   AND NOT EXISTS (SELECT FROM objects WHERE output = number AND start = $3
                       AND due > clock_timestamp() + $6 * interval '1 second')
               RETURNING output, bytes";
    let row = db
        .row(
            "write down an object that will be put",
            sql,
            values![
                name,
                key(place.output.as_str()),
                signed(place.start),
                signed(PART_BYTES),
                PENDING_SECONDS,
                PENDING_SECONDS - TURN_SECONDS
            ],
        )
        .await?;
    Ok(row.map(|row| (row.get(0), unsigned(row.get(1)))))
}

/// Lets the next one try at once. The object is deleted later: it may still be on its way.
async fn give_up(db: &Database, name: &str) -> Result<(), StoreError> {
    let sql = "UPDATE objects SET due = due - $2 * interval '1 second' WHERE name = $1 AND due IS NOT NULL";
    let values = values![name, TURN_SECONDS];
    db.rows("give up an object", sql, values).await.map(drop)
}

/// Reads the pieces of a part.
async fn pieces(db: &Database, number: i64, start: u64, bytes: u64) -> Result<Vec<Bytes>, StoreError> {
    let sql = "SELECT content FROM output_parts WHERE output = $1 AND start >= $2 AND start < $3 ORDER BY start";
    let (from, until) = (signed(start), signed(start + bytes));
    let rows = db
        .rows("read a part of an output", sql, values![number, from, until])
        .await?;
    Ok(rows.iter().map(|row| Bytes::from(row.get::<_, Vec<u8>>(0))).collect())
}

/// Looks for parts that could be moved: each has a piece at its start.
async fn find(db: &Database) -> Result<Vec<Place>, StoreError> {
    let sql = "SELECT outputs.id, parts.start FROM output_parts parts JOIN outputs ON number = output
               WHERE parts.start >= $1 AND (parts.start - $1) % $2 = 0
                   AND (outputs.bytes >= parts.start + $2 OR complete AND outputs.bytes > parts.start + $3)
                   AND NOT EXISTS (SELECT FROM objects WHERE objects.output = number AND objects.start = parts.start
                       AND due > clock_timestamp() + $4 * interval '1 second')
               LIMIT $5";
    let rows = db
        .rows(
            "look for parts to move",
            sql,
            values![
                signed(FIRST_PART),
                signed(PART_BYTES),
                signed(SHORT_BYTES),
                PENDING_SECONDS - TURN_SECONDS,
                PARALLEL as i64
            ],
        )
        .await?;
    let place = |row: &tokio_postgres::Row| Place {
        output: OutputId::new(row.get::<_, String>(0)),
        start: unsigned(row.get(1)),
    };
    Ok(rows.iter().map(place).collect())
}
