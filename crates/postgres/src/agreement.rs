//! What all who have the database should have the same in their configurations.
//!
//! *Invariant:* it is said where they differ, never refused: while a fleet is changed one after another they do, and those that come
//! must start before the others go.

use std::collections::BTreeMap;

use toolgate_store::StoreError;
use toolgate_store::codec::{decode, encode};

use crate::connection::Database;
use crate::values::values;

/// Tells the others what this run has, and returns what those that live have else: the key, what it is here, and what it is there.
pub(crate) async fn compare(
    db: &Database,
    run: &str,
    own: &BTreeMap<String, String>,
) -> Result<Vec<(String, String, String)>, StoreError> {
    let what = "compare configurations";
    let told = encode(what, own)?;
    // The one of two that comes second sees the other: each tells first.
    let sql = "UPDATE instances SET agreed = $2 WHERE id = $1";
    db.rows(what, sql, values![run, told]).await?;
    let sql = "SELECT DISTINCT agreed FROM instances WHERE id <> $1 AND agreed IS NOT NULL AND lease_until > clock_timestamp()";
    let mut different = Vec::new();
    for row in db.rows(what, sql, values![run]).await? {
        let there: BTreeMap<String, String> = decode(what, row.get(0))?;
        for (key, here) in own {
            // A release that does not know the key says nothing of it.
            let Some(there) = there.get(key).filter(|there| *there != here) else {
                continue;
            };
            different.push((key.clone(), here.clone(), there.clone()));
        }
    }
    different.sort();
    different.dedup();
    Ok(different)
}
