//! Calls and their logs.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolgate_model::{CallId, CallRecord, CallState, InstanceId, SessionId, Timestamp, WorkspaceSet};
use toolgate_store::{CallFilter, CallLog, Created, PageRequest, PromptFilter, Store, StoreError};

use super::{Fixture, create, end, event, grow, hostile, prompt, record};

fn first_page(size: usize) -> PageRequest {
    PageRequest { size, after: None }
}

async fn all_ids(store: &dyn Store, filter: &CallFilter, size: usize) -> Vec<String> {
    let (mut page, mut ids) = (first_page(size), Vec::new());
    for _ in 0..1_000 {
        let listed = CallLog::list_calls(store, filter, &page).await.unwrap();
        assert!(listed.items.len() <= size);
        ids.extend(listed.items.iter().map(|record| record.id.to_string()));
        page.after = listed.next;
        if page.after.is_none() {
            return ids;
        }
    }
    panic!("the listing does not end");
}

fn is_conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
}

pub(crate) async fn create_and_take(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    assert_eq!(store.get(&CallId::from("c")).await.unwrap(), None);
    let first = create(&*store, record("c", &instance)).await;
    assert_eq!(store.get(&first.id).await.unwrap().as_ref(), Some(&first));

    let mut second = record("c", &instance);
    second.tool = "edit".to_owned();
    let events = grow(&mut second, 3);
    assert_eq!(
        CallLog::create_call(&*store, second, events).await.unwrap(),
        Created::Taken(Box::new(first.clone()))
    );
    assert_eq!(store.events(&first.id, 0, 10).await.unwrap(), [event(1)]);

    let mut gap = record("gap", &instance);
    gap.last_sequence = 2;
    is_conflict(CallLog::create_call(&*store, gap, vec![event(2)]).await);
    assert_eq!(store.get(&CallId::from("gap")).await.unwrap(), None);
}

pub(crate) async fn append_continues_the_log(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let mut call = create(&*store, record("c", &instance)).await;
    call.state = CallState::Running;
    let events = grow(&mut call, 3);
    store.append(call.clone(), events).await.unwrap();
    call.title = "only the record".to_owned();
    store.append(call.clone(), Vec::new()).await.unwrap();
    assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);
    let events = end(&mut call, Timestamp(5_000));
    store.append(call.clone(), events.clone()).await.unwrap();
    assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);
    let log = store.events(&call.id, 0, 10).await.unwrap();
    assert_eq!(log, [event(1), event(2), event(3), event(4), events[0].clone()]);

    let audited = store.audit_end().await.unwrap().head.sequence;
    let later = grow(&mut call, 1);
    store.append(call.clone(), later.clone()).await.unwrap();
    assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);
    assert_eq!(store.events(&call.id, 5, 10).await.unwrap(), later);
    let now = store.audit_end().await.unwrap().head.sequence;
    assert_eq!(now, audited, "a call ends once");
}

pub(crate) async fn append_refuses_what_does_not_fit(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let call = create(&*store, record("c", &instance)).await;
    let with = |last: u64| CallRecord {
        last_sequence: last,
        ..call.clone()
    };
    is_conflict(store.append(with(1), vec![event(1)]).await);
    is_conflict(store.append(with(3), vec![event(3)]).await);
    is_conflict(store.append(with(3), vec![event(2)]).await);
    is_conflict(store.append(with(3), vec![event(2), event(4)]).await);
    is_conflict(store.append(with(3), vec![event(2), event(2), event(3)]).await);
    is_conflict(store.append(with(u64::MAX), vec![event(u64::MAX)]).await);
    is_conflict(store.append(with(0), vec![event(0)]).await);
    is_conflict(store.append(with(0), Vec::new()).await);
    let stranger = CallRecord {
        owner: InstanceId::generate(),
        ..with(2)
    };
    is_conflict(store.append(stranger, vec![event(2)]).await);
    let unknown = CallRecord {
        id: CallId::from("unknown"),
        ..with(2)
    };
    let result = store.append(unknown, vec![event(2)]).await;
    assert!(matches!(result, Err(StoreError::NotFound(_))), "{result:?}");
    assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);
    assert_eq!(store.events(&call.id, 0, 10).await.unwrap(), [event(1)]);
}

