//! Which run has which workspace, and for how long.

use std::time::{Duration, Instant};

use toolgate_model::{InstanceId, Timestamp};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::ledger::{Bound, Hold, Ledger as _};
use toolgate_store::{Created, StoreError, Upkeep as _};

use crate::fixture::{database, make_template, server};
use crate::leases::until;
use crate::server::Server;
use crate::store::{grow, record};

/// Whose the runs are.
pub(crate) const PRINCIPAL: &str = "token:worker";

const LEASE: Duration = Duration::from_secs(30);

/// A store that others write through.
pub(crate) struct Scene {
    pub(crate) server: &'static Server,
    pub(crate) name: String,
    pub(crate) store: PostgresStore,
}

impl Scene {
    pub(crate) async fn new(lease: Duration) -> Self {
        let server = server().await;
        let name = database(server).await;
        let store = open(server, &name, lease).await;
        Self { server, name, store }
    }

    /// Has a run take a workspace.
    pub(crate) async fn bound(&self, run: &InstanceId, workspace: &str) -> Hold {
        bound(&self.store, run, workspace).await
    }

    /// As if a run had been dead for long.
    pub(crate) async fn kill(&self, run: &InstanceId) {
        let sql = format!("DELETE FROM instances WHERE id = '{run}'");
        self.server.run(&self.name, &sql).await;
    }
}

pub(crate) async fn open(server: &Server, name: &str, lease: Duration) -> PostgresStore {
    let options = PostgresOptions {
        lease,
        // The calls of tests are of 1970.
        clock_difference: Duration::MAX,
        ..PostgresOptions::new(server.address(name))
    };
    PostgresStore::open(options, InstanceId::generate()).await.unwrap()
}

pub(crate) async fn bound(store: &PostgresStore, run: &InstanceId, workspace: &str) -> Hold {
    match store
        .bind(run, PRINCIPAL, "host:1", &[workspace.to_owned()])
        .await
        .unwrap()
    {
        Bound::Now(holds) => holds.into_iter().next().unwrap(),
        Bound::Held { by, .. } => panic!("{by} has it"),
    }
}

