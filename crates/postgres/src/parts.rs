//! The bytes of outputs: the first [`HEAD_BYTES`] in the row, the rest in parts of [`PART_BYTES`]. A part is one object of the bucket, or
//! it is rows of pieces: while it is not full, until it has been moved, and where there is no bucket. The one place that knows where
//! bytes are.
//!
//! *Invariant:* what is appended is there as a whole or not at all, at the place where its writer believes that the output ends. No
//! piece is of two parts, so that an object stands for whole pieces. A piece is at most [`PIECE_BYTES`] long, and the last one grows only
//! while it is short, since to make it longer is to write it again. Whether it does, the function of the database finds that writes
//! (`migrations/0005.sql`): nobody has to know beforehand where the last piece begins.

use bytes::Bytes;
use futures_util::future::try_join_all;
use toolgate_model::OutputId;
use toolgate_store::StoreError;
use toolgate_store::codec::{failed, signed, unsigned};
use toolgate_store::ledger::{FIRST_PART, PART_BYTES};

use crate::bucket::Bucket;
use crate::connection::{Database, Session, retrying};
use crate::fence::{self, Held};
use crate::text::key;
use crate::values::values;

/// What the row of an output has of it, at most.
const HEAD_BYTES: u64 = FIRST_PART;

/// The longest piece.
const PIECE_BYTES: u64 = 1 << 20;

/// Up to so many bytes the last piece grows.
const SHORT_PIECE_BYTES: u64 = 16 << 10;

/// The present moment by the clock of the database, in milliseconds.
pub(crate) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Says whether a part begins at this place.
pub(crate) fn is_start(place: u64) -> bool {
    place >= FIRST_PART && (place - FIRST_PART).is_multiple_of(PART_BYTES)
}

/// Returns where the part of a place begins; it is behind [`FIRST_PART`].
pub(crate) fn start_of(place: u64) -> u64 {
    FIRST_PART + (place - FIRST_PART) / PART_BYTES * PART_BYTES
}

/// Says that an output does not end where its writer believes, or counts as complete.
pub(crate) fn ends_elsewhere(id: &OutputId, from: u64) -> StoreError {
    StoreError::Conflict(format!("output {id} does not end at {from}"))
}

/// Writes a piece where an output ends, in one statement, which is a transaction of its own. False if nothing is written: it does not end
/// there, counts as complete, or is not of those that are named.
pub(crate) async fn append(
    db: &Database,
    held: &Held<'_>,
    id: &OutputId,
    from: u64,
    piece: &[u8],
) -> Result<bool, StoreError> {
    retrying(|| async { append_in(&mut db.session("write to an output").await?, held, id, from, piece).await }).await
}

/// As [`append`], within a transaction.
pub(crate) async fn append_in(
    session: &mut Session,
    held: &Held<'_>,
    id: &OutputId,
    from: u64,
    piece: &[u8],
) -> Result<bool, StoreError> {
    let next = from.checked_add(piece.len() as u64);
    // No output is longer than that.
    let Some(next) = next.filter(|next| i64::try_from(*next).is_ok()) else {
        return Ok(false);
    };
    let room = usize::try_from(HEAD_BYTES.saturating_sub(from)).unwrap_or(0);
    let (head, rest) = piece.split_at(room.min(piece.len()));
    let place = from + head.len() as u64;
    let (starts, pieces) = cut(place, rest);
    let joins = (starts.len() == 1).then(|| signed(start_of(place).max(next.saturating_sub(SHORT_PIECE_BYTES))));
    let (name, from, next) = (key(id.as_str()), signed(from), signed(next));
    let mut all = held.values().to_vec();
    all.extend_from_slice(values![name, from, next, head, starts, pieces, joins]);
    let row = session.row(&fence::call("append_to_output_1", all.len()), &all).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// Cuts what is written from a place on into pieces, and returns where they begin.
fn cut(mut place: u64, mut rest: &[u8]) -> (Vec<i64>, Vec<&[u8]>) {
    let (mut starts, mut pieces) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let room = start_of(place) + PART_BYTES - place;
        let length = room.min(PIECE_BYTES).min(rest.len() as u64);
        let (piece, behind) = rest.split_at(length as usize);
        starts.push(signed(place));
        pieces.push(piece);
        (place, rest) = (place + length, behind);
    }
    (starts, pieces)
}

