//! That another process has changed prompts or grants is heard at once.

use std::time::Duration;

use toolgate_model::{Decision, InstanceId, PromptId, PromptOutcome, PromptState};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::{Prompts as _, Settlement, Upkeep as _};

use crate::fixture::{database, server};
use crate::store::{approval, prompt};

/// A bound for what is at once.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_hears_also_after_its_connection_was_lost() {
    let server = server().await;
    let name = database(server).await;
    let open = async || {
        let options = PostgresOptions::new(server.address(&name));
        PostgresStore::open(options, InstanceId::generate()).await.unwrap()
    };
    let (asking, listening) = (open().await, open().await);
    let changed = listening.changed_elsewhere().expect("it listens");
    let heard = async |what: &str| {
        let heard = tokio::time::timeout(SOON, changed.notified()).await;
        heard.unwrap_or_else(|_| panic!("it is not heard that {what}"));
    };
    heard("it listens now").await;
    let instance = InstanceId::generate();
    asking.open(prompt("p", "c", &instance), None, None).await.unwrap();
    heard("a prompt was opened").await;
    asking.approve(&PromptId::from("p"), approval("one")).await.unwrap();
    heard("it was approved").await;
    // What changes nothing is not told.
    asking.approve(&PromptId::from("p"), approval("one")).await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(200), changed.notified())
            .await
            .is_err()
    );

    let lose = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    server.run(&name, lose).await;
    heard("it listens again").await;
    let settlement = Settlement {
        prompt: PromptId::from("p"),
        state: PromptState::Expired,
        decision: Decision::new(PromptOutcome::Expired),
        uses: Vec::new(),
    };
    asking.settle(settlement, Vec::new(), Vec::new(), None).await.unwrap();
    heard("it was settled").await;
    asking.close().await.unwrap();
    listening.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shall_not_listen_has_no_connection_for_it() {
    let server = server().await;
    let name = database(server).await;
    let options = PostgresOptions {
        notifies: false,
        ..PostgresOptions::new(server.address(&name))
    };
    let store = PostgresStore::open(options, InstanceId::generate()).await.unwrap();
    assert!(store.changed_elsewhere().is_none());
    store
        .open(prompt("p", "c", &InstanceId::generate()), None, None)
        .await
        .unwrap();
    let client = server.connect(&name).await.unwrap();
    let sql = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    assert!(client.query_typed(sql, &[]).await.unwrap().is_empty());
    store.close().await.unwrap();
}
