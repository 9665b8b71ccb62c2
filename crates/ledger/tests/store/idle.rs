//! Runs that have done nothing for so long that they were taken for dead: they go on, whatever they do first.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolgate_ledger::LedgerStore;
use toolgate_model::{CallRecord, InstanceId, SessionId, SessionKey, Timestamp};
use toolgate_store::ledger::{Bound, Ledger as _};
use toolgate_store::{CallLog as _, Created, OutputOwner, Outputs as _, SessionFacts as _, Upkeep as _};

use crate::doubts::kept_alive;
use crate::faults::{Place, until};
use crate::gateway::{OWNER, WORKER, options};
use crate::store::{end, grow, record};

/// Opens the store of a worker with two workspaces, which it then loses to another run for a moment.
async fn taken_for_dead(place: &Place) -> Arc<LedgerStore> {
    let mut options = options(&[place.line.address()], &place.run, place.folder.path(), WORKER);
    let names = ["main".to_owned(), "other".to_owned()];
    options.workspaces = names.to_vec();
    options.lease = Some(Duration::from_secs(600));
    let store = Arc::new(LedgerStore::open(options).await.unwrap());
    store.adopt_orphans(&place.run).await.unwrap();
    assert!(!store.has_dead_runs());
    let (own, next) = (&place.gateway.store, InstanceId::generate());
    own.doubt(&place.run, OWNER).await.unwrap();
    let taken = async || matches!(own.bind(&next, OWNER, "", &names).await.unwrap(), Bound::Now(_));
    until("it loses its workspaces", taken).await;
    own.release(&next).await.unwrap();
    store
}

fn call(id: &str, workspace: &str, run: &InstanceId) -> CallRecord {
    let mut call = record(id, run);
    call.origin.workspace = workspace.to_owned();
    call
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_two_workspaces_go_on() {
    let place = Place::new().await;
    let store = taken_for_dead(&place).await;
    for (id, workspace) in [("one", "main"), ("two", "other")] {
        let mut call = call(id, workspace, &place.run);
        let events = grow(&mut call, 1);
        assert_eq!(store.create_call(call, events).await.unwrap(), Created::New);
    }
    assert!(!store.stopped().is_cancelled());
    assert!(store.has_dead_runs(), "what the other run has left is looked for");
    let adopted = store.adopt_orphans(&place.run).await.unwrap();
    assert!(adopted.is_empty(), "calls of this run are nobody else's: {adopted:?}");
    assert!(!store.has_dead_runs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_go_on() {
    let place = Place::new().await;
    let store = taken_for_dead(&place).await;
    let mut creating = tokio::task::JoinSet::new();
    for number in 0..12 {
        let mut call = call(&format!("call {number}"), "main", &place.run);
        let events = grow(&mut call, 1);
        let store = store.clone();
        creating.spawn(async move { store.create_call(call, events).await });
    }
    while let Some(created) = creating.join_next().await {
        assert_eq!(created.unwrap().unwrap(), Created::New);
    }
    assert!(!store.stopped().is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_call_goes_on() {
    let session = SessionKey {
        workspace: "main".to_owned(),
        session: SessionId::from("ses_1"),
    };
    let place = Place::new().await;
    let store = taken_for_dead(&place).await;
    store.forget(&session).await.unwrap();
    assert!(!store.stopped().is_cancelled());
    store.close().await.unwrap();

    let place = Place::new().await;
    let store = taken_for_dead(&place).await;
    store.remember(&session, "key", json!(1));
    store.flush().await.unwrap();
    assert!(!store.stopped().is_cancelled());
    assert_eq!(place.gateway.store.facts(&session).await.unwrap().len(), 1);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_is_late_fails_no_end_and_keeps_the_workspace() {
    let place = Place::new().await;
    let store = place.open(&place.run, Duration::from_secs(60)).await;
    let keeper = kept_alive(&place);
    let mut call = record("call", &place.run);
    let events = grow(&mut call, 1);
    store.create_call(call.clone(), events).await.unwrap();
    let mut writer = store.create_output(OutputOwner::from(&call)).await.unwrap();
    writer.append("one\n".into()).await.unwrap();
    let (own, output) = (&place.gateway.store, writer.id().clone());
    let is_there = async || own.look(&output).await.unwrap().is_some();
    until("the output has begun", is_there).await;

    place.line.cut();
    let info = writer.finish().await.unwrap();
    assert_eq!((info.bytes, info.lines, info.complete), (4, 1, true));
    place.line.reset();
    let events = end(&mut call, Timestamp(2_000));
    store.append(call, events).await.unwrap();
    let is_complete = async || own.look(&output).await.unwrap().is_some_and(|info| info.complete);
    until("the rest arrives", is_complete).await;
    keeper.abort();
    // Nothing goes on any more.
    let next = InstanceId::generate();
    let names = ["main".to_owned()];
    let taken = async || matches!(own.bind(&next, OWNER, "", &names).await.unwrap(), Bound::Now(_));
    until("an idle run renews nothing", taken).await;
    assert!(!store.stopped().is_cancelled());
}
