//! What those listen to who may answer prompts, at each process that shares the database.
//!
//! *Invariant:* who has workspaces hears of the sessions and clients of their unfinished calls, and of no others that an approver may have
//! named. A row for each process with approvers, no longer there than the row of its run in `instances`. Who is dead has none.

use std::collections::HashSet;

use toolgate_model::{SessionId, WorkspaceSet};
use toolgate_store::codec::{decode, encode};
use toolgate_store::{Interest, StoreError};

use crate::connection::Database;
use crate::instances::{Instances, is_dead};
use crate::text::{key, plain};
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

/// Returns what of the unfinished calls of workspaces approvers at all runs listen to.
pub(crate) async fn of(
    db: &Database,
    instances: &Instances,
    workspaces: &[String],
) -> Result<Vec<Interest>, StoreError> {
    let names = WorkspaceSet::of_names(workspaces.iter().cloned());
    let mut all = beside(db, instances, "").await?;
    for interest in &mut all {
        interest.workspaces = interest.workspaces.and(&names);
    }
    all.retain(|interest| !interest.workspaces.is_empty());
    if all.iter().any(names_some) {
        let unfinished = unfinished(db, workspaces).await?;
        all.retain_mut(|interest| narrow(interest, &unfinished));
    }
    let mut different = Vec::with_capacity(all.len());
    for interest in all {
        if !different.contains(&interest) {
            different.push(interest);
        }
    }
    Ok(different)
}

/// The sessions and the clients of calls.
#[derive(Default)]
struct Unfinished {
    sessions: HashSet<SessionId>,
    clients: HashSet<String>,
}

fn names_some(interest: &Interest) -> bool {
    !interest.sessions.is_empty() || !interest.clients.is_empty()
}

/// Leaves an interest in these calls only; says whether anything is left of it. One in all calls stays so.
fn narrow(interest: &mut Interest, unfinished: &Unfinished) -> bool {
    if !names_some(interest) {
        return true;
    }
    interest
        .sessions
        .retain(|session| unfinished.sessions.contains(session));
    interest.clients.retain(|client| unfinished.clients.contains(client));
    names_some(interest)
}

/// Finds of which sessions and clients the unfinished calls are of those who have these workspaces.
async fn unfinished(db: &Database, workspaces: &[String]) -> Result<Unfinished, StoreError> {
    // The list by itself: a record may be long, and the database reads no JSON that has a U+0000 in it.
    let sql = r#"SELECT DISTINCT coalesce(full_session, session),
                   substring(record FROM '"clients":(\[("([^"\\]|\\.)*",?)*\])')
               FROM workspaces JOIN calls ON calls.owner = workspaces.owner AND calls.workspace = workspaces.id
               WHERE workspaces.id = ANY ($1) AND calls.ended IS NULL"#;
    let keys: Vec<String> = workspaces.iter().map(|workspace| key(workspace)).collect();
    let rows = db.rows("look for the calls of workspaces", sql, values![keys]).await?;
    let mut found = Unfinished::default();
    for row in rows {
        found.sessions.insert(SessionId::new(plain(row.get(0))));
        let clients: Option<&str> = row.get(1);
        let clients = clients.map(|clients| decode::<Vec<String>>("the clients of a call", clients));
        found.clients.extend(clients.and_then(Result::ok).unwrap_or_default());
    }
    Ok(found)
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
