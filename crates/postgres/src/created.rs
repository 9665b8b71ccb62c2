//! Workspaces that clients create at gateways: what is wanted of each.
//!
//! *Invariant:* a name is a created workspace's, or somebody else's: who wants one waits for those that make rows of workspaces, and
//! they for it. Changes of a stage are told to the other gateways.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_postgres::Row;
use toolgate_model::{CallId, Timestamp};
use toolgate_store::StoreError;
use toolgate_store::codec::{decode, encode, failed, signed, unsigned};
use toolgate_store::created::{Asked, CreatedWorkspace, CreatedWorkspaces, NewWorkspace, Quota, Stage, Step};

use crate::connection::{Session, retrying};
use crate::created_steps as steps;
use crate::holds::HOLD_STILL;
use crate::store::{PostgresStore, Shared};
use crate::text::{escaped, key, plain};
use crate::values::values;

/// What is read of each.
pub(crate) const COLUMNS: &str = "name, source, created_by, moment, request, stage, problem, asked_by,
    greatest(0, extract(epoch FROM clock_timestamp() - since) * 1000)::bigint, is_begun, attempts, cancelled,
    was_ready, (extract(epoch FROM since) * 1000000)::bigint";

/// What a row is when somebody wants it to be at another stage. Who is at it has to give its claim back first.
pub(crate) const AFRESH: &str =
    "since = clock_timestamp(), problem = '', due = clock_timestamp(), is_begun = FALSE, attempts = 0";

/// Tells the other gateways, if they listen.
pub(crate) async fn notify(session: &mut Session) -> Result<(), StoreError> {
    match session.notifies {
        true => session
            .rows("SELECT pg_notify('toolgate_created', '')", values![])
            .await
            .map(drop),
        false => Ok(()),
    }
}

/// Reads the columns.
pub(crate) fn read(row: &Row) -> Result<CreatedWorkspace, StoreError> {
    let stage: &str = row.get(5);
    Ok(CreatedWorkspace {
        name: plain(row.get(0)),
        source: decode("the source of a workspace", row.get(1))?,
        by: plain(row.get(2)),
        time: Timestamp(row.get(3)),
        request: plain(row.get(4)),
        stage: Stage::of(stage).ok_or_else(|| failed("read a created workspace", format!("it is {stage:?}")))?,
        problem: plain(row.get(6)),
        asked_by: plain(row.get(7)),
        lasts: Duration::from_millis(unsigned(row.get(8))),
        since: row.get(13),
        is_begun: row.get(9),
        attempts: unsigned(row.get(10)),
        cancelled: unsigned(row.get(11)),
        was_ready: row.get(12),
    })
}

/// Reads what can be read, and returns the names of the others, as statements have them. They are of a later release, or broken, and no
/// reason to do nothing for the rest.
pub(crate) fn read_known(shared: &Shared, rows: &[Row]) -> (Vec<CreatedWorkspace>, Vec<String>) {
    let (mut known, mut others) = (Vec::new(), Vec::new());
    for row in rows {
        match read(row) {
            Ok(workspace) => known.push(workspace),
            Err(error) => {
                let name: String = row.get(0);
                if shared.instances.is_to_be_told(&format!("created {name}")) {
                    let workspace = plain(&name);
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        workspace,
                        "a created workspace cannot be read: a gateway of the release that has written it has to bring it further"
                    );
                }
                others.push(name);
            }
        }
    }
    (known, others)
}

async fn want_in(
    session: &mut Session,
    new: &NewWorkspace,
    quotas: &[Quota],
    served: &[String],
) -> Result<Asked, StoreError> {
    session
        .rows("SELECT FROM forgotten_workspaces FOR UPDATE", values![])
        .await?;
    let name = key(&new.name);
    // Whoever takes one whose row is there does not wait for that.
    session.rows(HOLD_STILL, values![name]).await?;
    let source = encode("the source of a workspace", &new.source)?;
    let by = escaped(&new.by);
    let sql = format!("SELECT {COLUMNS} FROM created_workspaces WHERE name = $1 FOR UPDATE");
    if let Some(row) = session.row(&sql, values![name]).await? {
        let known = read(&row)?;
        // An address may be signed anew each time.
        if known.source.shown() != new.source.shown() {
            return Ok(Asked::Otherwise);
        }
        if known.stage != Stage::Failed {
            return Ok(Asked::Before(known));
        }
        let sql = format!(
            "UPDATE created_workspaces SET stage = 'creating', source = $2, asked_by = $3, {AFRESH}
             WHERE name = $1 RETURNING {COLUMNS}"
        );
        let row = session.row(&sql, values![name, source, by]).await?;
        return now(session, row).await;
    }
    let sql = "SELECT WHERE EXISTS (SELECT FROM workspaces WHERE id = $1 AND free_at IS DISTINCT FROM epoch)
                   OR EXISTS (SELECT FROM bindings WHERE workspace = $1)";
    if served.contains(&new.name) || session.row(sql, values![name]).await?.is_some() {
        return Ok(Asked::Foreign);
    }
    for (at, quota) in quotas.iter().enumerate() {
        let open = count(session, quota, served).await?;
        if open >= quota.most {
            return Ok(Asked::Full { quota: at, open });
        }
    }
    let sql = format!(
        "INSERT INTO created_workspaces (name, source, created_by, moment, request, stage, asked_by, due)
         VALUES ($1, $2, $3, $4, $5, 'creating', $3, clock_timestamp()) RETURNING {COLUMNS}"
    );
    let row = session
        .row(&sql, values![name, source, by, new.time.0, escaped(&new.request)])
        .await?;
    now(session, row).await
}

