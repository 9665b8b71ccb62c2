//! How many requests of a principal wait for workspaces at once.
//!
//! *Invariant:* whoever waits looks into the database again and again; so a principal cannot have any number of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Requests of one principal that wait at once. What is asked for beyond that is begun as well, and answered without a wait.
const WAITS: usize = 64;

/// The requests that wait, of each principal.
#[derive(Default)]
pub(super) struct Waits(Arc<Mutex<HashMap<String, usize>>>);

/// A request that waits, or may not; dropping it makes room.
pub(super) struct Wait {
    principal: String,
    of_all: Option<Arc<Mutex<HashMap<String, usize>>>>,
}

impl Waits {
    /// Counts a request of a principal.
    pub(super) fn begin(&self, principal: String) -> Wait {
        let mut of_all = self.0.lock();
        let count = of_all.entry(principal.clone()).or_default();
        let may_wait = *count < WAITS;
        *count += usize::from(may_wait);
        Wait {
            principal,
            of_all: may_wait.then(|| Arc::clone(&self.0)),
        }
    }
}

impl Wait {
    /// Returns for how long a request waits that wants to do so for a time.
    pub(super) fn of(&self, time: Duration) -> Duration {
        self.of_all.as_ref().map_or(Duration::ZERO, |_| time)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(of_all) = &self.of_all else {
            return;
        };
        let mut of_all = of_all.lock();
        if let Some(count) = of_all.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                of_all.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_so_many_waits() {
        let (waits, minute) = (Waits::default(), Duration::from_secs(60));
        let begin = |principal: &str| waits.begin(principal.to_owned());
        let mut all: Vec<Wait> = (0..WAITS).map(|_| begin("token:a")).collect();
        assert!(all.iter().all(|wait| wait.of(minute) == minute));
        assert_eq!(begin("token:a").of(minute), Duration::ZERO);
        assert_eq!(begin("token:b").of(minute), minute, "others wait");
        all.pop();
        assert_eq!(begin("token:a").of(minute), minute);
        all.clear();
        assert!(waits.0.lock().is_empty(), "nothing is kept of those that are over");
    }
}
