//! Runs that are not heard of any more.

use std::time::Duration;

use toolgate_model::InstanceId;
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::{CallLog as _, OutputOwner, OutputRetention, Outputs as _, Upkeep as _};

use crate::fixture::{database, server};
use crate::store::{create, record};

const LEASE: Duration = Duration::from_secs(2);

/// A bound for what takes a lease or two.
const SOON: Duration = Duration::from_secs(60);

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(SOON, async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("it never comes that {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_silent_for_a_lease_is_dead_but_not_to_newcomers() {
    let server = server().await;
    let name = database(server).await;
    let (silent, instance) = (InstanceId::from("silent"), InstanceId::generate());
    let options = || PostgresOptions {
        lease: LEASE,
        ..PostgresOptions::new(server.address(&name))
    };
    // It writes an output and a call, and is never heard of again.
    let store = PostgresStore::open(options(), silent.clone()).await.unwrap();
    create(&store, record("c", &silent)).await;
    let mut writer = store
        .create_output(OutputOwner::from(&record("c", &silent)))
        .await
        .unwrap();
    writer.append("text".into()).await.unwrap();
    let id = writer.id().clone();
    store.close().await.unwrap();
    let row =
        "INSERT INTO instances (id, lease_until, noted) VALUES ('silent', clock_timestamp() - interval '1 hour', 0)";
    server.run(&name, row).await;

    let store = PostgresStore::open(options(), instance.clone()).await.unwrap();
    let keep = OutputRetention {
        before: toolgate_model::Timestamp(0),
        max_total_bytes: 0,
    };
    assert_eq!(
        store.adopt_orphans(&instance).await.unwrap(),
        [],
        "it may have had no way to renew"
    );
    assert!(!store.has_dead_runs());
    assert_eq!(store.sweep_outputs(keep).await.unwrap(), 0);
    assert!(!store.look(&id).await.unwrap().unwrap().complete);
    until("the silent run is found dead", async || store.has_dead_runs()).await;
    assert!(store.look(&id).await.unwrap().unwrap().complete);
    let adopted = store.adopt_orphans(&instance).await.unwrap();
    assert_eq!(adopted.len(), 1);
    assert_eq!(adopted[0].owner, instance);
    store.forget_dead_runs().unwrap();
    let rows = async || {
        let client = server.connect(&name).await.unwrap();
        let sql = "SELECT FROM instances WHERE forgotten IS NULL";
        client.query_typed(sql, &[]).await.unwrap().len()
    };
    until("the dead one is forgotten", async || rows().await == 1).await;
    until("no other one is dead", async || !store.has_dead_runs()).await;
    // Those who live renew, and stay.
    tokio::time::sleep(2 * LEASE).await;
    assert!(!store.has_dead_runs());
    assert_eq!(store.sweep_outputs(keep).await.unwrap(), 1);
    store.close().await.unwrap();
    assert_eq!(rows().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_renews_lives_though_the_clock_of_the_database_was_put_forward() {
    let server = server().await;
    let name = database(server).await;
    let (living, observing) = (InstanceId::generate(), InstanceId::generate());
    let open = async |id: &InstanceId| {
        let options = PostgresOptions {
            lease: LEASE,
            ..PostgresOptions::new(server.address(&name))
        };
        PostgresStore::open(options, id.clone()).await.unwrap()
    };
    let (store, other) = (open(&living).await, open(&observing).await);
    create(&store, record("c", &living)).await;
    // Each lease ends an hour before the present moment, as after such a step.
    let step = "CREATE FUNCTION step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    new.lease_until = new.lease_until - interval '1 hour';
                    RETURN new;
                END $$;
                CREATE TRIGGER step BEFORE UPDATE ON instances FOR EACH ROW EXECUTE FUNCTION step()";
    tokio::time::sleep(2 * LEASE).await;
    server.run(&name, step).await;
    let begun = std::time::Instant::now();
    while begun.elapsed() < 3 * LEASE {
        assert!(!other.has_dead_runs());
        assert_eq!(other.adopt_orphans(&observing).await.unwrap(), []);
        tokio::time::sleep(LEASE / 10).await;
    }
    other.close().await.unwrap();
    store.close().await.unwrap();
}
