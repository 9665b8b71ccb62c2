//! Writing many frames at once.
//!
//! HTTP/2 hands its connection one frame at a time, of 16 KiB unless the client takes larger ones, and flushes each. A
//! stream of much output would so cost a system call for every frame, and wake its reader as often. Here the frames of a
//! burst are gathered, and written when there are enough of them or the burst is over: then comes a flush with nothing
//! written since the one before.
//!
//! *Invariant:* bytes keep their order. Small messages are written with their flush; what is gathered waits at most until
//! the task of the connection has its next turn, for which it is woken.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// So much is written whatever follows.
const MAX_GATHERED_BYTES: usize = 128 * 1024;

/// Less than this is no part of a burst.
const MIN_BURST_BYTES: usize = 8 * 1024;

/// A connection whose bursts are gathered.
pub(super) struct CoalescingWriter<S> {
    connection: S,
    gathered: BytesMut,
    /// Something was written since the last flush.
    is_fresh: bool,
}

impl<S> CoalescingWriter<S> {
    pub(super) fn new(connection: S) -> Self {
        Self {
            connection,
            gathered: BytesMut::new(),
            is_fresh: false,
        }
    }
}

impl<S: AsyncWrite + Unpin> CoalescingWriter<S> {
    /// Writes everything that is gathered.
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            let written = ready!(Pin::new(&mut self.connection).poll_write(cx, &self.gathered))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gathered.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescingWriter<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.gathered.len() >= MAX_GATHERED_BYTES {
            ready!(self.poll_write_out(cx))?;
        }
        let before = self.gathered.len();
        for piece in pieces {
            // A frame beyond that is taken in parts: a connection that takes nothing must hold little.
            let room = MAX_GATHERED_BYTES - self.gathered.len();
            self.gathered.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        self.is_fresh = true;
        Poll::Ready(Ok(self.gathered.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_fresh = std::mem::take(&mut self.is_fresh);
        if is_fresh && (MIN_BURST_BYTES..MAX_GATHERED_BYTES).contains(&self.gathered.len()) {
            // Should no other flush follow, the next turn of the task makes one.
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_write_out(cx))?;
        if self.gathered.capacity() > MIN_BURST_BYTES {
            // A connection on which nothing happens holds no memory for what may.
            self.gathered = BytesMut::new();
        }
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescingWriter<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, buffer)
    }
}

impl<S: Connected> Connected for CoalescingWriter<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.connection.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use proptest::prelude::*;

    use super::*;

    /// Keeps what is written to it, write by write, and takes only so many bytes at a time.
    struct Wire {
        writes: Vec<Vec<u8>>,
        takes: usize,
        is_tired: bool,
    }

    impl AsyncWrite for Wire {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            // With a limit, every other attempt has to be repeated.
            self.is_tired = !self.is_tired && self.takes < usize::MAX;
            if self.is_tired {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let taken = bytes.len().min(self.takes);
            self.writes.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn bursts(takes: usize) -> CoalescingWriter<Wire> {
        CoalescingWriter::new(Wire {
            writes: Vec::new(),
            takes,
            is_tired: false,
        })
    }

    /// Writes and flushes as HTTP/2 does it for one frame.
    fn frame(bursts: &mut CoalescingWriter<Wire>, cx: &mut Context<'_>, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(9));
            if let Poll::Ready(written) =
                Pin::new(&mut *bursts).poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(rest)])
            {
                bytes = &bytes[written.expect("it can be written")..];
            }
        }
        flush(bursts, cx);
    }

    fn flush(bursts: &mut CoalescingWriter<Wire>, cx: &mut Context<'_>) {
        while Pin::new(&mut *bursts).poll_flush(cx).is_pending() {}
    }

    #[test]
    fn what_is_small_goes_at_once_and_a_burst_together() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        let mut bursts = bursts(usize::MAX);
        frame(&mut bursts, &mut cx, b"hello");
        assert_eq!(bursts.connection.writes, [b"hello"]);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);

        for _ in 0..3 {
            frame(&mut bursts, &mut cx, &[1; 16 * 1024]);
        }
        frame(&mut bursts, &mut cx, &[2; 10]);
        assert_eq!(bursts.connection.writes.len(), 1, "more may follow");
        assert!(wakes.0.load(Ordering::Relaxed) > 0, "somebody flushes if nothing does");
        flush(&mut bursts, &mut cx);
        assert_eq!(bursts.connection.writes[1].len(), 3 * 16 * 1024 + 10);
        assert_eq!(bursts.gathered.capacity(), 0, "a silent connection holds nothing");

        for _ in 0..9 {
            frame(&mut bursts, &mut cx, &[1; 16 * 1024]);
        }
        assert_eq!(bursts.connection.writes[2].len(), MAX_GATHERED_BYTES);
        assert!(Pin::new(&mut bursts).poll_shutdown(&mut cx).is_ready());
        assert_eq!(bursts.connection.writes.len(), 4, "the last of it");
    }

    proptest! {
        #[test]
        fn every_byte_is_written_in_order(
            frames in proptest::collection::vec(1usize..300_000, 0..8),
            takes in prop_oneof![Just(usize::MAX), 500usize..100_000],
        ) {
            let mut cx = Context::from_waker(Waker::noop());
            let mut bursts = bursts(takes);
            let bytes: Vec<u8> = (0..=250).cycle().take(frames.iter().sum()).collect();
            let mut rest = bytes.as_slice();
            for length in frames {
                let (one, others) = rest.split_at(length);
                frame(&mut bursts, &mut cx, one);
                prop_assert!(bursts.gathered.len() <= MAX_GATHERED_BYTES);
                rest = others;
            }
            flush(&mut bursts, &mut cx);
            prop_assert_eq!(bursts.connection.writes.concat(), bytes);
        }
    }
}
