//! How much a worker may store over time, in records and in bytes: what is under way is bounded elsewhere, and says nothing of a day.
//!
//! *Invariant:* what is stored is paid for when it is known how much that is, so nothing that was let in is refused half-way. Whoever has
//! drawn more than there was waits until it has come back, and has paid nothing meanwhile. Pieces of outputs wait first: they are in
//! files of the worker, and what a command prints delays no call.
//!
//! A library that limits rates wants to know beforehand how much is drawn: of a message that is known when it has been read.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// So much of what comes in a second may come at once after a silence: so many seconds of it.
const BURST: Duration = Duration::from_secs(60);

/// How long pieces of outputs wait before anything else does.
const RESERVED: Duration = Duration::from_secs(1);

/// How much each principal may store at one gateway, in a second, on average.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreRate {
    pub(crate) records: u32,
    pub(crate) bytes: u64,
}

/// What is left to a principal of one of the two.
struct Meter {
    key: &'static str,
    per_second: u64,
    /// When all that was drawn has come back.
    even: Instant,
}

impl Meter {
    fn new(key: &'static str, per_second: u64, now: Instant) -> Self {
        Self {
            key,
            per_second: per_second.max(1),
            even: now.checked_sub(BURST).unwrap_or(now),
        }
    }

    fn draw(&mut self, amount: usize, now: Instant) {
        let nanos = amount as u128 * 1_000_000_000 / u128::from(self.per_second);
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let earliest = now.checked_sub(BURST).unwrap_or(self.even);
        self.even = self.even.max(earliest) + time;
    }
}

/// What a principal may still store.
pub(crate) struct Allowance(Mutex<[Meter; 2]>);

impl Allowance {
    pub(crate) fn new(rate: StoreRate) -> Self {
        let now = Instant::now();
        Self(Mutex::new([
            Meter::new("limits.max_worker_records_per_second", rate.records.into(), now),
            Meter::new("limits.max_worker_bytes_per_second", rate.bytes, now),
        ]))
    }

    /// Counts records that are stored.
    pub(crate) fn draw_records(&self, count: usize) {
        let [records, _] = &mut *self.0.lock();
        records.draw(count, Instant::now());
    }

    /// Counts bytes that are stored.
    pub(crate) fn draw_bytes(&self, count: usize) {
        let [_, bytes] = &mut *self.0.lock();
        bytes.draw(count, Instant::now());
    }

    /// Says whether all that was drawn has come back, so that a new one is the same.
    pub(crate) fn is_whole(&self) -> bool {
        let now = Instant::now();
        self.0
            .lock()
            .iter()
            .all(|meter| now.saturating_duration_since(meter.even) >= BURST)
    }

    /// Returns the key of what is missing longest, and how much of it there is in a second.
    pub(crate) fn tightest(&self) -> (&'static str, u64) {
        let [records, bytes] = &*self.0.lock();
        let tightest = if records.even > bytes.even { records } else { bytes };
        (tightest.key, tightest.per_second)
    }

    /// Waits until something may be stored again, by an RPC of this name.
    pub(crate) async fn wait_for(&self, rpc: &str) {
        let reserved = match rpc {
            "AppendOutput" => Duration::ZERO,
            _ => RESERVED,
        };
        loop {
            let even = self.0.lock().iter().map(|meter| meter.even).max();
            let left = even.map_or(Duration::ZERO, |even| even.saturating_duration_since(Instant::now()));
            let wait = left.saturating_sub(reserved);
            if wait.is_zero() {
                return;
            }
            sleep(wait).await;
        }
    }
}

/// Says whether an RPC stores something. One that is not named here does.
pub(crate) fn stores(rpc: &str) -> bool {
    let only_reads = ["Get", "List", "Read", "Find"].iter().any(|verb| rpc.starts_with(verb));
    !only_reads && !matches!(rpc, "RenewLease" | "Release" | "Follow")
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const RATE: StoreRate = StoreRate {
        records: 10,
        bytes: 1_000,
    };

    /// Returns how long an RPC has to wait.
    async fn waited(allowance: &Allowance, rpc: &str) -> Duration {
        let before = Instant::now();
        allowance.wait_for(rpc).await;
        before.elapsed()
    }

    fn about(time: Duration, seconds: f64) -> bool {
        (time.as_secs_f64() - seconds).abs() < 0.01
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_drawn_comes_back() {
        let burst = BURST.as_secs() as usize;
        for way in ["records", "bytes"] {
            let draw = |allowance: &Allowance, seconds: usize| match way {
                "records" => allowance.draw_records(10 * seconds),
                _ => allowance.draw_bytes(1_000 * seconds),
            };
            let allowance = Allowance::new(RATE);
            draw(&allowance, burst);
            assert!(waited(&allowance, "AppendOutput").await.is_zero(), "{way}");
            draw(&allowance, 3);
            // What is under way has been let in; what comes next waits.
            let never = timeout(Duration::from_millis(500), allowance.wait_for("CreateCall")).await;
            assert!(never.is_err(), "{way}");
            let time = waited(&allowance, "CreateCall").await;
            assert!(about(time, 1.5), "{way}: {time:?}");
            let time = waited(&allowance, "AppendOutput").await;
            assert!(about(time, 1.0), "{way}: {time:?}");
            // No silence is worth more than a burst.
            sleep(100 * BURST).await;
            draw(&allowance, burst + 2);
            let time = waited(&allowance, "AppendOutput").await;
            assert!(about(time, 2.0), "{way}: {time:?}");
        }
    }

    #[test]
    fn what_only_reads_is_free() {
        for rpc in [
            "GetCall",
            "ListCalls",
            "ReadOutput",
            "FindNamesakes",
            "RenewLease",
            "Release",
            "Follow",
        ] {
            assert!(!stores(rpc), "{rpc}");
        }
        for rpc in [
            "Bind",
            "CreateCall",
            "AppendEvents",
            "StoreNotes",
            "AppendOutput",
            "RecordPart",
        ] {
            assert!(stores(rpc), "{rpc}");
        }
    }
}
