//! A database that does not answer, or not any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use toolgate_model::{CallId, InstanceId};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::{Audit as _, CallFilter, CallLog as _, PageRequest, StoreError, Upkeep as _};

use crate::fixture::{database, make_template, server};
use crate::server::Server;
use crate::store::{create, grow, record};

const LIMIT: Duration = Duration::from_secs(1);

fn options(server: &Server, database: &str) -> PostgresOptions {
    PostgresOptions {
        time_limit: LIMIT,
        ..PostgresOptions::new(server.address(database))
    }
}

async fn refuses(store: &PostgresStore, id: &str, instance: &InstanceId) {
    let mut call = record(id, instance);
    let events = grow(&mut call, 1);
    let begun = Instant::now();
    let refused = store.create_call(call, events).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(begun.elapsed() < 3 * LIMIT, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_lock_is_told_in_time() {
    let server = server().await;
    let name = database(server).await;
    let instance = InstanceId::generate();
    let store = PostgresStore::open(options(server, &name), instance.clone())
        .await
        .unwrap();
    let mut other = server.connect(&name).await.unwrap();
    let held = other.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE call_days").await.unwrap();
    for number in 0..20 {
        let id = format!("{number}");
        if number == 0 {
            refuses(&store, &id, &instance).await;
        } else {
            let _ = tokio::time::timeout(Duration::from_millis(10), store.get(&CallId::from(id.as_str()))).await;
        }
    }
    held.rollback().await.unwrap();
    // Neither those that were told nor those that went away have left a connection behind that does not work.
    for number in 100..140 {
        create(&store, record(&number.to_string(), &instance)).await;
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_wait_are_told_in_time() {
    let server = server().await;
    let name = database(server).await;
    let instance = InstanceId::generate();
    let store = Arc::new(
        PostgresStore::open(options(server, &name), instance.clone())
            .await
            .unwrap(),
    );
    let mut other = server.connect(&name).await.unwrap();
    let held = other.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE instances, outbox").await.unwrap();
    // What nobody waits for must be stored first, so they all wait for one another, too.
    store.audit(Fact::new(Kind::Allowed));
    let begun = Instant::now();
    let mut waiting = JoinSet::new();
    for number in 0..40 {
        let (store, mut call) = (Arc::clone(&store), record(&number.to_string(), &instance));
        waiting.spawn(async move {
            match number % 2 {
                0 => store.audit_end().await.is_err(),
                _ => {
                    let events = grow(&mut call, 1);
                    store.create_call(call, events).await.is_err()
                }
            }
        });
    }
    assert!(waiting.join_all().await.into_iter().all(|is_told| is_told));
    assert!(begun.elapsed() < 6 * LIMIT, "{:?}", begun.elapsed());
    held.rollback().await.unwrap();
    create(&*store, record("after", &instance)).await;
    let allowed = store.audit_lines(1, 100).await.unwrap();
    let allowed = allowed.iter().filter(|line| line.json.contains(r#""kind":"allowed""#));
    assert_eq!(allowed.count(), 1, "the note is there once");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_after_nobody_waits_is_not_stored_again() {
    let server = server().await;
    let name = database(server).await;
    let instance = InstanceId::generate();
    let store = PostgresStore::open(options(server, &name), instance.clone())
        .await
        .unwrap();
    // The commits of the first two portions take longer than anybody waits.
    let slow = "CREATE SEQUENCE commits;
                CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('commits') <= 2 THEN
                        PERFORM pg_sleep(1.6);
                    END IF;
                    RETURN NULL;
                END $$;
                CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON outbox DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION slow()";
    server.run(&name, slow).await;
    let begun = Instant::now();
    let mut count = 0;
    // More notes come all the time, so that no portion is like the one before.
    while begun.elapsed() < 6 * LIMIT {
        store.audit(Fact {
            reason: count.to_string(),
            ..Fact::new(Kind::Allowed)
        });
        count += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    create(&store, record("after", &instance)).await;
    let lines = store.audit_lines(1, usize::MAX).await.unwrap();
    let records = lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.json).unwrap());
    let reasons: Vec<String> = records
        .filter(|record| record["kind"] == "allowed")
        .map(|record| record["reason"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    assert_eq!(reasons, expected);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_finds_nobody_is_told_in_time() {
    let server = Server::start(false).await;
    make_template(&server).await;
    let name = database(&server).await;
    let instance = InstanceId::generate();
    let store = PostgresStore::open(options(&server, &name), instance.clone())
        .await
        .unwrap();
    create(&store, record("before", &instance)).await;
    server.crash();
    refuses(&store, "away", &instance).await;
    let begun = Instant::now();
    assert!(store.check().await.is_err());
    assert!(store.audit_end().await.is_err());
    let page = PageRequest { size: 1, after: None };
    assert!(store.list_calls(&CallFilter::default(), &page).await.is_err());
    assert!(begun.elapsed() < 6 * LIMIT, "{:?}", begun.elapsed());
    server.resume().await;
    create(&store, record("after", &instance)).await;
    assert!(store.get(&CallId::from("before")).await.unwrap().is_some());
    server.crash();
    let begun = Instant::now();
    assert!(store.close().await.is_err(), "its end is not stored");
    assert!(begun.elapsed() < 6 * LIMIT, "{:?}", begun.elapsed());
}
