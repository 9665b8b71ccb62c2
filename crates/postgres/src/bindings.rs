//! Which workspaces those workers have that came without one.
//!
//! *Invariant:* a binding is for good, and of one worker and one workspace. A principal that stands for one machine is one worker, which
//! has no name here. A workspace that somebody has had before is nobody's to be bound to: whoever has it in its configuration may only
//! be away; and nobody else has one that is bound. One that was created belongs to whatever worker stands at its place.

use toolgate_store::StoreError;
use toolgate_store::ledger::Binding;

use crate::connection::{Session, retrying};
use crate::holds::HOLD_STILL;
use crate::store::Shared;
use crate::text::{escaped, key, plain};
use crate::values::values;

/// Binds a worker of a principal to a workspace, unless one of both is bound already.
pub(crate) async fn bind(
    shared: &Shared,
    principal: &str,
    worker: &str,
    workspace: &str,
) -> Result<Binding, StoreError> {
    let (principal, worker, workspace) = (escaped(principal), escaped(worker), key(workspace));
    // Said again, it finds what it has done.
    retrying(|| async {
        let mut session = shared.db.begin("bind a worker to a workspace").await?;
        let bound = bind_in(&mut session, &principal, &worker, &workspace).await;
        session.end(bound).await
    })
    .await
}

async fn bind_in(session: &mut Session, principal: &str, worker: &str, workspace: &str) -> Result<Binding, StoreError> {
    // Waits for those that make rows of workspaces, as they wait for this: each sees what the other has done.
    session
        .rows("SELECT FROM forgotten_workspaces FOR UPDATE", values![])
        .await?;
    // And for those that take one whose row is there.
    session.rows(HOLD_STILL, values![workspace]).await?;
    let sql = "SELECT workspace FROM bindings WHERE principal = $1 AND (worker = $2 OR $2 = '')";
    if let Some(row) = session.row(sql, values![principal, worker]).await? {
        let other: String = row.get(0);
        return Ok(match other == workspace {
            true => Binding::Now,
            false => Binding::Elsewhere,
        });
    }
    let sql = "INSERT INTO bindings (principal, worker, workspace)
               SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT FROM workspaces WHERE id = $3 AND free_at IS DISTINCT FROM epoch)
                   OR EXISTS (SELECT FROM created_workspaces WHERE name = $3 AND stage IN ('creating', 'resuming', 'ready'))
               ON CONFLICT DO NOTHING";
    if session.run(sql, values![principal, worker, workspace]).await? > 0 {
        return Ok(Binding::Now);
    }
    let sql = "SELECT principal, worker FROM bindings WHERE workspace = $1";
    let row = session.row(sql, values![workspace]).await?;
    Ok(row.map_or(Binding::Held, |row| Binding::OfAnother {
        principal: plain(row.get(0)),
        worker: plain(row.get(1)),
    }))
}

/// Returns what workers of a principal are bound to, each with the name of its worker.
pub(crate) async fn of(shared: &Shared, principal: &str) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "SELECT worker, workspace FROM bindings WHERE principal = $1";
    let rows = shared
        .db
        .rows("look what workers are bound to", sql, values![escaped(principal)])
        .await?;
    Ok(rows.iter().map(|row| (plain(row.get(0)), plain(row.get(1)))).collect())
}
