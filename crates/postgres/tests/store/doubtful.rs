//! What is doubtful is decided once: who lives, what is stored, and what cannot be read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;
use toolgate_model::{FileChange, InstanceId, OutputId, ServiceEvent, ServiceEventKind, SessionId, SessionKey};
use toolgate_store::ledger::{Bound, Hold, Ledger as _, Note};
use toolgate_store::{Changes as _, OutputOwner, Outputs as _, StoreError, Upkeep as _};

use crate::holding::{PRINCIPAL, Scene, created, open};
use crate::leases::until;

const LEASE: Duration = Duration::from_secs(30);

fn names(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// Returns how long the lease of a run still lasts, in milliseconds.
async fn left(scene: &Scene, run: &InstanceId) -> i64 {
    let client = scene.server.connect(&scene.name).await.unwrap();
    let sql = format!(
        "SELECT (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint FROM instances WHERE id = '{run}'"
    );
    client.query_typed(&sql, &[]).await.unwrap()[0].get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_renewed_since_it_was_heard_is_not_doubted() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    scene.bound(&run, "main").await;
    store
        .doubt_after(&run, PRINCIPAL, Duration::from_secs(20))
        .await
        .unwrap();
    assert!(left(&scene, &run).await > 20_000, "it has renewed a moment ago");
    tokio::time::sleep(Duration::from_millis(300)).await;
    store
        .doubt_after(&run, PRINCIPAL, Duration::from_millis(50))
        .await
        .unwrap();
    assert!(left(&scene, &run).await <= 1_000);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_says_what_does_not_hold() {
    let scene = Scene::new(LEASE).await;
    let (store, run, other) = (&scene.store, InstanceId::generate(), InstanceId::generate());
    let holds = [scene.bound(&run, "a").await, scene.bound(&run, "b").await];
    let of_other = scene.bound(&other, "c").await;
    let late = Hold {
        epoch: 7,
        ..holds[0].clone()
    };
    let of_nobody = Hold {
        workspace: "nowhere".to_owned(),
        ..of_other.clone()
    };
    for run in [&run, &other] {
        store.doubt(run, PRINCIPAL).await.unwrap();
    }
    let asked = [
        holds[0].clone(),
        late.clone(),
        holds[1].clone(),
        of_nobody.clone(),
        of_other.clone(),
    ];
    assert_eq!(store.renew_holds(&asked).await.unwrap(), [late.clone(), of_nobody]);
    for run in [&run, &other] {
        assert!(left(&scene, run).await > 20_000);
    }
    // Who has none of what it names is not renewed.
    store.doubt(&run, PRINCIPAL).await.unwrap();
    assert_eq!(store.renew_holds(std::slice::from_ref(&late)).await.unwrap(), [late]);
    assert!(left(&scene, &run).await <= 1_000);

    let asked = ["a", "c", "nowhere"].map(str::to_owned);
    let holders = store.holders(&asked).await.unwrap();
    assert_eq!(holders, [("a".to_owned(), run), ("c".to_owned(), other)].into());
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_silent_is_dead_though_the_clock_of_the_database_was_put_back() {
    let lease = Duration::from_secs(3);
    let scene = Scene::new(lease).await;
    let (store, silent, living) = (&scene.store, InstanceId::generate(), InstanceId::generate());
    let hold = scene.bound(&silent, "silent").await;
    let call = created(store, &hold, "c").await;
    let kept = scene.bound(&living, "living").await;
    // As the leases from before are when the clock is an hour behind them.
    let step = "UPDATE instances SET lease_until = lease_until + interval '1 hour'";
    let (begun, mut lost) = (Instant::now(), Vec::new());
    scene.server.run(&scene.name, step).await;
    let renew = async || assert_eq!(store.renew_holds(std::slice::from_ref(&kept)).await.unwrap(), []);
    until("the silent one is dead", async || {
        renew().await;
        lost = store.reap().await.unwrap();
        !lost.is_empty()
    })
    .await;
    assert!(begun.elapsed() >= 2 * lease, "{:?}", begun.elapsed());
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].id, call.id);
    let client = scene.server.connect(&scene.name).await.unwrap();
    until("it is forgotten", async || {
        renew().await;
        let sql = format!("SELECT FROM instances WHERE id = '{silent}' AND forgotten IS NOT NULL");
        !client.query_typed(&sql, &[]).await.unwrap().is_empty()
    })
    .await;
    renew().await;
    let held = store.bind(&silent, PRINCIPAL, "", &names("living")).await.unwrap();
    assert!(matches!(held, Bound::Held { .. }), "{held:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_keeps_nothing_else_from_ending() {
    let scene = Scene::new(LEASE).await;
    let (store, dead) = (&scene.store, InstanceId::generate());
    for workspace in ["a", "b"] {
        let hold = scene.bound(&dead, workspace).await;
        for number in 0..3 {
            created(store, &hold, &format!("{workspace}{number}")).await;
        }
    }
    let hold = scene.bound(&dead, "0").await;
    created(store, &hold, "refused").await;
    let spoil = "UPDATE calls SET record = '{}' WHERE id = 'a1';
                 CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF new.id = 'refused' THEN
                         RAISE EXCEPTION 'not now';
                     END IF;
                     RETURN new;
                 END $$;
                 CREATE TRIGGER refuse BEFORE UPDATE ON calls FOR EACH ROW EXECUTE FUNCTION refuse()";
    let client = scene.server.connect(&scene.name).await.unwrap();
    let record: String = client
        .query_typed("SELECT record FROM calls WHERE id = 'a1'", &[])
        .await
        .unwrap()[0]
        .get(0);
    scene.server.run(&scene.name, spoil).await;
    scene.kill(&dead).await;
    let ended = store.reap().await.unwrap();
    let ids: Vec<&str> = ended.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["a0", "a2", "b0", "b1", "b2"]);
    // What could not be ended is tried again, until it can.
    assert!(store.reap().await.is_err());
    let mend = format!("DROP TRIGGER refuse ON calls; UPDATE calls SET record = $r${record}$r$ WHERE id = 'a1'");
    scene.server.run(&scene.name, &mend).await;
    let ended = store.reap().await.unwrap();
    let ids: Vec<&str> = ended.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["refused", "a1"]);
    assert_eq!(store.reap().await.unwrap(), []);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_go_on_after_the_row_of_their_run_is_gone() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let session = SessionKey {
        workspace: "main".to_owned(),
        session: SessionId::from("ses_1"),
    };
    let note = || {
        vec![Note::Event(ServiceEvent::in_session(
            session.clone(),
            ServiceEventKind::SessionEnded,
        ))]
    };
    store.note_for(&hold, 1, note()).await.unwrap();
    scene.kill(&run).await;
    let hold = scene.bound(&run, "main").await;
    let refused = store.note_for(&hold, 2, note()).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    store.has_noted(&run, 1).await.unwrap();
    store.note_for(&hold, 2, note()).await.unwrap();
    store.has_noted(&run, 1).await.unwrap();
    store.note_for(&hold, 3, note()).await.unwrap();
    scene.store.close().await.unwrap();
}

