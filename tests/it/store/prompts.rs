//! Prompts, decisions and grants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use toolgate_model::{
    CallId, Decision, Grant, GrantId, GrantReach, GrantScope, InstanceId, Prompt, PromptId, PromptOutcome, PromptState,
    Reply, SessionId, SessionKey, Timestamp, WorkspaceSet,
};
use toolgate_store::{PromptFilter, Settled, Settlement, Store, StoreError};

use super::{Fixture, approval, hostile, prompt};

fn settlement(prompt: &str, by: &str) -> Settlement {
    Settlement {
        prompt: PromptId::from(prompt),
        state: PromptState::Resolved,
        decision: Decision {
            outcome: PromptOutcome::Replied(Reply::Once),
            time: Timestamp(2_000),
            reply_id: format!("reply of {by}"),
            by: by.to_owned(),
            principal: String::new(),
            because_of: None,
        },
        uses: Vec::new(),
    }
}

fn grant(id: &str, owner: &InstanceId) -> Grant {
    Grant {
        id: GrantId::from(id),
        owner: owner.clone(),
        workspace: "main".to_owned(),
        worktree: String::new(),
        session: SessionId::from("s"),
        scope: GrantScope::default(),
        permission: "bash".to_owned(),
        pattern: "ls *".to_owned(),
        prompt: PromptId::from("p"),
        approvers: Vec::new(),
        title: String::new(),
        by: String::new(),
        created: Timestamp(2_000),
        uses: 0,
        last_used: None,
    }
}

async fn ids(store: &dyn Store, filter: &PromptFilter, limit: usize) -> Vec<String> {
    store
        .prompts(filter, limit)
        .await
        .unwrap()
        .iter()
        .map(|prompt| prompt.id.to_string())
        .collect()
}

pub(crate) async fn open_and_list(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let store = fixture.open(&one).await;
    for (id, owner, workspace, session, call) in [
        ("z", &one, "main", "a", "1"),
        ("y", &one, "side", "b", "2"),
        ("x", &two, "main", "c", "3"),
        ("w", &one, "main", "a", "1"),
    ] {
        let session = SessionId::from(session);
        store
            .open(
                Prompt {
                    workspace: workspace.to_owned(),
                    session,
                    ..prompt(id, call, owner)
                },
                None,
                None,
            )
            .await
            .unwrap();
    }
    let again = store.open(prompt("z", "other", &one), None, None).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
    store
        .settle(settlement("y", "ann"), Vec::new(), Vec::new(), None)
        .await
        .unwrap();

    let all = PromptFilter::default;
    let check = async |filter: PromptFilter, expected: &[&str]| {
        assert_eq!(ids(&*store, &filter, 10).await, expected, "{filter:?}");
    };
    check(all(), &["z", "y", "x", "w"]).await;
    check(
        PromptFilter {
            owner: Some(one.clone()),
            ..all()
        },
        &["z", "y", "w"],
    )
    .await;
    check(
        PromptFilter {
            workspaces: WorkspaceSet::one("main"),
            ..all()
        },
        &["z", "x", "w"],
    )
    .await;
    check(
        PromptFilter {
            sessions: vec![SessionId::from("c"), SessionId::from("b")],
            ..all()
        },
        &["y", "x"],
    )
    .await;
    check(
        PromptFilter {
            call: Some(CallId::from("1")),
            ..all()
        },
        &["z", "w"],
    )
    .await;
    check(
        PromptFilter {
            ids: vec![PromptId::from("w"), PromptId::from("none"), PromptId::from("x")],
            ..all()
        },
        &["x", "w"],
    )
    .await;
    check(
        PromptFilter {
            states: vec![PromptState::Open],
            ..all()
        },
        &["z", "x", "w"],
    )
    .await;
    check(
        PromptFilter {
            states: vec![PromptState::Resolved, PromptState::Expired],
            ..all()
        },
        &["y"],
    )
    .await;
    check(
        PromptFilter {
            states: PromptState::ALL.to_vec(),
            ..all()
        },
        &["z", "y", "x", "w"],
    )
    .await;
    let open = vec![PromptState::Open];
    check(
        PromptFilter {
            owner: Some(one.clone()),
            states: open,
            call: Some(CallId::from("2")),
            ..all()
        },
        &[],
    )
    .await;
    assert_eq!(ids(&*store, &all(), 2).await, ["z", "y"]);
    assert_eq!(ids(&*store, &all(), 0).await, Vec::<String>::new());
    assert_eq!(ids(&*store, &all(), usize::MAX).await.len(), 4);
    assert_eq!(store.prompt(&PromptId::from("x")).await.unwrap().unwrap().owner, two);
}

