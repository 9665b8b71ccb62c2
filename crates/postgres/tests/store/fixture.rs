//! A database for each test, made from a template of one server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::OnceCell;
use toolgate_model::InstanceId;
use toolgate_postgres::{Bucket, PostgresOptions, PostgresStore, migrate};
use toolgate_store::{Store, Upkeep as _};

use crate::server::Server;
use crate::store::Fixture;

const TEMPLATE: &str = "tables";

/// The server of all tests but those that stop theirs.
pub(crate) async fn server() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    let start = || async {
        let server = Server::start(true).await;
        make_template(&server).await;
        server
    };
    SERVER.get_or_init(start).await
}

pub(crate) async fn make_template(server: &Server) {
    server.run("postgres", &format!("CREATE DATABASE {TEMPLATE}")).await;
    migrate(&PostgresOptions::new(server.address(TEMPLATE))).await.unwrap();
}

/// Makes a database with all tables and returns its name.
pub(crate) async fn database(server: &Server) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    server
        .run("postgres", &format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
        .await;
    name
}

/// Stores that share one database.
pub(crate) struct PostgresFixture {
    address: String,
    bucket: Option<Bucket>,
    running: Mutex<HashMap<InstanceId, Arc<PostgresStore>>>,
}

impl PostgresFixture {
    pub(crate) async fn new() -> Self {
        let server = server().await;
        Self::at(server.address(&database(server).await))
    }

    /// Stores that share the database of an address.
    pub(crate) fn at(address: String) -> Self {
        Self {
            address,
            bucket: None,
            running: Mutex::default(),
        }
    }

    pub(crate) async fn with_bucket(bucket: Bucket) -> Self {
        Self {
            bucket: Some(bucket),
            ..Self::new().await
        }
    }
}

#[async_trait]
impl Fixture for PostgresFixture {
    async fn open(&self, instance: &InstanceId) -> Arc<dyn Store> {
        let options = PostgresOptions {
            bucket: self.bucket.clone(),
            ..PostgresOptions::new(self.address.clone())
        };
        let store = Arc::new(PostgresStore::open(options, instance.clone()).await.unwrap());
        self.running
            .lock()
            .unwrap()
            .insert(instance.clone(), Arc::clone(&store));
        store
    }

    async fn stop(&self, instance: &InstanceId) {
        let store = self.running.lock().unwrap().remove(instance).expect("it runs");
        store.close().await.unwrap();
    }
}
