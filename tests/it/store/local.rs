//! What only the embedded store promises: its files, its locks, and its words when they are not as they should be.

use std::collections::HashMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use tempfile::TempDir;
use toolgate_model::{CallId, FileChange, FileVersion, InstanceId, PromptId, SessionId, SessionKey, Timestamp};
use toolgate_store::local::{LocalStore, QuotaLimits, StoreOptions, output_folder};
use toolgate_store::{
    CallLog, Changes, OutputOwner, OutputRetention, Outputs, Prompts, SessionFacts, Store, StoreError, Upkeep,
};

use super::{Fixture, create, end, prompt, record};

const MIB: usize = 1 << 20;

/// Stores that share one data directory.
pub(crate) struct LocalFixture {
    folder: TempDir,
    running: Mutex<HashMap<InstanceId, Arc<LocalStore>>>,
}

impl LocalFixture {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            running: Mutex::default(),
        }
    }
}

#[async_trait]
impl Fixture for LocalFixture {
    async fn open(&self, instance: &InstanceId) -> Arc<dyn Store> {
        let store = Arc::new(LocalStore::open(self.folder.path(), instance.clone()).unwrap());
        self.running
            .lock()
            .unwrap()
            .insert(instance.clone(), Arc::clone(&store));
        store
    }

    async fn stop(&self, instance: &InstanceId) {
        let store = self.running.lock().unwrap().remove(instance).expect("it runs");
        store.close().await.unwrap();
    }
}

fn open(folder: &Path) -> Result<LocalStore, StoreError> {
    LocalStore::open(folder, InstanceId::generate())
}

fn owner() -> OutputOwner {
    OutputOwner {
        call: CallId::from("c"),
        session: SessionId::from("s"),
        workspace: "main".to_owned(),
    }
}

