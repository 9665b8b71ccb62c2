//! Reflection: what clients such as grpcurl ask a service about itself.
//!
//! *Invariant:* its index of all messages is made when somebody first asks. Few do, and it takes a third of a start.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures_util::future::Either;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_reflection::server::{Builder, Error};
use toolgate_contract as proto;
use tower::Service;

/// Adds both versions of reflection.
pub(super) fn add(routes: Routes) -> Routes {
    routes
        .add_service(Lazy::new(|| described().build_v1()))
        .add_service(Lazy::new(|| described().build_v1alpha()))
}

fn described() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        // What error details are made of: tools such as grpcurl print as text what they find a description of.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}

/// A service that is made when the first request comes.
struct Lazy<S> {
    made: Arc<OnceLock<Result<S, Error>>>,
    make: fn() -> Result<S, Error>,
}

impl<S> Lazy<S> {
    fn new(make: fn() -> Result<S, Error>) -> Self {
        Self {
            made: Arc::default(),
            make,
        }
    }
}

// Derived, it would want a service that can be cloned.
impl<S> Clone for Lazy<S> {
    fn clone(&self) -> Self {
        Self {
            made: self.made.clone(),
            make: self.make,
        }
    }
}

impl<S: NamedService> NamedService for Lazy<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Lazy<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Servers that tonic generates always are.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.made.get_or_init(self.make) {
            Ok(made) => Either::Left(made.clone().call(request)),
            Err(error) => {
                tracing::error!(%error, "the descriptors that the build wrote cannot be read");
                Either::Right(ready(Ok(Status::internal("internal error").into_http())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptors_can_be_read() {
        assert!(described().build_v1().is_ok());
        assert!(described().build_v1alpha().is_ok());
    }
}
