//! The store of a service.
//!
//! *Invariant:* nobody else here knows which store it is.

use std::sync::Arc;

use toolgate_config::Config;
use toolgate_model::InstanceId;
use toolgate_store::audit::Recorder;
use toolgate_store::local::{LocalStore, QuotaLimits, StoreOptions};
use toolgate_store::{Store, Upkeep as _};
use toolgate_telemetry::Metrics;

/// Opens the store for one run of the service, and prepares it for the workspaces of its configuration.
pub(super) async fn open(
    config: &Config,
    instance: InstanceId,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Arc<dyn Store>> {
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
    Ok(Arc::new(store))
}
