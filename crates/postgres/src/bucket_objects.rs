//! The rows of what is in the bucket.
//!
//! *Invariant:* there is no object without a row, and no part of an output without its object. A row is there before its object is put,
//! with a moment from which on it may be deleted; the transaction that makes the object a part takes that moment away, together
//! with the pieces that it stands for. Who deletes claims the row first, so that nobody makes a part of it any more; the row goes
//! after the object. Names are never used twice. So whoever stops in the middle leaves what the next sweep deletes.
//!
//! The moments are those of the database's clock; those of the bucket matter only for objects that have lost their rows.

use std::time::Duration;

use toolgate_model::OutputId;
use toolgate_store::StoreError;
use toolgate_store::codec::{failed, signed, unsigned};
use toolgate_store::ledger::Hold;
use uuid::Uuid;

use crate::bucket::Bucket;
use crate::bucket_moves::Moves;
use crate::connection::{Database, Session};
use crate::parts::NOW;
use crate::text::key;
use crate::values::values;

/// What the names of all objects begin with.
const FOLDER: &str = "outputs";

/// How long an object may take from its row until it is a part, in seconds: far longer than anybody may take to put it.
pub(crate) const PENDING_SECONDS: i64 = 3_600;

/// Objects that are deleted at once: as many as one request of S3 can name.
const OBJECTS_PER_DELETE: i64 = 1_000;

/// What is in the bucket of the outputs of a database.
pub(crate) struct Objects {
    pub(crate) bucket: Bucket,
    /// What the names of this database's objects begin with: two may share a bucket.
    folder: String,
    pub(crate) moves: Moves,
}

/// A part of an output that is to be an object, or is one.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Hexadecimal.
    pub(crate) sha256: String,
}

/// What became of an object that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is a part of its output now, or was one already.
    Now,
    /// The part is there by another object of the same bytes.
    Twice,
    /// There is no such output.
    Gone,
    /// The part is there, with other bytes.
    Differs,
    /// The output ends before the part begins, or has ended within it.
    Elsewhere,
    /// Its row is not there any more: it took too long.
    Late,
}

impl Objects {
    /// Uses a bucket for the outputs of a database.
    pub(crate) async fn new(bucket: Bucket, db: &Database) -> Result<Self, StoreError> {
        let what = "name the objects of the bucket";
        let row = db.row(what, "SELECT chain FROM ends", values![]).await?;
        let row = row.ok_or_else(|| failed(what, "the database has no audit yet"))?;
        Ok(Self {
            bucket,
            folder: format!("{FOLDER}/{}", row.get::<_, &str>(0)),
            moves: Moves::default(),
        })
    }

    /// Makes the name of an object, which no other one has.
    pub(crate) fn name(&self, output: &OutputId, start: u64) -> String {
        let random = Uuid::new_v4().simple().to_string();
        format!("{}/{output}/{start:012}-{random}", self.folder)
    }

    /// Says whether a name may be one of an output's objects.
    pub(crate) fn is_name_of(&self, name: &str, output: &OutputId) -> bool {
        name.strip_prefix(&self.folder)
            .and_then(|rest| rest.strip_prefix('/')?.strip_prefix(output.as_str())?.strip_prefix('/'))
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
    }

    /// Deletes what may be deleted, and returns how many objects that was; fewer than there are if the bucket is away.
    pub(crate) async fn delete_due(&self, db: &Database) -> Result<usize, StoreError> {
        // The claim is of no time: a clock that is put back takes none away.
        let claim = "UPDATE objects SET due = '-infinity' WHERE name IN
                         (SELECT name FROM objects WHERE due <= clock_timestamp() ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED)
                     RETURNING name";
        let forget = "DELETE FROM objects WHERE name = ANY ($1) AND due = '-infinity' RETURNING TRUE";
        let (what, mut gone) = ("delete the objects of old outputs", 0);
        loop {
            let claimed = db.rows(what, claim, values![OBJECTS_PER_DELETE]).await?;
            if claimed.is_empty() {
                return Ok(gone);
            }
            let names: Vec<String> = claimed.iter().map(|row| row.get(0)).collect();
            self.bucket.delete(&names).await?;
            gone += db.rows(what, forget, values![names]).await?.len();
        }
    }

    /// Gives rows to objects that have none, and were put before `age` ago, so that they are deleted: the database has been put back
    /// to an earlier state, or somebody has put them there. Returns how many there were.
    pub(crate) async fn find_strays(&self, db: &Database, age: Duration) -> Result<usize, StoreError> {
        let sql = "INSERT INTO objects (name, due) SELECT name, '-infinity' FROM unnest($1::text[]) AS one (name)
                   WHERE NOT EXISTS (SELECT FROM objects WHERE objects.name = one.name)
                   ON CONFLICT (name) DO NOTHING RETURNING TRUE";
        let (mut pages, mut strays) = (self.bucket.list(&self.folder, age), 0);
        while let Some(names) = pages.next().await? {
            strays += db.rows("look for stray objects", sql, values![names]).await?.len();
        }
        Ok(strays)
    }
}

/// Makes an object that was put a part of its output, in place of the pieces that the database has of it. For a run only of an output
/// that it writes there and has not ended; and the output grows if it is shorter.
pub(crate) async fn keep(
    session: &mut Session,
    output: &OutputId,
    object: &Object,
    hold: Option<&Hold>,
) -> Result<Kept, StoreError> {
    let sql = "SELECT number, bytes, complete FROM outputs
               WHERE id = $1 AND workspace = coalesce($2, workspace) AND instance = coalesce($3, instance) FOR UPDATE";
    let workspace = hold.map(|hold| key(&hold.workspace));
    let run = hold.map(|hold| key(hold.run.as_str()));
    let row = session.row(sql, values![key(output.as_str()), workspace, run]).await?;
    let Some(row) = row else { return Ok(Kept::Gone) };
    let (number, bytes, complete): (i64, u64, bool) = (row.get(0), unsigned(row.get(1)), row.get(2));
    let (start, end) = (signed(object.start), signed(object.start + object.bytes));
    let sql = "SELECT name, sha256 FROM objects WHERE output = $1 AND start = $2 AND due IS NULL";
    if let Some(row) = session.row(sql, values![number, start]).await? {
        let (name, sha256): (&str, Option<&str>) = (row.get(0), row.get(1));
        return Ok(match sha256 {
            _ if name == object.name => Kept::Now,
            Some(same) if same == object.sha256 => Kept::Twice,
            Some(_) | None => Kept::Differs,
        });
    }
    let is_within = bytes >= object.start + object.bytes;
    let may_grow = hold.is_some() && bytes >= object.start;
    if hold.is_some() && complete || !is_within && !may_grow {
        return Ok(Kept::Elsewhere);
    }
    let sql = "UPDATE objects SET due = NULL, sha256 = $5
               WHERE name = $1 AND output = $2 AND start = $3 AND bytes = $4 AND coalesce(sha256, $5) = $5
                   AND due > clock_timestamp() RETURNING TRUE";
    let length = signed(object.bytes);
    let values = values![object.name, number, start, length, object.sha256];
    if session.row(sql, values).await?.is_none() {
        return Ok(Kept::Late);
    }
    let sql = "DELETE FROM output_parts WHERE output = $1 AND start >= $2 AND start < $3";
    session.run(sql, values![number, start, end]).await?;
    if !is_within {
        let sql = format!("UPDATE outputs SET bytes = $2, written = {NOW} WHERE number = $1");
        session.run(&sql, values![number, end]).await?;
    }
    Ok(Kept::Now)
}
