//! How much of the workers a gateway has under way: requests, and bytes of what they send.
//!
//! *Invariant:* who is no worker is refused before anything is read, and what is too much before all of it is. Each principal has turns
//! of its own, which it gives back when its answer was taken: however many requests one makes at once, and however slowly it takes the
//! answers, the others find the store as busy as before. Renewals have turns of their own: they do not wait behind anything.
//!
//! Of those whose message is read, fewer are at the store at once than that has connections: so some are left to the others. What is
//! slow on the way takes none.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Extensions, Status};
use toolgate_contract::cluster::ledger_service_server::LedgerServiceServer;
use toolgate_ledger::wire::{self, MAX_MESSAGE_BYTES};
use toolgate_store::StoreError;
use tower::Service as _;

use crate::ledger_access::{self, MAX_RECORD_BYTES};
use crate::ledger_limit::InTime;

/// Requests of one principal that are under way, and renewals.
const MAX_REQUESTS: usize = 128;

/// Requests of one principal that are at the store: three quarters of its connections.
const MAX_AT_STORE: usize = 12;

/// Bytes of one principal's requests that are under way: of the longest message there are two.
const MAX_BYTES: usize = 2 * MAX_MESSAGE_BYTES + (1 << 20);

/// How long a request waits for its turn. With the time that the store has, that is less than a worker waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a message that has a record, a prompt or notes in it, beside those.
const BESIDE_RECORD: usize = 1 << 20;

/// Bytes of any other message: a piece of an output, or the names of all workspaces that a worker may have.
const MAX_SMALL_BYTES: usize = 4 << 20;

const RENEWAL: &str = "RenewLease";

/// Returns how long the message of an RPC may be.
fn most_bytes(rpc: &str) -> usize {
    match rpc {
        "CreateCall" | "AppendEvents" => MAX_MESSAGE_BYTES,
        "OpenPrompt" => 2 * MAX_RECORD_BYTES + BESIDE_RECORD,
        "ReplaceAsker" | "EndPrompt" | "StoreNotes" | "RecordChanges" => MAX_RECORD_BYTES + BESIDE_RECORD,
        _ => MAX_SMALL_BYTES,
    }
}

/// What one principal has under way.
struct Share {
    principal: String,
    requests: Arc<Semaphore>,
    renewals: Arc<Semaphore>,
    at_store: Arc<Semaphore>,
    bytes: AtomicUsize,
}

/// What a request carries that has to wait for its turn at the store.
#[derive(Clone)]
pub(crate) struct AtStore(Arc<Semaphore>);

impl AtStore {
    /// Waits for the turn that a request needs; none if it needs none.
    pub(crate) async fn turn(extensions: &Extensions) -> Option<OwnedSemaphorePermit> {
        let Self(turns) = extensions.get::<Self>()?.clone();
        turns.acquire_owned().await.ok()
    }
}