async fn now(session: &mut Session, row: Option<Row>) -> Result<Asked, StoreError> {
    let row = row.ok_or_else(|| failed("create a workspace", "its row is gone"))?;
    notify(session).await?;
    read(&row).map(Asked::Now)
}

/// Counts the workspaces that a quota is about.
async fn count(session: &mut Session, quota: &Quota, served: &[String]) -> Result<u64, StoreError> {
    let of = quota.of.as_ref();
    let names: Option<Vec<String>> = of.map(|of| of.iter().map(|one| key(one)).collect());
    let prefixes: Vec<String> = of
        .into_iter()
        .flatten()
        .filter_map(|one| one.strip_suffix('*'))
        .map(escaped)
        .collect();
    let served: Vec<String> = served.iter().map(|name| key(name)).collect();
    let sql = "SELECT count(*) FROM (SELECT name FROM created_workspaces UNION SELECT unnest($1::text[])) AS one (name)
               WHERE $2::text[] IS NULL OR name = ANY ($2)
                   OR EXISTS (SELECT FROM unnest($3::text[]) AS prefix WHERE starts_with(name, prefix))";
    let row = session.row(sql, values![served, names, prefixes]).await?;
    Ok(row.map_or(0, |row| unsigned(row.get(0))))
}

async fn want_stage(
    shared: &Shared,
    name: &str,
    from: &[Stage],
    to: Stage,
    by: &str,
) -> Result<Option<CreatedWorkspace>, StoreError> {
    let stages: Vec<&str> = from.iter().map(|stage| stage.as_str()).collect();
    let (name, by, to) = (key(name), escaped(by), to.as_str());
    let sql = format!(
        "UPDATE created_workspaces SET stage = $2, asked_by = $3, cancelled = 0, {AFRESH}
         WHERE name = $1 AND stage = ANY ($4) RETURNING {COLUMNS}"
    );
    retrying(|| async {
        let mut session = shared.db.begin("change what becomes of a workspace").await?;
        let wanted = async {
            let row = session.row(&sql, values![name, to, by, stages]).await?;
            if row.is_some() {
                notify(&mut session).await?;
            }
            row.as_ref().map(read).transpose()
        }
        .await;
        session.end(wanted).await
    })
    .await
}

#[async_trait]
impl CreatedWorkspaces for PostgresStore {
    async fn want_workspace(
        &self,
        new: NewWorkspace,
        quotas: &[Quota],
        served: &[String],
    ) -> Result<Asked, StoreError> {
        retrying(|| async {
            let mut session = self.shared.db.begin("create a workspace").await?;
            let asked = want_in(&mut session, &new, quotas, served).await;
            session.end(asked).await
        })
        .await
    }

