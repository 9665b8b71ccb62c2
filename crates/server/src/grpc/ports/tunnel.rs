//! WebSockets: connections that the program and the client have for themselves once the program has said so.
//!
//! A client by HTTP/1.1 is given its connection. A gateway, whose connections carry many requests by HTTP/2, has the bytes in
//! the bodies of its request and of the answer instead; a header says so on both sides.
//!
//! *Invariant:* whichever side ends, the other one hears of it, and nothing is kept open for the one that is gone.

use std::io;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, WriteHalf, copy_bidirectional,
};
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codegen::http::header::{CONNECTION, UPGRADE};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version};

use super::end_to_end;
use crate::grpc::arrival::Arrival;
use crate::grpc::takeover::Takeover;

/// Says of a request by HTTP/2 which protocol is to be spoken in the bodies, and of its answer that it is.
pub(super) const TUNNEL: HeaderName = HeaderName::from_static("toolgate-upgrade");

/// The only protocol.
const WEBSOCKET: &[u8] = b"websocket";

/// Bytes that are read at once, and those that wait between a connection and a body.
const PIECE: usize = 64 * 1024;

/// What a request asks for that wants a connection for itself.
pub struct Upgrade {
    protocol: HeaderValue,
    way: Way,
}

/// Where the client's bytes are.
enum Way {
    /// On the connection, which can be taken.
    Connection(Takeover),
    /// In the bodies.
    Bodies,
}

/// A client's connection that goes through a gateway.
pub struct Carried {
    takeover: Takeover,
    far: DuplexStream,
    writes: WriteHalf<DuplexStream>,
}

impl Upgrade {
    /// Returns what a request asks for, if it can have it.
    pub fn of(request: &Request<Body>) -> Option<Self> {
        let wanted = |name| {
            let protocol: Option<&HeaderValue> = request.headers().get(name);
            protocol.filter(|protocol| protocol.as_bytes().eq_ignore_ascii_case(WEBSOCKET))
        };
        if request.version() == Version::HTTP_11 {
            let arrival = request.extensions().get::<Arrival>()?;
            return Some(Self {
                protocol: wanted(UPGRADE)?.clone(),
                way: Way::Connection(arrival.takeover.clone()),
            });
        }
        Some(Self {
            protocol: wanted(TUNNEL)?.clone(),
            way: Way::Bodies,
        })
    }

    /// Makes a request ask a worker to have the connection in its bodies. None if the client has no connection to give.
    pub fn carry(self, request: &mut Request<Body>) -> Option<Carried> {
        let Way::Connection(takeover) = self.way else {
            return None;
        };
        let (near, far) = tokio::io::duplex(PIECE);
        let (reads, writes) = tokio::io::split(near);
        request.headers_mut().insert(TUNNEL, self.protocol);
        *request.body_mut() = body_of(reads, ());
        Some(Carried { takeover, far, writes })
    }

    /// Takes the client's bytes out of a request that has them in its body.
    pub(super) fn client_of(&self, request: &mut Request<Body>) -> Option<Body> {
        match self.way {
            Way::Connection(_) => None,
            Way::Bodies => Some(std::mem::replace(request.body_mut(), Body::empty())),
        }
    }

    /// Writes into the headers of a request to a program what is asked for.
    pub(super) fn ask(&self, headers: &mut HeaderMap) {
        switch(headers, self.protocol.clone());
    }

    /// Joins the client and the program, which has agreed.
    pub(super) async fn join<K: Send + 'static>(
        self,
        tunnels: &TaskTracker,
        client: Option<Body>,
        program: OnUpgrade,
        mut answer: Response<Body>,
        kept: K,
    ) -> hyper::Result<Response<Body>> {
        let Way::Connection(takeover) = self.way else {
            let (reads, writes) = tokio::io::split(TokioIo::new(program.await?));
            tunnels.spawn(pump(client.unwrap_or_default(), writes));
            *answer.status_mut() = StatusCode::OK;
            answer.headers_mut().insert(TUNNEL, self.protocol);
            return Ok(answer.map(|_| body_of(reads, kept)));
        };
        let taken = takeover.ask();
        tunnels.spawn(async move {
            let (Ok(client), Ok(program)) = (taken.await, program.await) else {
                return;
            };
            // How it ends, both sides see for themselves.
            let _ = copy_bidirectional(&mut { client }, &mut TokioIo::new(program)).await;
            drop(kept);
        });
        switch(answer.headers_mut(), self.protocol);
        Ok(answer.map(|_| Body::empty()))
    }
}

impl Carried {
    /// Joins the client and the worker, if the worker has agreed: returns the answer for the client, and what is to run until one
    /// of them ends it. Otherwise the answer is for the client as it is.
    pub fn join(self, answer: Response<Body>) -> (Response<Body>, Option<impl Future<Output = ()> + Send + use<>>) {
        let Some(protocol) = answer.headers().get(TUNNEL).cloned() else {
            return (answer, None);
        };
        let (head, worker) = answer.into_parts();
        let mut switched = Response::new(Body::empty());
        *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *switched.headers_mut() = end_to_end(&head.headers);
        switched.headers_mut().remove(TUNNEL);
        switch(switched.headers_mut(), protocol);
        let (taken, mut far) = (self.takeover.ask(), self.far);
        let both = async move {
            let carry = async move {
                if let Ok(client) = taken.await {
                    let _ = copy_bidirectional(&mut { client }, &mut far).await;
                }
            };
            tokio::join!(carry, pump(worker, self.writes));
        };
        (switched, Some(both))
    }
}

fn switch(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(UPGRADE, protocol);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
}

/// Makes a body of what is read, which keeps something until it is dropped.
fn body_of<K: Send + 'static>(reads: impl AsyncRead + Send + Unpin + 'static, kept: K) -> Body {
    let state = (reads, BytesMut::new(), kept);
    let frames = stream::try_unfold(state, |(mut reads, mut buffer, kept)| async move {
        buffer.reserve(PIECE);
        reads.read_buf(&mut (&mut buffer).limit(PIECE)).await?;
        let data: Bytes = buffer.split().freeze();
        let next = (!data.is_empty()).then(|| (Frame::data(data), (reads, buffer, kept)));
        Ok::<_, io::Error>(next)
    });
    Body::new(StreamBody::new(frames))
}

/// Writes what a body brings, and then the end of it.
async fn pump(mut body: Body, mut writes: impl AsyncWrite + Unpin) {
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data()
            && writes.write_all(&data).await.is_err()
        {
            return;
        }
    }
    let _ = writes.shutdown().await;
}
