//! Runs of workers that share one gateway; while one has the workspaces, others write to the same database as gateways do.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::sync::Mutex;
use toolgate_ledger::LedgerStore;
use toolgate_model::{InstanceId, workspace_name_problem};
use toolgate_postgres::PostgresStore;
use toolgate_store::{Store, Upkeep as _};

use crate::gateway::{Running, WORKER, open, options};
use crate::mixed::Mixed;
use crate::postgres::{database, server};
use crate::store::Fixture;

enum Run {
    Worker(Arc<LedgerStore>),
    Gateway(Arc<PostgresStore>),
}

/// One gateway, and the runs that there are.
pub(crate) struct LedgerFixture {
    database: String,
    gateway: Running,
    /// The volume of the worker.
    folder: TempDir,
    running: Mutex<HashMap<InstanceId, Run>>,
    /// What the workers had.
    workspaces: Mutex<BTreeSet<String>>,
}

impl LedgerFixture {
    pub(crate) async fn new() -> Self {
        let server = server().await;
        let database = server.address(&database(server).await);
        Self {
            gateway: Running::start(&database).await,
            database,
            folder: tempfile::tempdir().unwrap(),
            running: Mutex::default(),
            workspaces: Mutex::new(BTreeSet::from(["main".to_owned()])),
        }
    }
}

#[async_trait]
impl Fixture for LedgerFixture {
    /// Gateways give no workspace that no configuration could name.
    fn workspace(&self, text: &str) -> String {
        match workspace_name_problem(text) {
            None => text.to_owned(),
            Some(_) => format!("for-{}", hex::encode(<Sha256 as Digest>::digest(text))),
        }
    }

    async fn open(&self, instance: &InstanceId) -> Arc<dyn Store> {
        let mut running = self.running.lock().await;
        if running.values().any(|run| matches!(run, Run::Worker(_))) {
            let store = open(&self.database, instance).await;
            running.insert(instance.clone(), Run::Gateway(store.clone()));
            return store;
        }
        let mut options = options(&[self.gateway.address()], instance, self.folder.path(), WORKER);
        options.workspaces = self.workspaces.lock().await.iter().cloned().collect();
        let worker = Arc::new(LedgerStore::open(options).await.unwrap());
        running.insert(instance.clone(), Run::Worker(worker.clone()));
        Arc::new(Mixed {
            worker,
            gateway: self.gateway.store.clone(),
            run: instance.clone(),
        })
    }

    async fn stop(&self, instance: &InstanceId) {
        match self.running.lock().await.remove(instance).expect("it runs") {
            Run::Gateway(store) => store.close().await.unwrap(),
            Run::Worker(worker) => {
                self.workspaces.lock().await.extend(worker.workspaces_held());
                worker.close().await.unwrap();
            }
        }
    }
}
