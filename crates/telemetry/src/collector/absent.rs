//! What stands for the exporters in a build without the feature `otel`: nothing can be sent, and whoever configures it is told so.

use std::time::Duration;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

#[derive(Debug, thiserror::Error)]
#[error("this build of Toolgate sends no telemetry (it lacks the Cargo feature \"otel\")")]
pub(super) struct NotBuilt;

/// An exporter that cannot be made.
#[derive(Debug)]
pub(crate) enum NoExporter {}

pub(super) fn spans(_endpoint: &str) -> Result<NoExporter, NotBuilt> {
    Err(NotBuilt)
}

pub(super) fn metrics(_endpoint: &str) -> Result<NoExporter, NotBuilt> {
    Err(NotBuilt)
}

impl SpanExporter for NoExporter {
    async fn export(&self, _batch: Vec<SpanData>) -> OTelSdkResult {
        match *self {}
    }
}

impl PushMetricExporter for NoExporter {
    async fn export(&self, _metrics: &ResourceMetrics) -> OTelSdkResult {
        match *self {}
    }

    fn force_flush(&self) -> OTelSdkResult {
        match *self {}
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        match *self {}
    }

    fn temporality(&self) -> Temporality {
        match *self {}
    }
}
