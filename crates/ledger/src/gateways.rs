//! The gateways that a worker writes through: one is preferred, and another one is tried when it does not answer.
//!
//! *Invariant:* a request is sent until an answer comes or its time is over, and every one but the first says that it is said again. An
//! answer is what a store says; what a gateway that has no store says is none. That the store is away counts as heard of only if every
//! gateway says so: one that alone is cut off from it knows nothing of what the others do.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use toolgate_contract::cluster::ledger_service_client::LedgerServiceClient;
use toolgate_contract::cluster::{FollowRequest, FollowResponse};
use toolgate_store::StoreError;
use toolgate_store::codec::failed;
use toolgate_store::outage::Outage;

use crate::chance::with_chance;
use crate::options::{Identity, LedgerOptions, Line, Way, Ways};
use crate::rpc::Rpc;
use crate::wire::{self, MAX_MESSAGE_BYTES, MAX_REQUESTS};

/// How long a request is tried.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(4);

/// What is said where a gateway does not accept who this worker is.
const NOT_ACCEPTED: &str = "no gateway accepts this worker";

/// How long to wait before the next attempt: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The same after a gateway had no turn to give: it has more to do than it can, and each attempt is one thing more.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(4));

/// How many requests a worker sends at once; more wait here. A gateway refuses those that are too many for it, and what it refuses has to
/// be sent again.
const AT_ONCE: usize = MAX_REQUESTS / 4 * 3;

/// A gateway, and the connection to it.
struct Gateway {
    name: String,
    /// As of [`Way`].
    version: u64,
    line: Arc<Line>,
    /// When the latest request was sent that it has answered with its store being away.
    away: Mutex<Option<Instant>>,
    /// What it said when it did not accept who this worker is, if it does not.
    refused: Mutex<Option<String>>,
    /// For how long it is of no use.
    outage: Outage,
}

/// No gateway has ever accepted this worker: that is for somebody to put right.
#[derive(Debug)]
pub struct NotAccepted(String);

impl fmt::Display for NotAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAccepted {}

/// All gateways.
pub(crate) struct Gateways {
    known: Mutex<Known>,
    /// The one that is tried first.
    preferred: AtomicUsize,
    identity: Option<Identity>,
    /// When the latest request was sent that a store has answered, or all gateways without one.
    reached: Mutex<Instant>,
    /// Whether a gateway has accepted who this worker is. What it shows may be exchanged later, so nothing is final then.
    was_accepted: AtomicBool,
    /// Those that may be under way. Renewals need none: they have turns of their own at a gateway.
    turns: Semaphore,
    /// Cancelled when this run must stop.
    pub(crate) stopped: CancellationToken,
}

const NONE: &str = "no gateway is known: their name has no address";

/// Which gateways are asked when the one that is preferred has no answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// One after the other.
    One,
    /// All at once.
    Everyone,
}

/// Those that are known now.
struct Known {
    ways: Ways,
    all: Arc<[Arc<Gateway>]>,
}

impl Gateway {
    fn of(way: &Way) -> Arc<Self> {
        Arc::new(Self {
            name: way.name.clone(),
            version: way.version,
            line: Arc::clone(&way.line),
            away: Mutex::default(),
            refused: Mutex::default(),
            outage: Outage::default(),
        })
    }
}

/// What became of one attempt.
enum Attempt<A> {
    Answered(A),
    Refused(StoreError),
    /// A gateway has answered that its store is away.
    Away(String),
    /// A gateway has answered that it has too much to do.
    Busy(String),
    /// No gateway has answered.
    Lost(String),
}

impl Gateways {
    pub(crate) fn new(options: &LedgerOptions) -> Self {
        let mut ways = options.gateways.clone();
        let all = ways.borrow_and_update().iter().map(Gateway::of).collect();
        Self {
            known: Mutex::new(Known { ways, all }),
            preferred: AtomicUsize::new(0),
            identity: options.identity.clone(),
            reached: Mutex::new(Instant::now()),
            was_accepted: AtomicBool::new(false),
            turns: Semaphore::new(AT_ONCE),
            stopped: CancellationToken::new(),
        }
    }

