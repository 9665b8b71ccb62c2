//! The database file: how a connection is opened, and which version of the tables it finds or makes.
//!
//! *Invariant:* a migration that was released is never changed, only followed by another; a file that a newer version of
//! the service has written is refused, not guessed at.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use toolgate_model::Durability;

use super::error::{Doing, failed, io, limit};
use crate::StoreError;

const MIGRATIONS: [&str; 10] = [
    include_str!("schema.sql"),
    include_str!("changes.sql"),
    include_str!("audit.sql"),
    include_str!("apart.sql"),
    include_str!("lists.sql"),
    include_str!("workspaces.sql"),
    include_str!("askers.sql"),
    include_str!("packed.sql"),
    include_str!("bounded.sql"),
    include_str!("sums.sql"),
];

/// Other processes write in transactions of a few milliseconds; waiting this long means that one of them hangs.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const CACHED_STATEMENTS: usize = 64;

/// Opens the connection that writes, and brings the tables up to date.
pub(super) fn open_writer(path: &Path, durability: Durability) -> Result<Connection, StoreError> {
    // SQLite would create the file readable for everybody; its side files take over the mode of this one.
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| io("open the database", path, error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = connect(path, flags)?;
    // With a write-ahead log NORMAL waits for the disk when the log is written back, FULL at the end of each transaction.
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    // Whether pages can be given back is settled when a database is made: on an older one this changes nothing.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")
        .and_then(|()| db.pragma_update(None, "journal_mode", "WAL"))
        .and_then(|()| db.pragma_update(None, "synchronous", synchronous))
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

/// Refuses a database whose tables are not those of this release: for those who only read.
pub(super) fn expect_newest(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let what = format!("read the database {}", path.display());
    let version: i64 = db
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .doing(db, "look at the version of the tables")?;
    let newest = limit(MIGRATIONS.len());
    match version.cmp(&newest) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(failed(
            what,
            "an earlier release wrote it: start `toolgate serve` of this release on it once, and stop it again",
        )),
        std::cmp::Ordering::Greater => Err(failed(
            what,
            format!("a newer release wrote it: its tables are version {version}, this one knows {newest}"),
        )),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(path, flags)
        .map_err(|error| failed(format!("open the database {}", path.display()), error))?;
    db.busy_timeout(BUSY_TIMEOUT).doing(&db, "set the waiting time")?;
    db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};
    use tempfile::TempDir;
    use toolgate_model::{InstanceId, OutputId, SessionId, SessionKey};

    use super::*;
    use crate::local::{LocalStore, output_folder, workspace_folder};
    use crate::{Outputs as _, SessionFacts as _, Upkeep as _};

    /// The version that told sessions apart by their ids only, and kept all outputs in one folder.
    const SHARED: usize = 3;

    /// The version that summed up sessions when they were listed.
    const SUMMED_UP: usize = 8;

    /// Makes a database as that version left it.
    fn tables_of(path: &Path, version: usize) -> Connection {
        let db = Connection::open(path).expect("a database");
        for migration in &MIGRATIONS[..version] {
            db.execute_batch(migration).expect("its tables");
        }
        db.pragma_update(None, "user_version", limit(version))
            .expect("a version");
        db
    }

    #[test]
    fn a_database_of_a_development_version_gets_what_it_lacks() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("toolgate.db");
        let db = tables_of(&path, SUMMED_UP + 1);
        db.execute_batch(
            "DROP INDEX calls_of_sessions; DROP INDEX sessions_by_workspace;
             CREATE TRIGGER calls_go AFTER DELETE ON calls BEGIN SELECT 1; END",
        )
        .expect("it was otherwise");
        drop(db);
        let db = open_writer(&path, Durability::Process).expect("it opens");
        db.execute_batch(
            "INSERT INTO calls (id, owner, workspace, session, tool, state, created, last_sequence, record, agent)
             VALUES ('1', 'i', 'w', 's', 't', 'running', 50, 1, '{}', 'build'); DELETE FROM calls",
        )
        .expect("a call that goes");
        let left: i64 = db
            .query_row(
                "SELECT count(*) FROM sessions INDEXED BY sessions_by_workspace WHERE workspace = 'w'",
                [],
                |row| row.get(0),
            )
            .expect("a count");
        assert_eq!(left, 0);
    }

    #[test]
    fn what_sessions_sum_up_to_is_counted_once() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("toolgate.db");
        let db = tables_of(&path, SUMMED_UP);
        db.execute_batch(
            "INSERT INTO calls (id, owner, workspace, session, tool, state, created, ended, last_sequence, record, agent) VALUES
             ('1', 'i', 'w', 's', 't', 'completed', 50, 900, 1, '{}', 'build'),
             ('2', 'i', 'w', 's', 't', 'completed', 70, 80, 1, '{}', 'plan'),
             ('3', 'i', 'w', 's', 't', 'running', 60, NULL, 1, '{}', 'build'),
             ('4', 'i', 'v', 's', 't', 'running', 10, NULL, 1, '{}', '')",
        )
        .expect("calls, the third after the clock went back");
        drop(db);
        let db = open_writer(&path, Durability::Process).expect("it opens");
        let sums = "SELECT group_concat(concat_ws(' ', workspace, session, number, agents, first, newest, active, calls, unfinished), char(10))
                    FROM sessions";
        let sums: String = db.query_row(sums, [], |row| row.get(0)).expect("sums");
        assert_eq!(
            sums,
            "v s 4 [\"\"] 10 10 10 1 1\nw s 2 [\"build\",\"plan\"] 50 70 900 3 1"
        );
    }

    #[test]
    fn what_must_survive_a_loss_of_power_waits_for_the_disk() {
        let folder = TempDir::new().expect("a folder");
        for (durability, level) in [(Durability::Process, 1), (Durability::Power, 2)] {
            let db = open_writer(&folder.path().join("toolgate.db"), durability).expect("it opens");
            let synchronous: i64 = db
                .query_row("PRAGMA synchronous", [], |row| row.get(0))
                .expect("a level");
            assert_eq!(synchronous, level, "{durability:?}");
        }
    }

    #[tokio::test]
    async fn what_was_shared_goes_to_its_workspace() {
        let folder = TempDir::new().expect("a folder");
        let data = folder.path().canonicalize().expect("a path");
        let db = tables_of(&data.join("toolgate.db"), SHARED);
        let call =
            "INSERT INTO calls (id, owner, workspace, session, tool, state, created, last_sequence, record, ended)
                    VALUES (?, 'i', ?, ?, 't', 'completed', 0, 1, '{}', 0)";
        for (id, workspace, session) in [("1", "a", "s"), ("2", "b", "s"), ("3", "b", "t")] {
            db.execute(call, [id, workspace, session]).expect("a call");
        }
        let plan = r#"{"created": 7, "slug": "calm-sea"}"#;
        let fact = "INSERT INTO facts (session, key, value) VALUES (?, ?, ?)";
        for (session, key, value) in [
            ("s", "todos", "[1]"),
            ("t", "todos", "[2]"),
            ("t", "plan", plan),
            ("sub", "subagent", r#""b""#),
            ("sub", "todos", "[3]"),
            ("nobody's", "todos", "[4]"),
        ] {
            db.execute(fact, [session, key, value]).expect("a fact");
        }
        let ids = ["tool_000000000001aaaaaaaaaaaaaa", "tool_000000000002bbbbbbbbbbbbbb"];
        fs::create_dir_all(data.join("tool-output")).expect("the folder of all");
        fs::create_dir_all(data.join("plans")).expect("the plans of all");
        fs::write(data.join("plans/7-calm-sea.md"), "plan").expect("a plan");
        for (id, workspace) in ids.into_iter().zip(["a", "b"]) {
            let output = "INSERT INTO outputs (id, instance, call, session, workspace, created, complete, bytes)
                          VALUES (?, 'i', '1', 's', ?, 0, 1, 1)";
            db.execute(output, [id, workspace]).expect("an output");
            fs::write(data.join("tool-output").join(id), workspace).expect("its file");
        }
        drop(db);

        let store = LocalStore::open(&data, InstanceId::generate()).expect("it opens");
        let fact = async |workspace: &str, session: &str| {
            let key = SessionKey::new(workspace, &SessionId::from(session));
            store.fact(&key, "todos").await.expect("it is read")
        };
        let check: [(&str, &str, Option<Value>); 8] = [
            ("a", "s", Some(json!([1]))),
            ("b", "s", None),
            ("b", "t", Some(json!([2]))),
            ("a", "t", None),
            ("b", "sub", Some(json!([3]))),
            ("a", "sub", None),
            ("a", "nobody's", None),
            ("b", "nobody's", None),
        ];
        for (workspace, session, expected) in check {
            assert_eq!(fact(workspace, session).await, expected, "{session} in {workspace}");
        }
        assert!(!data.join("tool-output").exists());
        for (id, workspace) in ids.into_iter().zip(["a", "b"]) {
            let info = store
                .look(&OutputId::from(id))
                .await
                .expect("it is read")
                .expect("it is there");
            assert_eq!(info.path, output_folder(&data, workspace).join(id).to_string_lossy());
            assert_eq!(fs::read_to_string(&info.path).expect("its file"), workspace);
        }
        let plan = workspace_folder(&data, "b").join("plans/7-calm-sea.md");
        assert_eq!(fs::read_to_string(plan).expect("the plan"), "plan");
        store.close().await.expect("it closes");
    }
}
