//! The workspaces that were opened while a service ran.
//!
//! *Invariant:* that one was opened or closed is in the audit if, and only if, it is remembered or forgotten.

use async_trait::async_trait;
use tokio_postgres::Row;
use toolgate_model::Timestamp;
use toolgate_store::audit::Fact;
use toolgate_store::{OpenedWorkspace, StoreError, Workspaces};

use crate::sequencer::entries;
use crate::store::PostgresStore;
use crate::text::{Key, escaped, key, plain};
use crate::values::values;

#[async_trait]
impl Workspaces for PostgresStore {
    async fn keep_workspace(&self, opened: OpenedWorkspace) -> Result<(), StoreError> {
        let told = entries(vec![
            Fact::workspace_opened(&opened.name, &opened.directory, &opened.by).into(),
        ])?;
        let name = Key::new(&opened.name);
        let (directory, by) = (escaped(&opened.directory), escaped(&opened.by));
        let sql = "WITH kept AS (INSERT INTO opened_workspaces (name, full_name, directory, opened_by, moment)
                       VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO UPDATE SET
                           directory = excluded.directory, opened_by = excluded.opened_by, moment = excluded.moment)
                   INSERT INTO outbox (entries) VALUES ($6)";
        let values = values![name.key, name.full, directory, by, opened.time.0, told];
        self.shared.db.rows("remember a workspace", sql, values).await?;
        self.shared.told();
        Ok(())
    }

    async fn drop_workspace(&self, name: &str, by: &str) -> Result<bool, StoreError> {
        let told = entries(vec![Fact::workspace_closed(name, by).into()])?;
        let sql = "WITH gone AS (DELETE FROM opened_workspaces WHERE name = $1 RETURNING TRUE),
                   told AS (INSERT INTO outbox (entries) SELECT $2 FROM gone)
                   SELECT FROM gone";
        let gone = self
            .shared
            .db
            .row("forget a workspace", sql, values![key(name), told])
            .await?;
        self.shared.told();
        Ok(gone.is_some())
    }

    async fn workspaces(&self) -> Result<Vec<OpenedWorkspace>, StoreError> {
        let sql = "SELECT coalesce(full_name, name), directory, opened_by, moment FROM opened_workspaces
                   ORDER BY moment, name";
        let read = |row: &Row| OpenedWorkspace {
            name: plain(row.get(0)),
            directory: plain(row.get(1)),
            by: plain(row.get(2)),
            time: Timestamp(row.get(3)),
        };
        Ok(self
            .shared
            .db
            .rows("read the workspaces", sql, values![])
            .await?
            .iter()
            .map(read)
            .collect())
    }
}
