//! Answers that never come, and gateways that are cut off from the database: what is there is known in the end, and one gateway that has
//! no store is no reason to stop, and none to go on.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use toolgate_ledger::LedgerStore;
use toolgate_model::{CallId, InstanceId, PromptId, PromptState, Timestamp};
use toolgate_store::ledger::Ledger as _;
use toolgate_store::{CallLog as _, Created, Prompts as _, StoreError, Upkeep as _};

use crate::faults::{Place, until};
use crate::gateway::{LEASE, Running, WORKER, options};
use crate::postgres::{database, server};
use crate::proxy::Line;
use crate::server::Server;
use crate::store::{end, grow, prompt, record};

const LONG: Duration = Duration::from_secs(600);

/// A way to a database that can be closed.
struct Door {
    folder: TempDir,
    forwards: JoinHandle<()>,
}

impl Door {
    fn open(server: &Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let socket = server.socket();
        let forwards = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let socket = socket.clone();
                connections.spawn(async move {
                    let mut server = UnixStream::connect(socket).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        Self { folder, forwards }
    }

    fn address(&self, database: &str) -> String {
        let folder = self.folder.path().display();
        format!("host={folder} port=5432 user=toolgate dbname={database}")
    }

    /// Closes all connections; there are no new ones.
    async fn close(&mut self) {
        self.forwards.abort();
        let _ = (&mut self.forwards).await;
    }
}

/// Keeps a run alive whose answers are lost for longer than its lease.
pub(crate) fn kept_alive(place: &Place) -> JoinHandle<()> {
    let (store, run) = (place.gateway.store.clone(), place.run.clone());
    tokio::spawn(async move {
        loop {
            store.renew_leases(std::slice::from_ref(&run)).await.unwrap();
            tokio::time::sleep(LEASE / 6).await;
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_answered_is_said_again_later() {
    let place = Place::new().await;
    let (store, own) = (place.open(&place.run, LONG).await, &place.gateway.store);
    let keeper = kept_alive(&place);
    let id = CallId::from("call");
    let mut call = record("call", &place.run);
    let events = grow(&mut call, 1);
    store.create_call(call.clone(), events).await.unwrap();

    // For longer than a request is tried.
    place.line.lose_answers();
    let mut events = grow(&mut call, 2);
    let lost = store.append(call.clone(), events.clone()).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(own.get(&id).await.unwrap().unwrap().last_sequence, 3);
    place.line.reset();

    // With more behind it.
    events.extend(grow(&mut call, 1));
    store.append(call.clone(), events).await.unwrap();
    let events = end(&mut call, Timestamp(2_000));
    store.append(call.clone(), events).await.unwrap();
    assert_eq!(own.get(&id).await.unwrap(), Some(call));
    assert_eq!(own.events(&id, 0, 100).await.unwrap().len(), 5);
    assert!(!store.stopped().is_cancelled());
    keeper.abort();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_ends() {
    let place = Place::new().await;
    let (store, own) = (place.open(&place.run, LONG).await, &place.gateway.store);
    let keeper = kept_alive(&place);
    let mut call = record("call", &place.run);
    let events = grow(&mut call, 1);
    store.create_call(call, events).await.unwrap();

    place.line.lose_answers();
    let mut lost = record("lost", &place.run);
    let events = grow(&mut lost, 1);
    let asked = prompt("pmt_1", "call", &place.run);
    let (created, opened) = tokio::join!(store.create_call(lost.clone(), events), store.open(asked, None, None));
    assert!(matches!(created, Err(StoreError::Unavailable(_))), "{created:?}");
    assert!(matches!(opened, Err(StoreError::Unavailable(_))), "{opened:?}");
    assert!(own.get(&lost.id).await.unwrap().unwrap().ended.is_none());
    // It is nobody's who died.
    place.line.reset();
    let adopted = store.adopt_orphans(&place.run).await.unwrap();
    assert!(adopted.is_empty(), "{adopted:?}");

    let has_ended = async || own.get(&lost.id).await.unwrap().unwrap().ended.is_some();
    until("the call that nobody runs ends", has_ended).await;
    let id = PromptId::from("pmt_1");
    let is_withdrawn = async || own.prompt(&id).await.unwrap().unwrap().state == PromptState::Withdrawn;
    until("the prompt that nobody waits for is withdrawn", is_withdrawn).await;
    keeper.abort();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_without_the_database_is_left_for_another() {
    let server = server().await;
    let database = database(server).await;
    let mut door = Door::open(server);
    let first = Running::start(&door.address(&database)).await;
    let second = Running::start(&server.address(&database)).await;
    let (folder, run) = (tempfile::tempdir().unwrap(), InstanceId::generate());
    let mut options = options(&[first.address(), second.address()], &run, folder.path(), WORKER);
    options.workspaces = vec!["main".to_owned()];
    options.lease = Some(Duration::from_secs(20));
    let store = LedgerStore::open(options).await.unwrap();
    door.close().await;
    let mut call = record("call", &run);
    let events = grow(&mut call, 1);
    assert_eq!(store.create_call(call.clone(), events).await.unwrap(), Created::New);
    let events = end(&mut call, Timestamp(2_000));
    store.append(call.clone(), events).await.unwrap();
    assert_eq!(second.store.get(&call.id).await.unwrap(), Some(call));
    assert!(!store.stopped().is_cancelled());
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_only_answers_are_of_a_gateway_without_the_database_stops() {
    let server = server().await;
    let database = database(server).await;
    let mut door = Door::open(server);
    let first = Running::start(&door.address(&database)).await;
    let second = Running::start(&server.address(&database)).await;
    let to_second = Line::to(&second.address()).await;
    let (folder, run) = (tempfile::tempdir().unwrap(), InstanceId::generate());
    let mut options = options(&[first.address(), to_second.address()], &run, folder.path(), WORKER);
    options.workspaces = vec!["main".to_owned()];
    options.lease = Some(LEASE);
    let store = LedgerStore::open(options).await.unwrap();
    let mut call = record("call", &run);
    let events = grow(&mut call, 1);
    store.create_call(call, events).await.unwrap();
    door.close().await;
    to_second.cut();
    let begun = Instant::now();
    let stopped = tokio::time::timeout(LEASE * 4, store.stopped().cancelled_owned()).await;
    stopped.expect("it stops: others may have its workspace");
    assert!(begun.elapsed() > LEASE / 2, "{:?}", begun.elapsed());
}
