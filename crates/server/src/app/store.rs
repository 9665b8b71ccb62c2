//! The store of a service: its own, or, for a worker, that of the gateways.
//!
//! *Invariant:* nobody else here knows which store it is.

use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use toolgate_config::Config;
use toolgate_config::service::ClusterRole;
use toolgate_ledger::Told;
use toolgate_model::InstanceId;
use toolgate_store::audit::Recorder;
use toolgate_store::local::{LocalStore, QuotaLimits, StoreOptions};
use toolgate_store::{Store, Upkeep as _};
use toolgate_telemetry::Metrics;

use super::discovery::Discovery;
use super::ledger;

/// A store that is open.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    /// Ends when this run must stop at once.
    pub(super) stopped: CancellationToken,
    /// What a worker has changed: its audit and its journal are kept by the gateways. None where they are kept here.
    pub(super) told: Option<Arc<Told>>,
}

/// Opens the store for one run of the service, and prepares it for the workspaces of its configuration.
pub(super) async fn open(
    config: &Config,
    instance: InstanceId,
    gateways: Option<&Discovery>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Opened> {
    if config.cluster.role == ClusterRole::Worker {
        let gateways = gateways.context("a worker has gateways: set cluster.gateways")?;
        let store = ledger::open_ledger(config, instance, gateways.ways.clone()).await?;
        return Ok(Opened {
            stopped: store.stopped(),
            told: Some(store.told()),
            store: Arc::new(store),
        });
    }
    let data_dir = config.data_dir.clone();
    let options = StoreOptions {
        limits: QuotaLimits {
            max_bytes: config.limits.max_total_output_bytes,
            min_free_bytes: config.limits.min_free_bytes,
            keep_outputs: config.retention.outputs,
        },
        recorder: Recorder {
            key: config.audit.key().cloned(),
            redactor: config.redact.0.clone(),
        },
        durability: config.state.durability,
    };
    let store = tokio::task::spawn_blocking(move || LocalStore::open_with(&data_dir, instance, options)).await??;
    for workspace in &config.workspaces {
        store.prepare_workspace(&workspace.name)?;
    }
    store.measure(metrics);
    Ok(Opened {
        store: Arc::new(store),
        // Nobody takes a data directory from the one that has it.
        stopped: CancellationToken::new(),
        told: None,
    })
}
