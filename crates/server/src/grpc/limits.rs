//! How much may come from whom: requests per second, and streams that are open.
//!
//! *Invariant:* decided before a request is read, and after it is known whose it is. What is refused costs nothing but the
//! answer; a principal that is silent is forgotten.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use tonic::Status;
use tonic::codegen::http::{Method, Request};
use toolgate_contract as proto;
use toolgate_telemetry::Metrics;

use super::mcp::PATH as MCP_PATH;
use super::{measure, sandbox_paths, status};

/// Where opened ports are, whose requests count as streams.
pub const PORTS_PATH: &str = "/ports/";

/// What workers store and read, whose rate nobody limits: it grows with that of the calls, which is limited, and to refuse it would
/// lose what has been done.
const LEDGER_PATH: &str = "/toolgate.cluster.v1.LedgerService/";

/// Principals that the rate is remembered of before those that were silent are forgotten.
const PRINCIPALS_REMEMBERED: usize = 1024;

/// How much may come; by default as much as there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficLimits {
    /// Requests of one principal per second, on average.
    pub requests_per_second: Option<u32>,
    /// Requests of one principal at once.
    pub request_burst: Option<u32>,
    /// Open streams.
    pub streams: usize,
    /// Those of one principal.
    pub streams_per_principal: Option<usize>,
    /// RPCs under way on one connection.
    pub streams_per_connection: u32,
}

impl Default for TrafficLimits {
    fn default() -> Self {
        Self {
            requests_per_second: None,
            request_burst: None,
            streams: usize::MAX,
            streams_per_principal: None,
            streams_per_connection: u32::MAX,
        }
    }
}

/// What comes.
pub struct Traffic {
    limits: TrafficLimits,
    rate: Option<Rate>,
    /// The paths of RPCs that stream.
    streaming: BTreeSet<String>,
    /// Streams that are open, by principal.
    open: Mutex<Open>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Open {
    all: usize,
    by_principal: HashMap<Arc<str>, usize>,
}

struct Rate {
    clock: DefaultClock,
    limiter: RateLimiter<Arc<str>, HashMapStateStore<Arc<str>>, DefaultClock>,
    /// At how many principals those that were silent are forgotten.
    remembered: AtomicUsize,
}

impl Rate {
    fn new(limits: &TrafficLimits) -> Option<Self> {
        let per_second = limits.requests_per_second.and_then(NonZeroU32::new)?;
        let burst = limits.request_burst.and_then(NonZeroU32::new).unwrap_or(per_second);
        let clock = DefaultClock::default();
        let quota = Quota::per_second(per_second).allow_burst(burst);
        Some(Self {
            limiter: RateLimiter::new(quota, HashMapStateStore::default(), clock.clone()),
            clock,
            remembered: AtomicUsize::new(PRINCIPALS_REMEMBERED),
        })
    }

    /// Counts a request, or says after how long one may come.
    fn check(&self, principal: &Arc<str>) -> Result<(), Duration> {
        if self.limiter.len() > self.remembered.load(Ordering::Relaxed) {
            self.limiter.retain_recent();
            self.limiter.shrink_to_fit();
            // Who is left has come a moment ago; looking at all of them again must be worth it.
            let next = self.limiter.len().saturating_mul(2).max(PRINCIPALS_REMEMBERED);
            self.remembered.store(next, Ordering::Relaxed);
        }
        let now = self.clock.now();
        self.limiter
            .check_key(principal)
            .map_err(|until| until.wait_time_from(now))
    }
}

impl Traffic {
    /// Makes what counts for one server.
    pub fn new(limits: TrafficLimits, metrics: Arc<Metrics>) -> Arc<Self> {
        let descriptors = [
            proto::cluster::DESCRIPTORS,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        ];
        let streaming = descriptors.into_iter().flat_map(measure::names);
        let streaming = streaming
            .filter(|(_, streams)| *streams)
            .map(|(name, _)| format!("/{name}"));
        Arc::new(Self {
            rate: Rate::new(&limits),
            streaming: streaming.collect(),
            open: Mutex::default(),
            limits,
            metrics,
        })
    }

    /// Returns how much may come.
    pub fn limits(&self) -> TrafficLimits {
        self.limits
    }