    async fn created(&self, name: &str) -> Result<Option<CreatedWorkspace>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM created_workspaces WHERE name = $1");
        let row = self
            .shared
            .db
            .row("look for a created workspace", &sql, values![key(name)])
            .await?;
        row.as_ref().map(read).transpose()
    }

    async fn created_after(&self, name: &str, most: usize) -> Result<Vec<CreatedWorkspace>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM created_workspaces WHERE name > $1 ORDER BY name LIMIT $2");
        let (mut last, mut found) = (key(name), Vec::new());
        // Fewer than were asked for are the last ones, so what cannot be read has to be made up for.
        while found.len() < most {
            let more = most - found.len();
            let rows = self
                .shared
                .db
                .rows("list created workspaces", &sql, values![last, signed(more as u64)])
                .await?;
            found.extend(read_known(&self.shared, &rows).0);
            match rows.last() {
                Some(row) if rows.len() == more => last = row.get(0),
                Some(_) | None => break,
            }
        }
        Ok(found)
    }

    async fn created_held(&self) -> Result<Vec<String>, StoreError> {
        let sql =
            "SELECT name FROM created_workspaces WHERE stage IN ('creating', 'suspending', 'resuming', 'deleting')
                       OR stage IN ('suspended', 'failed') AND since > clock_timestamp() - interval '1 minute'";
        let rows = self
            .shared
            .db
            .rows("look which created workspaces take no calls", sql, values![])
            .await?;
        Ok(rows.iter().map(|row| plain(row.get(0))).collect())
    }

    async fn count_created(&self) -> Result<Vec<(Stage, u64)>, StoreError> {
        let sql = "SELECT stage, count(*) FROM created_workspaces GROUP BY stage";
        let rows = self.shared.db.rows("count created workspaces", sql, values![]).await?;
        let counted = |row: &Row| Some((Stage::of(row.get(0))?, unsigned(row.get(1))));
        Ok(rows.iter().filter_map(counted).collect())
    }

    async fn want_stage(
        &self,
        name: &str,
        from: &[Stage],
        to: Stage,
        by: &str,
    ) -> Result<Option<CreatedWorkspace>, StoreError> {
        want_stage(&self.shared, name, from, to, by).await
    }

    async fn look_at(&self, name: &str) -> Result<(), StoreError> {
        let sql = "UPDATE created_workspaces SET due = clock_timestamp()
                   WHERE name = $1 AND due > clock_timestamp() + interval '1 second'";
        let what = "have it looked at a created workspace";
        self.shared.db.rows(what, sql, values![key(name)]).await.map(drop)
    }

    async fn claim_created(&self, term: Duration, most: usize) -> Result<Vec<CreatedWorkspace>, StoreError> {
        steps::claim(&self.shared, term, most).await
    }

    async fn keep_claim(&self, workspace: &CreatedWorkspace, term: Duration) -> Result<bool, StoreError> {
        steps::keep(&self.shared, workspace, term).await
    }

    async fn give_back(&self, workspace: &CreatedWorkspace) -> Result<(), StoreError> {
        let sql =
            "UPDATE created_workspaces SET claimant = NULL, claimed_until = NULL WHERE name = $1 AND claimant = $2";
        self.shared
            .db
            .rows(
                "give a claim back",
                sql,
                values![key(&workspace.name), self.shared.instances.id],
            )
            .await
            .map(drop)
    }

    async fn step_created(&self, workspace: &CreatedWorkspace, step: Step) -> Result<bool, StoreError> {
        steps::step(&self.shared, workspace, &step).await
    }

    async fn which_are_free(&self, names: &[String]) -> Result<Vec<String>, StoreError> {
        let names: Vec<String> = names.iter().map(|name| key(name)).collect();
        let sql = "SELECT id FROM workspaces WHERE id = ANY ($1) AND free_at = epoch";
        let what = "look which workspaces were deleted";
        let rows = self.shared.db.rows(what, sql, values![names]).await?;
        Ok(rows.iter().map(|row| plain(row.get(0))).collect())
    }

    async fn note_called(&self, names: &[String]) -> Result<(), StoreError> {
        let names: Vec<String> = names.iter().map(|name| key(name)).collect();
        // Locked in one order, as another gateway does the same.
        let sql = "UPDATE created_workspaces SET called = clock_timestamp() FROM (SELECT name FROM created_workspaces
                       WHERE name = ANY ($1) ORDER BY name FOR UPDATE) AS one WHERE created_workspaces.name = one.name";
        let what = "note in which workspaces something was called";
        self.shared.db.rows(what, sql, values![names]).await.map(drop)
    }

    async fn suspend_idle(&self, idle: Duration) -> Result<Vec<String>, StoreError> {
        steps::suspend_idle(&self.shared, idle).await
    }

    async fn resume_answered(&self) -> Result<Vec<String>, StoreError> {
        steps::resume_answered(&self.shared).await
    }

    async fn take_from_holder(&self, workspace: &CreatedWorkspace) -> Result<(), StoreError> {
        steps::take_from_holder(&self.shared, workspace).await
    }

    async fn unfinished_calls(&self, name: &str) -> Result<Vec<(CallId, bool)>, StoreError> {
        steps::unfinished(&self.shared, name).await
    }

    async fn end_calls(&self, workspace: &CreatedWorkspace, all: bool, before: u64) -> Result<(), StoreError> {
        steps::end_calls(&self.shared, workspace, all, before).await
    }

    async fn release_binding(
        &self,
        workspace: &CreatedWorkspace,
        principal: &str,
        worker: &str,
    ) -> Result<(), StoreError> {
        let sql = "DELETE FROM bindings WHERE workspace = $1 AND NOT (principal = $2 AND worker = $3)
                       AND EXISTS (SELECT FROM created_workspaces WHERE name = $1 AND claimant = $4 AND stage = $5)";
        let (name, stage) = (key(&workspace.name), workspace.stage.as_str());
        let what = "free a workspace from a worker";
        self.shared
            .db
            .rows(
                what,
                sql,
                values![
                    name,
                    escaped(principal),
                    escaped(worker),
                    self.shared.instances.id,
                    stage
                ],
            )
            .await
            .map(drop)
    }

    async fn forget_created(&self, workspace: &CreatedWorkspace) -> Result<(), StoreError> {
        steps::forget(&self.shared, workspace).await
    }

    fn created_changed(&self) -> Option<Arc<Notify>> {
        self.shared.created.clone()
    }
}
