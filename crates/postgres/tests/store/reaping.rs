//! The end of what dead runs without a database left.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use toolgate_model::{
    CallEvent, CallRecord, CallState, EndReason, EventKind, InstanceId, Outcome, OutputId, Prompt, PromptId,
    PromptOutcome, PromptState, Timestamp,
};
use toolgate_postgres::PostgresStore;
use toolgate_store::ledger::{Hold, Ledger as _};
use toolgate_store::{
    Audit as _, CallLog as _, Journal as _, OutputOwner, Outputs as _, Prompts as _, StoreError, Upkeep as _, lost,
};

use crate::holding::{Scene, bound, created, open};
use crate::leases::until;
use crate::store::{create, grow, prompt, record};

const LEASE: Duration = Duration::from_secs(30);

/// Has a call of a run wait for a prompt, which is opened.
pub(crate) async fn waiting(store: &PostgresStore, hold: &Hold, id: &str, by_call: bool) -> CallRecord {
    let mut call = created(store, hold, id).await;
    (call.state, call.made_by_call) = (CallState::Waiting, by_call);
    let name = format!("p-{id}");
    call.waiting_on = Some(PromptId::from(name.as_str()));
    let events = grow(&mut call, 1);
    store.append_for(hold, call.clone(), events, false).await.unwrap();
    let prompt = Prompt {
        workspace: hold.workspace.clone(),
        ..prompt(&name, id, &hold.run)
    };
    store.open_for(hold, prompt, None, None, false).await.unwrap();
    call
}