pub(crate) async fn two_writers_race(fixture: &dyn Fixture) {
    let instances = [InstanceId::generate(), InstanceId::generate()];
    let stores = [fixture.open(&instances[0]).await, fixture.open(&instances[1]).await];
    for round in 0..50 {
        let attempt = |side: usize| {
            let mut call = record(&format!("call {round}"), &instances[side]);
            let events = grow(&mut call, 1);
            let store = Arc::clone(&stores[side]);
            async move { CallLog::create_call(&*store, call, events).await.unwrap() }
        };
        let (left, right) = tokio::join!(attempt(0), attempt(1));
        let winner = match (&left, &right) {
            (Created::New, Created::Taken(taken)) => (0, taken),
            (Created::Taken(taken), Created::New) => (1, taken),
            other => panic!("one must win: {other:?}"),
        };
        assert_eq!(winner.1.owner, instances[winner.0]);

        let mut call = winner.1.as_ref().clone();
        let events = grow(&mut call, 1);
        let (left, right) = tokio::join!(
            stores[0].append(call.clone(), events.clone()),
            stores[1].append(call.clone(), events.clone())
        );
        match (left, right) {
            (Ok(()), Err(StoreError::Conflict(_))) | (Err(StoreError::Conflict(_)), Ok(())) => {}
            other => panic!("one must win: {other:?}"),
        }
        assert_eq!(stores[0].events(&call.id, 0, 10).await.unwrap(), [event(1), event(2)]);
    }
}

pub(crate) async fn a_restart_finds_calls(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let mut call = create(&*store, record("c", &instance)).await;
    let events = end(&mut call, Timestamp(2_000));
    store.append(call.clone(), events.clone()).await.unwrap();
    drop(store);
    fixture.stop(&instance).await;
    let store = fixture.open(&InstanceId::generate()).await;
    assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);
    assert_eq!(store.events(&call.id, 1, 10).await.unwrap(), events);
    assert_eq!(
        CallLog::list_calls(&*store, &CallFilter::default(), &first_page(10))
            .await
            .unwrap()
            .items,
        [call]
    );
}

pub(crate) async fn a_change_after_the_end_leaves_the_end(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let mut call = create(&*store, record("c", &instance)).await;
    let mut events = end(&mut call, Timestamp(2_000));
    store.append(call.clone(), events.clone()).await.unwrap();
    for number in 0..2 {
        let ending = call.ending.as_mut().unwrap();
        ending.metadata.insert("late".to_owned(), number.into());
        call.last_sequence += 1;
        events.push(event(call.last_sequence));
        let newest = events.last().cloned().into_iter().collect();
        store.append(call.clone(), newest).await.unwrap();
        assert_eq!(store.events(&call.id, 1, 10).await.unwrap(), events);
        assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);
    }
}

