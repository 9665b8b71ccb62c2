//! Parts that runs put into the bucket which have neither its keys nor the database.
//!
//! *Invariant:* a run is allowed one object of one output that it writes in a workspace that it holds, of the bytes that it has named, for a short
//! time; the object becomes a part only if the run still holds the workspace in the same transaction, and the bucket has it.

use toolgate_model::OutputId;
use toolgate_store::StoreError;
use toolgate_store::codec::signed;
use toolgate_store::ledger::{Hold, PART_BYTES, Part, Upload};
use toolgate_store::output::is_name;

use crate::bucket_objects::{Kept, Object, PENDING_SECONDS, keep};
use crate::connection::retrying;
use crate::fence::Fence;
use crate::parts::is_start;
use crate::store::Shared;
use crate::text::key;
use crate::values::values;

/// Objects that may be on their way of one output.
const MAX_PENDING: i64 = 32;

/// Those of one workspace: nobody sees how much of them is in the bucket until they are parts, or too late for that.
const MAX_PENDING_OF_WORKSPACE: i64 = 256;

/// Those of one principal, however many workspaces it has.
const MAX_PENDING_OF_PRINCIPAL: i64 = 2_048;

/// How far behind the end of an output a part may begin: those before it are on their way.
const MAX_AHEAD: u64 = MAX_PENDING as u64 * PART_BYTES;

/// Behind this no part begins: places are numbers of the database, which have a sign, and the end of a part is one, too.
const LAST_START: u64 = i64::MAX as u64 - PART_BYTES;

/// Lets a run put a part of an output into the bucket: see [`toolgate_store::ledger::Ledger::presign_part`].
pub(crate) async fn presign(
    shared: &Shared,
    hold: &Hold,
    id: &OutputId,
    part: &Part,
) -> Result<Option<Upload>, StoreError> {
    let Some(objects) = &shared.objects else {
        return Ok(None);
    };
    let digest = digest_of(id, part)?;
    let name = objects.name(id, part.start);
    let what = "let a part be put";
    let sql = "INSERT INTO objects (name, output, start, bytes, sha256, due)
               SELECT $1, number, $2, $3, $4, clock_timestamp() + $5 * interval '1 second'
               FROM outputs WHERE id = $6 AND workspace = $7 AND instance = $8 AND NOT complete
                   AND $2 - bytes <= $10
                   AND (SELECT count(*) FROM objects WHERE output = number AND due > clock_timestamp()) < $9
                   AND (SELECT count(*) FROM (SELECT FROM objects JOIN outputs own ON own.number = objects.output
                       WHERE due > clock_timestamp() AND own.workspace = $7 LIMIT $11) AS few) < $11
                   AND (SELECT count(*) FROM (SELECT FROM objects JOIN outputs own ON own.number = objects.output
                       JOIN workspaces ON workspaces.id = own.workspace
                       WHERE due > clock_timestamp() AND principal = $12 LIMIT $13) AS few) < $13
               RETURNING TRUE";
    let fence = Fence::new(hold);
    let is_promised = retrying(|| async {
        let mut session = shared.db.begin(what).await?;
        let promised = async {
            fence.hold(&mut session).await?;
            let row = session
                .row(
                    sql,
                    values![
                        name,
                        signed(part.start),
                        signed(PART_BYTES),
                        part.sha256,
                        PENDING_SECONDS,
                        key(id.as_str()),
                        fence.workspace,
                        fence.run,
                        MAX_PENDING,
                        signed(MAX_AHEAD),
                        MAX_PENDING_OF_WORKSPACE,
                        fence.principal,
                        MAX_PENDING_OF_PRINCIPAL
                    ],
                )
                .await?;
            Ok(row.is_some())
        }
        .await;
        session.end(promised).await
    });
    if !is_promised.await? {
        return Err(StoreError::Conflict(format!(
            "no part of output {id} can be put: this run does not write it, it has ended, it is shorter by \
             more than {MAX_PENDING} parts, or so many are on their way ({MAX_PENDING_OF_WORKSPACE} of its workspace, \
             {MAX_PENDING_OF_PRINCIPAL} of all workspaces of its worker's identity)"
        )));
    }
    let expires_in = objects.bucket.upload_limit;
    let (url, headers) = objects.bucket.presign(&name, &digest, expires_in).await?;
    Ok(Some(Upload {
        object: name,
        url,
        headers,
        expires_in,
    }))
}

/// Makes what was put a part of its output: see [`toolgate_store::ledger::Ledger::record_part`].
pub(crate) async fn record(
    shared: &Shared,
    hold: &Hold,
    id: &OutputId,
    part: &Part,
    object: &str,
) -> Result<(), StoreError> {
    let refused = |why: &str| StoreError::Conflict(format!("the part at {} of output {id} {why}", part.start));
    let Some(objects) = &shared.objects else {
        return Err(refused("cannot be put: there is no bucket"));
    };
    digest_of(id, part)?;
    if !objects.is_name_of(object, id) {
        return Err(refused("is not named by this object"));
    }
    if objects.bucket.size(object).await? != Some(PART_BYTES) {
        return Err(refused("is not in the bucket as a whole: put it again"));
    }
    let object = Object {
        name: object.to_owned(),
        start: part.start,
        bytes: PART_BYTES,
        sha256: part.sha256.clone(),
    };
    let fence = Fence::new(hold);
    let kept = retrying(|| async {
        let mut session = shared.db.begin("record a part of an output").await?;
        let kept = async {
            fence.hold(&mut session).await?;
            keep(&mut session, id, &object, Some(hold)).await
        }
        .await;
        session.end(kept).await
    })
    .await?;
    match kept {
        Kept::Now | Kept::Twice => Ok(()),
        Kept::Gone => Err(StoreError::NotFound(format!("output {id}"))),
        Kept::Differs => Err(refused("is there already, with other bytes")),
        Kept::Elsewhere => Err(refused("is not where the output ends, or that has ended")),
        Kept::Late => Err(refused(
            "was asked for too long ago, or otherwise: ask again, and put it again",
        )),
    }
}

/// Reads the digest of a part that may be put.
fn digest_of(id: &OutputId, part: &Part) -> Result<Vec<u8>, StoreError> {
    let refused = |why: String| StoreError::Conflict(format!("output {id}: {why}"));
    if !is_name(id.as_str()) {
        return Err(StoreError::NotFound(format!("output {id}")));
    }
    if !is_start(part.start) || part.start > LAST_START {
        return Err(refused(format!("no part begins at {}", part.start)));
    }
    match hex::decode(&part.sha256) {
        Ok(digest) if digest.len() == 32 && part.sha256 == hex::encode(&digest) => Ok(digest),
        Ok(_) | Err(_) => Err(refused(format!("{:?} is no SHA-256 in lower case", part.sha256))),
    }
}
