//! Messages as gRPC frames them: the first one of a request, and what the gateway answers itself.
//!
//! *Invariant:* a frame that is passed on is not changed, and nothing is read beyond the first message before a worker is
//! asked for it. The size of a message is known before room is made for it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::Stream;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use prost::Message;
use tonic::body::Body;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{HeaderMap, HeaderValue, Response};
use tonic::{Code, Status};
use toolgate_server::grpc::status;

/// Bytes before each message: whether it is compressed, and its size.
const PREFIX_BYTES: usize = 5;

/// The messages of a request, one after the other.
pub(crate) struct Messages {
    body: Body,
    read: BytesMut,
    limit: usize,
}

impl Messages {
    pub(crate) fn new(body: Body, limit: usize) -> Self {
        Self {
            body,
            read: BytesMut::new(),
            limit,
        }
    }

    /// Reads the next one; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(size) = size_of(&self.read, self.limit)?
                && self.read.len() >= PREFIX_BYTES + size
            {
                self.read.advance(PREFIX_BYTES);
                return Ok(Some(self.read.split_to(size).freeze()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(error),
                None if self.read.is_empty() => return Ok(None),
                None => return Err(Status::new(Code::Internal, "the request broke off within a message")),
            }
        }
    }

    /// Makes the request whole again behind a message that was read of it, to which something is added: what a field says last
    /// counts.
    pub(crate) fn behind(self, message: &[u8], added: &[u8]) -> Body {
        let mut framed = frame(message.len() + added.len());
        framed.extend_from_slice(message);
        framed.extend_from_slice(added);
        framed.extend_from_slice(&self.read);
        Body::new(Prefixed {
            first: Some(framed.freeze()),
            rest: self.body,
        })
    }
}

/// Takes the whole messages, in their frames, from what was read of an answer, and returns the last one by itself.
pub(crate) fn whole_frames(read: &mut BytesMut) -> Option<(Bytes, Bytes)> {
    let (mut end, mut last) = (0, 0);
    while let Some(mut prefix) = read.get(end..end + PREFIX_BYTES) {
        let _is_compressed = prefix.get_u8();
        let next = end + PREFIX_BYTES + prefix.get_u32() as usize;
        if next > read.len() {
            break;
        }
        (last, end) = (end, next);
    }
    let frames = (end > 0).then(|| read.split_to(end).freeze())?;
    let message = frames.slice(last + PREFIX_BYTES..);
    Some((frames, message))
}

/// Returns the size of the message that begins here, as soon as that is known.
fn size_of(read: &[u8], limit: usize) -> Result<Option<usize>, Status> {
    let Some(mut prefix) = read.get(..PREFIX_BYTES) else {
        return Ok(None);
    };
    if prefix.get_u8() != 0 {
        return Err(Status::unimplemented("messages are not to be compressed"));
    }
    let size = prefix.get_u32() as usize;
    if size > limit {
        let problem = format!("a message has {size} bytes, which is more than limits.max_message_bytes, {limit}");
        return Err(Status::new(Code::OutOfRange, problem));
    }
    Ok(Some(size))
}

fn frame(size: usize) -> BytesMut {
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + size);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(size).unwrap_or(u32::MAX));
    framed
}

/// Frames a message.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let mut framed = frame(message.encoded_len());
    // There is room for it: the buffer grows.
    let _ = message.encode(&mut framed);
    framed.freeze()
}

/// Frames a message that is encoded already.
pub(crate) fn frame_of(message: &[u8]) -> Bytes {
    let mut framed = frame(message.len());
    framed.extend_from_slice(message);
    framed.freeze()
}

/// Decodes a message of a client.
pub(crate) fn decode<M: Message + Default>(message: &[u8]) -> Result<M, Status> {
    M::decode(message).map_err(|error| Status::internal(format!("the request cannot be read: {error}")))
}

/// A body whose beginning was read already.
struct Prefixed {
    first: Option<Bytes>,
    rest: Body,
}

impl http_body::Body for Prefixed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }
}

/// Answers with one message.
pub(crate) fn unary(message: &impl Message) -> Response<Body> {
    let framed = framed(message);
    streaming(futures_util::stream::once(std::future::ready(Ok(framed))))
}

/// Answers with a stream of framed messages, and with the status at its end.
pub(crate) fn streaming(frames: impl Stream<Item = Result<Bytes, Status>> + Send + 'static) -> Response<Body> {
    let mut response = Response::new(Body::new(Answer {
        frames: Some(Box::pin(frames)),
    }));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// A body that ends with a status.
struct Answer {
    /// None when it is over.
    frames: Option<Frames>,
}

fn trailers(status: &Status) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        trailers.insert("grpc-status", HeaderValue::from_static("13"));
    }
    Frame::trailers(trailers)
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(frames) = self.frames.as_mut() else {
            return Poll::Ready(None);
        };
        let end = match ready!(frames.as_mut().poll_next(context)) {
            Some(Ok(frame)) => return Poll::Ready(Some(Ok(Frame::data(frame)))),
            Some(Err(status)) => status,
            None => Status::ok(""),
        };
        self.frames = None;
        Poll::Ready(Some(Ok(trailers(&end))))
    }
}

