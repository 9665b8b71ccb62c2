//! How often it is said that something fails again and again: a store that is away, a gateway that does not answer.
//!
//! *Invariant:* once when it begins, once a minute while it lasts, and once when it is over, however often it is tried.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::StoreError;

/// How often it is said that it lasts.
const TOLD: Duration = Duration::from_secs(60);

/// Something that may fail for a while.
#[derive(Debug, Default)]
pub struct Outage(Mutex<Option<Since>>);

#[derive(Clone, Copy, Debug)]
struct Since {
    begun: Instant,
    told: Instant,
}

impl Outage {
    /// Takes note of a failure. Returns for how long it has failed if that is to be said now.
    pub fn fails(&self) -> Option<Duration> {
        self.fails_at(Instant::now())
    }

    fn fails_at(&self, now: Instant) -> Option<Duration> {
        let mut since = self.0.lock();
        let Some(since) = since.as_mut() else {
            *since = Some(Since { begun: now, told: now });
            return Some(Duration::ZERO);
        };
        if now.duration_since(since.told) < TOLD {
            return None;
        }
        since.told = now;
        Some(now.duration_since(since.begun))
    }

    /// Takes note that it works. Returns for how long it has failed, if it had.
    pub fn is_over(&self) -> Option<Duration> {
        self.0.lock().take().map(|since| since.begun.elapsed())
    }

    /// Returns for how long it has failed, if it does.
    pub fn lasts(&self) -> Option<Duration> {
        self.0.lock().as_ref().map(|since| since.begun.elapsed())
    }
}

/// Says what failed. That the store is away is told by whoever watches it, and so is here for those who look closely.
pub fn tell(error: &StoreError, what: &str) {
    let cause = error as &dyn std::error::Error;
    match matches!(error, StoreError::Unavailable(_)) {
        true => tracing::debug!(error = cause, "{what}"),
        false => tracing::error!(error = cause, "{what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_told_once_a_minute() {
        let (outage, start) = (Outage::default(), Instant::now());
        let told = |seconds: u64| outage.fails_at(start + Duration::from_secs(seconds));
        assert_eq!(told(0), Some(Duration::ZERO));
        assert_eq!((told(1), told(59)), (None, None));
        assert_eq!(told(60), Some(Duration::from_secs(60)));
        assert_eq!((told(61), told(119)), (None, None));
        assert_eq!(told(130), Some(Duration::from_secs(130)));
        assert!(outage.lasts().is_some() && outage.is_over().is_some());
        assert!(outage.is_over().is_none() && outage.lasts().is_none());
        assert_eq!(told(200), Some(Duration::ZERO));
    }
}
