//! What a gateway serves beside the contract: the services for its workers.
//!
//! *Invariant:* what is of neither is refused by the front.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use toolgate_contract::cluster::cluster_service_server::ClusterServiceServer;
use tower::Service;

use crate::front::Front;
use crate::ledger_load::Loaded;
use crate::register::Cluster;

/// The paths of the service for workers.
const CLUSTER: &str = "/toolgate.cluster.v1.ClusterService/";

/// The paths of the ledger.
const LEDGER: &str = "/toolgate.cluster.v1.LedgerService/";

/// The front, and the service for workers beside it.
#[derive(Clone)]
pub(crate) struct Beside {
    pub(crate) front: Front,
    pub(crate) cluster: ClusterServiceServer<Cluster>,
    /// None of a gateway without a store.
    pub(crate) ledger: Option<Loaded>,
}

impl Service<Request<Body>> for Beside {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Both are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        match (&self.ledger, path.strip_prefix(LEDGER)) {
            _ if path.starts_with(CLUSTER) => self.cluster.call(request),
            (Some(ledger), Some(rpc)) => {
                let rpc = rpc.to_owned();
                ledger.call(&rpc, request)
            }
            (Some(_) | None, _) => self.front.call(request),
        }
    }
}
