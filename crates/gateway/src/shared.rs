//! Calls that several clients watch here: their worker sends each event once, and not once for each of them.
//!
//! *Invariant:* whoever shares a stream has had one of its own first, which the worker has let it have, and goes on behind the last event
//! of that. Nobody waits for a slow client: one that falls behind what is kept here has a stream of its own again, and keeps it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tonic::Status;
use tonic::body::Body;

use crate::wire::whole_frames;

/// How many parts of a stream are kept for those who are behind, and how many bytes.
const PARTS: usize = 256;
const BYTES: usize = 256 * 1024;

/// A call at a worker.
type Key = (String, String);

/// The calls that are watched.
#[derive(Clone)]
pub(crate) struct Shared {
    calls: Arc<Mutex<HashMap<Key, Arc<Watched>>>>,
    tasks: TaskTracker,
}

/// A call that is watched.
#[derive(Default)]
struct Watched {
    watchers: AtomicUsize,
    stream: Mutex<Option<(Arc<Stream>, AbortOnDropHandle<()>)>>,
}

/// Somebody who watches a call; dropping it ends that.
pub(crate) struct Watching {
    shared: Shared,
    key: Key,
    watched: Arc<Watched>,
}

/// The stream that all who watch a call have in common.
struct Stream {
    kept: Mutex<Kept>,
    /// How many parts have come; closed at the end.
    come: watch::Sender<u64>,
}

struct Kept {
    parts: VecDeque<Part>,
    bytes: usize,
    /// How many parts have come.
    count: u64,
    /// The number of the last event.
    last: i64,
    /// How it ended; with none it broke.
    end: Option<Status>,
    is_over: bool,
}

/// Whole messages in their frames: what comes behind one event, up to another one.
#[derive(Clone)]
struct Part {
    after: i64,
    last: i64,
    frames: Bytes,
}

/// A reader of a shared stream.
pub(crate) struct Reader {
    stream: Arc<Stream>,
    come: watch::Receiver<u64>,
    /// How many parts it has read.
    read: u64,
}

/// What comes next for a reader.
#[derive(Debug)]
pub(crate) enum Next {
    /// Messages, up to the event of this number.
    Frames(Bytes, i64),
    /// The stream has ended like this.
    Ended(Status),
    /// The stream broke.
    Broken,
    /// The reader has missed something.
    Behind,
}

/// How far a message brings whoever has read so far.
pub(crate) type Position = fn(i64, &Bytes) -> i64;

impl Shared {
    /// Makes room for what is shared; tasks run among these.
    pub(crate) fn new(tasks: TaskTracker) -> Self {
        Self {
            calls: Arc::default(),
            tasks,
        }
    }

    /// Takes note that somebody watches a call.
    pub(crate) fn watch(&self, worker: &str, call: &str) -> Watching {
        let key = (worker.to_owned(), call.to_owned());
        let mut calls = self.calls.lock();
        let watched = calls.entry(key.clone()).or_default().clone();
        watched.watchers.fetch_add(1, Ordering::Relaxed);
        drop(calls);
        Watching {
            shared: self.clone(),
            key,
            watched,
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut calls = self.shared.calls.lock();
        if self.watched.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            calls.remove(&self.key);
        }
    }
}

impl Watching {
    /// Says whether somebody else watches the call, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.watched.watchers.load(Ordering::Relaxed) > 1
    }

    /// Joins those who share a stream, behind the event of this number; it is opened if there is none. None if it is further: then its own
    /// stream has to catch up.
    pub(crate) fn join(
        &self,
        after: i64,
        position: Position,
        open: impl Future<Output = Result<Body, Status>> + Send + 'static,
    ) -> Option<Reader> {
        let mut stream = self.watched.stream.lock();
        let is_over = stream.as_ref().is_none_or(|(stream, _)| stream.kept.lock().is_over);
        if is_over {
            let new = Arc::new(Stream::behind(after));
            let filled = new.clone();
            let task = self.shared.tasks.spawn(async move {
                filled.fill(open, position).await;
                filled.close();
            });
            *stream = Some((new, AbortOnDropHandle::new(task)));
        }
        let (stream, _) = stream.as_ref()?;
        let kept = stream.kept.lock();
        (kept.last <= after).then(|| Reader {
            stream: stream.clone(),
            come: stream.come.subscribe(),
            read: kept.count,
        })
    }
}

