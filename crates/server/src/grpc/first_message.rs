//! How long a request may take to bring its first message: whoever sends half of one and stops holds room for nothing.
//!
//! *Invariant:* looks at sizes only, and at nothing behind the first message; what comes in time is handed on unchanged.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tower::{Layer, Service};

use super::status;

/// How long it may take by itself.
pub(super) const DEFAULT: Duration = Duration::from_secs(60);

/// Bytes before each message: whether it is compressed, and its size.
const PREFIX_BYTES: usize = 5;

/// Bounds the first messages of the requests for a service.
#[derive(Clone, Copy)]
pub(super) struct FirstMessageLayer(pub(super) Duration);

impl<S> Layer<S> for FirstMessageLayer {
    type Service = FirstMessage<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FirstMessage { limit: self.0, inner }
    }
}

/// The service with that bound.
#[derive(Clone)]
pub(super) struct FirstMessage<S> {
    limit: Duration,
    inner: S,
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for FirstMessage<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limit = self.limit;
        self.inner.call(request.map(|body| Body::new(Timed::new(body, limit))))
    }
}

/// A body whose first message has a time by which it is there.
struct Timed {
    body: Body,
    limit: Duration,
    /// None when the message is there.
    awaited: Option<Awaited>,
}

struct Awaited {
    since: Instant,
    prefix: Vec<u8>,
    /// Bytes of the message that have come, with its prefix.
    seen: usize,
    /// Made when there is something to wait for: most messages are there at once.
    end: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    fn new(body: Body, limit: Duration) -> Self {
        Self {
            body,
            limit,
            awaited: Some(Awaited {
                since: Instant::now(),
                prefix: Vec::new(),
                seen: 0,
                end: None,
            }),
        }
    }
}

impl Awaited {
    /// Takes note of what has come. Says whether the message is there.
    fn hear(&mut self, data: &[u8]) -> bool {
        let missing = PREFIX_BYTES - self.prefix.len();
        self.prefix.extend(data.iter().take(missing));
        self.seen = self.seen.saturating_add(data.len());
        let size: Option<[u8; 4]> = self.prefix.get(1..PREFIX_BYTES).and_then(|size| size.try_into().ok());
        size.is_some_and(|size| self.seen >= PREFIX_BYTES.saturating_add(u32::from_be_bytes(size) as usize))
    }
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.body).poll_frame(context);
        let Some(awaited) = &mut this.awaited else {
            return polled;
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if frame.data_ref().is_some_and(|data| awaited.hear(data)) {
                    this.awaited = None;
                }
            }
            // Whatever is wrong with it, it is over.
            Poll::Ready(Some(Err(_)) | None) => this.awaited = None,
            Poll::Pending => {
                let (since, limit) = (awaited.since, this.limit);
                let end = awaited.end.get_or_insert_with(|| Box::pin(sleep_until(since + limit)));
                if end.as_mut().poll(context).is_ready() {
                    (this.body, this.awaited) = (Body::empty(), None);
                    return Poll::Ready(Some(Err(status::message_too_late(limit))));
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use futures_util::stream;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    /// A body of these pieces, after which nothing comes and nothing ends.
    fn stalling(pieces: &[&'static [u8]]) -> Timed {
        let frames: Vec<_> = pieces
            .iter()
            .map(|piece| Frame::data(Bytes::from_static(piece)))
            .collect();
        let frames = stream::iter(frames).chain(stream::pending()).map(Ok::<_, Status>);
        Timed::new(Body::new(StreamBody::new(frames)), Duration::from_millis(20))
    }

    #[tokio::test]
    async fn half_a_message_is_waited_for_no_longer_than_that() {
        let cases: [&[&[u8]]; 3] = [&[], &[b"\0\0"], &[b"\0\0\0", b"\0\x03ab"]];
        for pieces in cases {
            let mut body = stalling(pieces);
            for _ in pieces {
                body.frame().await.unwrap().unwrap();
            }
            let status = body.frame().await.unwrap().unwrap_err();
            assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{pieces:?}");
            assert!(body.frame().await.is_none());
        }
    }

    #[tokio::test]
    async fn what_follows_may_take_its_time() {
        let mut body = stalling(&[b"\0\0\0\0", b"\x02a", b"b\0\0"]);
        for _ in 0..3 {
            body.frame().await.unwrap().unwrap();
        }
        let more = tokio::time::timeout(Duration::from_millis(200), body.frame()).await;
        assert!(more.is_err(), "{more:?}");
    }
}
