//! How long and how often a lost connection is tried again.
//!
//! Where an RPC is called it is said whether it is repeated: by `unary!`, `list!`, `Client::retry` and requests that
//! name their call. Those are the ones that the contract marks as idempotent or whose comment says that they may be retried.
//!
//! *Invariant:* attempts are bounded by time, and by number where that is set; a success starts the count anew.

use std::time::{Duration, Instant};

use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use crate::error::{reason, retry_after};

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The reason that a gateway gives whose database is away.
const STORE_UNAVAILABLE: &str = "STORE_UNAVAILABLE";

/// Who waits longer than this is told why.
const SILENCE: Duration = Duration::from_secs(2);

/// The longest silence on a stream of the service is a heartbeat of 15 seconds; after three of them and some
/// tolerance the connection counts as lost.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(3 * 15 + 5);

/// Returns how long to wait before an attempt, the first being 1.
pub fn backoff(attempt: u32) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(2u32.saturating_pow(attempt.min(16)));
    doubled.min(MAX_BACKOFF)
}

/// Returns the next message of a stream, `None` at its end. A stream on which nothing is heard for too long is lost.
pub(crate) async fn next_message<T>(
    stream: &mut (impl Stream<Item = Result<T, Status>> + Unpin),
) -> Result<Option<T>, Status> {
    match tokio::time::timeout(STALL_TIMEOUT, stream.next()).await {
        Ok(message) => message.transpose(),
        Err(_) => Err(Status::unavailable("nothing was heard for three heartbeats")),
    }
}

/// The bounds of a client.
#[derive(Clone, Debug)]
pub(crate) struct RetryLimits {
    /// For what has not worked yet.
    pub(crate) first: Duration,
    /// For what has worked before.
    pub(crate) again: Duration,
    /// How many attempts in a row.
    pub(crate) attempts: u32,
    /// For what a gateway refuses because its database is away, if that has another bound.
    pub(crate) store: Option<Duration>,
    /// Whether a service that is too busy is tried again after the delay that it asks for.
    pub(crate) waits_when_busy: bool,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(15),
            again: Duration::from_secs(120),
            attempts: u32::MAX,
            store: None,
            waits_when_busy: true,
        }
    }
}

/// Counts failures in a row.
#[derive(Debug)]
pub(crate) struct Patience {
    limits: RetryLimits,
    has_worked: bool,
    failures: u32,
    since: Instant,
    told: bool,
}

impl Patience {
    pub(crate) fn new(limits: &RetryLimits) -> Self {
        Self {
            limits: limits.clone(),
            has_worked: false,
            failures: 0,
            since: Instant::now(),
            told: false,
        }
    }

    pub(crate) fn succeeded(&mut self) {
        self.has_worked = true;
        self.failures = 0;
    }

    /// Returns whether there was a success at all.
    pub(crate) fn has_worked(&self) -> bool {
        self.has_worked
    }

    /// Returns how many attempts were made after the first failure.
    pub(crate) fn attempts(&self) -> u32 {
        self.failures.saturating_sub(1)
    }

    /// Returns how long to wait before the next attempt; `None` when it is time to give up.
    pub(crate) fn pause(&mut self, status: &Status) -> Option<Duration> {
        if self.failures == 0 {
            self.since = Instant::now();
            self.told = false;
        }
        self.failures = self.failures.saturating_add(1);
        let limit = if self.has_worked {
            self.limits.again
        } else {
            self.limits.first
        };
        let is_store = || reason(status).as_deref() == Some(STORE_UNAVAILABLE);
        let limit = match self.limits.store {
            Some(store) if is_store() => limit.min(store),
            Some(_) | None => limit,
        };
        let pause = jittered(backoff(self.failures)).max(retry_after(status).unwrap_or_default());
        let is_over = self.failures > self.limits.attempts || self.since.elapsed() + pause > limit;
        if !is_over && !self.told && self.since.elapsed() + pause > SILENCE {
            self.told = true;
            tracing::warn!(why = status.message(), "no answer yet; trying again");
        }
        (!is_over).then_some(pause)
    }
}

/// Takes up to half of a pause off, so that many clients do not come back at the same moment.
fn jittered(pause: Duration) -> Duration {
    let random = uuid::Uuid::now_v7().as_u128() % 1024;
    let part = u32::try_from(random).unwrap_or_default();
    pause - pause / 2 * part / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_bounded() {
        let waits: Vec<_> = (1..=8).map(backoff).collect();
        assert!(waits.is_sorted());
        assert_eq!(waits[0], Duration::from_millis(200));
        assert_eq!(backoff(u32::MAX), MAX_BACKOFF);
        for pause in waits {
            let jittered = jittered(pause);
            assert!(jittered <= pause && jittered >= pause / 2, "{jittered:?} of {pause:?}");
        }
    }

    #[test]
    fn attempts_are_bounded_until_a_success() {
        let limits = RetryLimits {
            attempts: 2,
            ..RetryLimits::default()
        };
        let mut patience = Patience::new(&limits);
        let status = Status::unavailable("gone");
        let tries = |patience: &mut Patience| (0..3).map(|_| patience.pause(&status).is_some()).collect::<Vec<_>>();
        assert_eq!(tries(&mut patience), [true, true, false]);
        assert_eq!(patience.attempts(), 2);
        patience.succeeded();
        assert_eq!(tries(&mut patience), [true, true, false]);
    }
}
