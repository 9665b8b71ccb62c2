//! A gateway in this process, with a store on PostgreSQL.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tonic::codegen::http::HeaderValue;
use tonic::transport::Endpoint;
use toolgate_config::service::RawConfig;
use toolgate_config::{Config, Environment};
use toolgate_gateway::Gateway;
use toolgate_ledger::{LedgerOptions, Way};
use toolgate_model::InstanceId;
use toolgate_postgres::{Bucket, PostgresOptions, PostgresStore};

/// The tokens of a worker that may have all workspaces, of one that may have `other` only, and of somebody who is no worker.
pub(crate) const WORKER: &str = "worker-worker-worker-worker";
pub(crate) const LIMITED: &str = "limited-limited-limited";
pub(crate) const PERSON: &str = "person-person-person-person";

/// What a gateway takes who shows the first one for.
pub(crate) const OWNER: &str = "token:worker";

/// The lease of runs.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// A gateway that runs.
pub(crate) struct Running {
    gateway: Gateway,
    pub(crate) store: Arc<PostgresStore>,
    _folder: TempDir,
}

fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Opens a store on a database as a gateway does.
pub(crate) async fn open(database: &str, instance: &InstanceId) -> Arc<PostgresStore> {
    open_with(database, None, instance).await
}

async fn open_with(database: &str, bucket: Option<Bucket>, instance: &InstanceId) -> Arc<PostgresStore> {
    let options = PostgresOptions {
        lease: LEASE,
        bucket,
        // The calls of tests are of 1970.
        clock_difference: Duration::MAX,
        ..PostgresOptions::new(database.to_owned())
    };
    Arc::new(PostgresStore::open(options, instance.clone()).await.unwrap())
}

impl Running {
    /// Starts a gateway on a database.
    pub(crate) async fn start(database: &str) -> Self {
        Self::with_bucket(database, None).await
    }

    /// Starts one that has a bucket, too.
    pub(crate) async fn with_bucket(database: &str, bucket: Option<Bucket>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = format!("worker {WORKER} *\nlimited {LIMITED} * other\nperson {PERSON} *\n");
        put(&folder.path().join("tokens"), &tokens);
        let text = "data_dir = \"data\"\nlisten.tcp = \"127.0.0.1:0\"\nauth.tokens_file = \"tokens\"\n\
                    auth.workers = [\"token:worker\", \"token:limited\"]\ncluster.role = \"gateway\"\n";
        let file = folder.path().join("toolgate.toml");
        put(&file, text);
        let environment = Environment::new([], folder.path());
        let config = Config::load(Some(&file), RawConfig::default(), &environment).unwrap();
        let store = open_with(database, bucket, &InstanceId::generate()).await;
        let gateway = Gateway::start_with(&config, Some(store.clone())).await.unwrap();
        Self {
            gateway,
            store,
            _folder: folder,
        }
    }

    /// Returns where it listens.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.gateway.tcp.unwrap())
    }

    /// Stops it at once.
    pub(crate) async fn stop(self) {
        self.gateway.drain().await;
    }
}

/// How a run uses gateways at these addresses.
pub(crate) fn options(addresses: &[String], run: &InstanceId, folder: &Path, token: &'static str) -> LedgerOptions {
    let way = |address: &String| {
        let endpoint = Endpoint::from_shared(address.clone()).unwrap();
        Way::new(address.clone(), endpoint.connect_timeout(Duration::from_secs(2)), 0)
    };
    let shown = move || Ok(HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
    let ways = addresses.iter().map(way).collect();
    LedgerOptions {
        identity: Some(Arc::new(shown)),
        patience: LEASE * 3,
        ..LedgerOptions::new(ways, run.clone(), folder.to_owned())
    }
}
