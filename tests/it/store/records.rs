//! Session facts and the journal.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_model::{
    CallEvent, CallState, Decision, EventKind, Facts, InstanceId, PromptId, PromptOutcome, PromptState, ServiceEvent,
    ServiceEventKind, SessionId, SessionKey, Timestamp, json_map,
};
use toolgate_store::{OpenedWorkspace, Settlement, Store};

use super::{Fixture, create, end, event, grow, hostile, prompt, record};

/// A bound for what takes a fraction of a second.
const SOON: Duration = Duration::from_secs(20);

fn happening(number: i64) -> ServiceEvent {
    ServiceEvent {
        workspace: format!("workspace-{}", number % 10),
        session: Some(SessionId::from("ses_1")),
        time: Timestamp(number),
        kind: ServiceEventKind::SessionEnded,
    }
}

async fn journal(store: &dyn Store) -> Vec<(u64, ServiceEvent)> {
    store.since(0, usize::MAX).await.unwrap()
}

/// Waits until the store has numbered an event.
async fn reached(store: &dyn Store, number: u64) {
    let mut last = store.last().await.unwrap();
    last.wait_for(|last| *last >= number).await.unwrap();
}

fn session(id: &str) -> SessionKey {
    SessionKey::new("w", &SessionId::from(id))
}

pub(crate) async fn workspaces_are_remembered(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let store = fixture.open(&one).await;
    let opened = |name: &str, directory: &str, time| OpenedWorkspace {
        name: name.to_owned(),
        directory: directory.to_owned(),
        by: "token:a".to_owned(),
        time: Timestamp(time),
    };
    for each in [opened("b", "/b", 1), opened("a", "/a", 2), opened("c", "/c", 3)] {
        store.keep_workspace(each).await.unwrap();
    }
    store.keep_workspace(opened("b", "/other", 4)).await.unwrap();
    assert!(store.drop_workspace("c", "token:b").await.unwrap());
    assert!(!store.drop_workspace("c", "token:b").await.unwrap());
    let told: Vec<(String, String, String)> = facts(&*store).await;
    let told: Vec<_> = told
        .iter()
        .map(|(kind, workspace, by)| (&**kind, &**workspace, &**by))
        .collect();
    let expected = [
        ("workspace_opened", "b", "token:a"),
        ("workspace_opened", "a", "token:a"),
        ("workspace_opened", "c", "token:a"),
        ("workspace_opened", "b", "token:a"),
        ("workspace_closed", "c", "token:b"),
    ];
    assert_eq!(told, expected);
    fixture.stop(&one).await;
    let store = fixture.open(&two).await;
    let found = store.workspaces().await.unwrap();
    assert_eq!(found, [opened("a", "/a", 2), opened("b", "/other", 4)]);
}

/// Returns what the audit says of workspaces: the kind, the workspace, and who did it.
async fn facts(store: &dyn Store) -> Vec<(String, String, String)> {
    let lines = store.audit_lines(1, 1000).await.unwrap();
    let lines = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(&line.json).unwrap());
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let lines = lines.map(|line| (text(&line, "kind"), text(&line, "workspace"), text(&line, "by")));
    lines.filter(|(kind, ..)| kind.starts_with("workspace")).collect()
}

pub(crate) async fn facts_are_seen_at_once(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let (session, other) = (session("a"), session("b"));
    assert_eq!(store.fact(&session, "key").await.unwrap(), None);
    assert_eq!(store.facts(&session).await.unwrap(), Facts::new());
    let mut expected = Facts::new();
    for number in 0..300 {
        let key = format!("key {}", number % 40);
        store.remember(&session, &key, json!(number));
        expected.insert(key.clone(), json!(number));
        assert_eq!(store.fact(&session, &key).await.unwrap(), Some(json!(number)));
        if number % 50 == 0 {
            assert_eq!(store.facts(&session).await.unwrap(), expected);
        }
    }
    assert_eq!(store.facts(&session).await.unwrap(), expected);
    assert_eq!(store.fact(&other, "key 1").await.unwrap(), None);
    drop(store);
    fixture.stop(&instance).await;
    let store = fixture.open(&InstanceId::generate()).await;
    assert_eq!(store.facts(&session).await.unwrap(), expected);
}

pub(crate) async fn the_last_fact_wins(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let session = session("a");
    for number in 0..5_000 {
        store.remember(&session, "key", json!({ "number": number }));
    }
    assert_eq!(
        store.fact(&session, "key").await.unwrap(),
        Some(json!({ "number": 4_999 }))
    );
    create(&*store, record("c", &instance)).await;
    assert_eq!(
        store.fact(&session, "key").await.unwrap(),
        Some(json!({ "number": 4_999 }))
    );
}