    /// Returns how many streams are open.
    pub fn open_streams(&self) -> usize {
        self.open.lock().all
    }

    /// Lets a request of a principal in, which may be a worker, or says what it is too much of. What is returned is to be kept
    /// while its stream is open.
    ///
    /// # Errors
    /// A limit; the status says which, and when to try again.
    pub fn admit<B>(
        self: &Arc<Self>,
        (principal, is_worker): (&str, bool),
        request: &Request<B>,
    ) -> Result<Option<Stream>, Status> {
        let is_stream = self.is_stream(request);
        if self.rate.is_none() && !is_stream {
            return Ok(None);
        }
        let is_of_worker = request.uri().path().starts_with(LEDGER_PATH) && is_worker;
        let principal: Arc<str> = principal.into();
        if let Some(rate) = self.rate.as_ref().filter(|_| !is_of_worker) {
            rate.check(&principal).map_err(|wait| self.too_fast(wait))?;
        }
        if is_stream {
            return self.open(principal, is_worker).map(Some);
        }
        Ok(None)
    }

    fn is_stream<B>(&self, request: &Request<B>) -> bool {
        match request.uri().path() {
            MCP_PATH => request.method() != Method::DELETE,
            path => {
                path.starts_with(PORTS_PATH)
                    || self.streaming.contains(path)
                    || sandbox_paths::is_stream(request.method(), path)
            }
        }
    }

    fn open(self: &Arc<Self>, principal: Arc<str>, is_worker: bool) -> Result<Stream, Status> {
        let mut open = self.open.lock();
        let most = self.limits.streams;
        if open.all >= most {
            let what = format!("{most} streams are open, which is as many as limits.max_streams allows");
            return Err(self.too_many("limits.max_streams", most, what));
        }
        let own = open.by_principal.get(&principal).copied().unwrap_or_default();
        if let Some(most) = self.limits.streams_per_principal.filter(|most| own >= *most) {
            let key = "limits.max_streams_per_principal";
            let what = format!("{most} streams of this principal are open, which is as many as {key} allows");
            return Err(self.too_many(key, most, what));
        }
        // A tenth stays for people and for other workers, whatever one worker follows.
        let most = most.saturating_sub(most / 10);
        if own >= most && is_worker {
            let what =
                format!("{own} streams of this worker are open, of those that limits.max_streams allows for all");
            return Err(self.too_many("limits.max_streams", most, what));
        }
        open.all += 1;
        *open.by_principal.entry(principal.clone()).or_default() += 1;
        Ok(Stream {
            traffic: self.clone(),
            principal,
        })
    }

    fn too_many(&self, key: &'static str, most: usize, what: String) -> Status {
        self.metrics.refused(key);
        let problem = format!("{what}; close some, or try again");
        status::exhausted(
            proto::ErrorReason::TooManyStreams,
            key,
            most as u64,
            status::RETRY_DELAY,
            problem,
        )
    }

