//! The gate before every RPC: who calls, whether that one may, and for how long.
//!
//! *Invariant:* a request passes with its caller in its extensions or not at all. What was opened with credentials that can
//! end, ends with them.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Method, Request, Response};
use toolgate_contract::Scope;
use tower::{Layer, Service};

use super::Authenticator;
use super::caller::Caller;
use crate::grpc::limits::{Stream, Traffic};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How a refusal is told.
type Refuse = fn(Status) -> Response<Body>;

/// Returns what a request needs that is not of the contract.
type Needs = fn(&Method, &str) -> Option<Scope>;

/// Puts [`Gate`] before a service.
#[derive(Clone)]
pub(crate) struct GateLayer {
    authenticator: Arc<Authenticator>,
    traffic: Arc<Traffic>,
    refuse: Refuse,
    needs: Needs,
}

impl GateLayer {
    /// Makes the gate of gRPC services.
    pub(crate) fn new(authenticator: Arc<Authenticator>, traffic: Arc<Traffic>) -> Self {
        Self::refusing(authenticator, traffic, Status::into_http)
    }

    /// Makes the gate of another protocol, which has its own way to refuse.
    pub(crate) fn refusing(authenticator: Arc<Authenticator>, traffic: Arc<Traffic>, refuse: Refuse) -> Self {
        Self {
            authenticator,
            traffic,
            refuse,
            needs: |_, _| None,
        }
    }

    /// Has the requests need this, where it names something.
    #[must_use]
    pub(crate) fn needing(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Gate {
            authenticator: self.authenticator.clone(),
            traffic: self.traffic.clone(),
            refuse: self.refuse,
            needs: self.needs,
            inner,
        }
    }
}

/// Lets pass whoever may.
#[derive(Clone)]
pub(crate) struct Gate<S> {
    authenticator: Arc<Authenticator>,
    traffic: Arc<Traffic>,
    refuse: Refuse,
    needs: Needs,
    inner: S,
}

impl<S> Gate<S> {
    /// Returns what is behind it.
    #[cfg(feature = "mcp")]
    pub(crate) fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let scope = (self.needs)(request.method(), request.uri().path());
        let caller = match self.authenticator.admit(&request, scope) {
            Ok(caller) => caller,
            Err(status) => return Box::pin(std::future::ready(Ok((self.refuse)(status)))),
        };
        // Nobody is known where anybody may ask, and then nothing is counted: probes must be answered.
        let known = caller
            .as_ref()
            .map(|caller| (caller.principal.id(), caller.is_worker()));
        let stream = known.map_or(Ok(None), |(id, is_worker)| {
            self.traffic.admit((&id, is_worker), &request)
        });
        let stream = match stream {
            Ok(stream) => stream,
            Err(status) => return Box::pin(std::future::ready(Ok((self.refuse)(status)))),
        };
        let can_end =
            |caller: &&Arc<Caller>| caller.bearer.is_some() || caller.expires.is_some() || caller.certificate.is_some();
        let ends = caller.as_ref().filter(can_end).cloned();
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let response = counted(self.inner.call(request), stream);
        match ends {
            None => Box::pin(response),
            Some(caller) => Box::pin(bounded(response, self.authenticator.clone(), caller, self.refuse)),
        }
    }
}

/// Counts a stream until it is over.
async fn counted(
    response: impl Future<Output = Result<Response<Body>, Infallible>> + Send,
    stream: Option<Stream>,
) -> Result<Response<Body>, Infallible> {
    let response = response.await?;
    Ok(match stream {
        None => response,
        Some(stream) => response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // Open until the body is dropped.
                let _open = &stream;
                frame
            }))
        }),
    })
}

async fn bounded(
    response: impl Future<Output = Result<Response<Body>, Infallible>> + Send,
    authenticator: Arc<Authenticator>,
    caller: Arc<Caller>,
    refuse: Refuse,
) -> Result<Response<Body>, Infallible> {
    let mut end: BoxFuture<Status> = Box::pin(async move { authenticator.end_of(&caller).await });
    tokio::select! {
        biased;
        response = response => response.map(|response| response.map(|body| Body::new(Bounded { body, end: Some(end) }))),
        status = &mut end => Ok(refuse(status)),
    }
}

/// A body that ends when the caller's credentials do.
struct Bounded {
    body: Body,
    /// None when it is over.
    end: Option<BoxFuture<Status>>,
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(end) = self.end.as_mut() else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(status) = end.as_mut().poll(context) {
            self.end = None;
            // What the stream holds goes with it: a call whose client is meant to stay is told now.
            self.body = Body::empty();
            let mut trailers = HeaderMap::new();
            return Poll::Ready(Some(
                status.add_header(&mut trailers).map(|()| Frame::trailers(trailers)),
            ));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.end.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