pub(crate) async fn facts_before_appends(fixture: &dyn Fixture) {
    let (instance, second) = (InstanceId::generate(), InstanceId::generate());
    let store = fixture.open(&instance).await;
    let elsewhere = fixture.open(&second).await;
    let session = session("a");
    let mut call = create(&*store, record("c", &instance)).await;
    for number in 0..50_u64 {
        store.remember(&session, "key", json!(number));
        store.record(happening(0));
        let events = grow(&mut call, 1);
        store.append(call.clone(), events).await.unwrap();
        assert_eq!(elsewhere.fact(&session, "key").await.unwrap(), Some(json!(number)));
        assert_eq!(journal(&*elsewhere).await.len() as u64, number + 1);
    }
}

pub(crate) async fn forgetting(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let (session, other) = (session("a"), session("b"));
    store.remember(&session, "one", Value::Null);
    store.remember(&session, "two", json!("2"));
    store.remember(&other, "one", json!(1));
    assert_eq!(store.fact(&session, "one").await.unwrap(), Some(Value::Null));
    assert_eq!(store.forget(&session).await.unwrap(), 2);
    assert_eq!(store.facts(&session).await.unwrap(), Facts::new());
    assert_eq!(store.fact(&session, "two").await.unwrap(), None);
    assert_eq!(store.fact(&other, "one").await.unwrap(), Some(json!(1)));
    assert_eq!(store.forget(&session).await.unwrap(), 0);
    store.remember(&session, "one", json!(3));
    assert_eq!(store.fact(&session, "one").await.unwrap(), Some(json!(3)));
}

pub(crate) async fn facts_of_workspaces(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let [here, there] = ["here", "there"].map(|workspace| SessionKey::new(workspace, &SessionId::from("s")));
    store.remember(&here, "key", json!(1));
    assert_eq!(store.fact(&there, "key").await.unwrap(), None);
    store.remember(&there, "key", json!(2));
    create(&*store, record("c", &instance)).await;
    assert_eq!(store.fact(&here, "key").await.unwrap(), Some(json!(1)));
    assert_eq!(
        store.facts(&there).await.unwrap(),
        Facts::from([("key".to_owned(), json!(2))])
    );
    assert_eq!(store.forget(&here).await.unwrap(), 1);
    assert_eq!(store.fact(&there, "key").await.unwrap(), Some(json!(2)));
}

pub(crate) async fn hostile_facts(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for text in hostile() {
        store.remember(&session(text.as_str()), &text, json!({ text.clone(): text }));
    }
    create(&*store, record("c", &instance)).await;
    for text in hostile() {
        let session = session(text.as_str());
        let expected = json!({ text.clone(): text });
        assert_eq!(store.fact(&session, &text).await.unwrap(), Some(expected.clone()));
        assert_eq!(store.facts(&session).await.unwrap(), Facts::from([(text, expected)]));
    }
}

pub(crate) async fn journal_is_ordered(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    assert_eq!(*store.last().await.unwrap().borrow(), 0);
    for number in 1..=3_000 {
        store.record(happening(number));
    }
    reached(&*store, 3_000).await;
    let all = journal(&*store).await;
    assert_eq!(all.len(), 3_000);
    for ((number, event), expected) in all.iter().zip(1..) {
        assert_eq!((*number, event), (expected, &happening(expected as i64)));
    }
    assert_eq!(store.since(2_998, 10).await.unwrap(), all[2_998..]);
    assert_eq!(store.since(5, 2).await.unwrap(), all[5..7]);
    assert_eq!(store.since(3_000, 10).await.unwrap(), []);
    assert_eq!(store.since(u64::MAX, 10).await.unwrap(), []);
    drop(store);
    fixture.stop(&instance).await;
    let store = fixture.open(&InstanceId::generate()).await;
    assert_eq!(*store.last().await.unwrap().borrow(), 3_000);
    store.record(happening(1));
    reached(&*store, 3_001).await;
    assert_eq!(store.since(3_000, 10).await.unwrap(), [(3_001, happening(1))]);
}

pub(crate) async fn journal_wakes_readers(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let mut last = store.last().await.unwrap();
    for number in 1..=20 {
        store.record(happening(number as i64));
        while *last.borrow_and_update() < number {
            last.changed().await.unwrap();
        }
        assert_eq!(
            store.since(number - 1, 10).await.unwrap().len(),
            1,
            "what was announced can be read"
        );
    }
}

pub(crate) async fn journal_wakes_readers_of_others(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let elsewhere = fixture.open(&InstanceId::generate()).await;
    let mut last = store.last().await.unwrap();
    for number in 1..=20 {
        elsewhere.record(happening(number as i64));
        // However the first store learns of it: it writes nothing itself.
        let told = tokio::time::timeout(SOON, last.wait_for(|last| *last >= number)).await;
        told.expect("it is told of").unwrap();
        assert_eq!(
            store.since(number - 1, 10).await.unwrap(),
            [(number, happening(number as i64))]
        );
    }
    drop(last);
    elsewhere.record(happening(21));
    reached(&*elsewhere, 21).await;
    assert_eq!(
        *store.last().await.unwrap().borrow(),
        21,
        "who comes later misses nothing"
    );
    store.record(happening(22));
    reached(&*store, 22).await;
}

