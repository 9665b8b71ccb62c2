//! What an operator sees of the service: metrics, traces, and the port that tells whether it lives and is ready.
//!
//! *Invariant:* a leaf. It is told of calls, RPCs and writes in plain words and numbers, never of inputs, outputs or
//! secrets; nothing here can fail a call or make it wait, and what is switched off costs nothing.

mod admin;
mod metrics;
mod process;
mod rpc;
mod trace;

use std::sync::Arc;

pub use admin::{Admin, Watched};
pub use metrics::{Metrics, Phases, Snapshot};
pub use rpc::{Rpc, Rpcs};
pub use trace::{CallFacts, CallTrace, Span, TraceError, Traces, below, carried};

/// What the parts of one service tell.
#[derive(Clone, Default)]
pub struct Telemetry {
    /// What is counted and timed.
    pub metrics: Arc<Metrics>,
    /// What is traced; nothing where nobody collects it.
    pub traces: Option<Traces>,
}
