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

/// A call that runs, with the events of its end.
async fn running(store: &PostgresStore, hold: &Hold, id: &str) -> (CallRecord, Vec<toolgate_model::CallEvent>) {
    let mut call = record(id, &hold.run);
    call.created = Timestamp::now();
    call.origin.workspace.clone_from(&hold.workspace);
    let events = grow(&mut call, 2);
    let created = store.create_call_for(hold, call.clone(), events, false).await;
    assert_eq!(created.unwrap(), Created::New);
    let mut events = grow(&mut call, 1);
    events.extend(end(&mut call, Timestamp::now()));
    (call, events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_goes_on_with_what_came_before() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let (call, events) = running(store, &hold, "first").await;
    let append =
        |notes: (u64, Vec<Note>), again: bool| store.append_with(&hold, notes, call.clone(), events.clone(), again);
    let notes = || (1, vec![allowed("first"), fact("a")]);
    append(notes(), false).await.unwrap();
    // Said again, it is there; another one of the same kind does not fit.
    append(notes(), true).await.unwrap();
    let repeated = append(notes(), false).await;
    assert!(matches!(repeated, Err(StoreError::Conflict(_))), "{repeated:?}");
    assert_eq!(store.get(&"first".into()).await.unwrap(), Some(call.clone()));
    assert_eq!(store.events(&"first".into(), 0, 100).await.unwrap().len(), 4);
    assert_eq!(store.facts(&session()).await.unwrap().len(), 1);
    assert_eq!(told(store, "first").await, ["admitted", "allowed", "ended"]);

    // What comes with an append that does not fit is stored, and once.
    for again in [false, true, false] {
        let refused = append((3, vec![allowed("first"), fact("b")]), again).await;
        assert_eq!(refused.is_ok(), again, "{refused:?}");
    }
    assert_eq!(store.facts(&session()).await.unwrap().len(), 2);
    assert_eq!(told(store, "first").await, ["admitted", "allowed", "ended", "allowed"]);

    // Some of them are stored already.
    let (second, more) = running(store, &hold, "second").await;
    store.note_for(&hold, 5, vec![fact("c")]).await.unwrap();
    let notes = (5, vec![fact("c"), fact("d")]);
    store.append_with(&hold, notes, second, more, false).await.unwrap();
    assert_eq!(store.facts(&session()).await.unwrap().len(), 4);

    // Those between are missing: nothing is stored.
    let (third, more) = running(store, &hold, "third").await;
    let before = everything(&scene).await;
    let refused = store.append_with(&hold, (9, vec![fact("e")]), third, more, false).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(everything(&scene).await, before);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_told_with_another_workspaces_call_that_goes_on() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let (run, other) = (InstanceId::generate(), InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let theirs = scene.bound(&other, "other").await;
    let (mut call, events) = running(store, &theirs, "theirs").await;
    let (own, more) = running(store, &hold, "own").await;
    call.origin.workspace = "main".to_owned();
    call.owner = run.clone();
    let before = everything(&scene).await;
    for again in [false, true] {
        let notes = (1, vec![allowed("theirs")]);
        let refused = store
            .append_with(&hold, notes, call.clone(), events.clone(), again)
            .await;
        assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    }
    assert_eq!(everything(&scene).await, before);

    // What has been taken over stores neither.
    scene.kill(&run).await;
    scene.bound(&InstanceId::generate(), "main").await;
    let before = everything(&scene).await;
    let refused = store.append_with(&hold, (1, vec![fact("a")]), own, more, false).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    assert_eq!(everything(&scene).await, before);
    scene.store.close().await.unwrap();
}
