//! What a run without a database is refused that has got hold of a worker: it says what is not so.

use std::time::Duration;

use toolgate_model::{
    GrantReach, InstanceId, Prompt, PromptOutcome, PromptRequest, PromptState, Question, Reply, Timestamp,
};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::ledger::{Bound, Hold, Ledger as _, Note};
use toolgate_store::{Audit as _, OutputOwner, Settled, StoreError, Upkeep as _};

use crate::holding::{PRINCIPAL, Scene, bound, created};
use crate::store::{grow, record};
use crate::without_database::{asked, audited, everything, grant, granted, output, settlement};

const LEASE: Duration = Duration::from_secs(30);

/// Returns how many tables there are, those of days included.
async fn tables(scene: &Scene) -> i64 {
    let client = scene.server.connect(&scene.name).await.unwrap();
    let sql = "SELECT count(*) FROM pg_class WHERE relkind = 'r'";
    client.query_typed(sql, &[]).await.unwrap()[0].get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_makes_tables_of_days_that_are_far_off() {
    let scene = Scene::new(LEASE).await;
    let options = PostgresOptions::new(scene.server.address(&scene.name));
    let store = PostgresStore::open(options, InstanceId::generate()).await.unwrap();
    let hold = bound(&store, &InstanceId::generate(), "main").await;
    let before = tables(&scene).await;
    let now = Timestamp::now().millis();
    let create = async |store: &PostgresStore, hold: &Hold, created: i64| {
        let mut call = record("call", &hold.run);
        call.created = Timestamp(created);
        let events = grow(&mut call, 1);
        store.create_call_for(hold, call, events, false).await
    };
    let day = 86_400_000;
    for created in [0, now - day - 60_000, now + day + 60_000, i64::MAX, i64::MIN] {
        let refused = create(&store, &hold, created).await;
        assert!(
            matches!(refused, Err(StoreError::Conflict(_))),
            "{created}: {refused:?}"
        );
    }
    // Who holds nothing makes none of a day that would be right, either.
    let late = Hold {
        epoch: 7,
        ..hold.clone()
    };
    let refused = create(&scene.store, &late, 0).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    assert_eq!(tables(&scene).await, before);
    create(&store, &hold, now - day / 2).await.unwrap();
    store.close().await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_one_writes_is_not_compared() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let theirs = scene.bound(&InstanceId::generate(), "theirs").await;
    let hold = scene.bound(&InstanceId::generate(), "main").await;
    let (call, id) = (created(store, &theirs, "theirs").await, output('a'));
    let owner = OutputOwner::from(&call);
    store.begin_output_for(&theirs, &id, owner, call.created).await.unwrap();
    store.append_output_for(&theirs, &id, 0, "secret".into()).await.unwrap();
    // Right or wrong, the answer is the same.
    for piece in ["secret", "sorted"] {
        for offset in [0, 6, 100, u64::MAX] {
            let refused = store.append_output_for(&hold, &id, offset, piece.into()).await;
            assert!(
                matches!(refused, Err(StoreError::NotFound(_))),
                "{piece} at {offset}: {refused:?}"
            );
        }
    }
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_its_principals_for_ever() {
    let scene = Scene::new(LEASE).await;
    let (store, run, other) = (&scene.store, InstanceId::generate(), "token:other");
    let hold = scene.bound(&run, "main").await;
    let call = created(store, &hold, "c").await;
    let before = everything(&scene).await;
    for workspace in ["main", "new"] {
        let refused = store.bind(&run, other, "", &[workspace.to_owned()]).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    let lied = Hold {
        principal: other.to_owned(),
        ..hold.clone()
    };
    let mut grown = call.clone();
    let events = grow(&mut grown, 1);
    let mut fresh = record("fresh", &run);
    let created = grow(&mut fresh, 1);
    for refused in [
        store.append_for(&lied, grown, events, false).await.err(),
        store.create_call_for(&lied, fresh, created, false).await.err(),
        store.open_for(&lied, asked("p", &call), None, None, false).await.err(),
        store.record_changes_for(&lied, &call.id, Vec::new()).await.err(),
        store.adopt_for(&lied).await.err(),
        store
            .note_for(&lied, 1, vec![audited("main", Kind::Denied, "")])
            .await
            .err(),
    ] {
        assert!(matches!(refused, Some(StoreError::Fenced(_))), "{refused:?}");
    }
    // Nobody else has it doubted.
    store.doubt(&run, other).await.unwrap();
    let client = scene.server.connect(&scene.name).await.unwrap();
    let doubted = "SELECT FROM instances WHERE doubted";
    assert_eq!(client.query_typed(doubted, &[]).await.unwrap().len(), 0);
    assert!(!store.is_run_of(&run, other).await.unwrap());
    assert!(store.is_run_of(&run, PRINCIPAL).await.unwrap());
    assert_eq!(everything(&scene).await, before);
    store.doubt(&run, PRINCIPAL).await.unwrap();
    assert_eq!(client.query_typed(doubted, &[]).await.unwrap().len(), 1);
    // The run of a gateway is nobody's.
    let row = client
        .query_typed("SELECT id FROM instances WHERE NOT is_bound", &[])
        .await
        .unwrap();
    let own = InstanceId::new(row[0].get::<_, String>(0));
    let refused = store.bind(&own, PRINCIPAL, "", &["new".to_owned()]).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert!(!store.is_run_of(&own, "").await.unwrap());
    let got = store.bind(&run, PRINCIPAL, "", &["new".to_owned()]).await.unwrap();
    assert!(matches!(got, Bound::Now(_)), "{got:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_in_the_audit_because_a_run_says_so() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let theirs = scene.bound(&InstanceId::generate(), "theirs").await;
    let hold = scene.bound(&run, "main").await;
    let (call, foreign) = (
        created(store, &hold, "c").await,
        created(store, &theirs, "theirs").await,
    );
    store
        .open_for(&theirs, asked("p", &foreign), None, None, false)
        .await
        .unwrap();
    let told = |fact: Fact| {
        vec![Note::Audit(Box::new(Fact {
            workspace: "main".to_owned(),
            ..fact
        }))]
    };
    for fact in [
        Fact {
            call: Some(foreign.id.clone()),
            ..Fact::new(Kind::Allowed)
        },
        Fact {
            parent: Some(foreign.id.clone()),
            ..Fact::new(Kind::Denied)
        },
        Fact {
            prompt: Some("p".into()),
            ..Fact::new(Kind::Allowed)
        },
    ] {
        let refused = store.note_for(&hold, 1, told(fact)).await;
        assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    }
    let opened = Fact {
        by: "token:alice".to_owned(),
        call: Some(call.id.clone()),
        ..Fact::new(Kind::WorkspaceOpened)
    };
    store.note_for(&hold, 1, told(opened)).await.unwrap();
    granted(
        store,
        &hold,
        &call,
        vec![grant("g", "main", &run, GrantReach::Workspace)],
    )
    .await;
    store.revoke_for(&hold, &"g".into(), "token:alice").await.unwrap();
    let question = Question {
        question: "Which?".to_owned(),
        header: "which".to_owned(),
        options: Vec::new(),
        multiple: false,
        custom: true,
        form: None,
    };
    let questions = Prompt {
        request: PromptRequest::Questions(vec![question]),
        ..asked("q", &call)
    };
    store.open_for(&hold, questions, None, None, false).await.unwrap();
    let reply = PromptOutcome::Replied(Reply::Answers(vec![vec!["this".to_owned()]]));
    let mut answer = settlement("q", PromptState::Resolved, reply);
    answer.decision.by = "alice".to_owned();
    answer.decision.principal = "token:alice".to_owned();
    let settled = store.end_prompt_for(&hold, answer).await.unwrap();
    let Settled::Now { prompts } = settled else {
        panic!("{settled:?}");
    };
    let decision = prompts[0].decision.clone().unwrap();
    assert_eq!((decision.by.as_str(), decision.principal.as_str()), (PRINCIPAL, ""));
    store.audit_end().await.unwrap();
    let lines = store.audit_lines(1, 1_000).await.unwrap();
    let records = lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.json).unwrap());
    let by: Vec<(String, String)> = records
        .filter_map(|record| Some((record["kind"].as_str()?.to_owned(), record["by"].as_str()?.to_owned())))
        .collect();
    let said = format!("worker {PRINCIPAL}: token:alice");
    for (kind, by_whom) in [
        ("workspace_opened", said.as_str()),
        ("revoked", said.as_str()),
        ("decided", PRINCIPAL),
    ] {
        assert!(by.contains(&(kind.to_owned(), by_whom.to_owned())), "{kind}: {by:?}");
    }
    assert!(by.iter().all(|(_, by)| by != "token:alice"), "{by:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_calls_are_ended_a_few_at_a_time() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    for id in ["a", "b", "c", "d"] {
        let mut call = record(id, &run);
        call.created = Timestamp::now();
        call.input_json = "x".repeat(6 << 20);
        let events = grow(&mut call, 1);
        store.create_call_for(&hold, call, events, false).await.unwrap();
    }
    scene.kill(&run).await;
    let ended = store.reap().await.unwrap();
    assert_eq!(
        ended.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(),
        ["a", "b", "c", "d"]
    );
    assert_eq!(store.reap().await.unwrap(), []);
    scene.store.close().await.unwrap();
}