    /// Returns the gateways that are there now. One that is gone counts no more, and one that is new has said nothing yet.
    fn all(&self) -> Arc<[Arc<Gateway>]> {
        let mut known = self.known.lock();
        if known.ways.has_changed().unwrap_or_default() {
            let ways = known.ways.borrow_and_update().clone();
            let same = |way: &Way| {
                let is_same = |one: &&Arc<Gateway>| one.name == way.name && one.version == way.version;
                known.all.iter().find(is_same).cloned()
            };
            let all = ways.iter().map(|way| same(way).unwrap_or_else(|| Gateway::of(way)));
            let all: Arc<[_]> = all.collect();
            let names: Vec<&str> = all.iter().map(|gateway| gateway.name.as_str()).collect();
            tracing::info!(gateways = ?names, "the gateways are others now");
            known.all = all;
        }
        Arc::clone(&known.all)
    }

    /// Returns the place of the gateway that is tried first; an empty one if none is known.
    fn first(&self, all: &[Arc<Gateway>]) -> Range<usize> {
        match self.preferred.load(Ordering::Relaxed).checked_rem(all.len()) {
            Some(at) => at..at + 1,
            None => 0..0,
        }
    }

    /// Returns how long ago a request was sent that a gateway has answered.
    pub(crate) fn silence(&self) -> Duration {
        self.reached.lock().elapsed()
    }

    /// Counts the silence from now on: there was nothing to say before.
    pub(crate) fn begin_to_listen(&self) {
        *self.reached.lock() = Instant::now();
    }

    /// Takes note that this run must stop.
    pub(crate) fn stop(&self, why: &str) {
        if !self.stopped.is_cancelled() {
            tracing::error!(why, "this run has lost its workspaces: it must stop");
            self.stopped.cancel();
        }
    }

    /// Sends a request and returns its answer.
    pub(crate) async fn ask<Q: Rpc>(&self, question: Q) -> Result<Q::Answer, StoreError> {
        self.ask_for(PATIENCE, question).await
    }

    /// As [`Self::ask`], tried for so long; once if that is no time at all.
    pub(crate) async fn ask_for<Q: Rpc>(&self, patience: Duration, question: Q) -> Result<Q::Answer, StoreError> {
        self.ask_often((patience, ATTEMPT), question).await
    }

    /// As [`Self::ask_for`], and says how long one attempt may take at most.
    pub(crate) async fn ask_often<Q: Rpc>(
        &self,
        times: (Duration, Duration),
        question: Q,
    ) -> Result<Q::Answer, StoreError> {
        self.ask_until(times, question, Whom::One).await
    }

    /// As [`Self::ask_often`], for what is said to be heard of. When the first gateway has no answer, all are asked at once, and so they
    /// are from then on: that the store is away counts only if each of them says so, and one after the other they might take longer
    /// than the lease.
    pub(crate) async fn ask_everyone<Q: Rpc>(
        &self,
        times: (Duration, Duration),
        question: Q,
    ) -> Result<Q::Answer, StoreError> {
        self.ask_until(times, question, Whom::Everyone).await
    }

