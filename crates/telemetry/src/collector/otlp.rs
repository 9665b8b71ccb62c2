//! The exporters that speak OTLP over gRPC.

use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _, WithTonicConfig as _,
};

pub(super) fn spans(endpoint: &str) -> Result<SpanExporter, ExporterBuildError> {
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint);
    exporter.with_tls_config(tls()).build()
}

pub(super) fn metrics(endpoint: &str) -> Result<MetricExporter, ExporterBuildError> {
    let exporter = MetricExporter::builder().with_tonic().with_endpoint(endpoint);
    exporter.with_tls_config(tls()).build()
}

/// For `https` only: what this machine trusts.
fn tls() -> ClientTlsConfig {
    ClientTlsConfig::new().with_native_roots()
}