async fn race(stores: &[Arc<dyn Store>], attempts: usize) {
    let mut replies = tokio::task::JoinSet::new();
    for number in 0..attempts {
        let store = Arc::clone(&stores[number % stores.len()]);
        replies.spawn(async move {
            let by = format!("approver {number}");
            (
                by.clone(),
                store
                    .settle(settlement("p", &by), Vec::new(), Vec::new(), None)
                    .await
                    .unwrap(),
            )
        });
    }
    let results = replies.join_all().await;
    let winners: Vec<&String> = results
        .iter()
        .filter_map(|(by, settled)| matches!(settled, Settled::Now { .. }).then_some(by))
        .collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    for (_, settled) in &results {
        let decided = match settled {
            Settled::Now { prompts } => &prompts[0],
            Settled::Before(prompt) => prompt,
            Settled::Unknown | Settled::Overtaken => panic!("{settled:?}"),
        };
        assert_eq!(&decided.decision.as_ref().unwrap().by, winners[0]);
        assert_eq!(decided.state, PromptState::Resolved);
    }
}

pub(crate) async fn first_reply_wins(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    store.open(prompt("p", "c", &instance), None, None).await.unwrap();
    race(&[Arc::clone(&store)], 8).await;
    let found = store.prompt(&PromptId::from("p")).await.unwrap().unwrap();
    assert!(found.decision.is_some());
    drop(store);
    fixture.stop(&instance).await;
    let store = fixture.open(&InstanceId::generate()).await;
    assert_eq!(store.prompt(&found.id).await.unwrap().unwrap(), found);
}

pub(crate) async fn two_stores_settle_once(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let stores = [fixture.open(&one).await, fixture.open(&two).await];
    stores[0].open(prompt("p", "c", &one), None, None).await.unwrap();
    race(&stores, 8).await;
}

pub(crate) async fn approvals_count_once(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let stores = [fixture.open(&one).await, fixture.open(&two).await];
    stores[0].open(prompt("p", "c", &one), None, None).await.unwrap();
    let id = PromptId::from("p");
    // Five principals say so eight times each, through two services on the same data.
    let attempts = (0..40).map(|number| stores[number % 2].approve(&id, approval(&format!("token:{}", number % 5))));
    for approved in futures_util::future::join_all(attempts).await {
        let approved = approved.unwrap().unwrap();
        assert_eq!((approved.state, approved.decision.as_ref()), (PromptState::Open, None));
        assert!((1..=5).contains(&approved.approvals.len()));
    }
    let found = stores[1].prompt(&id).await.unwrap().unwrap();
    let mut principals: Vec<&str> = found.approvals.iter().map(|one| one.principal.as_str()).collect();
    principals.sort_unstable();
    assert_eq!(principals, ["token:0", "token:1", "token:2", "token:3", "token:4"]);

    stores[0]
        .settle(settlement("p", "ann"), Vec::new(), Vec::new(), None)
        .await
        .unwrap();
    for id in [&id, &PromptId::from("unknown")] {
        assert_eq!(stores[1].approve(id, approval("token:late")).await.unwrap(), None);
    }
    drop(stores);
    fixture.stop(&one).await;
    let store = fixture.open(&InstanceId::generate()).await;
    let settled = store.prompt(&id).await.unwrap().unwrap();
    assert_eq!(settled.approvals, found.approvals, "they stay with what was decided");
    for text in hostile() {
        store.open(prompt(&text, "c", &two), None, None).await.unwrap();
        let id = PromptId::from(text.as_str());
        let approved = store.approve(&id, approval(&text)).await.unwrap().unwrap();
        assert_eq!(approved.approvals, [approval(&text)]);
    }
}

