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

/// A column of a table, and whether a row can be made that says nothing of it.
async fn columns(client: &tokio_postgres::Client) -> Vec<(String, String, bool)> {
    let sql = "SELECT table_name || '.' || column_name, data_type || coalesce(collation_name, ''),
                   is_nullable = 'YES' OR column_default IS NOT NULL OR is_identity = 'YES'
               FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// The conditions on tables: what a release before knows nothing of could refuse what it writes. That a column must have a value is
/// one of them since PostgreSQL 18; [`columns`] has it already.
async fn conditions(client: &tokio_postgres::Client) -> Vec<String> {
    let sql = "SELECT conrelid::regclass || ': ' || pg_get_constraintdef(oid) FROM pg_constraint
               WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
               UNION ALL SELECT tablename || ': ' || indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexdef LIKE '% UNIQUE %'
               UNION ALL SELECT tgrelid::regclass || ': ' || tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// The program of the first release works with the tables of this one: they are what they were, and what it does not write has a value.
/// The program of this release does not start with the tables of the first one, and says what to do; what they have stays when it is done.
#[tokio::test]
async fn later_tables_do_for_earlier_programs_and_not_the_other_way_round() {
    let server = server().await;
    server.run("postgres", "CREATE DATABASE earlier").await;
    let options = || PostgresOptions::new(server.address("earlier"));
    let first = include_str!("../../migrations/0001.sql");
    let versions = "CREATE TABLE migrations (version bigint PRIMARY KEY, applied timestamptz NOT NULL);
                    INSERT INTO migrations VALUES (1, now());";
    server
        .run("earlier", &format!("BEGIN; {first}; {versions} COMMIT"))
        .await;
    assert_eq!(check(&options()).await.unwrap(), SchemaState::Older { version: 1 });
    let refused = PostgresStore::open(options(), InstanceId::generate()).await;
    let refused = refused.err().expect("tables are missing");
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("must be migrated"), "{source}");

    let client = server.connect("earlier").await.unwrap();
    let told = "INSERT INTO outbox (entries) VALUES ('[]')";
    client.execute(told, &[]).await.unwrap();
    let (had, held) = (columns(&client).await, conditions(&client).await);
    assert_eq!(migrate(&options()).await.unwrap(), SchemaState::Older { version: 1 });
    let (has, holds) = (columns(&client).await, conditions(&client).await);
    for column in &had {
        assert!(has.contains(column), "{column:?} is another one, or gone");
    }
    let is_of_known_table = |name: &str, end: char| {
        let table = name.split(end).next().unwrap();
        had.iter().any(|(column, ..)| column.split('.').next() == Some(table))
    };
    for column in has.iter().filter(|column| !had.contains(column)) {
        assert!(
            column.2 || !is_of_known_table(&column.0, '.'),
            "{column:?} has no value in rows of an earlier program"
        );
    }
    for condition in holds.iter().filter(|condition| !held.contains(condition)) {
        assert!(
            !is_of_known_table(condition, ':'),
            "{condition} may refuse what an earlier program writes"
        );
    }
    // What was there is there, and the statement of the earlier program works.
    client.execute(told, &[]).await.unwrap();
    let rows = client.query_one("SELECT count(*) FROM outbox", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 2);
    let store = PostgresStore::open(options(), InstanceId::generate()).await.unwrap();
    store.close().await.unwrap();
}
