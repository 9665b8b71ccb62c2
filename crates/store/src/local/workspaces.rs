//! The workspaces that were opened while a service ran.
//!
//! *Invariant:* that one was opened or closed is in the audit if, and only if, it is remembered or forgotten.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use toolgate_model::Timestamp;

use super::error::Doing as _;
use super::readers::blocking;
use super::store::LocalStore;
use crate::audit::Fact;
use crate::outbox::Outbox;
use crate::{OpenedWorkspace, StoreError, Workspaces};

fn keep(db: &Connection, outbox: &mut Outbox, opened: &OpenedWorkspace) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO workspaces (name, directory, opened_by, time) VALUES (?, ?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET
             directory = excluded.directory, opened_by = excluded.opened_by, time = excluded.time",
    )
    .and_then(|mut statement| {
        statement.execute(params![opened.name, opened.directory, opened.by, opened.time.millis()])
    })
    .doing(db, "remember a workspace")?;
    outbox.tell(Fact::workspace_opened(&opened.name, &opened.directory, &opened.by));
    Ok(())
}

fn drop_one(db: &Connection, outbox: &mut Outbox, name: &str, by: &str) -> Result<bool, StoreError> {
    let gone = db
        .prepare_cached("DELETE FROM workspaces WHERE name = ?")
        .and_then(|mut statement| statement.execute([name]))
        .doing(db, "forget a workspace")?;
    if gone > 0 {
        outbox.tell(Fact::workspace_closed(name, by));
    }
    Ok(gone > 0)
}

fn all(db: &Connection) -> Result<Vec<OpenedWorkspace>, StoreError> {
    db.prepare_cached("SELECT name, directory, opened_by, time FROM workspaces ORDER BY time, name")
        .and_then(|mut statement| {
            let row = |row: &rusqlite::Row<'_>| {
                Ok(OpenedWorkspace {
                    name: row.get(0)?,
                    directory: row.get(1)?,
                    by: row.get(2)?,
                    time: Timestamp(row.get(3)?),
                })
            };
            statement.query_map([], row)?.collect()
        })
        .doing(db, "read the workspaces")
}

#[async_trait]
impl Workspaces for LocalStore {
    async fn keep_workspace(&self, opened: OpenedWorkspace) -> Result<(), StoreError> {
        let (spool, name) = (self.spool.clone(), opened.name.clone());
        blocking(move || spool.make_folder(&name)).await?;
        self.writer.tell(move |db, outbox| keep(db, outbox, &opened)).await
    }

    async fn drop_workspace(&self, name: &str, by: &str) -> Result<bool, StoreError> {
        let (name, by) = (name.to_owned(), by.to_owned());
        self.writer
            .tell(move |db, outbox| drop_one(db, outbox, &name, &by))
            .await
    }

    async fn workspaces(&self) -> Result<Vec<OpenedWorkspace>, StoreError> {
        self.readers.read(all).await
    }
}
