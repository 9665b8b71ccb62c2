//! Standing approvals: one row each, whose uses are counted while it is held.
//!
//! *Invariant:* whether one has ended by time is judged by the clock of the database alone: processes need not agree about the time.

use std::collections::BTreeSet;

use tokio_postgres::Row;
use toolgate_model::{Grant, GrantId, GrantReach, InstanceId, Timestamp};
use toolgate_store::StoreError;
use toolgate_store::codec::{decode, encode};

use crate::connection::{Database, Session, retrying};
use crate::instances::is_dead;
use crate::parts::NOW;
use crate::text::key;
use crate::values::values;

/// A grant of a session stays for so long, even if no call of it is found: one may be on its way.
const YOUNG_MILLIS: i64 = 3_600_000;

/// The owner of the grants that outlast any run.
const NOBODY: &str = "";

fn read(row: &Row) -> Result<Grant, StoreError> {
    decode("a grant", row.get(0))
}

/// What [`read_at`] reads.
fn content_and_now() -> String {
    format!("content, {NOW}")
}

/// Reads a grant and the present moment.
fn read_at(row: &Row) -> Result<(Grant, Timestamp), StoreError> {
    Ok((read(row)?, Timestamp(row.get(1))))
}

/// Reads grants, those left out that have ended.
fn read_standing(rows: &[Row]) -> Result<Vec<Grant>, StoreError> {
    let mut standing = Vec::with_capacity(rows.len());
    for row in rows {
        let (grant, now) = read_at(row)?;
        if !grant.is_over(now) {
            standing.push(grant);
        }
    }
    Ok(standing)
}

fn owners(owner: &InstanceId) -> Vec<String> {
    vec![NOBODY.to_owned(), key(owner.as_str())]
}

/// Returns the grants that hold for a run of the service besides those that are known.
pub(crate) async fn others(
    session: &mut Session,
    owner: &InstanceId,
    known: &BTreeSet<GrantId>,
) -> Result<Vec<Grant>, StoreError> {
    let known: Vec<String> = known.iter().map(|id| key(id.as_str())).collect();
    let columns = content_and_now();
    let sql = format!("SELECT {columns} FROM grants WHERE owner = ANY ($1) AND NOT id = ANY ($2) ORDER BY number");
    read_standing(&session.rows(&sql, values![owners(owner), known]).await?)
}

/// Stores a new grant.
pub(crate) async fn add(session: &mut Session, grant: &Grant) -> Result<(), StoreError> {
    let owner = match grant.scope.reach.outlasts_the_run() {
        true => NOBODY.to_owned(),
        false => key(grant.owner.as_str()),
    };
    let sql = "INSERT INTO grants (id, owner, content) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
    let (id, content) = (key(grant.id.as_str()), encode("a grant", grant)?);
    match session.run(sql, values![id, owner, content]).await? {
        0 => Err(StoreError::Conflict(format!("grant {} exists", grant.id))),
        _ => Ok(()),
    }
}

/// Holds grants until the transaction ends, in the order of their ids.
pub(crate) async fn hold(session: &mut Session, ids: impl Iterator<Item = &GrantId>) -> Result<(), StoreError> {
    let ids: Vec<String> = ids.map(|id| key(id.as_str())).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let sql = "SELECT FROM grants WHERE id = ANY ($1) ORDER BY id FOR UPDATE";
    session.rows(sql, values![ids]).await.map(drop)
}

/// Counts a use of each grant, or of none; returns those that cannot be used, or that do not hold. Holds them first. `used` is when,
/// as people are told.
pub(crate) async fn use_in(
    session: &mut Session,
    ids: &[GrantId],
    used: Timestamp,
    holds: impl Fn(&Grant) -> bool,
) -> Result<Vec<GrantId>, StoreError> {
    hold(session, ids.iter()).await?;
    count(session, ids, used, holds).await
}

