//! What calls changed in files, and contents before and after.
//!
//! In a fleet a worker keeps these contents on the volume of its workspace, where a revert needs them anyway. The table here
//! makes the store whole by itself; so a content is bounded to [`MAX_BLOB_BYTES`].
//!
//! *Invariant:* a content that a change refers to stays, and so does one that is young enough for its change to be on the way.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio_postgres::Row;
use toolgate_model::{CallId, FileChange, FileVersion};
use toolgate_store::codec::{failed, signed, unsigned};
use toolgate_store::{Changes, StoreError};

use crate::connection::{Database, Session, retrying};
use crate::fence::{self, Fence};
use crate::partitions::place;
use crate::store::{PostgresStore, Shared};
use crate::text::key;
use crate::values::values;

/// The largest content that is kept.
pub const MAX_BLOB_BYTES: usize = 16 << 20;

/// Contents that one statement deletes.
const BLOBS_PER_DELETE: i64 = 256;

/// Deletes the contents that no change refers to, unless they are young.
pub(crate) async fn sweep(db: &Database) -> Result<(), StoreError> {
    let sql = "WITH gone AS (DELETE FROM blobs WHERE sha256 IN (SELECT sha256 FROM blobs
                   WHERE put < clock_timestamp() - interval '1 hour'
                       AND NOT EXISTS (SELECT FROM changes WHERE before_sha256 = blobs.sha256)
                       AND NOT EXISTS (SELECT FROM changes WHERE after_sha256 = blobs.sha256)
                   LIMIT $1 FOR UPDATE) RETURNING TRUE)
               SELECT count(*) FROM gone";
    loop {
        let row = db
            .row("delete contents that nobody needs", sql, values![BLOBS_PER_DELETE])
            .await?;
        if row.is_none_or(|row| row.get::<_, i64>(0) < BLOBS_PER_DELETE) {
            return Ok(());
        }
    }
}

fn change(row: &Row) -> FileChange {
    let path = |index: usize| PathBuf::from(OsString::from_vec(row.get(index)));
    FileChange {
        path: path(0),
        shown: path(1),
        before: version(row, 2),
        after: version(row, 5),
    }
}

fn version(row: &Row, first: usize) -> Option<FileVersion> {
    let mode: Option<i64> = row.get(first + 2);
    Some(FileVersion {
        sha256: row.get::<_, Option<String>>(first)?,
        bytes: unsigned(row.get::<_, Option<i64>>(first + 1)?),
        mode: mode.and_then(|mode| u32::try_from(mode).ok()),
    })
}

/// One side of all changes, by columns.
#[derive(Default)]
struct Side<'c> {
    digests: Vec<Option<&'c str>>,
    bytes: Vec<Option<i64>>,
    modes: Vec<Option<i64>>,
}

impl<'c> Side<'c> {
    fn of(versions: impl Iterator<Item = Option<&'c FileVersion>>) -> Self {
        let mut side = Self::default();
        for version in versions {
            side.digests.push(version.map(|version| version.sha256.as_str()));
            side.bytes.push(version.map(|version| signed(version.bytes)));
            side.modes.push(version.and_then(|version| version.mode).map(i64::from));
        }
        side
    }
}

#[async_trait]
impl Changes for PostgresStore {
    async fn put_blob(&self, bytes: Bytes) -> Result<String, StoreError> {
        let what = "keep a content";
        if bytes.len() > MAX_BLOB_BYTES {
            return Err(failed(
                what,
                format!("it has {} bytes, more than {MAX_BLOB_BYTES}", bytes.len()),
            ));
        }
        let sha256 = hex::encode(Sha256::digest(&bytes));
        // What is there already is made young again; only else are the bytes sent.
        let sql = "UPDATE blobs SET put = clock_timestamp() WHERE sha256 = $1 RETURNING TRUE";
        if self.shared.db.row(what, sql, values![sha256]).await?.is_none() {
            let sql = "INSERT INTO blobs (sha256, content, put) VALUES ($1, $2, clock_timestamp())
                       ON CONFLICT (sha256) DO UPDATE SET put = excluded.put";
            self.shared.db.rows(what, sql, values![sha256, &bytes[..]]).await?;
        }
        Ok(sha256)
    }

    async fn blob(&self, sha256: &str) -> Result<Option<Bytes>, StoreError> {
        let sql = "SELECT content FROM blobs WHERE sha256 = $1";
        let row = self.shared.db.row("read a content", sql, values![key(sha256)]).await?;
        Ok(row.map(|row| Bytes::from(row.get::<_, Vec<u8>>(0))))
    }

    async fn record_changes(&self, call: &CallId, changes: Vec<FileChange>) -> Result<(), StoreError> {
        record(&self.shared, call, changes, None).await
    }

