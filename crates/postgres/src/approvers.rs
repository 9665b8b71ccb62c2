//! What those listen to who may answer prompts, at each process that shares the database.
//!
//! *Invariant:* a row for each process with approvers, no longer there than the row of its run in `instances`. Who is dead has none.

use toolgate_store::codec::{decode, encode};
use toolgate_store::{Interest, StoreError};

use crate::connection::Database;
use crate::instances::{Instances, is_dead};
use crate::values::values;

/// Replaces what is known of the approvers at this run.
pub(crate) async fn attend(db: &Database, instances: &Instances, interests: &[Interest]) -> Result<(), StoreError> {
    let what = "say who may answer prompts here";
    if interests.is_empty() {
        let sql = "DELETE FROM approvers WHERE instance = $1";
        return db.rows(what, sql, values![instances.id]).await.map(drop);
    }
    let sql = "INSERT INTO approvers (instance, interests) VALUES ($1, $2)
               ON CONFLICT (instance) DO UPDATE SET interests = excluded.interests";
    let interests = encode("what approvers listen to", &interests)?;
    db.rows(what, sql, values![instances.id, interests]).await.map(drop)
}

/// Returns what approvers at other runs listen to.
pub(crate) async fn elsewhere(db: &Database, instances: &Instances) -> Result<Vec<Interest>, StoreError> {
    beside(db, instances, &instances.id).await
}

/// Returns what approvers at all runs listen to.
pub(crate) async fn all(db: &Database, instances: &Instances) -> Result<Vec<Interest>, StoreError> {
    beside(db, instances, "").await
}

/// Reads what approvers listen to who are not at one run. What a run has said that is not understood here counts for nothing.
async fn beside(db: &Database, instances: &Instances, run: &str) -> Result<Vec<Interest>, StoreError> {
    let sql = format!(
        "SELECT interests FROM approvers WHERE instance <> $1 AND NOT {} ORDER BY instance",
        is_dead("approvers.instance", "$2")
    );
    let rows = db
        .rows("look for approvers", &sql, values![run, instances.silent()])
        .await?;
    let read = |row: &tokio_postgres::Row| decode::<Vec<Interest>>("what approvers listen to", row.get(0));
    Ok(rows.iter().flat_map(|row| read(row).unwrap_or_default()).collect())
}
