//! What a gateway serves beside the contract: the services for its workers.
//!
//! *Invariant:* what is of neither is refused by the front.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use toolgate_contract::ErrorReason;
use toolgate_contract::cluster::cluster_service_server::ClusterServiceServer;
use toolgate_server::grpc::status;
use tower::Service;

use crate::front::Front;
use crate::ledger_load::Loaded;
use crate::register::Cluster;

/// The paths of the service for workers.
const CLUSTER: &str = "/toolgate.cluster.v1.ClusterService/";

/// What only workers ask of it.
const REGISTER: &str = "/toolgate.cluster.v1.ClusterService/Register";

/// The paths of the ledger.
const LEDGER: &str = "/toolgate.cluster.v1.LedgerService/";

/// The front, and the service for workers beside it.
#[derive(Clone)]
pub(crate) struct Beside {
    /// None where only workers come.
    pub(crate) front: Option<Front>,
    /// Whether workers come, too.
    pub(crate) takes_workers: bool,
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
        let is_of_workers = path == REGISTER || path.starts_with(LEDGER);
        if is_of_workers && !self.takes_workers {
            let problem = "workers have an address of their own at this gateway (cluster.listen): name that in cluster.gateways of the worker";
            return refused(status::refused(ErrorReason::ScopeMissing, problem));
        }
        match (&self.ledger, path.strip_prefix(LEDGER), &mut self.front) {
            // Whoever lists workers is no worker.
            (_, _, front) if path.starts_with(CLUSTER) && (front.is_some() || path == REGISTER) => {
                self.cluster.call(request)
            }
            (Some(ledger), Some(rpc), _) => {
                let rpc = rpc.to_owned();
                ledger.call(&rpc, request)
            }
            (Some(_) | None, _, Some(front)) => front.call(request),
            (Some(_) | None, _, None) => {
                let problem =
                    "this address of the gateway is for workers alone (cluster.listen): use that of listen.tcp";
                refused(Status::unimplemented(problem))
            }
        }
    }
}

/// Answers at once.
fn refused(status: Status) -> <Beside as Service<Request<Body>>>::Future {
    Box::pin(ready(Ok(status.into_http())))
}
