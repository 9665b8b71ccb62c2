//! What the port for operators sees of a running service.

use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;

use crate::config::service::TelemetryConfig;
use crate::engine::Engine;
use crate::store::StoreError;
use crate::store::local::LocalStore;
use crate::telemetry::{Admin, Snapshot, Telemetry, Traces, Watched};

/// Opens the port, and the way to the collector.
pub(super) async fn open(config: &TelemetryConfig) -> anyhow::Result<(Telemetry, Option<Admin>)> {
    let traces = config.traces.as_ref();
    let traces = traces.map(|traces| Traces::to(&traces.endpoint, &traces.attributes));
    let telemetry = Telemetry {
        traces: traces.transpose()?,
        ..Telemetry::default()
    };
    let Some(address) = config.admin else {
        return Ok((telemetry, None));
    };
    let admin = Admin::open(address, telemetry.metrics.clone()).await;
    let admin = admin.with_context(|| format!("cannot listen on {address} (telemetry.admin)"))?;
    Ok((telemetry, Some(admin)))
}

/// A running service, as an operator asks for it.
pub(super) struct Watch {
    pub(super) engine: Arc<Engine>,
    pub(super) store: Arc<LocalStore>,
}

#[async_trait]
impl Watched for Watch {
    async fn snapshot(&self) -> Snapshot {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (running, queued) = self.engine.load();
        Snapshot {
            running: count(running),
            queued: count(queued),
            prompts_open: count(self.engine.broker().open_prompts()),
            free_bytes: self.store.free_bytes().await,
            draining: self.engine.is_draining(),
        }
    }

    async fn ready(&self) -> Result<(), String> {
        if self.engine.is_draining() {
            return Err("draining".to_owned());
        }
        match self.store.check().await {
            Ok(()) => Ok(()),
            Err(StoreError::Full(what)) => Err(format!("full: {what}")),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "not ready: the store fails");
                Err("the store fails: see the log".to_owned())
            }
        }
    }
}
