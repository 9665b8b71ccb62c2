//! The bytes of outputs: the first [`HEAD_BYTES`] in the row, the rest in rows of parts. The one place that knows where bytes are.
//!
//! Parts of outputs are to become objects of an S3 bucket, uploaded without passing through here; then these functions hand
//! out and read objects, and the tail that is too short for one stays in a row. Until then a part is at most [`PART_BYTES`] long,
//! and the last one grows only while it is short, since to make it longer is to write it again.
//!
//! *Invariant:* a piece is there as a whole or not at all, at the place where its writer believes that the output ends.

use toolgate_model::OutputId;
use toolgate_store::StoreError;
use toolgate_store::codec::{signed, unsigned};

use crate::connection::{Database, Session, retrying};
use crate::text::key;
use crate::values::values;

/// What the row of an output has of it, at most.
const HEAD_BYTES: u64 = 64 << 10;

/// The longest part.
const PART_BYTES: usize = 1 << 20;

/// Up to so many bytes the last part grows.
const SHORT_PART_BYTES: u64 = 16 << 10;

/// The present moment by the clock of the database, in milliseconds.
pub(crate) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Where an output ends, as its writer knows it.
#[derive(Clone, Copy, Default)]
pub(crate) struct End {
    /// Bytes in all.
    pub(crate) bytes: u64,
    /// Where the last part begins; 0 without parts.
    last_part: u64,
}

impl End {
    /// Reads where an output ends.
    pub(crate) async fn read(db: &Database, id: &OutputId) -> Result<Option<Self>, StoreError> {
        let sql = "SELECT bytes, coalesce((SELECT max(start) FROM output_parts WHERE output = outputs.number), 0)
                   FROM outputs WHERE id = $1";
        let row = db
            .row("look where an output ends", sql, values![key(id.as_str())])
            .await?;
        Ok(row.map(|row| Self {
            bytes: unsigned(row.get(0)),
            last_part: unsigned(row.get(1)),
        }))
    }
}

/// Writes a piece behind the end, and returns where the output ends then.
///
/// # Errors
/// `Conflict` if it does not end there, or counts as complete.
pub(crate) async fn append(db: &Database, id: &OutputId, end: End, piece: &[u8]) -> Result<End, StoreError> {
    retrying(|| async { append_in(&mut db.session("write to an output").await?, id, end, piece).await }).await
}

/// As [`append`], within a transaction.
pub(crate) async fn append_in(session: &mut Session, id: &OutputId, end: End, piece: &[u8]) -> Result<End, StoreError> {
    let room = usize::try_from(HEAD_BYTES.saturating_sub(end.bytes)).unwrap_or(0);
    let (head, rest) = piece.split_at(room.min(piece.len()));
    let place = end.bytes + head.len() as u64;
    let last_length = end.bytes.saturating_sub(end.last_part);
    let grows = end.last_part > 0 && last_length + rest.len() as u64 <= SHORT_PART_BYTES;
    let (longer, rest) = if grows {
        (rest, &rest[rest.len()..])
    } else {
        (&rest[..0], rest)
    };
    let parts: Vec<&[u8]> = rest.chunks(PART_BYTES).collect();
    let starts: Vec<i64> = (0..parts.len())
        .map(|at| signed(place + (at * PART_BYTES) as u64))
        .collect();
    let next = End {
        bytes: end.bytes + piece.len() as u64,
        last_part: starts.last().map_or(end.last_part, |start| unsigned(*start)),
    };
    let sql = format!(
        "WITH grown AS (UPDATE outputs SET bytes = $3, written = {NOW},
                 head = CASE WHEN octet_length($4::bytea) = 0 THEN head ELSE head || $4 END
             WHERE id = $1 AND bytes = $2 AND NOT complete RETURNING number),
         longer AS (UPDATE output_parts SET content = content || $5::bytea FROM grown
             WHERE output = grown.number AND start = $6 AND octet_length($5::bytea) > 0),
         added AS (INSERT INTO output_parts (output, start, content)
             SELECT grown.number, one.start, one.content
             FROM grown, unnest($7::bigint[], $8::bytea[]) AS one (start, content))
         SELECT TRUE FROM grown"
    );
    let row = session
        .row(
            &sql,
            values![
                key(id.as_str()),
                signed(end.bytes),
                signed(next.bytes),
                head,
                longer,
                signed(end.last_part),
                starts,
                parts
            ],
        )
        .await?;
    match row {
        Some(_) => Ok(next),
        None => Err(StoreError::Conflict(format!(
            "output {id} does not end at {}",
            end.bytes
        ))),
    }
}

/// Returns at most `max` bytes from `offset` on; fewer only at the end. None if there is no such output.
pub(crate) async fn read(db: &Database, id: &OutputId, offset: u64, max: usize) -> Result<Option<Vec<u8>>, StoreError> {
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
    let sql = "SELECT start, content FROM output_parts WHERE output = $1 AND start > $2 AND start < $3 ORDER BY start";
    let lowest = signed(from).saturating_sub(PART_BYTES as i64);
    for part in db.rows(what, sql, values![number, lowest, signed(until)]).await? {
        let (start, content): (u64, &[u8]) = (unsigned(part.get(0)), part.get(1));
        let within = |place: u64| {
            usize::try_from(place.saturating_sub(start))
                .unwrap_or(usize::MAX)
                .min(content.len())
        };
        read.extend_from_slice(&content[within(from)..within(until).max(within(from))]);
    }
    // It was deleted between the two statements if not all is there.
    let is_whole = read.len() as u64 == until - offset;
    Ok(Some(read).filter(|_| is_whole))
}