pub(crate) async fn orphans_change_owner_once(fixture: &dyn Fixture) {
    let dead = InstanceId::generate();
    let store = fixture.open(&dead).await;
    let mut finished = create(&*store, record("finished", &dead)).await;
    let events = end(&mut finished, Timestamp(2_000));
    store.append(finished, events).await.unwrap();
    for number in 0..20 {
        // What only waits is ended by nobody, however long it takes until somebody takes it over.
        let mut call = record(&format!("call {number}"), &dead);
        call.state = CallState::Waiting;
        let call = create(&*store, call).await;
        store
            .open(prompt(&format!("prompt {number}"), call.id.as_str(), &dead), None, None)
            .await
            .unwrap();
    }
    drop(store);
    fixture.stop(&dead).await;

    let living = [InstanceId::generate(), InstanceId::generate()];
    let stores = [fixture.open(&living[0]).await, fixture.open(&living[1]).await];
    let (left, right) = tokio::join!(stores[0].adopt_orphans(&living[0]), stores[1].adopt_orphans(&living[1]));
    let adopted = [left.unwrap(), right.unwrap()];
    let mut ids = BTreeSet::new();
    for (side, calls) in adopted.iter().enumerate() {
        for call in calls {
            assert!(ids.insert(call.id.clone()), "{} was adopted twice", call.id);
            assert_eq!(call.owner, living[side]);
            assert_eq!(stores[side].get(&call.id).await.unwrap().as_ref(), Some(call));
            let filter = PromptFilter {
                call: Some(call.id.clone()),
                ..PromptFilter::default()
            };
            let prompts = stores[side].prompts(&filter, 10).await.unwrap();
            assert_eq!(prompts.len(), 1);
            assert_eq!(prompts[0].owner, living[side]);
            let mut next = call.clone();
            let events = grow(&mut next, 1);
            stores[side].append(next, events).await.unwrap();
        }
        let filter = PromptFilter {
            owner: Some(living[side].clone()),
            ..PromptFilter::default()
        };
        assert_eq!(stores[side].prompts(&filter, 100).await.unwrap().len(), calls.len());
    }
    assert_eq!(ids.len(), 20);
    assert_eq!(stores[0].adopt_orphans(&living[0]).await.unwrap(), []);
}

pub(crate) async fn orphans_of_the_living_stay(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let first = fixture.open(&one).await;
    let mine = create(&*first, record("mine", &one)).await;
    let second = fixture.open(&two).await;
    assert_eq!(second.adopt_orphans(&two).await.unwrap(), []);
    assert_eq!(first.adopt_orphans(&one).await.unwrap(), []);
    assert_eq!(second.get(&mine.id).await.unwrap().unwrap().owner, one);
    create(&*second, record("nobody's", &InstanceId::from("../never a name"))).await;
    let adopted = first.adopt_orphans(&one).await.unwrap();
    assert_eq!(
        adopted.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(),
        ["nobody's"]
    );
}

pub(crate) async fn events_by_pages(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let mut call = create(&*store, record("c", &instance)).await;
    let events = grow(&mut call, 9);
    store.append(call.clone(), events).await.unwrap();
    let check = async |after: u64, limit: usize, expected: std::ops::RangeInclusive<u64>| {
        let found = store.events(&call.id, after, limit).await.unwrap();
        let numbers: Vec<u64> = found.iter().map(|event| event.sequence).collect();
        assert_eq!(numbers, expected.collect::<Vec<_>>(), "after {after}, limit {limit}");
    };
    check(0, 3, 1..=3).await;
    check(3, 3, 4..=6).await;
    check(8, 3, 9..=10).await;
    check(9, 1, 10..=10).await;
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range is what is expected")]
    for (after, limit) in [(10, 3), (11, 3), (u64::MAX, 3), (0, 0)] {
        check(after, limit, 1..=0).await;
    }
    check(0, usize::MAX, 1..=10).await;
    assert_eq!(store.events(&CallId::from("unknown"), 0, 10).await.unwrap(), []);
}

pub(crate) async fn long_log(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let mut call = create(&*store, record("c", &instance)).await;
    while call.last_sequence < 10_000 {
        let count = (10_000 - call.last_sequence).min(250);
        let events = grow(&mut call, count);
        store.append(call.clone(), events).await.unwrap();
    }
    let mut seen = 0;
    while seen < 10_000 {
        let events = store.events(&call.id, seen, 999).await.unwrap();
        assert!(!events.is_empty(), "nothing after {seen}");
        for found in events {
            seen += 1;
            assert_eq!(found, event(seen));
        }
    }
    assert_eq!(store.events(&call.id, seen, 10).await.unwrap(), []);
}

