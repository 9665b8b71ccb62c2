//! A door beside the contract: requests that do not speak gRPC are taken out by their paths.
//!
//! *Invariant:* a path belongs to one door. What goes through a door never reaches what is behind the others.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service};

/// What is behind a door.
type Behind = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// Takes the requests for some paths out of those for a service.
#[derive(Clone)]
pub(super) struct DoorLayer {
    is_for: fn(&str) -> bool,
    behind: Behind,
}

impl DoorLayer {
    pub(super) fn new<S>(is_for: fn(&str) -> bool, behind: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let behind = BoxCloneSyncService::new(behind);
        Self { is_for, behind }
    }

    /// Puts something before what is behind it.
    pub(super) fn through<L>(self, layer: L) -> Self
    where
        L: Layer<Behind>,
        L::Service:
            Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
    {
        Self::new(self.is_for, layer.layer(self.behind))
    }
}

impl<S> Layer<S> for DoorLayer {
    type Service = Fork<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Fork {
            door: self.clone(),
            inner,
        }
    }
}

/// Sends each request where it belongs.
#[derive(Clone)]
pub(super) struct Fork<S> {
    door: DoorLayer,
    inner: S,
}

impl<S> Service<Request<Body>> for Fork<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // The other way is always ready.
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !(self.door.is_for)(request.uri().path()) {
            return Box::pin(self.inner.call(request));
        }
        let answer = self.door.behind.call(request);
        Box::pin(async move { answer.await.map_err(|never| match never {}) })
    }
}
