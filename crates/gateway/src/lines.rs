//! The connections to one worker, and the streams on them.
//!
//! *Invariant:* a stream that a client does not read holds up no other one: each connection carries only as many as its window has room
//! for. A connection that nobody uses is not kept: a gateway has thousands of workers, and each connection takes more of its memory than
//! all that it knows of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};

/// Streams on one connection, and the bytes of each that may wait for a slow client. Together they fit into the window of the
/// connection, so that all of them may wait and another one still comes through.
const STREAMS: usize = 128;
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 40 * 1024 * 1024;

/// The connections to one worker, each made when it is needed.
#[derive(Default)]
pub(crate) struct Lines {
    lines: Mutex<Vec<Line>>,
    /// So many streams the worker lets one connection carry; zero while it has not said.
    carried: AtomicUsize,
}

/// One connection, and the streams on it.
struct Line {
    channel: Channel,
    streams: Arc<AtomicUsize>,
    /// Nothing has begun on it since it was looked at.
    is_idle: bool,
}

/// Something that is under way and counted; dropping it makes room.
pub(crate) struct Open(Arc<AtomicUsize>);

impl Open {
    /// Counts one more, and returns how many there were.
    pub(crate) fn one_more(counter: &Arc<AtomicUsize>) -> (Self, usize) {
        let before = counter.fetch_add(1, Ordering::Relaxed);
        (Self(counter.clone()), before)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sets how much may wait on each connection.
pub(crate) fn windowed(endpoint: Endpoint) -> Endpoint {
    endpoint
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
}

impl Line {
    fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }
}

impl Lines {
    /// Finds a connection with room for one more stream, or makes one.
    pub(crate) fn with_room(&self, make: impl FnOnce() -> Channel) -> (Channel, Open) {
        let mut lines = self.lines.lock();
        let most = match self.carried.load(Ordering::Relaxed) {
            0 => STREAMS,
            carried => carried.min(STREAMS),
        };
        let at = lines.iter().position(|line| line.streams() < most);
        let at = at.unwrap_or_else(|| {
            lines.push(Line {
                channel: make(),
                streams: Arc::default(),
                is_idle: false,
            });
            lines.len() - 1
        });
        let line = &mut lines[at];
        line.is_idle = false;
        let found = (line.channel.clone(), Open::one_more(&line.streams).0);
        // What a crowd needed is not kept when it is gone; one stays.
        let mut idle = lines.len();
        lines.retain(|line| {
            let is_used = line.streams() > 0;
            idle -= usize::from(!is_used && idle > 1);
            is_used || idle == 0
        });
        found
    }

    /// Takes note of how many streams the worker lets one connection carry: one more would wait there until another one ends, which may be
    /// never.
    pub(crate) fn carry(&self, most: i64) {
        self.carried
            .store(usize::try_from(most).unwrap_or_default(), Ordering::Relaxed);
    }

    /// Has new streams go on new connections.
    pub(crate) fn leave(&self) {
        self.lines.lock().clear();
    }

    /// Closes those on which nothing goes on; `at_once` also those on which something has since this was called last.
    pub(crate) fn hang_up(&self, at_once: bool) {
        let mut lines = self.lines.lock();
        lines.retain_mut(|line| {
            let was_idle = std::mem::replace(&mut line.is_idle, true);
            line.streams() > 0 || !(was_idle || at_once)
        });
        if lines.is_empty() {
            lines.shrink_to_fit();
        }
    }

    /// Says whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.lock().is_empty()
    }

    /// Returns how many streams there are.
    pub(crate) fn streams(&self) -> usize {
        self.lines.lock().iter().map(Line::streams).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio::time::timeout;
    use tonic::body::Body;
    use tonic::codegen::http::Request;
    use tower::ServiceExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_connection_that_nobody_uses_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let make = || windowed(Endpoint::from_shared(address.clone()).unwrap()).connect_lazy();
        let lines = Lines::default();
        assert!(lines.is_empty());

        for at_once in [false, true] {
            let (channel, open) = lines.with_room(make);
            // It is never answered: that there is a connection is all that matters.
            let request = Request::post(&address).body(Body::empty()).unwrap();
            let mut asking = JoinSet::new();
            asking.spawn(channel.oneshot(request));
            let (mut taken, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
            lines.hang_up(at_once);
            lines.hang_up(at_once);
            assert_eq!((lines.is_empty(), lines.streams()), (false, 1), "it is used");
            asking.shutdown().await;
            drop(open);
            assert_eq!(lines.streams(), 0);
            // What has just come to an end may be followed by something else.
            drop(lines.with_room(|| unreachable!("there is one with room")));
            if !at_once {
                lines.hang_up(at_once);
                assert!(!lines.is_empty());
            }
            lines.hang_up(at_once);
            assert!(lines.is_empty());
            let mut rest = Vec::new();
            timeout(PATIENCE, taken.read_to_end(&mut rest)).await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_connection_carries_no_more_than_the_worker_lets_it() {
        let endpoint = Endpoint::from_static("http://127.0.0.1:1");
        let lines = Lines::default();
        for (told, expected) in [(2, 3), (0, 1), (i64::MAX, 1), (1, 5)] {
            lines.carry(told);
            let open: Vec<_> = (0..5).map(|_| lines.with_room(|| endpoint.connect_lazy())).collect();
            let connections = lines.lines.lock().len();
            assert_eq!((connections, lines.streams()), (expected, 5), "{told}");
            drop(open);
            lines.leave();
        }
    }

    #[tokio::test]
    async fn what_a_crowd_needed_is_not_kept() {
        let endpoint = Endpoint::from_static("http://127.0.0.1:1");
        let lines = Lines::default();
        let connections = || lines.lines.lock().len();
        let crowd: Vec<_> = (0..3 * STREAMS)
            .map(|_| lines.with_room(|| endpoint.connect_lazy()))
            .collect();
        assert_eq!((connections(), lines.streams()), (3, 3 * STREAMS));
        drop(crowd);
        let _one = lines.with_room(|| endpoint.connect_lazy());
        assert_eq!((connections(), lines.streams()), (1, 1));
    }
}