pub(crate) async fn filters(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for (id, workspace, session, tool, state) in [
        ("1", "main", "a", "bash", CallState::Pending),
        ("2", "main", "a", "edit", CallState::Running),
        ("3", "main", "b", "bash", CallState::Completed),
        ("4", "side", "b", "bash", CallState::Running),
        ("5", "side", "a", "read", CallState::Failed),
    ] {
        let mut call = record(id, &instance);
        call.origin.workspace = workspace.to_owned();
        call.origin.session = SessionId::from(session);
        call.tool = tool.to_owned();
        call.state = state;
        create(&*store, call).await;
    }
    let check =
        async |workspace: Option<&str>, session: Option<&str>, states: &[CallState], tools: &[&str], ids: &[&str]| {
            let filter = CallFilter {
                workspaces: workspace.map(WorkspaceSet::one).unwrap_or_default(),
                session: session.map(SessionId::from),
                states: states.to_vec(),
                tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
                ..CallFilter::default()
            };
            for size in [1, 2, 10] {
                assert_eq!(
                    all_ids(&*store, &filter, size).await,
                    ids,
                    "{filter:?}, pages of {size}"
                );
            }
        };
    check(None, None, &[], &[], &["5", "4", "3", "2", "1"]).await;
    check(Some("main"), None, &[], &[], &["3", "2", "1"]).await;
    check(None, Some("a"), &[], &[], &["5", "2", "1"]).await;
    check(None, None, &[CallState::Running], &[], &["4", "2"]).await;
    check(
        None,
        None,
        &[CallState::Running, CallState::Pending],
        &[],
        &["4", "2", "1"],
    )
    .await;
    check(None, None, &[CallState::Completed, CallState::Failed], &[], &["5", "3"]).await;
    check(None, None, &[], &["bash", "read"], &["5", "4", "3", "1"]).await;
    check(Some("side"), Some("b"), &[CallState::Running], &["bash"], &["4"]).await;
    check(Some("side"), Some("b"), &[CallState::Pending], &["bash"], &[]).await;
    check(Some("nowhere"), None, &[], &[], &[]).await;
}

pub(crate) async fn pages_while_calls_arrive(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for number in 0..100 {
        create(&*store, record(&format!("old {number}"), &instance)).await;
    }
    let arrivals = async {
        for number in 0..100 {
            create(&*store, record(&format!("new {number}"), &instance)).await;
        }
    };
    let filter = CallFilter::default();
    let (ids, ()) = tokio::join!(all_ids(&*store, &filter, 7), arrivals);
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "an item twice");
    let old: Vec<&String> = ids.iter().filter(|id| id.starts_with("old")).collect();
    let expected: Vec<String> = (0..100).rev().map(|number| format!("old {number}")).collect();
    assert_eq!(old, expected.iter().collect::<Vec<_>>());
    assert_eq!(all_ids(&*store, &filter, 30).await.len(), 200);
}

pub(crate) async fn bad_pages(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for number in 0..3 {
        create(&*store, record(&number.to_string(), &instance)).await;
    }
    let good = CallLog::list_calls(&*store, &CallFilter::default(), &first_page(1))
        .await
        .unwrap()
        .next
        .unwrap();
    let mut tokens = hostile();
    tokens.extend([
        String::new(),
        "1".to_owned(),
        format!("{good} "),
        good.replacen(&good[..1], "\u{e9}", 1),
    ]);
    for token in tokens {
        let page = PageRequest {
            size: 1,
            after: Some(token.clone()),
        };
        let result = CallLog::list_calls(&*store, &CallFilter::default(), &page).await;
        assert!(matches!(result, Err(StoreError::BadPage(_))), "{token:?}: {result:?}");
    }
    for size in [0, usize::MAX] {
        assert!(
            !CallLog::list_calls(&*store, &CallFilter::default(), &first_page(size))
                .await
                .unwrap()
                .items
                .is_empty()
        );
    }
}

