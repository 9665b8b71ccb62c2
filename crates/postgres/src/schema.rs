//! Which version of the tables a database has, and how it comes to the one that is known here.
//!
//! *Invariant:* a migration that was released is never changed, only followed by another one, and it only adds: services of the
//! version before go on with the tables of this one. What contracts comes a release later.

use std::time::Duration;

use toolgate_store::StoreError;
use toolgate_store::codec::failed;

use crate::connection::{Database, Session, retrying};
use crate::options::PostgresOptions;
use crate::values::values;

const MIGRATIONS: [&str; 5] = [
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
    include_str!("../migrations/0005.sql"),
];

/// How long a migration may take, with waiting for another one that is at it.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Keeps two from migrating at once. Held by a transaction, as a pooler takes the session away.
const LOCK: &str = "SELECT pg_advisory_xact_lock(74, 1)";

/// How the tables of a database compare with those that are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// They are of an earlier version, 0 if there are none: [`migrate`] brings them up to date.
    Older {
        /// Which.
        version: usize,
    },
    /// They are the same.
    Equal,
    /// A later release has added to them; this one goes on with them.
    Newer {
        /// Which.
        version: usize,
    },
}

impl SchemaState {
    fn of(version: usize) -> Self {
        match version.cmp(&MIGRATIONS.len()) {
            std::cmp::Ordering::Less => Self::Older { version },
            std::cmp::Ordering::Equal => Self::Equal,
            std::cmp::Ordering::Greater => Self::Newer { version },
        }
    }
}

/// Compares the tables of a database with those that are known here. Changes nothing.
///
/// # Errors
/// The database is not there, or does not keep texts as UTF-8.
pub async fn check(options: &PostgresOptions) -> Result<SchemaState, StoreError> {
    state(&Database::new(options)?).await
}

/// Brings the tables of a database up to date, all in one transaction; another one that does so at the same time is waited for.
/// Returns how they were before.
///
/// # Errors
/// As [`check`]; and the tables cannot be made.
pub async fn migrate(options: &PostgresOptions) -> Result<SchemaState, StoreError> {
    let db = Database::new(options)?.patient(TIME_LIMIT);
    retrying(|| async {
        let mut session = db.begin("bring the tables up to date").await?;
        let migrated = migrate_in(&mut session).await;
        session.end(migrated).await
    })
    .await
}

pub(crate) async fn state(db: &Database) -> Result<SchemaState, StoreError> {
    let mut session = db.session("look at the version of the tables").await?;
    Ok(SchemaState::of(version(&mut session).await?))
}

async fn version(session: &mut Session) -> Result<usize, StoreError> {
    let sql = "SELECT current_setting('server_encoding'), to_regclass('migrations') IS NOT NULL";
    let row = session.row(sql, values![]).await?;
    let (encoding, is_there) =
        row.map_or_else(Default::default, |row| (row.get::<_, String>(0), row.get::<_, bool>(1)));
    if encoding != "UTF8" {
        let problem = format!("its encoding is {encoding}, and must be UTF8");
        return Err(failed("use the database", problem));
    }
    if !is_there {
        return Ok(0);
    }
    let row = session
        .row("SELECT coalesce(max(version), 0) FROM migrations", values![])
        .await?;
    let version = row.map_or(0, |row| row.get::<_, i64>(0));
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

async fn migrate_in(session: &mut Session) -> Result<SchemaState, StoreError> {
    session.batch(LOCK).await?;
    session
        .batch("CREATE TABLE IF NOT EXISTS migrations (version bigint PRIMARY KEY, applied timestamptz NOT NULL)")
        .await?;
    let before = version(session).await?;
    for (at, migration) in MIGRATIONS.iter().enumerate().skip(before) {
        session.batch(migration).await?;
        let number = i64::try_from(at + 1).unwrap_or(i64::MAX);
        session
            .run(
                "INSERT INTO migrations (version, applied) VALUES ($1, now())",
                values![number],
            )
            .await?;
    }
    Ok(SchemaState::of(before))
}
