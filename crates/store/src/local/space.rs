//! Giving the room of deleted records back to the file system.
//!
//! *Invariant:* it is done in portions, each a short transaction between those of calls. Some room is kept for the records that come
//! next. A database that an earlier release made keeps all its room: SQLite can only give it back by rewriting the whole file.

use rusqlite::Connection;

use super::error::Doing;
use super::store::LocalStore;
use crate::StoreError;

/// Pages that move in one transaction: a megabyte.
const PAGES_AT_ONCE: i64 = 256;

/// Pages that stay free: so many, or this part of all if that is more.
const KEPT_PAGES: i64 = 4_096;
const KEPT_PART: i64 = 8;

/// A page, as SQLite makes them.
const PAGE_BYTES: usize = 4096;

impl LocalStore {
    /// Shortens the database by what was deleted.
    pub(super) async fn give_space_back(&self) -> Result<(), StoreError> {
        let bytes = PAGE_BYTES * usize::try_from(PAGES_AT_ONCE).unwrap_or(usize::MAX);
        while self.writer.tell_sized(bytes, |db, _| give_back(db)).await? {}
        Ok(())
    }
}

/// Gives some pages back; says whether that may be repeated.
fn give_back(db: &Connection) -> Result<bool, StoreError> {
    let what = "give back the room of deleted records";
    let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let pages = |pragma: &str| number(pragma).doing(db, what);
    let free = pages("freelist_count")?;
    let kept = KEPT_PAGES.max(pages("page_count")? / KEPT_PART);
    let portion = (free - kept).min(PAGES_AT_ONCE);
    if portion <= 0 {
        return Ok(false);
    }
    db.prepare(&format!("PRAGMA incremental_vacuum({portion})"))
        .and_then(|mut statement| {
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        })
        .doing(db, what)?;
    Ok(pages("freelist_count")? < free)
}