/// As [`use_in`], of grants that are held, whatever they hold for.
pub(crate) async fn count_uses(
    session: &mut Session,
    ids: &[GrantId],
    used: Timestamp,
) -> Result<Vec<GrantId>, StoreError> {
    count(session, ids, used, |_| true).await
}

async fn count(
    session: &mut Session,
    ids: &[GrantId],
    moment: Timestamp,
    holds: impl Fn(&Grant) -> bool,
) -> Result<Vec<GrantId>, StoreError> {
    let (mut gone, mut used) = (Vec::new(), Vec::with_capacity(ids.len()));
    let sql = format!("SELECT {} FROM grants WHERE id = $1", content_and_now());
    for id in ids {
        let row = session.row(&sql, values![key(id.as_str())]).await?;
        let grant = row.as_ref().map(read_at).transpose()?;
        match grant.filter(|(grant, now)| !grant.is_over(*now) && holds(grant)) {
            Some(found) => used.push(found),
            None => gone.push(id.clone()),
        }
    }
    if !gone.is_empty() {
        return Ok(gone);
    }
    for (mut grant, now) in used {
        grant.count(moment);
        if grant.is_over(now) {
            remove(session, &grant.id).await?;
            continue;
        }
        let sql = "UPDATE grants SET content = $2 WHERE id = $1";
        session
            .run(sql, values![key(grant.id.as_str()), encode("a grant", &grant)?])
            .await?;
    }
    Ok(gone)
}

/// Deletes a grant and returns it.
pub(crate) async fn remove(session: &mut Session, id: &GrantId) -> Result<Option<Grant>, StoreError> {
    let sql = "DELETE FROM grants WHERE id = $1 RETURNING content";
    let row = session.row(sql, values![key(id.as_str())]).await?;
    row.as_ref().map(read).transpose()
}

/// Returns the grants that hold for any of some runs of the service, the oldest first.
pub(crate) async fn of(db: &Database, runs: &[InstanceId]) -> Result<Vec<Grant>, StoreError> {
    let owners: Vec<String> = runs.iter().flat_map(owners).collect();
    let sql = format!(
        "SELECT {} FROM grants WHERE owner = ANY ($1) ORDER BY number",
        content_and_now()
    );
    read_standing(&db.rows("list grants", &sql, values![owners]).await?)
}

/// Returns a grant.
pub(crate) async fn get(db: &Database, id: &GrantId) -> Result<Option<Grant>, StoreError> {
    let row = db
        .row(
            "read a grant",
            "SELECT content FROM grants WHERE id = $1",
            values![key(id.as_str())],
        )
        .await?;
    row.as_ref().map(read).transpose()
}

/// Deletes the grants that hold for nobody any more: those of dead runs, those that ended by time, and those of sessions of
/// which no call is left.
pub(crate) async fn sweep(db: &Database, silent: Vec<String>) -> Result<(), StoreError> {
    let what = "delete grants that have ended";
    let sql = format!(
        "DELETE FROM grants WHERE owner <> '' AND {}",
        is_dead("grants.owner", "$1")
    );
    db.rows(what, &sql, values![silent]).await?;
    let sql = format!("SELECT {} FROM grants ORDER BY number", content_and_now());
    for row in db.rows(what, &sql, values![]).await? {
        let (grant, now) = read_at(&row)?;
        let mut is_over = grant.is_over(now);
        let is_young = now.millis().saturating_sub(grant.created.millis()) < YOUNG_MILLIS;
        if !is_over && !is_young && grant.scope.reach == GrantReach::Session {
            let sql = "SELECT EXISTS (SELECT FROM calls WHERE session = $1)";
            let row = db.row(what, sql, values![key(grant.session.as_str())]).await?;
            is_over = !row.is_some_and(|row| row.get(0));
        }
        if is_over {
            retrying(|| async { remove(&mut db.session(what).await?, &grant.id).await }).await?;
        }
    }
    Ok(())
}
