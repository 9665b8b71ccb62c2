//! What goes goes once, and nothing goes that came meanwhile.

use std::time::Duration;

use serde_json::json;
use toolgate_model::{CallId, InstanceId, SessionId, SessionKey, Timestamp};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::{
    CallLog as _, OutputOwner, OutputRetention, Outputs as _, Prompts as _, SessionFacts as _, Upkeep as _,
};

use crate::fixture::{database, server};
use crate::leases::until;
use crate::store::{create, end, grow, prompt, record};

const DAY: i64 = 86_400_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_admitted_while_its_day_goes_stays() {
    let server = server().await;
    let name = database(server).await;
    let instance = InstanceId::generate();
    let store = PostgresStore::open(PostgresOptions::new(server.address(&name)), instance.clone());
    let store = store.await.unwrap();
    let of_the_day = |id: &str| {
        let mut call = record(id, &instance);
        call.created = Timestamp(3 * DAY);
        call
    };
    let mut old = create(&store, of_the_day("old")).await;
    store.open(prompt("p", "old", &instance), None, None).await.unwrap();
    let ending = end(&mut old, Timestamp(3 * DAY));
    store.append(old, ending).await.unwrap();
    let mut other = server.connect(&name).await.unwrap();
    let held = other.transaction().await.unwrap();
    held.batch_execute("SELECT FROM prompts FOR UPDATE").await.unwrap();
    let sweep = store.sweep_calls(Timestamp(9 * DAY));
    let meanwhile = async {
        let client = server.connect(&name).await.unwrap();
        until("the sweep waits for the prompt", async || {
            let sql = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            !client.query_typed(sql, &[]).await.unwrap().is_empty()
        })
        .await;
        let running = create(&store, of_the_day("running")).await;
        held.rollback().await.unwrap();
        running
    };
    let (gone, mut running) = tokio::join!(sweep, meanwhile);
    assert!(store.prompt(&"p".into()).await.unwrap().is_none());
    let events = grow(&mut running, 1);
    store.append(running.clone(), events).await.unwrap();
    assert_eq!(store.get(&running.id).await.unwrap(), Some(running));
    assert_eq!(gone.unwrap(), 1);
    assert_eq!(store.get(&CallId::from("old")).await.unwrap(), None);
    // Its id is free again.
    create(&store, of_the_day("old")).await;
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_sweep_outputs_delete_no_more_than_one() {
    let server = server().await;
    let name = database(server).await;
    let open = async || {
        let options = PostgresOptions::new(server.address(&name));
        PostgresStore::open(options, InstanceId::generate()).await.unwrap()
    };
    let stores = [open().await, open().await];
    let owner = || OutputOwner::from(&record("c", &InstanceId::generate()));
    for _ in 0..100 {
        let mut writer = stores[0].create_output(owner()).await.unwrap();
        writer.append("0123456789".into()).await.unwrap();
        writer.finish().await.unwrap();
    }
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_sleep(0.5);
                    RETURN NULL;
                END $$;
                CREATE TRIGGER slow AFTER DELETE ON outputs FOR EACH STATEMENT EXECUTE FUNCTION slow()";
    server.run(&name, slow).await;
    let keep = OutputRetention {
        before: Timestamp(0),
        max_total_bytes: 800,
    };
    let second = async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        stores[1].sweep_outputs(keep).await
    };
    let (first, second) = tokio::join!(stores[0].sweep_outputs(keep), second);
    assert_eq!(first.unwrap() + second.unwrap(), 20);
    for store in stores {
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_that_comes_before_the_calls_of_its_session_stays() {
    let server = server().await;
    let name = database(server).await;
    let instance = InstanceId::generate();
    let store = PostgresStore::open(PostgresOptions::new(server.address(&name)), instance.clone());
    let store = store.await.unwrap();
    let session = |id: &str| SessionKey::new("main", &SessionId::from(id));
    for id in ["young", "old"] {
        store.remember(&session(id), "name", json!(id));
    }
    create(&store, record("c", &instance)).await;
    server
        .run(
            &name,
            "UPDATE facts SET stored = stored - interval '2 hours' WHERE session = 'old'",
        )
        .await;
    store.sweep_calls(Timestamp(0)).await.unwrap();
    assert_eq!(
        store.fact(&session("young"), "name").await.unwrap(),
        Some(json!("young"))
    );
    assert_eq!(store.fact(&session("old"), "name").await.unwrap(), None);
    store.close().await.unwrap();
}
