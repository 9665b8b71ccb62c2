//! A body that somebody looks at while it passes.
//!
//! *Invariant:* it is handed on as it is, frame by frame, and is as long as it was; only who looks can end it early, with a status.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// A body, and who looks at its frames.
struct Watched<L> {
    body: Body,
    look: L,
}

/// Returns the body with somebody who looks at each frame before it goes on, and who stays until the body is gone.
pub fn watched<L>(body: Body, look: L) -> Body
where
    L: FnMut(&Frame<Bytes>) -> Result<(), Status> + Send + Unpin + 'static,
{
    Body::new(Watched { body, look })
}

impl<L> http_body::Body for Watched<L>
where
    L: FnMut(&Frame<Bytes>) -> Result<(), Status> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(match frame {
            Some(Ok(frame)) => Some((self.look)(&frame).map(|()| frame)),
            Some(Err(_)) | None => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