/// The body of a worker's answer, which keeps something until it is over. If the connection breaks, it ends with a status.
pub(crate) struct Passed<K> {
    body: Body,
    worker: String,
    ended: bool,
    _kept: K,
}

impl<K: Send + Unpin + 'static> Passed<K> {
    /// Hands an answer on.
    pub(crate) fn on(response: Response<Body>, worker: &str, kept: K) -> Response<Body> {
        // One that fails at once has its status in the headers, and no trailers.
        let ended = response.headers().contains_key("grpc-status");
        response.map(|body| {
            Body::new(Self {
                body,
                worker: worker.to_owned(),
                ended,
                _kept: kept,
            })
        })
    }
}

impl<K: Send + Unpin> http_body::Body for Passed<K> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let broke = match &frame {
            Some(Ok(frame)) => {
                self.ended |= frame.is_trailers();
                false
            }
            Some(Err(_)) | None => !self.ended,
        };
        if !broke {
            return Poll::Ready(frame);
        }
        if let Some(Err(error)) = &frame {
            tracing::debug!(%error, worker = self.worker, "the answer of a worker broke off");
        }
        self.ended = true;
        self.body = Body::empty();
        Poll::Ready(Some(Ok(trailers(&gone(&self.worker)))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// A worker cannot be reached.
pub(crate) fn gone(worker: &str) -> Status {
    status::worker_gone(&format!("the worker {worker} cannot be reached"))
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{CallContext, GetCallRequest, StatFileRequest};

    use super::*;

    fn body(chunks: Vec<&'static [u8]>) -> Body {
        let frames = chunks
            .into_iter()
            .map(|chunk| Ok::<_, Status>(Frame::data(Bytes::from_static(chunk))));
        Body::new(http_body_util::StreamBody::new(futures_util::stream::iter(frames)))
    }

    #[tokio::test]
    async fn a_first_message_is_found_in_whatever_pieces() {
        let mut pieces = Messages::new(body(vec![b"\0\0\0", b"\0\x03ab", b"cde", b"f"]), 3);
        let first = pieces.next().await.unwrap().unwrap();
        assert_eq!(&first[..], b"abc");
        let whole = pieces.behind(&first, b"").collect().await.unwrap().to_bytes();
        assert_eq!(&whole[..], b"\0\0\0\0\x03abcdef");
        assert!(Messages::new(body(vec![]), 3).next().await.unwrap().is_none());
        for (wrong, limit) in [
            (&b"\0\0\0\0\x04abcd"[..], 3),
            (b"\x01\0\0\0\x01a", 3),
            (b"\0\0\0\0\x03a", 3),
        ] {
            assert!(
                Messages::new(body(vec![wrong]), limit).next().await.is_err(),
                "{wrong:?}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_added_says_the_last_word_and_nothing_is_lost() {
        let request = StatFileRequest {
            context: Some(CallContext {
                session_id: "s".to_owned(),
                ..Default::default()
            }),
            path: "p".to_owned(),
            with_sha256: true,
        };
        let added = StatFileRequest {
            context: Some(CallContext {
                workspace: "w".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let framed = framed(&request);
        let mut whole = Messages::new(Body::new(http_body_util::Full::new(framed)), 100);
        let first = whole.next().await.unwrap().unwrap();
        let whole = whole.behind(&first, &added.encode_to_vec());
        let again = Messages::new(whole, 100).next().await.unwrap().unwrap();
        let read: StatFileRequest = decode(&again).unwrap();
        let context = read.context.unwrap();
        assert_eq!((context.session_id.as_str(), context.workspace.as_str()), ("s", "w"));
        assert!(read.path == "p" && read.with_sha256);
    }

    #[test]
    fn only_whole_messages_are_handed_on() {
        let mut read = BytesMut::from(&b"\0\0\0\0\x01a\0\0\0\0\x02bc\0\0\0\0\x02d"[..]);
        let (frames, last) = whole_frames(&mut read).unwrap();
        assert_eq!(
            (&frames[..], &last[..]),
            (&b"\0\0\0\0\x01a\0\0\0\0\x02bc"[..], &b"bc"[..])
        );
        assert!(whole_frames(&mut read).is_none());
        assert_eq!(&read[..], b"\0\0\0\0\x02d");
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_ends_with_a_status() {
        let frames = [
            Ok(Frame::data(Bytes::from_static(b"a"))),
            Err(Status::internal("reset")),
        ];
        let broken = Body::new(http_body_util::StreamBody::new(futures_util::stream::iter(frames)));
        for body in [broken, body(vec![b"a"])] {
            let passed = Passed::on(Response::new(body), "w", ());
            let collected = passed.into_body().collect().await.unwrap();
            let trailers = collected.trailers().unwrap();
            assert_eq!(trailers.get("grpc-status").unwrap(), "14");
        }
        let answered = unary(&GetCallRequest::default()).map(|body| body);
        let passed = Passed::on(answered, "w", ()).into_body().collect().await.unwrap();
        assert_eq!(passed.trailers().unwrap().get("grpc-status").unwrap(), "0");
    }
}