pub(crate) async fn cascades(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for id in ["1", "2", "3", "4"] {
        store.open(prompt(id, "c", &instance), None, None).await.unwrap();
    }
    store
        .settle(settlement("2", "early"), Vec::new(), Vec::new(), None)
        .await
        .unwrap();
    let also = ["2", "1", "3", "unknown", "3"].map(|id| settlement(id, "ann")).to_vec();
    let grants = vec![grant("g1", &instance), grant("g2", &instance)];
    let settled = store
        .settle(settlement("1", "ann"), also.clone(), grants.clone(), None)
        .await
        .unwrap();
    let Settled::Now { prompts } = settled else {
        panic!("{settled:?}")
    };
    assert_eq!(
        prompts.iter().map(|prompt| prompt.id.as_str()).collect::<Vec<_>>(),
        ["1", "3"]
    );
    assert_eq!(store.grants(&instance).await.unwrap(), grants);
    let open = PromptFilter {
        states: vec![PromptState::Open],
        ..PromptFilter::default()
    };
    assert_eq!(ids(&*store, &open, 10).await, ["4"]);
    let early = store.prompt(&PromptId::from("2")).await.unwrap().unwrap();
    assert_eq!(early.decision.unwrap().by, "early");

    // One that comes second changes nothing, not even what it would have settled too.
    let settled = store
        .settle(
            settlement("1", "bob"),
            vec![settlement("4", "bob")],
            vec![grant("g3", &instance)],
            None,
        )
        .await;
    assert!(matches!(settled, Ok(Settled::Before(_))), "{settled:?}");
    assert_eq!(ids(&*store, &open, 10).await, ["4"]);
    assert_eq!(store.grants(&instance).await.unwrap().len(), 2);

    // A grant that cannot be stored undoes the decision.
    let settled = store
        .settle(settlement("4", "bob"), Vec::new(), vec![grant("g1", &instance)], None)
        .await;
    assert!(matches!(settled, Err(StoreError::Conflict(_))), "{settled:?}");
    assert_eq!(ids(&*store, &open, 10).await, ["4"]);
}

