//! Outputs that runs without a database write.
//!
//! *Invariant:* a piece is stored behind the fence, once, and only where its writer believes that the output ends: one statement says
//! all that, and takes one round trip. What is said again is compared with what is there.

use bytes::Bytes;
use toolgate_model::{OutputId, Timestamp};
use toolgate_store::codec::{encode, signed, unsigned};
use toolgate_store::ledger::Hold;
use toolgate_store::output::is_name;
use toolgate_store::{OutputInfo, OutputOwner, StoreError};

use crate::calls;
use crate::fence::{self, Fence, Held};
use crate::outputs::{Origin, columns, info};
use crate::parts::{self, NOW};
use crate::store::Shared;
use crate::text::key;
use crate::values::values;

/// How often it is looked again where an output ends that grows meanwhile.
const ATTEMPTS: usize = 8;

fn unknown(id: &OutputId) -> StoreError {
    StoreError::NotFound(format!("output {id}"))
}

/// Begins an output, unless the run has begun it before.
pub(crate) async fn begin(
    shared: &Shared,
    hold: &Hold,
    id: &OutputId,
    owner: OutputOwner,
    created: Timestamp,
) -> Result<(), StoreError> {
    if !is_name(id.as_str()) {
        return Err(StoreError::Conflict(format!("{id} is no name of an output")));
    }
    let call = calls::get(&shared.db, &owner.call).await?;
    let is_of_another = call.is_some_and(|call| call.origin.workspace != hold.workspace);
    if owner.workspace != hold.workspace || is_of_another {
        return Err(StoreError::NotFound(format!("call {}", owner.call)));
    }
    let (fence, what) = (Fence::new(hold), "begin an output");
    let OutputOwner {
        call,
        session,
        workspace,
    } = owner;
    let (name, call_key, session_key) = (key(id.as_str()), key(call.as_str()), key(session.as_str()));
    let created = created.millis();
    let origin = Origin {
        call,
        session,
        workspace,
    };
    let origin = encode("the owner of an output", &origin)?;
    let sql = format!(
        "begun AS (INSERT INTO outputs (id, instance, call, session, workspace, origin, created, written)
             SELECT $1, $2, $3, $4, $5, $6, $7, {NOW} FROM held ON CONFLICT (id) DO NOTHING RETURNING TRUE)
         SELECT FROM begun"
    );
    let values = values![name, fence.run, call_key, session_key, fence.workspace, origin, created];
    if fence::row_of(&shared.db, what, Some(&fence), &sql, values)
        .await?
        .is_some()
    {
        return Ok(());
    }
    fence.check(&shared.db).await?;
    let sql = "SELECT FROM outputs WHERE id = $1 AND instance = $2 AND origin = $3";
    let row = shared.db.row(what, sql, values![name, fence.run, origin]).await?;
    let taken = || StoreError::Conflict(format!("output {id} is another one's"));
    row.map(drop).ok_or_else(taken)
}

/// Appends what is not there yet of a piece that begins at `offset`. It is looked what is there only when nothing could be written: a piece
/// is rarely said twice.
pub(crate) async fn append(
    shared: &Shared,
    hold: &Hold,
    id: &OutputId,
    offset: u64,
    piece: &Bytes,
) -> Result<(), StoreError> {
    let (fence, mut known) = (Fence::new(hold), 0);
    for _ in 0..ATTEMPTS {
        let (from, rest) = (offset + known as u64, &piece[known..]);
        if !rest.is_empty() && parts::append(&shared.db, &Held::new(Some(&fence)), id, from, rest).await? {
            if let Some(objects) = &shared.objects {
                objects.moves.grew(id, from, from + rest.len() as u64).await;
            }
            return Ok(());
        }
        known = known_of(shared, &fence, id, offset, piece).await?;
        if known == piece.len() {
            return Ok(());
        }
    }
    Err(StoreError::Unavailable(format!("output {id} grows all the time")))
}

/// Returns how many bytes of a piece are there.
///
/// # Errors
/// The piece cannot be gone on with.
async fn known_of(
    shared: &Shared,
    fence: &Fence,
    id: &OutputId,
    offset: u64,
    piece: &[u8],
) -> Result<usize, StoreError> {
    // Before anything is compared: whose bytes are another one's does not learn what they are.
    let (end, is_complete) = own(shared, fence, id).await?;
    let elsewhere = || StoreError::Conflict(format!("output {id} ends at {end}, not at {offset}"));
    let known = end.checked_sub(offset).ok_or_else(elsewhere)?;
    let known = usize::try_from(known).unwrap_or(usize::MAX).min(piece.len());
    if known > 0 && shared.read_output(id, offset, known).await? != piece[..known] {
        return Err(elsewhere());
    }
    match is_complete && known < piece.len() {
        true => Err(StoreError::Conflict(format!("output {id} has ended"))),
        false => Ok(known),
    }
}

/// Makes sure that a run still has its workspace and that an output is the run's. Returns where that ends, and whether it has ended.
async fn own(shared: &Shared, fence: &Fence, id: &OutputId) -> Result<(u64, bool), StoreError> {
    fence.check(&shared.db).await?;
    let sql = "SELECT instance, bytes, complete FROM outputs WHERE id = $1 AND workspace = $2";
    let (what, name) = ("look where an output ends", key(id.as_str()));
    let row = shared.db.row(what, sql, values![name, fence.workspace]).await?;
    let row = row.ok_or_else(|| unknown(id))?;
    match row.get::<_, &str>(0) == fence.run {
        true => Ok((unsigned(row.get(1)), row.get(2))),
        false => Err(StoreError::Conflict(format!("output {id} is written by another run"))),
    }
}

/// Ends an output.
pub(crate) async fn finish(shared: &Shared, hold: &Hold, id: &OutputId, lines: u64) -> Result<OutputInfo, StoreError> {
    let fence = Fence::new(hold);
    let sql = format!(
        "finished AS (UPDATE outputs SET complete = TRUE, cut = cut AND complete, lines = coalesce(lines, $2) FROM held
             WHERE id = $1 AND outputs.workspace = held.workspace AND instance = $3 RETURNING {})
         SELECT * FROM finished",
        columns("$4")
    );
    let (name, lines, silent) = (key(id.as_str()), signed(lines), shared.instances.silent());
    let values = values![name, lines, fence.run, silent];
    let row = fence::row_of(&shared.db, "complete an output", Some(&fence), &sql, values).await?;
    let Some(row) = row else {
        own(shared, &fence, id).await?;
        return Err(unknown(id));
    };
    let finished = info(&row)?;
    if let Some(objects) = &shared.objects {
        objects.moves.ended(id, finished.bytes);
    }
    Ok(finished)
}
