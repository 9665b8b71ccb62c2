//! What the port for operators sees of a running service.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use toolgate_config::service::TelemetryConfig;
use toolgate_engine::Engine;
use toolgate_store::{Store, StoreError};
use toolgate_telemetry::{Admin, Collector, Metrics, Snapshot, Telemetry, Traces, Watched};

use crate::grpc::ServeError;

/// How old the numbers may be that a collector gets of what is not counted as it happens.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Opens the port, and the way to the collector.
pub(super) async fn open(config: &TelemetryConfig) -> anyhow::Result<(Telemetry, Option<Admin>)> {
    let collector = |endpoint: &Option<String>| {
        endpoint.as_ref().map(|endpoint| Collector {
            endpoint: endpoint.clone(),
            attributes: config.attributes.clone(),
        })
    };
    let traces = collector(&config.traces);
    let telemetry = Telemetry {
        metrics: Arc::new(Metrics::new(collector(&config.metrics).as_ref())?),
        traces: traces.as_ref().map(Traces::to).transpose()?,
    };
    let Some(address) = config.admin else {
        return Ok((telemetry, None));
    };
    let admin = Admin::open(address, telemetry.metrics.clone()).await;
    let admin = admin.with_context(|| format!("cannot listen on {address} (telemetry.admin)"))?;
    Ok((telemetry, Some(admin)))
}

/// Looks at a service now and then until `stop`, for a collector of metrics if there is one.
pub(super) async fn observe(
    metrics: Arc<Metrics>,
    service: Arc<Watch>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    if !metrics.are_sent() {
        return Ok(());
    }
    while let Some(now) = stop.run_until_cancelled(service.snapshot()).await {
        metrics.observe(now);
        if stop
            .run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL))
            .await
            .is_none()
        {
            break;
        }
    }
    Ok(())
}

/// A running service, as an operator asks for it.
pub(super) struct Watch {
    pub(super) engine: Arc<Engine>,
    pub(super) store: Arc<dyn Store>,
}

impl Watch {
    /// Counts the workspaces whose configuration as it is now is not in force.
    fn configuration_problems(&self) -> usize {
        let places = self.engine.catalogs().all();
        let states = places.iter().map(|place| place.now());
        states
            .filter(|now| now.broken.is_some() || now.outdated.is_some())
            .count()
    }
}

#[async_trait]
impl Watched for Watch {
    async fn snapshot(&self) -> Snapshot {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (running, queued) = self.engine.calls().load();
        Snapshot {
            running: count(running),
            queued: count(queued),
            prompts_open: count(self.engine.prompts().open_prompts()),
            prompts_unseen: count(self.engine.prompts().unseen_prompts()),
            free_bytes: self.store.free_bytes().await,
            untold: None,
            configuration_problems: Some(count(self.configuration_problems())),
            draining: self.engine.calls().is_draining(),
        }
    }

    async fn ready(&self) -> Result<(), String> {
        if self.engine.calls().is_draining() {
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