/// Returns at most `max` bytes from `offset` on; fewer only at the end. None if there is no such output.
///
/// # Errors
/// `Unavailable` if some of it is in the bucket, and the bucket is away.
pub(crate) async fn read(
    db: &Database,
    bucket: Option<&Bucket>,
    id: &OutputId,
    offset: u64,
    max: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let what = "read an output";
    let sql = "SELECT number, bytes, octet_length(head)::bigint,
                   CASE WHEN $2 < octet_length(head) THEN substr(head, $2::int + 1, $3::int) ELSE '' END
               FROM outputs WHERE id = $1";
    // A head is far shorter, whatever is asked for.
    let (from, most) = (offset.min(HEAD_BYTES), (max as u64).min(HEAD_BYTES));
    let row = db
        .row(what, sql, values![key(id.as_str()), signed(from), signed(most)])
        .await?;
    let Some(row) = row else { return Ok(None) };
    let (number, bytes, head): (i64, u64, u64) = (row.get(0), unsigned(row.get(1)), unsigned(row.get(2)));
    let until = offset.saturating_add(max as u64).min(bytes);
    let mut read: Vec<u8> = row.get(3);
    read.truncate(max);
    if until <= head || offset >= until {
        return Ok(Some(read));
    }
    let from = offset.max(head);
    // One statement, so that it sees a part that is being moved at one place or the other.
    let sql =
        "SELECT start, content, NULL, 0 AS bytes FROM output_parts WHERE output = $1 AND start > $2 AND start < $4
               UNION ALL SELECT start, NULL, name, bytes FROM objects
                   WHERE output = $1 AND start > $3 AND start < $4 AND due IS NULL
               ORDER BY start";
    let lowest = |longest: u64| signed(from).saturating_sub(signed(longest));
    let (pieces, objects, end) = (lowest(PIECE_BYTES), lowest(PART_BYTES), signed(until));
    let rows = db.rows(what, sql, values![number, pieces, objects, end]).await?;
    let found = rows.iter().map(|row| {
        let start = unsigned(row.get(0));
        let within = move |place: u64, length: u64| place.saturating_sub(start).min(length);
        async move {
            if let Some(content) = row.get::<_, Option<&[u8]>>(1) {
                let length = content.len() as u64;
                let range = within(from, length) as usize..within(until, length) as usize;
                return Ok(Some(Found::Piece(&content[range])));
            }
            let (name, length): (&str, u64) = (row.get(2), unsigned(row.get(3)));
            let range = within(from, length)..within(until, length);
            if range.is_empty() {
                return Ok(Some(Found::Piece(&[])));
            }
            let bucket = bucket.ok_or_else(|| failed(what, "some of it is in a bucket, and none is configured"))?;
            Ok(match bucket.get(name, range).await? {
                Some(bytes) => Some(Found::Object(bytes)),
                None if is_part(db, name).await? => return Err(missing(name)),
                None => None,
            })
        }
    });
    for found in try_join_all(found).await? {
        match found {
            Some(Found::Piece(bytes)) => read.extend_from_slice(bytes),
            Some(Found::Object(bytes)) => read.extend_from_slice(&bytes),
            // It was deleted meanwhile.
            None => return Ok(None),
        }
    }
    // It was deleted between the two statements if not all is there.
    let is_whole = read.len() as u64 == until - offset;
    Ok(Some(read).filter(|_| is_whole))
}

/// What was read of a part.
enum Found<'r> {
    Piece(&'r [u8]),
    Object(Bytes),
}

/// Says that a part has no object where its row says that there is one.
fn missing(name: &str) -> StoreError {
    let why = format!("the object {name} is not in the bucket: is it another bucket or prefix than it was?");
    failed("read an output", why)
}

/// Says whether an object is still a part of an output.
async fn is_part(db: &Database, name: &str) -> Result<bool, StoreError> {
    let sql = "SELECT FROM objects WHERE name = $1 AND due IS NULL";
    let row = db.row("look for an object", sql, values![name]).await?;
    Ok(row.is_some())
}
