//! That a run still has the workspace that it writes for, in the very transaction of the change.
//!
//! *Invariant:* what is fenced takes place only while the row of the workspace is locked with the run, whose it is, and the epoch that the
//! change names. To take a workspace over is to update that row: it waits for the changes that have begun, and none begins after it.
//!
//! A run that has a database writes by the same statements, without a fence: nothing of it is in them then, as it would cost something.
//! What every call makes, and every piece of its output, is a function of the database, which begins with the same: see
//! `migrations/0003.sql` and `migrations/0005.sql`.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use toolgate_store::StoreError;
use toolgate_store::codec::signed;
use toolgate_store::ledger::Hold;

use crate::connection::{Database, Session, retrying};
use crate::text::{escaped, key};
use crate::values::{Values, typed, values};

/// Who must have a workspace for a change to take place.
pub(crate) struct Fence {
    /// How statements name the workspace.
    pub(crate) workspace: String,
    /// How statements name the run.
    pub(crate) run: String,
    /// How statements name whose the run is.
    pub(crate) principal: String,
    epoch: i64,
    /// What is said when it does not hold.
    broken: String,
}

impl Fence {
    pub(crate) fn new(hold: &Hold) -> Self {
        let Hold {
            workspace,
            run,
            principal,
            epoch,
        } = hold;
        Self {
            workspace: key(workspace),
            run: key(run.as_str()),
            principal: escaped(principal),
            epoch: signed(*epoch),
            broken: format!("workspace {workspace} is not held by run {run} with epoch {epoch} any more"),
        }
    }

    /// Returns the error of a change that came too late.
    pub(crate) fn broken(&self) -> StoreError {
        StoreError::Fenced(self.broken.clone())
    }

    /// Makes sure that it holds until the transaction ends. It comes first in each.
    pub(crate) async fn hold(&self, session: &mut Session) -> Result<(), StoreError> {
        let sql = "SELECT FROM workspaces WHERE id = $1 AND owner = $2 AND epoch = $3 AND principal = $4 FOR SHARE";
        let values = values![self.workspace, self.run, self.epoch, self.principal];
        let row = session.row(sql, values).await?;
        row.map(drop).ok_or_else(|| self.broken())
    }

    /// Finds out whether a change did not take place because of it. What holds now has held all the time: an epoch does not come
    /// back.
    pub(crate) async fn check(&self, db: &Database) -> Result<(), StoreError> {
        let sql = "SELECT FROM workspaces WHERE id = $1 AND owner = $2 AND epoch = $3 AND principal = $4";
        let values = values![self.workspace, self.run, self.epoch, self.principal];
        let row = db.row("look who has a workspace", sql, values).await?;
        row.map(drop).ok_or_else(|| self.broken())
    }
}

/// The first arguments of a function of the database that changes something: whose change it is. All are null without a fence.
pub(crate) struct Held<'f> {
    workspace: Option<&'f str>,
    run: Option<&'f str>,
    epoch: Option<i64>,
    principal: Option<&'f str>,
}

impl<'f> Held<'f> {
    pub(crate) fn new(fence: Option<&'f Fence>) -> Self {
        Self {
            workspace: fence.map(|fence| fence.workspace.as_str()),
            run: fence.map(|fence| fence.run.as_str()),
            epoch: fence.map(|fence| fence.epoch),
            principal: fence.map(|fence| fence.principal.as_str()),
        }
    }

    /// As [`Self::new`], of a run that has a database and is named all the same.
    pub(crate) fn of_run(run: &'f str, fence: Option<&'f Fence>) -> Self {
        Self {
            run: Some(run),
            ..Self::new(fence)
        }
    }

    pub(crate) fn values(&self) -> [(&(dyn ToSql + Sync), Type); 4] {
        [
            typed(&self.workspace),
            typed(&self.run),
            typed(&self.epoch),
            typed(&self.principal),
        ]
    }
}

/// Returns the statement that calls a function of the database with so many arguments.
pub(crate) fn call(function: &str, arguments: usize) -> String {
    let places: Vec<String> = (1..=arguments).map(|at| format!("${at}")).collect();
    format!("SELECT * FROM {function}({})", places.join(", "))
}

/// As [`Fence::check`], if there is a fence.
pub(crate) async fn check(fence: Option<&Fence>, db: &Database) -> Result<(), StoreError> {
    match fence {
        Some(fence) => fence.check(db).await,
        None => Ok(()),
    }
}

/// Runs the parts of a statement that follow `WITH`. Behind a fence there is one before them, `held`: one row with the `workspace`, or
/// none. What is in braces is only there then: by that, all parts that change anything must take their rows from it, or from one
/// that does.
pub(crate) async fn row(
    session: &mut Session,
    fence: Option<&Fence>,
    sql: &str,
    values: Values<'_>,
) -> Result<Option<Row>, StoreError> {
    let Some(Fence {
        workspace,
        run,
        epoch,
        principal,
        broken: _,
    }) = fence
    else {
        return session.row(&format!("WITH {}", without_braces(sql)), values).await;
    };
    let next = values.len() + 1;
    let held = format!(
        "SELECT id AS workspace FROM workspaces WHERE id = ${next} AND owner = ${} AND epoch = ${}
             AND principal = ${} FOR SHARE",
        next + 1,
        next + 2,
        next + 3
    );
    let mut all: Vec<(&(dyn ToSql + Sync), Type)> = values.to_vec();
    all.extend([typed(workspace), typed(run), typed(epoch), typed(principal)]);
    let sql = sql.replace(['{', '}'], "");
    session.row(&format!("WITH held AS ({held}),\n{sql}"), &all).await
}

/// Leaves out what is in braces.
fn without_braces(sql: &str) -> String {
    let mut kept = String::with_capacity(sql.len());
    let mut is_within = false;
    for part in sql.split(['{', '}']) {
        if !is_within {
            kept.push_str(part);
        }
        is_within = !is_within;
    }
    kept
}

/// As [`row`], as a transaction of its own.
pub(crate) async fn row_of(
    db: &Database,
    what: &'static str,
    fence: Option<&Fence>,
    sql: &str,
    values: Values<'_>,
) -> Result<Option<Row>, StoreError> {
    retrying(|| async { row(&mut db.session(what).await?, fence, sql, values).await }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_braces_is_left_out() {
        for (sql, kept) in [
            ("SELECT 1", "SELECT 1"),
            ("UPDATE t {FROM held }WHERE a{ AND b}", "UPDATE t WHERE a"),
            ("{a}{b}c", "c"),
        ] {
            assert_eq!(without_braces(sql), kept);
        }
    }
}