    async fn ask_until<Q: Rpc>(
        &self,
        (patience, most): (Duration, Duration),
        mut question: Q,
        whom: Whom,
    ) -> Result<Q::Answer, StoreError> {
        let (begun, most) = (Instant::now(), most.min(ATTEMPT));
        let (mut pause, mut asks_all) = (PAUSES.0, false);
        let longest = match whom {
            Whom::One => PAUSES.1,
            Whom::Everyone => PAUSES.1.max(most / 2),
        };
        loop {
            let turn = self
                .turn(whom, patience.max(most).saturating_sub(begun.elapsed()))
                .await?;
            let left = match patience.is_zero() {
                true => most,
                false => patience.saturating_sub(begun.elapsed()).min(most),
            };
            let all = self.all();
            let asked = match asks_all {
                true => 0..all.len(),
                false => self.first(&all),
            };
            let (why, is_busy) = match self.ask_at_once(&all, asked, left, &question).await {
                Ok(answer) => return answer,
                // Another one may have the store.
                Err(why) => why,
            };
            drop(turn);
            if let Some(error) = self.is_unknown() {
                return Err(error);
            }
            question.say_again();
            if whom == Whom::Everyone && !std::mem::replace(&mut asks_all, true) && all.len() > 1 {
                continue;
            }
            let longest = match is_busy && whom == Whom::One {
                true => {
                    pause = with_chance(pause.max(BUSY_PAUSES.0));
                    BUSY_PAUSES.1
                }
                false => longest,
            };
            if begun.elapsed() + pause >= patience {
                return Err(StoreError::Unavailable(why));
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Waits for so long for the turn that a request needs; none if it needs none.
    async fn turn(&self, whom: Whom, time: Duration) -> Result<Option<SemaphorePermit<'_>>, StoreError> {
        match whom {
            Whom::Everyone => Ok(None),
            Whom::One => match timeout(time, self.turns.acquire()).await {
                Ok(Ok(turn)) => Ok(Some(turn)),
                Ok(Err(_)) | Err(_) => Err(StoreError::Unavailable(format!(
                    "{AT_ONCE} requests of this worker are under way"
                ))),
            },
        }
    }

    /// Sends a request to some gateways at once, and returns what the first of them has answered; else why none has. One that is asked
    /// alone and has no answer is not preferred any more. True with what the last one said if it has too much to do.
    async fn ask_at_once<Q: Rpc>(
        &self,
        all: &[Arc<Gateway>],
        asked: Range<usize>,
        time: Duration,
        question: &Q,
    ) -> Result<Result<Q::Answer, StoreError>, (String, bool)> {
        let (is_alone, first) = (asked.len() == 1, asked.start);
        let asked = all.get(asked).unwrap_or_default().iter().zip(first..);
        let attempts = asked.map(|(gateway, at)| async move { (at, self.attempt(gateway, time, question).await) });
        let mut attempts: FuturesUnordered<_> = attempts.collect();
        let mut why = (NONE.to_owned(), false);
        while let Some((at, attempt)) = attempts.next().await {
            let (problem, is_busy) = match attempt {
                Attempt::Answered(answer) => return Ok(Ok(answer)),
                Attempt::Refused(error) => return Ok(Err(error)),
                Attempt::Busy(problem) => (problem, true),
                Attempt::Away(problem) | Attempt::Lost(problem) => (problem, false),
            };
            if is_alone {
                self.leave(all, at, &problem);
            }
            why = (problem, is_busy);
        }
        Err(why)
    }

    /// Prefers the gateway behind one.
    fn leave(&self, all: &[Arc<Gateway>], at: usize, why: &str) {
        let (Some(gateway), Some(next)) = (all.get(at), (at + 1).checked_rem(all.len())) else {
            return;
        };
        let preferred = self.preferred.load(Ordering::Relaxed);
        let is_this = preferred.checked_rem(all.len()) == Some(at);
        let moved = self
            .preferred
            .compare_exchange(preferred, next, Ordering::Relaxed, Ordering::Relaxed);
        if is_this
            && moved.is_ok()
            && let Some(time) = gateway.outage.fails()
        {
            let (gateway, seconds) = (&gateway.name, time.as_secs());
            tracing::warn!(
                why,
                gateway,
                seconds,
                "a gateway cannot be used; the others are tried, and it is tried again"
            );
        }
    }

    /// Says so if all gateways refuse this worker, and have from the beginning.
    fn is_unknown(&self) -> Option<StoreError> {
        if self.was_accepted.load(Ordering::Relaxed) {
            return None;
        }
        let all = self.all();
        // Where none is known yet, none has refused anything.
        if all.is_empty() {
            return None;
        }
        let refused: Option<Vec<String>> = all.iter().map(|gateway| gateway.refused.lock().clone()).collect();
        Some(failed(NOT_ACCEPTED, NotAccepted(refused?.join("; "))))
    }

    async fn attempt<Q: Rpc>(&self, gateway: &Gateway, time: Duration, question: &Q) -> Attempt<Q::Answer> {
        let mut request = Request::new(question.clone());
        if let Err(error) = self.identify(&mut request).await {
            return Attempt::Lost(error);
        }
        let sent = Instant::now();
        let answer = timeout(time, unary(gateway.line.channel(), request)).await;
        let status = match answer {
            Ok(Ok(answer)) => {
                self.accepts(gateway);
                self.heard(sent);
                if let Some(time) = gateway.outage.is_over() {
                    let (gateway, seconds) = (&gateway.name, time.as_secs());
                    tracing::info!(gateway, seconds, "a gateway can be used again");
                }
                return Attempt::Answered(answer);
            }
            Ok(Err(status)) => status,
            Err(_) => return Attempt::Lost(format!("the gateway {} does not answer", gateway.name)),
        };
        match wire::of_refusal(&status) {
            Some(StoreError::Unavailable(why)) => {
                self.accepts(gateway);
                self.is_away(gateway, sent);
                match status.code() == Code::ResourceExhausted {
                    true => Attempt::Busy(why),
                    false => Attempt::Away(why),
                }
            }
            Some(error) => {
                self.accepts(gateway);
                self.heard(sent);
                Attempt::Refused(error)
            }
            None => self.not_a_store(gateway, &status),
        }
    }

    fn not_a_store<A>(&self, gateway: &Gateway, status: &Status) -> Attempt<A> {
        let mut why = format!("the gateway {}: {}", gateway.name, status.message());
        let mut source = std::error::Error::source(status);
        while let Some(cause) = source {
            why = format!("{why}: {cause}");
            source = cause.source();
        }
        match status.code() {
            Code::PermissionDenied if !self.was_accepted.load(Ordering::Relaxed) => {
                Attempt::Refused(failed(NOT_ACCEPTED, NotAccepted(why)))
            }
            Code::Unauthenticated => {
                *gateway.refused.lock() = Some(why.clone());
                Attempt::Lost(why)
            }
            // Said of this request or this worker: it is not another one a moment later.
            Code::PermissionDenied | Code::Unimplemented | Code::InvalidArgument | Code::OutOfRange => {
                Attempt::Refused(failed("write through a gateway", why))
            }
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => Attempt::Lost(why),
        }
    }

    /// Takes note that a gateway accepts who this worker is.
    fn accepts(&self, gateway: &Gateway) {
        *gateway.refused.lock() = None;
        self.was_accepted.store(true, Ordering::Relaxed);
    }

    /// Takes note that a request which was sent at a moment has been answered.
    fn heard(&self, sent: Instant) {
        let mut reached = self.reached.lock();
        *reached = (*reached).max(sent);
    }

    /// Takes note that a gateway has answered a request that was sent at a moment, and has no store. If all say so, others cannot know
    /// more of this run than that.
    fn is_away(&self, gateway: &Gateway, sent: Instant) {
        let mut away = gateway.away.lock();
        // One that took longer was sent before.
        *away = (*away).max(Some(sent));
        drop(away);
        let all = self.all();
        let all = all.iter().map(|gateway| *gateway.away.lock());
        // Without a time there is one that has not said so yet.
        if let Some(Some(earliest)) = all.min() {
            self.heard(earliest);
        }
    }

    async fn identify<Q>(&self, request: &mut Request<Q>) -> Result<(), String> {
        let Some(identity) = self.identity.clone() else {
            return Ok(());
        };
        let read = tokio::task::spawn_blocking(move || identity()).await;
        let token = read.map_err(|error| error.to_string())?;
        let token = token.map_err(|error| format!("cluster.identity: {error}"))?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, token);
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        Ok(())
    }

    /// Opens a stream that says when prompts or grants may have changed, at the gateway that is preferred.
    pub(crate) async fn follow(&self, workspaces: Vec<String>) -> Result<tonic::Streaming<FollowResponse>, String> {
        let all = self.all();
        let gateway = all.get(self.first(&all)).and_then(<[_]>::first).ok_or(NONE)?;
        let mut request = Request::new(FollowRequest { workspaces });
        self.identify(&mut request).await?;
        let mut client = LedgerServiceClient::new(gateway.line.channel());
        match timeout(ATTEMPT, client.follow(request)).await {
            Ok(Ok(stream)) => Ok(stream.into_inner()),
            Ok(Err(status)) => Err(status.message().to_owned()),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }
}

async fn unary<Q: Rpc>(channel: Channel, request: Request<Q>) -> Result<Q::Answer, Status> {
    let mut client = tonic::client::Grpc::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let ready = client.ready().await;
    ready.map_err(|error| Status::from_error(Box::new(error)))?;
    let path = PathAndQuery::from_static(Q::PATH);
    let answer = client
        .unary(request, path, ProstCodec::<Q, Q::Answer>::default())
        .await?;
    Ok(answer.into_inner())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use toolgate_contract::cluster::RenewLeaseRequest;
    use toolgate_model::InstanceId;

    use super::*;

    #[tokio::test]
    async fn where_no_gateway_is_known_none_has_refused() {
        let options = LedgerOptions::new(Vec::new(), InstanceId::new("run"), PathBuf::new());
        let gateways = Gateways::new(&options);
        // They may have an address a moment later.
        let answer = gateways.ask_for(Duration::ZERO, RenewLeaseRequest::default()).await;
        assert!(
            matches!(&answer, Err(StoreError::Unavailable(why)) if why == NONE),
            "{answer:?}"
        );
    }
}