impl Share {
    fn new(principal: &str) -> Arc<Self> {
        Arc::new(Self {
            principal: principal.to_owned(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            renewals: Arc::new(Semaphore::new(MAX_REQUESTS)),
            at_store: Arc::new(Semaphore::new(MAX_AT_STORE)),
            bytes: AtomicUsize::new(0),
        })
    }

    /// Waits for a turn; none is needed to follow, which asks the store for nothing.
    async fn turn(&self, rpc: &str) -> Result<Option<OwnedSemaphorePermit>, Status> {
        let turns = match rpc {
            "Follow" => return Ok(None),
            RENEWAL => &self.renewals,
            _ => &self.requests,
        };
        match timeout(PATIENCE, Arc::clone(turns).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            Ok(Err(_)) | Err(_) => Err(busy(format!(
                "{MAX_REQUESTS} requests of {} are under way at this gateway: send fewer at once, or give each worker an \
                 identity of its own",
                self.principal
            ))),
        }
    }
}

/// Says that something is too much now, and may be tried again.
fn busy(problem: String) -> Status {
    let status = wire::refusal(&StoreError::Unavailable(problem));
    Status::with_metadata(
        Code::ResourceExhausted,
        status.message().to_owned(),
        status.metadata().clone(),
    )
}

/// The ledger, with what each principal has under way.
#[derive(Clone)]
pub(crate) struct Loaded {
    service: LedgerServiceServer<InTime>,
    shares: Arc<Shares>,
}

/// What each principal has under way that has anything: who may come changes while the gateway runs.
#[derive(Default)]
struct Shares {
    all: Mutex<HashMap<String, Weak<Share>>>,
}

impl Shares {
    /// Returns the share of a principal. It is one as long as somebody has it.
    fn of(&self, principal: &str) -> Arc<Share> {
        let mut all = self.all.lock();
        if let Some(share) = all.get(principal).and_then(Weak::upgrade) {
            return share;
        }
        let share = Share::new(principal);
        if all.len() == all.capacity() {
            // Before it grows: most who came once have nothing under way.
            all.retain(|_, share| share.strong_count() > 0);
        }
        all.insert(principal.to_owned(), Arc::downgrade(&share));
        share
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Loaded {
    pub(crate) fn new(service: LedgerServiceServer<InTime>) -> Self {
        Self {
            service,
            shares: Arc::default(),
        }
    }

    /// Answers a request for an RPC of the ledger.
    pub(crate) fn call(&self, rpc: &str, mut request: Request<Body>) -> Answering {
        let share = ledger_access::worker(request.extensions()).map(|caller| self.shares.of(&caller.id()));
        let (mut service, rpc) = (self.service.clone(), rpc.to_owned());
        Box::pin(async move {
            let answer = async {
                let share = share?;
                let turn = share.turn(&rpc).await?;
                if rpc != RENEWAL {
                    request.extensions_mut().insert(AtStore(Arc::clone(&share.at_store)));
                }
                let taken = Arc::new(Taken::by(Arc::clone(&share)));
                let request = request.map(|body| {
                    Body::new(Measured {
                        body,
                        left: most_bytes(&rpc),
                        most: most_bytes(&rpc),
                        taken: Arc::clone(&taken),
                    })
                });
                let answer = match service.call(request).await {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                };
                Ok(answer.map(|body| {
                    Body::new(Kept {
                        body,
                        _taken: (turn, share),
                    })
                }))
            };
            let answer: Result<Response<Body>, Status> = answer.await;
            Ok(answer.unwrap_or_else(|status| status.into_http()))
        })
    }
}

/// Bytes that a request has brought; they count until it is answered.
struct Taken {
    share: Arc<Share>,
    bytes: AtomicUsize,
}

impl Taken {
    fn by(share: Arc<Share>) -> Self {
        Self {
            share,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Counts bytes; they count also if they are too many, until the request is over.
    fn add(&self, bytes: usize) -> Result<(), Status> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let before = self.share.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= MAX_BYTES {
            return Ok(());
        }
        Err(busy(format!(
            "requests of {} with more than {MAX_BYTES} bytes are under way at this gateway: send less at once",
            self.share.principal
        )))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.share.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// The body of a request, which ends with a status when it becomes too long.
struct Measured {
    body: Body,
    left: usize,
    most: usize,
    taken: Arc<Taken>,
}

impl http_body::Body for Measured {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let bytes = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => 0,
        };
        let Some(left) = self.left.checked_sub(bytes) else {
            let most = self.most;
            let problem = format!("the message is too long: expected at most {most} bytes");
            return Poll::Ready(Some(Err(wire::refusal(&StoreError::Full(problem)))));
        };
        self.left = left;
        Poll::Ready(match self.taken.add(bytes) {
            Ok(()) => frame,
            Err(status) => Some(Err(status)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, with the turn that it took, and with the share, which must be one until that is given back.
struct Kept {
    body: Body,
    _taken: (Option<OwnedSemaphorePermit>, Arc<Share>),
}

impl http_body::Body for Kept {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
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
    use super::*;

    #[tokio::test]
    async fn one_principal_has_so_many_turns_and_the_others_theirs() {
        let (one, other) = (Share::new("token:one"), Share::new("token:other"));
        let mut turns = Vec::new();
        for _ in 0..MAX_REQUESTS {
            turns.push(one.turn("AppendEvents").await.unwrap());
        }
        let refused = one.turn("ListCalls").await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().contains("token:one"), "{refused:?}");
        // The worker tries it again.
        assert!(matches!(wire::of_refusal(&refused), Some(StoreError::Unavailable(_))));
        for rpc in [RENEWAL, "Follow"] {
            assert!(one.turn(rpc).await.is_ok(), "{rpc}");
        }
        assert!(other.turn("AppendEvents").await.is_ok());
        turns.pop();
        assert!(one.turn("ListCalls").await.is_ok());
    }

    #[test]
    fn who_has_nothing_under_way_is_forgotten() {
        let shares = Shares::default();
        let one = shares.of("token:one");
        for number in 0..1_000 {
            shares.of(&format!("token:{number}"));
        }
        assert!(Arc::ptr_eq(&one, &shares.of("token:one")));
        assert!(shares.all.lock().len() < 10);
    }

    #[test]
    fn bytes_count_until_their_request_is_over() {
        let share = Share::new("token:one");
        let first = Taken::by(Arc::clone(&share));
        first.add(MAX_BYTES).unwrap();
        let second = Taken::by(Arc::clone(&share));
        let refused = second.add(1).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        drop(second);
        drop(first);
        Taken::by(Arc::clone(&share)).add(MAX_BYTES).unwrap();
        assert_eq!(share.bytes.load(Ordering::Relaxed), 0);
    }
}
