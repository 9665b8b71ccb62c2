//! Transactions that give way to others are tried again, and not for ever.

use std::time::{Duration, Instant};

use toolgate_model::{InstanceId, PromptId};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::audit::Kind;
use toolgate_store::{Audit as _, Prompts as _, StoreError, Upkeep as _};

use crate::fixture::{database, server};
use crate::store::{create, prompt, record};

/// Has the first few rows of a table refused as if another transaction had won; a sequence counts also what is undone.
fn refusal(table: &str, code: &str, times: u32) -> String {
    format!(
        "CREATE SEQUENCE tries_{table};
         CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('tries_{table}') <= {times} THEN
                 RAISE EXCEPTION 'another one won' USING ERRCODE = '{code}';
             END IF;
             RETURN new;
         END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_{table}()"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_gave_way_is_tried_again_and_done_once() {
    let server = server().await;
    let name = database(server).await;
    let instance = InstanceId::generate();
    let store = PostgresStore::open(PostgresOptions::new(server.address(&name)), instance.clone());
    let store = store.await.unwrap();
    server.run(&name, &refusal("call_days", "40001", 3)).await;
    server.run(&name, &refusal("prompts", "40P01", 3)).await;
    server.run(&name, &refusal("journal", "40001", 3)).await;
    create(&store, record("c", &instance)).await;
    store.open(prompt("p", "c", &instance), None, None).await.unwrap();
    let lines = store.audit_lines(1, 100).await.unwrap();
    let kinds = lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.json).unwrap()["kind"].clone());
    let expected = [Kind::Genesis, Kind::Admitted, Kind::Prompted].map(Kind::as_str);
    assert_eq!(kinds.collect::<Vec<_>>(), expected);

    server
        .run(
            &name,
            "DROP TRIGGER refuse ON prompts; DROP FUNCTION refuse_prompts; DROP SEQUENCE tries_prompts",
        )
        .await;
    server.run(&name, &refusal("prompts", "40001", 1_000)).await;
    let begun = Instant::now();
    let refused = store.open(prompt("q", "c", &instance), None, None).await;
    assert!(matches!(refused, Err(StoreError::Failed { .. })), "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(store.prompt(&PromptId::from("q")).await.unwrap(), None);
    store.close().await.unwrap();
}
