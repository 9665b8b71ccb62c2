//! What a gateway serves beside the contract: the service for its workers.
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
use crate::register::Cluster;

/// The paths of the service for workers.
const CLUSTER: &str = "/toolgate.cluster.v1.ClusterService/";

/// The front, and the service for workers beside it.
#[derive(Clone)]
pub(crate) struct Beside {
    pub(crate) front: Front,
    pub(crate) cluster: ClusterServiceServer<Cluster>,
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
        match request.uri().path().starts_with(CLUSTER) {
            true => self.cluster.call(request),
            false => self.front.call(request),
        }
    }
}
