//! The rows of outputs in the database.

use rusqlite::{Connection, OptionalExtension, Row, params};
use toolgate_model::{CallId, InstanceId, OutputId, SessionId, Timestamp};

use super::error::{Doing, signed, unsigned};
use super::output_file::Live;
use super::query::Query;
use crate::{OutputInfo, OutputOwner, StoreError};

/// A row of the table.
pub(super) struct Stored {
    pub(super) id: OutputId,
    pub(super) instance: String,
    pub(super) owner: OutputOwner,
    pub(super) created: Timestamp,
    pub(super) complete: bool,
    pub(super) bytes: Option<u64>,
    pub(super) lines: Option<u64>,
    pub(super) sha256: Option<String>,
}

/// The columns that [`Stored::read`] takes, with the number that pages go by.
pub(super) const COLUMNS: &str =
    "number, id, instance, call, session, workspace, created, complete, bytes, lines, sha256";

impl Stored {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let text = |index: usize| row.get::<_, String>(index);
        let count = |index: usize| row.get::<_, Option<i64>>(index).map(|value| value.map(unsigned));
        Ok(Self {
            id: OutputId::new(text(1)?),
            instance: text(2)?,
            owner: OutputOwner {
                call: CallId::new(text(3)?),
                session: SessionId::new(text(4)?),
                workspace: text(5)?,
            },
            created: Timestamp(row.get(6)?),
            complete: row.get(7)?,
            bytes: count(8)?,
            lines: count(9)?,
            sha256: row.get(10)?,
        })
    }

    pub(super) fn get(db: &Connection, id: &OutputId) -> Result<Option<Self>, StoreError> {
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM outputs WHERE id = ?"))
            .and_then(|mut statement| statement.query_row([id.as_str()], Self::read).optional())
            .doing(db, "read an output's row")
    }

    pub(super) fn all(db: &Connection) -> Result<Vec<Self>, StoreError> {
        Query::new(&format!("SELECT {COLUMNS} FROM outputs WHERE TRUE")).rows(db, "", usize::MAX, Self::read)
    }
}

/// Stores the row of an output that is being written; once is enough.
pub(super) fn begin(db: &Connection, live: &Live, instance: &InstanceId) -> Result<(), StoreError> {
    let OutputOwner {
        call,
        session,
        workspace,
    } = &live.owner;
    db.prepare_cached(
        "INSERT INTO outputs (id, instance, call, session, workspace, created) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO NOTHING",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            live.id.as_str(),
            instance.as_str(),
            call.as_str(),
            session.as_str(),
            workspace,
            live.created.millis(),
        ])
    })
    .map(drop)
    .doing(db, "store an output's row")
}

/// Stores what a complete output consists of.
pub(super) fn complete(db: &Connection, info: &OutputInfo) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE outputs SET complete = 1, bytes = ?, lines = ?, sha256 = ? WHERE id = ?")
        .and_then(|mut statement| {
            statement.execute(params![
                signed(info.bytes),
                signed(info.lines),
                info.sha256,
                info.id.as_str()
            ])
        })
        .map(drop)
        .doing(db, "complete an output's row")
}

/// Deletes a row; returns whether it was there.
pub(super) fn delete(db: &Connection, id: &OutputId) -> Result<bool, StoreError> {
    db.prepare_cached("DELETE FROM outputs WHERE id = ?")
        .and_then(|mut statement| statement.execute([id.as_str()]))
        .map(|rows| rows > 0)
        .doing(db, "delete an output's row")
}