/// Returns an error with its causes.
fn refused(folder: &Path) -> String {
    let Err(error) = open(folder) else {
        panic!("{} must be refused", folder.display())
    };
    let source = std::error::Error::source(&error)
        .map(ToString::to_string)
        .unwrap_or_default();
    format!("{error}: {source}")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn write(store: &LocalStore, bytes: &[u8]) -> PathBuf {
    let mut writer = Outputs::create_output(store, owner()).await.unwrap();
    writer.append(bytes.to_vec().into()).await.unwrap();
    PathBuf::from(writer.finish().await.unwrap().path)
}

#[tokio::test]
async fn files_are_the_owners() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("new/data");
    let store = open(&data).unwrap();
    let output = write(&store, b"text").await;
    assert!(output.is_absolute());
    let name = output.file_name().unwrap().to_str().unwrap();
    assert_eq!((name.len(), &name[..5]), (31, "tool_"));
    assert_eq!(fs::read(&output).unwrap(), b"text");
    for (path, expected) in [
        (output.clone(), 0o600),
        (data.join("workspaces/main/tool-output"), 0o700),
        (data.join("workspaces/main"), 0o700),
        (data.join("workspaces"), 0o700),
        (data.join("toolgate.db"), 0o600),
        (data.join("toolgate.db-wal"), 0o600),
        (data.clone(), 0o700),
    ] {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    store.close().await.unwrap();
    assert!(!data.join("toolgate.db-wal").exists(), "a closed store is one file");
    assert_eq!(fs::read_dir(data.join("instances")).unwrap().count(), 0);
}

#[tokio::test]
async fn an_output_never_written_has_no_file() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let mut writer = Outputs::create_output(&store, owner()).await.unwrap();
    writer.append(Bytes::new()).await.unwrap();
    assert!(!Path::new(writer.path()).exists());
    drop(writer);
    assert_eq!(fs::read_dir(folder.path().join("workspaces")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let folder = TempDir::new().unwrap();
    let instance = InstanceId::generate();
    let store = LocalStore::open(folder.path(), instance.clone()).unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    let session = SessionKey::new("w", &SessionId::from("s"));
    store.remember(&session, "key", serde_json::json!(1));
    for result in [
        store.get(&CallId::from("c")).await.map(drop),
        store.adopt_orphans(&instance).await.map(drop),
        store.fact(&session, "key").await.map(drop),
    ] {
        assert!(matches!(result, Err(StoreError::Failed { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn a_lock_file_without_a_lock_is_a_dead_instance() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let killed = InstanceId::from("killed");
    fs::write(folder.path().join("instances/killed.lock"), "").unwrap();
    create(&store, record("c", &killed)).await;
    let heir = InstanceId::generate();
    let adopted = store.adopt_orphans(&heir).await.unwrap();
    assert_eq!(adopted.len(), 1);

    let living = File::open(folder.path().join("instances/killed.lock")).unwrap();
    living.lock().unwrap();
    create(&store, record("d", &killed)).await;
    assert_eq!(store.adopt_orphans(&heir).await.unwrap(), []);
    drop(living);
    drop(open(folder.path()).unwrap());
    assert!(
        !folder.path().join("instances/killed.lock").exists(),
        "the next start tidies up"
    );
}

#[tokio::test]
async fn one_instance_runs_once() {
    let folder = TempDir::new().unwrap();
    let instance = InstanceId::generate();
    let store = LocalStore::open(folder.path(), instance.clone()).unwrap();
    let Err(error) = LocalStore::open(folder.path(), instance.clone()) else {
        panic!("it runs already")
    };
    assert!(error.to_string().contains(instance.as_str()), "{error}");
    store.close().await.unwrap();
    LocalStore::open(folder.path(), instance).unwrap();
    for bad in ["", "a/b", "..", "nul\0", &"x".repeat(101)] {
        assert!(
            LocalStore::open(folder.path(), InstanceId::from(bad)).is_err(),
            "{bad:?}"
        );
    }
}

#[test]
fn what_is_not_a_data_directory() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    for path in [file.clone(), file.join("below"), PathBuf::from("/proc/toolgate")] {
        let error = refused(&path);
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_damaged_database_is_named() {
    let folder = TempDir::new().unwrap();
    let database = folder.path().join("toolgate.db");
    fs::write(
        &database,
        "no database, but long enough to be taken for a header\n".repeat(100),
    )
    .unwrap();
    let error = refused(folder.path());
    assert!(
        error.contains(database.to_str().unwrap()) && error.contains("not a database"),
        "{error}"
    );
    fs::remove_file(&database).unwrap();
    fs::create_dir(&database).unwrap();
    let error = refused(folder.path());
    assert!(error.contains(database.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let folder = TempDir::new().unwrap();
    open(folder.path()).unwrap().close().await.unwrap();
    let database = folder.path().join("toolgate.db");
    let db = rusqlite::Connection::open(&database).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let error = refused(folder.path());
    assert!(
        error.contains(database.to_str().unwrap()) && error.contains("version 99"),
        "{error}"
    );
}

#[tokio::test]
async fn a_damaged_record_is_an_error() {
    let folder = TempDir::new().unwrap();
    let instance = InstanceId::generate();
    let store = LocalStore::open(folder.path(), instance.clone()).unwrap();
    let call = create(&store, record("c", &instance)).await;
    let db = rusqlite::Connection::open(folder.path().join("toolgate.db")).unwrap();
    db.execute("UPDATE calls SET record = '{'", []).unwrap();
    let result = store.get(&call.id).await;
    assert!(matches!(result, Err(StoreError::Failed { .. })), "{result:?}");
}

#[tokio::test]
async fn sweeping_touches_outputs_only() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    store.prepare_workspace("main").unwrap();
    let outputs = output_folder(&folder.path().canonicalize().unwrap(), "main");
    let target = folder.path().join("target");
    fs::write(&target, "text").unwrap();
    let name = |end: &str| outputs.join(format!("tool_0123456789abABCDEFGHIJKL{end}"));
    symlink(&target, name("ln")).unwrap();
    fs::create_dir(name("fo")).unwrap();
    fs::write(name("long"), "text").unwrap();
    fs::write(outputs.join("notes.txt"), "text").unwrap();
    let own = write(&store, b"text").await;
    let ownerless = name("xx");
    fs::write(&ownerless, "text").unwrap();
    let lost = write(&store, b"text").await;
    fs::remove_file(&lost).unwrap();

    let hours_ago = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 3_600);
    for path in [&own, &ownerless] {
        File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_times(FileTimes::new().set_modified(hours_ago(2)))
            .unwrap();
    }
    let keep = |hours: u64| OutputRetention {
        before: Timestamp::from(hours_ago(hours)),
        max_total_bytes: u64::MAX,
    };
    assert_eq!(store.sweep_outputs(keep(3)).await.unwrap(), 0);
    assert_eq!(store.sweep_outputs(keep(1)).await.unwrap(), 2);
    assert!(!own.exists() && !ownerless.exists());
    for kept in [
        &name("ln"),
        &name("fo"),
        &name("long"),
        &outputs.join("notes.txt"),
        &target,
    ] {
        assert!(kept.symlink_metadata().is_ok(), "{} must stay", kept.display());
    }
    let db = rusqlite::Connection::open(folder.path().join("toolgate.db")).unwrap();
    let rows: i64 = db
        .query_row("SELECT count(*) FROM outputs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 0, "rows without a file go");
}

#[tokio::test]
async fn a_name_that_is_taken_is_not_written_through() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    store.prepare_workspace("main").unwrap();
    let mut writer = Outputs::create_output(&store, owner()).await.unwrap();
    let target = folder.path().join("target");
    symlink(&target, writer.path()).unwrap();
    let result = writer.append(Bytes::from_static(b"text")).await;
    assert!(matches!(result, Err(StoreError::Failed { .. })), "{result:?}");
    assert!(!target.exists());
    fs::remove_file(writer.path()).unwrap();
    writer.append(Bytes::from_static(b"whole")).await.unwrap();
    let info = writer.finish().await.unwrap();
    assert_eq!(
        (info.bytes, fs::read(&info.path).unwrap().as_slice()),
        (5, b"whole".as_slice())
    );
}

#[tokio::test]
async fn an_older_database_is_brought_up_to_date() {
    let folder = TempDir::new().unwrap();
    let instance = InstanceId::generate();
    let store = LocalStore::open(folder.path(), instance.clone()).unwrap();
    let call = create(&store, record("c", &instance)).await;
    store.open(prompt("p", "c", &instance), None, None).await.unwrap();
    store.close().await.unwrap();
    let db = rusqlite::Connection::open(folder.path().join("toolgate.db")).unwrap();
    db.execute_batch(
        "DROP INDEX prompts_open_revisions; ALTER TABLE prompts DROP COLUMN asker; ALTER TABLE prompts DROP COLUMN revision;
         DROP TABLE changes; DROP TABLE workspaces; DROP TABLE audit; DROP TABLE audit_head; DROP TABLE sessions;
         DROP TRIGGER calls_begin; DROP TRIGGER calls_end; DROP TRIGGER calls_go; DROP INDEX calls_by_time;
         DROP INDEX calls_by_workspace; DROP INDEX calls_of_sessions; DROP INDEX calls_by_session; CREATE INDEX calls_by_session ON calls (session);
         CREATE INDEX calls_finished ON calls (ended) WHERE ended IS NOT NULL;
         DROP INDEX calls_of_parents; ALTER TABLE calls DROP COLUMN agent; ALTER TABLE calls DROP COLUMN requester;
         ALTER TABLE calls DROP COLUMN parent; ALTER TABLE calls DROP COLUMN reason;
         ALTER TABLE calls DROP COLUMN words; ALTER TABLE calls DROP COLUMN packed; PRAGMA user_version = 1",
    )
    .unwrap();
    drop(db);
    let store = open(folder.path()).unwrap();
    assert_eq!(store.get(&call.id).await.unwrap(), Some(call.clone()));
    assert_eq!(store.changes(&call.id).await.unwrap(), []);
    let id = PromptId::from("p");
    assert_eq!(store.open_prompts().await.unwrap(), [(id.clone(), 0)]);
    assert_eq!(
        store.asked(&id).await.unwrap().unwrap().asker,
        None,
        "of who asks, nothing is known"
    );
}

/// A store with one ended call that changed a file, and the blobs before and after.
async fn changed(folder: &Path) -> (LocalStore, [PathBuf; 2]) {
    let instance = InstanceId::generate();
    let store = LocalStore::open(folder, instance.clone()).unwrap();
    let mut call = create(&store, record("c", &instance)).await;
    let mut versions = Vec::new();
    for text in ["before", "after"] {
        versions.push(FileVersion {
            sha256: store.put_blob(Bytes::from(text)).await.unwrap(),
            bytes: text.len() as u64,
            mode: None,
        });
    }
    let blobs = [0, 1].map(|index| {
        let sha256: &str = &versions[index as usize].sha256;
        folder.join("blobs").join(&sha256[..2]).join(sha256)
    });
    let change = FileChange {
        path: "/w/a".into(),
        shown: "/w/a".into(),
        after: versions.pop(),
        before: versions.pop(),
    };
    store.record_changes(&call.id, vec![change]).await.unwrap();
    let events = end(&mut call, Timestamp(2_000));
    store.append(call, events).await.unwrap();
    (store, blobs)
}

fn age(path: &Path) {
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3_600);
    let file = File::options().append(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(hours_ago)).unwrap();
}

#[tokio::test]
async fn contents_are_the_owners_and_go_when_nothing_needs_them() {
    let folder = TempDir::new().unwrap();
    let (store, [before, after]) = changed(folder.path()).await;
    assert_eq!((mode(&before), mode(before.parent().unwrap())), (0o600, 0o700));
    let abandoned = before.with_file_name(".new-abandoned");
    let stranger = folder.path().join("blobs/notes.txt");
    for path in [&abandoned, &stranger] {
        fs::write(path, "text").unwrap();
    }
    let present = || [&before, &after, &abandoned, &stranger].map(|path| path.exists());
    for path in [&before, &after, &stranger] {
        age(path);
    }
    store.sweep_calls(Timestamp(1_000)).await.unwrap();
    assert_eq!(present(), [true; 4], "all are needed, young, or not ours");
    age(&abandoned);
    store.sweep_calls(Timestamp(1_000)).await.unwrap();
    assert_eq!(present(), [true, true, false, true]);

    // A call that is about to be recorded needs the old content again.
    store.put_blob(Bytes::from("before")).await.unwrap();
    assert_eq!(store.sweep_calls(Timestamp(3_000)).await.unwrap(), 1);
    assert_eq!(present(), [true, false, false, true]);
    age(&before);
    store.sweep_calls(Timestamp(3_000)).await.unwrap();
    assert_eq!(present(), [false, false, false, true]);
}

#[tokio::test]
async fn a_damaged_content_is_an_error_until_it_is_put_again() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let sha256 = store.put_blob(Bytes::from("text")).await.unwrap();
    let path = folder.path().join("blobs").join(&sha256[..2]).join(&sha256);
    fs::write(&path, "").unwrap();
    let read = store.blob(&sha256).await;
    assert!(matches!(read, Err(StoreError::Failed { .. })), "{read:?}");
    store.put_blob(Bytes::from("text")).await.unwrap();
    assert_eq!(store.blob(&sha256).await.unwrap(), Some(Bytes::from("text")));
}

#[tokio::test]
async fn a_full_store_deletes_the_oldest_and_keeps_what_is_written() {
    let folder = TempDir::new().unwrap();
    let limits = QuotaLimits {
        // What the database takes is less than one of these.
        max_bytes: 101 * MIB as u64,
        min_free_bytes: 1,
        keep_outputs: Duration::from_secs(60),
    };
    let options = StoreOptions {
        limits,
        ..StoreOptions::default()
    };
    let store = LocalStore::open_with(folder.path(), InstanceId::generate(), options).unwrap();
    let store = &store;
    let full = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Full(_)));
    store.put_blob(Bytes::from(vec![1; 20 * MIB])).await.unwrap();
    let oldest = write(store, &[b'a'; 30 * MIB]).await;
    let old = write(store, &[b'b'; 20 * MIB]).await;
    let time = SystemTime::now() - Duration::from_secs(10);
    File::open(&oldest)
        .unwrap()
        .set_times(FileTimes::new().set_modified(time))
        .unwrap();
    let mut writer = Outputs::create_output(store, owner()).await.unwrap();
    writer.append(Bytes::from(vec![b'c'; 31 * MIB])).await.unwrap();
    assert!(!oldest.exists() && old.exists(), "only the oldest goes");
    assert!(
        full(writer.append(Bytes::from(vec![b'c'; 50 * MIB])).await),
        "what is too much stays too much"
    );
    writer.append(Bytes::from(vec![b'c'; 29 * MIB])).await.unwrap();
    // More than could be freed.
    assert!(full(store.put_blob(Bytes::from(vec![2; 50 * MIB])).await.map(drop)));
    let info = writer.finish().await.unwrap();
    let whole = 60 * MIB as u64;
    assert_eq!((info.bytes, fs::metadata(&info.path).unwrap().len()), (whole, whole));
    store.put_blob(Bytes::from(vec![2; 30 * MIB])).await.unwrap();
    assert!(!fs::exists(&info.path).unwrap(), "it has ended, so it may go");
    assert_eq!(Outputs::stat(store, &info.id).await.unwrap(), None);
}