/// Stores a call of a run.
pub(crate) async fn created(store: &PostgresStore, hold: &Hold, id: &str) -> toolgate_model::CallRecord {
    let mut call = record(id, &hold.run);
    call.origin.workspace.clone_from(&hold.workspace);
    call.created = Timestamp::now();
    let events = grow(&mut call, 1);
    let new = store.create_call_for(hold, call.clone(), events, false).await.unwrap();
    assert_eq!(new, Created::New);
    call
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_gets_all_or_none() {
    let scene = Scene::new(LEASE).await;
    let (store, first, second) = (&scene.store, InstanceId::generate(), InstanceId::generate());
    let hold = |workspace: &str, run: &InstanceId, epoch| Hold {
        workspace: workspace.to_owned(),
        run: run.clone(),
        principal: PRINCIPAL.to_owned(),
        epoch,
    };
    let got = store.bind(&first, PRINCIPAL, "a:1", &names(&["b", "a"])).await.unwrap();
    assert_eq!(got, Bound::Now(vec![hold("b", &first, 1), hold("a", &first, 1)]));
    // Said again, and with more.
    let got = store
        .bind(&first, PRINCIPAL, "a\u{0}:2", &names(&["a", "c"]))
        .await
        .unwrap();
    assert_eq!(got, Bound::Now(vec![hold("a", &first, 1), hold("c", &first, 1)]));
    let held = store
        .bind(&second, PRINCIPAL, "b:1", &names(&["d", "b"]))
        .await
        .unwrap();
    let Bound::Held { workspace, by, retry } = held else {
        panic!("{held:?}");
    };
    assert_eq!((workspace.as_str(), &by), ("b", &first));
    assert!(retry > LEASE / 2 && retry <= LEASE, "{retry:?}");
    let got = store.bind(&second, PRINCIPAL, "b:1", &names(&["d"])).await.unwrap();
    assert_eq!(got, Bound::Now(vec![hold("d", &second, 1)]));
    // What is given up, or was of one that is dead, is free.
    store.release(&first).await.unwrap();
    let got = store
        .bind(&second, PRINCIPAL, "b:1", &names(&["d", "b"]))
        .await
        .unwrap();
    assert_eq!(got, Bound::Now(vec![hold("d", &second, 1), hold("b", &second, 2)]));
    scene.kill(&second).await;
    let got = store.bind(&first, PRINCIPAL, "a:1", &names(&["b", "a"])).await.unwrap();
    assert_eq!(got, Bound::Now(vec![hold("b", &first, 3), hold("a", &first, 2)]));
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_want_a_workspace_one_gets_it() {
    let scene = Scene::new(LEASE).await;
    let stores = std::sync::Arc::new(scene.store);
    let mut wanting = tokio::task::JoinSet::new();
    for number in 0..8 {
        let store = std::sync::Arc::clone(&stores);
        wanting.spawn(async move {
            let order = if number % 2 == 0 {
                ["a", "b", "c"]
            } else {
                ["c", "b", "a"]
            };
            store
                .bind(&InstanceId::generate(), PRINCIPAL, "", &names(&order))
                .await
                .unwrap()
        });
    }
    let got = wanting.join_all().await;
    assert_eq!(
        got.iter().filter(|got| matches!(got, Bound::Now(_))).count(),
        1,
        "{got:?}"
    );
    stores.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_a_workspace_over_waits_for_those_that_write() {
    let scene = Scene::new(LEASE).await;
    let (store, first, second) = (&scene.store, InstanceId::generate(), InstanceId::generate());
    let hold = scene.bound(&first, "main").await;
    scene.kill(&first).await;
    // A change of the first run that has begun and is not done.
    let mut client = scene.server.connect(&scene.name).await.unwrap();
    let writing = client.transaction().await.unwrap();
    let lock = "SELECT FROM workspaces WHERE id = 'main' FOR SHARE";
    writing.batch_execute(lock).await.unwrap();
    let main = names(&["main"]);
    let taking = store.bind(&second, PRINCIPAL, "", &main);
    tokio::pin!(taking);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), &mut taking)
            .await
            .is_err()
    );
    writing.commit().await.unwrap();
    assert!(matches!(taking.await.unwrap(), Bound::Now(holds) if holds[0].epoch == 2));

    // And a change that begins meanwhile waits for the take-over, and is not done.
    let taking = client.transaction().await.unwrap();
    let take = "UPDATE workspaces SET epoch = 3 WHERE id = 'main'";
    taking.batch_execute(take).await.unwrap();
    let hold = Hold {
        run: second.clone(),
        epoch: 2,
        ..hold
    };
    let mut call = record("late", &second);
    let events = grow(&mut call, 1);
    let writing = store.create_call_for(&hold, call, events, false);
    tokio::pin!(writing);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), &mut writing)
            .await
            .is_err()
    );
    taking.commit().await.unwrap();
    let refused = writing.await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    let late = toolgate_store::CallLog::get(store, &"late".into()).await.unwrap();
    assert_eq!(late, None);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_at_once_and_only_of_those_that_have_something() {
    let scene = Scene::new(Duration::from_secs(3)).await;
    let (store, stranger) = (&scene.store, InstanceId::generate());
    let runs: Vec<InstanceId> = (0..20).map(|_| InstanceId::generate()).collect();
    for (number, run) in runs.iter().enumerate() {
        scene.bound(run, &format!("w{number}")).await;
    }
    let begun = Instant::now();
    let with_stranger: Vec<InstanceId> = runs.iter().chain([&stranger]).cloned().collect();
    while begun.elapsed() < Duration::from_secs(4) {
        assert_eq!(
            store.renew_leases(&with_stranger).await.unwrap(),
            std::slice::from_ref(&stranger)
        );
        assert_eq!(store.reap().await.unwrap(), []);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let held = store.bind(&stranger, PRINCIPAL, "", &names(&["w7"])).await.unwrap();
    assert!(matches!(&held, Bound::Held { by, .. } if *by == runs[7]), "{held:?}");
    // Nobody renews any more: they lose what they have.
    let client = scene.server.connect(&scene.name).await.unwrap();
    until("all are dead", async || {
        store.reap().await.unwrap();
        let sql = "SELECT FROM workspaces WHERE owner IS NOT NULL";
        client.query_typed(sql, &[]).await.unwrap().is_empty()
    })
    .await;
    assert_eq!(store.renew_leases(&runs).await.unwrap(), runs);
    let got = scene.bound(&stranger, "w7").await;
    assert_eq!(got.epoch, 3, "one more for the end of the dead run");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_workspaces_are_taken_from_the_dead_but_for_what_somebody_writes() {
    let scene = Scene::new(LEASE).await;
    let run = InstanceId::generate();
    let workspaces: Vec<String> = (0..600).map(|number| format!("w{number}")).collect();
    let bound = scene.store.bind(&run, PRINCIPAL, "", &workspaces).await.unwrap();
    let Bound::Now(holds) = bound else {
        panic!("{bound:?}");
    };
    let call = created(&scene.store, &holds[0], "c").await;
    let mut client = scene.server.connect(&scene.name).await.unwrap();
    let writing = client.transaction().await.unwrap();
    let sql = "SELECT FROM workspaces WHERE id LIKE 'w5_' FOR SHARE";
    let written = writing.query_typed(sql, &[]).await.unwrap().len();
    assert_eq!(written, 10);
    scene.kill(&run).await;
    let other = scene.server.connect(&scene.name).await.unwrap();
    let held = async || {
        let sql = "SELECT FROM workspaces WHERE owner IS NOT NULL OR is_left";
        other.query_typed(sql, &[]).await.unwrap().len()
    };
    let reaping = scene.store.reap();
    let watching = async {
        until("the others are taken", async || held().await == written).await;
        writing.rollback().await.unwrap();
    };
    let (ended, ()) = tokio::join!(reaping, watching);
    assert_eq!(
        ended.unwrap().into_iter().map(|lost| lost.id).collect::<Vec<_>>(),
        [call.id]
    );
    assert_eq!(held().await, 0);
    assert_eq!(scene.store.expired(), 600);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_doubted_is_dead_unless_it_renews() {
    let scene = Scene::new(LEASE).await;
    let other = open(scene.server, &scene.name, LEASE).await;
    let (store, renewing, silent) = (&scene.store, InstanceId::generate(), InstanceId::generate());
    scene.bound(&renewing, "renewing").await;
    let hold = scene.bound(&silent, "silent").await;
    let call = created(store, &hold, "c").await;
    // Both processes have looked since the database is there; the other one is served by nobody.
    assert_eq!(other.reap().await.unwrap(), []);
    store.doubt(&renewing, PRINCIPAL).await.unwrap();
    store.doubt(&silent, PRINCIPAL).await.unwrap();
    let begun = Instant::now();
    let held = other.bind(&renewing, PRINCIPAL, "", &names(&["silent"])).await.unwrap();
    assert!(matches!(held, Bound::Held { retry, .. } if retry <= Duration::from_secs(1)));
    assert_eq!(store.renew_leases(std::slice::from_ref(&renewing)).await.unwrap(), []);
    let mut lost = Vec::new();
    until("the silent one is dead", async || {
        lost = other.reap().await.unwrap();
        !lost.is_empty()
    })
    .await;
    assert!(begun.elapsed() < LEASE / 4, "{:?}", begun.elapsed());
    assert_eq!(lost[0].id, call.id);
    let held = other.bind(&silent, PRINCIPAL, "", &names(&["renewing"])).await.unwrap();
    assert!(matches!(held, Bound::Held { .. }), "a renewal clears the doubt");
    assert_eq!(
        store.renew_leases(std::slice::from_ref(&silent)).await.unwrap(),
        [silent]
    );
    other.close().await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_new_waits_for_a_lease_before_it_believes_a_doubt() {
    let lease = Duration::from_secs(3);
    let scene = Scene::new(lease).await;
    let run = InstanceId::generate();
    let hold = scene.bound(&run, "main").await;
    created(&scene.store, &hold, "c").await;
    scene.store.doubt(&run, PRINCIPAL).await.unwrap();
    scene.store.close().await.unwrap();
    // As after an outage: the doubt was there before this one had the database.
    let begun = Instant::now();
    let newcomer = open(scene.server, &scene.name, lease).await;
    until("it is dead", async || !newcomer.reap().await.unwrap().is_empty()).await;
    let took = begun.elapsed();
    assert!(took >= lease && took < 4 * lease, "{took:?}");
    newcomer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_dead_because_the_database_was_away() {
    let lease = Duration::from_secs(3);
    let server = Server::start(false).await;
    make_template(&server).await;
    let name = database(&server).await;
    let (doubted, silent) = (InstanceId::generate(), InstanceId::generate());
    let store = open(&server, &name, lease).await;
    let holds = [
        bound(&store, &doubted, "doubted").await,
        bound(&store, &silent, "silent").await,
    ];
    for hold in &holds {
        created(&store, hold, &hold.workspace).await;
    }
    assert_eq!(store.reap().await.unwrap(), []);
    store.doubt(&doubted, PRINCIPAL).await.unwrap();
    server.crash();
    until("it is noticed", async || {
        matches!(store.reap().await, Err(StoreError::Unavailable(_)))
    })
    .await;
    tokio::time::sleep(lease).await;
    let (begun, mut lost) = (Instant::now(), Vec::new());
    server.resume().await;
    // The silent one comes back with the database, the doubted one does not.
    until("what is doubted is dead", async || {
        if let Ok(gone) = store.renew_leases(std::slice::from_ref(&silent)).await {
            assert_eq!(gone, []);
        }
        lost = store.reap().await.unwrap_or_default();
        !lost.is_empty()
    })
    .await;
    assert!(
        begun.elapsed() > lease - Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        lost.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(),
        ["doubted"]
    );
    store.close().await.unwrap();
}