pub(crate) async fn what_came_meanwhile_is_looked_at(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let stores = [fixture.open(&one).await, fixture.open(&two).await];
    let none = || Some(BTreeSet::new());
    let open = async |id: &str, owner: &InstanceId, judged_by: Option<BTreeSet<GrantId>>| {
        let others = stores[0].open(prompt(id, "c", owner), None, judged_by).await.unwrap();
        others.iter().map(|grant| grant.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(open("1", &one, none()).await, [""; 0]);
    assert_eq!(open("2", &one, none()).await, [""; 0]);
    let elsewhere = Prompt {
        session: SessionId::from("other"),
        ..prompt("3", "c", &one)
    };
    stores[0].open(elsewhere, None, None).await.unwrap();

    // A prompt that came since the others were looked at may be covered, too.
    let grants = vec![
        grant("run", &one),
        Grant {
            scope: GrantScope {
                reach: GrantReach::Workspace,
                ..GrantScope::default()
            },
            ..grant("kept", &one)
        },
        Grant {
            scope: GrantScope {
                until: Some(Timestamp(3_000)),
                ..GrantScope::default()
            },
            ..grant("over", &one)
        },
    ];
    let settle = async |beside: Option<BTreeSet<PromptId>>| {
        let settled = stores[1].settle(settlement("1", "ann"), Vec::new(), grants.clone(), beside);
        settled.await.unwrap()
    };
    assert_eq!(settle(Some(BTreeSet::new())).await, Settled::Overtaken);
    assert_eq!(stores[0].grants(&one).await.unwrap(), []);
    assert_eq!(
        stores[0].prompt(&PromptId::from("1")).await.unwrap().unwrap().decision,
        None
    );
    let settled = settle(Some(BTreeSet::from([PromptId::from("2"), PromptId::from("gone")]))).await;
    assert!(matches!(settled, Settled::Now { .. }), "{settled:?}");

    // A prompt is not stored if a grant came since it was judged.
    assert_eq!(open("4", &one, none()).await, ["run", "kept"]);
    assert_eq!(open("4", &two, none()).await, ["kept"]);
    assert_eq!(stores[0].prompt(&PromptId::from("4")).await.unwrap(), None);
    let known = || Some(BTreeSet::from([GrantId::from("kept"), GrantId::from("gone")]));
    assert_eq!(open("4", &one, known()).await, ["run"]);
    assert_eq!(open("4", &two, known()).await, [""; 0]);
    assert_eq!(open("5", &one, None).await, [""; 0]);
}

pub(crate) async fn who_asks_is_kept_while_the_prompt_is_open(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let stores = [fixture.open(&one).await, fixture.open(&two).await];
    let asker = json!({"rights": {"b": 1, "a": [null, "\u{0}\"x"]}});
    for (id, asker) in [("1", Some(asker.clone())), ("2", None), ("3", Some(json!(3)))] {
        stores[0].open(prompt(id, "c", &one), asker, None).await.unwrap();
    }
    let revisions = async || {
        stores[1]
            .open_prompts()
            .await
            .unwrap()
            .into_iter()
            .collect::<BTreeMap<_, _>>()
    };
    let asked = async |id: &str| {
        stores[1]
            .asked(&PromptId::from(id))
            .await
            .unwrap()
            .map(|asked| asked.asker)
    };
    let first = revisions().await;
    assert_eq!(first.keys().map(PromptId::as_str).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(asked("1").await, Some(Some(asker.clone())));
    assert_eq!(asked("2").await, Some(None));
    assert_eq!(asked("4").await, None);

    // Another approval is another revision, and leaves who asks.
    stores[0]
        .approve(&PromptId::from("1"), approval("token:ann"))
        .await
        .unwrap();
    let second = revisions().await;
    let changed: Vec<&str> = first
        .iter()
        .filter(|(id, revision)| second.get(id) != Some(revision))
        .map(|(id, _)| id.as_str())
        .collect();
    assert_eq!(changed, ["1"]);
    assert_eq!(asked("1").await, Some(Some(asker.clone())));
    stores[0]
        .replace_asker(&PromptId::from("3"), Some(json!({})))
        .await
        .unwrap();
    let session = SessionKey::new("main", &SessionId::from("ses_1"));
    let open = stores[1].asked_in(&session).await.unwrap();
    let open: Vec<_> = open
        .iter()
        .map(|one| (one.prompt.id.as_str(), one.asker.clone()))
        .collect();
    assert_eq!(open, [("1", Some(asker)), ("2", None), ("3", Some(json!({})))]);
    for key in [
        SessionKey::new("side", &session.session),
        SessionKey::new("main", &SessionId::from("other")),
    ] {
        assert_eq!(stores[1].asked_in(&key).await.unwrap(), []);
    }

    let settled = stores[1].settle(settlement("1", "ann"), vec![settlement("3", "ann")], Vec::new(), None);
    settled.await.unwrap();
    assert_eq!(
        revisions().await.keys().map(PromptId::as_str).collect::<Vec<_>>(),
        ["2"]
    );
    for id in ["1", "3"] {
        stores[0]
            .replace_asker(&PromptId::from(id), Some(json!(1)))
            .await
            .unwrap();
        assert_eq!(asked(id).await, Some(None), "{id}");
    }
    assert_eq!(stores[1].asked_in(&session).await.unwrap().len(), 1);
}

pub(crate) async fn grants_live_and_go(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let store = fixture.open(&one).await;
    store.open(prompt("p", "c", &one), None, None).await.unwrap();
    let grants = vec![grant("b", &one), grant("a", &one), grant("other", &two)];
    store
        .settle(settlement("p", "ann"), Vec::new(), grants.clone(), None)
        .await
        .unwrap();
    assert_eq!(store.grants(&one).await.unwrap(), grants[..2]);
    assert_eq!(store.grants(&two).await.unwrap(), grants[2..]);
    assert_eq!(
        store.revoke(&GrantId::from("b"), "ann").await.unwrap(),
        Some(grants[0].clone())
    );
    assert_eq!(store.revoke(&GrantId::from("b"), "ann").await.unwrap(), None);
    assert_eq!(store.grants(&one).await.unwrap(), grants[1..2]);
    assert_eq!(store.grants(&InstanceId::generate()).await.unwrap(), []);
}

/// Later than any clock says that judges when a grant ends: the end of the century.
const LATE: i64 = 4_102_444_800_000;

pub(crate) async fn uses_are_counted(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let store = fixture.open(&one).await;
    store.open(prompt("p", "c", &one), None, None).await.unwrap();
    let scoped = |id: &str, uses: Option<u32>, until: Option<i64>| Grant {
        scope: GrantScope {
            reach: GrantReach::Workspace,
            until: until.map(Timestamp),
            uses,
        },
        ..grant(id, &one)
    };
    let grants = vec![
        scoped("three", Some(3), None),
        scoped("free", None, None),
        scoped("timed", None, Some(LATE)),
        scoped("over", None, Some(3_000)),
        grant("run", &one),
    ];
    store
        .settle(settlement("p", "ann"), Vec::new(), grants, None)
        .await
        .unwrap();
    let ids = |ids: &[&str]| ids.iter().map(|&id| GrantId::from(id)).collect::<Vec<_>>();
    let later = Timestamp(4_000);
    // Another service on the same data sees what outlasts a run, and both count the same uses.
    let other = fixture.open(&two).await;
    let seen: Vec<String> = other
        .grants(&two)
        .await
        .unwrap()
        .iter()
        .map(|grant| grant.id.to_string())
        .collect();
    // Whether what has ended is still listed is up to the store.
    let seen: Vec<&str> = seen.iter().map(String::as_str).filter(|id| *id != "over").collect();
    assert_eq!(seen, ["three", "free", "timed"]);
    assert_eq!(store.use_grants(&ids(&["timed"]), later).await.unwrap(), []);
    assert_eq!(
        store.use_grants(&ids(&["free", "over"]), later).await.unwrap(),
        ids(&["over"])
    );
    let wanted = ids(&["three", "free"]);
    let attempts = (0..8).map(|index| if index % 2 == 0 { &store } else { &other }.use_grants(&wanted, later));
    let outcomes = futures_util::future::join_all(attempts).await;
    let counted = outcomes
        .into_iter()
        .filter(|gone| gone.as_ref().unwrap().is_empty())
        .count();
    assert_eq!(counted, 3);
    let left = store.grants(&one).await.unwrap();
    let left = left.iter().filter(|grant| grant.id.as_str() != "over");
    let left: Vec<(&str, u64)> = left.map(|grant| (grant.id.as_str(), grant.uses)).collect();
    assert_eq!(left, [("free", 3), ("timed", 1), ("run", 0)]);
}

pub(crate) async fn unknown_prompts(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    assert_eq!(store.prompt(&PromptId::from("p")).await.unwrap(), None);
    let settled = store
        .settle(settlement("p", "ann"), Vec::new(), vec![grant("g", &instance)], None)
        .await
        .unwrap();
    assert_eq!(settled, Settled::Unknown);
    assert_eq!(store.grants(&instance).await.unwrap(), []);
}

pub(crate) async fn hostile_ids_of_prompts(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for text in hostile() {
        let session = SessionId::from(text.as_str());
        store
            .open(
                Prompt {
                    session,
                    ..prompt(&text, &text, &instance)
                },
                None,
                None,
            )
            .await
            .unwrap();
    }
    for text in hostile() {
        assert!(store.prompt(&PromptId::from(text.as_str())).await.unwrap().is_some());
        let call = PromptFilter {
            call: Some(CallId::from(text.as_str())),
            ..PromptFilter::default()
        };
        let sessions = PromptFilter {
            sessions: vec![SessionId::from(text.as_str())],
            ..PromptFilter::default()
        };
        for filter in [call, sessions] {
            assert_eq!(ids(&*store, &filter, 10).await, [text.as_str()], "{filter:?}");
        }
        let grants = vec![grant(&text, &instance)];
        let settled = store
            .settle(settlement(&text, &text), Vec::new(), grants.clone(), None)
            .await
            .unwrap();
        assert!(matches!(settled, Settled::Now { .. }), "{settled:?}");
        assert_eq!(
            store.revoke(&grants[0].id, &text).await.unwrap().as_ref(),
            Some(&grants[0])
        );
    }
}