    async fn changes(&self, call: &CallId) -> Result<Vec<FileChange>, StoreError> {
        let sql = "SELECT path, shown, before_sha256, before_bytes, before_mode, after_sha256, after_bytes, after_mode
                   FROM changes WHERE call = (SELECT number FROM call_days WHERE id = $1) ORDER BY number";
        let rows = self
            .shared
            .db
            .rows("read the changes of a call", sql, values![key(call.as_str())])
            .await?;
        Ok(rows.iter().map(change).collect())
    }
}

/// Adds to the changes of a call of this run, or of the one that has the workspace of the fence.
pub(crate) async fn record(
    shared: &Shared,
    call: &CallId,
    changes: Vec<FileChange>,
    fence: Option<&Fence>,
) -> Result<(), StoreError> {
    let unknown = || StoreError::NotFound(format!("call {call}"));
    let place = place(&shared.db, call).await?.ok_or_else(unknown)?;
    let recorded = retrying(|| async {
        let mut session = shared.db.session("record a change").await?;
        record_in(shared, &mut session, place, &changes, fence).await
    })
    .await?;
    if recorded {
        return Ok(());
    }
    fence::check(fence, &shared.db).await?;
    Err(of_another(call))
}

/// As [`record`], of changes that come behind so many others of the call: those of them that are not there yet.
pub(crate) async fn record_after(
    shared: &Shared,
    call: &CallId,
    before: u64,
    changes: Vec<FileChange>,
    fence: &Fence,
) -> Result<(), StoreError> {
    let unknown = || StoreError::NotFound(format!("call {call}"));
    let place = place(&shared.db, call).await?.ok_or_else(unknown)?;
    retrying(|| async {
        let mut session = shared.db.begin("record a change").await?;
        let recorded = async {
            fence.hold(&mut session).await?;
            // Waits for the same changes, should they still be on their way. A statement of its own, so that the next one sees them.
            let sql = "SELECT FROM calls WHERE day = $1 AND number = $2 FOR NO KEY UPDATE";
            session.rows(sql, values![place.0, place.1]).await?;
            let sql = "SELECT count(*) FROM changes WHERE call = $1";
            let row = session.row(sql, values![place.1]).await?;
            let there = row.map_or(0, |row| unsigned(row.get(0)));
            let Some(known) = there.checked_sub(before) else {
                let why = format!("a change of call {call} comes after {before}, and {there} are stored");
                return Err(StoreError::Conflict(why));
            };
            let known = usize::try_from(known).unwrap_or(usize::MAX).min(changes.len());
            match record_in(shared, &mut session, place, &changes[known..], Some(fence)).await? {
                true => Ok(()),
                false => Err(of_another(call)),
            }
        }
        .await;
        session.end(recorded).await
    })
    .await
}

fn of_another(call: &CallId) -> StoreError {
    StoreError::Conflict(format!("call {call} belongs to another instance"))
}

/// Adds to the changes of a call; false if it belongs to another run, or the fence does not hold.
async fn record_in(
    shared: &Shared,
    session: &mut Session,
    (day, number): (i64, i64),
    changes: &[FileChange],
    fence: Option<&Fence>,
) -> Result<bool, StoreError> {
    let bytes = |path: fn(&FileChange) -> &Path| -> Vec<&[u8]> {
        changes
            .iter()
            .map(|change| path(change).as_os_str().as_bytes())
            .collect()
    };
    let (paths, shown) = (bytes(|change| &change.path), bytes(|change| &change.shown));
    let before = Side::of(changes.iter().map(|change| change.before.as_ref()));
    let after = Side::of(changes.iter().map(|change| change.after.as_ref()));
    // The call stays this run's until the changes are there: who has taken it over goes by what is recorded.
    let sql = "place AS (SELECT day, number FROM {held, }calls WHERE day = $1 AND number = $10 AND owner = $11
                       {AND calls.workspace = held.workspace }FOR SHARE OF calls),
               added AS (INSERT INTO changes (day, call, path, shown, before_sha256, before_bytes, before_mode,
                                              after_sha256, after_bytes, after_mode)
                   SELECT place.day, place.number, one.path, one.shown, one.b, one.bb, one.bm, one.a, one.ab, one.am
                   FROM place, unnest($2::bytea[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
                                      $8::bigint[], $9::bigint[])
                       WITH ORDINALITY AS one (path, shown, b, bb, bm, a, ab, am, place)
                   ORDER BY one.place)
               SELECT FROM place";
    let owner = fence.map_or(&shared.instances.id, |fence| &fence.run);
    let row = fence::row(
        session,
        fence,
        sql,
        values![
            day,
            paths,
            shown,
            before.digests,
            before.bytes,
            before.modes,
            after.digests,
            after.bytes,
            after.modes,
            number,
            owner.as_str()
        ],
    )
    .await?;
    Ok(row.is_some())
}
