//! How much a run without a database may store that has got into wrong hands: what it has too much of is refused, and others notice
//! nothing of it.

use std::time::Duration;

use serde_json::json;
use toolgate_model::{
    CallRecord, CallState, InstanceId, Prompt, PromptOutcome, PromptState, ServiceEvent, ServiceEventKind, SessionId,
    SessionKey, Timestamp, WorkspaceChange, WorkspaceSet,
};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::audit::{Fact, Kind, Verifier};
use toolgate_store::ledger::{Bound, Hold, Ledger as _, Note};
use toolgate_store::{
    Audit as _, CallLog as _, Interest, Journal as _, OutputOwner, OutputRetention, Outputs as _, PromptFilter,
    Prompts as _, SessionFacts as _, StoreError, Upkeep as _,
};

use crate::holding::{PRINCIPAL, Scene, bound, created};
use crate::store::{end, grow, record};
use crate::without_database::{asked, audited, output, settlement};

const LEASE: Duration = Duration::from_secs(30);

fn is_full<T: std::fmt::Debug>(result: Result<T, StoreError>, says: &str) {
    assert!(
        matches!(&result, Err(StoreError::Full(text)) if text.contains(says)),
        "{result:?}"
    );
}

fn is_conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
}

/// Verifies the whole audit, and returns how many records it has.
async fn verified(store: &PostgresStore) -> u64 {
    let head = store.audit_end().await.unwrap().head;
    let lines = store.audit_lines(1, usize::MAX).await.unwrap();
    let mut verifier = Verifier::default();
    for line in &lines {
        verifier.line(line.json.as_bytes()).unwrap();
    }
    verifier.line(head.line(lines.len() as u64).as_bytes()).unwrap();
    verifier.finish().unwrap().count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_prompts_of_a_workspace_are_open() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let (hold, other) = (scene.bound(&run, "main").await, scene.bound(&run, "other").await);
    let (call, elsewhere) = (created(store, &hold, "c").await, created(store, &other, "d").await);
    store
        .open_for(&hold, asked("p", &call), None, None, false)
        .await
        .unwrap();
    let sql = "INSERT INTO prompts (id, call, owner, session, workspace, state, prompt)
               SELECT 'many-' || place, call, owner, session, workspace, state, replace(prompt, '\"p\"', '\"many-' || place || '\"')
               FROM prompts, generate_series(1, 999) AS many (place) WHERE id = 'p'";
    scene.server.run(&scene.name, sql).await;
    let open = async |id: &str| store.open_for(&hold, asked(id, &call), None, None, false).await;
    is_full(open("q").await, "1000 prompts of workspace main are open");
    let filter = PromptFilter {
        workspaces: WorkspaceSet::one("main"),
        ..PromptFilter::default()
    };
    assert_eq!(store.prompts_for(&filter, 10_000).await.unwrap().len(), 1_000);
    // Said again, what is there is there.
    store
        .open_for(&hold, asked("p", &call), None, None, true)
        .await
        .unwrap();
    store
        .open_for(&other, asked("r", &elsewhere), None, None, false)
        .await
        .unwrap();
    let end = settlement("many-7", PromptState::Expired, PromptOutcome::Expired);
    store.end_prompt_for(&hold, end).await.unwrap();
    open("q").await.unwrap();
    is_full(open("s").await, "reply to some of them");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workspaces_are_no_way_to_more_prompts() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let (hold, other) = (scene.bound(&run, "main").await, scene.bound(&run, "other").await);
    let (call, elsewhere) = (created(store, &hold, "c").await, created(store, &other, "d").await);
    store
        .open_for(&hold, asked("p", &call), None, None, false)
        .await
        .unwrap();
    // Ten workspaces that the same identity had before have a thousand each.
    let sql = format!(
        "INSERT INTO workspaces (id, principal) SELECT 'w' || place, '{PRINCIPAL}' FROM generate_series(0, 9) AS many (place);
         INSERT INTO prompts (id, call, owner, session, workspace, state, prompt)
             SELECT 'many-' || place, call, owner, session, 'w' || place % 10, state, prompt
             FROM prompts, generate_series(1, 9998) AS many (place) WHERE id = 'p'"
    );
    scene.server.run(&scene.name, &sql).await;
    let open = async |id: &str| store.open_for(&other, asked(id, &elsewhere), None, None, false).await;
    open("q").await.unwrap();
    is_full(
        open("r").await,
        "1 prompts of workspace other are open (at most 1000), and 10000 of all",
    );
    // Those of somebody else are not counted.
    let sql = "UPDATE workspaces SET principal = 'token:another' WHERE id = 'w0'";
    scene.server.run(&scene.name, sql).await;
    open("r").await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_are_long_together_to_a_point() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let call = created(store, &hold, "c").await;
    let open = async |id: &str| {
        let long = Prompt {
            directory: "x".repeat(15 << 20),
            ..asked(id, &call)
        };
        store.open_for(&hold, long, None, None, false).await
    };
    for id in ["p", "q", "r"] {
        open(id).await.unwrap();
    }
    is_full(open("s").await, "3 prompts of workspace main are open");
    let filter = |limit: usize| {
        let filter = PromptFilter {
            workspaces: WorkspaceSet::one("main"),
            ..PromptFilter::default()
        };
        async move { store.prompts_for(&filter, limit).await }
    };
    let end = settlement("p", PromptState::Expired, PromptOutcome::Expired);
    store.end_prompt_for(&hold, end).await.unwrap();
    open("s").await.unwrap();
    // Nobody reads all that was ever asked at once.
    is_full(filter(10_000).await, "ask for fewer");
    assert_eq!(filter(2).await.unwrap().len(), 2);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_taken_over_a_few_at_a_time() {
    let scene = Scene::new(LEASE).await;
    let (store, first, second) = (&scene.store, InstanceId::generate(), InstanceId::generate());
    let hold = scene.bound(&first, "main").await;
    for id in ["a", "b", "c", "d", "e"] {
        let mut call = record(id, &first);
        call.state = CallState::Waiting;
        call.input_json = "x".repeat(10 << 20);
        let events = grow(&mut call, 1);
        store.create_call_for(&hold, call, events, false).await.unwrap();
    }
    store.release(&first).await.unwrap();
    store.reap().await.unwrap();
    let next = scene.bound(&second, "main").await;
    let adopted = store.adopt_for(&next).await.unwrap();
    let names = |calls: &[CallRecord]| calls.iter().map(|call| call.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&adopted), ["a", "b", "c"]);
    // The others wait until those have ended.
    for mut call in adopted {
        let events = end(&mut call, Timestamp(5_000));
        store.append_for(&next, call, events, false).await.unwrap();
    }
    assert_eq!(names(&store.adopt_for(&next).await.unwrap()), ["d", "e"]);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_facts_belong_to_a_session() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let fact = |session: &str, name: &str, value: serde_json::Value| Note::Fact {
        session: SessionKey::new("main", &SessionId::from(session)),
        key: name.to_owned(),
        value,
    };
    store
        .note_for(&hold, 1, vec![fact("s", "first", json!(1))])
        .await
        .unwrap();
    let sql = "INSERT INTO facts (workspace, session, name, value, stored)
               SELECT workspace, session, 'many-' || number, '1', stored
               FROM facts, generate_series(1, 19999) AS many (number) WHERE name = 'first'";
    scene.server.run(&scene.name, sql).await;
    let more = vec![fact("t", "a", json!(1)), fact("s", "more", json!(1))];
    is_full(
        store.note_for(&hold, 2, more).await,
        "session s of workspace main has 20000 facts",
    );
    let long = vec![fact("t", "long", json!("x".repeat(1 << 20)))];
    is_full(store.note_for(&hold, 2, long).await, "too long");
    // What is there may change, and other sessions have room.
    let fine = vec![fact("s", "first", json!(2)), fact("t", "a", json!("x".repeat(1 << 19)))];
    store.note_for(&hold, 2, fine).await.unwrap();
    let key = SessionKey::new("main", &SessionId::from("s"));
    assert_eq!(store.fact(&key, "first").await.unwrap(), Some(json!(2)));
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_workspaces_belong_to_a_principal_and_those_of_nothing_go() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let kept = scene.bound(&run, "kept").await;
    created(store, &kept, "c").await;
    let gone = scene.bound(&run, "gone").await;
    let sql = format!(
        "INSERT INTO workspaces (id, principal, epoch) SELECT 'many-' || number, '{PRINCIPAL}', 40
         FROM generate_series(1, 99998) AS many (number)"
    );
    scene.server.run(&scene.name, &sql).await;
    let bind = async |principal: &str, run: &InstanceId, names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        store.bind(run, principal, "", &names).await
    };
    is_full(
        bind(PRINCIPAL, &run, &["kept", "new"]).await,
        "more than 100000 workspaces",
    );
    bind(PRINCIPAL, &run, &["kept", "gone"]).await.unwrap();
    let another = InstanceId::generate();
    bind("token:another", &another, &["new"]).await.unwrap();
    store.release(&another).await.unwrap();
    store.release(&run).await.unwrap();
    store.reap().await.unwrap();
    store.sweep_calls(Timestamp(0)).await.unwrap();
    let client = scene.server.connect(&scene.name).await.unwrap();
    let rows = client.query_typed("SELECT id FROM workspaces", &[]).await.unwrap();
    let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, ["kept"]);
    // It comes back as a new one, and no epoch does.
    let back = bound(store, &run, "gone").await;
    assert!(back.epoch > 40, "{back:?}");
    let mut late = record("late", &run);
    late.origin.workspace = "gone".to_owned();
    let events = grow(&mut late, 1);
    let refused = store.create_call_for(&gone, late, events, false).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_for_ever_by_a_clock_that_is_ahead() {
    let scene = Scene::new(LEASE).await;
    let options = PostgresOptions::new(scene.server.address(&scene.name));
    let store = PostgresStore::open(options, InstanceId::generate()).await.unwrap();
    let run = InstanceId::generate();
    let hold = bound(&store, &run, "main").await;
    let call = created(&store, &hold, "c").await;
    let soon = Timestamp(Timestamp::now().millis() + 3_600_000);
    let mut ended = call.clone();
    let events = end(&mut ended, Timestamp(i64::MAX));
    is_conflict(store.append_for(&hold, ended, events, false).await);
    let mut whole = record("whole", &run);
    whole.created = Timestamp::now();
    let mut events = grow(&mut whole, 1);
    events.extend(end(&mut whole, Timestamp(i64::MAX)));
    is_conflict(store.create_call_for(&hold, whole, events, false).await);
    let event = |time: Timestamp| {
        Note::Event(ServiceEvent {
            workspace: "main".to_owned(),
            session: None,
            time,
            kind: ServiceEventKind::WorkspaceChanged {
                change: WorkspaceChange::Changed,
            },
        })
    };
    is_conflict(store.note_for(&hold, 1, vec![event(Timestamp(i64::MAX))]).await);
    store.note_for(&hold, 1, vec![event(soon)]).await.unwrap();
    let mut ended = call;
    let events = end(&mut ended, soon);
    store.append_for(&hold, ended, events, false).await.unwrap();
    store.close().await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_row_is_gone_is_no_other_principals() {
    let scene = Scene::new(LEASE).await;
    let (store, run, other) = (&scene.store, InstanceId::generate(), "token:other");
    let hold = scene.bound(&run, "main").await;
    created(store, &hold, "c").await;
    scene.kill(&run).await;
    let new = || ["new".to_owned()];
    is_conflict(store.bind(&run, other, "", &new()).await);
    // Nor while something of it waits for the next run.
    scene
        .server
        .run(&scene.name, "UPDATE workspaces SET owner = NULL WHERE id = 'main'")
        .await;
    is_conflict(store.bind(&run, other, "", &new()).await);
    let own = store.bind(&run, PRINCIPAL, "", &new()).await.unwrap();
    assert!(matches!(own, Bound::Now(_)), "{own:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_looked_at_by_itself() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    store.must_hold(&hold).await.unwrap();
    for wrong in [
        Hold {
            epoch: 2,
            ..hold.clone()
        },
        Hold {
            principal: "token:other".to_owned(),
            ..hold.clone()
        },
        Hold {
            workspace: "other".to_owned(),
            ..hold.clone()
        },
    ] {
        let refused = store.must_hold(&wrong).await;
        assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    }
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_told_is_set_aside_and_the_chain_goes_on() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let mut call = created(store, &hold, "before").await;
    let before = verified(store).await;
    for entries in ["[{\"of_a_later_release\":1}]", "no JSON", "[]"] {
        let sql = format!("INSERT INTO outbox (entries) VALUES ('{entries}')");
        scene.server.run(&scene.name, &sql).await;
    }
    let known = store.since(0, 100).await.unwrap().len();
    let events = end(&mut call, Timestamp(5_000));
    store.append_for(&hold, call, events, false).await.unwrap();
    assert_eq!(verified(store).await, before + 1);
    assert!(store.since(0, 100).await.unwrap().len() > known);
    let client = scene.server.connect(&scene.name).await.unwrap();
    let aside = async || {
        let sql = "SELECT entries, why FROM outbox_aside ORDER BY number";
        let rows = client.query_typed(sql, &[]).await.unwrap();
        let row = |row: &tokio_postgres::Row| (row.get::<_, String>(0), row.get::<_, String>(1));
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let kept = aside().await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(store.untold().await.unwrap(), 2);
    assert_eq!(kept[1].0, "no JSON");
    assert!(kept.iter().all(|(_, why)| !why.is_empty()), "{kept:?}");
    assert_eq!(client.query_typed("SELECT FROM outbox", &[]).await.unwrap().len(), 0);
    // As if this was the later release, which starts.
    let fact = Fact {
        workspace: "main".to_owned(),
        ..Fact::new(Kind::Denied)
    };
    let known = serde_json::to_string(&[toolgate_store::outbox::Entry::from(fact)]).unwrap();
    let sql = format!("UPDATE outbox_aside SET entries = '{known}' WHERE entries <> 'no JSON'");
    scene.server.run(&scene.name, &sql).await;
    let options = PostgresOptions::new(scene.server.address(&scene.name));
    let later = PostgresStore::open(options, InstanceId::generate()).await.unwrap();
    assert_eq!(verified(&later).await, before + 2);
    assert_eq!(aside().await.len(), 1);
    later.close().await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_that_is_told_at_once_is_taken_in_portions() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let before = verified(store).await;
    // No row is read while the sequencer is kept from its work.
    let client = scene.server.connect(&scene.name).await.unwrap();
    client
        .batch_execute("BEGIN; SELECT FROM ends FOR UPDATE")
        .await
        .unwrap();
    let reason = "x".repeat(9 << 20);
    for number in 1..=4 {
        let note = audited("main", Kind::Denied, &reason);
        store.note_for(&hold, number, vec![note]).await.unwrap();
    }
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(verified(store).await, before + 4);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_hears_of_approvers_what_concerns_its_calls() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let (hold, other) = (scene.bound(&run, "main").await, scene.bound(&run, "other").await);
    let call = async |hold: &Hold, id: &str, session: &str, client: &str| {
        let mut call = record(id, &hold.run);
        call.origin.workspace.clone_from(&hold.workspace);
        call.origin.session = SessionId::from(session);
        call.origin.clients = vec![client.to_owned()];
        let events = grow(&mut call, 1);
        store.create_call_for(hold, call.clone(), events, false).await.unwrap();
        call
    };
    let ours = call(&hold, "c", "ours \u{0}", "our client").await;
    call(&other, "d", "theirs", "their client").await;
    let interest = |workspaces: &[&str], sessions: &[&str], clients: &[&str]| Interest {
        workspaces: WorkspaceSet::parse(workspaces.iter().copied()).unwrap(),
        sessions: sessions.iter().map(|session| SessionId::from(*session)).collect(),
        forms: false,
        clients: clients.iter().map(|client| (*client).to_owned()).collect(),
    };
    let mixed = interest(
        &["main", "other"],
        &["ours \u{0}", "theirs", "nobody's"],
        &["their client", "our client"],
    );
    let of_others = interest(&["*"], &["theirs"], &["their client"]);
    let all = interest(&["*"], &[], &[]);
    let elsewhere = interest(&["other"], &[], &[]);
    let interests = vec![mixed, of_others, all.clone(), all, elsewhere];
    store.attend(interests).await.unwrap();
    let heard = store.interests_in(&["main".to_owned()]).await.unwrap();
    let concerned = interest(&["main"], &["ours \u{0}"], &["our client"]);
    let everybody = interest(&["main"], &[], &[]);
    assert_eq!(heard, [concerned, everybody.clone()]);
    // One who has named something never hears of all.
    let mut ended = ours;
    let events = end(&mut ended, Timestamp(5_000));
    store.append_for(&hold, ended, events, false).await.unwrap();
    assert_eq!(store.interests_in(&["main".to_owned()]).await.unwrap(), [everybody]);
    assert_eq!(
        store.interests_in(&["none".to_owned()]).await.unwrap(),
        [interest(&["none"], &[], &[])]
    );
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_most_loses_its_outputs_first() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let mut ids = Vec::new();
    // The others' are the oldest.
    for (workspace, names) in [("quiet", "ab"), ("loud", "cdefgh")] {
        let hold = scene.bound(&run, workspace).await;
        let call = created(store, &hold, workspace).await;
        for name in names.chars() {
            let id = output(name);
            let owner = OutputOwner::from(&call);
            store.begin_output_for(&hold, &id, owner, call.created).await.unwrap();
            store
                .append_output_for(&hold, &id, 0, "0123456789".into())
                .await
                .unwrap();
            store.finish_output_for(&hold, &id, 1).await.unwrap();
            ids.push(id);
        }
    }
    let keep = |max_total_bytes: u64| OutputRetention {
        max_total_bytes,
        before: Timestamp(0),
    };
    assert_eq!(store.sweep_outputs(keep(80)).await.unwrap(), 0);
    assert_eq!(store.sweep_outputs(keep(45)).await.unwrap(), 4);
    let mut left = Vec::new();
    for id in &ids {
        left.push(store.look(id).await.unwrap().is_some());
    }
    assert_eq!(left, [true, true, false, false, false, false, true, true]);
    // Of equals the oldest go.
    assert_eq!(store.sweep_outputs(keep(20)).await.unwrap(), 2);
    for (id, stays) in [(&ids[0], false), (&ids[1], true), (&ids[6], false), (&ids[7], true)] {
        assert_eq!(store.look(id).await.unwrap().is_some(), stays, "{id}");
    }
    scene.store.close().await.unwrap();
}
