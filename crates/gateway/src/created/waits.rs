//! How many requests of a principal wait for workspaces at once.
//!
//! *Invariant:* whoever waits looks into the database again and again; so a principal cannot have any number of them.

use std::time::Duration;

use crate::counts::{Counts, UnderWay};

/// Requests of one principal that wait at once. What is asked for beyond that is begun as well, and answered without a wait.
const WAITS: usize = 64;

/// The requests that wait, of each principal.
#[derive(Default)]
pub(super) struct Waits(Counts);

/// A request that waits, or may not; dropping it makes room.
pub(super) struct Wait(Option<UnderWay>);

impl Waits {
    /// Counts a request of a principal.
    pub(super) fn begin(&self, principal: &str) -> Wait {
        let waits = self.0.begin(principal, |all| match all.get(principal) {
            Some(count) if *count >= WAITS => Err(()),
            Some(_) | None => Ok(()),
        });
        Wait(waits.ok())
    }
}

impl Wait {
    /// Returns for how long a request waits that wants to do so for a time.
    pub(super) fn of(&self, time: Duration) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |_| time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_so_many_waits() {
        let (waits, minute) = (Waits::default(), Duration::from_secs(60));
        let begin = |principal: &str| waits.begin(principal);
        let mut all: Vec<Wait> = (0..WAITS).map(|_| begin("token:a")).collect();
        assert!(all.iter().all(|wait| wait.of(minute) == minute));
        assert_eq!(begin("token:a").of(minute), Duration::ZERO);
        assert_eq!(begin("token:b").of(minute), minute, "others wait");
        all.pop();
        assert_eq!(begin("token:a").of(minute), minute);
        all.clear();
        assert!(waits.0.is_empty(), "nothing is kept of those that are over");
    }
}
