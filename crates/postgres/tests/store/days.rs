//! Days go as a whole.

use toolgate_model::{CallId, InstanceId, Timestamp};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::{CallLog as _, Changes as _, Prompts as _, Upkeep as _};

use crate::fixture::{database, server};
use crate::store::{create, end, grow, prompt, record};

const DAY: i64 = 86_400_000;

#[tokio::test]
async fn a_day_goes_when_all_of_it_may() {
    let server = server().await;
    let name = database(server).await;
    let instance = InstanceId::generate();
    let store = PostgresStore::open(PostgresOptions::new(server.address(&name)), instance.clone());
    let store = store.await.unwrap();
    let partitions = async || {
        let sql = "SELECT relname::text FROM pg_class WHERE relname ~ '^(calls|events)_d[0-9]{1,2}$' ORDER BY relname";
        let rows = server
            .connect(&name)
            .await
            .unwrap()
            .query_typed(sql, &[])
            .await
            .unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    for (id, day, ended) in [
        ("one", 3, true),
        ("two", 3, true),
        ("three", 4, true),
        ("waits", 4, false),
    ] {
        let mut call = record(id, &instance);
        call.created = Timestamp(day * DAY + 5);
        let mut call = create(&store, call).await;
        store.open(prompt(id, id, &instance), None, None).await.unwrap();
        store.record_changes(&call.id, Vec::new()).await.unwrap();
        if ended {
            let ending = end(&mut call, Timestamp(day * DAY + 9));
            store.append(call, ending).await.unwrap();
        }
    }
    assert_eq!(partitions().await, ["calls_d3", "calls_d4", "events_d3", "events_d4"]);
    assert_eq!(store.sweep_calls(Timestamp(3 * DAY)).await.unwrap(), 0);
    assert_eq!(store.sweep_calls(Timestamp(9 * DAY)).await.unwrap(), 3);
    assert_eq!(partitions().await, ["calls_d4", "events_d4"]);
    for (id, is_there) in [("one", false), ("three", false), ("waits", true)] {
        assert_eq!(store.get(&CallId::from(id)).await.unwrap().is_some(), is_there, "{id}");
        assert_eq!(store.prompt(&id.into()).await.unwrap().is_some(), is_there, "{id}");
    }
    // A day that has gone comes again with its first call.
    let mut call = record("one", &instance);
    call.created = Timestamp(3 * DAY);
    create(&store, call).await;
    assert_eq!(partitions().await, ["calls_d3", "calls_d4", "events_d3", "events_d4"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn no_room_is_made_for_days_far_off() {
    let server = server().await;
    let name = database(server).await;
    let instance = InstanceId::generate();
    let store = PostgresStore::open(PostgresOptions::new(server.address(&name)), instance.clone());
    let store = store.await.unwrap();
    for (days, is_stored) in [(1, true), (30, false), (i64::MAX / DAY - 30_000, false)] {
        let mut call = record(&format!("in {days} days"), &instance);
        call.created = Timestamp(Timestamp::now().millis() + days * DAY);
        let events = grow(&mut call, 1);
        assert_eq!(store.create_call(call, events).await.is_ok(), is_stored, "{days}");
    }
    store.close().await.unwrap();
}
