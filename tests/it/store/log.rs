//! The files of the embedded store: the write-ahead log stays short, however much is written and whoever reads, and the database
//! becomes shorter when records are deleted.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use toolgate_model::{CallRecord, InstanceId, Outcome, Timestamp};
use toolgate_store::local::LocalStore;
use toolgate_store::{CallFilter, CallLog, PageRequest, StoreError};
use uuid::Uuid;

use super::{end, grow, record};

/// What is documented.
const MOST: u64 = 64 << 20;

const CLIENTS: u64 = 64;

/// What a read of a file leaves.
const RESULT: usize = 54_000;

/// Together they write more than twice what the log may take.
const CALLS: u64 = 2_560;

/// A store, and how long its log has been.
struct Watched {
    folder: TempDir,
    store: LocalStore,
    instance: InstanceId,
    longest: AtomicU64,
    stored: watch::Sender<u64>,
}

impl Watched {
    fn new() -> Arc<Self> {
        let folder = TempDir::new().unwrap();
        let instance = InstanceId::generate();
        let store = LocalStore::open(folder.path(), instance.clone()).unwrap();
        Arc::new(Self {
            folder,
            store,
            instance,
            longest: AtomicU64::new(0),
            stored: watch::Sender::new(0),
        })
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("toolgate.db")
    }

    fn look(&self) {
        let log = fs::metadata(self.folder.path().join("toolgate.db-wal")).unwrap().len();
        self.longest.fetch_max(log, Ordering::Relaxed);
    }

    /// Stores a call from its beginning to its end.
    async fn call(&self, id: &str, output: String) -> Result<(), StoreError> {
        let mut call: CallRecord = record(id, &self.instance);
        let events = grow(&mut call, 1);
        CallLog::create_call(&self.store, call.clone(), events).await?;
        let events = end(&mut call, Timestamp(2_000));
        call.ending.as_mut().unwrap().outcome = Outcome::Completed { output };
        CallLog::append(&self.store, call, events).await?;
        self.look();
        self.stored.send_modify(|stored| *stored += 1);
        Ok(())
    }

    /// Another program, which has no cause to give way.
    fn stranger(&self) -> Connection {
        Connection::open(self.database()).unwrap()
    }
}

/// Text that takes as much when it is compressed.
fn noise(length: usize) -> String {
    let bytes: Vec<u8> = (0..length.div_ceil(16))
        .flat_map(|_| *Uuid::new_v4().as_bytes())
        .collect();
    bytes
        .iter()
        .map(|byte| char::from(b' ' + byte % 90))
        .take(length)
        .collect()
}

fn begin_to_read(stranger: &Connection) {
    stranger.execute_batch("BEGIN; SELECT count(*) FROM facts;").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_short_under_load_with_readers_in_the_way() {
    let watched = Watched::new();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let watched = watched.clone();
        clients.spawn(async move {
            for number in 0..CALLS / CLIENTS {
                // What can be stored in less, so that what a call changes besides counts, and what cannot.
                let output = if number % 2 == 0 {
                    "x".repeat(RESULT)
                } else {
                    noise(RESULT)
                };
                watched.call(&format!("{client}-{number}"), output).await.unwrap();
            }
        });
    }
    let mut readers = JoinSet::new();
    for tool in ["bash", "none"] {
        let watched = watched.clone();
        readers.spawn(async move {
            let filter = CallFilter {
                tools: vec![tool.to_owned()],
                ..CallFilter::default()
            };
            loop {
                let page = PageRequest { size: 20, after: None };
                CallLog::list_calls(&watched.store, &filter, &page).await.unwrap();
                // A listing of nothing would never let others run.
                tokio::task::yield_now().await;
            }
        });
    }
    let (stranger, mut stored) = (watched.stranger(), watched.stored.subscribe());
    readers.spawn(async move {
        loop {
            begin_to_read(&stranger);
            let enough = *stored.borrow() + 100;
            let enough = stored.wait_for(|stored| *stored >= enough);
            // When the log is full, they wait for this reader.
            let _ = tokio::time::timeout(Duration::from_millis(300), enough).await;
            stranger.execute_batch("COMMIT").unwrap();
        }
    });
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    readers.abort_all();
    let longest = watched.longest.load(Ordering::Relaxed);
    assert!(longest <= MOST, "the log took {longest} bytes");
    assert_eq!(*watched.stored.borrow(), CALLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_never_ends_is_named_before_the_log_is_too_long() {
    let watched = Watched::new();
    let stranger = watched.stranger();
    begin_to_read(&stranger);
    let mut refused = None;
    for number in 0..CALLS {
        if let Err(error) = watched.call(&format!("a-{number}"), "x".repeat(RESULT)).await {
            refused = Some(error);
            break;
        }
    }
    watched.look();
    let longest = watched.longest.load(Ordering::Relaxed);
    assert!(longest <= MOST, "the log took {longest} bytes");
    assert!(
        matches!(&refused, Some(StoreError::Full(what)) if what.contains("another program") && what.contains("toolgate.db")),
        "{refused:?}"
    );
    stranger.execute_batch("COMMIT").unwrap();
    watched.call("again", String::new()).await.unwrap();
    let log = fs::metadata(watched.folder.path().join("toolgate.db-wal"))
        .unwrap()
        .len();
    assert!(log < MOST / 2, "it has begun anew: {log} bytes");
}

/// Deletes what was stored, in a database that was made before pages could be given back, or now; returns how long its file was
/// before and after.
async fn shortened(is_old: bool) -> (u64, u64) {
    let watched = Watched::new();
    let length = || fs::metadata(watched.database()).unwrap().len();
    if is_old {
        let db = watched.stranger();
        db.execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
    }
    for number in 0..600 {
        watched.call(&format!("a-{number}"), noise(RESULT)).await.unwrap();
    }
    let written_back = || {
        watched
            .stranger()
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap()
    };
    written_back();
    let before = length();
    assert_eq!(watched.store.sweep_calls(Timestamp(3_000)).await.unwrap(), 600);
    watched.call("again", noise(RESULT)).await.unwrap();
    written_back();
    let check = "SELECT * FROM pragma_integrity_check";
    let told: String = watched.stranger().query_row(check, [], |row| row.get(0)).unwrap();
    assert_eq!(told, "ok");
    (before, length())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_room_of_deleted_records_is_given_back_but_for_some() {
    let (before, after) = shortened(false).await;
    assert!(before > 25_000_000 && after < 20_000_000, "{before} to {after}");
    let (before, after) = shortened(true).await;
    assert!(after >= before, "{before} to {after}");
}
