//! What calls changed in files: rows in the database that refer to blobs beside it.
//!
//! *Invariant:* a blob is on the disk before a row names it, and stays as long as one does: the sweep asks the database,
//! and leaves alone what is young enough for its row still to be on the way.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use toolgate_model::{CallId, FileChange, FileVersion};

use super::error::{Doing, signed, unsigned};
use super::readers::blocking;
use super::store::LocalStore;
use crate::{Changes, StoreError};

fn record(db: &Connection, call: &CallId, changes: &[FileChange]) -> Result<(), StoreError> {
    let what = "record a change";
    let number: Option<i64> = db
        .prepare_cached("SELECT number FROM calls WHERE id = ?")
        .and_then(|mut statement| statement.query_row([call.as_str()], |row| row.get(0)).optional())
        .doing(db, what)?;
    let number = number.ok_or_else(|| StoreError::NotFound(format!("call {call}")))?;
    let mut statement = db
        .prepare_cached(
            "INSERT INTO changes (call, path, shown, before_sha256, before_bytes, before_mode,
                                  after_sha256, after_bytes, after_mode)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .doing(db, what)?;
    for FileChange {
        path,
        shown,
        before,
        after,
    } in changes
    {
        let [before, after] = [before, after].map(Option::as_ref);
        let digest = |version: Option<&FileVersion>| version.map(|version| version.sha256.clone());
        let bytes = |version: Option<&FileVersion>| version.map(|version| signed(version.bytes));
        let mode = |version: Option<&FileVersion>| version.and_then(|version| version.mode);
        let values = params![
            number,
            path.as_os_str().as_bytes(),
            shown.as_os_str().as_bytes(),
            digest(before),
            bytes(before),
            mode(before),
            digest(after),
            bytes(after),
            mode(after),
        ];
        statement.execute(values).doing(db, what)?;
    }
    Ok(())
}

fn changes(db: &Connection, call: &CallId) -> Result<Vec<FileChange>, StoreError> {
    db.prepare_cached(
        "SELECT path, shown, before_sha256, before_bytes, before_mode, after_sha256, after_bytes, after_mode
         FROM changes WHERE call = (SELECT number FROM calls WHERE id = ?) ORDER BY number",
    )
    .and_then(|mut statement| statement.query_map([call.as_str()], change)?.collect())
    .doing(db, "read the changes of a call")
}

/// Reads what a call changed in a file, from the first eight columns.
pub(super) fn change(row: &Row<'_>) -> rusqlite::Result<FileChange> {
    let path = |index: usize| row.get(index).map(|bytes| PathBuf::from(OsString::from_vec(bytes)));
    Ok(FileChange {
        path: path(0)?,
        shown: path(1)?,
        before: version(row, 2)?,
        after: version(row, 5)?,
    })
}

fn version(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<FileVersion>> {
    let Some(sha256) = row.get(first)? else { return Ok(None) };
    Ok(Some(FileVersion {
        sha256,
        bytes: unsigned(row.get(first + 1)?),
        mode: row.get(first + 2)?,
    }))
}

/// Returns the digests that begin with `prefix` and that a change refers to.
fn referenced(db: &Connection, prefix: &str) -> Result<HashSet<String>, StoreError> {
    // `g` follows every hexadecimal digit.
    let end = format!("{prefix}g");
    db.prepare_cached(
        "SELECT before_sha256 FROM changes WHERE before_sha256 BETWEEN ?1 AND ?2
         UNION SELECT after_sha256 FROM changes WHERE after_sha256 BETWEEN ?1 AND ?2",
    )
    .and_then(|mut statement| statement.query_map([prefix, end.as_str()], |row| row.get(0))?.collect())
    .doing(db, "find the contents that are needed")
}

impl LocalStore {
    /// Deletes the blobs that no change refers to.
    pub(super) async fn sweep_blobs(&self) -> Result<usize, StoreError> {
        let blobs = Arc::clone(&self.blobs);
        self.readers
            .read(move |db| blobs.sweep(|prefix| referenced(db, prefix)))
            .await
    }
}

#[async_trait]
impl Changes for LocalStore {
    async fn put_blob(&self, bytes: Bytes) -> Result<String, StoreError> {
        let put = |bytes: Bytes| {
            let blobs = Arc::clone(&self.blobs);
            blocking(move || blobs.put(&bytes))
        };
        match put(bytes.clone()).await {
            Err(StoreError::Full(_)) if self.make_room(bytes.len() as u64).await => put(bytes).await,
            other => other,
        }
    }

    async fn blob(&self, sha256: &str) -> Result<Option<Bytes>, StoreError> {
        let (blobs, sha256) = (Arc::clone(&self.blobs), sha256.to_owned());
        blocking(move || blobs.get(&sha256)).await
    }

    async fn record_changes(&self, call: &CallId, changes: Vec<FileChange>) -> Result<(), StoreError> {
        let call = call.clone();
        self.writer.write(move |db| record(db, &call, &changes)).await
    }

    async fn changes(&self, call: &CallId) -> Result<Vec<FileChange>, StoreError> {
        let call = call.clone();
        self.readers.read(move |db| changes(db, &call)).await
    }
}