    fn too_fast(&self, wait: Duration) -> Status {
        let key = "limits.max_requests_per_second";
        self.metrics.refused(key);
        let most = self.limits.requests_per_second.unwrap_or_default();
        let problem = format!("this principal makes more than {most} requests per second ({key})");
        status::exhausted(proto::ErrorReason::TooManyRequests, key, most.into(), wait, problem)
    }
}

/// An open stream; dropping it closes it.
pub struct Stream {
    traffic: Arc<Traffic>,
    principal: Arc<str>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut open = self.traffic.open.lock();
        open.all -= 1;
        if let Some(own) = open.by_principal.get_mut(&self.principal) {
            *own -= 1;
            if *own == 0 {
                open.by_principal.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::StatusExt as _;

    use super::*;

    const EXECUTE: &str = "/toolgate.v1.ToolService/ExecuteTool";
    const GET: &str = "/toolgate.v1.ToolService/GetCall";

    fn post(path: &str) -> Request<()> {
        Request::post(path).body(()).unwrap()
    }

    fn traffic(limits: TrafficLimits) -> Arc<Traffic> {
        Traffic::new(limits, Arc::default())
    }

    fn refused(result: Result<Option<Stream>, Status>, key: &str) -> Duration {
        let status = result.err().expect("it is too much");
        assert_eq!(status.code(), Code::ResourceExhausted);
        let details = status.get_error_details();
        assert_eq!(details.quota_failure().unwrap().violations[0].subject, key);
        assert_eq!(details.error_info().unwrap().metadata["limit"], key);
        details.retry_info().unwrap().retry_delay.unwrap()
    }

    #[test]
    fn a_burst_is_followed_by_patience() {
        let traffic = traffic(TrafficLimits {
            requests_per_second: Some(1),
            request_burst: Some(3),
            ..TrafficLimits::default()
        });
        for _ in 0..3 {
            assert!(traffic.admit(("a", false), &post(GET)).is_ok());
        }
        let wait = refused(
            traffic.admit(("a", false), &post(GET)),
            "limits.max_requests_per_second",
        );
        assert!(wait <= Duration::from_secs(1) && !wait.is_zero(), "{wait:?}");
        assert!(
            traffic.admit(("b", false), &post(GET)).is_ok(),
            "each has a rate of its own"
        );
    }

    #[test]
    fn what_workers_store_is_not_counted() {
        let limits = TrafficLimits {
            requests_per_second: Some(1),
            ..TrafficLimits::default()
        };
        let traffic = Traffic::new(limits, Arc::default());
        let append = post("/toolgate.cluster.v1.LedgerService/AppendEvents");
        for _ in 0..100 {
            assert!(traffic.admit(("token:worker", true), &append).is_ok());
        }
        assert!(traffic.admit(("token:worker", true), &post(GET)).is_ok());
        let key = "limits.max_requests_per_second";
        refused(traffic.admit(("token:worker", true), &post(GET)), key);
        assert!(traffic.admit(("token:person", false), &append).is_ok());
        refused(traffic.admit(("token:person", false), &append), key);
    }

    #[test]
    fn a_worker_leaves_streams_to_others() {
        let limits = TrafficLimits {
            streams: 10,
            ..TrafficLimits::default()
        };
        let traffic = Traffic::new(limits, Arc::default());
        let follow = post("/toolgate.cluster.v1.LedgerService/Follow");
        let open: Vec<_> = (0..9)
            .map(|_| traffic.admit(("token:worker", true), &follow).unwrap())
            .collect();
        refused(traffic.admit(("token:worker", true), &follow), "limits.max_streams");
        assert!(
            traffic
                .admit(("token:person", false), &post(EXECUTE))
                .unwrap()
                .is_some()
        );
        drop(open);
        let all: Vec<_> = (0..10)
            .map(|_| traffic.admit(("token:person", false), &follow).unwrap())
            .collect();
        assert!(all.iter().all(Option::is_some));
    }

    #[test]
    fn the_silent_are_forgotten() {
        let traffic = traffic(TrafficLimits {
            requests_per_second: Some(1_000_000),
            ..TrafficLimits::default()
        });
        for principal in 0..20 * PRINCIPALS_REMEMBERED {
            assert!(traffic.admit((&principal.to_string(), false), &post(GET)).is_ok());
        }
        let remembered = traffic.rate.as_ref().unwrap().limiter.len();
        assert!(remembered < 10 * PRINCIPALS_REMEMBERED, "{remembered}");
    }

    #[test]
    fn streams_count_until_they_are_dropped() {
        let traffic = traffic(TrafficLimits {
            streams: 3,
            streams_per_principal: Some(2),
            ..TrafficLimits::default()
        });
        let open = |principal: &str, request: Request<()>| traffic.admit((principal, false), &request);
        let first = open("a", post(EXECUTE)).unwrap().expect("it is a stream");
        let _second = open("a", post(MCP_PATH)).unwrap().expect("it is a stream");
        refused(open("a", post(EXECUTE)), "limits.max_streams_per_principal");
        assert!(open("a", post(GET)).unwrap().is_none(), "it is none");
        let _third = open("b", post(EXECUTE)).unwrap();
        refused(open("c", post(EXECUTE)), "limits.max_streams");
        drop(first);
        assert!(open("a", post(EXECUTE)).unwrap().is_some());
        assert_eq!(traffic.open.lock().by_principal.len(), 2);
    }
}
