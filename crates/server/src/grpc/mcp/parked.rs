//! Calls that wait for a client to come back: one without sessions is told in the answer to its request what a call needs, and
//! makes the request again with that.
//!
//! *Invariant:* the state that a client hands back is a name that nobody can guess, for one use, of whoever made the call; what
//! it stands for is here. A client that does not come back has left its call, which ends. Until then the call is counted, so
//! that its conversation is not forgotten.

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

struct Waiting {
    following: Box<Following>,
    _counted: CountedCall,
    owner: String,
    what: String,
    since: Instant,
}

/// The calls that wait.
#[derive(Default)]
pub(super) struct Parked {
    /// Never held across an await.
    waiting: Mutex<HashMap<String, Waiting>>,
}

impl Parked {
    /// Keeps a call until its client comes back, and returns what it has to bring. `what` is what it has asked for, and where.
    pub(super) fn park(&self, following: Following, counted: CountedCall, owner: String, what: String) -> String {
        let state = Uuid::new_v4().simple().to_string();
        let waiting = Waiting {
            following: Box::new(following),
            _counted: counted,
            owner,
            what,
            since: Instant::now(),
        };
        // What is dropped ends its call, which is not to be done under the lock.
        let gone: Vec<Waiting> = {
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
    pub(super) fn take(&self, state: &str, owner: &str, what: &str) -> Option<Following> {
        let waiting = {
            let mut all = self.waiting.lock();
            let is_it = all
                .get(state)
                .is_some_and(|waiting| waiting.owner == owner && waiting.what == what);
            if is_it { all.remove(state) } else { None }
        };
        waiting.map(|waiting| *waiting.following)
    }

    /// Ends the calls whose clients have not come back.
    pub(super) fn end_left(&self) {
        let gone: Vec<Waiting> = {
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
