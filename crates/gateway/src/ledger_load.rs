//! How much of the workers a gateway has under way: requests, and bytes of what they send. And how much it lets them store over time.
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
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Extensions, Status};
use toolgate_contract::cluster::ledger_service_server::LedgerServiceServer;
use toolgate_ledger::wire::{self, MAX_MESSAGE_BYTES, MAX_REQUESTS};
use toolgate_postgres::CONNECTIONS;
use toolgate_server::grpc::body::watched;
use toolgate_store::StoreError;
use toolgate_telemetry::Metrics;
use tower::Service as _;

use crate::ledger_access::{self, MAX_RECORD_BYTES};
use crate::ledger_limit::InTime;
use crate::ledger_rate::{Allowance, StoreRate, stores};

/// Requests of one principal that are at the store: three quarters of its connections.
const MAX_AT_STORE: usize = MAX_OF_ALL_AT_STORE / 4 * 3;

/// Requests of all principals that are at the store: as many as it has connections. Behind more, one would wait for a connection for so
/// long that it is given up in the midst of its transaction, and the connection with it; then most work is for nothing.
const MAX_OF_ALL_AT_STORE: usize = CONNECTIONS;

/// How long a request waits for its turn at the store. What is left of the time that a gateway has for an answer is the store's.
const TURN: Duration = Duration::from_millis(1_300);

/// Bytes of one principal's requests that are under way: of the longest message there are two.
const MAX_BYTES: usize = 2 * MAX_MESSAGE_BYTES + (1 << 20);

/// How long a request waits until something may be stored again, and for its turn. With the time that the store has, that is less than a worker waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a message that has a record, a prompt or notes in it, beside those.
const BESIDE_RECORD: usize = 1 << 20;

/// Bytes of any other message: a piece of an output, or the names of all workspaces that a worker may have.
const MAX_SMALL_BYTES: usize = 4 << 20;

const RENEWAL: &str = "RenewLease";

/// Reads what may be in the bucket, for which it waits.
const READING: &str = "ReadOutput";

/// Those of one principal that are under way: they have turns of their own, so that a bucket that is slow keeps nothing else waiting.
const MAX_READING: usize = MAX_AT_STORE / 2;

/// Returns how long the message of an RPC may be.
fn most_bytes(rpc: &str) -> usize {
    match rpc {
        "CreateCall" | "AppendEvents" => MAX_MESSAGE_BYTES,
        "OpenPrompt" => 2 * MAX_RECORD_BYTES + BESIDE_RECORD,
        "ReplaceAsker" | "EndPrompt" | "StoreNotes" | "RecordChanges" => MAX_RECORD_BYTES + BESIDE_RECORD,
        _ => MAX_SMALL_BYTES,
    }
}

/// What one principal has under way, and what it may still store.
struct Share {
    principal: String,
    requests: Arc<Semaphore>,
    renewals: Arc<Semaphore>,
    at_store: Arc<Semaphore>,
    reading: Arc<Semaphore>,
    bytes: AtomicUsize,
    metrics: Arc<Metrics>,
    allowance: Arc<Allowance>,
}

/// What a request carries that has to wait for its turn at the store: after others of its principal, then after those of all.
#[derive(Clone)]
pub(crate) struct AtStore {
    own: Arc<Semaphore>,
    /// None of what is at the store for a small part of its time only.
    all: Option<Arc<Semaphore>>,
}

impl AtStore {
    /// Waits for the turn that a request needs; none if it needs none.
    pub(crate) async fn turn(extensions: &Extensions) -> Result<Vec<OwnedSemaphorePermit>, Status> {
        let Some(Self { own, all }) = extensions.get::<Self>().cloned() else {
            return Ok(Vec::new());
        };
        let turns = async {
            let mut turns = Vec::with_capacity(2);
            for semaphore in std::iter::once(own).chain(all) {
                // It is never closed.
                turns.extend(semaphore.acquire_owned().await.ok());
            }
            turns
        };
        let too_many = |_| busy("too many requests wait for the store of the gateway".to_owned());
        timeout(TURN, turns).await.map_err(too_many)
    }
}