pub(crate) async fn sweeping_calls(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for (id, ended) in [
        ("running", None),
        ("old", Some(1_999)),
        ("edge", Some(2_000)),
        ("new", Some(3_000)),
    ] {
        let mut call = create(&*store, record(id, &instance)).await;
        store
            .open(prompt(&format!("prompt of {id}"), id, &instance), None, None)
            .await
            .unwrap();
        if let Some(time) = ended {
            let events = end(&mut call, Timestamp(time));
            store.append(call, events).await.unwrap();
        }
    }
    assert_eq!(store.sweep_calls(Timestamp(2_000)).await.unwrap(), 1);
    assert_eq!(
        all_ids(&*store, &CallFilter::default(), 10).await,
        ["new", "edge", "running"]
    );
    assert_eq!(store.get(&CallId::from("old")).await.unwrap(), None);
    assert_eq!(store.events(&CallId::from("old"), 0, 10).await.unwrap(), []);
    let prompts = store.prompts(&PromptFilter::default(), 10).await.unwrap();
    let of: Vec<&str> = prompts.iter().map(|prompt| prompt.call.as_str()).collect();
    assert_eq!(of, ["running", "edge", "new"]);
    assert_eq!(store.sweep_calls(Timestamp(i64::MAX)).await.unwrap(), 2);
    assert_eq!(store.sweep_calls(Timestamp(i64::MAX)).await.unwrap(), 0);
    create(&*store, record("old", &instance)).await;
    assert_eq!(store.events(&CallId::from("old"), 0, 10).await.unwrap(), [event(1)]);
}

pub(crate) async fn hostile_ids_of_calls(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for text in hostile() {
        let mut call = record(&text, &instance);
        call.origin.session = SessionId::from(text.as_str());
        call.origin.workspace = fixture.workspace(&text);
        call.tool.clone_from(&text);
        call.title.clone_from(&text);
        create(&*store, call).await;
    }
    for text in hostile() {
        let call = store
            .get(&CallId::from(text.as_str()))
            .await
            .unwrap()
            .expect("the call");
        assert_eq!(call.title, text);
        assert_eq!(store.events(&call.id, 0, 10).await.unwrap(), [event(1)]);
        let session = CallFilter {
            session: Some(SessionId::from(text.as_str())),
            ..CallFilter::default()
        };
        let workspace = CallFilter {
            workspaces: WorkspaceSet::one(&fixture.workspace(&text)),
            ..CallFilter::default()
        };
        let tool = CallFilter {
            tools: vec![text.clone()],
            ..CallFilter::default()
        };
        for filter in [session, workspace, tool] {
            assert_eq!(all_ids(&*store, &filter, 5).await, [text.as_str()], "{filter:?}");
        }
    }
    let many = CallFilter {
        tools: (0..50_000).map(|number| number.to_string()).collect(),
        ..CallFilter::default()
    };
    assert_eq!(all_ids(&*store, &many, 5).await, Vec::<String>::new());
}

pub(crate) async fn many_at_once(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..500 {
        let (store, mut call) = (Arc::clone(&store), record(&format!("call {number}"), &instance));
        calls.spawn(async move {
            let events = grow(&mut call, 1);
            CallLog::create_call(&*store, call.clone(), events).await.unwrap();
            for _ in 0..5 {
                let events = grow(&mut call, 2);
                store.append(call.clone(), events).await.unwrap();
                // One that fails beside the others must not undo them.
                assert!(store.append(call.clone(), vec![event(1)]).await.is_err());
            }
        });
    }
    while let Some(result) = calls.join_next().await {
        result.unwrap();
    }
    for number in 0..500 {
        let id = CallId::from(format!("call {number}").as_str());
        assert_eq!(store.get(&id).await.unwrap().unwrap().last_sequence, 11);
        assert_eq!(store.events(&id, 0, 100).await.unwrap().len(), 11);
    }
}
