//! Lines that lose answers, gateways that die, workspaces that are taken over: nothing is stored twice, and who has lost stops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use toolgate_ledger::LedgerStore;
use toolgate_model::{CallId, FileChange, FileVersion, InstanceId, PromptId, SessionId, SessionKey, Timestamp};
use toolgate_store::ledger::{Bound, Ledger as _};
use toolgate_store::{
    CallLog as _, Changes as _, Created, OutputOwner, Outputs as _, Prompts as _, SessionFacts as _, StoreError,
    Upkeep as _,
};

use crate::doubts::kept_alive;
use crate::gateway::{LEASE, OWNER, Running, WORKER, options};
use crate::postgres::{database, server};
use crate::proxy::Line;
use crate::store::{end, grow, prompt, record};

/// How long something may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) struct Place {
    pub(crate) gateway: Running,
    pub(crate) line: Line,
    pub(crate) folder: TempDir,
    pub(crate) run: InstanceId,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let server = server().await;
        let gateway = Running::start(&server.address(&database(server).await)).await;
        Self {
            line: Line::to(&gateway.address()).await,
            gateway,
            folder: tempfile::tempdir().unwrap(),
            run: InstanceId::generate(),
        }
    }

    /// Opens the store of a worker that has `main`, with its own idea of how long a lease is.
    pub(crate) async fn open(&self, run: &InstanceId, lease: Duration) -> Arc<LedgerStore> {
        let mut options = options(&[self.line.address()], run, self.folder.path(), WORKER);
        options.workspaces = vec!["main".to_owned()];
        options.lease = Some(lease);
        Arc::new(LedgerStore::open(options).await.unwrap())
    }

    /// Does something of which the first answer is lost.
    async fn without_answer<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        is_done: impl AsyncFnMut() -> bool,
    ) -> T {
        self.line.lose_answers();
        let working = tokio::spawn(work);
        until("what was asked is done", is_done).await;
        self.line.reset();
        working.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_answer_is_not_stored_twice() {
    let place = Place::new().await;
    let (store, own) = (
        place.open(&place.run, Duration::from_secs(60)).await,
        &place.gateway.store,
    );
    let keeper = kept_alive(&place);
    let id = CallId::from("call");

    let mut call = record("call", &place.run);
    let events = grow(&mut call, 3);
    let create = {
        let (store, call) = (store.clone(), call.clone());
        async move { store.create_call(call, events).await }
    };
    let created = place.without_answer(create, async || own.get(&id).await.unwrap().is_some());
    assert_eq!(created.await.unwrap(), Created::New);

    let events = grow(&mut call, 2);
    let append = {
        let (store, call) = (store.clone(), call.clone());
        async move { store.append(call, events).await }
    };
    let is_there = async || own.get(&id).await.unwrap().unwrap().last_sequence == 5;
    place.without_answer(append, is_there).await.unwrap();

    let change = FileChange {
        path: "/w/a".into(),
        shown: "/w/a".into(),
        before: None,
        after: Some(FileVersion {
            sha256: "00".to_owned(),
            bytes: 1,
            mode: None,
        }),
    };
    let changed = {
        let (store, id, change) = (store.clone(), id.clone(), change.clone());
        async move { store.record_changes(&id, vec![change]).await }
    };
    let is_there = async || !own.changes(&id).await.unwrap().is_empty();
    place.without_answer(changed, is_there).await.unwrap();

    let asked = prompt("pmt_1", "call", &place.run);
    let opened = {
        let (store, asked) = (store.clone(), asked.clone());
        async move { store.open(asked, Some(json!("me")), Some(Default::default())).await }
    };
    let is_there = async || own.prompt(&PromptId::from("pmt_1")).await.unwrap().is_some();
    assert_eq!(place.without_answer(opened, is_there).await.unwrap(), []);

    let mut writer = store.create_output(OutputOwner::from(&call)).await.unwrap();
    let output = writer.id().clone();
    let begin = async move {
        writer.append(vec![b'x'; 20_000].into()).await?;
        Ok::<_, StoreError>(writer)
    };
    let is_there = async || own.look(&output).await.unwrap().is_some();
    let mut writer = place.without_answer(begin, is_there).await.unwrap();
    // Whatever is under way when the line breaks.
    for number in 0..20_u8 {
        place.line.lose_answers();
        writer.append(vec![number; 1_000].into()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        place.line.reset();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let info = writer.finish().await.unwrap();
    assert_eq!((info.bytes, info.complete), (40_000, true));

    let session = SessionKey {
        workspace: "main".to_owned(),
        session: SessionId::from("ses_1"),
    };
    let noted = {
        let (store, session) = (store.clone(), session.clone());
        async move {
            for number in 0..10 {
                store.remember(&session, &format!("key {number}"), json!(number));
            }
        }
    };
    let is_there = async || own.facts(&session).await.unwrap().len() == 10;
    place.without_answer(noted, is_there).await;

    let events = end(&mut call, Timestamp(2_000));
    store.append(call.clone(), events).await.unwrap();
    assert_eq!(store.events(&id, 0, 100).await.unwrap().len(), 6);
    assert_eq!(store.changes(&id).await.unwrap(), [change]);
    assert_eq!(store.facts(&session).await.unwrap().len(), 10);
    let mut expected = vec![b'x'; 20_000];
    expected.extend((0..20).flat_map(|number| [number; 1_000]));
    assert_eq!(store.read(&output, 0, 60_000).await.unwrap(), expected);
    keeper.abort();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_dies_is_replaced_by_another() {
    let server = server().await;
    let database = server.address(&database(server).await);
    let (first, second) = (Running::start(&database).await, Running::start(&database).await);
    let (folder, run) = (tempfile::tempdir().unwrap(), InstanceId::generate());
    let mut options = options(&[first.address(), second.address()], &run, folder.path(), WORKER);
    options.workspaces = vec!["main".to_owned()];
    let store = LedgerStore::open(options).await.unwrap();
    let mut call = record("call", &run);
    let events = grow(&mut call, 1);
    store.create_call(call.clone(), events).await.unwrap();
    let mut writer = store.create_output(OutputOwner::from(&call)).await.unwrap();
    writer.append("one\n".into()).await.unwrap();
    first.stop().await;
    writer.append("two\n".into()).await.unwrap();
    let info = writer.finish().await.unwrap();
    assert_eq!((info.bytes, info.lines), (8, 2));
    let events = end(&mut call, Timestamp(2_000));
    store.append(call.clone(), events).await.unwrap();
    assert_eq!(second.store.get(&call.id).await.unwrap(), Some(call));
    assert!(!store.stopped().is_cancelled());
    store.close().await.unwrap();
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_workspace_is_taken_over_stops() {
    let place = Place::new().await;
    // It does not find out by its own clock.
    let store = place.open(&place.run, Duration::from_secs(600)).await;
    let mut call = record("call", &place.run);
    let events = grow(&mut call, 1);
    store.create_call(call.clone(), events).await.unwrap();
    place.line.cut();

    let next = InstanceId::generate();
    let names = ["main".to_owned()];
    let taken = async || {
        matches!(
            place.gateway.store.bind(&next, OWNER, "", &names).await.unwrap(),
            Bound::Now(_)
        )
    };
    until("the dead one loses its workspace", taken).await;
    let own = &place.gateway.store;
    let ended = async || own.get(&call.id).await.unwrap().unwrap().state.is_terminal();
    until("the call ends as lost", ended).await;

    place.line.reset();
    let events = grow(&mut call, 1);
    let stopped = store.stopped();
    assert!(!stopped.is_cancelled());
    let late = store.append(call.clone(), events).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    assert!(stopped.is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_reaches_no_gateway_stops_after_a_lease() {
    let place = Place::new().await;
    let store = place.open(&place.run, LEASE).await;
    let mut call = record("call", &place.run);
    let events = grow(&mut call, 1);
    // With nothing that goes on there is no reason to stop.
    place.line.cut();
    tokio::time::sleep(LEASE + LEASE / 3).await;
    assert!(!store.stopped().is_cancelled());
    place.line.reset();
    store.create_call(call.clone(), events).await.unwrap();
    place.line.cut();
    let begun = Instant::now();
    let stopped = tokio::time::timeout(PATIENCE, store.stopped().cancelled_owned()).await;
    stopped.expect("it stops");
    assert!(begun.elapsed() > LEASE / 2, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_run_that_was_taken_for_dead_goes_on() {
    let place = Place::new().await;
    let store = place.open(&place.run, LEASE).await;
    let (own, names) = (&place.gateway.store, ["main".to_owned()]);
    let next = InstanceId::generate();
    own.doubt(&place.run, OWNER).await.unwrap();
    let taken = async || matches!(own.bind(&next, OWNER, "", &names).await.unwrap(), Bound::Now(_));
    until("it loses its workspace", taken).await;
    let mut call = record("call", &place.run);
    let events = grow(&mut call, 1);
    let refused = store.create_call(call.clone(), events.clone()).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");

    let another = InstanceId::generate();
    own.release(&next).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(&[place.gateway.address()], &another, folder.path(), WORKER);
    options.workspaces = names.to_vec();
    let store = LedgerStore::open(options).await.unwrap();
    own.release(&another).await.unwrap();
    call.owner = another;
    assert_eq!(store.create_call(call, events).await.unwrap(), Created::New);
    assert!(!store.stopped().is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_run_keeps_its_workspace_however_long() {
    let place = Place::new().await;
    let store = place.open(&place.run, LEASE).await;
    let mut call = record("call", &place.run);
    let events = grow(&mut call, 1);
    store.create_call(call.clone(), events).await.unwrap();
    let (own, names) = (&place.gateway.store, ["main".to_owned()]);
    let begun = Instant::now();
    while begun.elapsed() < LEASE * 2 {
        let other = own.bind(&InstanceId::generate(), OWNER, "", &names).await.unwrap();
        assert!(matches!(other, Bound::Held { .. }), "{other:?}");
        tokio::time::sleep(LEASE / 6).await;
    }
    let events = end(&mut call, Timestamp(2_000));
    store.append(call, events).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_hears_of_prompts_that_others_settle() {
    let place = Place::new().await;
    let store = place.open(&place.run, LEASE).await;
    let changed = store.changed_elsewhere().expect("it can tell");
    let mut call = record("call", &place.run);
    let events = grow(&mut call, 1);
    store.create_call(call, events).await.unwrap();
    let asked = prompt("pmt_1", "call", &place.run);
    store.open(asked, None, None).await.unwrap();
    let open = store.open_prompts().await.unwrap();
    assert_eq!(open.len(), 1);
    let own = &place.gateway.store;
    let by = crate::store::approval("anna");
    own.approve(&PromptId::from("pmt_1"), by)
        .await
        .unwrap()
        .expect("it is open");
    let is_other = async || {
        let _ = tokio::time::timeout(Duration::from_secs(1), changed.notified()).await;
        store.open_prompts().await.unwrap() != open
    };
    until("the change is heard of", is_other).await;
    assert!(
        !place.folder.path().join("toolgate.db").exists(),
        "a worker has no database"
    );
}
