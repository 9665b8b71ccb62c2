//! The database file: how a connection is opened, and which version of the tables it finds or makes.
//!
//! *Invariant:* a migration that was released is never changed, only followed by another; a file that a newer version of
//! the service has written is refused, not guessed at.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::{Doing, failed, io, limit};
use crate::store::StoreError;

const MIGRATIONS: [&str; 3] = [
    include_str!("schema.sql"),
    include_str!("changes.sql"),
    include_str!("audit.sql"),
];

/// Other processes write in transactions of a few milliseconds; waiting this long means that one of them hangs.
pub(super) const BUSY: Duration = Duration::from_secs(10);

const STATEMENTS: usize = 64;

/// Opens the connection that writes, and brings the tables up to date.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    // SQLite would create the file readable for everybody; its side files take over the mode of this one.
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| io("open the database", path, error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = connect(path, flags)?;
    db.pragma_update(None, "journal_mode", "WAL")
        .and_then(|()| db.pragma_update(None, "synchronous", "NORMAL"))
        .and_then(|()| db.pragma_update(None, "foreign_keys", true))
        .and_then(|()| db.pragma_update(None, "cache_size", -4096))
        .doing(&db, "prepare the database")?;
    migrate(&mut db, path)?;
    Ok(db)
}

/// Opens another connection to what [`open_writer`] has opened, which only writes its log back.
pub(super) fn open_beside(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags)?;
    db.pragma_update(None, "synchronous", "NORMAL")
        .and_then(|()| db.pragma_update(None, "cache_size", -64))
        .doing(&db, "prepare the database for writing its log back")?;
    Ok(db)
}

/// Opens a connection that can only read.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags)?;
    db.pragma_update(None, "cache_size", -1024)
        .doing(&db, "prepare the database for reading")?;
    Ok(db)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(path, flags)
        .map_err(|error| failed(format!("open the database {}", path.display()), error))?;
    db.busy_timeout(BUSY).doing(&db, "set the waiting time")?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(db)
}

fn migrate(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let what = "bring the tables up to date";
    let location = path.display().to_string();
    let sql = |error: rusqlite::Error| failed(format!("{what} in {location}"), error);
    let transaction = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(sql)?;
    let version: usize = transaction
        .query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
        .map(|version| usize::try_from(version).unwrap_or(usize::MAX))
        .map_err(sql)?;
    let Some(missing) = MIGRATIONS.get(version..) else {
        let newest = MIGRATIONS.len();
        return Err(failed(
            format!("open the database {location}"),
            format!(
                "a newer version of the service wrote it: its tables are version {version}, this one knows {newest}"
            ),
        ));
    };
    if missing.is_empty() {
        return Ok(());
    }
    for migration in missing {
        transaction.execute_batch(migration).map_err(sql)?;
    }
    transaction
        .pragma_update(None, "user_version", limit(MIGRATIONS.len()))
        .map_err(sql)?;
    transaction.commit().map_err(sql)
}
