//! What an operator sees of the service: metrics, traces, and the port that tells whether it lives and is ready.
//!
//! *Invariant:* a leaf. It is told of calls, RPCs and writes in plain words and numbers, never of inputs, outputs or
//! secrets; nothing here can fail a call or make it wait, and what is switched off costs nothing.

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
pub use metrics::{Metrics, Phases, Snapshot};
pub use rpc::{Rpc, Rpcs};
pub use trace::{CallFacts, CallTrace, Span, Traces, below, carried};

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
