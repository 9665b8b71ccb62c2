//! Around every RPC: its time, its status, its trace.
//!
//! *Invariant:* looks at the path, at headers and at the status, never at a message; what it follows it hands on unchanged.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use toolgate_contract as proto;
use toolgate_telemetry::{self as telemetry, Rpc, Rpcs, Telemetry};
use tower::{Layer, Service};

use super::{body, described};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Puts [`Measure`] around a service.
#[derive(Clone)]
pub(super) struct MeasureLayer(Arc<Rpcs>);

impl MeasureLayer {
    /// Follows the RPCs of the contract and of the services that come with it; only the former are traced.
    pub(super) fn new(telemetry: &Telemetry) -> Self {
        let ours = names(proto::DESCRIPTORS)
            .into_iter()
            .map(|(name, streams)| (name, streams, true));
        let standard = [
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let standard = standard
            .into_iter()
            .flat_map(names)
            .map(|(name, streams)| (name, streams, false));
        let (metrics, traces) = (telemetry.metrics.clone(), telemetry.traces.clone());
        Self(Arc::new(Rpcs::new(metrics, traces, ours.chain(standard))))
    }
}

/// Returns the RPCs of encoded descriptors, and whether they stream. What cannot be read has none: then all are `other`.
pub(super) fn names(descriptors: &[u8]) -> BTreeSet<(String, bool)> {
    let methods = described::methods(descriptors).unwrap_or_default().into_iter();
    methods.map(|method| (method.name, method.streams)).collect()
}

impl<S> Layer<S> for MeasureLayer {
    type Service = Measure<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Measure {
            rpcs: self.0.clone(),
            inner,
        }
    }
}

/// Follows what passes.
#[derive(Clone)]
pub(super) struct Measure<S> {
    rpcs: Arc<Rpcs>,
    inner: S,
}

impl<S> Service<Request<Body>> for Measure<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut rpc = self.rpcs.begin(request.uri().path(), request.headers());
        let answer = telemetry::below(rpc.context(), self.inner.call(request));
        Box::pin(async move {
            let response = answer.await?;
            // An RPC that fails at once has its status here.
            let at_once = record_status(&mut rpc, response.headers());
            Ok(response.map(|answer| match at_once {
                true => answer,
                false => until_trailers(answer, rpc),
            }))
        })
    }
}

fn record_status(rpc: &mut Rpc, headers: &HeaderMap) -> bool {
    let status = headers.get("grpc-status");
    status.is_some_and(|status| {
        rpc.status(status.as_bytes());
        true
    })
}

/// Returns a body whose trailers say how the RPC ended.
fn until_trailers(answer: Body, rpc: Rpc) -> Body {
    // None when it is over.
    let mut rpc = Some(rpc);
    body::watched(answer, move |frame| {
        if let Some(trailers) = frame.trailers_ref()
            && let Some(mut rpc) = rpc.take()
        {
            record_status(&mut rpc, trailers);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_is_known() {
        let ours = names(proto::DESCRIPTORS);
        for (name, streams) in [
            ("toolgate.v1.ToolService/ExecuteTool", true),
            ("toolgate.v1.ToolService/RunTool", false),
            ("toolgate.v1.PermissionService/Channel", true),
        ] {
            assert!(ours.contains(&(name.to_owned(), streams)), "{name} is not in {ours:?}");
        }
        let health = names(tonic_health::pb::FILE_DESCRIPTOR_SET);
        assert!(health.contains(&("grpc.health.v1.Health/Watch".to_owned(), true)));
        assert_eq!(names(b"\xff").len(), 0);
    }
}
