//! The way to a collector: OTLP over gRPC, for traces and for metrics.
//!
//! *Invariant:* a collector that is slow or gone is said in the log, once, and makes nothing wait.

#[cfg(not(feature = "otel"))]
#[path = "collector/absent.rs"]
mod otlp;
#[cfg(feature = "otel")]
mod otlp;

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// How long the end of the service waits until the last of it is sent.
pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
#[error("cannot send telemetry to {endpoint}")]
pub struct CollectorError {
    /// Where to.
    pub endpoint: String,
    /// Why.
    pub source: Box<dyn Error + Send + Sync>,
}

/// Where telemetry of one kind goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// The collector, which takes OTLP over gRPC: `http://host:port`, or `https://host:port` with a certificate that this
    /// machine trusts.
    pub endpoint: String,
    /// What is said of the service in all of it; its name is among that.
    pub attributes: Vec<(String, String)>,
}

impl Collector {
    /// Makes what sends traces. Connects when there is something to send. To be called within a runtime.
    pub(super) fn traces(&self) -> Result<impl SpanExporter + 'static, CollectorError> {
        let exporter = otlp::spans(&self.endpoint).map(|exporter| Complaining::new("traces", exporter));
        exporter.map_err(|error| self.error(error))
    }

    /// Makes what sends metrics, likewise.
    pub(super) fn metrics(&self) -> Result<impl PushMetricExporter, CollectorError> {
        let exporter = otlp::metrics(&self.endpoint).map(|exporter| Complaining::new("metrics", exporter));
        exporter.map_err(|error| self.error(error))
    }

    fn error(&self, source: impl Error + Send + Sync + 'static) -> CollectorError {
        let (endpoint, source) = (self.endpoint.clone(), Box::new(source));
        CollectorError { endpoint, source }
    }
}

/// Returns what is said of the service.
pub(super) fn resource(attributes: &[(String, String)]) -> Resource {
    let attributes = attributes.iter().cloned().map(|(key, value)| KeyValue::new(key, value));
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(attributes)
        .build()
}

/// Says in the log when sending begins to fail, and when it works again.
#[derive(Debug)]
struct Complaining<E> {
    what: &'static str,
    exporter: E,
    fails: AtomicBool,
}

impl<E> Complaining<E> {
    fn new(what: &'static str, exporter: E) -> Self {
        Self {
            what,
            exporter,
            fails: AtomicBool::new(false),
        }
    }

    fn log_change(&self, sent: &OTelSdkResult) {
        let what = self.what;
        match (sent, self.fails.swap(sent.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => tracing::warn!(%error, "{what} cannot be sent"),
            (Ok(()), true) => tracing::info!("{what} are sent again"),
            (Err(_), true) | (Ok(()), false) => {}
        }
    }
}

impl<E: SpanExporter> SpanExporter for Complaining<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.exporter.export(batch).await;
        self.log_change(&sent);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Complaining<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let sent = self.exporter.export(metrics).await;
        self.log_change(&sent);
        sent
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
