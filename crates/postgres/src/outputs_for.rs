//! Outputs that runs without a database write.
//!
//! *Invariant:* a piece is stored behind the fence, once, and only where its writer believes that the output ends. What is said
//! again is compared with what is there.

use bytes::Bytes;
use toolgate_model::{OutputId, Timestamp};
use toolgate_store::codec::{encode, signed, unsigned};
use toolgate_store::ledger::Hold;
use toolgate_store::output::is_name;
use toolgate_store::{OutputInfo, OutputOwner, StoreError};

use crate::calls;
use crate::connection::{Session, retrying};
use crate::fence::{self, Fence};
use crate::outputs::{Origin, columns, info};
use crate::parts::{self, End, NOW};
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

/// Appends what is not there yet of a piece that begins at `offset`.
pub(crate) async fn append(
    shared: &Shared,
    hold: &Hold,
    id: &OutputId,
    offset: u64,
    piece: &Bytes,
) -> Result<(), StoreError> {
    // Before anything is compared: whose bytes are another one's does not learn what they are.
    must_be_own(
        &mut shared.db.session("write to an output").await?,
        &Fence::new(hold),
        id,
    )
    .await?;
    for _ in 0..ATTEMPTS {
        let end = End::read(&shared.db, id).await?.ok_or_else(|| unknown(id))?;
        let Some(next) = append_at(shared, hold, id, (offset, piece), end).await? else {
            continue;
        };
        if let Some(objects) = &shared.objects {
            objects.moves.grew(id, end.bytes, next.bytes).await;
        }
        return Ok(());
    }
    Err(StoreError::Unavailable(format!("output {id} grows all the time")))
}

/// As [`append`], of an output that ends there; none if it does not any more: the same piece was still on its way.
async fn append_at(
    shared: &Shared,
    hold: &Hold,
    id: &OutputId,
    (offset, piece): (u64, &Bytes),
    end: End,
) -> Result<Option<End>, StoreError> {
    let fence = Fence::new(hold);
    let elsewhere = || StoreError::Conflict(format!("output {id} ends at {}, not at {offset}", end.bytes));
    let there = end.bytes.checked_sub(offset).ok_or_else(elsewhere)?;
    let there = usize::try_from(there).unwrap_or(usize::MAX).min(piece.len());
    let rest = &piece[there..];
    // More is there than ends with this piece: its beginning must be the same, and its end, too.
    let stored = match there {
        0 => Vec::new(),
        _ => shared.read_output(id, offset, there).await?.to_vec(),
    };
    if stored != piece[..there] || (there < piece.len() && offset + there as u64 != end.bytes) {
        return Err(elsewhere());
    }
    retrying(|| async {
        let mut session = shared.db.begin("write to an output").await?;
        let appended = async {
            fence.hold(&mut session).await?;
            // Held until the end, so that nobody else appends meanwhile.
            let now = must_be_own(&mut session, &fence, id).await?;
            match now == end.bytes {
                true if rest.is_empty() => Ok(Some(end)),
                true => parts::append_in(&mut session, id, end, rest).await.map(Some),
                false => Ok(None),
            }
        }
        .await;
        session.end(appended).await
    })
    .await
}

/// Makes sure that an output is the run's, holds it until the transaction is over, and returns where it ends.
async fn must_be_own(session: &mut Session, fence: &Fence, id: &OutputId) -> Result<u64, StoreError> {
    let sql = "SELECT instance, bytes FROM outputs WHERE id = $1 AND workspace = $2 FOR NO KEY UPDATE";
    let row = session.row(sql, values![key(id.as_str()), fence.workspace]).await?;
    let row = row.ok_or_else(|| unknown(id))?;
    match row.get::<_, &str>(0) == fence.run {
        true => Ok(unsigned(row.get(1))),
        false => Err(StoreError::Conflict(format!("output {id} is written by another run"))),
    }
}

/// Ends an output.
pub(crate) async fn finish(shared: &Shared, hold: &Hold, id: &OutputId, lines: u64) -> Result<OutputInfo, StoreError> {
    let fence = Fence::new(hold);
    let sql = format!(
        "UPDATE outputs SET complete = TRUE, cut = cut AND complete, lines = coalesce(lines, $2) WHERE id = $1 RETURNING {}",
        columns("$3")
    );
    let silent = shared.instances.silent();
    let finished = retrying(|| async {
        let mut session = shared.db.begin("complete an output").await?;
        let finished = async {
            fence.hold(&mut session).await?;
            must_be_own(&mut session, &fence, id).await?;
            let (name, lines) = (key(id.as_str()), signed(lines));
            let values = values![name, lines, silent];
            let row = session.row(&sql, values).await?;
            row.as_ref().map(info).ok_or_else(|| unknown(id))?
        }
        .await;
        session.end(finished).await
    })
    .await?;
    if let Some(objects) = &shared.objects {
        objects.moves.ended(id, finished.bytes);
    }
    Ok(finished)
}