fn change(name: &str) -> FileChange {
    FileChange {
        path: name.into(),
        shown: name.into(),
        before: None,
        after: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_are_said_again_are_there_once() {
    let scene = Scene::new(LEASE).await;
    let (run, other) = (InstanceId::generate(), open(scene.server, &scene.name, LEASE).await);
    let hold = scene.bound(&run, "main").await;
    let call = created(&scene.store, &hold, "c").await;
    let stores = [Arc::new(scene.store), Arc::new(other)];
    for round in 0..10 {
        let mut saying = JoinSet::new();
        for number in 0..6 {
            let (store, hold, id) = (Arc::clone(&stores[number % 2]), hold.clone(), call.id.clone());
            let changes = vec![change(&format!("{round}")), change("then")];
            saying.spawn(async move { store.record_changes_after(&hold, &id, 2 * round, changes).await });
        }
        for outcome in saying.join_all().await {
            outcome.unwrap();
        }
        assert_eq!(stores[0].changes(&call.id).await.unwrap().len() as u64, 2 * (round + 1));
    }
    let more = vec![change("9"), change("then"), change("new")];
    stores[1].record_changes_after(&hold, &call.id, 18, more).await.unwrap();
    let stored = stores[0].changes(&call.id).await.unwrap();
    assert_eq!((stored.len(), stored.last()), (21, Some(&change("new"))));
    let gap = stores[0]
        .record_changes_after(&hold, &call.id, 22, vec![change("x")])
        .await;
    assert!(matches!(gap, Err(StoreError::Conflict(_))), "{gap:?}");
    let late = Hold { epoch: 9, ..hold };
    let fenced = stores[0]
        .record_changes_after(&late, &call.id, 21, vec![change("x")])
        .await;
    assert!(matches!(fenced, Err(StoreError::Fenced(_))), "{fenced:?}");
    for store in stores {
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_piece_that_is_still_on_its_way_is_no_conflict() {
    let scene = Scene::new(LEASE).await;
    let (run, other) = (InstanceId::generate(), open(scene.server, &scene.name, LEASE).await);
    let hold = scene.bound(&run, "main").await;
    let call = created(&scene.store, &hold, "c").await;
    let id = OutputId::from("tool_0123456789abABCDEFGHIJKLMN");
    let owner = OutputOwner::from(&call);
    scene
        .store
        .begin_output_for(&hold, &id, owner, call.created)
        .await
        .unwrap();
    let stores = [Arc::new(scene.store), Arc::new(other)];
    let mut whole = Vec::new();
    for round in 0..15_u8 {
        let piece = Bytes::from(vec![b'a' + round; 10_000]);
        let mut saying = JoinSet::new();
        for number in 0..6 {
            let (store, hold, id) = (Arc::clone(&stores[number % 2]), hold.clone(), id.clone());
            let (piece, offset) = (piece.clone(), whole.len() as u64);
            saying.spawn(async move { store.append_output_for(&hold, &id, offset, piece).await });
        }
        for outcome in saying.join_all().await {
            outcome.unwrap();
        }
        whole.extend_from_slice(&piece);
    }
    assert!(stores[0].read(&id, 0, 1 << 20).await.unwrap() == whole);
    for store in stores {
        store.close().await.unwrap();
    }
}
