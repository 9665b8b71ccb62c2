//! One RPC from its request to its status: timed, counted while it streams, traced.
//!
//! *Invariant:* names are those of the contract; whatever else is asked for is `other`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::http::HeaderMap;
use opentelemetry::Context;

use super::Metrics;
use super::trace::{RpcTrace, Traces};

/// The codes of gRPC, by their numbers.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN_CODE",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// What an RPC ends with whose client left.
const CANCELLED_CODE: usize = 1;

/// What an RPC ends with whose status cannot be read.
const UNKNOWN_CODE: usize = 2;

struct Known {
    name: Arc<str>,
    streams: bool,
    traced: bool,
}

/// Follows the RPCs of one service.
pub struct Rpcs {
    metrics: Arc<Metrics>,
    traces: Option<Traces>,
    known: HashMap<String, Known>,
    other: Known,
}

impl Rpcs {
    /// Follows these RPCs: for each its name, such as `toolgate.v1.ToolService/RunTool`, whether it is a stream, and
    /// whether it is worth a trace.
    pub fn new(
        metrics: Arc<Metrics>,
        traces: Option<Traces>,
        names: impl IntoIterator<Item = (String, bool, bool)>,
    ) -> Self {
        let known = names.into_iter().map(|(name, streams, traced)| {
            let path = format!("/{name}");
            let name = name.into();
            (path, Known { name, streams, traced })
        });
        Self {
            metrics,
            traces,
            known: known.collect(),
            other: Known {
                name: "other".into(),
                streams: false,
                traced: false,
            },
        }
    }

    /// Begins to follow a request for a path. It goes on the trace that its headers name, if they name one.
    pub fn begin(&self, path: &str, headers: &HeaderMap) -> Rpc {
        let known = self.known.get(path).unwrap_or(&self.other);
        let traces = self.traces.as_ref().filter(|_| known.traced);
        if known.streams {
            self.metrics.stream(&known.name, 1);
        }
        Rpc {
            metrics: self.metrics.clone(),
            name: known.name.clone(),
            from: Instant::now(),
            streams: known.streams,
            trace: traces.map(|traces| traces.rpc(&known.name, headers)),
            code: CANCELLED_CODE,
        }
    }
}

/// An RPC under way. Dropped without a status, its client has left.
pub struct Rpc {
    metrics: Arc<Metrics>,
    name: Arc<str>,
    from: Instant,
    streams: bool,
    trace: Option<RpcTrace>,
    code: usize,
}

impl Rpc {
    /// Notes the status, as it stands in `grpc-status`.
    pub fn status(&mut self, code: &[u8]) {
        let number = std::str::from_utf8(code).ok().and_then(|code| code.parse().ok());
        self.code = number.filter(|number| *number < CODES.len()).unwrap_or(UNKNOWN_CODE);
    }

    /// Returns what is traced below this RPC, if it is traced.
    pub fn context(&self) -> Option<Context> {
        self.trace.as_ref().map(|trace| trace.context().clone())
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        let code = CODES[self.code];
        self.metrics.rpc_ended(&self.name, code, self.from.elapsed());
        // Whoever sees that no stream is open any more finds all of them counted.
        if self.streams {
            self.metrics.stream(&self.name, -1);
        }
        if let Some(trace) = &self.trace {
            trace.end(code, self.code);
        }
    }
}
