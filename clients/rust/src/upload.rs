//! Contents that are sent piece by piece.
//!
//! *Invariant:* what was read of a content is kept until it is written, so that it can be sent again over another connection. A
//! content that cannot be read to its end is not sent as if it had ended.

use std::fmt;
use std::future::ready;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex as BlockingMutex;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{Mutex, Notify};
use tonic::Request;
use toolgate_contract::{
    ArchiveTarget, UploadArchiveRequest, UploadArchiveResponse, UploadFileRequest, UploadFileResponse,
    WriteFileRequest, WriteTarget,
};

use crate::call_request::CallRequest;
use crate::error::Error;

/// Bytes in one message.
const PIECE: usize = 256 * 1024;

/// A content to send, and where it goes.
#[derive(Debug)]
pub struct Upload<T> {
    target: T,
    content: Content,
}

/// A content, as far as it was read.
struct Content {
    source: Mutex<Source>,
    failure: BlockingMutex<Option<io::Error>>,
    failed: Notify,
}

struct Source {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    pieces: Vec<Bytes>,
    has_ended: bool,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

impl<T> Upload<T> {
    pub(crate) fn new(target: T, reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let source = Source {
            reader: Box::new(reader),
            pieces: Vec::new(),
            has_ended: false,
        };
        Self {
            target,
            content: Content {
                source: Mutex::new(source),
                failure: BlockingMutex::default(),
                failed: Notify::new(),
            },
        }
    }
}

impl Content {
    /// Returns all pieces from the first on.
    fn pieces(self: &Arc<Self>) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold((Arc::clone(self), 0), async |(content, at)| {
            let piece = content.piece(at).await?;
            Some((piece, (content, at + 1)))
        })
    }

    /// Returns a piece, `None` behind the last one; waits for ever if it cannot be read.
    async fn piece(&self, at: usize) -> Option<Bytes> {
        let mut source = self.source.lock().await;
        if let Some(piece) = source.pieces.get(at) {
            return Some(piece.clone());
        }
        if source.has_ended {
            return None;
        }
        let mut piece = BytesMut::with_capacity(PIECE);
        match source.reader.read_buf(&mut piece).await {
            Ok(0) => {
                source.has_ended = true;
                None
            }
            Ok(_) => {
                let piece = piece.freeze();
                source.pieces.push(piece.clone());
                Some(piece)
            }
            Err(error) => {
                *self.failure.lock() = Some(error);
                self.failed.notify_one();
                std::future::pending().await
            }
        }
    }

    /// Waits until the content cannot be read.
    async fn failure(&self) -> Error {
        loop {
            self.failed.notified().await;
            if let Some(error) = self.failure.lock().take() {
                return Error::Content(error);
            }
        }
    }
}

/// Gives uploads their `run`.
macro_rules! uploads {
    ($($rpc:ident: $target:ident, $request:ident { $data:ident } => $response:ident;)*) => {
        $(
            impl CallRequest<Upload<$target>> {
                /// Sends the content, and returns when it is written. An error has the service's reason, and the `call_id`
                /// in its metadata once there is a call.
                pub async fn run(self) -> Result<$response, Error> {
                    let (client, call, upload) = self.into_parts();
                    let first = $request {
                        call: Some(call),
                        target: Some(upload.target),
                        ..$request::default()
                    };
                    let content = Arc::new(upload.content);
                    let rpc = |first: Request<$request>| {
                        let mut service = client.file_service();
                        let others = content.pieces().map(|$data| $request { $data, ..$request::default() });
                        let messages = stream::once(ready(first.into_inner())).chain(others);
                        async move { service.$rpc(messages).await }
                    };
                    tokio::select! {
                        error = content.failure() => Err(error),
                        written = client.retry(first, None, rpc) => written,
                    }
                }
            }
        )*
    };
}

uploads! {
    upload_file: WriteTarget, UploadFileRequest { content } => UploadFileResponse;
    upload_archive: ArchiveTarget, UploadArchiveRequest { data } => UploadArchiveResponse;
}

/// Gives requests that write a file what they say of it.
macro_rules! targets {
    ($($request:ty: |$this:ident| $target:expr;)*) => {
        $(
            impl CallRequest<$request> {
                /// Sets the permission bits of the file, at most `0o777`; by default those that it has, or that the
                /// system gives to new files.
                pub fn mode(mut self, mode: u32) -> Self {
                    let $this = &mut self.request;
                    $target.mode = Some(mode);
                    self
                }

                /// Replaces only a file with this SHA-256, 64 hexadecimal digits: otherwise the reason is
                /// `CONTENT_DIFFERS`.
                pub fn if_sha256(mut self, digest: impl Into<String>) -> Self {
                    let $this = &mut self.request;
                    $target.if_sha256 = digest.into();
                    self
                }

                /// Writes only where nothing is: otherwise the reason is `ALREADY_THERE`.
                pub fn if_absent(mut self) -> Self {
                    let $this = &mut self.request;
                    $target.if_absent = true;
                    self
                }
            }
        )*
    };
}

targets! {
    WriteFileRequest: |request| request.target.get_or_insert_default();
    Upload<WriteTarget>: |upload| upload.target;
}

impl CallRequest<Upload<ArchiveTarget>> {
    /// Writes only if none of the archive's files is there: otherwise the reason is `ALREADY_THERE`.
    pub fn if_absent(mut self) -> Self {
        self.request.target.if_absent = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    struct Broken;

    impl AsyncRead for Broken {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("broken")))
        }
    }

    #[tokio::test]
    async fn a_content_is_sent_again_from_its_beginning() {
        let reader = [&b"one"[..], b"two"].concat();
        let content = Arc::new(Upload::new((), io::Cursor::new(reader)).content);
        for _ in 0..2 {
            let pieces: Vec<Bytes> = content.pieces().collect().await;
            assert_eq!(pieces.concat(), b"onetwo");
        }
    }

    #[tokio::test]
    async fn a_content_that_cannot_be_read_has_no_end() {
        let broken = (&b"one"[..]).chain(Broken);
        let content = Arc::new(Upload::new((), broken).content);
        let mut pieces = Box::pin(content.pieces());
        assert_eq!(pieces.next().await.as_deref(), Some(&b"one"[..]));
        tokio::select! {
            piece = pieces.next() => panic!("{piece:?}"),
            error = content.failure() => assert!(matches!(error, Error::Content(_)), "{error:?}"),
        }
    }
}
