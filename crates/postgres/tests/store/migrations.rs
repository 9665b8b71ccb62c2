//! The tables and their versions.

use toolgate_model::InstanceId;
use toolgate_postgres::{PostgresOptions, PostgresStore, SchemaState, check, migrate};
use toolgate_store::Upkeep as _;

use crate::fixture::server;

#[tokio::test]
async fn tables_are_made_once_and_compared() {
    let server = server().await;
    server.run("postgres", "CREATE DATABASE bare").await;
    let options = || PostgresOptions::new(server.address("bare"));
    assert_eq!(check(&options()).await.unwrap(), SchemaState::Older { version: 0 });
    let refused = PostgresStore::open(options(), InstanceId::generate()).await;
    let refused = refused.err().expect("there are no tables");
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("must be migrated"), "{source}");

    // Of several at once, one does it and the others find it done.
    let (first, second, third) = (options(), options(), options());
    let all = tokio::join!(migrate(&first), migrate(&second), migrate(&third));
    let mut before = [all.0.unwrap(), all.1.unwrap(), all.2.unwrap()];
    before.sort_by_key(|state| *state == SchemaState::Equal);
    assert_eq!(
        before,
        [
            SchemaState::Older { version: 0 },
            SchemaState::Equal,
            SchemaState::Equal
        ]
    );
    assert_eq!(check(&options()).await.unwrap(), SchemaState::Equal);

    // A later release has only added to them.
    server.run("bare", "INSERT INTO migrations VALUES (1000, now())").await;
    let newer = SchemaState::Newer { version: 1000 };
    assert_eq!(check(&options()).await.unwrap(), newer);
    assert_eq!(migrate(&options()).await.unwrap(), newer);
    let store = PostgresStore::open(options(), InstanceId::generate()).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn one_run_of_an_id_and_one_encoding() {
    let server = server().await;
    server.run("postgres", "CREATE DATABASE once").await;
    let options = || PostgresOptions::new(server.address("once"));
    migrate(&options()).await.unwrap();
    let instance = InstanceId::generate();
    let store = PostgresStore::open(options(), instance.clone()).await.unwrap();
    assert!(
        PostgresStore::open(options(), instance.clone()).await.is_err(),
        "it runs"
    );
    store.close().await.unwrap();
    let again = PostgresStore::open(options(), instance).await.unwrap();
    again.close().await.unwrap();

    let careless = "ALTER DATABASE once SET synchronous_commit = off";
    server.run("postgres", careless).await;
    let refused = PostgresStore::open(options(), InstanceId::generate()).await;
    assert!(refused.is_err(), "a crash would lose what was answered");

    let latin = "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'";
    server.run("postgres", latin).await;
    let refused = check(&PostgresOptions::new(server.address("latin"))).await.unwrap_err();
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert_eq!(source, "its encoding is LATIN1, and must be UTF8");
    let asks = format!("{} sslmode=require", server.address("once"));
    assert!(
        check(&PostgresOptions::new(asks)).await.is_err(),
        "no TLS is configured"
    );
}
