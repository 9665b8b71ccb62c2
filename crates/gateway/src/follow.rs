//! Following a stream of each worker, for as long as a client listens.
//!
//! *Invariant:* one task for each worker and client, and one bounded buffer for each client: whoever reads slowly holds up the streams
//! of its own only. A worker that goes away ends nothing: its stream is opened again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tonic::{Code, Status};
use toolgate_server::grpc::auth::OnBehalf;

use crate::parts::Parts;
use crate::worker::Worker;

/// Messages that wait for one client.
const BUFFER: usize = 16;

/// How long to wait before a worker is tried again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What comes of one worker: which one that is, and what it says.
pub(crate) type News<T> = Result<(usize, T), Status>;

/// What all attempts to follow one worker share.
pub(crate) struct Follower<T> {
    pub(crate) parts: Arc<Parts>,
    pub(crate) caller: OnBehalf,
    pub(crate) worker: Arc<Worker>,
    at: usize,
    heard: mpsc::Sender<News<T>>,
}

/// A stream of a worker, and what one attempt to follow it leaves for the next.
pub(crate) trait Followed: Send + 'static {
    /// What the client's side is told.
    type Told: Send + 'static;

    /// Follows the stream until it ends, which is told as an error. Returns without one when the client is gone.
    fn once(&mut self, by: &Follower<Self::Told>) -> impl Future<Output = Result<(), Status>> + Send;
}

impl<T> Follower<T> {
    /// Tells the client's side something. Says whether it still listens.
    pub(crate) async fn tell(&self, told: T) -> bool {
        self.heard.send(Ok((self.at, told))).await.is_ok()
    }
}

/// Runs one task for each worker, also for those that come later, which end with the stream. Those that are there now have the
/// first numbers.
pub(crate) fn of_all<F: Followed>(
    parts: &Arc<Parts>,
    caller: &OnBehalf,
    mut followed: impl FnMut(&Worker) -> F + Send + 'static,
) -> (mpsc::Receiver<News<F::Told>>, JoinSet<()>) {
    let (heard, receiver) = mpsc::channel(BUFFER);
    let (parts, caller) = (parts.clone(), caller.clone());
    let mut known = parts.registry.subscribe();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut numbers, mut running) = (0.., Vec::<(Arc<Worker>, AbortHandle)>::new());
        let mut followers = JoinSet::new();
        loop {
            known.mark_unchanged();
            let workers = parts.registry.workers_for(&caller);
            let is_one = |worker: &Arc<Worker>| workers.iter().any(|one| Arc::ptr_eq(one, worker));
            for (_, task) in running.extract_if(.., |(worker, _)| !is_one(worker)) {
                task.abort();
            }
            for worker in &workers {
                if running.iter().any(|(one, _)| Arc::ptr_eq(one, worker)) {
                    continue;
                }
                let Some(at) = numbers.next() else { return };
                let by = Follower {
                    parts: parts.clone(),
                    caller: caller.clone(),
                    worker: worker.clone(),
                    at,
                    heard: heard.clone(),
                };
                let task = followers.spawn(follow(by, followed(worker)));
                running.push((worker.clone(), task));
            }
            while followers.try_join_next().is_some() {}
            if known.changed().await.is_err() {
                return;
            }
        }
    });
    (receiver, tasks)
}

async fn follow<F: Followed>(by: Follower<F::Told>, mut followed: F) {
    let mut pause = PAUSES.0;
    loop {
        let began = Instant::now();
        match followed.once(&by).await {
            Ok(()) => return,
            Err(status) if may_come_back(&status) => {}
            Err(status) => {
                let _ = by.heard.send(Err(status)).await;
                return;
            }
        }
        // One that held for a while broke for another reason than the one before.
        if began.elapsed() > PAUSES.1 {
            pause = PAUSES.0;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Says whether a stream that ended so may be opened again.
fn may_come_back(status: &Status) -> bool {
    [
        Code::Unavailable,
        // It is about the gateway: whether the client may, the gateway knows. A worker that starts does not know it yet.
        Code::Unauthenticated,
        Code::ResourceExhausted,
        Code::Aborted,
        Code::Cancelled,
        Code::Unknown,
        Code::Internal,
    ]
    .contains(&status.code())
}

/// What a stream ends with that a worker has closed.
pub(crate) fn closed() -> Status {
    Status::unavailable("the worker has closed the stream")
}