pub(crate) async fn journal_has_what_is_stored_and_nothing_else(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let elsewhere = fixture.open(&InstanceId::generate()).await;
    let told = async |count: usize| {
        let mut all = journal(&*elsewhere).await;
        assert_eq!(all.len(), count, "{all:?}");
        all.pop().map(|(_, event)| event.kind)
    };
    let mut call = record("c", &instance);
    let kind = EventKind::Pending {
        tool: call.tool.clone(),
        requested_tool: call.tool.clone(),
        title: String::new(),
        summary: String::new(),
        queued: None,
    };
    let pending = CallEvent { kind, ..event(1) };
    call.last_sequence = 1;
    for _ in 0..2 {
        // The second one finds the id taken.
        store.create_call(call.clone(), vec![pending.clone()]).await.unwrap();
        let state = told(1).await;
        assert!(
            matches!(
                &state,
                Some(ServiceEventKind::Call {
                    state: CallState::Pending,
                    ..
                })
            ),
            "{state:?}"
        );
    }
    let before = call.clone();
    let events = grow(&mut call, 3);
    store.append(call.clone(), events).await.unwrap();
    told(1).await;
    for is_new in [true, false] {
        let opened = store.open(prompt("p", "c", &instance), None, None).await;
        assert_eq!(opened.is_ok(), is_new);
        assert!(matches!(told(2).await, Some(ServiceEventKind::PromptAdded { .. })));
    }
    let settlement = Settlement {
        prompt: PromptId::from("p"),
        state: PromptState::Expired,
        decision: Decision::new(PromptOutcome::Expired),
        uses: Vec::new(),
    };
    for _ in 0..2 {
        store
            .settle(settlement.clone(), Vec::new(), Vec::new(), None)
            .await
            .unwrap();
        let state = PromptState::Expired;
        assert!(matches!(told(3).await, Some(ServiceEventKind::PromptResolved { state: now, .. }) if now == state));
    }
    let mut stale = before;
    let events = end(&mut stale, Timestamp(5));
    assert!(store.append(stale, events).await.is_err(), "the log is longer");
    told(3).await;
    let events = end(&mut call, Timestamp(5));
    store.append(call.clone(), events).await.unwrap();
    let state = told(4).await;
    assert!(
        matches!(
            &state,
            Some(ServiceEventKind::Call {
                state: CallState::Completed,
                ..
            })
        ),
        "{state:?}"
    );
    // What comes after the end is told, and does not end it again.
    call.last_sequence += 1;
    let patch = json_map([("late", json!(1))]);
    let kind = EventKind::Metadata {
        title: None,
        patch: patch.clone(),
    };
    let late = CallEvent {
        kind,
        ..event(call.last_sequence)
    };
    store.append(call.clone(), vec![late]).await.unwrap();
    let expected = ServiceEventKind::Metadata {
        call: call.id.clone(),
        tool: call.tool.clone(),
        sequence: call.last_sequence,
        patch,
    };
    assert_eq!(told(5).await, Some(expected));
}

pub(crate) async fn journal_of_two_stores(fixture: &dyn Fixture) {
    let stores = [
        fixture.open(&InstanceId::generate()).await,
        fixture.open(&InstanceId::generate()).await,
    ];
    for number in 0..200 {
        stores[number as usize % 2].record(happening(number));
    }
    let instance = InstanceId::generate();
    for (side, store) in stores.iter().enumerate() {
        create(&**store, record(&side.to_string(), &instance)).await;
    }
    let all = journal(&*stores[0]).await;
    let numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
    for side in 0..2 {
        let times: Vec<i64> = all
            .iter()
            .map(|(_, event)| event.time.millis())
            .filter(|time| time % 2 == side)
            .collect();
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(times.len(), 100);
    }
}

pub(crate) async fn sweeping_the_journal(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    for number in 1..=10 {
        store.record(happening(number));
    }
    assert_eq!(store.sweep_journal(Timestamp(4)).await.unwrap(), 3);
    assert_eq!(journal(&*store).await.first().unwrap().0, 4);
    assert_eq!(store.since(1, 2).await.unwrap(), [(4, happening(4)), (5, happening(5))]);
    assert_eq!(store.sweep_journal(Timestamp(i64::MAX)).await.unwrap(), 7);
    assert_eq!(*store.last().await.unwrap().borrow(), 10);
    store.record(happening(1));
    reached(&*store, 11).await;
    assert_eq!(journal(&*store).await, [(11, happening(1))]);
}
