//! What is missing of the outputs of calls that are ended because their run died: their logs may tell of more than was stored.
//!
//! *Invariant:* nothing is changed here. What a dead run had printed and told nobody of is not known, so this is the least that is missing.

use std::collections::HashMap;

use toolgate_model::{CallEvent, EventKind, OutputId};
use toolgate_store::StoreError;
use toolgate_store::codec::{decode, unsigned};

use crate::connection::Session;
use crate::text::{key, plain};
use crate::values::values;

/// So many of the last batches of a log are looked through for what it tells of its output.
const BATCHES: i64 = 8;

/// Bytes of a batch that is looked at: what only tells of output is short.
const BATCH_BYTES: i64 = 64 << 10;

/// Returns the end of the output that a batch tells of last.
fn told_by(batch: &str) -> Option<(OutputId, u64)> {
    let events: Vec<Option<CallEvent>> = decode("events", batch).ok()?;
    events.into_iter().rev().flatten().find_map(|event| match event.kind {
        EventKind::Output { output, offset, length } => Some((output, offset + length)),
        EventKind::Pending { .. }
        | EventKind::Running { .. }
        | EventKind::Metadata { .. }
        | EventKind::Waiting { .. }
        | EventKind::Resumed { .. }
        | EventKind::Child { .. }
        | EventKind::Listening { .. }
        | EventKind::Warning { .. }
        | EventKind::Ended(_) => None,
    })
}

/// Returns how many bytes are missing that the logs of calls tell of, by the numbers of the calls; calls of which nothing is missing have
/// none. They are named by their days and numbers.
pub(crate) async fn missing(session: &mut Session, calls: &[(i64, i64)]) -> Result<HashMap<i64, u64>, StoreError> {
    if calls.is_empty() {
        return Ok(HashMap::new());
    }
    let (days, numbers): (Vec<i64>, Vec<i64>) = calls.iter().copied().unzip();
    let sql = "SELECT one.number, few.batch FROM unnest($1::bigint[], $2::bigint[]) AS one (day, number)
               CROSS JOIN LATERAL (SELECT last, batch FROM events WHERE day = one.day AND call = one.number
                   ORDER BY last DESC LIMIT $3) AS few
               WHERE octet_length(few.batch) <= $4 ORDER BY one.number, few.last DESC";
    let rows = session.rows(sql, values![days, numbers, BATCHES, BATCH_BYTES]).await?;
    let mut told: HashMap<i64, (OutputId, u64)> = HashMap::new();
    for row in &rows {
        let number = row.get(0);
        if !told.contains_key(&number)
            && let Some(end) = told_by(row.get(1))
        {
            told.insert(number, end);
        }
    }
    let ids: Vec<String> = told.values().map(|(output, _)| key(output.as_str())).collect();
    let rows = session
        .rows("SELECT id, bytes FROM outputs WHERE id = ANY ($1)", values![ids])
        .await?;
    let kept: HashMap<String, u64> = rows
        .iter()
        .map(|row| (plain(row.get(0)), unsigned(row.get(1))))
        .collect();
    let missing = told.into_iter().map(|(number, (output, end))| {
        let kept = kept.get(output.as_str()).copied().unwrap_or_default();
        (number, end.saturating_sub(kept))
    });
    Ok(missing.filter(|(_, bytes)| *bytes > 0).collect())
}
