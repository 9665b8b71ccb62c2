//! What the programs of calls listen on, opened and connected to.
//!
//! *Invariant:* a connection carries bytes in both directions, and each side ends by itself. One that was made is not made again.

use std::fmt;
use std::future::ready;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready as poll_ready};

use bytes::{Buf as _, Bytes};
use futures_util::{Stream as _, StreamExt as _, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::PollSender;
use tonic::{Code, Status, Streaming};
use toolgate_contract::{
    Call, CallContext, ConnectPortRequest, ConnectPortResponse, OpenPortRequest, OpenPortResponse,
};

use crate::call_request::CallRequest;
use crate::client::Client;
use crate::error::Error;

/// Bytes in one message.
const PIECE: usize = 64 * 1024;

/// Messages that wait for the network.
const MAX_QUEUED: usize = 4;

/// A port that was opened: a call keeps it open until [`Self::close`], or until the program's call ends.
#[derive(Clone, Debug)]
pub struct OpenedPort {
    client: Client,
    opened: OpenPortResponse,
}

impl Client {
    /// Prepares to open a port that a program of a call listens on, which asks for the permission `port`.
    pub fn open_port(&self, call_id: impl Into<String>, port: u16) -> CallRequest<OpenPortRequest> {
        let request = OpenPortRequest {
            call_id: call_id.into(),
            port: port.into(),
            ..OpenPortRequest::default()
        };
        CallRequest::new(self, CallContext::default(), request)
    }
}

impl CallRequest<OpenPortRequest> {
    /// Opens the port, and returns when that was allowed. An error has the service's reason. Dropping what this returns
    /// leaves the port open.
    pub async fn run(self) -> Result<OpenedPort, Error> {
        let (workspace, directory) = (self.context.workspace.clone(), self.context.directory.clone());
        let (client, mut call, request) = self.into_parts();
        if let Some(context) = &mut call.context {
            // Where the client works otherwise does not matter: without a workspace, that of the call to reach is meant.
            (context.workspace, context.directory) = (workspace, directory);
        }
        let request = OpenPortRequest {
            call: Some(call),
            ..request
        };
        let rpc = |request| {
            let mut service = client.port_service();
            async move { service.open_port(request).await }
        };
        let opened = client.retry(request, None, rpc).await?;
        Ok(OpenedPort { client, opened })
    }
}

impl OpenedPort {
    /// Returns the id of the call that keeps the port open.
    pub fn call_id(&self) -> &str {
        &self.opened.call_id
    }

    /// Returns the path under which the service hands HTTP requests to the port, `/ports/SECRET/`. Whoever knows it needs no
    /// other credentials.
    pub fn http_path(&self) -> &str {
        &self.opened.http_path
    }

    /// Makes a connection to the port.
    pub async fn connect(&self) -> Result<PortConnection, Error> {
        let (sender, messages) = mpsc::channel(MAX_QUEUED);
        let first = ConnectPortRequest {
            call_id: self.opened.call_id.clone(),
            data: Bytes::new(),
        };
        let requests = stream::once(ready(first)).chain(ReceiverStream::new(messages));
        let mut service = self.client.port_service();
        let connect = async {
            let mut stream = service.connect_port(requests).await?.into_inner();
            // The first message says that the connection is made.
            let first = stream.message().await?.ok_or(Error::Protocol("connection"))?;
            Ok((stream, first.data))
        };
        let (stream, received) = self.client.unless_closed(connect).await?;
        Ok(PortConnection {
            sender: PollSender::new(sender),
            stream,
            received,
        })
    }

    /// Closes the port and its connections, and returns the record of the call that kept it open.
    pub async fn close(&self) -> Result<Call, Error> {
        self.client.cancel_call(self.call_id()).await
    }
}

/// A connection to an opened port. Shutting down the writing side lets the program read the end, and reading goes on until the
/// program has closed its side as well. Dropping it breaks the connection.
///
/// An error that the service tells is an [`io::Error`] around an [`Error`] with its reason.
pub struct PortConnection {
    sender: PollSender<ConnectPortRequest>,
    stream: Streaming<ConnectPortResponse>,
    /// What has arrived and was not read yet.
    received: Bytes,
}

impl fmt::Debug for PortConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortConnection").finish_non_exhaustive()
    }
}

fn broken(status: Status) -> io::Error {
    let kind = if status.code() == Code::Aborted {
        io::ErrorKind::ConnectionReset
    } else {
        io::ErrorKind::Other
    };
    io::Error::new(kind, Error::from(status))
}

fn not_taken<E>(_: E) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl AsyncRead for PortConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.received.is_empty() {
            match poll_ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                Some(Ok(message)) => self.received = message.data,
                Some(Err(status)) => return Poll::Ready(Err(broken(status))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let size = self.received.len().min(buffer.remaining());
        buffer.put_slice(&self.received[..size]);
        self.received.advance(size);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PortConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        poll_ready!(self.sender.poll_reserve(cx)).map_err(not_taken)?;
        let size = data.len().min(PIECE);
        let message = ConnectPortRequest {
            call_id: String::new(),
            data: Bytes::copy_from_slice(&data[..size]),
        };
        self.sender.send_item(message).map_err(not_taken)?;
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sender.close();
        Poll::Ready(Ok(()))
    }
}
