//! What an operator sees of the service: metrics, traces, and the port that tells whether it lives and is ready.
//!
//! *Invariant:* a leaf: it uses no other crate of the service. It is told of calls, RPCs and writes in plain words and
//! numbers, never of inputs, outputs or secrets; nothing here can fail a call or make it wait, and what is switched off
//! costs nothing.
//!
//! In reading order:
//!
//! - `metrics`: what is counted and timed, for Prometheus and for a collector;
//! - `process`: what the kernel says of this process, such as memory and open files;
//! - `rpc`: one RPC from its request to its status;
//! - `trace`: the spans of RPCs and calls, named by OpenTelemetry's conventions;
//! - `collector`: how traces and metrics are sent, OTLP over gRPC;
//! - `admin`: the port with `/metrics`, `/healthz` and `/readyz`.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod admin;
mod collector;
mod metrics;
mod process;
mod rpc;
mod trace;

use std::sync::Arc;

pub use admin::{Admin, Watched};
pub use collector::{Collector, CollectorError};
pub use metrics::{FleetFacts, Metrics, Phases, Snapshot, WorkerFacts};
pub use rpc::{Rpc, Rpcs};
pub use trace::{CallFacts, CallTrace, Span, Traces, below, carried, tell};

/// What the parts of one service tell.
#[derive(Clone, Default)]
pub struct Telemetry {
    /// What is counted and timed.
    pub metrics: Arc<Metrics>,
    /// What is traced; nothing where nobody collects it.
    pub traces: Option<Traces>,
}

impl Telemetry {
    /// Sends what is left, for a short time, and stops sending.
    pub async fn close(self) {
        let traces = async {
            if let Some(traces) = self.traces {
                traces.close().await;
            }
        };
        tokio::join!(traces, self.metrics.close());
    }
}
