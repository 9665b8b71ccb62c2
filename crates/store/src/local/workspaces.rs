//! The workspaces that were opened while a service ran.
//!
//! *Invariant:* that one was opened or closed is in the audit if, and only if, it is remembered or forgotten.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use toolgate_model::Timestamp;

use super::audit;
use super::error::Doing as _;
use super::readers::blocking;
use super::store::LocalStore;
use crate::audit::{Fact, Recorder};
use crate::{OpenedWorkspace, StoreError, Workspaces};

fn keep(db: &Connection, recorder: &Recorder, opened: &OpenedWorkspace) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO workspaces (name, directory, opened_by, time) VALUES (?, ?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET
             directory = excluded.directory, opened_by = excluded.opened_by, time = excluded.time",
    )
    .and_then(|mut statement| {
        statement.execute(params![opened.name, opened.directory, opened.by, opened.time.millis()])
    })
    .doing(db, "remember a workspace")?;
    let fact = Fact::workspace_opened(&opened.name, &opened.directory, &opened.by);
    audit::append(db, recorder, Some(fact))
}

fn drop_one(db: &Connection, recorder: &Recorder, name: &str, by: &str) -> Result<bool, StoreError> {
    let gone = db
        .prepare_cached("DELETE FROM workspaces WHERE name = ?")
        .and_then(|mut statement| statement.execute([name]))
        .doing(db, "forget a workspace")?;
    audit::append(db, recorder, (gone > 0).then(|| Fact::workspace_closed(name, by)))?;
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
        let recorder = self.recorder.clone();
        self.writer.write(move |db| keep(db, &recorder, &opened)).await
    }

    async fn drop_workspace(&self, name: &str, by: &str) -> Result<bool, StoreError> {
        let (name, by) = (name.to_owned(), by.to_owned());
        let recorder = self.recorder.clone();
        self.writer.write(move |db| drop_one(db, &recorder, &name, &by)).await
    }

    async fn workspaces(&self) -> Result<Vec<OpenedWorkspace>, StoreError> {
        self.readers.read(all).await
    }
}
