//! Gateways that stand still or go away in the middle of what they do.

use std::time::{Duration, Instant};

use toolgate_model::{CallId, InstanceId};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::{Audit as _, CallLog as _, Changes as _, Prompts as _, StoreError, Upkeep as _};

use crate::fixture::{database, server};
use crate::leases::until;
use crate::proxy::Proxy;
use crate::store::{create, grow, prompt, record};

const LIMIT: Duration = Duration::from_secs(1);

async fn open(address: String, lease: Duration) -> (PostgresStore, InstanceId) {
    let instance = InstanceId::generate();
    let options = PostgresOptions {
        time_limit: LIMIT,
        lease,
        ..PostgresOptions::new(address)
    };
    (PostgresStore::open(options, instance.clone()).await.unwrap(), instance)
}

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_any_more_is_not_done_later() {
    let server = server().await;
    let name = database(server).await;
    let (store, instance) = open(server.address(&name), LEASE).await;
    let mut other = server.connect(&name).await.unwrap();
    let held = other.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE call_days").await.unwrap();
    let mut call = record("c", &instance);
    let events = grow(&mut call, 1);
    assert!(store.create_call(call, events).await.is_err());
    let waiting = async || {
        let sql = "SELECT FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'";
        let values: &[(&(dyn tokio_postgres::types::ToSql + Sync), _)] = &[(&name, tokio_postgres::types::Type::TEXT)];
        let client = server.connect(&name).await.unwrap();
        client.query_typed(sql, values).await.unwrap().len()
    };
    until("nothing of it waits at the server", async || waiting().await == 0).await;
    held.rollback().await.unwrap();
    assert_eq!(store.get(&CallId::from("c")).await.unwrap(), None);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_stops_while_it_sequences_does_not_stop_all() {
    let server = server().await;
    let name = database(server).await;
    let proxy = Proxy::start(server);
    let (stopped, _) = open(proxy.address(&name), LEASE).await;
    let (living, _) = open(server.address(&name), LEASE).await;
    // It has the end of the chain, and is not heard of again.
    proxy.stop(&["FROM ends FOR UPDATE"]);
    stopped.audit(Fact::new(Kind::Allowed));
    until("it holds the end", async || proxy.has_lost()).await;
    let begun = Instant::now();
    until("what it told of is recorded", async || {
        living.audit_lines(2, 10).await.is_ok_and(|lines| lines.len() == 1)
    })
    .await;
    assert!(begun.elapsed() < 5 * LIMIT, "{:?}", begun.elapsed());
    living.close().await.unwrap();
    stopped.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_hangs_does_not_cost_the_lease() {
    let server = server().await;
    let name = database(server).await;
    let proxy = Proxy::start(server);
    let lease = Duration::from_secs(3);
    let instance = InstanceId::generate();
    let options = PostgresOptions {
        lease,
        ..PostgresOptions::new(proxy.address(&name))
    };
    let store = PostgresStore::open(options, instance).await.unwrap();
    proxy.stop(&["SET lease_until"]);
    until("a renewal hangs", async || proxy.has_lost()).await;
    let begun = Instant::now();
    let client = server.connect(&name).await.unwrap();
    while begun.elapsed() < 2 * lease {
        let sql = "SELECT lease_until > clock_timestamp() FROM instances";
        let rows = client.query_typed(sql, &[]).await.unwrap();
        assert!(rows[0].get::<_, bool>(0), "it counts as dead");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_are_there_once_though_their_run_was_forgotten_meanwhile() {
    let server = server().await;
    let name = database(server).await;
    let proxy = Proxy::start(server);
    let instance = InstanceId::generate();
    let options = PostgresOptions {
        time_limit: 5 * LIMIT,
        ..PostgresOptions::new(proxy.address(&name))
    };
    let store = PostgresStore::open(options, instance.clone()).await.unwrap();
    let (other, _) = open(server.address(&name), LIMIT).await;
    let note = |reason: &str| {
        store.audit(Fact {
            reason: reason.to_owned(),
            ..Fact::new(Kind::Allowed)
        });
    };
    note("before");
    store.audit_end().await.unwrap();
    proxy.hang(&["store_notes_1("]);
    note("lost");
    until("an answer is lost", async || proxy.has_lost()).await;
    let over = format!("UPDATE instances SET lease_until = clock_timestamp() - interval '1 s' WHERE id = '{instance}'");
    server.run(&name, &over).await;
    until("it is found dead", async || other.has_dead_runs()).await;
    other.forget_dead_runs().unwrap();
    let forgotten = async || {
        let client = server.connect(&name).await.unwrap();
        let sql = "SELECT FROM instances WHERE lease_until <= clock_timestamp() AND forgotten IS NULL";
        client.query_typed(sql, &[]).await.unwrap().is_empty()
    };
    until("it is forgotten", forgotten).await;
    note("after");
    until("all is recorded", async || {
        let lines = store.audit_lines(2, 10).await.unwrap_or_default();
        lines.iter().any(|line| line.json.contains(r#""reason":"after""#))
    })
    .await;
    assert_eq!(store.audit_lines(2, 10).await.unwrap().len(), 3, "each is there once");
    other.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_run_stays_known_until_its_calls_are_looked_after() {
    let server = server().await;
    let name = database(server).await;
    let (store, instance) = open(server.address(&name), LIMIT).await;
    let dead = InstanceId::from("dead");
    create(&store, record("c", &dead)).await;
    let row =
        "INSERT INTO instances (id, lease_until, noted) VALUES ('dead', clock_timestamp() - interval '1 hour', 0)";
    server.run(&name, row).await;
    until("it is found dead", async || store.has_dead_runs()).await;
    // As if it had died after the last one was looked for.
    store.forget_dead_runs().unwrap();
    until("it is dead as before", async || store.has_dead_runs()).await;
    let mut adopted = Vec::new();
    until("its call is looked after", async || {
        adopted = store.adopt_orphans(&instance).await.unwrap();
        !adopted.is_empty()
    })
    .await;
    assert_eq!(adopted.len(), 1);
    store.forget_dead_runs().unwrap();
    let client = server.connect(&name).await.unwrap();
    until("it is forgotten", async || {
        let sql = "SELECT FROM instances WHERE id = 'dead' AND forgotten IS NOT NULL";
        !client.query_typed(sql, &[]).await.unwrap().is_empty()
    })
    .await;
    until("nobody is dead", async || !store.has_dead_runs()).await;
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_lost_a_call_changes_nothing_of_it() {
    let server = server().await;
    let name = database(server).await;
    let ((late, old), (store, new)) = (
        open(server.address(&name), LEASE).await,
        open(server.address(&name), LEASE).await,
    );
    let call = create(&late, record("c", &old)).await;
    let over = format!("DELETE FROM instances WHERE id = '{old}'");
    server.run(&name, &over).await;
    assert_eq!(store.adopt_orphans(&new).await.unwrap().len(), 1);
    let refused = late.open(prompt("p", "c", &old), None, None).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    let refused = late.record_changes(&call.id, Vec::new()).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    store.open(prompt("p", "c", &new), None, None).await.unwrap();
    store.record_changes(&call.id, Vec::new()).await.unwrap();
    late.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_finds_what_was_told_however_much_there_is() {
    let server = server().await;
    let name = database(server).await;
    let (store, instance) = open(server.address(&name), LEASE).await;
    server
        .run(
            &name,
            "INSERT INTO outbox (entries) SELECT '[]' FROM generate_series(1, 30000)",
        )
        .await;
    create(&store, record("c", &instance)).await;
    assert_eq!(store.audit_lines(2, 10).await.unwrap().len(), 1);
    store.close().await.unwrap();
}
