//! Calls that wait for a client to come back: one without sessions is told in the answer to its request what a call needs, and
//! makes the request again with that.
//!
//! *Invariant:* the state that a client hands back is a name that nobody can guess, for one use, of whoever made the call; what
//! it stands for is here, in memory only: when the service ends, the state stands for nothing, and the call ends with it. (Was the
//! service killed, the call waits for an approver, as all do that waited then.) A client that does not come back has left its
//! call, which ends. Until then the call is counted, so that its conversation is not forgotten.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::following::Following;
use super::sessions::CountedCall;
use super::shares::{self, Most};

/// How long a call waits for its client: as long as a person may take to answer.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Calls that wait; beyond that old ones end, of one principal its own.
const MAX_PARKED: Most = Most {
    of_one: 32,
    of_all: 256,
};

/// A call that waits. Dropped, it ends.
pub(super) struct Held {
    pub(super) following: Following,
    pub(super) _counted: CountedCall,
}

struct Waiting<C> {
    call: Box<C>,
    owner: String,
    what: String,
    since: Instant,
}

/// The calls that wait.
pub(super) struct Parked<C = Held> {
    /// Never held across an await.
    waiting: Mutex<HashMap<String, Waiting<C>>>,
}

impl<C> Default for Parked<C> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
        }
    }
}

impl<C> Parked<C> {
    /// Keeps a call until its client comes back, and returns what it has to bring. `what` is what it has asked for, and where.
    pub(super) fn park(&self, call: C, owner: String, what: String) -> String {
        let state = Uuid::new_v4().simple().to_string();
        let waiting = Waiting {
            call: Box::new(call),
            owner,
            what,
            since: Instant::now(),
        };
        // What is dropped ends its call, which is not to be done under the lock.
        let gone: Vec<Waiting<C>> = {
            let mut all = self.waiting.lock();
            all.insert(state.clone(), waiting);
            let those = all
                .iter()
                .map(|(state, waiting)| (state, waiting.owner.as_str(), waiting.since));
            let too_many = shares::too_many(those, MAX_PARKED);
            too_many.iter().filter_map(|state| all.remove(state)).collect()
        };
        drop(gone);
        state
    }

    /// Takes up the call that a state stands for, if it is this one's and of what is asked for again.
    pub(super) fn take(&self, state: &str, owner: &str, what: &str) -> Option<C> {
        let waiting = {
            let mut all = self.waiting.lock();
            let is_it = all
                .get(state)
                .is_some_and(|waiting| waiting.owner == owner && waiting.what == what);
            if is_it { all.remove(state) } else { None }
        };
        waiting.map(|waiting| *waiting.call)
    }

    /// Ends the calls whose clients have not come back.
    pub(super) fn end_left(&self) {
        let gone: Vec<Waiting<C>> = {
            let mut all = self.waiting.lock();
            let left: Vec<String> = all
                .iter()
                .filter(|(_, waiting)| waiting.since.elapsed() >= PATIENCE)
                .map(|(state, _)| state.clone())
                .collect();
            left.iter().filter_map(|state| all.remove(state)).collect()
        };
        drop(gone);
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        drop(std::mem::take(&mut *self.waiting.lock()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A call; the other half of it sees its end.
    fn call() -> (Arc<()>, std::sync::Weak<()>) {
        let call = Arc::new(());
        let seen = Arc::downgrade(&call);
        (call, seen)
    }

    fn park(parked: &Parked<Arc<()>>, owner: &str) -> (String, std::sync::Weak<()>) {
        let (call, seen) = call();
        (parked.park(call, owner.to_owned(), "what".to_owned()), seen)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_taken_up_once_by_whoever_made_it() {
        let parked = Parked::default();
        let (state, seen) = park(&parked, "alice");
        for (state, owner, what) in [
            (state.as_str(), "bob", "what"),
            (state.as_str(), "alice", "something else"),
            (&state[1..], "alice", "what"),
            ("", "alice", "what"),
        ] {
            assert!(parked.take(state, owner, what).is_none(), "{owner} {what}");
        }
        assert!(seen.strong_count() == 1, "nobody else ends it");
        assert!(parked.take(&state, "alice", "what").is_some());
        assert!(parked.take(&state, "alice", "what").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_whose_client_does_not_come_back() {
        let parked = Parked::default();
        let (early, seen_early) = park(&parked, "alice");
        tokio::time::advance(PATIENCE / 2).await;
        let (late, seen_late) = park(&parked, "alice");
        tokio::time::advance(PATIENCE / 2 - Duration::from_secs(1)).await;
        parked.end_left();
        assert_eq!((seen_early.strong_count(), seen_late.strong_count()), (1, 1));
        tokio::time::advance(Duration::from_secs(1)).await;
        parked.end_left();
        assert_eq!((seen_early.strong_count(), seen_late.strong_count()), (0, 1));
        assert!(parked.take(&early, "alice", "what").is_none());
        parked.end();
        assert_eq!(seen_late.strong_count(), 0);
        assert!(parked.take(&late, "alice", "what").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_parks_so_much_that_others_lose_their_calls() {
        let parked = Parked::default();
        let (state, _seen) = park(&parked, "bob");
        let mut calls = Vec::new();
        for _ in 0..2 * MAX_PARKED.of_one {
            tokio::time::advance(Duration::from_secs(1)).await;
            calls.push(park(&parked, "alice").1);
        }
        let alive = calls.iter().filter(|seen| seen.strong_count() == 1).count();
        assert_eq!(alive, MAX_PARKED.of_one);
        assert_eq!(calls[0].strong_count(), 0, "the oldest goes first");
        assert!(parked.take(&state, "bob", "what").is_some());
    }
}
