//! Notes that are stored with the call that they came before.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_model::{CallId, CallRecord, InstanceId, SessionId, SessionKey, Timestamp};
use toolgate_postgres::PostgresStore;
use toolgate_store::audit::Kind;
use toolgate_store::ledger::{Hold, Ledger as _, Note};
use toolgate_store::{Audit as _, CallLog as _, Created, SessionFacts as _, StoreError, Upkeep as _};

use crate::holding::Scene;
use crate::store::{end, grow, record};
use crate::without_database::{audited, everything};

const LEASE: Duration = Duration::from_secs(30);

fn session() -> SessionKey {
    SessionKey {
        workspace: "main".to_owned(),
        session: SessionId::from("ses_1"),
    }
}

fn fact(name: &str) -> Note {
    Note::Fact {
        session: session(),
        key: name.to_owned(),
        value: json!(name),
    }
}

/// A record of the audit about a call.
fn allowed(call: &str) -> Note {
    let Note::Audit(mut fact) = audited("main", Kind::Allowed, "") else {
        unreachable!("it is one of the audit");
    };
    fact.call = Some(CallId::from(call));
    Note::Audit(fact)
}

/// A call that has ended, with its events.
fn over(id: &str, run: &InstanceId) -> (CallRecord, Vec<toolgate_model::CallEvent>) {
    let mut call = record(id, run);
    call.created = Timestamp::now();
    let mut events = grow(&mut call, 2);
    events.extend(end(&mut call, Timestamp::now()));
    (call, events)
}

async fn create(
    store: &PostgresStore,
    hold: &Hold,
    (first, notes): (u64, Vec<Note>),
    (call, events): &(CallRecord, Vec<toolgate_model::CallEvent>),
    again: bool,
) -> Result<Created, StoreError> {
    let notes = (first, notes);
    store
        .create_call_with(hold, notes, call.clone(), events.clone(), again)
        .await
}

/// What the audit has about a call, in its order.
async fn told(store: &PostgresStore, call: &str) -> Vec<String> {
    store.audit_end().await.unwrap();
    let lines = store.audit_lines(1, 1_000).await.unwrap();
    let records = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(&line.json).unwrap());
    let about = records.filter(|record| record["call"] == call);
    about
        .map(|record| record["kind"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_created_with_what_came_before_it() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let first = over("first", &run);
    for (again, expected) in [(false, true), (true, true), (false, false)] {
        let notes = (1, vec![allowed("first"), fact("a")]);
        let created = create(store, &hold, notes, &first, again).await.unwrap();
        assert_eq!(created == Created::New, expected, "{created:?}");
    }
    assert_eq!(store.get(&"first".into()).await.unwrap(), Some(first.0));
    assert_eq!(store.facts(&session()).await.unwrap().len(), 1);
    // Once, and in the order in which it was.
    assert_eq!(told(store, "first").await, ["admitted", "allowed", "ended"]);

    // Notes that are stored already, and others behind them.
    store.note_for(&hold, 3, vec![fact("b")]).await.unwrap();
    let notes = (3, vec![fact("b"), fact("c")]);
    let created = create(store, &hold, notes, &over("second", &run), false).await;
    assert_eq!(created.unwrap(), Created::New);
    assert_eq!(store.facts(&session()).await.unwrap().len(), 3);

    // Those between are missing: nothing is stored.
    let before = everything(&scene).await;
    let created = create(store, &hold, (6, vec![fact("d")]), &over("third", &run), false).await;
    assert!(matches!(created, Err(StoreError::Conflict(_))), "{created:?}");
    assert_eq!(everything(&scene).await, before);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_told_of_another_workspaces_call() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let (run, other) = (InstanceId::generate(), InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let theirs = scene.bound(&other, "other").await;
    let mut call = over("theirs", &other);
    call.0.origin.workspace = "other".to_owned();
    let created = store
        .create_call_for(&theirs, call.0.clone(), call.1.clone(), false)
        .await;
    assert_eq!(created.unwrap(), Created::New);
    let before = everything(&scene).await;
    for again in [false, true] {
        let notes = (1, vec![allowed("theirs")]);
        let created = create(store, &hold, notes, &over("theirs", &run), again).await;
        assert!(matches!(created, Err(StoreError::NotFound(_))), "{created:?}");
    }
    assert_eq!(everything(&scene).await, before);

    // What has been taken over stores neither.
    scene.kill(&run).await;
    scene.bound(&InstanceId::generate(), "main").await;
    let before = everything(&scene).await;
    let created = create(store, &hold, (1, vec![fact("a")]), &over("late", &run), false).await;
    assert!(matches!(created, Err(StoreError::Fenced(_))), "{created:?}");
    assert_eq!(everything(&scene).await, before);
    scene.store.close().await.unwrap();
}