impl Stream {
    fn behind(last: i64) -> Self {
        Self {
            kept: Mutex::new(Kept {
                parts: VecDeque::new(),
                bytes: 0,
                count: 0,
                last,
                end: None,
                is_over: false,
            }),
            come: watch::Sender::new(0),
        }
    }

    /// Reads the stream to its end, or until nobody reads it here.
    async fn fill(&self, open: impl Future<Output = Result<Body, Status>>, position: Position) {
        // Whoever opens it may have lost a right to it that the others have.
        let Ok(mut body) = open.await else { return };
        let mut read = BytesMut::new();
        while let Some(Ok(frame)) = body.frame().await {
            match frame.into_data() {
                Ok(data) => {
                    read.extend_from_slice(&data);
                    if let Some((frames, last)) = whole_frames(&mut read)
                        && !self.push(frames, |before| position(before, &last))
                    {
                        return;
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    self.kept.lock().end = Status::from_header_map(&trailers);
                    return;
                }
            }
        }
    }

    /// Keeps messages for all; says whether anybody reads them.
    fn push(&self, frames: Bytes, position: impl FnOnce(i64) -> i64) -> bool {
        let mut kept = self.kept.lock();
        // Under the lock, under which they come.
        if self.come.receiver_count() == 0 {
            kept.is_over = true;
            return false;
        }
        let after = kept.last;
        kept.last = position(after);
        kept.bytes += frames.len();
        let last = kept.last;
        kept.parts.push_back(Part { after, last, frames });
        while kept.parts.len() > PARTS || (kept.bytes > BYTES && kept.parts.len() > 1) {
            let Some(oldest) = kept.parts.pop_front() else { break };
            kept.bytes -= oldest.frames.len();
        }
        kept.count += 1;
        self.come.send_replace(kept.count);
        true
    }

    /// Tells all readers that nothing more comes.
    fn close(&self) {
        let mut kept = self.kept.lock();
        kept.is_over = true;
        self.come.send_replace(u64::MAX);
    }
}

impl Reader {
    /// Returns what comes behind the event of this number.
    pub(crate) async fn next(&mut self, after: i64) -> Next {
        loop {
            let read = self.read;
            let _ = self.come.wait_for(|come| *come > read).await;
            let kept = self.stream.kept.lock();
            let at = kept.count - kept.parts.len() as u64;
            if self.read < at {
                return Next::Behind;
            }
            let Some(part) = usize::try_from(self.read - at).ok().and_then(|at| kept.parts.get(at)) else {
                return kept.end.clone().map_or(Next::Broken, Next::Ended);
            };
            self.read += 1;
            if part.after == after {
                return Next::Frames(part.frames.clone(), part.last);
            }
            // Its own stream had this already; it cannot have had a part of it only and go on.
            if part.last > after {
                return Next::Behind;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;
    use tonic::codegen::http::HeaderMap;

    use super::*;
    use crate::wire::frame_of;

    /// A message is the number of its event.
    const POSITION: Position = |before, message| std::str::from_utf8(message).unwrap().parse().unwrap_or(before);

    struct Worker {
        sends: mpsc::Sender<Frame<Bytes>>,
        body: Option<Body>,
    }

    impl Worker {
        fn new() -> Self {
            let (sends, sent) = mpsc::channel(PARTS + 10);
            let body = StreamBody::new(ReceiverStream::new(sent).map(Ok::<_, Status>));
            Self {
                sends,
                body: Some(Body::new(body)),
            }
        }

        fn join(&mut self, watching: &Watching, after: i64) -> Option<Reader> {
            let body = self.body.take().ok_or_else(|| Status::internal("it was opened twice"));
            watching.join(after, POSITION, async { body })
        }

        async fn says(&self, messages: &[&str]) {
            let frames: Vec<u8> = messages.iter().flat_map(|one| frame_of(one.as_bytes())).collect();
            self.sends.send(Frame::data(frames.into())).await.unwrap();
        }
    }

    #[track_caller]
    fn has(next: Next, expected: i64) {
        assert!(matches!(next, Next::Frames(_, last) if last == expected), "{next:?}");
    }

    #[tokio::test]
    async fn one_stream_is_read_by_all_who_have_come_as_far() {
        let (shared, mut worker) = (Shared::new(TaskTracker::new()), Worker::new());
        let one = shared.watch("w", "call");
        assert!(!one.is_shared());
        let other = shared.watch("w", "call");
        assert!(one.is_shared() && !shared.watch("other", "call").is_shared());
        let mut first = worker.join(&one, 3).unwrap();
        // Its own stream was faster, and has had what comes first here.
        let mut second = worker.join(&other, 5).unwrap();
        worker.says(&["4", "5"]).await;
        worker.says(&["heartbeat"]).await;
        worker.says(&["6"]).await;
        for (after, expected) in [(3, 5), (5, 5), (5, 6)] {
            has(first.next(after).await, expected);
        }
        for expected in [5, 6] {
            has(second.next(5).await, expected);
        }
        // It is further than the third one, whose own stream has to catch up.
        let late = shared.watch("w", "call");
        assert!(worker.join(&late, 4).is_none());
        let mut third = worker.join(&late, 6).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        worker.sends.send(Frame::trailers(trailers)).await.unwrap();
        for reader in [&mut first, &mut second, &mut third] {
            let next = reader.next(6).await;
            assert!(
                matches!(&next, Next::Ended(status) if status.code() == tonic::Code::Ok),
                "{next:?}"
            );
        }
        drop((one, other, late));
        assert!(shared.calls.lock().is_empty());
    }

    #[tokio::test]
    async fn who_is_behind_is_told_and_holds_up_nobody() {
        let (shared, mut worker) = (Shared::new(TaskTracker::new()), Worker::new());
        let watching = shared.watch("w", "call");
        let mut slow = worker.join(&watching, 0).unwrap();
        let mut quick = worker.join(&watching, 0).unwrap();
        // One that has had a part of what comes at once.
        let mut half = worker.join(&watching, 1).unwrap();
        worker.says(&["1", "2"]).await;
        assert!(matches!(half.next(1).await, Next::Behind));
        has(quick.next(0).await, 2);
        for number in 3..PARTS as i64 + 3 {
            worker.says(&[&number.to_string()]).await;
            has(quick.next(number - 1).await, number);
        }
        assert!(matches!(slow.next(0).await, Next::Behind));
        drop(worker);
        assert!(matches!(quick.next(PARTS as i64 + 2).await, Next::Broken));
    }

    #[tokio::test]
    async fn a_stream_that_nobody_reads_is_closed() {
        let (tasks, mut worker) = (TaskTracker::new(), Worker::new());
        let shared = Shared::new(tasks.clone());
        let watching = shared.watch("w", "call");
        let reader = worker.join(&watching, 0).unwrap();
        drop(reader);
        worker.says(&["1"]).await;
        worker.sends.closed().await;
        // The next one has another.
        let mut worker = Worker::new();
        let mut reader = worker.join(&watching, 1).unwrap();
        worker.says(&["2"]).await;
        has(reader.next(1).await, 2);
        drop(watching);
        worker.sends.closed().await;
        tasks.close();
        tasks.wait().await;
    }
}