/// How often each kind of record is in the audit, and each event in the journal.
pub(crate) async fn told(store: &PostgresStore, kind: &str) -> usize {
    let kind = format!(r#""kind":"{kind}""#);
    let lines = store.audit_lines(1, usize::MAX).await.unwrap();
    lines.iter().filter(|line| line.json.contains(&kind)).count()
}

async fn ends(store: &PostgresStore, call: &CallRecord) -> usize {
    let log = store.events(&call.id, 0, 100_000).await.unwrap();
    let numbers: Vec<u64> = log.iter().map(|event| event.sequence).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    log.iter()
        .filter(|event| matches!(event.kind, EventKind::Ended(_)))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_is_lost_and_what_waits_goes_on() {
    let scene = Scene::new(LEASE).await;
    let (store, dead, living) = (&scene.store, InstanceId::generate(), InstanceId::generate());
    let (hold, elsewhere) = (scene.bound(&dead, "main").await, scene.bound(&living, "other").await);
    let pending = created(store, &hold, "pending").await;
    let waits = waiting(store, &hold, "waits", false).await;
    let of_call = waiting(store, &hold, "of-call", true).await;
    let mut runs = created(store, &hold, "runs").await;
    runs.state = CallState::Running;
    let events = grow(&mut runs, 1);
    store.append_for(&hold, runs.clone(), events, false).await.unwrap();
    created(store, &elsewhere, "elsewhere").await;
    // One of a run with a database, in a workspace of the same name.
    let own = create(store, record("own", &InstanceId::from("own"))).await;
    let own_row =
        "INSERT INTO instances (id, lease_until, noted) VALUES ('own', clock_timestamp() + interval '1 hour', 0)";
    scene.server.run(&scene.name, own_row).await;
    let id = OutputId::from("tool_0123456789abABCDEFGHIJKLMN");
    store
        .begin_output_for(&hold, &id, OutputOwner::from(&runs), runs.created)
        .await
        .unwrap();

    // Its log tells of more than it has stored.
    store
        .append_output_for(&hold, &id, 0, "x".repeat(40).into())
        .await
        .unwrap();
    runs.last_sequence += 1;
    let event = CallEvent {
        sequence: runs.last_sequence,
        time: Timestamp::now(),
        kind: EventKind::Output {
            output: id.clone(),
            offset: 0,
            length: 100,
        },
    };
    store.append_for(&hold, runs.clone(), vec![event], false).await.unwrap();

    assert_eq!(store.reap().await.unwrap(), [], "all live");
    assert!(!store.look(&id).await.unwrap().unwrap().cut);
    scene.kill(&dead).await;
    let orphans = store.adopt_orphans(&InstanceId::generate()).await.unwrap();
    assert_eq!(orphans, [], "they are for the next one that holds the workspace");
    let mut ended = store.reap().await.unwrap();
    ended.sort_by_key(|call| call.id.as_str().to_owned());
    let ids: Vec<&str> = ended.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["of-call", "pending", "runs"]);
    for call in [&pending, &of_call, &runs] {
        let stored = store.get(&call.id).await.unwrap().unwrap();
        assert!(ended.contains(&stored), "as it was returned");
        assert!(matches!(
            stored.ending.map(|ending| ending.outcome),
            Some(Outcome::Failed {
                reason: EndReason::Lost,
                ..
            })
        ));
        assert_eq!(ends(store, call).await, 1);
    }
    assert_eq!(store.get(&own.id).await.unwrap().unwrap(), own);
    assert_eq!(store.get(&waits.id).await.unwrap().unwrap(), waits);
    let withdrawn = store.prompt(&"p-of-call".into()).await.unwrap().unwrap();
    assert_eq!(withdrawn.state, PromptState::Withdrawn);
    assert_eq!(
        withdrawn.decision.map(|decision| decision.outcome),
        Some(PromptOutcome::Withdrawn(lost::WITHDRAWN.to_owned()))
    );
    assert_eq!((told(store, "ended").await, told(store, "decided").await), (3, 1));
    let journal = store.since(0, 1_000).await.unwrap();
    let resolved = |event: &toolgate_model::ServiceEvent| {
        matches!(event.kind, toolgate_model::ServiceEventKind::PromptResolved { .. })
    };
    assert_eq!(journal.iter().filter(|(_, event)| resolved(event)).count(), 1);
    let lost = |call: &CallRecord| {
        let ended = ended.iter().find(|one| one.id == call.id);
        ended.and_then(|one| one.ending.clone()).unwrap()
    };
    assert_eq!(lost(&runs).metadata["lost_output_bytes"], 60);
    assert!(format!("{:?}", lost(&runs)).contains("the last 60 bytes or more are lost"));
    assert!(!lost(&pending).metadata.contains_key("lost_output_bytes"));
    // Nothing is added to it, and it is not all.
    for _ in 0..2 {
        let info = store.look(&id).await.unwrap().unwrap();
        assert_eq!((info.bytes, info.complete, info.cut), (40, true, true));
        let info = store.stat(&id).await.unwrap().unwrap();
        assert_eq!((info.sha256.len(), info.complete, info.cut), (64, true, true));
    }
    assert_eq!(store.reap().await.unwrap(), [], "once");

    // The dead one is told, should it come back; the next one goes on with what waits.
    let refused = store.append_for(&hold, runs, Vec::new(), false).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    let next = scene.bound(&InstanceId::generate(), "main").await;
    assert_eq!(next.epoch, hold.epoch + 2);
    for _ in 0..2 {
        let adopted = store.adopt_for(&next).await.unwrap();
        assert_eq!(
            adopted.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(),
            ["waits", "own"]
        );
        assert!(adopted.iter().all(|call| call.owner == next.run));
    }
    let open = store.prompt(&"p-waits".into()).await.unwrap().unwrap();
    assert_eq!((open.state, open.owner), (PromptState::Open, next.run));
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_reap_end_each_call_once() {
    const CALLS: usize = 150;
    let scene = Scene::new(LEASE).await;
    let (dead, other) = (InstanceId::generate(), open(scene.server, &scene.name, LEASE).await);
    let mut calls = Vec::new();
    for workspace in ["a", "b"] {
        let hold = scene.bound(&dead, workspace).await;
        for number in 0..CALLS / 2 {
            let id = format!("{workspace}{number}");
            calls.push(match number % 3 {
                0 => waiting(&scene.store, &hold, &id, true).await,
                _ => created(&scene.store, &hold, &id).await,
            });
        }
    }
    scene.kill(&dead).await;
    let stores = [Arc::new(scene.store), Arc::new(other)];
    let mut reaping = JoinSet::new();
    for number in 0..8 {
        let store = Arc::clone(&stores[number % 2]);
        reaping.spawn(async move { store.reap().await.unwrap() });
    }
    let mut ended: Vec<String> = reaping
        .join_all()
        .await
        .into_iter()
        .flatten()
        .map(|call| call.id.as_str().to_owned())
        .collect();
    ended.sort();
    let mut expected: Vec<String> = calls.iter().map(|call| call.id.as_str().to_owned()).collect();
    expected.sort();
    assert_eq!(ended, expected);
    for call in &calls {
        assert_eq!(ends(&stores[0], call).await, 1);
    }
    assert_eq!(told(&stores[0], "ended").await, calls.len());
    assert_eq!(told(&stores[0], "decided").await, 2 * (CALLS / 2).div_ceil(3));
    for store in stores {
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_stops_half_way_is_gone_on_with() {
    let scene = Scene::new(LEASE).await;
    let (store, dead) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&dead, "main").await;
    for number in 0..100 {
        created(store, &hold, &number.to_string()).await;
    }
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                      IF new.id = '90' THEN
                          RAISE EXCEPTION 'not now';
                      END IF;
                      RETURN new;
                  END $$;
                  CREATE TRIGGER refuse BEFORE UPDATE ON calls FOR EACH ROW EXECUTE FUNCTION refuse()";
    scene.server.run(&scene.name, refuse).await;
    scene.kill(&dead).await;
    assert_eq!(store.reap().await.unwrap().len(), 64, "the first batch");
    assert!(store.reap().await.is_err());
    scene.server.run(&scene.name, "DROP TRIGGER refuse ON calls").await;
    let other = open(scene.server, &scene.name, LEASE).await;
    let rest = other.reap().await.unwrap();
    assert_eq!(rest.len(), 36, "all but the first batch");
    assert_eq!(told(store, "ended").await, 100);
    other.close().await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_gave_up_is_ended_too_and_of_one_that_lives_elsewhere() {
    let scene = Scene::new(LEASE).await;
    let (store, gone, back) = (&scene.store, InstanceId::generate(), InstanceId::generate());
    let hold = scene.bound(&gone, "given-up").await;
    created(store, &hold, "given-up").await;
    store.release(&gone).await.unwrap();
    // One that was found dead in the one workspace by another run, which died before it took the calls, and lives in the other.
    let lived = bound(store, &back, "taken").await;
    bound(store, &back, "kept").await;
    created(store, &lived, "taken").await;
    let taken = "UPDATE workspaces SET owner = 'dead', epoch = epoch + 1 WHERE id = 'taken'";
    scene.server.run(&scene.name, taken).await;
    assert_eq!(store.renew_leases(std::slice::from_ref(&back)).await.unwrap(), []);
    let ended = store.reap().await.unwrap();
    let ids: Vec<&str> = ended.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["given-up", "taken"]);
    assert_eq!(store.reap().await.unwrap(), []);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_silent_is_lost_a_lease_later_and_forgotten_though_something_waits() {
    let lease = Duration::from_secs(2);
    let scene = Scene::new(lease).await;
    let (store, silent) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&silent, "main").await;
    created(store, &hold, "runs").await;
    let waits = waiting(store, &hold, "waits", false).await;
    store.renew_leases(std::slice::from_ref(&silent)).await.unwrap();
    let begun = std::time::Instant::now();
    let mut ended = Vec::new();
    until("it is lost", async || {
        ended = store.reap().await.unwrap();
        !ended.is_empty()
    })
    .await;
    assert!(
        begun.elapsed() > lease - Duration::from_millis(100),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(ended.len(), 1);
    let rows = async || {
        let client = scene.server.connect(&scene.name).await.unwrap();
        let sql = "SELECT FROM instances WHERE forgotten IS NULL";
        client.query_typed(sql, &[]).await.unwrap().len()
    };
    until("it is forgotten", async || rows().await == 1).await;
    assert_eq!(store.get(&waits.id).await.unwrap().unwrap(), waits);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_all_the_time_loses_its_workspace_all_the_same() {
    let scene = Scene::new(LEASE).await;
    let (store, dead) = (Arc::new(scene.store), InstanceId::generate());
    let hold = bound(&store, &dead, "main").await;
    let mut writing = JoinSet::new();
    for number in 0..12 {
        let (store, hold) = (Arc::clone(&store), hold.clone());
        writing.spawn(async move {
            let mut call = created(&store, &hold, &number.to_string()).await;
            loop {
                let events = grow(&mut call, 1);
                match store.append_for(&hold, call.clone(), events, false).await {
                    Ok(()) => {}
                    Err(StoreError::Fenced(_)) => return,
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    until("all write", async || told(&store, "admitted").await == 12).await;
    scene
        .server
        .run(&scene.name, &format!("DELETE FROM instances WHERE id = '{dead}'"))
        .await;
    assert_eq!(store.reap().await.unwrap().len(), 12);
    writing.join_all().await;
    for number in 0..12 {
        let call = store.get(&number.to_string().as_str().into()).await.unwrap().unwrap();
        assert_eq!(ends(&store, &call).await, 1);
    }
    store.close().await.unwrap();
}