impl Share {
    fn new(principal: &str, rate: StoreRate, metrics: &Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            principal: principal.to_owned(),
            metrics: Arc::clone(metrics),
            allowance: Arc::new(Allowance::new(rate)),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            renewals: Arc::new(Semaphore::new(MAX_REQUESTS)),
            at_store: Arc::new(Semaphore::new(MAX_AT_STORE)),
            reading: Arc::new(Semaphore::new(MAX_READING)),
            bytes: AtomicUsize::new(0),
        })
    }

    /// Lets a request in when it has its turn; none is needed to follow, which asks the store for nothing.
    async fn turn(&self, rpc: &str) -> Result<Option<OwnedSemaphorePermit>, Status> {
        let turns = match rpc {
            "Follow" => return Ok(None),
            RENEWAL => &self.renewals,
            _ => &self.requests,
        };
        let until = Instant::now() + PATIENCE;
        // Before it takes a turn, so that what is only read need not wait for it.
        if stores(rpc) {
            let wait = timeout_at(until, self.allowance.wait_for(rpc)).await;
            wait.map_err(|_| self.stores_too_much())?;
        }
        match timeout_at(until, Arc::clone(turns).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            Ok(Err(_)) | Err(_) => Err(busy(format!(
                "{MAX_REQUESTS} requests of {} are under way at this gateway: send fewer at once, or give each worker an \
                 identity of its own",
                self.principal
            ))),
        }
    }

    /// Returns which turns at the store a request needs.
    fn at_store(&self, rpc: &str, all: Arc<Semaphore>) -> AtStore {
        let (own, all) = match rpc {
            READING => (&self.reading, None),
            _ => (&self.at_store, Some(all)),
        };
        AtStore {
            own: Arc::clone(own),
            all,
        }
    }

    fn stores_too_much(&self) -> Status {
        let (key, most) = self.allowance.tightest();
        self.metrics.refused(key);
        busy(format!(
            "{} stores more at this gateway than {key} allows, {most}: store less, give each worker an identity of its own, or \
             allow more",
            self.principal
        ))
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

/// What each principal has under way, and may store: who may come changes while the gateway runs.
struct Shares {
    all: Mutex<HashMap<String, Arc<Share>>>,
    at_store: Arc<Semaphore>,
    rate: StoreRate,
    metrics: Arc<Metrics>,
}

impl Shares {
    fn of(&self, principal: &str) -> Arc<Share> {
        let mut all = self.all.lock();
        if let Some(share) = all.get(principal) {
            return Arc::clone(share);
        }
        let share = Share::new(principal, self.rate, &self.metrics);
        if all.len() == all.capacity() {
            // Before it grows: most who came once have nothing under way, and owe nothing.
            all.retain(|_, share| Arc::strong_count(share) > 1 || !share.allowance.is_whole());
        }
        all.insert(principal.to_owned(), Arc::clone(&share));
        share
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Loaded {
    pub(crate) fn new(service: LedgerServiceServer<InTime>, rate: StoreRate, metrics: &Arc<Metrics>) -> Self {
        Self {
            service,
            shares: Arc::new(Shares {
                all: Mutex::default(),
                at_store: Arc::new(Semaphore::new(MAX_OF_ALL_AT_STORE)),
                rate,
                metrics: Arc::clone(metrics),
            }),
        }
    }

    /// Answers a request for an RPC of the ledger.
    pub(crate) fn call(&self, rpc: &str, mut request: Request<Body>) -> Answering {
        let share = ledger_access::worker(request.extensions()).map(|caller| self.shares.of(&caller.id()));
        let all = Arc::clone(&self.shares.at_store);
        let (mut service, rpc) = (self.service.clone(), rpc.to_owned());
        Box::pin(async move {
            let answer = async {
                let share = share?;
                let turn = share.turn(&rpc).await?;
                if rpc != RENEWAL {
                    request.extensions_mut().insert(share.at_store(&rpc, all));
                }
                if stores(&rpc) {
                    share.allowance.draw_records(1);
                    request.extensions_mut().insert(Arc::clone(&share.allowance));
                }
                let taken = Arc::new(Taken::by(Arc::clone(&share), stores(&rpc), most_bytes(&rpc)));
                // Counted until the answer is there, and not only until all is read.
                let brought = Arc::clone(&taken);
                let count = move |frame: &Frame<Bytes>| brought.add(frame.data_ref().map_or(0, Bytes::len));
                let request = request.map(|body| watched(body, count));
                let answer = match service.call(request).await {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                };
                Ok(answer.map(|body| {
                    watched(body, move |_| {
                        let _until_it_is_taken = (&turn, &share);
                        Ok(())
                    })
                }))
            };
            let answer: Result<Response<Body>, Status> = answer.await;
            Ok(answer.unwrap_or_else(|status| status.into_http()))
        })
    }
}

/// What a request has brought; its bytes count until it is answered.
struct Taken {
    share: Arc<Share>,
    bytes: AtomicUsize,
    /// How long it may be.
    most: usize,
    /// Whether it is stored.
    is_stored: bool,
}

impl Taken {
    fn by(share: Arc<Share>, is_stored: bool, most: usize) -> Self {
        Self {
            share,
            bytes: AtomicUsize::new(0),
            most,
            is_stored,
        }
    }

    /// Counts bytes; they count also if they are too many, until the request is over.
    fn add(&self, bytes: usize) -> Result<(), Status> {
        let own = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let before = self.share.bytes.fetch_add(bytes, Ordering::Relaxed);
        if own + bytes > self.most {
            let problem = format!("the message is too long: expected at most {} bytes", self.most);
            return Err(wire::refusal(&StoreError::Full(problem)));
        }
        if before + bytes > MAX_BYTES {
            return Err(busy(format!(
                "requests of {} with more than {MAX_BYTES} bytes are under way at this gateway: send less at once",
                self.share.principal
            )));
        }
        if self.is_stored {
            self.share.allowance.draw_bytes(bytes);
        }
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.share.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: StoreRate = StoreRate {
        records: 1_000,
        bytes: 1 << 20,
    };

    fn share(principal: &str) -> Arc<Share> {
        Share::new(principal, RATE, &Arc::default())
    }

    #[tokio::test]
    async fn one_principal_has_so_many_turns_and_the_others_theirs() {
        let (one, other) = (share("token:one"), share("token:other"));
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

    #[tokio::test(start_paused = true)]
    async fn who_gets_no_turn_at_the_store_is_told_before_it_gives_up() {
        let turns = |most: usize| Arc::new(Semaphore::new(most));
        let (own, all) = (turns(MAX_AT_STORE), turns(MAX_OF_ALL_AT_STORE));
        let mut extensions = Extensions::default();
        assert!(AtStore::turn(&extensions).await.unwrap().is_empty());
        extensions.insert(AtStore {
            own: Arc::clone(&own),
            all: Some(Arc::clone(&all)),
        });
        let others = Arc::clone(&all).acquire_many_owned(MAX_OF_ALL_AT_STORE as u32).await;
        let begun = Instant::now();
        let refused = AtStore::turn(&extensions).await.unwrap_err();
        assert_eq!(begun.elapsed(), TURN);
        assert!(matches!(wire::of_refusal(&refused), Some(StoreError::Unavailable(_))));
        assert_eq!(
            own.available_permits(),
            MAX_AT_STORE,
            "it keeps none that it waited with"
        );
        drop(others);
        let turn = AtStore::turn(&extensions).await.unwrap();
        assert_eq!(all.available_permits(), MAX_OF_ALL_AT_STORE - 1);
        drop(turn);
        assert_eq!(all.available_permits(), MAX_OF_ALL_AT_STORE);
    }

    #[tokio::test]
    async fn what_waits_for_the_bucket_takes_no_turn_of_others() {
        let (share, all) = (share("token:one"), Arc::new(Semaphore::new(MAX_OF_ALL_AT_STORE)));
        let turn = async |rpc: &str| {
            let mut extensions = Extensions::default();
            extensions.insert(share.at_store(rpc, Arc::clone(&all)));
            AtStore::turn(&extensions).await
        };
        let mut reading = Vec::new();
        for _ in 0..MAX_READING {
            reading.push(turn(READING).await.unwrap());
        }
        let mut others = Vec::new();
        for _ in 0..MAX_AT_STORE {
            others.push(turn("AppendEvents").await.unwrap());
        }
        assert_eq!(all.available_permits(), MAX_OF_ALL_AT_STORE - MAX_AT_STORE);
    }

    #[test]
    fn who_has_nothing_under_way_is_forgotten() {
        let shares = Shares {
            all: Mutex::default(),
            at_store: Arc::new(Semaphore::new(MAX_OF_ALL_AT_STORE)),
            rate: RATE,
            metrics: Arc::default(),
        };
        let one = shares.of("token:one");
        let owing = Arc::clone(&shares.of("token:owing").allowance);
        owing.draw_records(1_000_000);
        for number in 0..1_000 {
            shares.of(&format!("token:{number}"));
        }
        assert!(Arc::ptr_eq(&one, &shares.of("token:one")));
        assert!(Arc::ptr_eq(&owing, &shares.of("token:owing").allowance));
        assert!(shares.all.lock().len() < 10);
    }

    #[test]
    fn bytes_count_until_their_request_is_over() {
        let share = share("token:one");
        let first = Taken::by(Arc::clone(&share), true, MAX_BYTES);
        first.add(MAX_BYTES).unwrap();
        let second = Taken::by(Arc::clone(&share), true, MAX_BYTES);
        let refused = second.add(1).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        drop(second);
        drop(first);
        Taken::by(Arc::clone(&share), true, MAX_BYTES).add(MAX_BYTES).unwrap();
        assert_eq!(share.bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stores_too_much_waits_and_what_keeps_it_alive_does_not() {
        let (one, other) = (share("token:one"), share("token:other"));
        // As much as a minute brings, and ten seconds more.
        one.allowance.draw_records(70_000);
        for rpc in ["AppendOutput", "CreateCall", "StoreNotes"] {
            let refused = one.turn(rpc).await.unwrap_err();
            assert_eq!(refused.code(), Code::ResourceExhausted);
            assert!(
                refused.message().contains("limits.max_worker_records_per_second"),
                "{refused:?}"
            );
            // The worker tries it again, and takes the store for away meanwhile: it loses nothing.
            assert!(matches!(wire::of_refusal(&refused), Some(StoreError::Unavailable(_))));
            assert!(other.turn(rpc).await.is_ok());
        }
        for rpc in [RENEWAL, "Follow", "GetCall", "Release"] {
            assert!(one.turn(rpc).await.is_ok(), "{rpc}");
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(one.turn("CreateCall").await.is_ok());
    }
}
